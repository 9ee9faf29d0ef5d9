//! Effect verification after a failed run that may have had side effects, before another attempt.

use core::mem;

use serde_json::{Map, Value, json};

use super::super::run_parts::RunParts;
use super::super::work_table::WorkPurpose;
use super::{CallContext, CallPhase, CallStep, ToolSeries, UnverifiedRun};
use crate::engine::ask::{ApprovalAnswer, ApprovalQuestion};
use crate::engine::because::because;
use crate::engine::directive::{Note, RunTool, Work};
use crate::engine::event::ToolOutcome;
use crate::engine::failure::{EffectState, Failure, may_run_again};
use crate::engine::ids::WorkId;
use crate::engine::memo::Memo;
use crate::engine::retry::{self, RetryBlocker, RetryVerdict};
use crate::policy::{AfterEffect, ClassifiedFailure, Effect, EffectVerification, ErrorClass, Setting};
use crate::time::Instant;

impl ToolSeries {
    /// Starts an effect verification, if the policy asks for one; `None`: nothing is verified.
    ///
    /// Only if another attempt would follow a harmless failure: otherwise the result would not matter.
    pub(super) fn resolve_effect(
        &mut self,
        (failure, classified): (&Failure, ClassifiedFailure),
        effect: EffectState,
        at: Instant,
        cx: &CallContext<'_>,
        run: &mut RunParts<'_>,
    ) -> Option<CallStep> {
        let progress = self.series.progress();
        let policy = self.policy(run);
        // Without a possible retry the result would change nothing.
        if policy.on_uncertain_effect.value == AfterEffect::Tell
            || classified.class == ErrorClass::InvalidArgs
            || effect == EffectState::Committed
            || run.ending.stop().is_some()
            || may_run_again(run.effect_of(&self.tool, &policy), effect)
        {
            return None;
        }
        // The breaker is evaluated as if the failure were counted: if it opens, no attempt follows and there is
        // nothing to verify.
        let opens = run.tools.would_open(&self.tool, self.place, &policy, run.out.now);
        let obstacle = if opens { RetryBlocker::CircuitOpen } else { RetryBlocker::None };
        let case = run.case_of(failure, classified, &policy.retry, obstacle);
        let seed = || run.seed("tool", &cx.idempotency_key(run));
        // Decided as if a second run did no harm: the effect matters only if a retry would follow.
        let verdict = retry::decide(&policy.retry, progress, case, run.out.now, seed);
        if !matches!(verdict, RetryVerdict::Retry { .. }) {
            return None;
        }
        let asks = match &policy.on_uncertain_effect.value {
            AfterEffect::Ask => true,
            // If the verification cannot run, the effect stays unknown, and the call ends as one that may have had
            // side effects.
            AfterEffect::Verify(check) if self.verify(check, &policy.on_uncertain_effect, cx, run) => false,
            AfterEffect::Tell | AfterEffect::Verify(_) => return None,
        };
        let doubt =
            UnverifiedRun { failure: failure.clone(), effect, at, classified: Memo(Some(classified)) };
        self.phase = CallPhase::Doubtful(Box::new(doubt));
        Some(if asks { CallStep::Question } else { CallStep::Open })
    }

    /// Runs the tool that verifies the effect. Returns whether it can be run.
    fn verify(
        &self,
        check: &EffectVerification,
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
        // The verification takes no permit: the call waits for it, and without a free permit both would wait for
        // ever.
        let check_run = RunTool {
            work: WorkId(0),
            call: self.call.clone(),
            tool: check.tool.clone(),
            // One attempt only: a retry of the verification would delay the model.
            attempt: 1,
            max_attempts: Some(1),
            arguments,
            timeout: retry::attempt_timeout(&policy.retry, now, run.deadline(), now),
            // A different key than the call's, or a service would answer the verification with the result of the
            // call.
            idempotency_key: format!("{}-check", cx.idempotency_key(run)),
            spill: None,
        };
        let why = because(run.policy(), "on_uncertain_effect", &kind(rule), []);
        run.ask(
            WorkPurpose::Verify(cx.index),
            |work| Work::RunTool(RunTool { work, ..check_run }),
            vec![why],
        );
        true
    }

    /// Handles the result of the verification.
    pub(in crate::engine) fn on_verified(
        &mut self,
        outcome: ToolOutcome,
        cx: &mut CallContext<'_>,
        run: &mut RunParts<'_>,
    ) -> CallStep {
        let policy = self.policy(run);
        let AfterEffect::Verify(check) = &policy.on_uncertain_effect.value else {
            // The rules no longer name a verification, so its result cannot be interpreted; the effect stays unknown.
            return self.found_out(EffectState::Unknown, "", cx, run);
        };
        let effect = match outcome {
            // A failed verification proves nothing; "not started" would permit a second side effect.
            ToolOutcome::Failed { .. } | ToolOutcome::Done => EffectState::Unknown,
            ToolOutcome::Ok { data } => {
                let mut vars = known(self);
                vars.insert("result".to_owned(), data);
                match check.acted.holds(&vars) {
                    Ok(true) => EffectState::Committed,
                    Ok(false) => EffectState::NotStarted,
                    Err(error) => {
                        let place = run.policy().place(policy.on_uncertain_effect.origin);
                        run.out.warn(format!("{place}: `acted` has no value for this result: {error}"));
                        EffectState::Unknown
                    }
                }
            }
        };
        self.found_out(effect, &check.tool, cx, run)
    }

    /// Handles a person's answer whether the tool may run again. No answer is a refusal: the tool may have had side
    /// effects.
    pub(in crate::engine) fn on_approved_again(
        &mut self,
        answer: ApprovalAnswer,
        cx: &mut CallContext<'_>,
        run: &mut RunParts<'_>,
    ) -> CallStep {
        let effect = match answer {
            // The person states that another run does no harm, so the run counts as not started.
            ApprovalAnswer::Approve | ApprovalAnswer::ApproveAll => EffectState::NotStarted,
            // No answer is a refusal: it does not approve a possible second side effect.
            ApprovalAnswer::Refuse | ApprovalAnswer::None => EffectState::Unknown,
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
            // The result neither confirms nor denies the effect, so the earlier knowledge stays.
            EffectState::Started | EffectState::Unknown => "it may have had side effects",
        };
        let why = because(
            run.policy(),
            "on_uncertain_effect",
            &kind(&policy.on_uncertain_effect),
            [fact.to_owned()],
        );
        let (call, tool) = (self.call.clone(), self.tool.clone());
        run.out.note(Note::EffectChecked { call, tool, by: by.to_owned(), effect }, vec![why]);
        let UnverifiedRun { failure, effect: before, at, classified: Memo(known) } = doubt;
        let failed = (&failure, known.unwrap_or_else(|| failure.classified(run.policy())));
        match effect {
            EffectState::NotStarted => self.failed_for_certain(failed, effect, at, cx, run),
            EffectState::Committed => {
                let class = failed.1.class;
                let vars =
                    json!({ "tool": self.tool, "error": failure.message, "error_type": class, "by": by });
                let text = run.out.say(&policy.messages.acted, vars);
                // The side effect happened but the run still failed, so the breaker counts the failure.
                run.tools.failed(&self.tool, self.place, &policy, &mut run.out);
                self.has_acted(Some(&Value::String(text)), cx, run)
            }
            EffectState::Started | EffectState::Unknown => {
                self.failed_for_certain(failed, before, at, cx, run)
            }
        }
    }

    /// Asks a person whether the call may run again. After a request to stop no question is asked.
    pub(in crate::engine) fn ask_again(&self, doubt: &UnverifiedRun, index: usize, run: &mut RunParts<'_>) {
        // After a request to stop no attempt follows, so the answer would not matter.
        if run.ending.stop().is_some() {
            return;
        }
        let policy = self.policy(run);
        let why = because(run.policy(), "on_uncertain_effect", &kind(&policy.on_uncertain_effect), []);
        let pending = WorkPurpose::ApproveAgain(index);
        self.ask_person(pending, ApprovalQuestion::RunAgain, &doubt.failure.message, why, run);
    }
}

/// The arguments for the verifying tool, if it can run.
fn arguments_of(
    series: &ToolSeries,
    check: &EffectVerification,
    run: &mut RunParts<'_>,
) -> Result<Value, String> {
    let Some(schema) = run.out.rules.tools.schema(&check.tool) else {
        return Err(format!("there is no tool `{}`", check.tool));
    };
    let policy = run.policy().tool(&check.tool);
    // A verification with side effects would add another one to the unknown one.
    if run.effect_of(&check.tool, &policy) != Effect::ReadOnly {
        return Err(format!("`{}` is not `read_only`", check.tool));
    }
    // A failing service would answer with the same failure, or wrongly.
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
        // The policy's expressions produced invalid arguments; the tool would only refuse them.
        Some(problem) => Err(format!("the arguments of `{}`: {}", check.tool, problem.message)),
    }
}

/// The kind of verification, for people.
const fn kind(rule: &Setting<AfterEffect>) -> Setting<&'static str> {
    let kind = match &rule.value {
        AfterEffect::Tell => "tell",
        AfterEffect::Ask => "ask",
        AfterEffect::Verify(_) => "verify",
    };
    Setting::new(kind, rule.origin)
}

/// The variables for expressions about a call.
fn known(series: &ToolSeries) -> Map<String, Value> {
    Map::from_iter([
        ("args".to_owned(), Value::clone(&series.arguments)),
        ("tool".to_owned(), series.tool.clone().into()),
    ])
}
