//! Calls of tools that a host with its own loop begins by itself, where the rules ask for nothing of the run but the breaker of
//! the tool: such a call costs a hundredth of a step.

use std::borrow::Cow;

use super::attempt_series::AttemptSeries;
use super::failure::Failure;
use super::ids::ProposalId;
use super::retry::AttemptProgress;
use crate::policy::{Approval, BreakerScope, ErrorClass, FailureCounting, Policy, RetryBudget, Trigger};
use crate::session::AttemptRecord;
use crate::time::{Instant, Nanos};

/// So many failures are kept in the call itself: few policies allow more before the last attempt.
const FEW: usize = 2;

/// A call that the host has begun by itself, and its attempts.
#[derive(Debug)]
pub struct PlainCall {
    number: u64,
    started: Instant,
    slept: Nanos,
    failed: u32,
    few: [Option<FailedOnce>; FEW],
    more: Vec<FailedOnce>,
}

/// An attempt that failed.
#[derive(Debug)]
struct FailedOnce {
    class: ErrorClass,
    message: Cow<'static, str>,
    at: Instant,
    delay: Nanos,
}

/// How an attempt failed of a call that the host has begun by itself.
#[derive(Debug)]
pub enum PlainFailure {
    /// Nothing but its class and its message is known, and the class is certain.
    Certain(ErrorClass, Cow<'static, str>),
    /// More is known.
    Known(Failure),
}

/// How much of a call the rules of its tool leave to the host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PlainRules {
    /// A first attempt that goes well changes nothing in a run that [is quiet](super::State::is_quiet) about the tool.
    pub success: bool,
    /// Nor do further attempts, but for the breaker and for what reducers make of their failures.
    pub retries: bool,
}

/// How a call ended that the host has begun by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlainEnd {
    /// It went well.
    Succeeded,
    /// The host needs it no more.
    Dropped,
}

/// What follows a failure of a call that the host has begun by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlainNext {
    /// Another attempt, after this wait.
    Retry(Nanos),
    /// The interpreter is to [adopt](super::Interpreter::adopt) the call; nothing has changed.
    Adopt,
    /// A reducer objects to another attempt: the interpreter has adopted the call.
    Adopted(ProposalId),
}

impl PlainRules {
    /// What the rules of a tool leave to the host.
    pub fn of(policy: &Policy, tool: &str) -> Self {
        let (rules, session) = (policy.tool(tool), policy.session());
        let retry = &rules.retry;
        // Each of these rules changes more of a run than its breaker. A call that skips the step would lose it, so
        // one of them is enough to leave the call to the interpreter.
        let success = !policy.has_call_rules(tool)
            && policy.run_limits().is_empty()
            && policy.output().is_none_or(|output| output.tool.value != tool)
            && rules.approval.value == Approval::Never
            // A token budget gets tokens back for each success.
            && retry.budget.value == RetryBudget::None
            // A window counts successes, too. Other breakers are changed by one only after a failure, and then the run is
            // not quiet about the tool.
            && !matches!(rules.breaker.count.value, FailureCounting::Window(_))
            // What is known for a turn is forgotten with the next one, and a call that skips the step begins none.
            && rules.breaker.scope.value != BreakerScope::Turn
            && !session.listens(Trigger::ToolSucceeded);
        // Shadow notes are written into the session, which only a step can do.
        Self { success, retries: success && !retry.shadow.value }
    }
}

impl PlainFailure {
    /// What is said about it.
    pub(super) fn message(&self) -> &str {
        match self {
            Self::Certain(_, message) => message,
            Self::Known(failure) => &failure.message,
        }
    }

    /// The same, for whoever keeps it; none is left here.
    pub(super) fn take_message(&mut self) -> Cow<'static, str> {
        match self {
            Self::Certain(_, message) => core::mem::take(message),
            Self::Known(failure) => core::mem::take(&mut failure.message).into(),
        }
    }
}

impl From<PlainFailure> for Failure {
    fn from(failed: PlainFailure) -> Self {
        match failed {
            PlainFailure::Certain(class, message) => Self::of(class, message),
            PlainFailure::Known(failure) => failure,
        }
    }
}

impl PlainCall {
    /// The first attempt has begun then. `number` is that of the batch that the call is for itself.
    #[inline]
    pub const fn begun(number: u64, started: Instant) -> Self {
        Self { number, started, slept: Nanos::ZERO, failed: 0, few: [const { None }; FEW], more: Vec::new() }
    }

    /// The key of all attempts of a call that is a batch for itself: the same for each, and for those of no other call.
    pub fn idempotency_key(run: &str, number: u64) -> String {
        // The same for each attempt, so a service can recognise the second as the first. The run's id makes it
        // unique, and a run that is resumed makes the same again (draft-ietf-httpapi-idempotency-key-header).
        format!("{run}-{number}-0")
    }

    /// Its number.
    pub const fn number(&self) -> u64 {
        self.number
    }

    /// How far the attempts have come.
    #[inline]
    pub const fn progress(&self) -> AttemptProgress {
        let (started, slept) = (self.started, self.slept);
        AttemptProgress { started, attempt: self.failed.saturating_add(1), slept }
    }

    /// The class of the last failure.
    pub fn last_class(&self) -> Option<ErrorClass> {
        let last = self.more.last().or_else(|| self.few.iter().rev().flatten().next());
        last.map(|failed| failed.class)
    }

    /// The attempt in flight failed, and that long is waited for the next.
    #[inline]
    pub(super) fn record(
        &mut self,
        class: ErrorClass,
        message: Cow<'static, str>,
        at: Instant,
        delay: Nanos,
    ) {
        self.slept = self.slept.saturating_add(delay);
        let free = usize::try_from(self.failed).ok().and_then(|place| self.few.get_mut(place));
        self.failed = self.failed.saturating_add(1);
        let failed = FailedOnce { class, message, at, delay };
        match free {
            Some(free) => *free = Some(failed),
            None => self.more.push(failed),
        }
    }

    /// The call as it is; what is left has had no attempt.
    pub(super) const fn take(&mut self) -> Self {
        core::mem::replace(self, Self::begun(self.number, self.started))
    }

    /// Its number, and its attempts as the interpreter keeps them.
    pub(super) fn into_series(self) -> (u64, AttemptSeries) {
        let Self { number, started, slept, failed: _, few, more } = self;
        let failed = few.into_iter().flatten().chain(more).zip(1..);
        let history = failed.map(|(FailedOnce { class, message, at, delay }, attempt)| AttemptRecord {
            attempt,
            error_type: class,
            message: message.into_owned(),
            at,
            delay,
        });
        (number, AttemptSeries { started, slept, history: history.collect(), over: None })
    }
}
