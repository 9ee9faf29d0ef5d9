//! A summary of what a reduction leaves out, which a model writes. Where there is none, the next step is made.

use super::super::because::because;
use super::super::call_timeouts::CallTimeouts;
use super::super::directive::Work;
use super::super::event::ModelReply;
use super::super::failure::Failure;
use super::super::lesson::Lesson;
use super::super::reduce::Summarize;
use super::super::reductions::{Reducing, Summarizer};
use super::super::result::head_of;
use super::super::retry;
use super::super::state::Pending;
use super::Step;
use crate::policy::{ErrorClass, ReduceStep, Setting, estimated_tokens};
use crate::session::{LEFT_OUT, Message, Reduction};

impl Step<'_> {
    /// The host has found what is left out, and what a model is to be asked.
    pub(super) fn ask_summary(&mut self, what: Reducing, mut reduction: Reduction) {
        let rules = self.policy.context();
        let named = match rules.reduce.value.get(what.step) {
            Some(ReduceStep::Summary { model, .. }) => model.clone(),
            _ => None,
        };
        let target = named.or_else(|| self.state.context.targets.get(what.target).cloned());
        let (Some(request), Some(target)) = (reduction.summarize.take(), target) else {
            return self.next_step(what);
        };
        if !self.state.context.targets.contains(&target) {
            self.warn(format!(
                "no summary is written: the run has no model `{target}`; the next step is made"
            ));
            return self.next_step(what);
        }
        let tokens = self.alone(&target, request.tokens);
        let granted = match self.run_budget().grant(&target, tokens, || self.conversation()) {
            Ok(granted) if !self.state.ending.is_now() || !self.run_budget().has_budget() => granted,
            _ => {
                self.warn("no summary is written: the budget of the run is for its final turn; the next step is made");
                return self.next_step(what);
            }
        };
        if request.cut > 0 {
            let cut = request.cut;
            self.warn(format!(
                "some {cut} tokens were cut out of what {target} is to sum up: there is no room"
            ));
        }
        self.state.model_turn.reductions.summary = Some(Box::new(reduction));
        self.state.model_turn.reductions.summarizer =
            Some(Summarizer { target: target.clone(), tokens: request.tokens });
        let policy = self.policy.model(&target);
        let (now, deadline) = (self.state.now, self.deadline());
        let (max_output, lowered) = granted.lowered.clone().unzip();
        self.reserve(granted);
        let summarize = Summarize {
            work: self.state.issue(Pending::Summary(what)),
            turn: self.state.turn,
            target,
            prompt: request.prompt,
            max_output,
            timeout: retry::attempt_timeout(&policy.retry, now, deadline, now),
            timeouts: CallTimeouts::from(&policy.timeouts),
        };
        let fact = format!("{} tokens are to be summed up", request.tokens);
        let shown = Setting::new("summary", rules.reduce.origin);
        let why = because(self.policy, "context.reduce", &shown, [fact]);
        self.ask(Work::Summarize(summarize), [why].into_iter().chain(lowered).collect());
    }

    /// A model has answered: its text is the summary, if it makes the conversation smaller.
    pub(super) fn summarized(&mut self, mut what: Reducing, reply: &ModelReply) {
        if let Some(usage) = reply.usage {
            self.state.usage = self.state.usage.plus(usage);
        }
        self.state.model_turn.reductions.summarizer = None;
        let Some(mut reduction) = self.state.model_turn.reductions.summary.take() else {
            return self.next_step(what);
        };
        let text = reply.text.trim();
        if text.is_empty() {
            self.warn("no summary was written: the reply is empty; the next step is made");
            return self.next_step(what);
        }
        let shown = match self.policy.context().reduce.value.get(what.step) {
            Some(ReduceStep::Summary { most, .. }) if !most.holds(text) => {
                format!("{}…", head_of(text, most.of_prose()))
            }
            _ => text.to_owned(),
        };
        let mut inserted = reduction.splices.iter_mut().flat_map(|splice| &mut splice.insert);
        let place = inserted.find_map(|message| match message {
            Message::User { text, guidance: Some(slug) } if slug == LEFT_OUT => Some(text),
            _ => None,
        });
        if let Some(place) = place {
            *place = format!("{}\n{shown}", place.trim_end());
        }
        // The host counts it before the next call; until then an estimate will do.
        reduction.message_tokens = reduction.message_tokens.saturating_add(estimated_tokens(&shown));
        if reduction.message_tokens >= what.measure.message_tokens {
            self.warn("the summary is no smaller than what it sums up; the next step is made");
            return self.next_step(what);
        }
        self.make(&mut what, "summary", *reduction);
        self.next_step(what);
    }

    /// No model has answered: that is told, and the next step is made. If the request was too large, the next one is not.
    pub(super) fn not_summarized(&mut self, what: Reducing, failure: &Failure) {
        self.state.model_turn.reductions.summary = None;
        let asked = self.state.model_turn.reductions.summarizer.take();
        let class = failure.classified(self.policy).class;
        if let Some(Summarizer { target, tokens }) = asked
            && class == ErrorClass::ContextOverflow
        {
            self.learn(&target, Lesson::of_refusal(self.alone(&target, tokens), failure));
        }
        let message = &failure.message;
        self.warn(format!("no summary was written: {class}: {message}; the next step is made"));
        self.next_step(what);
    }

    /// A request of so many tokens without tools, and what the provider is known to add to it.
    fn alone(&self, target: &str, tokens: u64) -> u64 {
        self.state.models.with_added(target, tokens, false)
    }

    fn next_step(&mut self, mut what: Reducing) {
        what.step = what.step.saturating_add(1);
        self.reduce_for(what);
    }
}
