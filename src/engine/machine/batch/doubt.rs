//! A run that failed and may have acted: before another attempt it is found out whether it has.

use core::mem;

use serde_json::{Map, Value, json};

use super::super::call_queue::CallKey;
use super::super::run_parts::RunParts;
use super::super::then::Then;
use super::super::work_table::Pending;
use super::Batch;
use super::approval::ask_person;
use super::slot::{Doubt, Slot, SlotPhase};
use crate::engine::ask::{Answer, Question};
use crate::engine::because::because;
use crate::engine::directive::{Note, RunTool, Work, WorkId};
use crate::engine::event::ToolOutcome;
use crate::engine::failure::{EffectState, Failure, may_run_again};
use crate::engine::retry::{self, Obstacle, Verdict};
use crate::policy::{AfterEffect, Effect, ErrorClass, Setting, Verification};
use crate::time::Instant;

impl Batch {
    /// Whether it is to be found out first if a run has acted; then that is under way.
    ///
    /// Only where another attempt would follow if running twice did no harm: else nothing depends on the answer.
    pub(super) fn doubts(
        &mut self,
        index: usize,
        failure: &Failure,
        effect: EffectState,
        at: Instant,
        run: &mut RunParts<'_>,
    ) -> Result<bool, Then> {
        let classified = failure.classified(run.policy());
        let Some(slot) = self.slot(index) else { return Ok(false) };
        let (progress, slot) = (slot.series.progress(), slot.without_history());
        let policy = run.tool_policy(&slot.tool, &slot.arguments, slot.planner.as_ref());
        if policy.after_effect.value == AfterEffect::Tell
            || classified.class == ErrorClass::InvalidArgs
            || effect == EffectState::Committed
            || run.ending.stop().is_some()
            || may_run_again(run.effect_of(&slot.tool, &policy), effect)
        {
            return Ok(false);
        }
        let opens = run.tools.would_open(&slot.tool, slot.place, &policy, run.out.now);
        let obstacle = if opens { Obstacle::CircuitOpen } else { Obstacle::None };
        let case = run.case_of(failure, classified, &policy.retry, obstacle);
        let seed = || run.seed("tool", &self.idempotency_key(index, run));
        let verdict = retry::decide(&policy.retry, progress, case, run.out.now, seed);
        if !matches!(verdict, Verdict::Retry { .. }) {
            return Ok(false);
        }
        let asks = match &policy.after_effect.value {
            AfterEffect::Ask => true,
            AfterEffect::Verify(check) if self.verify(index, &slot, check, &policy.after_effect, run) => {
                false
            }
            AfterEffect::Tell | AfterEffect::Verify(_) => return Ok(false),
        };
        let doubt = Doubt { failure: failure.clone(), effect, at };
        self.set_phase(index, SlotPhase::Doubtful(Box::new(doubt)));
        if asks {
            run.queue.put_question(CallKey(run.proposal, index));
            self.ask_next(run)?;
        }
        Ok(true)
    }

    /// Whether the call that is settled next waits for a person to say whether it may run again.
    pub(in crate::engine) fn waits_for_a_person(&self, run: &RunParts<'_>) -> Option<usize> {
        let index = self.settled;
        let doubtful = matches!(self.slot(index)?.phase, SlotPhase::Doubtful(_));
        let verifies =
            run.work.any(|of, pending| of == run.proposal && matches!(pending, Pending::Verify(_)));
        (doubtful && !verifies).then_some(index)
    }

    /// Runs the tool that says whether this one has acted. What cannot be run says nothing.
    fn verify(
        &mut self,
        index: usize,
        slot: &Slot,
        check: &Verification,
        rule: &Setting<AfterEffect>,
        run: &mut RunParts<'_>,
    ) -> bool {
        let arguments = match arguments_of(slot, check, run) {
            Ok(arguments) => arguments,
            Err(problem) => {
                let place = run.policy().place(rule.origin);
                run.out
                    .warn(format!("{place}: whether `{}` has acted is not verified: {problem}", slot.tool));
                return false;
            }
        };
        let policy = run.tool_policy(&check.tool, &arguments, None);
        let now = run.out.now;
        // It runs in the place of the call it is about.
        let check_run = RunTool {
            work: WorkId(0),
            call: slot.call.clone(),
            tool: check.tool.clone(),
            attempt: 1,
            max_attempts: Some(1),
            arguments,
            timeout: retry::attempt_timeout(&policy.retry, now, run.deadline(), now),
            idempotency_key: format!("{}-check", self.idempotency_key(index, run)),
            spill: None,
        };
        let why = because(run.policy(), "after_effect", &kind(rule), []);
        run.ask(Pending::Verify(index), |work| Work::RunTool(RunTool { work, ..check_run }), vec![why]);
        true
    }

    /// The other tool has answered whether the run of a slot has acted.
    pub(in crate::engine) fn on_verified(
        &mut self,
        index: usize,
        outcome: ToolOutcome,
        run: &mut RunParts<'_>,
    ) -> Result<(), Then> {
        run.out.about(index);
        let Some(slot) = self.slot(index).map(Slot::without_history) else {
            return Ok(());
        };
        let policy = run.tool_policy(&slot.tool, &slot.arguments, slot.planner.as_ref());
        let AfterEffect::Verify(check) = &policy.after_effect.value else {
            // The rules have changed meanwhile.
            return self.found_out(index, EffectState::Unknown, "", run);
        };
        let effect = match outcome {
            ToolOutcome::Failed { .. } | ToolOutcome::Done => EffectState::Unknown,
            ToolOutcome::Ok { data } => {
                let mut vars = known(&slot);
                vars.insert("result".to_owned(), data);
                match check.acted.holds(&vars) {
                    Ok(true) => EffectState::Committed,
                    Ok(false) => EffectState::NotStarted,
                    Err(error) => {
                        let place = run.policy().place(policy.after_effect.origin);
                        run.out.warn(format!("{place}: `acted` has no value for this result: {error}"));
                        EffectState::Unknown
                    }
                }
            }
        };
        self.found_out(index, effect, &check.tool, run)
    }

    /// A person has answered whether the tool may run again. No answer is a no: it may have acted.
    pub(in crate::engine) fn on_approved_again(
        &mut self,
        index: usize,
        answer: Answer,
        run: &mut RunParts<'_>,
    ) -> Result<(), Then> {
        run.out.about(index);
        let effect = match answer {
            Answer::Approve | Answer::ApproveAll => EffectState::NotStarted,
            Answer::Refuse | Answer::None => EffectState::Unknown,
        };
        self.found_out(index, effect, "", run)
    }

    fn found_out(
        &mut self,
        index: usize,
        effect: EffectState,
        by: &str,
        run: &mut RunParts<'_>,
    ) -> Result<(), Then> {
        let Some(slot) = self.slots.get_mut(index) else { return Ok(()) };
        let doubt = match mem::replace(&mut slot.phase, SlotPhase::UnderWay) {
            SlotPhase::Doubtful(doubt) => *doubt,
            phase => {
                slot.phase = phase;
                return Ok(());
            }
        };
        let slot = slot.without_history();
        let policy = run.tool_policy(&slot.tool, &slot.arguments, slot.planner.as_ref());
        let fact = match effect {
            EffectState::NotStarted => "it may run again",
            EffectState::Committed => "it has acted",
            EffectState::Started | EffectState::Unknown => "it may have acted",
        };
        let why = because(run.policy(), "after_effect", &kind(&policy.after_effect), [fact.to_owned()]);
        let (call, tool) = (slot.call.clone(), slot.tool.clone());
        run.out.note(Note::EffectChecked { call, tool, by: by.to_owned(), effect }, vec![why]);
        let Doubt { failure, effect: before, at } = doubt;
        match effect {
            EffectState::NotStarted => self.failed_for_certain(index, &failure, effect, at, run)?,
            EffectState::Committed => {
                let class = failure.classified(run.policy()).class;
                let vars =
                    json!({ "tool": slot.tool, "error": failure.message, "error_type": class, "by": by });
                let text = run.out.say(&policy.messages.acted, vars);
                // The tool is no better for it: its run failed.
                run.tools.failed(&slot.tool, slot.place, &policy, &mut run.out);
                self.has_acted(index, Some(&Value::String(text)), run);
            }
            EffectState::Started | EffectState::Unknown => {
                self.failed_for_certain(index, &failure, before, at, run)?;
            }
        }
        Ok(())
    }
}

/// The arguments of the tool that is asked, if it can be.
pub(super) fn arguments_of(
    slot: &Slot,
    check: &Verification,
    run: &mut RunParts<'_>,
) -> Result<Value, String> {
    let Some(schema) = run.out.rules.tools.schema(&check.tool) else {
        return Err(format!("there is no tool `{}`", check.tool));
    };
    let policy = run.policy().tool(&check.tool);
    if run.effect_of(&check.tool, &policy) != Effect::ReadOnly {
        return Err(format!("`{}` is not `read_only`", check.tool));
    }
    if !run.tools.is_closed(&check.tool) {
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

/// Asks whether the call of a slot may run again. Once the run is to end, nobody is asked.
pub(super) fn ask_again(index: usize, slot: &Slot, doubt: &Doubt, run: &mut RunParts<'_>) {
    if run.ending.stop().is_some() {
        return;
    }
    let policy = run.tool_policy(&slot.tool, &slot.arguments, slot.planner.as_ref());
    let why = because(run.policy(), "after_effect", &kind(&policy.after_effect), []);
    let pending = Pending::ApproveAgain(index);
    ask_person(pending, Question::RunAgain, slot, &doubt.failure.message, why, run);
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
