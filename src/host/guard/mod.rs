//! Guards: the policy around single calls, for a host that has a loop of its own.
//!
//! A guard wraps what the host does anyway. `guard.tool("search").call(&args, |args, ctx| async …)` validates the
//! arguments, asks the breaker, runs the closure, and runs it again as the policy says; `guard.turn(request)`
//! does the same for a call to a model, over the targets in order. Failures are written into the guard's session,
//! where prompts can find them, and each call of a model has a record ([`GuardBuilder::on_attempt`]).
//!
//! A request to a model is the host's own. What the guard is not told of it, it does not check: its size
//! ([`TurnGuard::tokens`]), its history ([`TurnGuard::history`]), the tokens of replies
//! ([`TurnGuard::call_with_usage`]). Nor can it cut a result that it does not see: [`ToolGuard::show`] says what the model
//! is shown of one.
//!
//! A call whose arguments are JSON is looked at by the loop guard: it is refused if the policy says so, and
//! [`Guard::take_nudge`] has what the model is to be told. Of calls of one tool only as many run at once as may fail before
//! its breaker opens; the others wait. So a call that is made within a call of the same tool may have to wait for it: give
//! it a guard of its own, or the tool `breaker: {failures: never}`.
//!
//! The decisions are those of the interpreter ([`crate::engine::retry`], [`crate::engine::Breaker`]); the guard
//! adds the waiting. A call that succeeds costs about 150 instructions more than the bare call, as
//! `benches/instructions.sh` counts them: no lock unless there is JSON to be remembered, no clock unless there is a deadline, no allocation, and no timer
//! unless the call is still pending after its first poll.

mod attempts;
mod budget;
mod classify;
mod context;
mod history;
mod record;
mod repeats;
mod seat;
mod session;
mod tool;
mod turn;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use serde_json::Value;

pub use attempts::CallContext;
pub use classify::{Arguments, CallError, Classify, GivenUp, Refusal};
pub use tool::ToolGuard;
pub use turn::TurnGuard;

use self::session::Session;
use super::clock::Clock;
use super::telemetry::Calls;
use super::{LivePolicy, Metrics, MetricsSnapshot, ModelAttempt, ModelFacts};
use crate::context::overhead;
use crate::engine::{Catalogue, Metric, MetricName, Overhead, reflect, told};
use crate::policy::{Policy, Template, TemplateError};
use crate::session::{ReducerError, RetryFeedback, Slices};

/// A policy around calls, with a session of its own. Cheap to clone; clones share the session.
#[derive(Clone)]
pub struct Guard {
    inner: Arc<Inner>,
}

/// What is told of a reducer that failed.
type OnReducerError = Box<dyn Fn(&ReducerError) + Send + Sync>;

/// What is told of a call of a model that is over.
type OnAttempt = Box<dyn Fn(&ModelAttempt) + Send + Sync>;

struct Inner {
    live: LivePolicy,
    tools: Catalogue,
    targets: Vec<String>,
    run: String,
    seed: u64,
    clock: Clock,
    calls: AtomicU64,
    turns: AtomicU32,
    session: Session,
    metrics: Arc<Metrics>,
    models: Calls,
    on_reducer_error: Option<OnReducerError>,
    on_attempt: Option<OnAttempt>,
}

/// Makes a [`Guard`].
pub struct GuardBuilder {
    inner: Inner,
}

impl core::fmt::Debug for Guard {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Guard")
            .field("run", &self.inner.run)
            .field("policy", &self.inner.live.current().digest())
            .field("targets", &self.inner.targets)
            .finish_non_exhaustive()
    }
}

impl Guard {
    /// A guard under `policy`, with a new session. If it is a [`LivePolicy`] that is replaced, calls that begin
    /// later are under the new one.
    ///
    /// Must be made inside a tokio runtime whose time is to be used.
    pub fn new(policy: impl Into<LivePolicy>) -> Self {
        Self::builder(policy).build()
    }

    /// A guard to be told more: tools, targets, a seed, an id.
    pub fn builder(policy: impl Into<LivePolicy>) -> GuardBuilder {
        let live = policy.into();
        let session = Session::new(live.current().session());
        let metrics = Arc::new(Metrics::new());
        let inner = Inner {
            live,
            tools: Catalogue::default(),
            targets: Vec::new(),
            run: crate::host::new_uuid().to_string(),
            seed: 0,
            clock: Clock::system(),
            calls: AtomicU64::new(0),
            turns: AtomicU32::new(0),
            session,
            models: Calls::new(Arc::clone(&metrics), BTreeMap::new()),
            metrics,
            on_reducer_error: None,
            on_attempt: None,
        };
        GuardBuilder { inner }
    }

    /// The guard of one tool. Keep it: it has the tool's policy at hand.
    pub fn tool(&self, name: &str) -> ToolGuard {
        ToolGuard::new(Arc::clone(&self.inner), name)
    }

    /// The guard of one call to a model.
    pub fn turn<R: Clone>(&self, request: R) -> TurnGuard<R> {
        TurnGuard::new(Arc::clone(&self.inner), request)
    }

    /// The latest feedback in the session.
    pub fn latest_feedback(&self) -> Option<RetryFeedback> {
        self.inner.session.with(Slices::latest_feedback)
    }

    /// What was counted so far: the same metrics as in a run.
    pub fn metrics(&self) -> MetricsSnapshot {
        for (tool, cell) in self.inner.session.tools() {
            let metric =
                Metric { name: MetricName::RetryAttempts, subject: format!("tool {tool}"), value: 1 };
            for (attempts, calls) in cell.take_ended() {
                self.inner.metrics.record_many(&Metric { value: attempts, ..metric.clone() }, calls);
            }
        }
        self.inner.metrics.snapshot()
    }

    /// What the model is to be told because it repeats itself: put it into the next request. There is one thing at a time,
    /// and it is said once.
    pub fn take_nudge(&self) -> Option<String> {
        self.inner.session.repeats.take_nudge()
    }

    /// Reads the slices of the session.
    pub fn slices<T>(&self, read: impl FnOnce(&Slices) -> T) -> T {
        self.inner.session.with(read)
    }
}

impl Inner {
    /// Text for the model, which may speak of what the session remembers.
    fn say(&self, rules: &Policy, template: &Template, vars: &Value) -> Result<String, TemplateError> {
        let mut vars = vars.as_object().cloned().unwrap_or_default();
        if !template.session().is_empty() {
            self.session.with(|slices| reflect(template, &mut vars, slices));
        }
        told(rules, template, &vars)
    }
}

impl core::fmt::Debug for GuardBuilder {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("GuardBuilder")
            .field("run", &self.inner.run)
            .field("targets", &self.inner.targets)
            .finish_non_exhaustive()
    }
}

impl GuardBuilder {
    /// Sets the tools whose arguments are validated against their schemas.
    #[must_use]
    pub fn tools(mut self, tools: Catalogue) -> Self {
        self.inner.tools = tools;
        self
    }

    /// Sets the models a turn is offered to, in order.
    #[must_use]
    pub fn targets<T: Into<String>>(mut self, targets: impl IntoIterator<Item = T>) -> Self {
        self.inner.targets = targets.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the seed of jittered delays.
    #[must_use]
    pub const fn seed(mut self, seed: u64) -> Self {
        self.inner.seed = seed;
        self
    }

    /// Sets the id that idempotency keys and log lines carry.
    #[must_use]
    pub fn run(mut self, run: impl Into<String>) -> Self {
        self.inner.run = run.into();
        self
    }

    /// Says what records tell about the model of that name: who serves it, as what, at which price. By its name there it is
    /// also known what its provider adds to each request; without facts, by the name of the target.
    #[must_use]
    pub fn facts(mut self, name: impl Into<String>, facts: ModelFacts) -> Self {
        self.inner.models.models.insert(name.into(), facts);
        self
    }

    /// Is told of every call of a model that is over, when it is decided what is done about it. One whose future is
    /// dropped was cancelled.
    #[must_use]
    pub fn on_attempt(mut self, told: impl Fn(&ModelAttempt) + Send + Sync + 'static) -> Self {
        self.inner.on_attempt = Some(Box::new(told));
        self
    }

    /// Is told of every reducer that fails.
    #[must_use]
    pub fn on_reducer_error(mut self, told: impl Fn(&ReducerError) + Send + Sync + 'static) -> Self {
        self.inner.on_reducer_error = Some(Box::new(told));
        self
    }

    /// The guard.
    pub fn build(self) -> Guard {
        Guard { inner: Arc::new(self.inner) }
    }
}

impl Inner {
    fn next_call(&self) -> u64 {
        self.calls.fetch_add(1, Ordering::Relaxed)
    }

    /// What the provider of a target is documented to add to each request. Nobody says whether those have instructions.
    fn overhead(&self, target: &str) -> Overhead {
        let served = self.models.models.get(target).map_or(target, |facts| &facts.model);
        overhead(served, true).unwrap_or_default()
    }

    /// A request of so many tokens, and what the provider of a target adds to it.
    fn with_added(&self, target: &str, tokens: u64) -> u64 {
        tokens.saturating_add(self.overhead(target).of(self.tools.iter().next().is_some()))
    }
}
