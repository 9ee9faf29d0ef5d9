//! What an agent starts for itself: MCP servers, and the servers of scripted models.

#[cfg(any(feature = "mcp", feature = "scripted"))]
use futures_util::future::join_all;

#[cfg(feature = "mcp")]
use super::McpEntry;
#[cfg(feature = "mcp")]
use super::named::NamedAgent;
#[cfg(feature = "mcp")]
use super::secrets::NamedSecrets;
use crate::host::header_entry::HeaderEntry;
#[cfg(feature = "scripted")]
use crate::host::scripted::ScriptedServer;
#[cfg(feature = "mcp")]
use crate::host::{McpConfig, McpError, McpReach, McpServer};
#[cfg(feature = "mcp")]
use crate::text::Report;

/// What was started for an agent. Dropping it and the agent kills it all; [`AgentServers::shutdown`] gives it time to end.
#[derive(Default)]
pub(crate) struct AgentServers {
    #[cfg(feature = "mcp")]
    pub(super) mcp: Vec<McpServer>,
    #[cfg(feature = "scripted")]
    pub(super) scripted: Vec<ScriptedServer>,
}

/// Their names; no configuration, which has keys.
impl std::fmt::Debug for AgentServers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("AgentServers");
        #[cfg(feature = "mcp")]
        shown.field("mcp", &self.mcp.iter().map(McpServer::name).collect::<Vec<_>>());
        #[cfg(feature = "scripted")]
        shown.field("scripted", &self.scripted.len());
        shown.finish()
    }
}

impl AgentServers {
    /// Ends all of it, each MCP server with its grace. If this is dropped before it is done, what is left of them is killed.
    pub(crate) async fn shutdown(self) {
        #[cfg(feature = "mcp")]
        join_all(self.mcp.iter().map(McpServer::shutdown)).await;
        #[cfg(feature = "scripted")]
        join_all(self.scripted.into_iter().map(ScriptedServer::shutdown)).await;
    }

    /// Starts all servers at once. Those that start are kept also if others fail.
    #[cfg(feature = "mcp")]
    pub(super) async fn start(&mut self, configs: Vec<McpConfig>) -> Result<(), Vec<McpError>> {
        let mut failed = Vec::new();
        for result in join_all(configs.into_iter().map(McpServer::start)).await {
            match result {
                Ok(server) => self.mcp.push(server),
                Err(error) => failed.push(error),
            }
        }
        if failed.is_empty() { Ok(()) } else { Err(failed) }
    }
}

#[cfg(feature = "mcp")]
impl NamedAgent {
    /// The MCP servers that the file names, with the headers of their requests. None of them is started.
    ///
    /// # Errors
    /// Every header that is missing or cannot be sent, at its place.
    pub fn server_configs(&self) -> Result<Vec<McpConfig>, Report> {
        let mut secrets = NamedSecrets::of_servers(&self.file, self.folder())?;
        Ok(self.configs(&mut secrets))
    }

    /// What the names of the tools of each server begin with, by its name.
    pub(crate) fn server_prefixes(&self) -> Vec<(String, String)> {
        let servers = self.file.value.mcp.iter();
        servers.map(|(name, entry)| (name.clone(), entry.prefix_for(name))).collect()
    }

    /// The same with secrets that were read already.
    pub(super) fn configs(&self, secrets: &mut NamedSecrets) -> Vec<McpConfig> {
        let servers = self.file.value.mcp.iter();
        servers.map(|(name, entry)| self.config(name, entry, secrets)).collect()
    }

    fn config(&self, name: &str, entry: &McpEntry, secrets: &mut NamedSecrets) -> McpConfig {
        let reach = match (&entry.command, &entry.url) {
            (_, Some(url)) => {
                let mut headers = secrets.take_headers(name);
                for (name, value) in &entry.headers {
                    if let HeaderEntry::Text(text) = value {
                        headers.push((name.clone(), text.value.clone().into()));
                    }
                }
                McpReach::Http { url: url.value.trim().to_owned(), headers }
            }
            (command, None) => {
                let mut reach = McpReach::command(command.iter().flat_map(|command| command.value.clone()));
                if let McpReach::Process { working_dir, pass_env, env, .. } = &mut reach {
                    *working_dir = Some(self.working_dir(entry.cwd.as_ref().map(|dir| &*dir.value)));
                    let (set, passed) = entry.environment();
                    pass_env.extend(passed);
                    env.extend(set);
                }
                reach
            }
        };
        McpConfig::new(name, reach)
            .prefix(entry.prefix_for(name))
            .start_timeout(entry.start_timeout.into())
            .grace(entry.grace.into())
            .max_output(usize::try_from(entry.max_output).unwrap_or(usize::MAX))
    }
}
