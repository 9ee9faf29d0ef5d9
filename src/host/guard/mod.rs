//! Guards: the policy around single calls, for a host that has a loop of its own.
//!
//! A guard wraps what the host does anyway. `guard.tool("search").call(&args, |args, ctx| async …)` validates the
//! arguments, asks the breaker, runs the closure, and runs it again as the policy says; `guard.turn(request)`
//! does the same for a turn of a model, over the targets in order; `guard.output(report)` holds a report against its schema. The
//! calls of a guard are one run of the interpreter, and any number of them may be in flight: limits of turns, budgets, the final
//! turn and the loop guard hold as in any run, and it may be [written down](GuardConfig::record) and
//! [continued](Guard::resume). When the run is over, the next call begins the next run of the session.
//!
//! A request to a model is the host's own, and passes through untouched. The guard checks of it what the host gives: its
//! size ([`TurnGuard::tokens`]), its history ([`TurnGuard::history`]), the tokens of replies
//! ([`TurnGuard::call_with_usage`]). Nor can it cut a result that it does not see: [`ToolGuard::call_text`] cuts, and
//! [`ToolGuard::show`] says what the model is shown of one.
//!
//! Of calls of one tool only as many run at once as may fail before its breaker opens; the others wait. So a call that is made
//! within a call of the same tool may have to wait for it: give it a guard of its own, or the tool `breaker: {failures: never}`.
//!
//! Nothing is decided here: the guard proposes, waits, and calls. A call that succeeds, without arguments to look at and with
//! nothing known against its tool, costs about 200 instructions more than the bare call, as
//! `benches/instructions.sh` counts them: no lock, no clock unless there is a deadline, no allocation, and no timer
//! unless the call is still pending after its first poll. The interpreter says where that changes nothing
//! ([`PlainRules`](crate::engine::PlainRules)). A call with arguments takes the lock once: they are validated, and the loop
//! guard counts the call. It costs a step only if there is something to say about them.

mod attempt;
mod classify;
mod context;
mod history;
mod layer;
mod model_call;
mod model_turn;
mod output;
mod plain;
mod results;
mod run;
mod tool;
mod tool_call;
mod turn;

use std::collections::BTreeMap;
use std::sync::Arc;

pub use attempt::CallContext;
pub use classify::{CallArguments, CallError, CallRefused, ClassifyError, GivenUp};
#[cfg(feature = "serve")]
pub(in crate::host) use history::TurnHistory;
pub use layer::{TurnAttempt, TurnLayer, TurnService};
pub use model_call::ModelCall;
pub use output::OutputError;
pub use tool::ToolGuard;
pub use turn::TurnGuard;

use self::plain::PlainTools;
use self::run::GuardRun;
use super::clock::Clock;
use super::driven::locked::{Listener, LockedRun};
use super::driven::parts::News;
use super::telemetry::Telemetry;
use super::{
    InterruptedCall, Journal, LivePolicy, Metrics, MetricsSnapshot, ModelAttempt, ModelFacts, ProposalError,
    SessionCheckpoint,
};
use crate::context::{ByteEstimate, overhead, tool_tokens};
use crate::engine::{
    Event, Interpreter, Metric, MetricName, Outcome, RequestOverhead, RunStarted, State, ToolCatalogue,
};
use crate::policy::Policy;
use crate::session::{ReducerError, RetryFeedback, SessionSlices};
use crate::time::Nanos;

/// A policy around calls, with a session of its own. Cheap to clone; clones share the session.
#[derive(Clone)]
pub struct Guard {
    inner: Arc<GuardParts>,
}

/// What is reported about a reducer that failed.
type OnReducerError = Box<dyn Fn(&ReducerError) + Send + Sync>;

/// What is reported about a call of a model that is over.
type OnAttempt = Box<dyn Fn(&ModelAttempt) + Send + Sync>;

struct GuardParts {
    live: LivePolicy,
    /// The tools that the host has declared.
    tools: ToolCatalogue,
    targets: Vec<String>,
    models: BTreeMap<String, ModelFacts>,
    id: String,
    clock: Clock,
    run: GuardRun,
    metrics: Arc<Metrics>,
    recorded: bool,
}

/// Makes a [`Guard`].
pub struct GuardConfig {
    live: LivePolicy,
    tools: ToolCatalogue,
    targets: Vec<String>,
    models: BTreeMap<String, ModelFacts>,
    id: String,
    seed: u64,
    journal: Option<Box<dyn Journal>>,
    on_reducer_error: Option<OnReducerError>,
    on_attempt: Option<OnAttempt>,
}

impl core::fmt::Debug for Guard {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Guard")
            .field("run", &self.inner.id)
            .field("policy", &self.inner.live.current().digest())
            .field("targets", &self.inner.targets)
            .finish_non_exhaustive()
    }
}

impl Guard {
    /// A guard with a new session, under a policy: if it is a [`LivePolicy`] that is replaced, calls that begin later are under the
    /// new one.
    ///
    /// Must be made inside a tokio runtime whose time is to be used. A [`GuardConfig`] can say more: tools, targets, a seed, an id.
    pub fn new(config: impl Into<GuardConfig>) -> Self {
        let config = config.into();
        let recorded = config.journal.is_some();
        let guard = config.made();
        // What is recorded begins with the first call, which fails if nothing can be written.
        if !recorded && let Err(error) = guard.inner.run.ready() {
            tracing::error!(error = %error, "the run of a guard does not begin");
        }
        guard
    }

    /// The guard of a session whose process has ended: `past` is what [`store::resume`](crate::store::resume) has made of its
    /// log, and the journal writes into that. What was in flight is withdrawn, and the tools that were running are returned: they
    /// may have had side effects, and do not run again by themselves.
    ///
    /// # Errors
    /// The session cannot be written.
    pub fn resume(
        config: impl Into<GuardConfig>,
        past: SessionCheckpoint,
    ) -> Result<(Self, Vec<InterruptedCall>), ProposalError> {
        let guard = config.into().made();
        let interrupted = guard.inner.run.catch_up(past)?;
        Ok((guard, interrupted))
    }

    /// The guard of one tool. Keep it: it has the tool's policy at hand.
    pub fn tool(&self, name: &str) -> ToolGuard {
        ToolGuard::new(Arc::clone(&self.inner), name)
    }

    /// The guard of one turn of a model.
    pub fn turn<R: Clone>(&self, request: R) -> TurnGuard<R> {
        TurnGuard::new(Arc::clone(&self.inner), request)
    }

    /// The latest feedback in the session.
    pub fn latest_feedback(&self) -> Option<RetryFeedback> {
        self.slices(SessionSlices::latest_feedback)
    }

    /// What was counted so far: the same metrics as in a run.
    pub fn metrics(&self) -> MetricsSnapshot {
        for (tool, ended) in self.inner.run.plain.take_ended() {
            let metric = |name, value| Metric { name, subject: format!("tool {tool}"), value };
            for (attempts, calls) in ended.attempts.into_iter().filter(|(_, calls)| *calls > 0) {
                self.inner.metrics.record_many(&metric(MetricName::RetryAttempts, attempts), calls);
            }
            if ended.no_waits > 0 {
                self.inner.metrics.record_many(&metric(MetricName::RetryDelaySeconds, 0), ended.no_waits);
            }
        }
        self.inner.metrics.snapshot()
    }

    /// What the model is to read with its next request, in addition to the results of its calls: what it repeats, and what was wrong with
    /// its report. Each is shown once, and what is left when a run ends is dropped.
    pub fn take_guidance(&self) -> Vec<String> {
        self.inner.run.take_guidance()
    }

    /// Reads the slices of the session.
    pub fn slices<T>(&self, read: impl FnOnce(&SessionSlices) -> T) -> T {
        self.inner.run.read(|state| read(state.slices()))
    }

    /// Reads the state of the run.
    pub fn state<T>(&self, read: impl FnOnce(&State) -> T) -> T {
        self.inner.run.read(read)
    }

    /// The run, for who shares something with it.
    #[cfg(feature = "serve")]
    pub(in crate::host) fn locked(&self) -> &LockedRun {
        self.inner.run.locked()
    }

    /// Takes an event that is of no call.
    #[cfg(feature = "serve")]
    pub(in crate::host) fn tell(&self, event: Event) -> Result<(), ProposalError> {
        self.inner.run.tell(event)
    }

    /// Ends when all that happened is written down. What may act waits for that in any case; this is for the end of a process.
    ///
    /// # Errors
    /// The session cannot be written.
    pub async fn written(&self) -> Result<(), ProposalError> {
        self.inner.run.written().await
    }

    /// How the run ended; `None`: it is in flight, or has not begun. The next call begins the next one.
    pub fn outcome(&self) -> Option<Outcome> {
        self.state(|state| state.outcome.clone())
    }
}

impl GuardParts {
    /// A further attempt at a tool comes after that wait.
    fn waited(&self, tool: &str, delay: Nanos) {
        let (name, subject) = (MetricName::RetryDelaySeconds, format!("tool {tool}"));
        self.metrics.record(&Metric { name, subject, value: delay.0 });
    }

    /// The tokens of the declared tools, as they are estimated.
    fn tool_tokens(&self) -> u64 {
        tool_tokens(&ByteEstimate, &self.tools.iter().collect::<Vec<_>>())
    }

    /// What the provider of a target is documented to add to each request. Whether those have instructions is unknown.
    fn overhead(&self, target: &str) -> RequestOverhead {
        overhead_of(&self.models, target)
    }
}

fn overhead_of(models: &BTreeMap<String, ModelFacts>, target: &str) -> RequestOverhead {
    let served = models.get(target).map_or(target, |facts| &facts.model);
    overhead(served, true).unwrap_or_default()
}

/// Logs with what every line of a guard carries.
fn in_span(run: &str, rules: &Policy, log: impl FnOnce()) {
    tracing::info_span!("turn", correlation_id = run, policy = rules.digest()).in_scope(log);
}

impl core::fmt::Debug for GuardConfig {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("GuardConfig")
            .field("run", &self.id)
            .field("targets", &self.targets)
            .finish_non_exhaustive()
    }
}

impl From<Policy> for GuardConfig {
    fn from(policy: Policy) -> Self {
        Self::new(policy)
    }
}

impl From<LivePolicy> for GuardConfig {
    fn from(policy: LivePolicy) -> Self {
        Self::new(policy)
    }
}

impl GuardConfig {
    /// A guard under `policy`. If it is a [`LivePolicy`] that is replaced, calls that begin later are under the new one.
    pub fn new(policy: impl Into<LivePolicy>) -> Self {
        Self {
            live: policy.into(),
            tools: ToolCatalogue::default(),
            targets: Vec::new(),
            models: BTreeMap::new(),
            id: crate::host::new_uuid().to_string(),
            seed: 0,
            journal: None,
            on_reducer_error: None,
            on_attempt: None,
        }
    }

    /// Sets the tools whose arguments are validated against their schemas. Others may have any arguments.
    #[must_use]
    pub fn tools(mut self, tools: ToolCatalogue) -> Self {
        self.tools = tools;
        self
    }

    /// Sets the models a turn is offered to, in order.
    #[must_use]
    pub fn targets<T: Into<String>>(mut self, targets: impl IntoIterator<Item = T>) -> Self {
        self.targets = targets.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the seed of jittered delays.
    #[must_use]
    pub const fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Sets the id that idempotency keys and log lines carry.
    #[must_use]
    pub fn run(mut self, run: impl Into<String>) -> Self {
        self.id = run.into();
        self
    }

    /// Says what records tell about the model of that name: who serves it, as what, at which price. By its name there it is
    /// also known what its provider adds to each request; without facts, by the name of the target.
    #[must_use]
    pub fn facts(mut self, name: impl Into<String>, facts: ModelFacts) -> Self {
        self.models.insert(name.into(), facts);
        self
    }

    /// Writes every event and decision down: a session log that `unfazed replay` decides again, and that
    /// [`Guard::resume`] continues. Each call is written before it begins, and costs a step.
    #[must_use]
    pub fn record(mut self, journal: impl Journal + 'static) -> Self {
        self.journal = Some(Box::new(journal));
        self
    }

    /// Learns of every call of a model that is over, when it is decided what is done about it. One whose future is
    /// dropped was cancelled.
    #[must_use]
    pub fn on_attempt(mut self, told: impl Fn(&ModelAttempt) + Send + Sync + 'static) -> Self {
        self.on_attempt = Some(Box::new(told));
        self
    }

    /// Learns of every reducer that fails.
    #[must_use]
    pub fn on_reducer_error(mut self, told: impl Fn(&ReducerError) + Send + Sync + 'static) -> Self {
        self.on_reducer_error = Some(Box::new(told));
        self
    }

    fn made(self) -> Guard {
        let Self { live, tools, targets, models, id, seed, journal, on_reducer_error, on_attempt } = self;
        let (metrics, plain, clock) =
            (Arc::new(Metrics::new()), Arc::<PlainTools>::default(), Clock::system());
        let targets = if targets.is_empty() { vec!["default".to_owned()] } else { targets };
        let prices = models.iter().filter_map(|(name, facts)| Some((name.clone(), facts.price?)));
        let overheads = targets.iter().map(|target| (target.clone(), overhead_of(&models, target)));
        let started = RunStarted {
            run: id.clone(),
            seed,
            targets: targets.clone(),
            prices: prices.collect(),
            overheads: overheads.collect(),
            ..RunStarted::default()
        };
        let listener: Listener = Box::new(move |news| match news {
            News::Attempt(attempt) => {
                if let Some(told) = &on_attempt {
                    told(&attempt);
                }
            }
            News::ReducerError(error) => {
                if let Some(told) = &on_reducer_error {
                    told(&error);
                }
            }
        });
        let recorded = journal.is_some();
        let telemetry = Telemetry::new(Arc::clone(&metrics), models.clone());
        let published = Arc::clone(&plain);
        let interpreter = Interpreter::new(live.current(), tools.clone());
        let locked = LockedRun::new(interpreter, State::new(), journal, clock).watched(
            telemetry,
            listener,
            Box::new(move |state| published.publish(state)),
        );
        let run = GuardRun::new(live.clone(), locked, started, plain);
        Guard {
            inner: Arc::new(GuardParts { live, tools, targets, models, id, clock, run, metrics, recorded }),
        }
    }
}

/// The interpreter of a policy, for what needs no tools.
fn without_tools(policy: Policy) -> Interpreter {
    Interpreter::new(policy, ToolCatalogue::default())
}
