//! From an agent file to an agent that can run: policy, models, tools, session.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use secrecy::SecretString;
use tracing::Instrument;
use unfazed::engine::{AgentFacts, LogHeader, RunFacts, ToolOutcome, ToolSpec};
use unfazed::host::agent_file::{
    AgentFile, FinishReasonEntry, FsyncEntry, ModelEntry, RedactEntry, ToolEntry,
};
use unfazed::host::scripted::{Script, ScriptedServer};
use unfazed::host::{
    Agent, Anthropic, AnthropicConfig, BoxFuture, Clock, McpServer, ModelFacts, OpenAi, OpenAiConfig, Past,
    PolicyWatch, ProcessConfig, ProcessTool, Processes, SharedState, Tool, ToolInput, Tools, WindowQuestion,
    builtin,
};
use unfazed::policy::{Completeness, KnownNames, Loader, Policy, ShortBudget};
use unfazed::store::{Fsync, Resumed, SessionId, SessionLog, StoreError};

use crate::cli::check::{agents, first_turn};
use crate::cli::exit::Failed;
use crate::cli::files;
use crate::cli::named::{self, Named};
use crate::cli::out;
use crate::cli::policies::reported;
use crate::cli::sessions::{self, Found};
use crate::cli::settings::Settings;

use super::mcp;
use super::secrets::{Access, Secrets};
use super::windows::Questions;

/// What is said where nobody is there to share with.
const ALONE: &str = "note     the policy shares breakers or budgets between hosts (scope: shared), which takes sessions in \
                     PostgreSQL; this session counts by itself\n";

/// An agent that can run.
pub(crate) struct Setup {
    pub(crate) agent: Agent,
    pub(crate) id: SessionId,
    pub(crate) session: Box<dyn SessionLog>,
    /// Where the session stood, if it goes on.
    pub(crate) past: Option<Past>,
    pub(crate) servers: Vec<ScriptedServer>,
    pub(crate) mcp: Vec<McpServer>,
    pub(crate) system: String,
    pub(crate) task: Option<String>,
    pub(crate) seed: u64,
}

/// What the command line says about the run.
#[derive(Clone)]
pub(crate) struct Wishes {
    /// There is a task.
    pub(crate) has_task: bool,
    /// The policy's files are looked at before every turn.
    pub(crate) reload: bool,
    /// The profile of the policy that was chosen.
    pub(crate) profile: Option<String>,
    /// The session that goes on.
    pub(crate) resume: Option<Found>,
}

impl Setup {
    /// Reads the agent file and everything it names, checks it all, starts the scripted models, and begins the
    /// session. Nothing is started before everything is checked.
    pub(crate) async fn load(
        path: &Path,
        loader: &Loader,
        settings: &Settings,
        Wishes { has_task, reload, profile, resume }: Wishes,
    ) -> Result<Self, Failed> {
        let bytes = files::read(path)?;
        let (named, reports) = named::read(path, &bytes, loader);
        if named.is_none() {
            named::is_agent(path, &bytes, "run")?;
        }
        let named = named.ok_or_else(|| reported(&named::once(reports)))?;
        let known = agents::alone(&named, path);
        let all_known = known.completeness == Completeness::All;
        if all_known {
            unknown_names(&named.policy, known.clone())?;
        }
        // Of servers nothing is known yet; a budget that is too small without their tools is too small with them.
        let short = first_turn::short_budget(&named, path).filter(|_| resume.is_none());
        if let Some(short) = &short {
            tell_short(short);
        }
        let Named { file, policy, mut scripts, models } = named;
        let folder = path.parent().unwrap_or(Path::new("")).to_path_buf();
        if !has_task && file.value.task.is_none() && resume.is_none() {
            let message = "there is nothing to do: give --task, or write `task:` into the agent file";
            return Err(Failed::Usage(message.into()));
        }
        let mut secrets = Secrets::read(&file, &folder)?;
        let file = file.value;
        let place = match &resume {
            Some(found) => found.place.clone(),
            None => sessions::of_run(settings, Some((&file, &folder)))?,
        };
        let hidden: Vec<_> = secrets.all().chain(passed_secrets(&file)).chain(place.secrets()).collect();
        let tools = tools(&file, &folder);
        let policy_now = policy.clone();
        let (agent, digest) = if reload {
            let watch = watch(&file, &folder, loader)?;
            let digest = watch.live().status().digest;
            (Agent::watching(watch), digest)
        } else {
            let digest = policy.digest().to_owned();
            (Agent::new(policy), digest)
        };
        let mut questions = Questions::new(policy_now.clone(), models.clone());
        let mut agent = agent.tools(tools).drain(file.stop.drain).clock(Clock::system()).redact(hidden);
        agent = agent.redact_forms(file.session.redact == RedactEntry::Forms);
        let id = resume.as_ref().map_or_else(SessionId::generate, |found| found.id.clone());
        // What the servers log belongs to the run they answer.
        let span = tracing::info_span!("run", correlation_id = %id);
        let mut servers = Vec::new();
        for (name, entry) in &file.models {
            let script = scripts.shift_remove(name);
            let with =
                with_model(agent, name, entry, secrets.take(name), script, (&mut servers, &mut questions));
            let price = named::price(entry, name, models.as_ref());
            let facts = ModelFacts { price, ..entry.facts(name) };
            agent = with.instrument(span.clone()).await?.facts(name.clone(), facts);
        }
        for (name, window) in questions.answers().await {
            agent = agent.window(name, window);
        }
        let mcp = mcp::start(&file, &folder, &mut secrets).instrument(span).await?;
        for server in &mcp {
            agent = agent.tool_source(server.clone());
        }
        if short.is_none()
            && resume.is_none()
            && !mcp.is_empty()
            && let Some(short) = first_turn::short_budget_of(&agent, &policy_now, &file, models.as_ref())
        {
            tell_short(&short);
        }
        if let (false, Ok(offered)) = (all_known, agent.offered()) {
            let tools = Some(offered.into_iter().map(|tool| tool.name).collect());
            unknown_names(&policy_now, KnownNames { tools, unasked: Vec::new(), ..known })?;
        }
        let store = place.open(fsync(file.session.fsync))?;
        let (session, past) = if resume.is_some() {
            let interpreter = agent.interpreter().map_err(stopped)?;
            let resumed = unfazed::store::resume(&*store, &id, &interpreter);
            let Resumed { past, log, .. } = resumed.map_err(stopped)?;
            (log, Some(past))
        } else {
            let header = LogHeader::new(id.to_string(), digest, Clock::system().now());
            let header = header.of_agent(facts(&file, path, profile));
            (store.create(&id, &header).map_err(|error| not_kept(&error))?, None)
        };
        let agent = agent.results(place.results(&id));
        let agent = share(agent, store.shared_state(), &file)?;
        let AgentFile { system, task, seed, .. } = file;
        Ok(Self { agent, id, session, past, servers, mcp, system, task: task.map(|task| task.value), seed })
    }
}

/// Says that the first turn is the final one.
fn tell_short(ShortBudget { path, why }: &ShortBudget) {
    out::say(&format!("warning  {path} is too small for one turn before the final one (W0256): {why}\n"));
}

/// Has the agent share what the policy says, or says that nobody is there to share with.
fn share(agent: Agent, shared: Option<Arc<dyn SharedState>>, file: &AgentFile) -> Result<Agent, Failed> {
    if let Some(shared) = shared {
        return Ok(agent.shared(shared));
    }
    let targets: Vec<String> = file.models.keys().cloned().collect();
    if agent.interpreter().map_err(stopped)?.shares(&targets) {
        out::say(ALONE);
    }
    Ok(agent)
}

/// Says which names in the policy are of no tool and no model of the agent. A name that `check` would refuse is refused;
/// with names that only a server could have told, the run is made, because the rules for the others hold.
fn unknown_names(policy: &Policy, names: KnownNames) -> Result<(), Failed> {
    let report = policy.hold_against(names);
    if report.has_errors() {
        return Err(reported(&[report]));
    }
    if !report.is_empty() {
        out::say(&format!("{report}\n"));
    }
    Ok(())
}

/// The tools that the file itself names.
pub(crate) fn tools(file: &AgentFile, folder: &Path) -> Tools {
    let most = usize::try_from(file.background.max.get()).unwrap_or(usize::MAX);
    let processes = Processes::new(most);
    file.tools.iter().filter_map(|(name, entry)| tool(name, entry, folder, &processes)).collect()
}

fn stopped(error: impl std::fmt::Display) -> Failed {
    Failed::Stopped(error.to_string())
}

/// A session that cannot begin. Whoever cannot write there keeps sessions elsewhere.
fn not_kept(error: &StoreError) -> Failed {
    let help = match error {
        StoreError::Io { .. } => {
            "; keep sessions in another folder: name it in UNFAZED_SESSIONS, in `sessions` of the settings file, or in \
             `session.dir` of the agent file"
        }
        _ => "",
    };
    Failed::Stopped(format!("{error}{help}"))
}

/// What it takes to find the agent again.
fn facts(file: &AgentFile, path: &Path, profile: Option<String>) -> AgentFacts {
    let whole = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    AgentFacts { name: file.name.clone(), file: whole.display().to_string(), profile }
}

fn watch(file: &AgentFile, folder: &Path, loader: &Loader) -> Result<PolicyWatch, Failed> {
    let paths: Vec<PathBuf> = file.policy.0.iter().map(|path| folder.join(&path.value)).collect();
    PolicyWatch::load(loader.clone(), &paths).map_err(|error| Failed::Stopped(error.to_string()))
}

async fn with_model(
    agent: Agent,
    name: &str,
    entry: &ModelEntry,
    Access { key, headers }: Access,
    script: Option<Script>,
    (servers, questions): (&mut Vec<ScriptedServer>, &mut Questions),
) -> Result<Agent, Failed> {
    let stopped = |error: &dyn std::fmt::Display| Failed::Stopped(format!("model `{name}`: {error}"));
    let config = match entry {
        ModelEntry::OpenAi {
            base_url,
            model,
            stream,
            max_tokens,
            extra,
            guidance_in_results,
            finish_reason,
            ask_window,
            ..
        } => {
            let config = OpenAiConfig {
                base_url: base_url.value.clone(),
                model: model.clone(),
                api_key: key,
                headers,
                plain_headers: entry.plain_headers(),
                stream: *stream,
                max_tokens: *max_tokens,
                extra: extra.as_object().cloned().unwrap_or_default(),
                guidance_in_results: *guidance_in_results,
                finish_optional: finish_reason.map(|entry| entry == FinishReasonEntry::Optional),
                ..OpenAiConfig::default()
            };
            let question = if *ask_window { WindowQuestion::of_openai(&config) } else { Ok(None) };
            questions.add(name, model, *max_tokens, question.map_err(|error| stopped(&error))?);
            config
        }
        ModelEntry::Anthropic { base_url, model, stream, max_tokens, extra, ask_window, .. } => {
            let mut config = AnthropicConfig {
                model: model.value.clone(),
                api_key: key,
                headers,
                plain_headers: entry.plain_headers(),
                stream: *stream,
                max_tokens: *max_tokens,
                extra: extra.as_object().cloned().unwrap_or_default(),
                ..AnthropicConfig::default()
            };
            if let Some(base_url) = base_url {
                config.base_url.clone_from(&base_url.value);
            }
            let question = ask_window.then(|| WindowQuestion::of_anthropic(&config)).transpose();
            questions.add(name, &model.value, Some(*max_tokens), question.map_err(|error| stopped(&error))?);
            let model = Anthropic::new(config).map_err(|error| stopped(&error))?;
            return Ok(agent.model(name, model));
        }
        ModelEntry::Scripted { stream, port, .. } => {
            let script = script.ok_or_else(|| stopped(&"its script was not read"))?;
            let server = ScriptedServer::start(script, *port).await.map_err(|error| stopped(&error))?;
            let base_url = server.base_url();
            servers.push(server);
            OpenAiConfig { base_url, model: name.to_owned(), stream: *stream, ..OpenAiConfig::default() }
        }
    };
    Ok(agent.model(name, OpenAi::new(config).map_err(|error| stopped(&error))?))
}

/// The values of variables passed on to tools whose names say that they are secrets.
fn passed_secrets(file: &AgentFile) -> Vec<SecretString> {
    let mut secrets = Vec::new();
    let of_tools = file.tools.values().filter_map(|entry| match entry {
        ToolEntry::Process { env, pass_env, .. } => Some((env.clone(), pass_env.clone())),
        ToolEntry::Builtin { .. } => None,
    });
    let of_servers = file.mcp.values().map(mcp::environment);
    for (env, pass_env) in of_tools.chain(of_servers) {
        let passed = pass_env.iter().filter(|name| is_secret(name));
        secrets.extend(passed.filter_map(|name| std::env::var(name).ok()));
        secrets.extend(env.into_iter().filter(|(name, _)| is_secret(name)).map(|(_, value)| value));
    }
    secrets.into_iter().map(SecretString::from).collect()
}

fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    ["KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "CREDENTIAL"]
        .iter()
        .any(|word| name.contains(word))
}

/// The tool; `None` for a built-in one that does not exist, which the check of the file has refused.
fn tool(name: &str, entry: &ToolEntry, folder: &Path, processes: &Processes) -> Option<Arc<dyn Tool>> {
    match entry {
        ToolEntry::Builtin { name: which } => {
            let which = which.as_ref().map_or(name, |which| which.value.as_str());
            let tool = builtin(which).or_else(|| processes.tool(which))?;
            let spec = ToolSpec { name: name.to_owned(), ..tool.spec().clone() };
            Some(if tool.spec().name == name { tool } else { Arc::new(Renamed { spec, tool }) })
        }
        ToolEntry::Process {
            command,
            description,
            parameters,
            effect,
            working_dir,
            env,
            pass_env,
            arguments,
            stdin,
            output,
            max_output,
            timeout,
            on_timeout,
            grace,
            linger,
            keep,
        } => {
            let spec = ToolSpec {
                name: name.to_owned(),
                description: description.clone(),
                parameters: parameters.value.0.clone(),
                effect: *effect,
            };
            let mut config = ProcessConfig::new(spec, command.value.clone());
            let here = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
            config.working_dir =
                Some(working_dir.as_ref().map_or_else(|| here.to_path_buf(), |dir| here.join(dir)));
            config.env =
                env.iter().map(|(name, value)| (name.clone(), value.clone())).collect::<BTreeMap<_, _>>();
            config.pass_env.extend(pass_env.iter().cloned());
            config.arguments = arguments.iter().map(|argument| argument.0.clone()).collect();
            config.stdin = *stdin;
            config.output = *output;
            config.timeout = timeout.as_ref().map(|timeout| timeout.value);
            config.on_timeout = on_timeout.as_ref().map(|what| what.value).unwrap_or_default();
            (config.grace, config.linger) = (*grace, *linger);
            config.background = Some(processes.clone());
            config.keep = keep.as_ref().is_some_and(|keep| keep.value);
            config.max_output = usize::try_from(*max_output).unwrap_or(usize::MAX);
            Some(Arc::new(ProcessTool::new(config)))
        }
    }
}

/// A tool under another name.
struct Renamed {
    spec: ToolSpec,
    tool: Arc<dyn Tool>,
}

impl Tool for Renamed {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn run<'a>(&'a self, input: ToolInput<'a>) -> BoxFuture<'a, ToolOutcome> {
        self.tool.run(input)
    }

    fn settled(&self) -> BoxFuture<'_, ()> {
        self.tool.settled()
    }

    fn run_told<'a>(&'a self, input: ToolInput<'a>) -> BoxFuture<'a, (ToolOutcome, RunFacts)> {
        self.tool.run_told(input)
    }
}

const fn fsync(entry: FsyncEntry) -> Fsync {
    match entry {
        FsyncEntry::Never => Fsync::Never,
        FsyncEntry::Turn => Fsync::Turn,
        FsyncEntry::Event => Fsync::Event,
    }
}
