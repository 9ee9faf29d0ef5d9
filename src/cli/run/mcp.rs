//! The MCP servers of an agent: started before the run, ended after it.

use std::path::Path;

use futures_util::future::join_all;
use indexmap::IndexMap;
use tokio_util::sync::CancellationToken;
use unfazed::host::agent_file::{AgentFile, HeaderEntry, McpEntry};
use unfazed::host::{McpConfig, McpError, McpReach, McpServer};

use super::issues;
use super::secrets::Secrets;
use crate::cli::exit::{self, Failed};

/// Starts all servers at once; what cannot be started ends those that could.
pub(super) async fn start(
    file: &AgentFile,
    folder: &Path,
    secrets: &mut Secrets,
) -> Result<Vec<McpServer>, Failed> {
    let results = start_each(file, folder, secrets).await;
    let (mut started, mut failed) = (Vec::new(), Vec::new());
    for result in results {
        match result {
            Ok(server) => started.push(server),
            Err(error) => failed.push(error),
        }
    }
    issues::tell(&issues::of(&started));
    if failed.is_empty() {
        return Ok(started);
    }
    shutdown(&started).await;
    for error in &failed {
        exit::tell(error);
    }
    Err(Failed::Report(String::new()))
}

/// Starts all servers at once, and says what came of each.
pub(super) async fn start_each(
    file: &AgentFile,
    folder: &Path,
    secrets: &mut Secrets,
) -> Vec<Result<McpServer, McpError>> {
    let configs: Vec<McpConfig> =
        file.mcp.iter().map(|(name, entry)| config(name, entry, folder, secrets)).collect();
    join_all(configs.into_iter().map(McpServer::start)).await
}

/// Ends all servers.
pub(super) async fn shutdown(servers: &[McpServer]) {
    join_all(servers.iter().map(McpServer::shutdown)).await;
}

/// Ends all servers, each with its grace, until `kill` fires: then what is left of them is killed.
pub(super) async fn end(servers: &[McpServer], kill: &CancellationToken) {
    tokio::select! {
        biased;
        // Begun in any case: a shutdown that is dropped kills what it was to end.
        () = shutdown(servers) => {}
        () = kill.cancelled() => {}
    }
}

/// The variables that are set for the server, and the names of those that are passed on to it.
pub(super) fn environment(entry: &McpEntry) -> (IndexMap<String, String>, Vec<String>) {
    let env = entry.env.as_ref().map(|env| env.value.clone()).unwrap_or_default();
    (env, entry.pass_env.as_ref().map(|names| names.value.clone()).unwrap_or_default())
}

fn config(name: &str, entry: &McpEntry, folder: &Path, secrets: &mut Secrets) -> McpConfig {
    let reach = match (&entry.command, &entry.url) {
        (_, Some(url)) => {
            let mut headers = secrets.take_mcp(name);
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
                let here = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
                let dir = entry.cwd.as_ref().map_or_else(|| here.to_path_buf(), |dir| here.join(&dir.value));
                *working_dir = Some(dir);
                let (set, passed) = environment(entry);
                pass_env.extend(passed);
                env.extend(set);
            }
            reach
        }
    };
    McpConfig {
        prefix: entry.prefix_for(name),
        start_timeout: entry.start_timeout,
        grace: entry.grace,
        max_output: usize::try_from(entry.max_output).unwrap_or(usize::MAX),
        ..McpConfig::new(name, reach)
    }
}
