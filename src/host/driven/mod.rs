//! A run whose loop of turns is the host's own, with tokio: the host proposes what it has, as many things at once as it likes,
//! and each proposal is a future that ends when it is settled.
//!
//! Nothing is decided here. A future that is dropped withdraws its proposal; no lock is held while anything is awaited.

pub(in crate::host) mod locked;
pub(in crate::host) mod parts;
mod work;

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::future::{AbortHandle, abortable};
use futures_util::stream::FuturesUnordered;
use serde_json::Value;
use tracing::Instrument;

pub use self::work::RunHost;

use self::locked::LockedRun;
use self::parts::RunSetup;
use super::clock::Clock;
use super::observer::{Journal, JournalError};
use super::telemetry::Telemetry;
use super::{LivePolicy, Metrics};
use crate::engine::{
    DirectiveKind, DriveMode, Event, Interpreter, Note, Outcome, ProposalFault, ProposalId, ProposedCall,
    RunStarted, SettledProposal, State, ToolCatalogue, ToolFacts, TurnProposal, Work, WorkId,
};
use crate::host::checkpoint::SessionCheckpoint;
use crate::policy::Policy;

/// A run that the host drives. Clones are of the same run.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// use serde_json::json;
/// use unfazed::engine::{ToolCatalogue, Interpreter, ProposalRef, RunFacts, RunStarted, RunTool, ToolOutcome, ToolSpec};
/// use unfazed::host::{BoxFuture, DrivenRun, RunHost};
/// use unfazed::policy::Policy;
/// use unfazed::session::ToolCall;
///
/// struct Prices;
///
/// impl RunHost for Prices {
///     fn run_tool<'a>(&'a self, _of: ProposalRef, run: &'a RunTool) -> BoxFuture<'a, (ToolOutcome, RunFacts)> {
///         Box::pin(async move { (ToolOutcome::Ok { data: json!({"item": run.arguments["item"]}) }, RunFacts::default()) })
///     }
/// }
///
/// let parameters = json!({"type": "object", "properties": {"item": {"type": "integer"}}});
/// let price = ToolSpec { name: "price".into(), description: String::new(), parameters, effect: None };
/// let interpreter = Interpreter::new(Policy::builtin(), ToolCatalogue::new(vec![price])?);
/// let run = DrivenRun::start(interpreter, RunStarted { run: "demo".into(), ..RunStarted::default() })?;
///
/// let call = |item: u32| ToolCall { id: "call_1".into(), name: "price".into(), arguments: json!({ "item": item }).to_string() };
/// let (first, second) = tokio::join!(
///     run.tools(vec![call(1).into()], None, &Prices),
///     run.tools(vec![call(2).into()], None, &Prices),
/// );
/// assert_eq!(first?.result.name(), "tools");
/// assert_eq!(second?.result.name(), "tools");
/// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct DrivenRun {
    locked: Arc<LockedRun>,
    /// What proposals are made under; `None`: what the run has begun with.
    follows: Option<Arc<FollowedRules>>,
}

/// What the proposals of a run are made under.
#[derive(Debug)]
struct FollowedRules {
    policy: LivePolicy,
    /// What each run of the session begins with.
    started: RunStarted,
}

/// A tool that was running when the process of a run ended: it is unknown what it did, and it is not run again.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct InterruptedCall {
    /// The proposal.
    pub proposal: ProposalId,
    /// The model's id of the call.
    pub call: String,
    /// The tool.
    pub tool: String,
    /// Its arguments.
    pub arguments: Value,
    /// The key it was run with.
    pub idempotency_key: String,
}

/// Why a proposal has no end of its own.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProposalError {
    /// It was not taken.
    #[error("the proposal is not taken: {message}")]
    Refused {
        /// Why.
        reason: ProposalFault,
        /// The same, for people.
        message: String,
    },
    /// The session cannot be written, so nothing more is begun.
    #[error("the session cannot be written, so the run stops: {0}")]
    Journal(#[from] JournalError),
    /// The session could not be written before.
    #[error("the session could not be written, so the run has stopped")]
    Stopped,
}

impl DrivenRun {
    /// Begins a run that is not written down.
    ///
    /// # Errors
    /// None, as nothing is written.
    pub fn start(interpreter: Interpreter, started: RunStarted) -> Result<Self, ProposalError> {
        Self::begun(interpreter, started, None, Clock::system())
    }

    /// Begins a run that `journal` writes down: what may act is written before it begins. `started.drive`, `policy` and
    /// `tools` are set here.
    ///
    /// # Errors
    /// The session cannot be written; where that shows later, the first proposal says so.
    pub fn start_with(
        interpreter: Interpreter,
        started: RunStarted,
        journal: impl Journal + 'static,
        clock: Clock,
    ) -> Result<Self, ProposalError> {
        Self::begun(interpreter, started, Some(Box::new(journal)), clock)
    }

    fn begun(
        interpreter: Interpreter,
        started: RunStarted,
        journal: Option<Box<dyn Journal>>,
        clock: Clock,
    ) -> Result<Self, ProposalError> {
        let policy = interpreter.policy().digest().to_owned();
        let tools = interpreter.tools().iter().map(ToolFacts::from).collect();
        let started = RunStarted { drive: DriveMode::Calls, policy, tools, ..started };
        let run = LockedRun::new(interpreter, State::new(), journal, clock);
        run.tell(Event::RunStarted(started))?;
        Ok(Self { locked: Arc::new(run), follows: None })
    }

    /// Begins a run under a policy that may be replaced: each proposal is decided by the one that is effective then. When
    /// the run is over, the next proposal begins the next run of the session. `journal`, if there is one, writes all of it
    /// down, and `metrics` counts it. `started.drive`, `policy` and `tools` are set here.
    ///
    /// # Errors
    /// The session cannot be written; where that shows later, the first proposal says so.
    pub fn start_live(
        policy: LivePolicy,
        tools: ToolCatalogue,
        started: RunStarted,
        journal: Option<Box<dyn Journal>>,
        metrics: Arc<Metrics>,
    ) -> Result<Self, ProposalError> {
        let interpreter = Interpreter::new(policy.current(), tools);
        let telemetry = Telemetry::new(metrics, BTreeMap::new());
        let run = LockedRun::new(interpreter, State::new(), journal, Clock::system()).watched(
            telemetry,
            Box::new(|_| ()),
            Box::new(|_| ()),
        );
        let follows = FollowedRules { policy, started };
        run.ready(&follows.setup(&follows.policy.current()))?;
        Ok(Self { locked: Arc::new(run), follows: Some(Arc::new(follows)) })
    }

    /// The host has other tools from now on.
    ///
    /// # Errors
    /// The session cannot be written.
    pub fn set_tools(&self, tools: ToolCatalogue) -> Result<(), ProposalError> {
        self.locked.set_tools(tools)
    }

    /// Continues a run whose process has ended: `past` is what [`store::resume`](crate::store::resume) has made of its log,
    /// and `journal` writes into that. What was in flight is withdrawn, as nobody is left to do it; the tools that were
    /// running are returned.
    ///
    /// # Errors
    /// The session cannot be written.
    pub fn resume(
        interpreter: Interpreter,
        past: SessionCheckpoint,
        journal: impl Journal + 'static,
        clock: Clock,
    ) -> Result<(Self, Vec<InterruptedCall>), ProposalError> {
        let run = LockedRun::new(interpreter, State::new(), Some(Box::new(journal)), clock);
        let interrupted = run.catch_up(past)?;
        Ok((Self { locked: Arc::new(run), follows: None }, interrupted))
    }

    /// Proposes calls of tools, those of one reply in the model's order. `turn`: the turn whose reply they are of, if it was
    /// proposed. Ends when every call has its result.
    ///
    /// # Errors
    /// The proposal is not taken, or the session cannot be written.
    pub async fn tools(
        &self,
        calls: Vec<ProposedCall>,
        turn: Option<ProposalId>,
        host: &dyn RunHost,
    ) -> Result<SettledProposal, ProposalError> {
        self.drive(Event::ToolsProposed { calls, turn }, host).await
    }

    /// Proposes a turn of a model: it is called, and called again, until a reply is taken or the policy ends the attempts.
    ///
    /// # Errors
    /// The proposal is not taken, or the session cannot be written.
    pub async fn turn(
        &self,
        turn: TurnProposal,
        host: &dyn RunHost,
    ) -> Result<SettledProposal, ProposalError> {
        self.drive(Event::TurnProposed(turn), host).await
    }

    /// Proposes a report, as the model wrote it.
    ///
    /// # Errors
    /// The proposal is not taken, or the session cannot be written.
    pub async fn output(&self, output: String, host: &dyn RunHost) -> Result<SettledProposal, ProposalError> {
        self.drive(Event::OutputProposed { output }, host).await
    }

    /// Ends the run: every open proposal is closed.
    ///
    /// # Errors
    /// The session cannot be written.
    pub fn cancel(&self, reason: &str) -> Result<(), ProposalError> {
        self.locked.tell(Event::Cancelled { reason: reason.to_owned() })
    }

    /// Ends when all that happened is written down. What may act waits for that in any case; this is for the end of a process.
    ///
    /// # Errors
    /// The session cannot be written.
    pub async fn written(&self) -> Result<(), ProposalError> {
        self.locked.written().await
    }

    /// How the run ended; `None` before that.
    pub fn outcome(&self) -> Option<Outcome> {
        self.locked.read(|state| state.outcome.clone())
    }

    /// Reads the state.
    pub fn state<T>(&self, read: impl FnOnce(&State) -> T) -> T {
        self.locked.read(read)
    }

    async fn drive(&self, event: Event, host: &dyn RunHost) -> Result<SettledProposal, ProposalError> {
        let policy = self.follows.as_ref().map(|follows| follows.policy.current());
        let setup = self.follows.as_ref().zip(policy.as_ref()).map(|(follows, policy)| follows.setup(policy));
        let mut open = LockedRun::propose(&self.locked, setup.as_ref(), |_| event)?;
        let mut under_way = FuturesUnordered::new();
        let mut handles: Vec<(WorkId, AbortHandle)> = Vec::new();
        loop {
            if under_way.is_empty() && open.is_idle() {
                host.queued();
            }
            let directive = tokio::select! {
                biased;
                directive = open.next() => directive?,
                // Work that was dropped is aborted, and says nothing.
                Some(ended) = under_way.next() => {
                    open.stop_waiting();
                    if let Ok(event) = ended {
                        self.locked.tell(event)?;
                    }
                    continue;
                }
            };
            if let Some(end) = open.end(&directive) {
                host.noted(&directive);
                return end;
            }
            let of = directive.of.unwrap_or(open.of());
            match directive.order {
                DirectiveKind::Note(Note::Dropped { work }) => {
                    if let Some(at) = handles.iter().position(|(known, _)| *known == work) {
                        handles.swap_remove(at).1.abort();
                    }
                }
                DirectiveKind::Note(_) => host.noted(&directive),
                DirectiveKind::Work(work) => {
                    let id = work.id();
                    let (future, handle) =
                        abortable(work::carry_out(work, of, host).instrument(self.locked.span(id)));
                    handles.push((id, handle));
                    under_way.push(future);
                }
            }
        }
    }
}

impl FollowedRules {
    const fn setup<'a>(&'a self, policy: &'a Policy) -> RunSetup<'a> {
        RunSetup { policy, tool: None, started: &self.started }
    }
}

/// What was running of a tool when the log ended.
fn interrupted(work: &Work, state: &State) -> Option<InterruptedCall> {
    let Work::RunTool(run) = work else { return None };
    Some(InterruptedCall {
        proposal: state.proposal_of(work.id())?,
        call: run.call.clone(),
        tool: run.tool.clone(),
        arguments: run.arguments.clone(),
        idempotency_key: run.idempotency_key.clone(),
    })
}
