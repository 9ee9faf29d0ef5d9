//! A conversation that is too large for a window: it is reduced before a call, or once after a provider has refused it.

mod fit;
mod summary;

use serde::{Deserialize, Serialize};

pub(in crate::engine) use fit::WindowFit;
use summary::Summarizer;

use super::model_series::ModelSeries;
use super::run_budget::Conversation;
use super::run_parts::RunParts;
use super::then::Then;
use super::turn_guidance::TurnGuidance;
use super::work_table::Pending;
use crate::engine::because::because;
use crate::engine::directive::{Because, Note, Work};
use crate::engine::event::TurnMeasure;
use crate::engine::failure::Failure;
use crate::engine::lesson::Lesson;
use crate::engine::metric::MetricName;
use crate::engine::reduce::{ContextReduced, ReduceContext, ReducePlan};
use crate::engine::reductions::Reducing;
use crate::engine::results_room::{RoomForResults, weight};
use crate::engine::room::Room;
use crate::policy::{ContextWindow, ErrorClass, Policy, ReduceStep, Setting, Share};
use crate::session::{FinalReason, Message, Reduction, Usage};

/// A reduction that does not come to its target gained nothing if it freed less than this of the window.
const WORTH_IT: Share = Share::Part(20_000);

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
    summary: Option<Box<Reduction>>,
    /// Which model is asked for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    summarizer: Option<Summarizer>,
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
    ) -> Conversation {
        let counted = self.measured.map_or(0, |measure| run.sent_in_turn(measure).tokens());
        let tokens = counted.saturating_add(run.terms.appended).saturating_add(guidance.tokens());
        Conversation { tokens, tools: self.sends_tools() }
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
        let Some(counted) = self.counted else { return };
        let counted = self.with_added(target, counted.saturating_add(guidance.tokens()), run);
        run.models.learn(target, Lesson::Counted { counted, reported: usage.input }, run.out.rules.policy);
    }

    /// A model has replied with calls: what its window has left is shared by their results. `None`: any amount.
    pub(in crate::engine) fn room_for_results(
        &self,
        target: &str,
        reply: &Message,
        calls: usize,
        run: &RunParts<'_>,
    ) -> Option<RoomForResults> {
        let measured = self.measured?;
        let message_tokens = measured.message_tokens.saturating_add(weight(reply));
        let measure = TurnMeasure { message_tokens, ..measured };
        let fit = run.fit(target, measure);
        let window = fit.room.and_then(|room| room.for_results(run.policy().context()));
        let sent = self.sent(target, measure.tokens(), run);
        let budget = run.run_budget().left_for_results(target, sent).map(|(tokens, ..)| tokens);
        let tokens = [window, budget].into_iter().flatten().min()?;
        Some(RoomForResults::of(run.models.counted(target, tokens), calls))
    }

    fn sends_tools(&self) -> bool {
        self.measured.is_some_and(|measure| measure.tool_tokens > 0)
    }
}

/// Reductions.
impl TurnWindow {
    /// The conversation is measured: it is reduced if there is too little room for it, or the turn begins.
    pub(in crate::engine) fn begin(&mut self, measure: TurnMeasure, run: &mut RunParts<'_>) -> Then {
        self.measured = Some(measure);
        if run.terms.can_reduce()
            && let Some(target) = short_of_room(measure, run)
        {
            let limit = &run.policy().context().give_up_after;
            if run.turns.in_vain < limit.value.get() {
                let before = measure.message_tokens;
                return self.reduce(Reducing { measure, before, target, step: 0, refused: false }, run);
            }
            let fact = format!("{} reductions in a row gained nothing", run.turns.in_vain);
            let why = vec![because(run.policy(), "context.give_up_after", limit, [fact])];
            if !run.ending.is_now() {
                run.end_with_this_turn(FinalReason::Context, why);
            }
        }
        Then::Choose(measure)
    }

    /// A provider has refused the conversation for its size. What it says of the window is remembered, and once in a turn
    /// the conversation is reduced and sent again. `None`: the failure is one like others.
    pub(in crate::engine) fn on_overflow(
        &mut self,
        failure: &Failure,
        class: ErrorClass,
        series: &ModelSeries,
        run: &mut RunParts<'_>,
    ) -> Option<Then> {
        if class != ErrorClass::ContextOverflow {
            return None;
        }
        let (target, measure) = (series.target(run.targets).cloned()?, self.measured?);
        let counted = self.with_added(&target, run.sent_in_turn(measure).tokens(), run);
        run.models.learn(&target, Lesson::of_refusal(counted, failure), run.out.rules.policy);
        let rules = run.policy().context();
        let another_has_room = || {
            let fits = run.fits(measure);
            let has_room = |fit: &WindowFit| fit.room.is_some_and(|room| room.is_open(rules));
            fits.iter().enumerate().any(|(place, fit)| has_room(fit) && series.can_ask_instead(place))
        };
        let never = !rules.recover.value || rules.reduce.value.is_empty() || !run.terms.can_reduce();
        if self.asked || never || another_has_room() {
            return None;
        }
        self.asked = true;
        self.refusal = Some(failure.clone());
        let (before, target) = (measure.message_tokens, series.place());
        Some(self.reduce(Reducing { measure, before, target, step: 0, refused: true }, run))
    }

    /// The host has looked what a step comes to: it is made if it makes the conversation smaller and breaks nothing.
    pub(in crate::engine) fn on_reduced(
        &mut self,
        mut what: Reducing,
        reduction: Reduction,
        guidance: &TurnGuidance,
        run: &mut RunParts<'_>,
    ) -> Then {
        let rules = run.policy().context();
        let step = rules.reduce.value.get(what.step).map_or("", ReduceStep::name);
        if let Some(lacking) = &reduction.lacking {
            let tools = match what.measure.tool_tokens {
                0 => String::new(),
                tools => format!("; the definitions of the tools have {tools} besides"),
            };
            run.out.warn(format!("the conversation cannot be reduced any further: {lacking}{tools}"));
        }
        if !reduction.splices.is_empty() {
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

    fn next_step(&mut self, mut what: Reducing, run: &mut RunParts<'_>) -> Then {
        what.step = what.step.saturating_add(1);
        self.reduce(what, run)
    }

    /// Asks for the next step of a reduction, or continues if there is room enough or no step is left.
    fn reduce(&mut self, mut what: Reducing, run: &mut RunParts<'_>) -> Then {
        let rules = run.policy().context();
        let Some((fit, room)) = reduced_for(&what, run) else { return self.reduced(what, run) };
        while let Some(step) = rules.reduce.value.get(what.step) {
            let number = u32::try_from(what.step).unwrap_or(u32::MAX).saturating_add(1);
            let models = &*run.models;
            let tokens = models.part(&fit.target, what.measure.message_tokens);
            if let Some(plan) = room.plan(rules, number, step, tokens, what.refused) {
                let plan = ReducePlan {
                    aim: models.counted(&fit.target, plan.aim),
                    most: models.counted(&fit.target, plan.most),
                    input: most_asked(step, &fit, run),
                    ..plan
                };
                let why = why_reduced(&fit, room, what.refused, run.policy());
                let target = fit.target;
                let reduce = |work| Work::ReduceContext(ReduceContext { work, target, plan });
                run.ask(Pending::Reduce(what), reduce, why);
                return Then::Host;
            }
            what.step = what.step.saturating_add(1);
        }
        self.reduced(what, run)
    }

    /// No step is left, or there is room enough: what was held back by the reduction continues.
    fn reduced(&mut self, what: Reducing, run: &mut RunParts<'_>) -> Then {
        let smaller = what.measure.message_tokens < what.before;
        let gained = smaller && is_worth_it(&what, run);
        run.turns.in_vain = if gained { 0 } else { run.turns.in_vain.saturating_add(1) };
        self.measured = Some(what.measure);
        match self.refusal.take() {
            Some(_) if what.refused && smaller => {
                self.counted = Some(what.measure.tokens());
                Then::Call
            }
            Some(failure) if what.refused => Then::Failed(Box::new(failure)),
            _ => Then::Choose(what.measure),
        }
    }
}

/// The model the conversation is too large for: the one that is asked next, or the one with the most room if none can
/// be asked. A model that other tools than these leave no room is none of them.
fn short_of_room(measure: TurnMeasure, run: &RunParts<'_>) -> Option<usize> {
    let rules = run.policy().context();
    if rules.reduce.value.is_empty() {
        return None;
    }
    let fits = run.fits(measure);
    let now = run.out.now;
    let open = || fits.iter().enumerate().filter(|(_, fit)| fit.is_open(rules));
    let rested = open().find(|(_, fit)| !run.models.rests(&fit.target, &fit.policy, now));
    let next = rested.or_else(|| open().next());
    if let Some((place, next)) = next {
        // What a budget leaves is for the final turn: all of it may be used.
        let room = next.room.filter(|_| !next.is_by_budget());
        return room.filter(|room| room.is_short(rules)).map(|_| place);
    }
    let widest = fits.iter().enumerate().rev().max_by_key(|(_, fit)| fit.room.map(|room| room.budget()));
    widest.filter(|(_, fit)| fit.room.is_some_and(|room| room.budget() > 0)).map(|(place, _)| place)
}

/// The model that a reduction is for, and the room it has; `None`: its window is unknown.
fn reduced_for(what: &Reducing, run: &RunParts<'_>) -> Option<(WindowFit, Room)> {
    let fit = run.fit(run.targets.get(what.target)?, what.measure);
    let room = fit.room?;
    Some((fit, room))
}

/// The most tokens that the request for a summary may have.
fn most_asked(step: &ReduceStep, fit: &WindowFit, run: &RunParts<'_>) -> Option<u64> {
    let ReduceStep::Summary { model, input_ppm, .. } = step else { return None };
    let target = model.as_ref().unwrap_or(&fit.target);
    let window = run.models.window(target, &run.policy().model(target)).window;
    let ContextWindow::Tokens(window) = window else { return None };
    Some(run.models.counted(target, Share::Part(*input_ppm).of(window.get())))
}

fn why_reduced(fit: &WindowFit, room: Room, refused: bool, policy: &Policy) -> Vec<Because> {
    let rules = policy.context();
    let why = if refused {
        let fact = format!("the provider of {} refused the request for its size", fit.target);
        because(policy, "context.recover", &rules.recover, [fact])
    } else {
        because(policy, "context.evict_at", &rules.evict_at, [room.to_string()])
    };
    vec![why, fit.because(policy, 1)]
}

/// Whether a reduction came to its target or freed a part of the window that counts. With less the next one is due
/// at once.
fn is_worth_it(what: &Reducing, run: &RunParts<'_>) -> bool {
    let Some((fit, room)) = reduced_for(what, run) else { return true };
    let saved = what.before.saturating_sub(what.measure.message_tokens);
    let saved = run.models.part(&fit.target, saved);
    room.messages <= room.aim(run.policy().context()) || saved >= WORTH_IT.of(room.window)
}

/// Makes a step.
fn make(what: &mut Reducing, step: &str, reduction: Reduction, run: &mut RunParts<'_>) {
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
    let policy = run.policy();
    let rules = policy.context();
    let names: Vec<&str> = rules.reduce.value.iter().map(ReduceStep::name).collect();
    let shown = Setting::new(names.join(", "), rules.reduce.origin);
    run.out.note(Note::Splice { splices: reduction.splices }, Vec::new());
    run.out.note(Note::ContextReduced(told), vec![because(policy, "context.reduce", &shown, [])]);
    run.out.count(MetricName::ContextReductionTotal, step.to_owned(), 1);
}

/// What speaks against a step; `None`: nothing.
fn objection(reduction: &Reduction, before: TurnMeasure) -> Option<String> {
    let mut at = 0_usize;
    let (mut removed, mut inserted) = (0_u64, 0_u64);
    for splice in &reduction.splices {
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
    if reduction.history_faults > before.history_faults {
        return Some("it parts a call from its result".to_owned());
    }
    let (now, was) = (reduction.message_tokens, before.message_tokens);
    (now >= was).then(|| format!("{was} tokens become {now}"))
}
