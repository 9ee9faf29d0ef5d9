//! A relay between a client and a server of the Model Context Protocol: the tools of the server under a policy, and all
//! else as it is. Several servers are one to the client: `routes.rs` says which of them answers what.
//!
//! Messages are passed on as they were written, but for the ids of requests: each has one of the relay's own on the way to the
//! other side, as the relay has requests too. The relay looks at `tools/call`, about which the interpreter decides, and at
//! what it needs to know for that.

mod ask;
mod call;
mod client;
mod event;
mod handshake;
mod http;
mod kept;
mod link;
mod lists;
mod merge;
mod message;
mod names;
mod order;
mod outgoing;
mod pages;
mod params;
mod progress;
mod requests;
mod resources;
mod result;
mod rounds;
mod routes;
mod server;
mod shown;
mod starting;
mod subscriptions;
mod tools;
mod upstream;

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Map, Value};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::task::{AbortHandle, JoinHandle};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use self::client::ClientFacts;
use self::kept::KeptResults;
use self::link::{AskedOfServer, RelayLink};
use self::names::SharedNames;
use self::pages::ListKind;
use self::progress::{ProgressTable, SharedToken};
use self::requests::RequestTable;
use self::resources::SharedResources;
use self::rounds::OpenRounds;
use self::upstream::{LinkSlot, RelayServer};
use super::answer;
use super::failure::LinkError;
use super::{McpConfig, McpError};
use crate::engine::{Interpreter, RunStarted, ToolCatalogue, ToolSpec};
use crate::host::{DrivenRun, Journal, LivePolicy, Metrics, PolicyWatch, ProposalError};

/// How many lines wait for a client that does not read. The server waits then, too.
const WAITING: usize = 256;
/// The most calls of a client that have no answer yet.
const MOST_IN_HAND: usize = 4096;
/// The pause between two calls after which the second begins another run. A client has no end of a run to tell, and without
/// one a breaker of `scope: run` that opened would never close.
const PAUSE: Duration = Duration::from_secs(60);

/// Servers whose tools are to be under a policy.
pub struct RelayConfig {
    servers: Vec<McpConfig>,
    policy: LivePolicy,
    watch: Option<Arc<Mutex<PolicyWatch>>>,
    approve: RelayApproval,
    run: String,
    journal: Option<Box<dyn Journal>>,
    metrics: Arc<Metrics>,
}

/// Who agrees where the policy wants a person to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RelayApproval {
    /// The person at the client is asked by elicitation; a client that cannot ask has the call refused.
    #[default]
    Ask,
    /// Every call may run. One that may have had side effects does not run again.
    Yes,
    /// None may.
    No,
}

/// Why a relay does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RelayError {
    /// The server cannot be started.
    #[error(transparent)]
    Server(#[from] McpError),
    /// The session cannot be written.
    #[error(transparent)]
    Session(#[from] ProposalError),
}

/// A relay that runs. Clones are of the same relay.
#[derive(Clone)]
pub struct McpRelay(Arc<RelayParts>);

struct RelayParts {
    /// In the order in which the client sees what they have.
    servers: Vec<Arc<RelayServer>>,
    policy: LivePolicy,
    watch: Option<Arc<Mutex<PolicyWatch>>>,
    approve: RelayApproval,
    run: DrivenRun,
    to_client: mpsc::Sender<String>,
    asked_of_client: Mutex<RequestTable<AskedOfClient>>,
    client: Mutex<ClientFacts>,
    shared: Mutex<SharedParts>,
    /// Whoever makes the catalogue of all tools holds it.
    catalogue: Mutex<()>,
    calls: Mutex<HashMap<String, JoinHandle<()>>>,
    progress: Mutex<ProgressTable>,
    kept: Mutex<KeptResults>,
    rounds: Mutex<OpenRounds>,
    /// How many more calls the run takes; further ones wait.
    places: Semaphore,
    /// How many more calls are taken from the client.
    in_hand: Arc<Semaphore>,
    closing: CancellationToken,
    activity: Mutex<RelayActivity>,
    numbers: AtomicU64,
    /// The requests of the client that wait for a server to start, by their ids.
    waiting: Mutex<HashMap<String, AbortHandle>>,
}

/// Whether calls are in flight, and since when none is.
struct RelayActivity {
    calls: usize,
    last: Instant,
}

/// A call in flight.
struct ActiveCall<'a>(&'a RelayParts);

/// Whose is what that several servers have.
struct SharedParts {
    tools: SharedNames,
    prompts: SharedNames,
    resources: SharedResources,
    /// What was listed since it changed last.
    listed: BTreeSet<ListKind>,
}

/// A request to the client.
enum AskedOfClient {
    /// Of the server over that connection, which gets the answer under its own id.
    Server { link: Arc<RelayLink>, id: String, token: Option<SharedToken> },
    /// Of the relay, which gets the whole line.
    Relay(oneshot::Sender<String>),
}

impl RelayConfig {
    /// A relay to that server under `policy`. If it is a [`LivePolicy`] that is replaced, calls that begin later are under the
    /// new one. The policy knows the tools by the server's names, after the prefix of the server's configuration.
    pub fn new(policy: impl Into<LivePolicy>, server: McpConfig) -> Self {
        Self {
            servers: vec![server],
            policy: policy.into(),
            watch: None,
            approve: RelayApproval::default(),
            run: crate::host::new_uuid().to_string(),
            journal: None,
            metrics: Arc::default(),
        }
    }

    /// The same under the policy of files that are looked at before every call.
    pub fn watching(watch: PolicyWatch, server: McpConfig) -> Self {
        Self::sharing(Arc::new(Mutex::new(watch)), server)
    }

    /// The same of files that several relays look at: what one of them reads holds for all.
    pub(crate) fn sharing(watch: Arc<Mutex<PolicyWatch>>, server: McpConfig) -> Self {
        let live = watch.lock().unwrap_or_else(PoisonError::into_inner).live().clone();
        Self { watch: Some(watch), ..Self::new(live, server) }
    }

    /// Adds a server: the client sees one server that has what all of them have. The prefix of one must not begin that of another.
    #[must_use]
    pub fn server(mut self, server: McpConfig) -> Self {
        self.servers.push(server);
        self
    }

    /// Sets who agrees where the policy wants a person to.
    #[must_use]
    pub const fn approve(mut self, approve: RelayApproval) -> Self {
        self.approve = approve;
        self
    }

    /// Writes every event and decision down: a session log of that run.
    #[must_use]
    pub fn record(mut self, run: impl Into<String>, journal: impl Journal + 'static) -> Self {
        self.run = run.into();
        self.journal = Some(Box::new(journal));
        self
    }

    /// Counts into these metrics, which others may read meanwhile.
    #[must_use]
    pub fn metrics(mut self, metrics: Arc<Metrics>) -> Self {
        self.metrics = metrics;
        self
    }
}

impl McpRelay {
    /// Starts the servers. The lines for the client come from the receiver. Of several servers those that cannot be started are
    /// left out, and tried again later.
    ///
    /// # Errors
    /// No server can be started, or the session cannot be written.
    pub async fn start(config: RelayConfig) -> Result<(Self, mpsc::Receiver<String>), RelayError> {
        let RelayConfig { servers, policy, watch, approve, run, journal, metrics } = config;
        let started = RunStarted { run, ..RunStarted::default() };
        let run = DrivenRun::start_live(policy.clone(), ToolCatalogue::default(), started, journal, metrics)?;
        let (to_client, lines) = mpsc::channel(WAITING);
        let parts = Arc::new(RelayParts {
            shared: Mutex::new(SharedParts::of(&servers)),
            servers: servers.into_iter().map(|config| Arc::new(RelayServer::new(config))).collect(),
            catalogue: Mutex::default(),
            policy,
            watch,
            approve,
            run,
            to_client,
            asked_of_client: Mutex::default(),
            client: Mutex::default(),
            calls: Mutex::default(),
            progress: Mutex::default(),
            kept: Mutex::default(),
            rounds: Mutex::default(),
            places: Semaphore::new(Interpreter::MOST_OPEN),
            in_hand: Arc::new(Semaphore::new(MOST_IN_HAND)),
            closing: CancellationToken::new(),
            activity: Mutex::new(RelayActivity { calls: 0, last: Instant::now() }),
            numbers: AtomicU64::new(0),
            waiting: Mutex::default(),
        });
        parts.start_all().await?;
        Ok((Self(parts), lines))
    }

    /// Why a line is no message, as the answer to it; `None`: it is one.
    pub fn fault(line: &str) -> Option<String> {
        message::RpcMessage::parse(line).err().map(|fault| fault.answer())
    }

    /// Takes a line of the client.
    pub async fn take(&self, line: &str) {
        // Some requests have much to remember, and this is part of what the caller waits with.
        Box::pin(self.0.client_sent(line)).await;
    }

    /// Answers a line of the client that is longer than so many bytes. Its beginning says which request it is, if it is one.
    pub async fn refuse_long(&self, beginning: &[u8], most: usize) {
        let text = String::from_utf8_lossy(beginning);
        let id = answer::broken_id(&text).filter(|_| answer::value_of(&text, "method").is_some());
        self.0.to_client(message::MessageFault::too_long(most).answer_to(id.as_ref())).await;
    }

    /// The client sends nothing more: waits until its requests are answered, at most that long.
    pub async fn finish(&self, within: Duration) {
        let _ = tokio::time::timeout(within, self.0.answered()).await;
    }

    /// The client has gone: its calls are withdrawn, the server is ended, and what happened is written down.
    ///
    /// # Errors
    /// The session cannot be written.
    pub async fn close(&self) -> Result<(), ProposalError> {
        self.0.close().await
    }
}

impl SharedParts {
    fn of(servers: &[McpConfig]) -> Self {
        let prefixes: Vec<String> = servers.iter().map(|server| server.prefix.clone()).collect();
        let names = || SharedNames::new(prefixes.clone());
        Self {
            tools: names(),
            prompts: names(),
            resources: SharedResources::default(),
            listed: BTreeSet::new(),
        }
    }
}

impl RelayParts {
    /// The server, if there is one only.
    fn only_server(&self) -> Option<&Arc<RelayServer>> {
        self.servers.first().filter(|_| self.servers.len() == 1)
    }

    /// The next line for the client. Once it has gone, nobody reads them.
    async fn to_client(&self, line: String) {
        let _ = self.to_client.send(line).await;
    }

    fn client(&self) -> MutexGuard<'_, ClientFacts> {
        self.client.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn asked_of_client(&self) -> MutexGuard<'_, RequestTable<AskedOfClient>> {
        self.asked_of_client.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn calls(&self) -> MutexGuard<'_, HashMap<String, JoinHandle<()>>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<String, AbortHandle>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn shared(&self) -> MutexGuard<'_, SharedParts> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn progress(&self) -> MutexGuard<'_, ProgressTable> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn rounds(&self) -> MutexGuard<'_, OpenRounds> {
        self.rounds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The id of the next call.
    fn next_call(&self) -> String {
        format!("call_{}", self.numbers.fetch_add(1, Ordering::Relaxed).saturating_add(1))
    }

    /// A further attempt of a call begins.
    fn again(&self, token: Option<&str>) {
        if let Some(token) = token {
            self.progress().again(token);
        }
    }

    /// A call waits: the client sees it.
    fn waits(&self, token: Option<&str>, text: &str) {
        let line = token.and_then(|token| self.progress().waits(token, text));
        if let Some(line) = line {
            // A client that does not read what it is sent need not see it.
            let _ = self.to_client.try_send(line);
        }
    }

    /// A call begins. After a pause it is the first one of another run.
    fn begin_activity(&self) -> Result<ActiveCall<'_>, ProposalError> {
        let mut activity = self.activity.lock().unwrap_or_else(PoisonError::into_inner);
        let paused = activity.calls == 0 && activity.last.elapsed() >= PAUSE;
        if paused && self.run.outcome().is_none() {
            self.run.cancel("no call for a minute")?;
        }
        activity.calls = activity.calls.saturating_add(1);
        Ok(ActiveCall(self))
    }

    /// Looks whether the files of the policy have changed.
    fn look_at_policy(&self) {
        let Some(watch) = &self.watch else { return };
        watch.lock().unwrap_or_else(PoisonError::into_inner).look();
    }

    /// Lists the tools of a server, unless they are known.
    async fn list_tools(
        &self,
        server: &RelayServer,
        link: &Arc<RelayLink>,
        meta: &Map<String, Value>,
    ) -> Result<(), LinkError> {
        let within = server.config.start_timeout;
        let refreshed = server.tools.refresh(link, meta, || self.set_catalogue());
        let listed = tokio::time::timeout(within.to_std(), refreshed).await;
        listed.unwrap_or_else(|_| Err(format!("the server did not list its tools within {within}").into()))
    }

    /// The same for a call of the tool that the policy knows by that name: where it is not known, the server may have it by now.
    async fn list_tools_for(
        &self,
        name: &str,
        server: &RelayServer,
        link: &Arc<RelayLink>,
        meta: &Map<String, Value>,
    ) -> Result<(), LinkError> {
        let was_outdated = server.tools.is_outdated();
        self.list_tools(server, link, meta).await?;
        if was_outdated || server.tools.get(name).is_some() {
            return Ok(());
        }
        server.tools.outdate();
        self.list_tools(server, link, meta).await
    }

    /// Lets the run know of the tools of all servers.
    fn set_catalogue(&self) -> Result<(), LinkError> {
        let _one_at_a_time = self.catalogue.lock().unwrap_or_else(PoisonError::into_inner);
        let specs: Vec<ToolSpec> = self.servers.iter().flat_map(|server| server.tools.specs()).collect();
        // Each of them was made into a catalogue before, and no two have one name.
        let catalogue = ToolCatalogue::new(specs).unwrap_or_default();
        self.run.set_tools(catalogue).map_err(|error| LinkError::of(error.to_string(), error))
    }

    /// Waits until no request of the client is without an answer.
    async fn answered(&self) {
        /// How often that is looked at.
        const LOOK: Duration = Duration::from_millis(5);
        let is_open =
            |link: Arc<RelayLink>| link.asked().number_of(AskedOfServer::is_of_any_client).is_some();
        while !self.waiting().is_empty()
            || !self.calls().is_empty()
            || self.servers.iter().filter_map(|server| server.live_link()).any(is_open)
        {
            tokio::time::sleep(LOOK).await;
        }
    }

    async fn close(&self) -> Result<(), ProposalError> {
        self.closing.cancel();
        for (_, waiting) in self.waiting().drain() {
            waiting.abort();
        }
        let calls: Vec<JoinHandle<()>> = self.calls().drain().map(|(_, call)| call).collect();
        for call in calls {
            call.abort();
            // It withdraws what it has proposed.
            let _ = call.await;
        }
        join_all(self.servers.iter().map(|server| async {
            let _no_start = server.starting.lock().await;
            let slot = core::mem::replace(&mut *server.slot(), LinkSlot::Closed);
            if let LinkSlot::Up(link) = slot {
                link.end().await;
            }
        }))
        .await;
        if self.run.outcome().is_none() {
            self.run.cancel("the client has gone")?;
        }
        self.run.written().await
    }
}

impl Drop for ActiveCall<'_> {
    fn drop(&mut self) {
        let mut activity = self.0.activity.lock().unwrap_or_else(PoisonError::into_inner);
        activity.calls = activity.calls.saturating_sub(1);
        activity.last = Instant::now();
    }
}

crate::debug_parts!(|this: RelayConfig| servers: this.servers, approve: this.approve);
crate::debug_parts!(|this: McpRelay| servers: this.0.servers.len(), approve: this.0.approve);
