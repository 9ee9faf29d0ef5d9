//! Reductions of a conversation that is too large for a context window: before a call, or once after a refusal.

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
use crate::engine::targets::falls_back;
use crate::engine::token_observation::TokenObservation;
use crate::policy::{ContextShare, ContextWindow, ErrorClass, Policy, ReduceStep, Setting};
use crate::session::{ContextReduction, FinalReason, Message, StopReason, Usage};

/// A reduction that misses its target gained nothing if it freed less than this share of the window.
// A fiftieth: after a smaller gain the next turn would need another reduction, and pay for another summary.
const WORTH_IT: ContextShare = ContextShare::Part(20_000);

/// The state of reductions in a turn.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(in crate::engine) struct TurnWindow {
    /// Whether a refusal has already led to a reduction in this turn.
    #[serde(default, skip_serializing_if = "crate::session::is_default")]
    asked: bool,
    /// The refusal, while the conversation is reduced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    refusal: Option<Failure>,
    /// The reduction that waits for its summary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    summary: Option<Box<ContextReduction>>,
    /// The model that writes the summary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    summarizer: Option<SummaryModel>,
    /// The last measurement of the conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    measured: Option<TurnMeasure>,
    /// The host's count of the next request in tokens; `None`: it is sent with fewer tools than were counted, and
    /// cannot be used for calibration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    counted: Option<u64>,
}

/// The size of the request.
impl TurnWindow {
    /// Whether the state is empty.
    pub(in crate::engine) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Starts a turn: its conversation may again be reduced once after a refusal.
    pub(in crate::engine) const fn on_prepared(&mut self) {
        // Once per turn, since a second refusal after a reduction has another cause.
        self.asked = false;
    }

    /// The last measurement of the conversation.
    pub(in crate::engine) fn measure(&self) -> TurnMeasure {
        self.measured.unwrap_or_default()
    }

    /// Sets the host's count of the next request; `None`: it is sent with fewer tools than were counted.
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

    /// The tokens of a request plus the known overhead of the model's provider.
    pub(in crate::engine) fn with_added(&self, target: &str, tokens: u64, run: &RunParts<'_>) -> u64 {
        run.models.with_added(target, tokens, self.sends_tools())
    }

    /// The same, in the expected count of the provider.
    pub(in crate::engine) fn sent(&self, target: &str, tokens: u64, run: &RunParts<'_>) -> u64 {
        run.models.expected(target, self.with_added(target, tokens, run))
    }

    /// Learns from the provider's count of a request.
    pub(in crate::engine) fn learn_from(
        &self,
        usage: Usage,
        target: &str,
        guidance: &TurnGuidance,
        run: &mut RunParts<'_>,
    ) {
        // A count of zero comes from a host that does not measure.
        let Some(counted) = self.counted.filter(|counted| *counted > 0) else { return };
        // Guidance is part of the request but not of the measurement.
        let counted = self.with_added(target, counted.saturating_add(guidance.tokens()), run);
        run.models.learn(
            target,
            TokenObservation::Counted { counted, reported: usage.input },
            run.out.rules.policy,
        );
    }

    /// The rest of the window that the results of a reply's calls share. `None`: unlimited.
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
        // The budget may be tighter than the window: the final turn must fit after these results.
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
    /// Starts a turn after the measurement: the conversation is reduced if it is too large.
    pub(in crate::engine) fn begin(&mut self, measure: TurnMeasure, run: &mut RunParts<'_>) -> NextMachine {
        self.measured = Some(measure);
        // A host that keeps its own history may be unable to change it.
        if run.terms.can_reduce()
            && let Some(target) = short_of_room(measure, run)
        {
            let limit = &run.policy().context().give_up_after;
            // A reduction that gains nothing would be repeated before every call, and its summary paid each time.
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
            // The conversation cannot be reduced further, so this turn delivers the report.
            if !run.ending.is_now() {
                run.end_with_this_turn(FinalReason::Context, why);
            }
        }
        NextMachine::Choose(measure)
    }

    /// Handles a conversation refused for its size: the named window is stored, and once per turn the conversation is
    /// reduced and sent again. `None`: the failure is an ordinary one.
    pub(in crate::engine) fn on_overflow(
        &mut self,
        failure: &Failure,
        class: ErrorClass,
        series: &ModelSeries,
        run: &mut RunParts<'_>,
    ) -> Option<NextMachine> {
        // A smaller conversation only cures an overflow.
        if class != ErrorClass::ContextOverflow {
            return None;
        }
        let (target, measure) = (series.target(run.targets).cloned()?, self.measured?);
        let sent = run.sent_in_turn(measure).tokens();
        if let Some(limit) = failure.limit() {
            let counted = self.with_added(&target, sent, run);
            run.models.doubt(&target, counted, limit);
        }
        // Such a host may have many conversations. The size that is named may be with the reply that one of them asked for,
        // so only the window is learned.
        let is_of_window = sent > 0 && !(run.terms.reduces_requests() && names_another_size(failure));
        let counted = if is_of_window { self.with_added(&target, sent, run) } else { 0 };
        // Most refusals name the real window or the real size; both correct the next measurement.
        run.models.learn(&target, TokenObservation::of_refusal(counted, failure), run.out.rules.policy);
        let rules = run.policy().context();
        let another_has_room = || {
            let fits = run.fits(measure);
            // A model whose window is unknown may take the whole of a conversation that is reduced for one request.
            let may = run.terms.reduces_requests() && may_follow(&target, series.attempt(), run.policy());
            let has_room = |fit: &WindowFit| fit.room.map_or(may, |room| room.is_open(rules));
            fits.iter().enumerate().any(|(place, fit)| has_room(fit) && series.can_ask_instead(place))
        };
        let never =
            !rules.compact_on_overflow.value || rules.reduce.value.is_empty() || !run.terms.can_reduce();
        // A model with a larger window needs no change of the conversation, so it comes before a reduction.
        if self.asked || never || another_has_room() {
            return None;
        }
        self.asked = true;
        // If the reduction gains nothing, this failure is reported.
        self.refusal = Some(failure.clone());
        let (before, target) = (measure.message_tokens, series.place());
        Some(self.reduce(ReductionInFlight { measure, before, target, step: 0, refused: true }, true, run))
    }

    /// Handles the host's result of a step: it is applied if the conversation becomes smaller and stays valid.
    pub(in crate::engine) fn on_reduced(
        &mut self,
        mut what: ReductionInFlight,
        reduction: ContextReduction,
        guidance: &TurnGuidance,
        run: &mut RunParts<'_>,
    ) -> NextMachine {
        let rules = run.policy().context();
        let step = rules.reduce.value.get(what.step).map_or("", ReduceStep::name);
        // Not an error: the parts that must be kept may exceed the window, and the provider decides.
        if let Some(lacking) = &reduction.lacking {
            let tools = match what.measure.tool_tokens {
                0 => String::new(),
                tools => format!("; the definitions of the tools have {tools} besides"),
            };
            run.out.warn(format!("the conversation cannot be reduced any further: {lacking}{tools}"));
        }
        if !reduction.splices.is_empty() {
            // The host computes the step, so it is checked like any other input: the history must stay valid.
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

    /// Requests the next step of a reduction, or continues if the conversation fits or no step is left. `begins`: the
    /// reduction begins.
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
                    // The host uses its own count, so the goal is converted here.
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

    /// Ends a reduction and continues the interrupted work.
    fn reduced(&mut self, what: ReductionInFlight, run: &mut RunParts<'_>) -> NextMachine {
        let smaller = what.measure.message_tokens < what.before;
        let gained = smaller && is_worth_it(&what, run);
        // Consecutive: one reduction with a gain shows that others may gain, too.
        run.turns.in_vain = if gained { 0 } else { run.turns.in_vain.saturating_add(1) };
        self.measured = Some(what.measure);
        match self.refusal.take() {
            Some(_) if what.refused && smaller => {
                // The request is sent as counted, so its usage can be used for calibration again.
                self.counted = Some(what.measure.tokens());
                // The request is smaller, so it is no second attempt of the refused one.
                NextMachine::Call
            }
            Some(failure) if what.refused => NextMachine::failed(failure, run.policy()),
            _ => NextMachine::Choose(what.measure),
        }
    }
}

/// The model that the conversation is too large for: the next one to be called, or the one with the largest budget if
/// none can be called. A model whose window the tools alone fill is left out.
fn short_of_room(measure: TurnMeasure, run: &RunParts<'_>) -> Option<usize> {
    let rules = run.policy().context();
    if rules.reduce.value.is_empty() {
        return None;
    }
    let fits = run.fits(measure);
    let now = run.out.now;
    // Among the possible models the next one decides; a reduction for another one would remove too much or too
    // little.
    let open = || fits.iter().enumerate().filter(|(_, fit)| fit.is_open(rules));
    let rested = open().find(|(_, fit)| !run.models.rests(&fit.target, &fit.policy, now));
    let next = rested.or_else(|| open().next());
    if let Some((place, next)) = next {
        // Under a budget the final turn may use all tokens left, so none have to stay free.
        let room = next.room.filter(|_| !next.is_by_budget());
        return room.filter(|room| room.is_short(rules)).map(|_| place);
    }
    // If none is large enough, the widest needs the smallest reduction. Reversed, so that the first of equal ones is
    // chosen.
    let widest = fits.iter().enumerate().rev().max_by_key(|(_, fit)| fit.room.map(|room| room.budget()));
    widest.filter(|(_, fit)| fit.room.is_some_and(|room| room.budget() > 0)).map(|(place, _)| place)
}

/// Whether a refusal may be for another size than that of the conversation.
fn names_another_size(failure: &Failure) -> bool {
    // Anthropic: "input length and `max_tokens` exceed context limit: 20000 + 190000 > 200000"; status 413 is for more bytes
    // than the server takes (Anthropic, "Errors").
    failure.limit().is_some() || failure.status == Some(413)
}

/// Whether the policy lets another model follow one that refused a request for its size.
fn may_follow(target: &str, attempt: u32, policy: &Policy) -> bool {
    let (model, reason, class) =
        (policy.model(target), StopReason::NotRetryable, ErrorClass::ContextOverflow);
    falls_back(&policy.turn().targets, &model, reason, class, attempt, false)
}

/// The model that a reduction is for, and its context budget; `None`: its window is unknown.
fn reduced_for(what: &ReductionInFlight, run: &RunParts<'_>) -> Option<(WindowFit, ContextBudget)> {
    let fit = run.fit(run.targets.get(what.target)?, what.measure);
    let room = fit.room?;
    Some((fit, room))
}

/// The maximum tokens of the request for a summary.
fn most_asked(step: &ReduceStep, fit: &WindowFit, run: &RunParts<'_>) -> Option<u64> {
    // A step without a model sends no request, so it has no limit.
    let ReduceStep::Summary { model, input_ppm, .. } = step else { return None };
    let target = model.as_ref().unwrap_or(&fit.target);
    let window = run.models.window(target, &run.policy().model(target)).window;
    let ContextWindow::Tokens(window) = window else { return None };
    Some(run.models.counted(target, ContextShare::Part(*input_ppm).of(window.get())))
}

/// The reasons for a step. Whether a reduction is needed is decided once, when it begins.
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

/// Whether a reduction reached its target or freed a sufficient share of the window. Otherwise the next one follows
/// at once.
fn is_worth_it(what: &ReductionInFlight, run: &RunParts<'_>) -> bool {
    // Without a known window there is no share to compare with.
    let Some((fit, room)) = reduced_for(what, run) else { return true };
    let saved = what.before.saturating_sub(what.measure.message_tokens);
    let saved = run.models.part(&fit.target, saved);
    // The target was reached, or enough was gained: less would lead to the next reduction at once.
    room.messages <= room.aim(run.policy().context()) || saved >= WORTH_IT.of(room.window)
}

/// Applies a step.
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
    // The request for the step named the reasons.
    run.out.note(Note::ContextReduced(told), Vec::new());
    run.out.count(MetricName::ContextReductionTotal, step.to_owned(), 1);
}

/// Why a step cannot be applied; `None`: it can.
fn objection(reduction: &ContextReduction, before: TurnMeasure) -> Option<String> {
    let mut at = 0_usize;
    let (mut removed, mut inserted) = (0_u64, 0_u64);
    for splice in &reduction.splices {
        // In order and without overlap, so that each is applied to the messages it was made for.
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
    // A step that separates a call from its result makes the history invalid, and every later request is refused.
    // supyagent, LocalCowork and SwarmSDK cut by number of messages, and had this fault.
    if reduction.history_faults > before.history_faults {
        return Some("it parts a call from its result".to_owned());
    }
    let (now, was) = (reduction.message_tokens, before.message_tokens);
    // A summary may be longer than the text it summarizes.
    (now >= was).then(|| format!("{was} tokens become {now}"))
}
