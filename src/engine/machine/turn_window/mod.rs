//! A conversation that is too large for a window: it is reduced before a call, or once after a provider has refused it.

mod fit;
mod summary;

use serde::{Deserialize, Serialize};

pub(in crate::engine) use fit::WindowFit;
use summary::SummaryModel;

use super::model_series::ModelSeries;
use super::run_budget::FinalConversation;
use super::run_parts::RunParts;
use super::then::NextMachine;
use super::turn_guidance::TurnGuidance;
use super::work_table::WorkPurpose;
use crate::engine::because::because;
use crate::engine::directive::{DecisionReason, Note, Work};
use crate::engine::failure::Failure;
use crate::engine::measure::TurnMeasure;
use crate::engine::metric::MetricName;
use crate::engine::reduce::{ContextReduced, ReduceContext, ReducePlan};
use crate::engine::reductions::ReductionInFlight;
use crate::engine::results_room::{RoomForResults, weight};
use crate::engine::room::ContextBudget;
use crate::engine::token_observation::TokenObservation;
use crate::policy::{ContextShare, ContextWindow, ErrorClass, Policy, ReduceStep, Setting};
use crate::session::{ContextReduction, FinalReason, Message, Usage};

/// A reduction that does not come to its target gained nothing if it freed less than this of the window.
// A fiftieth: a step that frees less is due again in the next turn, and pays for a summary each time.
const WORTH_IT: ContextShare = ContextShare::Part(20_000);

/// What a turn remembers of the size of its conversation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(in crate::engine) struct TurnWindow {
    /// Whether the conversation was reduced in this turn because a provider refused it.
    #[serde(default, skip_serializing_if = "crate::session::is_default")]
    asked: bool,
    /// The refusal, while the conversation is reduced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    refusal: Option<Failure>,
    /// What is left out when there is a summary of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    summary: Option<Box<ContextReduction>>,
    /// Which model is asked for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    summarizer: Option<SummaryModel>,
    /// The conversation as it was measured last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    measured: Option<TurnMeasure>,
    /// The tokens of the request that is due, as the host counted them; `None`: it is sent with fewer tools than were
    /// counted, and teaches nothing about the count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    counted: Option<u64>,
}

/// The size of the request.
impl TurnWindow {
    /// Whether nothing is remembered.
    pub(in crate::engine) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// A turn is prepared: its conversation may be reduced for a refusal once more.
    pub(in crate::engine) const fn on_prepared(&mut self) {
        // Once in a turn, since a conversation that is refused again after a reduction is refused for another reason;
        // the next turn is another one.
        self.asked = false;
    }

    /// The conversation as it was measured last.
    pub(in crate::engine) fn measure(&self) -> TurnMeasure {
        self.measured.unwrap_or_default()
    }

    /// The request that is due has so many tokens by the host's count; `None`: fewer tools than were counted are sent.
    pub(in crate::engine) const fn count(&mut self, tokens: Option<u64>) {
        self.counted = tokens;
    }

    /// The conversation that the next attempt, or the final turn, would send.
    pub(in crate::engine) fn conversation(
        &self,
        guidance: &TurnGuidance,
        run: &RunParts<'_>,
    ) -> FinalConversation {
        let counted = self.measured.map_or(0, |measure| run.sent_in_turn(measure).tokens());
        let tokens = counted.saturating_add(run.terms.appended).saturating_add(guidance.tokens());
        FinalConversation { tokens, tools: self.sends_tools() }
    }

    /// A request of so many tokens, and what the provider of a model is known to add to it.
    pub(in crate::engine) fn with_added(&self, target: &str, tokens: u64, run: &RunParts<'_>) -> u64 {
        run.models.with_added(target, tokens, self.sends_tools())
    }

    /// The same, as the provider is going to count it.
    pub(in crate::engine) fn sent(&self, target: &str, tokens: u64, run: &RunParts<'_>) -> u64 {
        run.models.expected(target, self.with_added(target, tokens, run))
    }

    /// A provider has counted the tokens of a request.
    pub(in crate::engine) fn learn_from(
        &self,
        usage: Usage,
        target: &str,
        guidance: &TurnGuidance,
        run: &mut RunParts<'_>,
    ) {
        // Zero is no count but a host that does not measure.
        let Some(counted) = self.counted.filter(|counted| *counted > 0) else { return };
        // Guidance goes with the request and was not in the measurement.
        let counted = self.with_added(target, counted.saturating_add(guidance.tokens()), run);
        run.models.learn(
            target,
            TokenObservation::Counted { counted, reported: usage.input },
            run.out.rules.policy,
        );
    }

    /// A model has replied with calls: what its window has left is shared by their results. `None`: any amount.
    pub(in crate::engine) fn room_for_results(
        &self,
        target: &str,
        reply: &Message,
        calls: usize,
        run: &RunParts<'_>,
    ) -> Option<RoomForResults> {
        // Without a measurement there is nothing to share.
        let measured = self.measured?;
        let message_tokens = measured.message_tokens.saturating_add(weight(reply));
        let measure = TurnMeasure { message_tokens, ..measured };
        let fit = run.fit(target, measure);
        let window = fit.room.and_then(|room| room.for_results(run.policy().context()));
        let sent = self.sent(target, measure.tokens(), run);
        let budget = run.run_budget().left_for_results(target, sent).map(|(tokens, ..)| tokens);
        // The budget leaves less than the window at times: the final turn has to fit after these results.
        let tokens = [window, budget].into_iter().flatten().min()?;
        // In the host's count, because results are cut by it.
        Some(RoomForResults::of(run.models.counted(target, tokens), calls))
    }

    fn sends_tools(&self) -> bool {
        self.measured.is_some_and(|measure| measure.tool_tokens > 0)
    }
}

/// Reductions.
impl TurnWindow {
    /// The conversation is measured: it is reduced if there is too little room for it, or the turn begins.
    pub(in crate::engine) fn begin(&mut self, measure: TurnMeasure, run: &mut RunParts<'_>) -> NextMachine {
        self.measured = Some(measure);
        // A host that keeps its own history may be unable to change it.
        if run.terms.can_reduce()
            && let Some(target) = short_of_room(measure, run)
        {
            let limit = &run.policy().context().give_up_after;
            // A reduction that gains nothing would be made again before every call, and its summary be paid each
            // time.
            if run.turns.in_vain < limit.value.get() {
                let before = measure.message_tokens;
                return self.reduce(
                    ReductionInFlight { measure, before, target, step: 0, refused: false },
                    true,
                    run,
                );
            }
            let fact = format!("{} reductions in a row gained nothing", run.turns.in_vain);
            let why = vec![because(run.policy(), "context.give_up_after", limit, [fact])];
            // The conversation cannot get smaller, so this turn reports what there is.
            if !run.ending.is_now() {
                run.end_with_this_turn(FinalReason::Context, why);
            }
        }
        NextMachine::Choose(measure)
    }

    /// A provider has refused the conversation for its size. What it says of the window is remembered, and once in a turn
    /// the conversation is reduced and sent again. `None`: the failure is one like others.
    pub(in crate::engine) fn on_overflow(
        &mut self,
        failure: &Failure,
        class: ErrorClass,
        series: &ModelSeries,
        run: &mut RunParts<'_>,
    ) -> Option<NextMachine> {
        // Only an overflow is cured by a smaller conversation.
        if class != ErrorClass::ContextOverflow {
            return None;
        }
        let (target, measure) = (series.target(run.targets).cloned()?, self.measured?);
        let sent = run.sent_in_turn(measure).tokens();
        let counted = if sent == 0 { 0 } else { self.with_added(&target, sent, run) };
        // The refusal names the real window or the real size more often than not; both make the next measurement
        // right.
        run.models.learn(&target, TokenObservation::of_refusal(counted, failure), run.out.rules.policy);
        let rules = run.policy().context();
        let another_has_room = || {
            let fits = run.fits(measure);
            let has_room = |fit: &WindowFit| fit.room.is_some_and(|room| room.is_open(rules));
            fits.iter().enumerate().any(|(place, fit)| has_room(fit) && series.can_ask_instead(place))
        };
        let never =
            !rules.compact_on_overflow.value || rules.reduce.value.is_empty() || !run.terms.can_reduce();
        // Another model with a larger window costs nothing of the conversation, so it comes before a reduction.
        if self.asked || never || another_has_room() {
            return None;
        }
        self.asked = true;
        // If the reduction gains nothing, this failure is what is reported.
        self.refusal = Some(failure.clone());
        let (before, target) = (measure.message_tokens, series.place());
        Some(self.reduce(ReductionInFlight { measure, before, target, step: 0, refused: true }, true, run))
    }

    /// The host has looked what a step comes to: it is made if it makes the conversation smaller and breaks nothing.
    pub(in crate::engine) fn on_reduced(
        &mut self,
        mut what: ReductionInFlight,
        reduction: ContextReduction,
        guidance: &TurnGuidance,
        run: &mut RunParts<'_>,
    ) -> NextMachine {
        let rules = run.policy().context();
        let step = rules.reduce.value.get(what.step).map_or("", ReduceStep::name);
        // Not an error: what must stay may be larger than the window, and the provider has the last word.
        if let Some(lacking) = &reduction.lacking {
            let tools = match what.measure.tool_tokens {
                0 => String::new(),
                tools => format!("; the definitions of the tools have {tools} besides"),
            };
            run.out.warn(format!("the conversation cannot be reduced any further: {lacking}{tools}"));
        }
        if !reduction.splices.is_empty() {
            // The host computes the step, so it is checked like any other input: the history has to stay valid.
            match objection(&reduction, what.measure) {
                Some(objection) => {
                    run.out.warn(format!("the step `{step}` of a reduction is left out: {objection}"));
                }
                None if reduction.summarize.is_some() => {
                    return self.ask_summary(what, reduction, guidance, run);
                }
                None => make(&mut what, step, reduction, run),
            }
        }
        self.next_step(what, run)
    }

    fn next_step(&mut self, mut what: ReductionInFlight, run: &mut RunParts<'_>) -> NextMachine {
        what.step = what.step.saturating_add(1);
        self.reduce(what, false, run)
    }

    /// Asks for the next step of a reduction, or continues if there is room enough or no step is left. `begins`: the reduction
    /// does.
    fn reduce(&mut self, mut what: ReductionInFlight, begins: bool, run: &mut RunParts<'_>) -> NextMachine {
        let rules = run.policy().context();
        let Some((fit, room)) = reduced_for(&what, run) else { return self.reduced(what, run) };
        // Steps that would free nothing are skipped without asking the host.
        while let Some(step) = rules.reduce.value.get(what.step) {
            let number = u32::try_from(what.step).unwrap_or(u32::MAX).saturating_add(1);
            let models = &*run.models;
            let tokens = models.part(&fit.target, what.measure.message_tokens);
            if let Some(plan) = room.plan(rules, number, step, tokens, what.refused) {
                let plan = ReducePlan {
                    // The host works in its own count, so the goal is converted once here.
                    aim: models.counted(&fit.target, plan.aim),
                    most: models.counted(&fit.target, plan.most),
                    input: most_asked(step, &fit, run),
                    ..plan
                };
                let why = why_reduced(&fit, room, what.refused, begins, run.policy());
                let target = fit.target;
                let reduce = |work| Work::ReduceContext(ReduceContext { work, target, plan });
                run.ask(WorkPurpose::Reduce(what), reduce, why);
                return NextMachine::Host;
            }
            what.step = what.step.saturating_add(1);
        }
        self.reduced(what, run)
    }

    /// No step is left, or there is room enough: what was held back by the reduction continues.
    fn reduced(&mut self, what: ReductionInFlight, run: &mut RunParts<'_>) -> NextMachine {
        let smaller = what.measure.message_tokens < what.before;
        let gained = smaller && is_worth_it(&what, run);
        // Counted in a row: one reduction that gains proves that the others may, too.
        run.turns.in_vain = if gained { 0 } else { run.turns.in_vain.saturating_add(1) };
        self.measured = Some(what.measure);
        match self.refusal.take() {
            Some(_) if what.refused && smaller => {
                // The request goes out as it was counted, so its usage can teach again.
                self.counted = Some(what.measure.tokens());
                // It is a smaller request, so it is no second attempt at the one that was refused.
                NextMachine::Call
            }
            Some(failure) if what.refused => NextMachine::failed(failure, run.policy()),
            _ => NextMachine::Choose(what.measure),
        }
    }
}

/// The model the conversation is too large for: the one that is asked next, or the one with the most room if none can
/// be asked. A model whose window the tools fill alone is left out.
fn short_of_room(measure: TurnMeasure, run: &RunParts<'_>) -> Option<usize> {
    let rules = run.policy().context();
    if rules.reduce.value.is_empty() {
        return None;
    }
    let fits = run.fits(measure);
    let now = run.out.now;
    // Among the models that are open the one that will be asked decides; reducing for another one would throw away
    // too much or too little.
    let open = || fits.iter().enumerate().filter(|(_, fit)| fit.is_open(rules));
    let rested = open().find(|(_, fit)| !run.models.rests(&fit.target, &fit.policy, now));
    let next = rested.or_else(|| open().next());
    if let Some((place, next)) = next {
        // Under a budget the final turn may use all that is left, so nothing has to stay free.
        let room = next.room.filter(|_| !next.is_by_budget());
        return room.filter(|room| room.is_short(rules)).map(|_| place);
    }
    // None is large enough: the widest needs the least to be taken away. Reversed, so that the first of equal ones is
    // taken.
    let widest = fits.iter().enumerate().rev().max_by_key(|(_, fit)| fit.room.map(|room| room.budget()));
    widest.filter(|(_, fit)| fit.room.is_some_and(|room| room.budget() > 0)).map(|(place, _)| place)
}

/// The model that a reduction is for, and the room it has; `None`: its window is unknown.
fn reduced_for(what: &ReductionInFlight, run: &RunParts<'_>) -> Option<(WindowFit, ContextBudget)> {
    let fit = run.fit(run.targets.get(what.target)?, what.measure);
    let room = fit.room?;
    Some((fit, room))
}

/// The most tokens that the request for a summary may have.
fn most_asked(step: &ReduceStep, fit: &WindowFit, run: &RunParts<'_>) -> Option<u64> {
    // A step without a model asks nobody, so it has no limit.
    let ReduceStep::Summary { model, input_ppm, .. } = step else { return None };
    let target = model.as_ref().unwrap_or(&fit.target);
    let window = run.models.window(target, &run.policy().model(target)).window;
    let ContextWindow::Tokens(window) = window else { return None };
    Some(run.models.counted(target, ContextShare::Part(*input_ppm).of(window.get())))
}

/// Why a step is made. Whether there is a reduction at all is decided once, when it begins.
fn why_reduced(
    fit: &WindowFit,
    room: ContextBudget,
    refused: bool,
    begins: bool,
    policy: &Policy,
) -> Vec<DecisionReason> {
    let rules = policy.context();
    let names: Vec<&str> = rules.reduce.value.iter().map(ReduceStep::name).collect();
    let steps = Setting::new(names.join(", "), rules.reduce.origin);
    let begun = begins.then(|| {
        if refused {
            let fact = format!("the provider of {} refused the request for its size", fit.target);
            because(policy, "context.compact_on_overflow", &rules.compact_on_overflow, [fact])
        } else {
            because(policy, "context.compact_at_free", &rules.compact_at_free, [room.to_string()])
        }
    });
    let fits = fit.because(policy, usize::from(begins));
    let steps = because(policy, "context.reduce", &steps, []);
    begun.into_iter().chain(fits).chain([steps]).collect()
}

/// Whether a reduction came to its target or freed a part of the window that counts. With less the next one is due
/// at once.
fn is_worth_it(what: &ReductionInFlight, run: &RunParts<'_>) -> bool {
    // Without a known window there is no share to compare with.
    let Some((fit, room)) = reduced_for(what, run) else { return true };
    let saved = what.before.saturating_sub(what.measure.message_tokens);
    let saved = run.models.part(&fit.target, saved);
    // The goal was reached, or enough was gained: less leads to the next reduction at once.
    room.messages <= room.aim(run.policy().context()) || saved >= WORTH_IT.of(room.window)
}

/// Makes a step.
fn make(what: &mut ReductionInFlight, step: &str, reduction: ContextReduction, run: &mut RunParts<'_>) {
    let told = ContextReduced {
        target: run.targets.get(what.target).cloned().unwrap_or_default(),
        step: step.to_owned(),
        tokens_before: what.measure.message_tokens,
        tokens_after: reduction.message_tokens,
        shortened: reduction.shortened,
        left_out: reduction.dropped,
    };
    what.measure = TurnMeasure {
        messages: reduction.messages,
        message_tokens: reduction.message_tokens,
        history_faults: reduction.history_faults,
        ..what.measure
    };
    run.out.note(Note::Splice { splices: reduction.splices }, Vec::new());
    // The reasons were named with the request for the step.
    run.out.note(Note::ContextReduced(told), Vec::new());
    run.out.count(MetricName::ContextReductionTotal, step.to_owned(), 1);
}

/// What speaks against a step; `None`: nothing.
fn objection(reduction: &ContextReduction, before: TurnMeasure) -> Option<String> {
    let mut at = 0_usize;
    let (mut removed, mut inserted) = (0_u64, 0_u64);
    for splice in &reduction.splices {
        // In order and without overlap, so that each is applied to the messages that it was made for.
        if splice.at < at {
            return Some("its pieces overlap".to_owned());
        }
        at = splice.at.saturating_add(splice.remove);
        removed = removed.saturating_add(u64::try_from(splice.remove).unwrap_or(u64::MAX));
        inserted = inserted.saturating_add(u64::try_from(splice.insert.len()).unwrap_or(u64::MAX));
    }
    let left = before.messages.checked_sub(removed).map(|left| left.saturating_add(inserted));
    if u64::try_from(at).unwrap_or(u64::MAX) > before.messages || left != Some(reduction.messages) {
        return Some("its pieces do not fit the conversation".to_owned());
    }
    // A cutter that parts a call from its result makes the history invalid, and every later request is refused.
    // supyagent, LocalCowork and SwarmSDK cut by the number of messages, and did so.
    if reduction.history_faults > before.history_faults {
        return Some("it parts a call from its result".to_owned());
    }
    let (now, was) = (reduction.message_tokens, before.message_tokens);
    // A summary may be longer than what it sums up.
    (now >= was).then(|| format!("{was} tokens become {now}"))
}
