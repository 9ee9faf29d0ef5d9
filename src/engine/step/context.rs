//! A conversation that is too large for a window: it is reduced before a call, or once after a provider has refused it.

use std::sync::Arc;

use super::super::because::because;
use super::super::directive::{Because, Note, Work};
use super::super::event::TurnMeasure;
use super::super::failure::Failure;
use super::super::known_windows::{WindowInForce, WindowSource};
use super::super::lesson::Lesson;
use super::super::metric::MetricName;
use super::super::reduce::{ContextReduced, ReduceContext, ReducePlan};
use super::super::reductions::Reducing;
use super::super::room::Room;
use super::super::state::Pending;
use super::Step;
use crate::policy::{
    ContextWindow, ErrorClass, ModelPolicy, ReduceStep, RunLimits, Setting, Share, estimated_tokens,
};
use crate::session::{FinalReason, Reduction};

/// A reduction that does not come to its target gained nothing if it freed less than this of the window.
const WORTH_IT: Share = Share::Part(20_000);

/// What a model has room for in this turn.
pub(super) struct Asked {
    pub(super) target: String,
    pub(super) policy: Arc<ModelPolicy>,
    pub(super) window: WindowInForce,
    /// In tokens as its provider counts them; `None`: nobody knows its window.
    pub(super) room: Option<Room>,
    /// How many tokens the host counted, if the provider counts others.
    pub(super) counted: Option<u64>,
    /// The budget of the run that leaves the final turn less than the window.
    pub(super) budget: Option<(&'static str, Setting<String>)>,
}

impl Asked {
    pub(super) fn is_open(&self, step: &Step<'_>) -> bool {
        self.room.is_none_or(|room| room.is_open(step.policy.context()))
    }

    /// The rule that says how much the model has room for, and its value.
    pub(super) fn setting(&self) -> (&'static str, Setting<String>) {
        self.budget.clone().unwrap_or_else(|| {
            let (rule, setting) = self.window.setting(&self.policy);
            (rule, setting.map(|window| window.to_string()))
        })
    }

    /// Whether a budget of the run leaves less than the window.
    pub(super) const fn is_by_budget(&self) -> bool {
        self.budget.is_some()
    }

    /// What the room is computed from.
    const fn whole(&self) -> &'static str {
        if self.is_by_budget() { "left of the budget" } else { "window" }
    }

    /// How the room is computed, with the name of the model.
    pub(super) fn computed(&self) -> Option<String> {
        self.room.map(|room| format!("{}: {}", self.target, room.computed_from(self.whole())))
    }

    /// What there is to be said of the window and of the count.
    pub(super) fn facts(&self) -> impl Iterator<Item = String> {
        let room = self.room.map(|room| room.computed_from(self.whole()));
        let counted = self.counted.map(|tokens| format!("{tokens} tokens as counted here"));
        [room, counted, self.window.fact()].into_iter().flatten()
    }
}

impl Step<'_> {
    /// Every model, and the room it has for the conversation.
    pub(super) fn asked(&self, measure: TurnMeasure) -> Vec<Asked> {
        self.state.context.targets.iter().map(|target| self.asked_of(target, measure)).collect()
    }

    /// The room that one model has for the conversation.
    pub(super) fn asked_of(&self, target: &str, measure: TurnMeasure) -> Asked {
        let measure = self.measured(measure);
        let policy = self.policy.model(target);
        let window = self.state.models.window(target, &policy);
        let measure = self.state.models.with_overhead(target, measure);
        let expected = self.state.models.expected_measure(target, measure);
        let room = match window.window {
            ContextWindow::Tokens(tokens) => {
                Some(Room::of(self.policy.context(), &policy, tokens.get(), expected))
            }
            ContextWindow::Unknown => None,
        };
        // To a window the policy does not speak of nobody has fitted the reply.
        let fitted = window.source == Some(WindowSource::Policy);
        let mut room = if fitted { room } else { room.map(Room::with_half_for_the_reply) };
        let mut budget = None;
        if let Some((left, rule, setting)) = self.run_budget().left_for_the_end(target)
            && room.is_none_or(|room| left < room.window)
        {
            room = Some(
                Room::of(self.policy.context(), &policy, left, expected).with_reply(RunLimits::LEAST_REPLY),
            );
            budget = Some((rule, setting));
        }
        let counted = (expected != measure).then_some(tokens_of(measure));
        Asked { target: target.to_owned(), policy, window, room, counted, budget }
    }

    /// What is sent: in the last turn no tool but the one of the report.
    pub(super) fn measured(&self, measure: TurnMeasure) -> TurnMeasure {
        if !self.state.ending.is_now() {
            return measure;
        }
        let report = self.policy.output().map_or(0, |output| {
            let schema = estimated_tokens(&output.schema.value.json().to_string());
            schema.saturating_add(estimated_tokens(&output.description.value)).saturating_add(30)
        });
        TurnMeasure { tool_tokens: report.min(measure.tool_tokens), ..measure }
    }

    /// The conversation is measured: it is reduced if there is too little room for it, or the turn begins.
    pub(super) fn begin_turn(&mut self, measure: TurnMeasure) {
        self.state.model_turn.reductions.measured = Some(measure);
        if let Some(target) = self.short_of_room(measure) {
            let limit = &self.policy.context().give_up_after;
            if self.state.model_turn.reductions.in_vain < limit.value.get() {
                let before = measure.message_tokens;
                return self.reduce_for(Reducing { measure, before, target, step: 0, refused: false });
            }
            let fact =
                format!("{} reductions in a row gained nothing", self.state.model_turn.reductions.in_vain);
            let why = vec![because(self.policy, "context.give_up_after", limit, [fact])];
            if !self.state.ending.is_now() {
                self.end_with_this_turn(FinalReason::Context, why);
            }
        }
        self.choose_model(measure);
    }

    /// The model the conversation is too large for: the one that is asked next, or the one with the most room if none can
    /// be asked. A model that other tools than these leave no room is none of them.
    fn short_of_room(&self, measure: TurnMeasure) -> Option<usize> {
        let rules = self.policy.context();
        if rules.reduce.value.is_empty() {
            return None;
        }
        let asked = self.asked(measure);
        let now = self.state.now;
        let open = || asked.iter().enumerate().filter(|(_, asked)| asked.is_open(self));
        let rested = open().find(|(_, asked)| !self.state.models.rests(&asked.target, &asked.policy, now));
        let next = rested.or_else(|| open().next());
        if let Some((place, next)) = next {
            // What a budget leaves is for the final turn: all of it may be used.
            let room = next.room.filter(|_| next.budget.is_none());
            return room.filter(|room| room.is_short(rules)).map(|_| place);
        }
        let widest =
            asked.iter().enumerate().rev().max_by_key(|(_, asked)| asked.room.map(|room| room.budget()));
        widest.filter(|(_, asked)| asked.room.is_some_and(|room| room.budget() > 0)).map(|(place, _)| place)
    }

    /// Asks for the next step of a reduction, or goes on if there is room enough or no step is left.
    pub(super) fn reduce_for(&mut self, mut what: Reducing) {
        let rules = self.policy.context();
        let Some((asked, room)) = self.reduced_for(&what) else { return self.reduced(what) };
        while let Some(step) = rules.reduce.value.get(what.step) {
            let number = u32::try_from(what.step).unwrap_or(u32::MAX).saturating_add(1);
            let models = &self.state.models;
            let tokens = models.part(&asked.target, what.measure.message_tokens);
            if let Some(plan) = room.plan(rules, number, step, tokens, what.refused) {
                let plan = ReducePlan {
                    aim: models.counted(&asked.target, plan.aim),
                    most: models.counted(&asked.target, plan.most),
                    input: self.most_asked(step, &asked),
                    ..plan
                };
                let why = self.why_reduced(&asked, room, what.refused);
                let target = asked.target.clone();
                let work = self.state.issue(Pending::Reduce(what));
                return self.ask(Work::ReduceContext(ReduceContext { work, target, plan }), why);
            }
            what.step = what.step.saturating_add(1);
        }
        self.reduced(what);
    }

    /// The model that a reduction is for, and the room it has; `None`: nobody knows that.
    fn reduced_for(&self, what: &Reducing) -> Option<(Asked, Room)> {
        let asked = self.asked_of(self.state.context.targets.get(what.target)?, what.measure);
        let room = asked.room?;
        Some((asked, room))
    }

    /// The most tokens that the request for a summary may have.
    fn most_asked(&self, step: &ReduceStep, asked: &Asked) -> Option<u64> {
        let ReduceStep::Summary { model, input_ppm, .. } = step else { return None };
        let target = model.as_ref().unwrap_or(&asked.target);
        let window = self.state.models.window(target, &self.policy.model(target)).window;
        let ContextWindow::Tokens(window) = window else { return None };
        Some(self.state.models.counted(target, Share::Part(*input_ppm).of(window.get())))
    }

    fn why_reduced(&self, asked: &Asked, room: Room, refused: bool) -> Vec<Because> {
        let rules = self.policy.context();
        let mut why = Vec::new();
        if refused {
            let fact = format!("the provider of {} refused the request for its size", asked.target);
            why.push(because(self.policy, "context.recover", &rules.recover, [fact]));
        } else {
            why.push(because(self.policy, "context.evict_at", &rules.evict_at, [room.to_string()]));
        }
        let (rule, setting) = asked.setting();
        why.push(because(self.policy, rule, &setting, asked.facts().skip(1)));
        why
    }

    /// The host has looked what a step comes to: it is made if it makes the conversation smaller and breaks nothing.
    pub(super) fn context_reduced(&mut self, mut what: Reducing, reduction: Reduction) {
        let rules = self.policy.context();
        let step = rules.reduce.value.get(what.step).map_or("", ReduceStep::name);
        if let Some(lacking) = &reduction.lacking {
            let tools = match what.measure.tool_tokens {
                0 => String::new(),
                tools => format!("; the definitions of the tools have {tools} besides"),
            };
            self.warn(format!("the conversation cannot be reduced any further: {lacking}{tools}"));
        }
        if !reduction.splices.is_empty() {
            match objection(&reduction, what.measure) {
                Some(objection) => {
                    self.warn(format!("the step `{step}` of a reduction is left out: {objection}"));
                }
                None if reduction.summarize.is_some() => return self.ask_summary(what, reduction),
                None => self.make(&mut what, step, reduction),
            }
        }
        what.step = what.step.saturating_add(1);
        self.reduce_for(what);
    }

    pub(super) fn make(&mut self, what: &mut Reducing, step: &str, reduction: Reduction) {
        let told = ContextReduced {
            target: self.state.context.targets.get(what.target).cloned().unwrap_or_default(),
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
        let rules = self.policy.context();
        let names: Vec<&str> = rules.reduce.value.iter().map(ReduceStep::name).collect();
        let shown = Setting::new(names.join(", "), rules.reduce.origin);
        self.note(Note::Splice { splices: reduction.splices }, Vec::new());
        self.note(Note::ContextReduced(told), vec![because(self.policy, "context.reduce", &shown, [])]);
        self.count(MetricName::ContextReductionTotal, step.to_owned(), 1);
    }

    /// No step is left, or there is room enough: what was held back by the reduction goes on.
    fn reduced(&mut self, what: Reducing) {
        let smaller = what.measure.message_tokens < what.before;
        let gained = smaller && self.is_worth_it(&what);
        let reductions = &mut self.state.model_turn.reductions;
        reductions.in_vain = if gained { 0 } else { reductions.in_vain.saturating_add(1) };
        reductions.measured = Some(what.measure);
        match reductions.refusal.take() {
            Some(_) if what.refused && smaller => {
                self.state.model_turn.counted = Some(tokens_of(what.measure));
                self.call_model();
            }
            Some(failure) if what.refused => self.model_failed(&failure),
            _ => self.choose_model(what.measure),
        }
    }

    /// Whether a reduction came to its target or freed a part of the window that counts. With less the next one is due
    /// at once.
    fn is_worth_it(&self, what: &Reducing) -> bool {
        let Some((asked, room)) = self.reduced_for(what) else { return true };
        let saved = what.before.saturating_sub(what.measure.message_tokens);
        let saved = self.state.models.part(&asked.target, saved);
        room.messages <= room.aim(self.policy.context()) || saved >= WORTH_IT.of(room.window)
    }

    /// A provider has refused the conversation for its size. What it says of the window is remembered, and once in a turn
    /// the conversation is reduced and sent again. `false`: the failure is one like others.
    pub(super) fn overflowed(&mut self, failure: &Failure, class: ErrorClass) -> bool {
        if class != ErrorClass::ContextOverflow {
            return false;
        }
        let place = self.state.model_turn.rotation.current();
        let (Some(target), Some(measure)) =
            (self.state.target().cloned(), self.state.model_turn.reductions.measured)
        else {
            return false;
        };
        let counted = self.with_added(&target, tokens_of(self.measured(measure)));
        self.learn(&target, Lesson::of_refusal(counted, failure));
        let rules = self.policy.context();
        let asked = self.state.model_turn.reductions.asked;
        if asked || !rules.recover.value || rules.reduce.value.is_empty() || self.another_has_room(measure) {
            return false;
        }
        self.state.model_turn.reductions.asked = true;
        self.state.model_turn.reductions.refusal = Some(failure.clone());
        let before = measure.message_tokens;
        self.reduce_for(Reducing { measure, before, target: place, step: 0, refused: true });
        true
    }

    /// Whether another model that can be asked in this turn is known to have room enough.
    fn another_has_room(&self, measure: TurnMeasure) -> bool {
        let current = self.state.model_turn.rotation.current();
        let rules = self.policy.context();
        let mut asked = self.asked(measure).into_iter().enumerate();
        asked.any(|(place, asked)| {
            let has = asked.room.is_some_and(|room| room.is_open(rules));
            place != current && has && !self.state.model_turn.rotation.is_left(place)
        })
    }
}

const fn tokens_of(measure: TurnMeasure) -> u64 {
    measure.message_tokens.saturating_add(measure.tool_tokens)
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
