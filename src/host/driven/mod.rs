//! A run whose loop of turns is the host's own, with tokio: the host proposes what it has, as many things at once as it likes,
//! and each proposal is a future that ends when it is settled.
//!
//! Nothing is decided here. A future that is dropped withdraws its proposal; no lock is held while anything is awaited.

mod locked;
mod work;

use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::future::{AbortHandle, abortable};
use futures_util::stream::FuturesUnordered;
use serde_json::Value;

pub use self::work::RunHost;

use self::locked::LockedRun;
use super::clock::Clock;
use super::observer::{Journal, JournalError};
use super::task::Past;
use crate::engine::{
    Drive, Event, Interpreter, Note, Order, Outcome, Proposal, ProposalFault, ProposalId, RunStarted,
    Settled, State, ToolFacts, TurnProposal, Work, WorkId,
};

/// A run that the host drives. Clones are of the same run.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// use serde_json::json;
/// use unfazed::engine::{Catalogue, Interpreter, Of, RunFacts, RunStarted, RunTool, ToolOutcome, ToolSpec};
/// use unfazed::host::{BoxFuture, DrivenRun, RunHost};
/// use unfazed::policy::Policy;
/// use unfazed::session::ToolCall;
///
/// struct Prices;
///
/// impl RunHost for Prices {
///     fn run_tool<'a>(&'a self, _of: Of, run: &'a RunTool) -> BoxFuture<'a, (ToolOutcome, RunFacts)> {
///         Box::pin(async move { (ToolOutcome::Ok { data: json!({"item": run.arguments["item"]}) }, RunFacts::default()) })
///     }
/// }
///
/// let parameters = json!({"type": "object", "properties": {"item": {"type": "integer"}}});
/// let price = ToolSpec { name: "price".into(), description: String::new(), parameters, effect: None };
/// let interpreter = Interpreter::new(Policy::builtin(), Catalogue::new(vec![price])?);
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
pub struct DrivenRun(Arc<LockedRun>);

/// A tool that was running when the process of a run ended: nobody knows what it did, and it is not run again.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Interrupted {
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
        Self::start_with(interpreter, started, super::observer::Silent, Clock::system())
    }

    /// Begins a run that `journal` writes down: what may act is written before it begins. `started.drive`, `policy` and
    /// `tools` are set here.
    ///
    /// # Errors
    /// The session cannot be written.
    pub fn start_with(
        interpreter: Interpreter,
        started: RunStarted,
        journal: impl Journal + 'static,
        clock: Clock,
    ) -> Result<Self, ProposalError> {
        let policy = interpreter.policy().digest().to_owned();
        let tools = interpreter.tools().iter().map(ToolFacts::from).collect();
        let started = RunStarted { drive: Drive::Calls, policy, tools, ..started };
        let run = LockedRun::new(interpreter, State::new(), Box::new(journal), clock);
        run.tell(Event::RunStarted(started))?;
        Ok(Self(Arc::new(run)))
    }

    /// Continues a run whose process has ended: `past` is what [`store::resume`](crate::store::resume) has made of its log,
    /// and `journal` writes into that. What was under way is withdrawn, as nobody is left to do it; the tools that were
    /// running are returned.
    ///
    /// # Errors
    /// The session cannot be written.
    pub fn resume(
        interpreter: Interpreter,
        past: Past,
        journal: impl Journal + 'static,
        clock: Clock,
    ) -> Result<(Self, Vec<Interrupted>), ProposalError> {
        let Past { state, open, untaken, policy, tools, .. } = past;
        let interrupted = open.iter().filter_map(|work| interrupted(work, &state)).collect();
        let now_tools: Vec<ToolFacts> = interpreter.tools().iter().map(ToolFacts::from).collect();
        let digest = interpreter.policy().digest().to_owned();
        let run = LockedRun::new(interpreter, state, Box::new(journal), clock);
        if let Some(envelope) = untaken {
            run.take(envelope)?;
        }
        if !policy.is_empty() && policy != digest {
            run.tell(Event::PolicyChanged { policy: digest })?;
        }
        if !ToolFacts::same(&tools, &now_tools) {
            run.tell(Event::ToolsChanged { tools: now_tools })?;
        }
        for proposal in run.open_proposals() {
            run.withdraw(proposal)?;
        }
        Ok((Self(Arc::new(run)), interrupted))
    }

    /// Proposes calls of tools, those of one reply in the model's order. `turn`: the turn whose reply they are of, if it was
    /// proposed. Ends when every call has its result.
    ///
    /// # Errors
    /// The proposal is not taken, or the session cannot be written.
    pub async fn tools(
        &self,
        calls: Vec<Proposal>,
        turn: Option<ProposalId>,
        host: &dyn RunHost,
    ) -> Result<Settled, ProposalError> {
        self.drive(Event::ToolsProposed { calls, turn }, host).await
    }

    /// Proposes a turn of a model: it is called, and called again, until a reply is taken or the policy ends the attempts.
    ///
    /// # Errors
    /// The proposal is not taken, or the session cannot be written.
    pub async fn turn(&self, turn: TurnProposal, host: &dyn RunHost) -> Result<Settled, ProposalError> {
        self.drive(Event::TurnProposed(turn), host).await
    }

    /// Proposes a report, as the model wrote it.
    ///
    /// # Errors
    /// The proposal is not taken, or the session cannot be written.
    pub async fn output(&self, output: String, host: &dyn RunHost) -> Result<Settled, ProposalError> {
        self.drive(Event::OutputProposed { output }, host).await
    }

    /// Ends the run: every open proposal is closed.
    ///
    /// # Errors
    /// The session cannot be written.
    pub fn cancel(&self, reason: &str) -> Result<(), ProposalError> {
        self.0.tell(Event::Cancelled { reason: reason.to_owned() })
    }

    /// How the run ended; `None` before that.
    pub fn outcome(&self) -> Option<Outcome> {
        self.0.read(|state| state.outcome.clone())
    }

    /// Reads the state.
    pub fn state<T>(&self, read: impl FnOnce(&State) -> T) -> T {
        self.0.read(read)
    }

    async fn drive(&self, event: Event, host: &dyn RunHost) -> Result<Settled, ProposalError> {
        let mut open = LockedRun::propose(&self.0, event)?;
        let mut under_way = FuturesUnordered::new();
        let mut handles: Vec<(WorkId, AbortHandle)> = Vec::new();
        loop {
            let directive = tokio::select! {
                biased;
                directive = open.next() => directive?,
                // Work that was dropped is aborted, and says nothing.
                Some(ended) = under_way.next() => {
                    if let Ok(event) = ended {
                        self.0.tell(event)?;
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
                Order::Note(Note::Dropped { work }) => {
                    if let Some(at) = handles.iter().position(|(known, _)| *known == work) {
                        handles.swap_remove(at).1.abort();
                    }
                }
                Order::Note(_) => host.noted(&directive),
                Order::Work(work) => {
                    let id = work.id();
                    let (future, handle) = abortable(work::carry_out(work, of, host));
                    handles.push((id, handle));
                    under_way.push(future);
                }
            }
        }
    }
}

/// What was running of a tool when the log ended.
fn interrupted(work: &Work, state: &State) -> Option<Interrupted> {
    let Work::RunTool(run) = work else { return None };
    Some(Interrupted {
        proposal: state.proposal_of(work.id())?,
        call: run.call.clone(),
        tool: run.tool.clone(),
        arguments: run.arguments.clone(),
        idempotency_key: run.idempotency_key.clone(),
    })
}
