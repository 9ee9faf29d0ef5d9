//! The tools an agent has, without a run: its servers are started, asked, and ended.

use std::path::Path;

use crate::context::{ByteEstimate, TokenCounter, tool_tokens};
use crate::engine::ToolSpec;
use crate::host::agent_file::{AgentFile, NamedAgent, ToolEntry};
use crate::host::{Agent, McpServer, ToolSource, counter_for};
use crate::policy::{Effect, Loader, Policy};
use futures_util::future::join_all;

use super::issues::{self, ToolIssue};
use super::signals::StopSignals;
use crate::cli::exit::CommandFailure;
use crate::cli::policies::reported;
use crate::cli::{files, named};

/// The tools of an agent.
pub(crate) struct ToolInventory {
    /// As the model may be shown them.
    pub(crate) tools: Vec<OfferedTool>,
    /// The names of its models.
    pub(crate) models: Vec<String>,
    /// Which servers could not be asked, and why.
    pub(crate) failed: Vec<String>,
    /// How the names of the tools of these servers begin.
    pub(crate) unasked: Vec<String>,
    /// The tools of servers that are left out or cut. They are reported on standard error.
    pub(crate) issues: Vec<ToolIssue>,
}

/// A tool as a model may be shown it.
pub(crate) struct OfferedTool {
    pub(crate) spec: ToolSpec,
    /// `process`, `builtin`, `mcp`, `kept` (it reads kept results), `report`.
    pub(crate) kind: &'static str,
    /// Under the policy.
    pub(crate) effect: Effect,
    /// What its definition takes of a model's window.
    pub(crate) tokens: u64,
    /// The program, the server, or the rule it is there for.
    pub(crate) from: String,
}

impl ToolInventory {
    /// Reads the agent file and asks its servers, unless a signal comes before that is done. Keys of models are not
    /// needed.
    pub(crate) async fn take(path: &Path, loader: &Loader) -> Result<Self, CommandFailure> {
        let bytes = files::read(path)?;
        let (named, reports) = NamedAgent::read(path, &bytes, loader);
        if named.is_none() {
            named::is_agent(path, &bytes, "tools")?;
        }
        let named = named.ok_or_else(|| reported(&named::once(reports)))?;
        if named.file.value.mcp.is_empty() {
            return Self::ask(named).await;
        }
        StopSignals::listen().unless_heard(Self::ask(named)).await
    }

    async fn ask(named: NamedAgent) -> Result<Self, CommandFailure> {
        let configs = named.server_configs().map_err(|report| reported(&[report]))?;
        let tools = named.tools();
        let NamedAgent { file, policy, .. } = named;
        let file = file.value;
        let (mut servers, mut failed, mut unasked) = (Vec::new(), Vec::new(), Vec::new());
        for result in join_all(configs.into_iter().map(McpServer::start)).await {
            match result {
                Ok(server) => servers.push(server),
                Err(error) => {
                    unasked.extend(file.mcp.get(&error.server).map(|entry| entry.prefix_for(&error.server)));
                    failed.push(error.to_string());
                }
            }
        }
        let mut agent = Agent::new(policy.clone()).tools(tools);
        for server in &servers {
            agent = agent.tool_source(server.clone());
        }
        let offered = agent.offered();
        let counter = file.models.first().map_or_else(
            || Box::new(ByteEstimate) as Box<dyn TokenCounter>,
            |(name, entry)| counter_for(&entry.facts(name).model),
        );
        let of_servers: Vec<(String, String)> = servers
            .iter()
            .flat_map(|server| {
                let tools = server.tools().into_iter();
                tools.map(|tool| (tool.spec().name.clone(), server.name().to_owned()))
            })
            .collect();
        let issues: Vec<ToolIssue> =
            servers.iter().flat_map(|server| issues::of(server.name(), &server.issues())).collect();
        issues::tell(&issues);
        join_all(servers.iter().map(McpServer::shutdown)).await;
        let offered = offered.map_err(|error| CommandFailure::Stopped(error.to_string()))?;
        let tools = offered.into_iter().map(|spec| {
            let server = of_servers.iter().find(|(tool, _)| *tool == spec.name).map(|(_, server)| server);
            let (kind, from) = origin(&spec.name, &file, server, &policy);
            let effect = match policy.tool(&spec.name).effect.value {
                Effect::Unknown => spec.effect.unwrap_or(Effect::Unknown),
                known => known,
            };
            let tokens = tool_tokens(&*counter, &[&spec]);
            OfferedTool { spec, kind, effect, tokens, from }
        });
        Ok(Self {
            tools: tools.collect(),
            models: file.models.into_keys().collect(),
            failed,
            unasked,
            issues,
        })
    }
}

fn origin(name: &str, file: &AgentFile, server: Option<&String>, policy: &Policy) -> (&'static str, String) {
    match (file.tools.get(name), server) {
        (Some(ToolEntry::Process { command, .. }), _) => ("process", command.value.join(" ")),
        (Some(ToolEntry::Builtin { name: which }), _) => {
            ("builtin", which.as_ref().map_or(name, |which| which.value.as_str()).to_owned())
        }
        (None, Some(server)) => ("mcp", format!("server {server}")),
        (None, None) if policy.output().is_some_and(|output| output.tool.value == name) => {
            ("report", "output".to_owned())
        }
        (None, None) => ("kept", "result.overflow: spill".to_owned()),
    }
}
