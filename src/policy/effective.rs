//! The effective policy: plain numbers, each with its origin. What the interpreter sees.
//!
//! Nothing here is optional because a file left it out: the built-in default sets every value, so absence
//! ends at the merge.

use core::num::NonZeroU32;
use std::sync::Arc;

use super::{
    Backoff, BreakerPolicy, BudgetScope, ClassSet, ContextWindow, ErrorClass, Expr, LoopGuardPolicy,
    ModelPrice, Origin, Provider, ResultPolicy, Setting, TargetsPolicy, Template, TokensPolicy, WaitSources,
};
use crate::time::Nanos;

/// How failures of one kind of work are retried.
#[derive(Clone, Debug)]
pub struct RetryPolicy {
    /// `false`: nothing is retried.
    pub enabled: Setting<bool>,
    /// The first attempt plus retries.
    pub max_attempts: Setting<Attempts>,
    /// The classes that are retried.
    pub retry_on: Setting<ClassSet>,
    /// The classes that are never retried, whatever `retry_on` says.
    pub never_retry: Setting<ClassSet>,
    /// The delay before each next attempt.
    pub backoff: Setting<Backoff>,
    /// The delay before the model corrects what was refused.
    pub correction_backoff: Setting<Backoff>,
    /// What a delay asked for by the other side does.
    pub server_delay: Setting<ServerDelay>,
    /// From the first attempt on, no attempt starts after this.
    pub deadline: Setting<Bound>,
    /// The longest one attempt may take.
    pub attempt_timeout: Setting<Bound>,
    /// The most time spent waiting between the attempts of one call.
    pub total_delay: Setting<Bound>,
    /// What an attempt needs at least: none starts with less time than this left until a deadline.
    pub min_attempt_time: Setting<Nanos>,
    /// How many retries there may be across calls.
    pub budget: Setting<Budget>,
    /// Whether failures are written into the session for the model to see.
    pub emit_feedback: Setting<bool>,
    /// `true`: what would be retried is decided and written down, but not done.
    pub shadow: Setting<bool>,
    /// What is different for failures of some classes; each class once.
    pub by_class: Box<[ClassRetry]>,
}

/// What is different for failures of one class. Values that are not are those that hold for all.
#[derive(Clone, Debug)]
pub struct ClassRetry {
    /// The class.
    pub class: ErrorClass,
    /// A failure of the class at this attempt of the call, or later, is not followed by another.
    pub max_attempts: Setting<Attempts>,
    /// The delay after a failure of the class.
    pub backoff: Setting<Backoff>,
    /// What a delay asked for by the other side does to the wait after a failure of the class.
    pub server_delay: Setting<ServerDelay>,
}

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
        match self.by_class.iter().find(|rules| rules.class == class) {
            Some(ClassRetry { max_attempts, backoff, server_delay, .. }) => {
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attempts {
    /// At most this many, the first included.
    Limited(NonZeroU32),
    /// As many as the deadline allows.
    Unlimited,
}

/// A length of time that may be without end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

/// How a hint and the computed backoff are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerDelayMode {
    /// The longer of the two.
    Floor,
    /// The hint alone.
    Replace,
    /// The hint, but neither shorter than the computed backoff nor longer than that and the margin.
    Clamp,
    /// The hint is not looked at.
    Ignore,
}

/// What happens when a hint is longer than the policy allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AboveMax {
    /// Stop now; the hint is passed on.
    GiveUp,
    /// As [`GiveUp`](Self::GiveUp), but of a model the next target is asked, if there is one.
    NextTarget,
    /// Wait the maximum.
    Clamp,
}

/// Everything the interpreter needs for one tool.
#[derive(Clone, Debug)]
pub struct ToolPolicy {
    /// Retries of a call that ran and failed, and corrections of a call that was refused.
    pub retry: RetryPolicy,
    /// What a run of the tool does to the world.
    pub effect: Setting<Effect>,
    /// When to stop calling it.
    pub breaker: BreakerPolicy,
    /// What is done when the model repeats itself.
    pub loop_guard: LoopGuardPolicy,
    /// How much of its results a model is shown, and what becomes of the rest.
    pub result: ResultPolicy,
    /// Checks of the arguments beyond the schema.
    pub validators: Setting<Arc<[Validator]>>,
    /// What is decided when attempts are exhausted.
    pub on_exhausted: Setting<OnExhausted>,
    /// Whether a person is asked before it runs.
    pub approval: Setting<super::Approval>,
    /// How many calls of it run at once.
    pub concurrency: Setting<Attempts>,
    /// What is done about a run that failed and may have acted.
    pub after_effect: Setting<super::AfterEffect>,
    /// What the model is told.
    pub messages: ToolMessages,
}

/// What the model is told about a tool call that did not succeed.
#[derive(Clone, Debug)]
pub struct ToolMessages {
    /// The arguments were refused. Variables: `tool`, `attempt`, `max_attempts`, `problems`.
    pub invalid_args: Setting<Template>,
    /// The tool failed for good. Variables: `tool`, `error`, `error_type`, `attempts`, `may_have_acted`.
    pub failed: Setting<Template>,
    /// Attempts are exhausted. Variables as for `failed`.
    pub exhausted: Setting<Template>,
    /// No such tool. Variables: `tool`, `suggestions`.
    pub not_found: Setting<Template>,
    /// A reducer refused the result. Variables: `tool`, `reducer`, `error`.
    pub reducer_error: Setting<Template>,
    /// The run ended before the call did; it may have run. Variables: `tool`.
    pub interrupted: Setting<Template>,
    /// The run ended before the call began. Variables: `tool`.
    pub not_started: Setting<Template>,
    /// A person did not agree to the call, or nobody answered. Variables: `tool`, `answered`.
    pub not_approved: Setting<Template>,
    /// The run failed, but has acted. Variables: `tool`, `error`, `error_type`, `by`.
    pub acted: Setting<Template>,
}

/// What a run of a tool does to the world.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// Nothing; it may run any number of times.
    ReadOnly,
    /// The same whether it runs once or more often.
    Idempotent,
    /// Something new each time.
    NonIdempotent,
    /// Nobody said.
    Unknown,
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
    pub origin: Origin,
}

/// What is decided when attempts are exhausted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnExhausted {
    /// The model is told and goes on.
    TellModel,
    /// One last turn, in which only the final report is allowed.
    FinalTurn,
    /// The run ends as failed, with the history of attempts.
    Fail,
    /// The host's planner decides.
    AskPlanner,
}

/// Everything the interpreter needs for one model.
#[derive(Clone, Debug)]
pub struct ModelPolicy {
    /// Retries of a model call that failed.
    pub retry: RetryPolicy,
    /// How long each step of one call may take.
    pub timeouts: ModelTimeouts,
    /// What is decided when attempts are exhausted.
    pub on_exhausted: Setting<OnExhausted>,
    /// The classes after which no other model is asked in the turn.
    pub abort_on: Setting<ClassSet>,
    /// How long later turns pass the model over once another one was called instead, for a failure of its own.
    pub cool_down: Setting<Bound>,
    /// Models that are passed over together.
    pub provider: Setting<Provider>,
    /// How many tokens a request and its reply may have together.
    pub context_window: Setting<ContextWindow>,
    /// The window of a model that nobody knows.
    pub assumed_window: Setting<ContextWindow>,
    /// How its tokens are counted.
    pub tokens: TokensPolicy,
    /// How many tokens of the window are kept for the reply.
    pub output_reserve: Setting<NonZeroU32>,
    /// What its tokens cost.
    pub price: Setting<ModelPrice>,
}

/// What is done when the run is asked to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OnStop {
    /// It ends. Tools under way are stopped.
    End,
    /// What is under way ends, nothing is waited for, and one last turn allows only the report.
    FinalTurn,
}

/// What becomes of what the model is told about replies that are not what was due.
#[derive(Clone, Debug)]
pub struct GuidancePolicy {
    /// Whether it stays in the conversation.
    pub keep: Setting<bool>,
    /// The most kinds of it that go with one attempt, if it does not stay.
    pub most: Setting<NonZeroU32>,
}

/// How long each step of one model call may take; the whole of it, [`RetryPolicy::attempt_timeout`] says.
#[derive(Clone, Debug)]
pub struct ModelTimeouts {
    /// Until there is a connection.
    pub connect: Setting<Bound>,
    /// Of an answer that is streamed: until the first piece of it.
    pub first_token: Setting<Bound>,
    /// From then on: how long nothing at all may come.
    pub idle: Setting<Bound>,
}

/// The loop of turns.
#[derive(Clone, Debug)]
pub struct TurnPolicy {
    /// In which order the models are asked.
    pub targets: TargetsPolicy,
    /// What becomes of what the model is told about its replies.
    pub guidance: GuidancePolicy,
    /// The calls of one reply.
    pub calls: super::CallsPolicy,
    /// Questions to people.
    pub approval: super::ApprovalPolicy,
    /// The most turns of a run; the last one allows only the final report.
    pub max_turns: Setting<NonZeroU32>,
    /// The most time spent waiting for models in one turn, whichever of them is waited for.
    pub total_delay: Setting<Bound>,
    /// The most time spent waiting for models in a run, over all its turns.
    pub run_delay: Setting<Bound>,
    /// What plain text without tool calls is.
    pub text_only: Setting<TextOnly>,
    /// Guidance after plain text. Variables: `tool`, `attempt`, `max_attempts`.
    pub text_only_message: Setting<Template>,
    /// Guidance after an empty reply. Variables as above.
    pub empty_message: Setting<Template>,
    /// Guidance after a reply that is reasoning only. Variables as above.
    pub reasoning_only_message: Setting<Template>,
    /// The instruction of the last turn. Variables: `tool`, `turn`, `max_turns`, `reason` (as in the note `final_turn`).
    pub final_turn_message: Setting<Template>,
    /// A tool was called in the last turn of a run without a report. Variables: `tool` (the one called), `turn`,
    /// `max_turns`, `reason`.
    pub no_tools_message: Setting<Template>,
    /// A reducer refused a reply. Variables: `tool` (`reply`), `reducer`, `error`.
    pub reducer_error_message: Setting<Template>,
    /// The instruction of the last turn of a run without a report. Variables: `turn`, `max_turns`, `reason`.
    pub summary_message: Setting<Template>,
    /// The report there is when the model delivers none. Variables: `reason`, `turns`, `max_turns`, `attempts`,
    /// `error_type`, `last_error`.
    pub no_report_message: Setting<Template>,
    /// Whether the next turn is the last one after a report was delivered and refused.
    pub collapse: Setting<bool>,
    /// Whether a text that holds as the report is taken when the run would end without one.
    pub pending_report: Setting<bool>,
    /// What is done when the run is asked to stop.
    pub on_stop: Setting<OnStop>,
    /// The most characters of feedback or guidance the model is shown at once.
    pub feedback_chars: Setting<NonZeroU32>,
    /// Whether arguments and reports that are not JSON are repaired where they can mean one thing only.
    pub repair_json: Setting<bool>,
    /// Whether tool calls that a model wrote into its text are taken as calls.
    pub leaked_calls: Setting<bool>,
    /// What is done about calls whose arguments cannot be read.
    pub malformed_calls: Setting<MalformedCalls>,
    /// What is done when a model call fails after a part of its answer was streamed.
    pub after_partial: Setting<AfterPartial>,
}

/// What is done about tool calls whose arguments cannot be read.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum MalformedCalls {
    /// They stay in the conversation, with a result that says what is wrong.
    #[default]
    Answer,
    /// They are taken out of the reply.
    Drop,
}

impl MalformedCalls {
    /// Whether they stay in the conversation.
    #[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
    pub(crate) const fn is_answer(&self) -> bool {
        matches!(self, Self::Answer)
    }
}

/// What is done when a model call fails after a part of its answer was streamed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AfterPartial {
    /// What for any failed call: it is tried again if the rules grant it.
    Retry,
    /// It is not tried again, at this model or another.
    Fail,
}

/// What is done about a history that providers refuse: calls without a result, results without a call.
#[derive(Clone, Debug)]
pub struct HistoryPolicy {
    /// When the history is repaired.
    pub check: Setting<HistoryCheck>,
    /// What is done about a call without a result.
    pub orphan_calls: Setting<OrphanCalls>,
    /// The most characters of a text among the arguments of a call that the model is shown again.
    pub argument_chars: Setting<NonZeroU32>,
    /// What the model is told of calls that were taken out. Variables: `calls`, each with `tool` and `arguments`.
    pub pruned_message: Setting<Template>,
    /// The result of a call that had none. Variables: `tool`.
    pub injected_message: Setting<Template>,
}

/// When the history is repaired.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum HistoryCheck {
    /// Before a model is called, and after a provider has refused the history.
    BeforeCall,
    /// Only after a provider has refused it.
    AfterError,
    /// Not at all.
    Never,
}

/// What is done about a call without a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OrphanCalls {
    /// It is taken out, and the model is told of it.
    Prune,
    /// It gets a result, which says that nobody knows what came of it.
    Inject,
}

/// What plain text without tool calls is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TextOnly {
    /// The final answer, if it passes the output's rules.
    Accept,
    /// A mistake: the model is told to use a tool or to report.
    Reject,
}

/// The final report.
#[derive(Clone, Debug)]
pub struct OutputPolicy {
    /// The name of the tool the report is delivered by.
    pub tool: Setting<String>,
    /// What the model is told the tool is for.
    pub description: Setting<String>,
    /// JSON Schema of the report.
    pub schema: Setting<Arc<super::Schema>>,
    /// Checks beyond the schema.
    pub validators: Setting<Arc<[Validator]>>,
    /// Corrections of a report that was refused.
    pub retry: RetryPolicy,
    /// What is decided when attempts are exhausted.
    pub on_exhausted: Setting<OnExhausted>,
    /// What the model is told about a report that was refused. Variables: `tool`, `attempt`, `max_attempts`, `problems`.
    pub invalid_message: Setting<Template>,
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

/// The events reducers run on.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Trigger {
    /// A retryable failure was written down for the model.
    RetryFeedback,
    /// A reducer failed.
    ReducerError,
    /// A tool call ended well.
    ToolSucceeded,
    /// A tool call ended badly, attempts exhausted or not retryable.
    ToolFailed,
    /// A tool call was refused before it ran: arguments, unknown tool, open breaker.
    ToolRefused,
    /// The model answered.
    ModelResponded,
    /// A model call failed.
    ModelFailed,
    /// The final report was accepted.
    OutputAccepted,
    /// The final report was refused.
    OutputRefused,
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
