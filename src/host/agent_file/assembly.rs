//! From an agent file that was checked to an agent that can run.

use std::path::Path;

use secrecy::SecretString;

use super::check::{AgentWarning, CheckedAgent, unknown_names};
use super::error::AgentFileError;
use super::file_agent::FileAgent;
use super::named::NamedAgent;
use super::secrets::{NamedSecrets, ServerAccess, passed_secrets};
use super::servers::AgentServers;
use super::windows::WindowQuestions;
use super::{ModelEntry, RedactEntry, ScriptedEntry};
use crate::ErrorCause;
use crate::analysis::{KnownNames, NameCompleteness};
#[cfg(feature = "scripted")]
use crate::host::Provider;
use crate::host::model::ApiEntry;
use crate::host::read_file::{MOST, read_file};
use crate::host::scripted::Script;
#[cfg(not(feature = "scripted"))]
use crate::host::scripted::ScriptedModel;
#[cfg(feature = "scripted")]
use crate::host::scripted::ScriptedServer;
use crate::host::{Agent, Clock, HttpModel, ModelConfig, ModelFacts, PolicyWatch, WindowQuestion};
use crate::policy::Loader;

/// How an agent is started.
#[derive(Debug, Default)]
pub struct StartOptions {
    reload: bool,
    redact: Vec<SecretString>,
}

impl StartOptions {
    /// As the file says.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether the files of the policy are looked at before every turn. It continues under what they say then.
    #[must_use]
    pub const fn reload(mut self, reload: bool) -> Self {
        self.reload = reload;
        self
    }

    /// Takes these values, too, out of everything that becomes an event. Those that the file names are taken out in any case.
    #[must_use]
    pub fn redact(mut self, values: impl IntoIterator<Item = SecretString>) -> Self {
        self.redact.extend(values);
        self
    }
}

impl Agent {
    /// The agent of a file, as `unfazed run` runs it: with its policy, models, tools and MCP servers.
    ///
    /// ```no_run
    /// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
    /// let agent = unfazed::Agent::from_file("agent.yaml").await?;
    /// let report = agent.run().await?;
    /// agent.shutdown().await;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// For a profile of the policy, or to watch its files, take [`NamedAgent::read`] and [`NamedAgent::start`].
    ///
    /// # Errors
    /// Every mistake in the file and in those it names, before anything is started; and what cannot be started.
    pub async fn from_file(path: impl AsRef<Path>) -> Result<FileAgent, AgentFileError> {
        let path = path.as_ref();
        let read = read_file(path, MOST);
        let bytes = read.map_err(|source| AgentFileError::Read { path: path.to_path_buf(), source })?;
        let (named, reports) = NamedAgent::read(path, &bytes, &Loader::new());
        let Some(named) = named else { return Err(AgentFileError::Mistakes(reports)) };
        let mut checked = named.check()?;
        checked.warnings.splice(0..0, reports.into_iter().map(AgentWarning::Report));
        checked.start(StartOptions::new()).await
    }
}

impl NamedAgent {
    /// Checks the agent and starts it.
    ///
    /// # Errors
    /// Mistakes that only show beside its tools and models; keys that are missing; what cannot be started.
    pub async fn start(self, options: StartOptions) -> Result<FileAgent, AgentFileError> {
        self.check()?.start(options).await
    }
}

impl CheckedAgent {
    /// Starts the agent: its scripted models and its MCP servers. Nothing is started before all keys and headers are there,
    /// and if something does not start, what did is shut down.
    ///
    /// # Errors
    /// Keys and headers that are missing, a model or a server that cannot be used, and names in the policy that are of nothing
    /// the servers have.
    pub(crate) async fn start(&mut self, options: StartOptions) -> Result<FileAgent, AgentFileError> {
        let mut servers = AgentServers::default();
        match self.assemble(options, &mut servers).await {
            Ok(agent) => Ok(FileAgent {
                agent,
                servers,
                warnings: std::mem::take(&mut self.warnings),
                file: self.named.file.value.clone(),
                path: self.named.path.clone(),
            }),
            Err(error) => {
                servers.shutdown().await;
                Err(error)
            }
        }
    }

    async fn assemble(
        &mut self,
        options: StartOptions,
        servers: &mut AgentServers,
    ) -> Result<Agent, AgentFileError> {
        let mut secrets = NamedSecrets::read(&self.named.file, self.named.folder())?;
        let agent = self.named.bare(options, &secrets)?;
        let agent = self.named.with_models(agent, &mut secrets, servers).await?;
        let agent = self.with_servers(agent, &mut secrets, servers).await?;
        let Self { named: NamedAgent { policy, .. }, names, warnings, .. } = self;
        if names.completeness != NameCompleteness::All
            && let Ok(offered) = agent.offered()
        {
            let tools = Some(offered.into_iter().map(|tool| tool.name).collect());
            let names = KnownNames { tools, unasked: Vec::new(), ..names.clone() };
            warnings.extend(unknown_names(policy, names)?);
        }
        Ok(agent)
    }

    /// The agent with the tools of its servers.
    #[cfg(feature = "mcp")]
    async fn with_servers(
        &mut self,
        mut agent: Agent,
        secrets: &mut NamedSecrets,
        servers: &mut AgentServers,
    ) -> Result<Agent, AgentFileError> {
        let started = servers.start(self.named.configs(secrets)).await;
        for server in &servers.mcp {
            let (server, issues) = (server.name().to_owned(), server.issues());
            if !issues.is_empty() {
                self.warnings.push(AgentWarning::ServerTools { server, issues });
            }
        }
        started.map_err(AgentFileError::Servers)?;
        for server in &servers.mcp {
            agent = agent.tool_source(server.clone());
        }
        if !self.is_short && !servers.mcp.is_empty() {
            self.warnings.extend(self.named.short_budget_of(&agent).map(AgentWarning::ShortBudget));
        }
        Ok(agent)
    }

    #[cfg(not(feature = "mcp"))]
    async fn with_servers(
        &mut self,
        agent: Agent,
        _: &mut NamedSecrets,
        _: &mut AgentServers,
    ) -> Result<Agent, AgentFileError> {
        Ok(agent)
    }
}

impl NamedAgent {
    /// The agent without models and servers.
    fn bare(&self, options: StartOptions, secrets: &NamedSecrets) -> Result<Agent, AgentFileError> {
        let file = &self.file.value;
        // The settings of a host may keep sessions elsewhere, so nothing is missing if it is not there.
        let address = file.session.url.as_ref().and_then(|url| url.secret("", self.folder()).ok().flatten());
        let hidden = secrets.all().chain(passed_secrets(file)).chain(address).chain(options.redact);
        let agent = if options.reload {
            let paths = self.policy_paths();
            Agent::watching(PolicyWatch::load(self.loader.clone(), &paths).map_err(AgentFileError::Policy)?)
        } else {
            Agent::new(self.policy.clone())
        };
        let agent =
            agent.tools(self.tools()).drain(file.stop.of_run().into()).clock(Clock::system()).redact(hidden);
        let agent = agent.redact_renewed(secrets.renewed_keys());
        Ok(agent.redact_forms(file.session.redact == RedactEntry::Patterns))
    }

    /// The agent with its models, as large as their servers say they are.
    async fn with_models(
        &self,
        mut agent: Agent,
        secrets: &mut NamedSecrets,
        servers: &mut AgentServers,
    ) -> Result<Agent, AgentFileError> {
        let mut questions = WindowQuestions::new(self.policy.clone(), self.models.clone());
        for (name, entry) in &self.file.value.models {
            let refused = |error: ErrorCause| AgentFileError::model(name, error);
            agent = match entry {
                ModelEntry::Api(api) => {
                    let model = api_model(name, api, secrets.take(name), &mut questions);
                    agent.model(name, model.map_err(refused)?)
                }
                ModelEntry::Scripted(entry) => {
                    let script = self.scripts.get(name).cloned();
                    let script = script.ok_or_else(|| refused(ErrorCause::new("its script was not read")))?;
                    agent.model(name, scripted(name, entry, script, servers).await.map_err(refused)?)
                }
            };
            agent = agent.facts(name, ModelFacts { price: self.price(name), ..entry.facts(name) });
        }
        for (name, window) in questions.answers().await {
            agent = agent.window(name, window);
        }
        Ok(agent)
    }
}

/// A model behind the API of a provider, and the question how large it is.
fn api_model(
    name: &str,
    api: &ApiEntry,
    ServerAccess { key, renewed, headers }: ServerAccess,
    questions: &mut WindowQuestions,
) -> Result<HttpModel, ErrorCause> {
    let config = ModelConfig { api_key: key, renewed_key: renewed, headers, ..api.config() };
    let question = if api.ask_window { WindowQuestion::new(&config)? } else { None };
    questions.add(name, &config.model, config.max_tokens, question);
    Ok(HttpModel::new(config)?)
}

/// A script, behind a server of its own.
#[cfg(feature = "scripted")]
async fn scripted(
    name: &str,
    entry: &ScriptedEntry,
    script: Script,
    servers: &mut AgentServers,
) -> Result<HttpModel, ErrorCause> {
    let server = ScriptedServer::start(script, entry.port).await?;
    let base_url = server.base_url();
    servers.scripted.push(server);
    let config = ModelConfig { base_url, stream: entry.stream, ..ModelConfig::new(Provider::OPENAI, name) };
    Ok(HttpModel::new(config)?)
}

/// A script, within the program: what serves it is not built in.
#[cfg(not(feature = "scripted"))]
async fn scripted(
    _: &str,
    _: &ScriptedEntry,
    script: Script,
    _: &mut AgentServers,
) -> Result<ScriptedModel, ErrorCause> {
    Ok(ScriptedModel::new(script))
}
