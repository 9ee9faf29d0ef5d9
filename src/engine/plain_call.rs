//! Calls of tools that a host with its own loop begins by itself, where the rules ask for nothing of the run but the breaker of
//! the tool: such a call costs a hundredth of a step.

use super::attempt_series::AttemptSeries;
use super::ids::ProposalId;
use super::retry::AttemptProgress;
use crate::policy::{Approval, BreakerScope, ErrorClass, FailureCounting, Policy, RetryBudget, Trigger};
use crate::time::{Instant, Nanos};

/// Records of so many attempts fit into a call from its beginning.
const FEW_ATTEMPTS: usize = 4;

/// A call that the host has begun by itself, and its attempts.
#[derive(Debug)]
pub struct PlainCall {
    pub(super) number: u64,
    pub(super) series: AttemptSeries,
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

impl PlainCall {
    /// The first attempt has begun then. `number` is that of the batch that the call is for itself.
    #[inline]
    pub fn begun(number: u64, started: Instant) -> Self {
        // A call that goes well at once has no series; this one has failed, and few fail often.
        let history = Vec::with_capacity(FEW_ATTEMPTS);
        Self { number, series: AttemptSeries { history, ..AttemptSeries::begin(started) } }
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
    pub fn progress(&self) -> AttemptProgress {
        self.series.progress()
    }

    /// The class of the last failure.
    pub fn last_class(&self) -> Option<ErrorClass> {
        self.series.history.last().map(|failed| failed.error_type)
    }
}
