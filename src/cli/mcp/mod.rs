//! `unfazed mcp`: the tools of an MCP server under a policy, for any client.

mod file;
mod listen;
mod maker;
mod streams;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use clap::ValueEnum;
use secrecy::SecretString;
use tokio_util::sync::CancellationToken;

use self::file::ServedFile;
use self::listen::AccessRules;
use self::maker::RelayMaker;
use super::exit::{CommandFailure, ExitStatus};
use super::http::TlsServer;
use super::lines::{self, InputLine};
use super::run::metrics::{self, MetricsServer};
use super::run::signals::StopSignals;
use super::sessions::SessionPlace;
use super::settings::CliSettings;
use super::{http, named, out, policies, runtime};
use crate::host::server_certificate::{CertificateFiles, CertificateWatch};
use crate::host::{McpConfig, McpReach, McpRelay, Metrics, PolicyWatch, RelayApproval};
use crate::store::FsyncMode;

/// The longest that a client is waited for which has closed its end, and may read what is left.
const PATIENCE: Duration = Duration::from_millis(200);

/// The longest that answers are waited for once the client has closed its end.
const LAST_ANSWERS: Duration = Duration::from_secs(1);

/// What is logged without being asked for.
const RELAY_LOG: &str = "unfazed::host::tool::mcp=warn,unfazed::cli::mcp=warn";

/// Puts the tools of MCP servers under a policy: name it in the configuration of your client, with the server's command
/// behind it, or with a file of servers, which are one to the client
#[derive(clap::Args)]
#[command(after_help = "Examples:
  unfazed mcp --policy policy.yaml -- npx -y @modelcontextprotocol/server-filesystem .
  unfazed mcp --policy policy.yaml --name git --sessions .unfazed -- uvx mcp-server-git
  unfazed mcp servers.yaml         # several servers: `policy` and `mcp` of an agent file
  unfazed mcp --url https://example.org/mcp --header 'Authorization=Bearer {TOKEN}'
  unfazed mcp --policy policy.yaml --listen 127.0.0.1:8788 -- uvx mcp-server-time
  unfazed mcp --example            # a policy to begin with, and how clients are configured

Messages of the client come on standard input and go to standard output, or over HTTP with --listen. The server is a
child of this process, or reached with --url. Only calls of tools are looked at.

Exit codes:
  0    the client has closed its end
  1    a file has problems, the server does not start, or the session cannot be written
  2    the command was not understood, or an input cannot be read
  130  cancelled")]
pub(crate) struct McpArgs {
    /// An agent file: its MCP servers are one server to the client, under its policy. It needs no models.
    #[arg(value_name = "FILE", group = "files", conflicts_with_all = ["name", "url", "command"])]
    file: Option<PathBuf>,
    /// The policy files, the later ones above the earlier ones; the built-in policy alone without any.
    #[arg(long, value_name = "FILE", group = "files")]
    policy: Vec<PathBuf>,
    /// The profile of the policy that is chosen.
    #[arg(long, value_name = "NAME")]
    profile: Option<String>,
    /// The name of the server. With it the policy knows the tools as `NAME__tool`, without it by the server's names.
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Writes a session into that folder, for `replay` and `sessions`.
    #[arg(long, value_name = "DIR")]
    sessions: Option<PathBuf>,
    /// Who agrees where the policy wants a person to.
    #[arg(long, value_name = "WHO", value_enum, default_value_t)]
    approve: ApproveMode,
    /// Looks at the policy files before every call: what has changed in them holds at once.
    #[arg(long, requires = "files")]
    reload: bool,
    /// Serves clients over HTTP at that address, each with a session and a server of its own: `127.0.0.1:8788`.
    #[arg(long, value_name = "ADDR", value_parser = metrics::address)]
    listen: Option<SocketAddr>,
    /// The variable of the environment that holds the key that these clients send. Beyond this machine it takes one.
    #[arg(long, value_name = "VARIABLE", requires = "listen")]
    key: Option<String>,
    /// The file of a certificate, and of those of its issuers, that these clients are served with over TLS. A renewed one is taken.
    #[arg(long, value_name = "FILE", requires_all = ["listen", "tls_key"])]
    tls_certificate: Option<PathBuf>,
    /// The file of its private key.
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    tls_key: Option<PathBuf>,
    /// Serves the metrics to Prometheus: `127.0.0.1:9464`.
    #[arg(long, value_name = "ADDR", value_parser = metrics::address)]
    metrics_addr: Option<SocketAddr>,
    /// Where the server is, if it is reached over HTTP.
    #[arg(long, value_name = "URL", conflicts_with = "command")]
    url: Option<String>,
    /// A header of the requests to it: `NAME=VALUE`. `{VARIABLE}` in the value stands for that variable of the environment.
    #[arg(long, value_name = "NAME=VALUE")]
    header: Vec<String>,
    /// Prints a policy to begin with, and how clients are configured, and ends.
    #[arg(long, conflicts_with_all = ["files", "name", "sessions", "reload", "metrics_addr", "listen", "url", "command"])]
    example: bool,
    /// The command of the server, and its arguments.
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// Who agrees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum ApproveMode {
    /// The person at the client, whom it asks by elicitation; if it cannot, the call is refused.
    #[default]
    Ask,
    /// Every call may run.
    Yes,
    /// None may.
    No,
}

pub(crate) fn run(args: &McpArgs, settings: &CliSettings) -> Result<ExitStatus, CommandFailure> {
    if args.example {
        out::raw(include_str!("example.txt"))?;
        return Ok(ExitStatus::Clean);
    }
    if args.command.is_empty() && args.url.is_none() && args.file.is_none() {
        return Err(CommandFailure::Usage(
            "name the server: its command after `--`, its address with --url, or an agent FILE".into(),
        ));
    }
    if args.url.is_none() && !args.header.is_empty() {
        return Err(CommandFailure::Usage(
            "--header: a server that is a command has no headers; name it with --url".into(),
        ));
    }
    // What a client shows of a server is its standard error: what goes wrong is written there without being asked for.
    let log = if settings.log.is_empty() { RELAY_LOG.to_owned() } else { settings.log.clone() };
    let export = super::logs::start_exporting(&CliSettings { log, ..settings.clone() })?;
    let loader = named::chosen(args.profile.as_deref(), settings);
    let ServedFile { policy, paths, servers, agent } = if let Some(path) = &args.file {
        ServedFile::read(path, &loader)?
    } else {
        let (policy, _) = policies::load(&args.policy, &loader)?;
        ServedFile { policy, paths: args.policy.clone(), servers: vec![server(args)?], agent: None }
    };
    if let Some(warnings) = policy.warnings() {
        out::say(&format!("{warnings}\n"));
    }
    let store = match &args.sessions {
        Some(dir) => Some(SessionPlace::named(Some(dir), None, settings)?.open(FsyncMode::Turn)?),
        None => None,
    };
    let watched = (args.reload && !paths.is_empty()).then(|| PolicyWatch::load(loader, &paths));
    let watched = watched.transpose().map_err(|error| CommandFailure::Stopped(error.to_string()))?;
    let watched = watched.map(|watch| Arc::new(Mutex::new(watch)));
    let metrics = Arc::new(Metrics::new());
    let maker = RelayMaker { servers, approve: args.approve.into(), policy, watched, metrics, store, agent };
    // Dropped after the runtime: the store has one of its own.
    runtime::block_on(async {
        let counted = Arc::clone(&maker.metrics);
        export.metrics(move || counted.snapshot());
        let ended = serve(args, maker.clone()).await;
        export.end().await;
        ended
    })
}

impl From<ApproveMode> for RelayApproval {
    fn from(mode: ApproveMode) -> Self {
        match mode {
            ApproveMode::Ask => Self::Ask,
            ApproveMode::Yes => Self::Yes,
            ApproveMode::No => Self::No,
        }
    }
}

/// The server, and what the policy knows its tools by.
fn server(args: &McpArgs) -> Result<McpConfig, CommandFailure> {
    let (named, reach) = match &args.url {
        Some(url) => (host(url)?, McpReach::Http { url: url.clone(), headers: headers(&args.header)? }),
        None => (args.command.first().cloned().unwrap_or_default(), child(args)),
    };
    let prefix = args.name.as_ref().map(|name| format!("{name}__")).unwrap_or_default();
    Ok(McpConfig::new(args.name.clone().unwrap_or(named), reach).prefix(prefix))
}

/// What a server is called that is reached over HTTP.
fn host(url: &str) -> Result<String, CommandFailure> {
    let parsed = reqwest::Url::parse(url).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
    let host = parsed.and_then(|url| url.host_str().map(str::to_owned));
    host.ok_or_else(|| {
        CommandFailure::Usage("--url: write an address such as https://example.org/mcp".into())
    })
}

/// It sees the whole environment: the client has made it for the server.
fn child(args: &McpArgs) -> McpReach {
    let pass_env = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    McpReach::Process {
        command: args.command.clone(),
        working_dir: None,
        pass_env: pass_env.collect(),
        env: BTreeMap::new(),
    }
}

/// The headers, with the variables of the environment in their places.
fn headers(written: &[String]) -> Result<Vec<(String, SecretString)>, CommandFailure> {
    let header = |written: &String| {
        let (name, value) =
            written.split_once('=').filter(|(name, _)| !name.trim().is_empty()).ok_or_else(|| {
                CommandFailure::Usage(
                    "--header: write NAME=VALUE, such as 'Authorization=Bearer {TOKEN}'".to_owned(),
                )
            })?;
        Ok((name.trim().to_owned(), SecretString::from(filled(&format!("--header {}", name.trim()), value)?)))
    };
    written.iter().map(header).collect()
}

/// A text with the variables of the environment in their places. `name` is the option that it is of.
fn filled(name: &str, value: &str) -> Result<String, CommandFailure> {
    let (mut text, mut rest) = (String::new(), value);
    while let Some((before, behind)) = rest.split_once('{') {
        let Some((variable, after)) = behind.split_once('}') else { break };
        let found = std::env::var(variable).ok().filter(|found| !found.is_empty());
        let found = found.ok_or_else(|| {
            CommandFailure::Usage(format!("{name}: the environment has no text in `{variable}`"))
        })?;
        text.push_str(before);
        text.push_str(&found);
        rest = after;
    }
    text.push_str(rest);
    Ok(text)
}

async fn serve(args: &McpArgs, maker: RelayMaker) -> Result<ExitStatus, CommandFailure> {
    let signals = StopSignals::listen();
    let metrics = match args.metrics_addr {
        Some(address) => Some(MetricsServer::start(address, Arc::clone(&maker.metrics)).await?),
        None => None,
    };
    if let Some(metrics) = &metrics {
        out::say(&format!("metrics  {}\n", metrics.url()));
    }
    match args.listen {
        Some(address) => serve_http(args, address, maker, signals).await,
        None => serve_one(&maker, signals).await,
    }
}

/// Serves the client at standard input and output.
async fn serve_one(maker: &RelayMaker, mut signals: StopSignals) -> Result<ExitStatus, CommandFailure> {
    let (relay, answers) = maker.relay().await?;
    let writing = streams::write(answers);
    let ended = signals
        .unless_heard(async {
            read(&relay, &writing).await?;
            tokio::select! {
                biased;
                () = writing.cancelled() => {}
                () = relay.finish(LAST_ANSWERS) => {}
            }
            Ok(())
        })
        .await;
    let written = relay.close().await.map_err(|error| CommandFailure::Stopped(error.to_string()));
    drop(relay);
    // A client that does not read is not waited for.
    let _ = tokio::time::timeout(PATIENCE, writing.cancelled()).await;
    ended.and(written).map(|()| ExitStatus::Clean)
}

/// Serves clients over HTTP until a signal comes.
async fn serve_http(
    args: &McpArgs,
    address: SocketAddr,
    maker: RelayMaker,
    mut signals: StopSignals,
) -> Result<ExitStatus, CommandFailure> {
    let key = args.key.as_ref().map(|variable| filled("--key", &format!("{{{variable}}}"))).transpose()?;
    let access = AccessRules::new(address, key.map(SecretString::from)).ok_or_else(|| {
        let message =
            "--listen: beyond this machine clients need a key; name the variable that holds it with --key";
        CommandFailure::Usage(message.to_owned())
    })?;
    let tls = certificate(args).transpose()?;
    let listener = http::bind("--listen", address)?;
    let address = listener.local_addr().map_err(|error| CommandFailure::io("cannot serve clients", error))?;
    out::say(&format!("listens  {}\n", listen::url(address, tls.is_some())));
    let stop = CancellationToken::new();
    let stopping = stop.clone();
    let mut serving = pin!(async {
        listen::serve(maker, access, listener, tls, stopping).await;
        Ok(())
    });
    let heard = signals.unless_heard(serving.as_mut()).await;
    if matches!(heard, Err(CommandFailure::Cancelled)) {
        stop.cancel();
        serving.await?;
    }
    heard.map(|()| ExitStatus::Clean)
}

/// What the connections of clients are secured with; `None`: they are not.
fn certificate(args: &McpArgs) -> Option<Result<Arc<TlsServer>, CommandFailure>> {
    let (certificate, key) = args.tls_certificate.clone().zip(args.tls_key.clone())?;
    let opened = CertificateWatch::open(CertificateFiles { certificate, key }).map_err(|error| {
        let option = if error.is_of_key() { "--tls-key" } else { "--tls-certificate" };
        CommandFailure::Usage(format!("{option}: {error}"))
    });
    // It renews the certificate as long as the program runs.
    Some(opened.and_then(http::secured).map(|(tls, _)| tls))
}

/// Takes the lines of the client until it closes its end, or does not read any more.
async fn read(relay: &McpRelay, writing: &CancellationToken) -> Result<(), CommandFailure> {
    let mut lines = streams::read();
    loop {
        let line = tokio::select! {
            biased;
            () = writing.cancelled() => return Ok(()),
            line = lines.recv() => line,
        };
        match line {
            None => return Ok(()),
            Some(Err(error)) => return Err(CommandFailure::io("cannot read standard input", error)),
            Some(Ok(InputLine::TooLong(beginning))) => {
                relay.refuse_long(&beginning, lines::MOST_OF_HELLO).await;
            }
            Some(Ok(InputLine::Whole(line))) => relay.take(&String::from_utf8_lossy(&line)).await,
        }
    }
}
