//! A run that failed and may have acted: before another attempt it is found out whether it has.

use core::mem;

use serde_json::{Map, Value, json};

use super::super::ask::{Answer, Question};
use super::super::because::because;
use super::super::directive::{Note, RunTool, Work};
use super::super::event::ToolOutcome;
use super::super::failure::{EffectState, Failure, may_run_again};
use super::super::machine::{Pending, Then};
use super::super::retry::{self, Obstacle, Verdict};
use super::super::state::{Doubt, Slot, SlotPhase};
use super::{Split, Step};
use crate::policy::{AfterEffect, Effect, ErrorClass, Setting, Verification};
use crate::time::Instant;

impl Step<'_> {
    /// Whether it is to be found out first if a run has acted; then that is under way.
    ///
    /// Only where another attempt would follow if running twice did no harm: else nothing depends on the answer.
    pub(super) fn doubts(
        &mut self,
        index: usize,
        failure: &Failure,
        effect: EffectState,
        at: Instant,
    ) -> bool {
        let classified = failure.classified(self.policy);
        let Some(slot) = self.state.batch.slots.get(index) else { return false };
        let (progress, slot) = (slot.series.progress(), slot.without_history());
        let policy = self.tool_policy(&slot.tool, &slot.arguments, slot.planner.as_ref());
        if policy.after_effect.value == AfterEffect::Tell
            || classified.class == ErrorClass::InvalidArgs
            || effect == EffectState::Committed
            || self.state.ending.stop().is_some()
            || may_run_again(self.effect_of(&slot.tool, &policy), effect)
        {
            return false;
        }
        let opens = self.state.tools.would_open(&slot.tool, slot.place, &policy, self.state.now);
        let obstacle = if opens { Obstacle::CircuitOpen } else { Obstacle::None };
        let case = self.case_of(failure, classified, &policy.retry, obstacle);
        let seed = || self.seed("tool", &self.idempotency_key(index));
        let verdict = retry::decide(&policy.retry, progress, case, self.state.now, seed);
        if !matches!(verdict, Verdict::Retry { .. }) {
            return false;
        }
        let asks = match &policy.after_effect.value {
            AfterEffect::Ask => true,
            AfterEffect::Verify(check) if self.verify(index, &slot, check, &policy.after_effect) => false,
            AfterEffect::Tell | AfterEffect::Verify(_) => return false,
        };
        let doubt = Doubt { failure: failure.clone(), effect, at };
        self.set_phase(index, SlotPhase::Doubtful(Box::new(doubt)));
        if asks {
            self.state.batch.gate.put_question(index);
            self.ask_next();
        }
        true
    }

    /// Asks whether the call of a slot may run again. Once the run is to end, nobody is asked.
    pub(super) fn ask_again(&mut self, index: usize, slot: &Slot, doubt: &Doubt) {
        if self.state.ending.stop().is_some() {
            return;
        }
        let policy = self.tool_policy(&slot.tool, &slot.arguments, slot.planner.as_ref());
        let why = because(self.policy, "after_effect", &kind(&policy.after_effect), []);
        let pending = Pending::ApproveAgain(index);
        self.ask_person(pending, Question::RunAgain, slot, &doubt.failure.message, why);
    }

    /// Whether the call that is settled next waits for a person to say whether it may run again.
    pub(super) fn waits_for_a_person(&self) -> Option<usize> {
        let index = self.state.batch.settled;
        let doubtful = matches!(self.state.batch.slots.get(index)?.phase, SlotPhase::Doubtful(_));
        let verifies = self.state.work.any(|pending| matches!(pending, Pending::Verify(_)));
        (doubtful && !verifies).then_some(index)
    }

    /// Runs the tool that says whether this one has acted. What cannot be run says nothing.
    fn verify(
        &mut self,
        index: usize,
        slot: &Slot,
        check: &Verification,
        rule: &Setting<AfterEffect>,
    ) -> bool {
        let arguments = match self.arguments_of(slot, check) {
            Ok(arguments) => arguments,
            Err(problem) => {
                let place = self.policy.place(rule.origin);
                self.warn(format!("{place}: whether `{}` has acted is not verified: {problem}", slot.tool));
                return false;
            }
        };
        let policy = self.tool_policy(&check.tool, &arguments, None);
        let now = self.state.now;
        // It runs in the place of the call it is about.
        let run = RunTool {
            work: self.state.work.issue(Pending::Verify(index)),
            call: slot.call.clone(),
            tool: check.tool.clone(),
            attempt: 1,
            max_attempts: Some(1),
            arguments,
            timeout: retry::attempt_timeout(&policy.retry, now, self.deadline(), now),
            idempotency_key: format!("{}-check", self.idempotency_key(index)),
            spill: None,
        };
        let why = because(self.policy, "after_effect", &kind(rule), []);
        self.ask(Work::RunTool(run), vec![why]);
        true
    }

    /// The arguments of the tool that is asked, if it can be.
    fn arguments_of(&mut self, slot: &Slot, check: &Verification) -> Result<Value, String> {
        let Some(schema) = self.tools.schema(&check.tool) else {
            return Err(format!("there is no tool `{}`", check.tool));
        };
        let policy = self.policy.tool(&check.tool);
        if self.effect_of(&check.tool, &policy) != Effect::ReadOnly {
            return Err(format!("`{}` is not `read_only`", check.tool));
        }
        if !self.state.tools.is_closed(&check.tool) {
            return Err(format!("the breaker of `{}` is open", check.tool));
        }
        let vars = known(slot);
        let mut arguments = Map::new();
        for (name, value) in &check.arguments {
            let value = value.eval(&vars).map_err(|error| format!("`{name}`: {error}"))?;
            arguments.insert(name.clone(), value);
        }
        let arguments = Value::Object(arguments);
        match schema.problems(&arguments).first() {
            None => Ok(arguments),
            Some(problem) => Err(format!("the arguments of `{}`: {}", check.tool, problem.message)),
        }
    }

    /// The other tool has answered whether the run of a slot has acted.
    pub(super) fn verified(&mut self, index: usize, outcome: ToolOutcome) -> Then {
        let Some(slot) = self.state.batch.slots.get(index).map(Slot::without_history) else {
            return Then::Host;
        };
        let policy = self.tool_policy(&slot.tool, &slot.arguments, slot.planner.as_ref());
        let AfterEffect::Verify(check) = &policy.after_effect.value else {
            // The rules have changed meanwhile.
            return self.found_out(index, EffectState::Unknown, "");
        };
        let effect = match outcome {
            ToolOutcome::Failed { .. } => EffectState::Unknown,
            ToolOutcome::Ok { data } => {
                let mut vars = known(&slot);
                vars.insert("result".to_owned(), data);
                match check.acted.holds(&vars) {
                    Ok(true) => EffectState::Committed,
                    Ok(false) => EffectState::NotStarted,
                    Err(error) => {
                        let place = self.policy.place(policy.after_effect.origin);
                        self.warn(format!("{place}: `acted` has no value for this result: {error}"));
                        EffectState::Unknown
                    }
                }
            }
        };
        self.found_out(index, effect, &check.tool)
    }

    /// A person has answered whether the tool may run again. No answer is a no: it may have acted.
    pub(super) fn approved_again(&mut self, index: usize, answer: Answer) -> Then {
        let effect = match answer {
            Answer::Approve | Answer::ApproveAll => EffectState::NotStarted,
            Answer::Refuse | Answer::None => EffectState::Unknown,
        };
        self.found_out(index, effect, "")
    }

    fn found_out(&mut self, index: usize, effect: EffectState, by: &str) -> Then {
        let Some(slot) = self.state.batch.slots.get_mut(index) else { return Then::Host };
        let doubt = match mem::replace(&mut slot.phase, SlotPhase::UnderWay) {
            SlotPhase::Doubtful(doubt) => *doubt,
            phase => {
                slot.phase = phase;
                return Then::Host;
            }
        };
        let slot = slot.without_history();
        let policy = self.tool_policy(&slot.tool, &slot.arguments, slot.planner.as_ref());
        let fact = match effect {
            EffectState::NotStarted => "it may run again",
            EffectState::Committed => "it has acted",
            EffectState::Started | EffectState::Unknown => "it may have acted",
        };
        let why = because(self.policy, "after_effect", &kind(&policy.after_effect), [fact.to_owned()]);
        let (call, tool) = (slot.call.clone(), slot.tool.clone());
        self.note(Note::EffectChecked { call, tool, by: by.to_owned(), effect }, vec![why]);
        let Doubt { failure, effect: before, at } = doubt;
        match effect {
            EffectState::NotStarted => self.failed_for_certain(index, &failure, effect, at),
            EffectState::Committed => {
                let class = failure.classified(self.policy).class;
                let vars =
                    json!({ "tool": slot.tool, "error": failure.message, "error_type": class, "by": by });
                let text = self.say(&policy.messages.acted, vars);
                // The tool is no better for it: its run failed.
                let Split { mut run, .. } = self.split();
                run.tools.failed(&slot.tool, slot.place, &policy, &mut run.out);
                self.has_acted(index, &Value::String(text));
            }
            EffectState::Started | EffectState::Unknown => {
                self.failed_for_certain(index, &failure, before, at);
            }
        }
        self.settle()
    }
}

/// How it is found out, for people.
const fn kind(rule: &Setting<AfterEffect>) -> Setting<&'static str> {
    let kind = match &rule.value {
        AfterEffect::Tell => "tell",
        AfterEffect::Ask => "ask",
        AfterEffect::Verify(_) => "verify",
    };
    Setting::new(kind, rule.origin)
}

/// What expressions about a call know.
fn known(slot: &Slot) -> Map<String, Value> {
    Map::from_iter([
        ("args".to_owned(), Value::clone(&slot.arguments)),
        ("tool".to_owned(), slot.tool.clone().into()),
    ])
}
