//! Tools of servers that speak the Model Context Protocol, over standard input and output or over HTTP.
//!
//! A server is started once and serves all runs and calls of its tools. If it dies, the next call starts it again: when
//! that is, is the policy's business, for a call that finds no server fails with `tool_unavailable` and is retried with
//! the delays, and stopped by the breaker, that the policy gives its tool.

mod answer;
mod awaited;
mod base64;
mod content;
mod declare;
mod events;
mod failure;
mod http;
mod issue;
mod link;
mod relay;
mod set;
mod stdio;

use core::time::Duration;
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rmcp::model::Tool as Declared;
use secrecy::SecretString;
use serde_json::Value;

use self::failure::LinkError;
pub use self::issue::{McpIssueReason, McpToolIssue};
use self::link::ServerLink;
pub use self::relay::{McpRelay, RelayApproval, RelayConfig, RelayError};
pub use self::set::McpServers;
use super::{DEFAULT_ENV, ToolError, allowed, expiry};
use crate::ErrorCause;
use crate::engine::{EffectState, ToolOutcome, ToolSpec};
use crate::host::{BoxFuture, Tool, ToolInput, ToolSource};
use crate::time::Nanos;

/// A server of tools, and how it is used.
///
/// ```
/// use std::time::Duration;
/// use unfazed::host::{McpConfig, McpReach};
///
/// let reach = McpReach::command(["mcp-server-time"]);
/// let config = McpConfig::new("time", reach).prefix("clock_").start_timeout(Duration::from_secs(5));
/// # let _ = config;
/// ```
#[derive(Clone)]
pub struct McpConfig {
    /// What it is called in messages.
    name: String,
    /// How it is reached.
    reach: McpReach,
    /// Prefix of the names of its tools.
    prefix: String,
    /// The longest it may take to start, and to list its tools.
    start_timeout: Nanos,
    /// The most bytes of a result that are kept: the first ones.
    max_output: usize,
    /// How long its processes have, once asked to end, before they are killed.
    grace: Nanos,
}

/// How a server is reached.
#[derive(Clone)]
pub enum McpReach {
    /// It is a process of this host.
    Process {
        /// The command and its arguments. No shell reads them.
        command: Vec<String>,
        /// Where it runs; `None`: where the host runs.
        working_dir: Option<PathBuf>,
        /// The variables of the host's environment it sees; by default those of [`ProcessConfig`](crate::host::ProcessConfig).
        pass_env: Vec<String>,
        /// More variables. Their values are never shown.
        env: BTreeMap<String, String>,
    },
    /// It is reached over HTTP.
    Http {
        /// Where it is: `https://example.org/mcp`.
        url: String,
        /// Further headers of its requests. Their values are never shown.
        headers: Vec<(String, SecretString)>,
    },
}

/// A server that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("MCP server `{server}`: {message}")]
#[non_exhaustive]
pub struct McpError {
    /// Its name.
    pub server: String,
    /// What is wrong.
    pub message: String,
    /// What led to it, where that is an error of its own.
    pub source: Option<ErrorCause>,
}

/// A server that runs. Cheap to clone; clones share it. When the last clone and the last of its tools is dropped, all
/// its processes are killed; [`McpServer::shutdown`] gives them time to end.
#[derive(Clone)]
pub struct McpServer(Arc<ServerEntry>);

struct ServerEntry {
    config: McpConfig,
    slot: tokio::sync::Mutex<ServerSlot>,
    /// How often it could not be started again.
    failed_starts: AtomicU64,
    /// How often its tools may have become others.
    changes: Arc<AtomicU64>,
    /// How many of these had been when its tools were looked at last. Who looks holds it: the others wait and see the same.
    seen: tokio::sync::Mutex<u64>,
    tools: Mutex<Vec<(String, ToolSpec)>>,
    issues: Mutex<Vec<McpToolIssue>>,
    /// How often its tools were others.
    version: AtomicU64,
}

enum ServerSlot {
    Up(Arc<ServerLink>),
    Down(LinkError),
    /// It was shut down and stays so.
    Closed,
}

/// A tool of a server.
struct McpTool {
    server: Arc<ServerEntry>,
    /// What the server calls it.
    remote: String,
    spec: ToolSpec,
}

impl McpConfig {
    /// A server of that name with the usual settings: its tools are named `NAME__tool`, it has 30 s to start and 2 s to
    /// end, and 1 MiB of a result is kept.
    pub fn new(name: impl Into<String>, reach: McpReach) -> Self {
        let name = name.into();
        Self {
            prefix: format!("{name}__"),
            name,
            reach,
            start_timeout: Nanos::from_secs(30),
            max_output: 1024 * 1024,
            grace: Nanos::from_secs(2),
        }
    }

    /// Sets the prefix of the names of its tools.
    #[must_use]
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// Sets the longest it may take to start, and to list its tools.
    #[must_use]
    pub fn start_timeout(mut self, longest: Duration) -> Self {
        self.start_timeout = longest.into();
        self
    }

    /// Sets the most bytes of a result that are kept: the first ones.
    #[must_use]
    pub const fn max_output(mut self, bytes: usize) -> Self {
        self.max_output = bytes;
        self
    }

    /// Sets how long its processes have, once asked to end, before they are killed.
    #[must_use]
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace.into();
        self
    }
}

impl McpReach {
    /// A command with the usual environment.
    pub fn command<S: Into<String>>(command: impl IntoIterator<Item = S>) -> Self {
        Self::Process {
            command: command.into_iter().map(Into::into).collect(),
            working_dir: None,
            pass_env: DEFAULT_ENV.iter().map(ToString::to_string).collect(),
            env: BTreeMap::new(),
        }
    }
}

impl McpServer {
    /// Starts or reaches the server and lists its tools.
    ///
    /// # Errors
    /// It cannot be started or reached, does not answer in time, or does not speak the protocol.
    pub async fn start(config: McpConfig) -> Result<Self, McpError> {
        let server = ServerEntry {
            config,
            slot: tokio::sync::Mutex::new(ServerSlot::Down(LinkError::default())),
            failed_starts: AtomicU64::new(0),
            changes: Arc::default(),
            seen: tokio::sync::Mutex::default(),
            tools: Mutex::default(),
            issues: Mutex::default(),
            version: AtomicU64::new(0),
        };
        let link = server.link().await?;
        *server.seen.lock().await = server.changes.load(Ordering::Acquire);
        if let Err(error) = server.list(&link).await {
            server.shutdown().await;
            return Err(error);
        }
        Ok(Self(Arc::new(server)))
    }

    /// What it is called.
    pub fn name(&self) -> &str {
        &self.0.config.name
    }

    /// Its tools that are left out, and those whose descriptions are cut, as it listed them last.
    pub(crate) fn issues(&self) -> Vec<McpToolIssue> {
        self.0.issues.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Ends the conversation and the server: closes its input, waits, tells its processes to end, waits, kills them.
    /// Its tools cannot be called any more.
    pub async fn shutdown(&self) {
        self.0.shutdown().await;
    }
}

impl ToolSource for McpServer {
    fn tools(&self) -> Vec<Arc<dyn Tool>> {
        let known = self.0.tools.lock().unwrap_or_else(PoisonError::into_inner);
        let tool = |(remote, spec): &(String, ToolSpec)| -> Arc<dyn Tool> {
            Arc::new(McpTool { server: Arc::clone(&self.0), remote: remote.clone(), spec: spec.clone() })
        };
        known.iter().map(tool).collect()
    }

    fn version(&self) -> u64 {
        self.0.version.load(Ordering::Acquire)
    }

    fn refresh(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.0.refresh())
    }
}

impl ServerEntry {
    fn error(&self, error: impl Into<LinkError>) -> McpError {
        let LinkError { why, source } = error.into();
        McpError { server: self.config.name.clone(), message: why, source }
    }

    /// The connection; a new one, if the last has ended. Those who wait while one is tried share what comes of it.
    async fn link(&self) -> Result<Arc<ServerLink>, McpError> {
        let failed = self.failed_starts.load(Ordering::Acquire);
        let mut slot = self.slot.lock().await;
        match &*slot {
            ServerSlot::Up(link) if link.is_alive() => return Ok(Arc::clone(link)),
            ServerSlot::Closed => return Err(self.error("it was shut down".to_owned())),
            ServerSlot::Down(why) if failed != self.failed_starts.load(Ordering::Acquire) => {
                return Err(self.error(why.clone()));
            }
            ServerSlot::Up(dead) => dead.end().await,
            ServerSlot::Down(_) => {}
        }
        // Whoever drops this while it continues leaves no half-open connection behind.
        *slot = ServerSlot::Down("its start was given up".to_owned().into());
        match ServerLink::open(&self.config, Arc::clone(&self.changes)).await {
            Ok(link) => {
                let link = Arc::new(link);
                *slot = ServerSlot::Up(Arc::clone(&link));
                // It may have other tools than before it died.
                self.changes.fetch_add(1, Ordering::AcqRel);
                Ok(link)
            }
            Err(why) => {
                self.failed_starts.fetch_add(1, Ordering::AcqRel);
                *slot = ServerSlot::Down(why.clone());
                Err(self.error(why))
            }
        }
    }

    /// Takes note of the tools the server has now.
    async fn list(&self, link: &ServerLink) -> Result<(), McpError> {
        let within = self.config.start_timeout;
        let listed = tokio::time::timeout(within.to_std(), link.list()).await;
        let declared = listed
            .unwrap_or_else(|_| Err(format!("it did not list its tools within {within}").into()))
            .map_err(|why| self.error(why))?;
        let (tools, issues) = self.usable(declared);
        for McpToolIssue { tool, reason, message } in &issues {
            let (server, reason) = (&self.config.name, reason.name());
            tracing::warn!(server, tool, reason, message, "a tool of the server is left out or cut");
        }
        *self.issues.lock().unwrap_or_else(PoisonError::into_inner) = issues;
        let mut known = self.tools.lock().unwrap_or_else(PoisonError::into_inner);
        if *known != tools {
            *known = tools;
            self.version.fetch_add(1, Ordering::AcqRel);
        }
        Ok(())
    }

    /// The tools that models can be shown, and what is wrong with tools.
    fn usable(
        &self,
        declared: Vec<Result<Declared, McpToolIssue>>,
    ) -> (Vec<(String, ToolSpec)>, Vec<McpToolIssue>) {
        let (mut tools, mut issues) = (Vec::<(String, ToolSpec)>::new(), Vec::new());
        for tool in declared {
            let read = tool.and_then(|tool| Ok((declare::spec(&self.config.prefix, &tool)?, tool.name)));
            match read {
                Ok((spec, remote)) if tools.iter().any(|(_, known)| known.name == spec.name) => {
                    let message = format!("the server lists tool `{remote}` more than once");
                    issues.push(McpToolIssue::new(&remote, McpIssueReason::DuplicateName, &message));
                }
                Ok((mut spec, remote)) => {
                    issues.extend(declare::shorten(&remote, &mut spec));
                    tools.push((remote.into_owned(), spec));
                }
                Err(issue) => issues.push(issue),
            }
        }
        (tools, issues)
    }

    async fn refresh(&self) {
        let mut seen = self.seen.lock().await;
        let changes = self.changes.load(Ordering::Acquire);
        if *seen == changes {
            return;
        }
        let up = match &*self.slot.lock().await {
            ServerSlot::Up(link) if link.is_alive() => Some(Arc::clone(link)),
            _ => None,
        };
        // The tools of a server that is down stay: the next call of one starts it again.
        let Some(link) = up else { return };
        if let Err(error) = self.list(&link).await {
            tracing::warn!(server = self.config.name, error = %error, "the tools cannot be listed again");
        }
        // Not before: who is broken off has seen nothing.
        *seen = changes;
    }

    async fn shutdown(&self) {
        let mut slot = self.slot.lock().await;
        if let ServerSlot::Up(link) = std::mem::replace(&mut *slot, ServerSlot::Closed) {
            link.end().await;
        }
    }
}

impl McpTool {
    async fn run_once(&self, input: ToolInput<'_>) -> Result<Value, ToolError> {
        let shown = format!("`{}`", self.spec.name);
        let began = tokio::time::Instant::now();
        let link = tokio::select! {
            biased;
            () = input.cancel.cancelled() => {
                let error = ToolError::cancelled(format!("{shown} was stopped before it began"));
                return Err(error.effect(EffectState::NotStarted));
            }
            link = self.server.link() => link.map_err(|error| ToolError::unavailable(error.to_string()))?,
            () = expiry(input.timeout) => {
                let (server, after) = (&self.server.config.name, allowed(input.timeout));
                let error = ToolError::timeout(format!("MCP server `{server}` did not start within {after}"));
                return Err(error.effect(EffectState::NotStarted));
            }
        };
        let waited = Nanos::from_std(began.elapsed());
        let left = input.timeout.map(|timeout| Nanos::from(timeout).saturating_sub(waited));
        let arguments = match input.arguments {
            Value::Object(fields) => fields.clone(),
            Value::Null => rmcp::model::JsonObject::new(),
            _ => return Err(ToolError::invalid_args(format!("{shown} takes an object of arguments"))),
        };
        let result = link.call(&self.remote, arguments, &input, left, &shown).await?;
        content::read(&result, self.server.config.max_output, &input.aside).await
    }
}

impl Tool for McpTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn run<'a>(&'a self, input: ToolInput<'a>) -> BoxFuture<'a, ToolOutcome> {
        Box::pin(async move { self.run_once(input).await.into() })
    }
}

crate::debug_parts!(|this: McpServer| config: this.0.config);

crate::debug_parts!(|this: McpConfig| name: this.name, reach: this.reach);

impl fmt::Debug for McpReach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Process { command, working_dir, .. } => f
                .debug_struct("Process")
                .field("command", command)
                .field("working_dir", working_dir)
                .finish_non_exhaustive(),
            Self::Http { url, .. } => f.debug_struct("Http").field("url", url).finish_non_exhaustive(),
        }
    }
}
