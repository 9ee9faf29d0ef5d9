//! Values that keys have, as the interpreter uses them, and what it asks of the rules for retries. The keys themselves are
//! declared in `document/`.
//!
//! Nothing here is optional because a file left it out: the built-in policy sets every value, so absence ends at the merge.

use core::num::NonZeroU32;
use std::sync::Arc;

use super::{
    AboveMax, Backoff, BudgetScope, ClassRetry, Effect, ErrorClass, Expr, MalformedCalls, Origin,
    RetryPolicy, ServerDelayMode, Setting, Span, Template, Trigger, WaitSources,
};
use crate::time::Nanos;

/// The part of a retry policy that depends on the class of the failure.
#[derive(Clone, Copy, Debug)]
pub struct ClassRules<'p> {
    /// A failure at this attempt of the call, or later, is not followed by another.
    pub max_attempts: &'p Setting<Attempts>,
    /// The delay before the next attempt.
    pub backoff: &'p Setting<Backoff>,
    /// What a delay asked for by the other side does.
    pub server_delay: &'p Setting<ServerDelay>,
}

impl Bound {
    /// The length, if there is an end.
    pub const fn length(self) -> Option<Nanos> {
        match self {
            Self::Within(length) => Some(length),
            Self::Unlimited => None,
        }
    }
}

impl RetryPolicy {
    /// The rules for failures of a class.
    #[inline]
    pub fn for_class(&self, class: ErrorClass) -> ClassRules<'_> {
        if self.by_class.is_empty() { self.for_others() } else { self.for_one(class) }
    }

    /// As [`for_class`](Self::for_class). Out of line: few policies have such rules.
    #[inline(never)]
    fn for_one(&self, class: ErrorClass) -> ClassRules<'_> {
        match self.by_class.get(class) {
            Some(ClassRetry { max_attempts, backoff, server_delay }) => {
                ClassRules { max_attempts, backoff, server_delay }
            }
            None => self.for_others(),
        }
    }

    /// The rules for failures of the classes that have none of their own.
    #[inline]
    pub const fn for_others(&self) -> ClassRules<'_> {
        let Self { max_attempts, backoff, server_delay, .. } = self;
        ClassRules { max_attempts, backoff, server_delay }
    }

    /// The same rules, where the waits of a turn have a bound of their own.
    #[must_use]
    pub(crate) fn within(mut self, turn: Setting<Bound>) -> Self {
        let shorter = match (self.total_delay.value.length(), turn.value.length()) {
            (Some(own), Some(turn)) => turn < own,
            (own, turn) => own.is_none() && turn.is_some(),
        };
        if shorter {
            self.total_delay = turn;
        }
        self
    }

    /// The rules for what the model has to correct: it is asked again after a delay of their own.
    pub fn for_correction(&self, class: ErrorClass) -> ClassRules<'_> {
        ClassRules { backoff: &self.correction_backoff, ..self.for_class(class) }
    }
}

/// How many retries there may be across calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Budget {
    /// As many as the other rules grant.
    None,
    /// A store of tokens: each retry takes some, each success gives some back.
    Tokens(TokenBudget),
    /// A share of the calls of the last while.
    Window(WindowBudget),
}

/// A store of tokens, after the AWS SDKs' retry quota.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenBudget {
    /// How many there are at first, and at most.
    pub capacity: NonZeroU32,
    /// What a retry takes.
    pub cost: u32,
    /// What a retry takes after a failure of one of these classes.
    pub cost_of: Arc<[(ErrorClass, u32)]>,
    /// What a call that succeeds at its first attempt gives back.
    pub earn: u32,
    /// Whoever has the same name draws on the same store.
    pub pool: Option<Arc<str>>,
    /// Who draws on it.
    pub scope: BudgetScope,
}

/// A share of the calls of the last while, with a floor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WindowBudget {
    /// How far back calls and retries are counted.
    pub window: Nanos,
    /// Retries per call, in parts per million.
    pub ratio_ppm: u32,
    /// So many retries are granted in any window.
    pub min: u32,
    /// Whoever has the same name is counted together.
    pub pool: Option<Arc<str>>,
    /// Who is counted.
    pub scope: BudgetScope,
}

impl Budget {
    /// The name under which it is shared.
    pub fn pool(&self) -> Option<&str> {
        match self {
            Self::None => None,
            Self::Tokens(budget) => budget.pool.as_deref(),
            Self::Window(budget) => budget.pool.as_deref(),
        }
    }

    /// Whose work draws on it.
    pub const fn scope(&self) -> BudgetScope {
        match self {
            Self::None => BudgetScope::Run,
            Self::Tokens(budget) => budget.scope,
            Self::Window(budget) => budget.scope,
        }
    }
}

impl TokenBudget {
    /// What a retry takes after a failure of that class.
    pub fn cost_after(&self, class: ErrorClass) -> u32 {
        self.cost_of.iter().find(|(named, _)| *named == class).map_or(self.cost, |(_, cost)| *cost)
    }
}

/// How many attempts: a number, counting the first, or no end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
pub enum Attempts {
    /// At most this many, the first included.
    Limited(NonZeroU32),
    /// As many as the deadline allows.
    Unlimited,
}

/// A length of time that may be without end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
pub enum Bound {
    /// At most this long.
    Within(Nanos),
    /// No limit.
    Unlimited,
}

/// What a delay asked for by the other side (`Retry-After`) does to the next wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerDelay {
    /// How the hint and the computed backoff are combined.
    pub mode: ServerDelayMode,
    /// How much longer than the computed backoff [`ServerDelayMode::Clamp`] lets the wait be.
    pub margin: Nanos,
    /// Lengthens the hint by up to this part of it, in parts per million.
    pub spread_ppm: u32,
    /// Hints below this are raised to it.
    pub min: Nanos,
    /// The longest hint that is honoured.
    pub max: Bound,
    /// What happens above `max`.
    pub above_max: AboveMax,
    /// Where a server may say how long to wait: the first of these that says so counts.
    pub sources: WaitSources,
}

impl Effect {
    /// Its name in policies.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ReadOnly => "read_only",
            Self::Idempotent => "idempotent",
            Self::NonIdempotent => "non_idempotent",
            Self::Unknown => "unknown",
        }
    }
}

/// A check written in CEL, and what the model is told when it does not hold.
#[derive(Clone, Debug)]
pub struct Validator {
    /// Its name in reports.
    pub name: String,
    /// Must be true.
    pub check: Expr,
    /// What is wrong and what to do.
    pub message: Template,
    /// Where it is written.
    pub span: Span,
}

impl Validator {
    /// Whether both check the same with the same words.
    pub(crate) fn says_the_same(&self, other: &Self) -> bool {
        self.name == other.name
            && self.check.as_str() == other.check.as_str()
            && self.message.as_str() == other.message.as_str()
    }
}

impl MalformedCalls {
    /// Whether they stay in the conversation.
    #[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
    pub(crate) const fn is_answer(&self) -> bool {
        matches!(self, Self::Answer)
    }
}

/// What the session remembers.
#[derive(Clone, Debug)]
pub struct SessionPolicy {
    /// The slices and their starting values, by name.
    pub slices: indexmap::IndexMap<String, SliceRule>,
    /// The reducers, in the order they run.
    pub reducers: Vec<ReducerRule>,
}

impl SessionPolicy {
    /// Whether a reducer listens to `trigger`.
    pub fn listens(&self, trigger: Trigger) -> bool {
        self.reducers.iter().any(|rule| rule.on.contains(&trigger))
    }
}

/// A named part of the session's state.
#[derive(Clone, Debug)]
pub struct SliceRule {
    /// Its value before any event.
    pub initial: serde_json::Value,
    /// Where it is declared.
    pub origin: Origin,
}

/// A declarative reducer: on which event, when, which slice, and what it does to it.
#[derive(Clone, Debug)]
pub struct ReducerRule {
    /// Its name in reports.
    pub name: String,
    /// The kinds of event it runs on.
    pub on: Vec<Trigger>,
    /// Runs only if this holds; `None`: always.
    pub when: Option<Expr>,
    /// The slice it changes.
    pub slice: String,
    /// The change.
    pub change: Change,
    /// Must hold for the new value, else the reducer has failed. Variables: `event`, `slice` (the new value), `state`.
    pub check: Option<Expr>,
    /// Where it is written.
    pub origin: Origin,
}

/// What a reducer does to its slice.
#[derive(Clone, Debug)]
pub enum Change {
    /// The value becomes the slice.
    Set(Expr),
    /// The value is added at the end of the list.
    Append(Expr),
    /// The entries of the value replace those of the map.
    Merge(Expr),
    /// The number grows by the value.
    Increment(Expr),
    /// The elements for which this holds (variable `item`) are dropped.
    Remove(Expr),
    /// Only the last so many elements stay.
    KeepLast(u32),
}
