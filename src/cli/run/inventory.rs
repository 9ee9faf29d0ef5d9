//! The tools an agent has, without a run: its servers are started, asked, and ended.

use std::path::Path;

use unfazed::context::{Estimate, TokenCounter, tool_tokens};
use unfazed::engine::ToolSpec;
use unfazed::host::agent_file::{AgentFile, ModelEntry, ToolEntry};
use unfazed::host::{Agent, ToolSource, counter_for};
use unfazed::policy::{Effect, Loader, Policy};

use super::issues::{self, Issue};
use super::secrets::Secrets;
use super::signals::Signals;
use super::{mcp, setup};
use crate::cli::exit::Failed;
use crate::cli::files;
use crate::cli::named::{self, Named};
use crate::cli::policies::reported;

/// The tools of an agent.
pub(crate) struct Inventory {
    /// As the model may be shown them.
    pub(crate) tools: Vec<Offered>,
    /// The names of its models.
    pub(crate) models: Vec<String>,
    /// Which servers could not be asked, and why.
    pub(crate) failed: Vec<String>,
    /// How the names of the tools of these servers begin.
    pub(crate) unasked: Vec<String>,
    /// The tools of servers that are left out or cut. They have been told of on standard error.
    pub(crate) issues: Vec<Issue>,
}

/// A tool as a model may be shown it.
pub(crate) struct Offered {
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

impl Inventory {
    /// Reads the agent file and asks its servers, unless a signal comes before that is done. Keys of models are not
    /// needed.
    pub(crate) async fn take(path: &Path, loader: &Loader) -> Result<Self, Failed> {
        let bytes = files::read(path)?;
        let (named, reports) = named::read(path, &bytes, loader);
        if named.is_none() {
            named::is_agent(path, &bytes, "tools")?;
        }
        let named = named.ok_or_else(|| reported(&named::once(reports)))?;
        let folder = path.parent().unwrap_or(Path::new(""));
        if named.file.value.mcp.is_empty() {
            return Self::ask(named, folder).await;
        }
        Signals::listen().unless_heard(Self::ask(named, folder)).await
    }

    async fn ask(named: Named, folder: &Path) -> Result<Self, Failed> {
        let Named { mut file, policy, .. } = named;
        let models = std::mem::take(&mut file.value.models);
        let mut secrets = Secrets::read(&file, folder)?;
        let file = file.value;
        let (mut servers, mut failed, mut unasked) = (Vec::new(), Vec::new(), Vec::new());
        for result in mcp::start_each(&file, folder, &mut secrets).await {
            match result {
                Ok(server) => servers.push(server),
                Err(error) => {
                    unasked.extend(file.mcp.get(&error.server).map(|entry| entry.prefix_for(&error.server)));
                    failed.push(error.to_string());
                }
            }
        }
        let mut agent = Agent::new(policy.clone()).tools(setup::tools(&file, folder));
        for server in &servers {
            agent = agent.tool_source(server.clone());
        }
        let offered = agent.offered();
        let counter: Box<dyn TokenCounter> = match models.values().next() {
            Some(ModelEntry::OpenAi { model, .. }) => counter_for(model),
            _ => Box::new(Estimate),
        };
        let of_servers: Vec<(String, String)> = servers
            .iter()
            .flat_map(|server| {
                let tools = server.tools().into_iter();
                tools.map(|tool| (tool.spec().name.clone(), server.name().to_owned()))
            })
            .collect();
        let issues = issues::of(&servers);
        issues::tell(&issues);
        mcp::shutdown(&servers).await;
        let offered = offered.map_err(|error| Failed::Stopped(error.to_string()))?;
        let tools = offered.into_iter().map(|spec| {
            let server = of_servers.iter().find(|(tool, _)| *tool == spec.name).map(|(_, server)| server);
            let (kind, from) = origin(&spec.name, &file, server, &policy);
            let effect = match policy.tool(&spec.name).effect.value {
                Effect::Unknown => spec.effect.unwrap_or(Effect::Unknown),
                known => known,
            };
            let tokens = tool_tokens(&*counter, &[&spec]);
            Offered { spec, kind, effect, tokens, from }
        });
        Ok(Self { tools: tools.collect(), models: models.into_keys().collect(), failed, unasked, issues })
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
        (None, None) => ("kept", "result.over: spill".to_owned()),
    }
}
