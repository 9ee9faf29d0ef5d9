//! Servers that come and go while runs use their tools.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::future::join_all;

use super::{McpConfig, McpError, McpServer};
use crate::host::{BoxFuture, Tool, ToolSource};

/// Servers that may be added and removed while runs continue: a run has the tools of those that are there when its next
/// turn begins, in the order in which they were added. Clones share the set.
///
/// ```no_run
/// # async fn of_a_host(agent: unfazed::host::Agent) -> Result<(), unfazed::host::McpError> {
/// use unfazed::host::{McpConfig, McpReach, McpServers};
///
/// let servers = McpServers::new();
/// let agent = agent.tool_source(servers.clone());
/// // … while runs of the agent continue:
/// servers.add(McpConfig::new("time", McpReach::command(["mcp-server-time"]))).await?;
/// servers.remove("time").await;
/// # Ok(()) }
/// ```
#[derive(Clone, Default)]
pub struct McpServers(Arc<Mutex<ServerSet>>);

#[derive(Default)]
struct ServerSet {
    servers: Vec<McpServer>,
    /// How often servers came and went, and what the versions of those that went had come to.
    past: u64,
}

impl McpServers {
    /// No servers.
    pub fn new() -> Self {
        Self::default()
    }

    /// Starts or reaches a server and adds it. Its tools are there from the next turn on.
    ///
    /// # Errors
    /// One of that name is there, or it cannot be used; see [`McpServer::start`].
    pub async fn add(&self, config: McpConfig) -> Result<(), McpError> {
        let taken = |set: &ServerSet| set.servers.iter().any(|server| server.name() == config.name);
        let error = McpError {
            server: config.name.clone(),
            message: "a server of that name is there; remove it first".into(),
            source: None,
        };
        if taken(&self.set()) {
            return Err(error);
        }
        let server = McpServer::start(config.clone()).await?;
        {
            let mut set = self.set();
            // Another may have come while this one started.
            if !taken(&set) {
                set.servers.push(server);
                set.past = set.past.wrapping_add(1);
                return Ok(());
            }
        }
        server.shutdown().await;
        Err(error)
    }

    /// Takes the server of that name away and ends it; `false` if there is none. Its tools are not offered from the next
    /// turn on; calls that are in flight or still come fail with `tool_unavailable`.
    pub async fn remove(&self, name: &str) -> bool {
        let removed = {
            let mut set = self.set();
            let place = set.servers.iter().position(|server| server.name() == name);
            let removed = place.map(|place| set.servers.remove(place));
            if let Some(server) = &removed {
                set.past = set.past.wrapping_add(server.version()).wrapping_add(1);
            }
            removed
        };
        let Some(server) = removed else { return false };
        server.shutdown().await;
        true
    }

    /// The names of the servers, in order.
    pub fn names(&self) -> Vec<String> {
        self.set().servers.iter().map(|server| server.name().to_owned()).collect()
    }

    /// Takes all servers away and ends them.
    pub async fn shutdown(&self) {
        for name in self.names() {
            self.remove(&name).await;
        }
    }

    fn set(&self) -> MutexGuard<'_, ServerSet> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ToolSource for McpServers {
    fn tools(&self) -> Vec<Arc<dyn Tool>> {
        self.set().servers.iter().flat_map(ToolSource::tools).collect()
    }

    fn version(&self) -> u64 {
        let set = self.set();
        set.servers.iter().map(ToolSource::version).fold(set.past, u64::wrapping_add)
    }

    fn refresh(&self) -> BoxFuture<'_, ()> {
        let servers = self.set().servers.clone();
        Box::pin(async move {
            join_all(servers.iter().map(ToolSource::refresh)).await;
        })
    }
}

impl fmt::Debug for McpServers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}
