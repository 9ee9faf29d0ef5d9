//! One call of a tool that the interpreter decides about.

use std::future::Future;
use std::pin::pin;

use serde_json::Value;
use tracing::Instrument;

use super::attempt::{Cause, within};
use super::run::{Permit, Proposed};
use super::{CallError, ClassifyError, GivenUp, ToolGuard};
use crate::engine::{
    ApprovalAnswer, ApprovalQuestion, AskPerson, DirectiveKind, EffectState, Failure, PlannerDecision,
    ProposedCall, RunFacts, RunTool, ToolOutcome, Work,
};
use crate::host::ProposalError;
use crate::policy::{ErrorClass, Policy, UnansweredMode};
use crate::session::ToolCall;

/// Arguments of so many bytes are read and validated elsewhere, whatever is in them.
const LONG: usize = 16 << 10;

/// What a call came to.
pub(super) struct Made<T> {
    /// What the closure returned.
    pub(super) value: T,
    /// What the model reads of it; empty if the host keeps the value to itself.
    pub(super) text: String,
}

impl ToolGuard {
    /// Proposes a call with these arguments, as the model wrote them; `None`: the host keeps them to itself.
    pub(super) async fn propose(&self, arguments: Option<String>) -> Result<Proposed, ProposalError> {
        let permit = self.run().permit().await;
        self.propose_with(permit, arguments)
    }

    fn propose_with(&self, permit: Permit, arguments: Option<String>) -> Result<Proposed, ProposalError> {
        let (name, planner) = (self.name().to_owned(), self.planner().cloned());
        let proposal = |id| {
            let opaque = arguments.is_none();
            let call = ToolCall { id, name, arguments: arguments.unwrap_or_default() };
            ProposedCall { call, policy: planner, opaque }
        };
        self.run().propose_call((self.name(), self.cell()), proposal, permit)
    }

    /// Proposes it where that does not hold the thread up: what takes long is read and validated on a thread for such work.
    pub(super) async fn propose_aside(
        &self,
        arguments: String,
        long: bool,
    ) -> Result<Proposed, ProposalError> {
        if !long {
            return self.propose(Some(arguments)).await;
        }
        let (this, written, permit) = (self.clone(), arguments.clone(), self.run().permit().await);
        match tokio::task::spawn_blocking(move || this.propose_with(permit, Some(written))).await {
            Ok(proposed) => proposed,
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                // That runtime shuts down, and has not begun it.
                Err(_) => self.propose(Some(arguments)).await,
            },
        }
    }

    /// Whether it takes long to hold the arguments against the schema of the tool.
    pub(super) fn takes_long(&self, arguments: &Value) -> bool {
        self.inner().tools.schema(self.name()).is_some_and(|schema| schema.takes_long(arguments))
    }

    /// Whether it takes long to read what a model wrote, or to hold it against the schema of the tool.
    pub(super) fn is_long(&self, arguments: &str) -> bool {
        let costly = self.inner().tools.schema(self.name()).filter(|schema| schema.may_be_costly());
        arguments.len() > LONG
            || costly.is_some_and(|schema| {
                serde_json::from_str(arguments).is_ok_and(|arguments| schema.takes_long(&arguments))
            })
    }

    /// Carries a call out: runs the tool whenever it is asked for. `made`: so many attempts were made before, and the last failed
    /// so. `shown` is what of a result the interpreter learns.
    pub(super) async fn carry_out<T, E, Fut>(
        &self,
        mut proposed: Proposed,
        (mut made, mut last): (u32, Option<E>),
        shown: impl Fn(&T) -> Option<Value>,
        mut attempt: impl FnMut(&RunTool) -> Fut,
    ) -> Result<Made<T>, CallError<E>>
    where
        E: ClassifyError,
        Fut: Future<Output = Result<T, E>>,
    {
        let (run, mut value) = (self.run(), None);
        while let Some(directive) = proposed.next().await {
            let DirectiveKind::Work(work) = directive.order else { continue };
            let id = work.id();
            let event = match work {
                Work::RunTool(tool) if *tool.tool == *self.name() && tool.attempt > made => {
                    made = tool.attempt;
                    let span = proposed.span(id);
                    let attempt = span.in_scope(|| attempt(&tool));
                    let attempt = pin!(attempt.instrument(span));
                    let Some(ended) = proposed.carry_out(id, within(tool.timeout, attempt)).await else {
                        continue;
                    };
                    let outcome = match ended {
                        Ok(done) => {
                            let outcome =
                                shown(&done).map_or(ToolOutcome::Done, |data| ToolOutcome::Ok { data });
                            value = Some(done);
                            outcome
                        }
                        Err(cause) => {
                            let outcome = failed(&cause, &self.policy());
                            last = cause.into_error();
                            outcome
                        }
                    };
                    tool.finished_with(outcome, RunFacts::default())
                }
                // It is to find out whether the call has acted, and nobody here can run it.
                Work::RunTool(tool) => tool.finished_with(unavailable(), RunFacts::default()),
                Work::Wait(wait) => {
                    let sleep = tokio::time::sleep(wait.delay.to_std());
                    if proposed.carry_out(id, sleep).await.is_none() {
                        continue;
                    }
                    wait.fired()
                }
                Work::Ask(ask) => {
                    let answer = self.answer(&ask);
                    ask.answered(answer)
                }
                Work::Consult(consult) => consult.decided(PlannerDecision::TellModel),
                // No other work is asked for about a call of a tool.
                Work::PrepareTurn(_)
                | Work::RepairHistory(_)
                | Work::ReduceContext(_)
                | Work::Summarize(_)
                | Work::CallModel(_) => continue,
            };
            run.tell(event)?;
        }
        let settled = proposed.settled()?;
        let guidance = core::mem::take(&mut proposed.said.guidance);
        run.guide(&proposed, guidance.into_iter().chain(settled.guidance.iter().cloned()));
        match (value, proposed.said.exhausted.take()) {
            (Some(value), _) => Ok(Made { value, text: core::mem::take(&mut proposed.said.text) }),
            (None, Some(exhausted)) => {
                let message = core::mem::take(&mut proposed.said.text);
                let because = core::mem::take(&mut proposed.said.because);
                Err(CallError::Exhausted(Box::new(GivenUp { exhausted, because, message, last })))
            }
            (None, None) => Err(CallError::Refused(Box::new(proposed.refusal(&settled)))),
        }
    }

    /// What a person says who is asked about the call. With nobody to ask, nothing is approved, whatever the policy makes of
    /// silence; and who has agreed to the call has not agreed to a second run of what may have had side effects.
    fn answer(&self, ask: &AskPerson) -> ApprovalAnswer {
        match (ask.question, self.policy().turn().approval.unanswered.value) {
            (ApprovalQuestion::Run, _) if self.is_approved() => ApprovalAnswer::Approve,
            (ApprovalQuestion::Run, UnansweredMode::Approve) => ApprovalAnswer::Refuse,
            (ApprovalQuestion::Run, UnansweredMode::Refuse) | (ApprovalQuestion::RunAgain, _) => {
                ApprovalAnswer::None
            }
        }
    }
}

fn failed<E: ClassifyError>(cause: &Cause<E>, policy: &Policy) -> ToolOutcome {
    ToolOutcome::Failed { failure: cause.failure(policy).into(), effect: cause.effect() }
}

fn unavailable() -> ToolOutcome {
    let failure = Failure::of(ErrorClass::ToolUnavailable, "the guard of another tool cannot run this one");
    ToolOutcome::Failed { failure, effect: EffectState::NotStarted }
}
