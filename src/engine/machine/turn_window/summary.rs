//! Summaries of dropped messages, written by a model. Without a summary the next step follows.

use serde::{Deserialize, Serialize};

use super::super::run_parts::RunParts;
use super::super::then::NextMachine;
use super::super::turn_guidance::TurnGuidance;
use super::super::work_table::WorkPurpose;
use super::{TurnWindow, make};
use crate::engine::call_timeouts::CallTimeouts;
use crate::engine::directive::Work;
use crate::engine::event::ModelReply;
use crate::engine::failure::Failure;
use crate::engine::reduce::SummarizeMessages;
use crate::engine::reductions::ReductionInFlight;
use crate::engine::result::head_of;
use crate::engine::retry;
use crate::engine::token_observation::TokenObservation;
use crate::policy::{ErrorClass, ReduceStep, estimated_tokens};
use crate::session::{ContextReduction, LEFT_OUT, Message};

/// The model that writes a summary.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SummaryModel {
    target: String,
    /// The tokens of the request, in the host's count.
    tokens: u64,
}

impl TurnWindow {
    /// Handles the host's selection of dropped messages, and requests the summary.
    pub(super) fn ask_summary(
        &mut self,
        what: ReductionInFlight,
        mut reduction: ContextReduction,
        guidance: &TurnGuidance,
        run: &mut RunParts<'_>,
    ) -> NextMachine {
        let rules = run.policy().context();
        let named = match rules.reduce.value.get(what.step) {
            Some(ReduceStep::Summary { model, .. }) => model.clone(),
            _ => None,
        };
        let target = named.or_else(|| run.targets.get(what.target).cloned());
        let (Some(request), Some(target)) = (reduction.summarize.take(), target) else {
            return self.next_step(what, run);
        };
        // A policy can name a model that this run does not have; the reduction continues with its next step.
        if !run.targets.contains(&target) {
            run.out.warn(format!(
                "no summary is written: the run has no model `{target}`; the next step is made"
            ));
            return self.next_step(what, run);
        }
        // The request has no tools and no conversation, so only its own text is counted.
        let tokens = alone(&target, request.tokens, run);
        let budget = run.run_budget();
        let granted = match budget.grant(&target, tokens, || self.conversation(guidance, run)) {
            // In the final turn the budget is for the report; a summary could use it up.
            Ok(granted) if !run.ending.is_now() || !budget.has_budget() => granted,
            _ => {
                run.out.warn("no summary is written: the budget of the run is for its final turn; the next step is made");
                return self.next_step(what, run);
            }
        };
        // A warning, because a summary of half the text looks like one of the whole.
        if request.cut > 0 {
            let cut = request.cut;
            run.out.warn(format!(
                "some {cut} tokens were cut out of what {target} is to sum up: there is no room"
            ));
        }
        // Kept until the model answers: the conversation stays unchanged before the summary exists.
        self.summary = Some(Box::new(reduction));
        self.summarizer = Some(SummaryModel { target: target.clone(), tokens: request.tokens });
        let policy = run.policy().model(&target);
        let (now, deadline) = (run.out.now, run.deadline());
        let (max_output, lowered) = granted.lowered.clone().unzip();
        run.reserve(granted);
        let (turn, prompt) = (run.turn, request.prompt);
        let summarize = |work| {
            Work::Summarize(SummarizeMessages {
                work,
                turn,
                target,
                prompt,
                max_output,
                timeout: retry::attempt_timeout(&policy.retry, now, deadline, now),
                timeouts: CallTimeouts::from(&policy.timeouts),
            })
        };
        run.ask(WorkPurpose::Summary(what), summarize, lowered.into_iter().collect());
        NextMachine::Host
    }

    /// Handles the reply of the model: its text is the summary, if it makes the conversation smaller.
    pub(in crate::engine) fn on_summary(
        &mut self,
        mut what: ReductionInFlight,
        reply: &ModelReply,
        run: &mut RunParts<'_>,
    ) -> NextMachine {
        self.summarizer = None;
        let Some(mut reduction) = self.summary.take() else { return self.next_step(what, run) };
        let text = reply.text.trim();
        if text.is_empty() {
            run.out.warn("no summary was written: the reply is empty; the next step is made");
            return self.next_step(what, run);
        }
        let shown = match run.policy().context().reduce.value.get(what.step) {
            // Models exceed the requested length; without the cut the summary would fill the freed space.
            Some(ReduceStep::Summary { most, .. }) if !most.holds(text) => {
                format!("{}…", head_of(text, most.of_prose()))
            }
            _ => text.to_owned(),
        };
        let mut inserted = reduction.splices.iter_mut().flat_map(|splice| &mut splice.insert);
        let place = inserted.find_map(|message| match message {
            // The step has inserted this message as the place for the summary.
            Message::User { text, guidance: Some(slug) } if slug == LEFT_OUT => Some(text),
            _ => None,
        });
        if let Some(place) = place {
            *place = format!("{}\n{shown}", place.trim_end());
        }
        // An estimate is sufficient until the host measures before the next call.
        reduction.message_tokens = reduction.message_tokens.saturating_add(estimated_tokens(&shown));
        // Otherwise the reduction would have made the conversation longer.
        if reduction.message_tokens >= what.measure.message_tokens {
            run.out.warn("the summary is no smaller than what it sums up; the next step is made");
            return self.next_step(what, run);
        }
        make(&mut what, "summary", *reduction, run);
        self.next_step(what, run)
    }

    /// Handles a failed request for a summary: a warning is given, and the next step follows. After an overflow the
    /// next request is smaller.
    pub(in crate::engine) fn on_no_summary(
        &mut self,
        what: ReductionInFlight,
        (failure, class): (&Failure, ErrorClass),
        run: &mut RunParts<'_>,
    ) -> NextMachine {
        self.summary = None;
        let asked = self.summarizer.take();
        // The request for the summary was itself too large; its provider's window is still learned.
        if let Some(SummaryModel { target, tokens }) = asked
            && class == ErrorClass::ContextOverflow
        {
            let observation = TokenObservation::of_refusal(alone(&target, tokens, run), failure);
            run.models.learn(&target, observation, run.out.rules.policy);
        }
        let message = &failure.message;
        run.out.warn(format!("no summary was written: {class}: {message}; the next step is made"));
        self.next_step(what, run)
    }
}

/// The tokens of a request without tools plus the known overhead of the provider.
fn alone(target: &str, tokens: u64, run: &RunParts<'_>) -> u64 {
    run.models.with_added(target, tokens, false)
}
