//! Values that keys have, as the interpreter uses them. The keys themselves are declared in `document/`.
//!
//! Nothing here is optional because a file left it out: the built-in policy sets every value, so absence ends at the merge.

use core::num::NonZeroU32;
use std::sync::Arc;

use super::decode::choice;
use super::{ErrorClass, Origin, WaitSources};
use crate::text::{Expr, Span, Template};
use crate::time::Nanos;

impl TimeBound {
    /// The length, if there is an end.
    pub const fn length(self) -> Option<Nanos> {
        match self {
            Self::Within(length) => Some(length),
            Self::Unlimited => None,
        }
    }
}

/// How many retries there may be across calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RetryBudget {
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

choice! {
    /// Whose work draws on a budget.
    #[derive(serde::Serialize, serde::Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum BudgetScope {
        /// This run.
        Run = "run",
        /// All runs of all hosts that share it.
        Shared = "shared",
    }
}

#[expect(clippy::derivable_impls, reason = "`choice!` reads no mark of a default")]
impl Default for BudgetScope {
    fn default() -> Self {
        Self::Run
    }
}

impl RetryBudget {
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
pub enum AttemptLimit {
    /// At most this many, the first included.
    Limited(NonZeroU32),
    /// As many as the deadline allows.
    Unlimited,
}

/// A length of time that may be without end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
pub enum TimeBound {
    /// At most this long.
    Within(Nanos),
    /// No limit.
    Unlimited,
}

/// What a delay asked for by the server (`Retry-After`) does to the next wait.
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
    pub max: TimeBound,
    /// What happens above `max`.
    pub above_max: AboveMax,
    /// Where a server may say how long to wait: the first of these that says so counts.
    pub sources: WaitSources,
}

choice! {
    /// How a hint and the computed delay are combined.
    pub enum ServerDelayMode {
        /// The longer of the two.
        Floor = "floor",
        /// The hint alone.
        Replace = "replace",
        /// The hint, but neither shorter than the computed delay nor longer than that and `margin`.
        // As the AWS SDKs do it, with a margin of five seconds.
        Clamp = "clamp",
        /// The hint is not looked at.
        Ignore = "ignore",
    }
}

// Servers have sent a date as a number of seconds, which means a wait of 56 years (clawhub 421).
choice! {
    /// What happens when a hint is longer than `max`.
    pub enum AboveMax {
        /// Stop now; the hint is passed on.
        GiveUp = "give_up",
        /// Stop now, and ask the next model if there is one; for tools and reports as `give_up`.
        NextTarget = "next_target",
        /// Wait the maximum.
        Clamp = "clamp",
    }
}

/// A check written in CEL, and what the model learns when it does not hold.
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

choice! {
    /// The events reducers run on.
    #[derive(Hash, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum Trigger {
        /// A retryable failure was written down for the model.
        RetryFeedback = "retry_feedback",
        /// A reducer failed.
        ReducerError = "reducer_error",
        /// A tool call ended well.
        ToolSucceeded = "tool_succeeded",
        /// A tool call ended badly.
        ToolFailed = "tool_failed",
        /// A tool call was refused before it ran.
        ToolRefused = "tool_refused",
        /// The model answered.
        ModelResponded = "model_responded",
        /// A model call failed.
        ModelFailed = "model_failed",
        /// The final report was accepted.
        OutputAccepted = "output_accepted",
        /// The final report was refused.
        OutputRefused = "output_refused",
    }
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
    pub change: ReducerChange,
    /// Must hold for the new value, else the reducer has failed. Variables: `event`, `slice` (the new value), `state`.
    pub check: Option<Expr>,
    /// Where it is written.
    pub origin: Origin,
}

/// What a reducer does to its slice.
#[derive(Clone, Debug)]
pub enum ReducerChange {
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
