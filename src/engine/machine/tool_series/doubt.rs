//! A run that failed and may have acted: before another attempt it is found out whether it has.

use core::mem;

use serde_json::{Map, Value, json};

use super::super::run_parts::RunParts;
use super::super::work_table::Pending;
use super::{CallContext, CallPhase, CallStep, Doubt, ToolSeries};
use crate::engine::ask::{Answer, Question};
use crate::engine::because::because;
use crate::engine::directive::{Note, RunTool, Work, WorkId};
use crate::engine::event::ToolOutcome;
use crate::engine::failure::{EffectState, Failure, may_run_again};
use crate::engine::retry::{self, Obstacle, Verdict};
use crate::policy::{AfterEffect, Effect, ErrorClass, Setting, Verification};
use crate::time::Instant;

impl ToolSeries {
    /// Finds out first whether a run has acted, if that is to be found out; `None`: it is not.
    ///
    /// Only where another attempt would follow if running twice did no harm: else nothing depends on the answer.
    pub(super) fn doubts(
        &mut self,
        failure: &Failure,
        effect: EffectState,
        at: Instant,
        cx: &CallContext<'_>,
        run: &mut RunParts<'_>,
    ) -> Option<CallStep> {
        let classified = failure.classified(run.policy());
        let progress = self.series.progress();
        let policy = self.policy(run);
        if policy.after_effect.value == AfterEffect::Tell
            || classified.class == ErrorClass::InvalidArgs
            || effect == EffectState::Committed
            || run.ending.stop().is_some()
            || may_run_again(run.effect_of(&self.tool, &policy), effect)
        {
            return None;
        }
        let opens = run.tools.would_open(&self.tool, self.place, &policy, run.out.now);
        let obstacle = if opens { Obstacle::CircuitOpen } else { Obstacle::None };
        let case = run.case_of(failure, classified, &policy.retry, obstacle);
        let seed = || run.seed("tool", &cx.idempotency_key(run));
        let verdict = retry::decide(&policy.retry, progress, case, run.out.now, seed);
        if !matches!(verdict, Verdict::Retry { .. }) {
            return None;
        }
        let asks = match &policy.after_effect.value {
            AfterEffect::Ask => true,
            AfterEffect::Verify(check) if self.verify(check, &policy.after_effect, cx, run) => false,
            AfterEffect::Tell | AfterEffect::Verify(_) => return None,
        };
        let doubt = Doubt { failure: failure.clone(), effect, at };
        self.phase = CallPhase::Doubtful(Box::new(doubt));
        Some(if asks { CallStep::Question } else { CallStep::Open })
    }

    /// Runs the tool that says whether this one has acted. What cannot be run says nothing.
    fn verify(
        &self,
        check: &Verification,
        rule: &Setting<AfterEffect>,
        cx: &CallContext<'_>,
        run: &mut RunParts<'_>,
    ) -> bool {
        let arguments = match arguments_of(self, check, run) {
            Ok(arguments) => arguments,
            Err(problem) => {
                let place = run.policy().place(rule.origin);
                run.out
                    .warn(format!("{place}: whether `{}` has acted is not verified: {problem}", self.tool));
                return false;
            }
        };
        let policy = run.tool_policy(&check.tool, &arguments, None);
        let now = run.out.now;
        // It runs in the place of the call it is about.
        let check_run = RunTool {
            work: WorkId(0),
            call: self.call.clone(),
            tool: check.tool.clone(),
            attempt: 1,
            max_attempts: Some(1),
            arguments,
            timeout: retry::attempt_timeout(&policy.retry, now, run.deadline(), now),
            idempotency_key: format!("{}-check", cx.idempotency_key(run)),
            spill: None,
        };
        let why = because(run.policy(), "after_effect", &kind(rule), []);
        run.ask(Pending::Verify(cx.index), |work| Work::RunTool(RunTool { work, ..check_run }), vec![why]);
        true
    }

    /// The other tool has answered whether the run has acted.
    pub(in crate::engine) fn on_verified(
        &mut self,
        outcome: ToolOutcome,
        cx: &mut CallContext<'_>,
        run: &mut RunParts<'_>,
    ) -> CallStep {
        let policy = self.policy(run);
        let AfterEffect::Verify(check) = &policy.after_effect.value else {
            // The rules have changed meanwhile.
            return self.found_out(EffectState::Unknown, "", cx, run);
        };
        let effect = match outcome {
            ToolOutcome::Failed { .. } | ToolOutcome::Done => EffectState::Unknown,
            ToolOutcome::Ok { data } => {
                let mut vars = known(self);
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
        self.found_out(effect, &check.tool, cx, run)
    }

    /// A person has answered whether the tool may run again. No answer is a no: it may have acted.
    pub(in crate::engine) fn on_approved_again(
        &mut self,
        answer: Answer,
        cx: &mut CallContext<'_>,
        run: &mut RunParts<'_>,
    ) -> CallStep {
        let effect = match answer {
            Answer::Approve | Answer::ApproveAll => EffectState::NotStarted,
            Answer::Refuse | Answer::None => EffectState::Unknown,
        };
        self.found_out(effect, "", cx, run)
    }

    fn found_out(
        &mut self,
        effect: EffectState,
        by: &str,
        cx: &mut CallContext<'_>,
        run: &mut RunParts<'_>,
    ) -> CallStep {
        let doubt = match mem::replace(&mut self.phase, CallPhase::UnderWay) {
            CallPhase::Doubtful(doubt) => *doubt,
            phase => {
                self.phase = phase;
                return CallStep::Open;
            }
        };
        let policy = self.policy(run);
        let fact = match effect {
            EffectState::NotStarted => "it may run again",
            EffectState::Committed => "it has acted",
            EffectState::Started | EffectState::Unknown => "it may have acted",
        };
        let why = because(run.policy(), "after_effect", &kind(&policy.after_effect), [fact.to_owned()]);
        let (call, tool) = (self.call.clone(), self.tool.clone());
        run.out.note(Note::EffectChecked { call, tool, by: by.to_owned(), effect }, vec![why]);
        let Doubt { failure, effect: before, at } = doubt;
        match effect {
            EffectState::NotStarted => self.failed_for_certain(&failure, effect, at, cx, run),
            EffectState::Committed => {
                let class = failure.classified(run.policy()).class;
                let vars =
                    json!({ "tool": self.tool, "error": failure.message, "error_type": class, "by": by });
                let text = run.out.say(&policy.messages.acted, vars);
                // The tool is no better for it: its run failed.
                run.tools.failed(&self.tool, self.place, &policy, &mut run.out);
                self.has_acted(Some(&Value::String(text)), cx, run)
            }
            EffectState::Started | EffectState::Unknown => {
                self.failed_for_certain(&failure, before, at, cx, run)
            }
        }
    }

    /// Asks a person whether the call may run again. Once the run is to end, nobody is asked.
    pub(in crate::engine) fn ask_again(&self, doubt: &Doubt, index: usize, run: &mut RunParts<'_>) {
        if run.ending.stop().is_some() {
            return;
        }
        let policy = self.policy(run);
        let why = because(run.policy(), "after_effect", &kind(&policy.after_effect), []);
        let pending = Pending::ApproveAgain(index);
        self.ask_person(pending, Question::RunAgain, &doubt.failure.message, why, run);
    }
}

/// The arguments of the tool that is asked, if it can be.
fn arguments_of(series: &ToolSeries, check: &Verification, run: &mut RunParts<'_>) -> Result<Value, String> {
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
    let vars = known(series);
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
fn known(series: &ToolSeries) -> Map<String, Value> {
    Map::from_iter([
        ("args".to_owned(), Value::clone(&series.arguments)),
        ("tool".to_owned(), series.tool.clone().into()),
    ])
}
