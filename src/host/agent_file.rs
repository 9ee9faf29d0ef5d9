//! The agent file: its instructions, which models it speaks to, which tools it has, under which policy.

mod assembly;
mod check;
mod error;
mod file_agent;
mod first_turn;
#[cfg(feature = "serve")]
mod gateway;
#[cfg(feature = "serve")]
mod gateway_error;
#[cfg(feature = "serve")]
mod gateway_watch;
mod headers;
mod mcp;
mod model;
mod named;
mod process;
mod routes;
mod secrets;
mod servers;
#[cfg(feature = "serve")]
mod tls;
mod tools;
mod windows;

use std::num::NonZeroU32;
use std::path::Path;

use indexmap::IndexMap;
use serde_json::Value;

use super::builtin;
use super::{BUILTINS, OnTimeout, OutputFormat, PROCESS_TOOLS, StdinMode};
use crate::engine::{AgentFacts, ToolSpec};
use crate::policy::decode::{self, DecodedDocument, OneOrMany, Spanned, VersionOne, choice, record, union};
use crate::policy::{Effect, Policy, WrittenSchema};
use crate::text::{Code, Diagnostic, Report, Source, SourceId, Sources, Span, did_you_mean, written_secret};
use crate::text::{
    Problems,
    yaml::{self, YamlData, YamlNode},
};
use crate::time::Nanos;

pub use self::assembly::StartOptions;
pub use self::check::AgentWarning;
pub use self::error::AgentFileError;
pub use self::file_agent::FileAgent;
#[cfg(feature = "serve")]
pub(crate) use self::gateway::FileGateway;
#[cfg(feature = "serve")]
pub(crate) use self::gateway_error::GatewayFileError;
#[cfg(feature = "serve")]
pub(crate) use self::gateway_watch::GatewayWatch;
pub(crate) use self::mcp::{McpEntry, McpServers};
pub(crate) use self::model::{ModelEntry, ScriptedEntry};
pub use self::named::NamedAgent;
pub(crate) use self::process::ArgumentEntry;
pub(crate) use self::routes::{GatewayKeyEntry, RouteEntry};
#[cfg(feature = "serve")]
pub(crate) use self::routes::{GatewayKeys, LimitedKeys};
pub use self::secrets::SecretError;
#[cfg(feature = "serve")]
pub(crate) use self::servers::AgentServers;
#[cfg(feature = "serve")]
pub(crate) use self::tls::tls_report;
pub(crate) use crate::host::key_source::KeySource;

/// The longest name of a tool that providers take.
const MOST_NAME: usize = 64;
/// The start of the file: where a key is that is not there.
const START: Span = Span::new(SourceId(0), 0, 0);

record! {
    /// An agent for `unfazed run`.
    #[part(true)]
    pub(crate) struct AgentFile {
        /// The version of the format; always 1.
        pub version: Spanned<VersionOne>,
        /// What the agent is called in reports.
        /// Example: `price-researcher`
        pub name: String = "agent".to_owned(),
        /// Instructions above the conversation.
        /// Example: `You look up prices. Report what you found.`
        pub system: String = String::new(),
        /// What the user wants, unless the command line says otherwise.
        /// Example: `What does item 42 cost in francs?`
        pub task: Option<Spanned<String>>,
        /// The policy files, the later ones above the earlier ones; paths start at this file's folder. Without
        /// any, the built-in policy applies alone.
        /// Example: `["policy.yaml"]`
        pub policy: OneOrMany<Spanned<String>> = OneOrMany(Vec::new()),
        /// The models by the names the policy's selectors match. The first is preferred; the others are tried in
        /// order when its attempts are exhausted. Only a file whose servers `unfazed mcp` puts under the policy needs none.
        /// Example: `{"main": {"api": "scripted", "script": "model.yaml"}}`
        pub models: IndexMap<String, ModelEntry> = IndexMap::new(),
        /// The names that clients of `unfazed serve` ask for, each with the models that they get, in order of preference. `*` in a
        /// name stands for any run of characters; the most specific name decides.
        /// Example: `{"gpt-5": ["main", "spare"], "gpt-*": ["main"]}`
        pub routes: IndexMap<String, RouteEntry> = IndexMap::new(),
        /// The keys of clients of `unfazed serve`, by their names. Without any it serves this machine alone, and whoever is on it.
        /// Example: `{"desk": {"sha256": "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b"}}`
        pub keys: IndexMap<String, GatewayKeyEntry> = IndexMap::new(),
        /// What `unfazed serve` secures its connections with. Without it they are plain HTTP.
        /// Example: `{"certificate": "cert.pem", "key": "key.pem"}`
        pub tls: Option<TlsEntry>,
        /// A file that says how large the windows of models are, as `LiteLLM` publishes it: `model_prices_and_context_window.json`;
        /// as YAML, in the form of the catalogue that ships with the product.
        /// It takes precedence over what ships with the product. The path starts at this file's folder.
        /// Example: `models.json`
        pub model_windows: Option<Spanned<String>>,
        /// The tools by the names the model calls them by.
        /// Example: `{"calc": {"kind": "builtin"}}`
        pub tools: IndexMap<String, ToolEntry> = IndexMap::new(),
        /// Servers of tools that speak the Model Context Protocol, by the names that precede those of their tools.
        /// Example: `{"fs": {"command": ["npx", "-y", "@modelcontextprotocol/server-filesystem", "."]}}`
        pub mcp: McpServers = McpServers::default(),
        /// Where sessions are kept.
        pub session: SessionEntry = SessionEntry { dir: ".unfazed/sessions".to_owned(), url: None, fsync: FsyncEntry::Turn, redact: RedactEntry::Patterns },
        /// What becomes of work in flight when the run ends.
        pub stop: StopEntry = StopEntry { drain: None },
        /// Processes in the background.
        pub background: BackgroundEntry = BackgroundEntry { max: BackgroundEntry::MAX },
        /// The seed of every jittered delay; the same seed gives the same delays.
        /// Example: `42`
        pub seed: u64 = 0,
    }
}

record! {
    /// The certificate of a server, and its private key. Renewed ones are taken while it serves.
    pub(crate) struct TlsEntry {
        /// The file of the certificate and of those of its issuers, in PEM form; paths start at this file's folder.
        /// Example: `/etc/letsencrypt/live/models.example/fullchain.pem`
        pub certificate: Spanned<String>,
        /// The file of its private key, in PEM form and without a passphrase.
        /// Example: `/etc/letsencrypt/live/models.example/privkey.pem`
        pub key: Spanned<String>,
    }
}

record! {
    /// What becomes of work in flight when the run ends.
    pub(crate) struct StopEntry {
        /// The longest it may take to end; then it is dropped and its processes are killed. Longer than the grace of
        /// every tool. Left out: 5 s, and 1 min for the requests of `unfazed serve`.
        /// Example: `10s`
        pub drain: Option<Nanos>,
    }
}

impl StopEntry {
    /// How long a run may take to end.
    pub(crate) fn of_run(&self) -> Nanos {
        self.drain.unwrap_or(Nanos::from_secs(5))
    }

    /// How long the requests to a gateway may take to end. Streams of models take longer than tools.
    #[cfg(feature = "serve")]
    pub(crate) fn of_gateway(&self) -> Nanos {
        self.drain.unwrap_or(Nanos::from_secs(60))
    }
}

record! {
    /// Processes in the background.
    pub(crate) struct BackgroundEntry {
        /// How many there may be at the same time; one more is killed when its time is up.
        /// Example: `4`
        pub max: NonZeroU32 = BackgroundEntry::MAX,
    }
}

impl BackgroundEntry {
    const MAX: NonZeroU32 = NonZeroU32::MIN.saturating_add(7);
}

union! {
    /// How a tool is run.
    #[part(true)]
    pub(crate) enum ToolEntry by kind {
        /// A program: the arguments are JSON on its standard input, its standard output is the result.
        Process = "process" {
            /// The program and its arguments. No shell is involved unless it is the program.
            /// Example: `["./tools/lookup_price.sh"]`
            command: Spanned<Vec<String>>,
            /// What it does, for the model.
            /// Example: `The price of an item.`
            description: String,
            /// JSON Schema of the arguments.
            /// Example: `{"type": "object", "properties": {"item": {"type": "integer"}}, "required": ["item"]}`
            parameters: Spanned<WrittenSchema>,
            /// What a run does to the world.
            effect: Option<Effect>,
            /// The folder it runs in; the path starts at this file's folder, which is also the default.
            /// Example: `tools`
            working_dir: Option<String>,
            /// Variables of its environment, besides those every program sees: `PATH`, `HOME`, `USER`, `LANG`,
            /// `LC_ALL`, `LC_CTYPE`, `TZ`, `TMPDIR`, `SYSTEMROOT`.
            /// Example: `{"CURRENCY": "CHF"}`
            env: IndexMap<String, String> = IndexMap::new(),
            /// Variables of this process that are passed on to it.
            /// Example: `["HTTPS_PROXY"]`
            pass_env: Vec<String> = Vec::new(),
            /// More arguments of the program, made of those of the call. Each template is one argument; it is left out if
            /// a value it uses was not given. A list is left out together.
            /// Example: `[["--city", "{{ args.city }}"], "--days={{ args.days }}"]`
            arguments: Vec<ArgumentEntry> = Vec::new(),
            /// What it gets on standard input. Left out: `json`, and `none` where there are `arguments`.
            stdin: Option<StdinMode>,
            /// What its standard output holds.
            output: OutputFormat = OutputFormat::Auto,
            /// The most bytes of output that are kept.
            /// Example: `65536`
            max_output: u32 = 1_048_576,
            /// How long a run may take before `on_timeout`. Left out: as long as the policy's `attempt_timeout`, which
            /// ends it in any case.
            /// Example: `20s`
            timeout: Option<Spanned<Nanos>>,
            /// What is done with a run whose time is up.
            on_timeout: Option<Spanned<OnTimeout>>,
            /// How long its processes have, once told to end, before they are killed.
            /// Example: `500ms`
            grace: Nanos = Nanos::from_secs(2),
            /// How long processes that outlive the program have to write out what they have.
            /// Example: `1s`
            linger: Nanos = Nanos::from_millis(250),
            /// Whether a run in the background continues after the run of the agent.
            keep_running: Option<Spanned<bool>>,
        },
        /// A tool that comes with the product: `calc`, `echo`, `process_status`, `process_stop`.
        Builtin = "builtin" {
            /// Which one, if the tool is to have another name.
            /// Example: `calc`
            name: Option<Spanned<String>>,
        },
    }
}

impl ToolEntry {
    /// What models and policies know of the tool; `None`: it is a built-in tool that does not exist.
    pub(crate) fn spec(&self, name: &str) -> Option<ToolSpec> {
        match self {
            Self::Process { description, parameters, effect, .. } => Some(ToolSpec {
                name: name.to_owned(),
                description: description.clone(),
                parameters: parameters.value.0.clone(),
                effect: *effect,
            }),
            Self::Builtin { name: which } => {
                let tool = builtin(which.as_ref().map_or(name, |which| &which.value))?;
                Some(ToolSpec { name: name.to_owned(), ..tool.spec().clone() })
            }
        }
    }
}

record! {
    /// Where sessions are kept.
    pub(crate) struct SessionEntry {
        /// The folder; the path starts at the folder the command runs in.
        /// Example: `.unfazed/sessions`
        pub dir: String = ".unfazed/sessions".to_owned(),
        /// Where the address of a `PostgreSQL` database is that keeps them instead: `postgres://USER@HOST:PORT/DATABASE`. The
        /// folder then only has the large results of tools.
        /// Example: `{"env": "DATABASE_URL"}`
        pub url: Option<KeySource>,
        /// When what was written is forced to the disk.
        pub fsync: FsyncEntry = FsyncEntry::Turn,
        /// What is taken out of all that is said and comes back, before anybody sees it.
        pub redact: RedactEntry = RedactEntry::Patterns,
    }
}

choice! {
    /// What is taken out of all that is said and comes back, before anybody sees it.
    pub(crate) enum RedactEntry {
        /// The values that this file names: keys, headers, variables that are passed on.
        Known = "known",
        /// These, and what has the form of a secret: keys of well-known services, passwords in addresses, private keys.
        Patterns = "patterns",
    }
}

choice! {
    /// When what was written is forced to the disk.
    pub(crate) enum FsyncEntry {
        /// Whenever the system sees fit.
        Never = "never",
        /// After each turn.
        Turn = "turn",
        /// After each event.
        Event = "event",
    }
}

impl AgentFile {
    /// Reads an agent file. `name` is how it is called in reports.
    ///
    /// # Errors
    /// Every mistake in it, with its place.
    pub(crate) fn read(name: &str, bytes: &[u8]) -> Result<DecodedDocument<Self>, Report> {
        decode::read_with(name, bytes, problems)
    }

    /// As [`read`](Self::read), with what could be read of a file that has mistakes, so that the files it names can be
    /// looked at too. With a report, that is not all it says.
    pub(crate) fn read_rest(name: &str, bytes: &[u8]) -> (Option<DecodedDocument<Self>>, Option<Report>) {
        decode::read_and(name, bytes, problems)
    }

    /// The JSON Schema of agent files.
    pub(crate) fn json_schema() -> Value {
        decode::schema::<Self>()
    }

    /// Where a key of the document is written: `["tools", "search"]`; the start of the file if it is not there.
    pub(crate) fn key(document: &DecodedDocument<Self>, path: &[&str]) -> Span {
        let text = document.sources().iter().next().map_or("", Source::text);
        let (_, root) = yaml::load(&mut Sources::new(), &mut Problems::default(), "", text.as_bytes());
        let (mut node, mut span) = (root, START);
        for name in path {
            let Some(YamlNode { data: YamlData::Map(entries), .. }) = node else { return START };
            let Some((key, value)) = entries.iter().find(|(key, _)| &*key.name == *name) else {
                return START;
            };
            span = key.span;
            node = Some(value.clone());
        }
        span
    }
}

impl AgentFile {
    /// By what a session finds the file again.
    pub(crate) fn facts(&self, path: &Path, policy: &Policy) -> AgentFacts {
        let whole = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let profile = policy.profile().map(str::to_owned);
        AgentFacts { name: self.name.clone(), file: whole.display().to_string(), profile }
    }
}

/// What is wrong with a file that can be read.
fn problems(document: &DecodedDocument<AgentFile>) -> Vec<Diagnostic> {
    let file = &document.value;
    let mut problems = Vec::new();
    let Spanned { value: VersionOne, span } = file.version;
    if let Some(task) = file.task.as_ref().filter(|task| task.value.trim().is_empty()) {
        let problem = Diagnostic::error(Code::BAD_VALUE, task.span, "the task is empty");
        problems.push(problem.help("say what is to be done, or remove the line and use --task"));
    }
    if file.models.is_empty()
        && file.mcp.is_empty()
        && !document.lost().any(&["models", "mcp", "ModelEntry", "McpEntry"])
    {
        problems.push(no_model(span));
    }
    problems.extend(secrets(document));
    for (name, entry) in &file.models {
        problems.extend(model::problems(document, name, entry));
    }
    for (name, entry) in &file.tools {
        let at = || AgentFile::key(document, &["tools", name]);
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        if name.is_empty() || name.len() > MOST_NAME || !name.chars().all(allowed) {
            let message = format!("providers refuse `{name}` as the name of a tool");
            let help = "use letters, digits, `_` and `-`, at most 64 of them";
            problems.push(Diagnostic::error(Code::BAD_VALUE, at(), message).help(help));
        }
        problems.extend(tool_problem(name, entry, at));
        problems.extend(process::no_time_to_end(document, name, entry));
    }
    for (name, entry) in file.mcp.iter() {
        problems.extend(mcp::problems(document, name, entry));
    }
    problems
}

fn no_model(at: Span) -> Diagnostic {
    Diagnostic::error(Code::MISSING_FIELD, at, "the agent has no model")
        .help("add one under `models:`, or a server for `unfazed mcp` under `mcp:`")
}

/// Keys and passwords in addresses and in texts for models. Where they may be, in `api_key` and in headers, others look.
fn secrets(document: &DecodedDocument<AgentFile>) -> Vec<Diagnostic> {
    let file = &document.value;
    let of_models =
        file.models.values().filter_map(ModelEntry::api).map(|api| (api.config.base_url.as_str(), api.at));
    let of_servers =
        file.mcp.values().filter_map(|entry| entry.url.as_ref()).map(|url| (url.value.as_str(), url.span));
    let addresses = of_models.chain(of_servers);
    let held = |text: &str| written_secret(text).is_some();
    let problem = |span, help: &str| {
        Diagnostic::error(Code::SECRET, span, "a secret is written into the file").help(help)
    };
    let in_address = "remove it from the address: keys belong into `api_key: {env: NAME}`, or into `headers` from the environment";
    let mut problems: Vec<Diagnostic> =
        addresses.filter(|(url, _)| held(url)).map(|(_, at)| problem(at, in_address)).collect();
    let told = "models see this text: remove the secret, and revoke it where it was issued";
    if held(&file.system) {
        problems.push(problem(AgentFile::key(document, &["system"]), told));
    }
    problems.extend(file.task.iter().filter(|task| held(&task.value)).map(|task| problem(task.span, told)));
    problems
}

fn tool_problem(name: &str, entry: &ToolEntry, at: impl Fn() -> Span) -> Vec<Diagnostic> {
    let mut problems = Vec::new();
    match entry {
        ToolEntry::Process { command, timeout, on_timeout, keep_running, .. } => {
            problems.extend(process::problems(timeout.as_ref(), on_timeout.as_ref(), keep_running.as_ref()));
            if command.value.first().is_none_or(|program| program.trim().is_empty()) {
                let problem = Diagnostic::error(Code::BAD_VALUE, command.span, "the command is empty");
                problems.push(problem.help("write the program and its arguments: `[python3, tool.py]`"));
            }
        }
        ToolEntry::Builtin { name: which } => {
            let (which, span) = match which {
                Some(which) => (which.value.as_str(), which.span),
                None => (name, at()),
            };
            let known = || BUILTINS.iter().chain(PROCESS_TOOLS).copied();
            if !known().any(|name| name == which) {
                let message = format!("there is no built-in tool `{which}`");
                let problem = Diagnostic::error(Code::UNKNOWN_NAME, span, message);
                problems.push(match did_you_mean(which, known()) {
                    Some(meant) => problem.meant(span, which, meant, known()),
                    None => problem.help(format!("there are `{}`", known().collect::<Vec<_>>().join("`, `"))),
                });
            }
        }
    }
    problems
}
