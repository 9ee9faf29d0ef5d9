//! Tool calls that a host with its own loop starts itself, if the rules only involve the tool's breaker: such a call
//! costs a hundredth of a step.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::Value;

use super::attempt_series::AttemptSeries;
use super::failure::Failure;
use super::ids::ProposalId;
use super::retry::AttemptProgress;
use crate::policy::{
    Approval, BreakerScope, ErrorClass, FailureCounting, PaceLimit, Policy, RetryBudget, Trigger,
};
use crate::session::AttemptRecord;
use crate::time::{Instant, Nanos};

/// The number of failures stored within the call: few policies allow more before the last attempt.
const FEW: usize = 2;

/// A call that the host has started itself, with its attempts.
#[derive(Debug)]
pub struct PlainCall {
    number: u64,
    started: Instant,
    slept: Nanos,
    failed: u32,
    few: [Option<FailedOnce>; FEW],
    more: Vec<FailedOnce>,
    /// `None`: the host withholds them.
    arguments: Option<Arc<Value>>,
}

/// A failed attempt.
#[derive(Debug)]
struct FailedOnce {
    class: ErrorClass,
    message: Cow<'static, str>,
    at: Instant,
    delay: Nanos,
}

/// The failure of an attempt of such a call.
#[derive(Debug)]
pub enum PlainFailure {
    /// Only class and message are known, and the class is certain.
    Certain(ErrorClass, Cow<'static, str>),
    /// More is known.
    Known(Failure),
}

/// How far the rules of a tool leave its calls to the host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PlainRules {
    /// Whether a first attempt that succeeds changes nothing in a run that [is quiet](super::State::is_quiet) about
    /// the tool.
    pub success: bool,
    /// Whether further attempts change nothing but the breaker and the state of reducers.
    pub retries: bool,
}

/// The end of such a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlainEnd {
    /// The call succeeded.
    Succeeded,
    /// The host no longer needs the call.
    Dropped,
}

/// What follows a failure of such a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlainNext {
    /// Another attempt, after this delay.
    Retry(Nanos),
    /// The interpreter must [adopt](super::Interpreter::adopt) the call; nothing has changed.
    Adopt,
    /// A reducer objects to another attempt: the interpreter has adopted the call.
    Adopted(ProposalId),
}

impl PlainRules {
    /// Determines how far the rules of a tool leave its calls to the host.
    pub fn of(policy: &Policy, tool: &str) -> Self {
        let (rules, session) = (policy.tool(tool), policy.session());
        let retry = &rules.retry;
        // Each of these rules changes more of a run than the breaker. A call without a step would lose the change, so
        // one of them is enough to leave the call to the interpreter.
        let success = !policy.has_call_rules(tool)
            && policy.run_limits().is_empty()
            && policy.output().is_none_or(|output| output.tool.value != tool)
            && rules.approval.value == Approval::Never
            // A call under a pace may have to wait for its turn, and others for it.
            && rules.pace.requests.value == PaceLimit::Unlimited
            // A token budget is credited for each success.
            && retry.budget.value == RetryBudget::None
            // A window counts successes, too. A success changes other breakers only after a failure, and then the run
            // is not quiet about the tool.
            && !matches!(rules.breaker.count.value, FailureCounting::Window(_))
            // Counts within a turn are reset with the next turn, and a call without a step begins none.
            && rules.breaker.scope.value != BreakerScope::Turn
            && !session.listens(Trigger::ToolSucceeded);
        // Shadow notes are written into the session, which requires a step.
        Self { success, retries: success && !retry.shadow.value }
    }
}

impl PlainFailure {
    /// The message of the failure.
    pub(super) fn message(&self) -> &str {
        match self {
            Self::Certain(_, message) => message,
            Self::Known(failure) => &failure.message,
        }
    }

    /// Takes the message of the failure.
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
    /// A call whose first attempt started at `started`. `number` is the number of its batch, which contains only this
    /// call.
    #[inline]
    pub const fn begun(number: u64, started: Instant) -> Self {
        Self {
            number,
            started,
            slept: Nanos::ZERO,
            failed: 0,
            few: [const { None }; FEW],
            more: Vec::new(),
            arguments: None,
        }
    }

    /// The same call with its arguments, for what the interpreter decides about it later.
    #[must_use]
    pub fn with_arguments(self, arguments: Arc<Value>) -> Self {
        Self { arguments: Some(arguments), ..self }
    }

    /// The idempotency key of such a call: identical for all its attempts, different for other calls.
    pub fn idempotency_key(run: &str, number: u64) -> String {
        // Identical for each attempt, so that a service can recognise a repeat. The run's id makes it unique, and a
        // resumed run produces the same key (draft-ietf-httpapi-idempotency-key-header).
        format!("{run}-{number}-0")
    }

    /// The number of the batch.
    pub const fn number(&self) -> u64 {
        self.number
    }

    /// The progress of the attempts.
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

    /// Records the failure of the attempt in flight, and the delay before the next.
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

    /// Takes the call; a call without attempts remains.
    pub(super) const fn take(&mut self) -> Self {
        core::mem::replace(self, Self::begun(self.number, self.started))
    }

    /// The number of the batch, and the arguments and attempts in the interpreter's form.
    pub(super) fn into_series(self) -> (u64, Arc<Value>, AttemptSeries) {
        let Self { number, started, slept, failed: _, few, more, arguments } = self;
        let failed = few.into_iter().flatten().chain(more).zip(1..);
        let history = failed.map(|(FailedOnce { class, message, at, delay }, attempt)| AttemptRecord {
            attempt,
            error_type: class,
            message: message.into_owned(),
            at,
            delay,
        });
        let series = AttemptSeries { started, slept, history: history.collect(), over: None };
        (number, arguments.unwrap_or_default(), series)
    }
}
