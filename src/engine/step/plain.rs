//! Calls that the host has started itself. Each rule is checked by the machine that owns it. Only one decision is
//! made here: that another attempt follows. Everything else is decided by the machines, after the call is adopted.

use std::borrow::Cow;

use serde_json::Value;

use super::super::depth::too_deep;
use super::super::directive::Directives;
use super::super::event::ToolOutcome;
use super::super::failure::{EffectState, may_run_again};
use super::super::machine::{
    CallPermit, FailedAttempt, NextMachine, OpenProposal, ProposalKind, StepOutput, StepRules, case_of,
    is_validation,
};
use super::super::plain_call::{PlainCall, PlainEnd, PlainFailure, PlainNext};
use super::super::problems::refused_arguments;
use super::super::retry::{self, FailureContext, RetryBlocker, RetryVerdict};
use super::super::state::State;
use super::{Interpreter, RunStep, SplitState};
use crate::engine::ids::ProposalId;
use crate::policy::{Effect, ErrorClass, RetryPolicy, Seed, ToolPolicy};
use crate::session::{FeedbackSource, ReducerError};
use crate::time::{Instant, Nanos};

impl Interpreter {
    /// Examines the arguments of a call that the host is about to start itself, and counts the call for loop
    /// detection. `false`: there is something to say about the call, so it must be proposed, and nothing has changed.
    pub fn plain_begins(
        &self,
        state: &mut State,
        (tool, policy): (&str, &ToolPolicy),
        arguments: &Value,
    ) -> bool {
        let Some(schema) = self.tools.schema(tool) else { return false };
        // The rules of a tool with rules for single calls leave no call to the host, so those of the tool hold.
        let is_valid = too_deep(arguments).is_none()
            && schema.is_valid(arguments)
            && refused_arguments(&policy.validate.value, (tool, arguments)).is_empty();
        // Loop detection comes last here: a call that is proposed after all is counted then.
        is_valid && state.loops.pass(&policy.loop_guard, (tool, arguments))
    }

    /// Handles a failed run of such a call: decides whether the host may make the next attempt itself, and returns
    /// directives to report. Unless the answer is [`PlainNext::Adopt`], the message of the failure is moved into the
    /// record of the attempt. `told`: the note about feedback is needed.
    #[inline]
    pub fn plain_failed(
        &self,
        state: &mut State,
        (tool, policy): (&str, &ToolPolicy),
        call: &mut PlainCall,
        (failure, effect): (&mut PlainFailure, EffectState),
        (now, told): (Instant, fn() -> bool),
    ) -> (PlainNext, Option<Directives>) {
        let adopt = || (PlainNext::Adopt, None);
        let (case, now) = (self.plain_case(failure, &policy.retry), state.now.max(now));
        // The model corrects refused arguments, possible side effects are verified or a person decides, and near the
        // end other rules apply: all of this needs the interpreter.
        if case.class == ErrorClass::InvalidArgs
            || !state.is_open_ended()
            || !may_run_again(effect_of(state, tool, policy), effect)
        {
            return adopt();
        }
        let (seed, number) = (state.context.seed, call.number());
        // Scope and name are those of a proposal, so the delay is identical on both paths.
        let key = || Seed::new(seed, "tool", &PlainCall::idempotency_key(&state.run, number));
        let (rules, shadow) = (&policy.retry, policy.retry.shadow.value);
        let RetryVerdict::Retry { delay, .. } =
            retry::decide_by(rules, call.progress(), &case, now, shadow, key)
        else {
            return adopt();
        };
        // A breaker that opens is reported and may hide the tool, which needs a step. It is checked last, as nothing
        // may change before: the interpreter adopts the call unchanged.
        let health = &mut *state.tools;
        if !health.failed_within_bounds(tool, &policy.breaker, now) {
            return adopt();
        }
        health.end_corrections(tool);
        state.now = now;
        state.last.failed(case.class, failure.message());
        let message = failure.take_message();
        if !policy.retry.emit_feedback.value && !is_validation(case.class) {
            call.record(case.class, message, now, delay);
            return (PlainNext::Retry(delay), None);
        }
        self.plain_feedback(state, (tool, policy), call, (message, &case, delay), (now, told))
    }

    /// The context of such a failure.
    #[inline]
    fn plain_case(&self, failure: &PlainFailure, retry: &RetryPolicy) -> FailureContext {
        match failure {
            // The table adds nothing to a certain class, and there is no server advice.
            PlainFailure::Certain(class, _) => FailureContext {
                class: *class,
                hint: None,
                assumed: false,
                obstacle: RetryBlocker::None,
                run_deadline: None,
                correction: false,
            },
            PlainFailure::Known(failure) => {
                case_of(failure, failure.classified(&self.policy), retry, RetryBlocker::None)
            }
        }
    }

    /// Records such a failure in the session. If a reducer objects, no further attempt follows.
    #[inline(never)]
    fn plain_feedback(
        &self,
        state: &mut State,
        (tool, policy): (&str, &ToolPolicy),
        call: &mut PlainCall,
        (message, case, next_delay): (Cow<'static, str>, &FailureContext, Nanos),
        (now, told): (Instant, fn() -> bool),
    ) -> (PlainNext, Option<Directives>) {
        let (progress, class) = (call.progress(), case.class);
        let (rules, mut directives) = (StepRules { policy: &self.policy, tools: &self.tools }, Vec::new());
        let slices = &mut state.slices;
        let mut out = StepOutput { rules, now, slices, directives: &mut directives, of: None };
        let (source, attempt) = (FeedbackSource::Tool, progress.attempt);
        let failed =
            FailedAttempt { source, tool: Some(tool), attempt, class, message: &message, next_delay };
        let Some(objection) = out.feedback_unwritten(&policy.retry, &failed, told()) else {
            call.record(class, message, now, next_delay);
            let directives = (!directives.is_empty()).then_some(Directives(directives));
            return (PlainNext::Retry(next_delay), directives);
        };
        call.record(class, message, now, Nanos::ZERO);
        let mut step = RunStep { directives, ..self.plain_step(state, now) };
        let proposal = step.adopt_objected(tool, call.take(), (case, &objection));
        (PlainNext::Adopted(proposal), Some(Directives(step.directives)))
    }

    /// Handles the end of such a call that [holds a permit](State::occupy). Waiting work may start now.
    pub fn plain_ended(
        &self,
        state: &mut State,
        (tool, policy): (&str, &ToolPolicy),
        end: PlainEnd,
        now: Instant,
    ) -> Directives {
        let directives = match end {
            PlainEnd::Succeeded => self.plain_succeeded(state, (tool, policy), || now).0,
            PlainEnd::Dropped => None,
        };
        let directives = directives.unwrap_or_default().0;
        let mut step = RunStep { directives, ..self.plain_step(state, now) };
        // The permit is returned in every case, or a dropped call would limit its tool's concurrency until the run
        // ends.
        step.split().run.queue.leave(tool);
        step.admit_others();
        Directives(step.directives)
    }

    /// The same for a successful call without a permit. Returns directives to report, and whether the run [is
    /// quiet](State::is_quiet) about the tool afterwards.
    pub fn plain_succeeded(
        &self,
        state: &mut State,
        (tool, policy): (&str, &ToolPolicy),
        now: impl FnOnce() -> Instant,
    ) -> (Option<Directives>, bool) {
        let health = &mut *state.tools;
        health.end_corrections(tool);
        // The breaker is available here: another lookup would cost most of the remaining time.
        let quiet = health.succeeded_within_bounds(tool, &policy.breaker);
        if state.loops.has_failed(tool) {
            state.loops.tool_recovered(tool);
        }
        if let Some(quiet) = quiet {
            return (None, quiet && state.is_quiet_otherwise(tool));
        }
        let mut step = self.plain_step(state, now());
        let SplitState { mut run, .. } = step.split();
        run.tools.succeeded(tool, Some(CallPermit::Run), policy, &mut run.out);
        let directives = Directives(step.directives);
        (Some(directives), state.is_quiet(tool))
    }

    /// Adopts a call that the host has started itself and that holds a permit, after the end of an attempt. From then
    /// on it is an ordinary proposal with this number.
    pub fn adopt(
        &self,
        state: &mut State,
        tool: &str,
        call: PlainCall,
        outcome: ToolOutcome,
        now: Instant,
    ) -> (ProposalId, Directives) {
        let mut step = self.plain_step(state, now);
        let proposal = step.open_plain();
        let SplitState { mut run, batch, .. } = step.split();
        batch.adopt(tool, call, outcome, &mut run);
        step.settle_plain(NextMachine::Settle);
        (proposal, Directives(step.directives))
    }

    fn plain_step<'a>(&'a self, state: &'a mut State, now: Instant) -> RunStep<'a> {
        // Time never goes backwards: a host's clock that does would lengthen waits and reopen breakers.
        state.now = state.now.max(now);
        let (policy, tools) = (&self.policy, &self.tools);
        RunStep { policy, tools, state, directives: Vec::new(), current: ProposalId::NONE }
    }
}

impl RunStep<'_> {
    /// Opens a proposal for a call that the host has started itself.
    fn open_plain(&mut self) -> ProposalId {
        // A proposal takes an event number, so that its id is unique even if no event was written for it.
        self.state.seq = self.state.seq.saturating_add(1);
        let turn = self.state.turn;
        self.open(OpenProposal::of(ProposalKind::Tools, turn));
        self.current
    }

    /// Adopts a call whose next attempt a reducer refused.
    fn adopt_objected(
        &mut self,
        tool: &str,
        call: PlainCall,
        (case, objection): (&FailureContext, &ReducerError),
    ) -> ProposalId {
        let proposal = self.open_plain();
        let SplitState { mut run, batch, .. } = self.split();
        let adopted = batch.adopt_objected(tool, call, (case, objection), &mut run);
        self.settle_plain(adopted.err().unwrap_or(NextMachine::Settle));
        proposal
    }

    fn settle_plain(&mut self, then: NextMachine) {
        self.route(then);
        self.admit_others();
    }
}

/// The effect of a run of the tool: from the policy, or else from the tool's own declaration.
fn effect_of(state: &State, tool: &str, policy: &ToolPolicy) -> Effect {
    match policy.effect.value {
        Effect::Unknown => state.context.effects.get(tool).copied().unwrap_or(Effect::Unknown),
        known => known,
    }
}
