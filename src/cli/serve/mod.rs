//! `unfazed serve`: a gateway for clients of models.

mod access;
mod budgets;
mod demo;
mod entry;
mod page;
mod server;
mod sharing;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom, SystemRandom};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use self::access::AccessRules;
use self::budgets::{BudgetKeeper, SpentPlace};
use self::entry::GatewayEntry;
use self::server::GatewayServer;
use self::sharing::MeetingPlace;
use super::exit::{CommandFailure, ExitStatus};
use super::http::TlsServer;
use super::logs::Export;
use super::look::look_again;
use super::policies::reported;
use super::run::signals::StopSignals;
use super::settings::CliSettings;
use super::{files, http, named, out, policies, runtime, sessions};
use crate::host::agent_file::{
    AgentFileError, AgentServers, FileGateway, GatewayFileError, GatewayWatch, LimitedKeys, NamedAgent,
};
use crate::policy::Loader;

/// What the keys begin with that are made here, so that scanners of secrets can find them.
const PREFIX: &str = "ufz-";
/// How many random bytes there are in one.
const RANDOM: usize = 32;
/// How long the requests that a stop cuts off may take to say so.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// What is said beyond this machine where nothing secures the connections.
const NO_TLS: &str = "note: keys and conversations pass this address unencrypted; write `tls` into the file, or let a proxy with TLS stand before it\n";
const NO_KEYS: &str = "--addr: beyond this machine clients need keys; write them under `keys`, as `unfazed serve --hash-key` makes them";

const OPEN_NOW: &str =
    "warning: the file has no `keys` any more; whoever reaches this machine's address may use all routes\n";

/// Serves models under a policy to any SDK: set its base URL to the address of this gateway
#[derive(clap::Args)]
#[command(after_help = "Examples:
  unfazed serve --demo                                # a look at it: scripted models that fail
  unfazed serve gateway.yaml                          # at http://127.0.0.1:8787, with a live page
  unfazed serve gateway.yaml --addr 0.0.0.0:8787      # other machines: the file needs `keys`
  unfazed serve gateway.yaml --reload                 # takes edits of the policy and of keys
  unfazed serve --hash-key                            # makes a key for a client

  OPENAI_BASE_URL=http://127.0.0.1:8787/v1 OPENAI_API_KEY=ufz-... python app.py
  ANTHROPIC_BASE_URL=http://127.0.0.1:8787 ANTHROPIC_API_KEY=ufz-... python app.py

The file is an agent file with `models`, `policy`, `routes`, `keys` and `tls`. Clients speak Chat Completions or Responses of
OpenAI, Messages of Anthropic, or Gemini's dialect, and are converted for models that speak another one.

Exit codes:
  0    stopped by a signal, after the requests in flight or `stop.drain`
  1    a file has problems, or a key or a model cannot be used
  2    the command was not understood, or an input cannot be read
  130  stopped by a second signal")]
pub(crate) struct ServeArgs {
    /// The file of models, routes and keys.
    #[arg(value_name = "FILE", required_unless_present_any = ["hash_key", "demo"])]
    file: Option<PathBuf>,
    /// The address that clients are served at; port 0 is any free one.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8787", value_parser = http::address)]
    addr: SocketAddr,
    /// The profile of the policy that is chosen.
    #[arg(long, value_name = "NAME")]
    profile: Option<String>,
    /// Looks every second whether the file or its policies have changed; requests in flight keep what they began with.
    #[arg(long)]
    reload: bool,
    /// Serves scripted models that fail now and then, and asks them all the time: needs no file, no key and no network.
    #[arg(long, conflicts_with_all = ["file", "profile", "reload"])]
    demo: bool,
    /// Makes a key for a client, prints it with its hash, and ends.
    #[arg(long, conflicts_with_all = ["file", "addr", "profile", "reload", "demo"])]
    hash_key: bool,
}

pub(crate) fn run(args: &ServeArgs, settings: &CliSettings) -> Result<ExitStatus, CommandFailure> {
    if args.hash_key {
        return make_key();
    }
    let export = super::logs::start_exporting(settings)?;
    let Some(path) = &args.file else { return runtime::block_on(serve_demo(args.addr, export)) };
    let loader = named::chosen(args.profile.as_deref(), settings);
    let named = read(path, &loader)?;
    let dir = settings.sessions.as_deref().unwrap_or(Path::new(&named.file.value.session.dir));
    let spent = budgets::path(dir, path);
    let folder = path.parent().unwrap_or(Path::new(""));
    let place = sessions::of_run(settings, Some((&named.file.value, folder)))?;
    runtime::block_on(async {
        let mut signals = StopSignals::listen();
        let mut made = named.gateway().await.map_err(failed)?;
        let meeting = MeetingPlace::find(&place, path).await?;
        let spent = if meeting.is_some() { SpentPlace::Shared(spent) } else { SpentPlace::Own(spent) };
        if let Some(meeting) = meeting {
            made.gateway = meeting.join(made.gateway);
        }
        let service = Service::open(made, Some(spent), args.addr, args.reload)?;
        service.run(&mut signals, export).await
    })
}

/// Serves the demo, and asks it.
async fn serve_demo(address: SocketAddr, export: Export) -> Result<ExitStatus, CommandFailure> {
    let mut signals = StopSignals::listen();
    if !address.ip().is_loopback() {
        return Err(CommandFailure::Usage("--addr: the demo serves this machine alone".to_owned()));
    }
    let service = Service::open(demo::gateway().await?, None, address, false)?;
    let url = format!("http://{}", service.bound);
    out::say(&format!("look    {url}/ shows what it does; Ctrl-C ends it\n"));
    let asking = tokio::spawn(demo::ask(url));
    let ended = service.run(&mut signals, export).await;
    asking.abort();
    ended
}

/// Reads the file.
fn read(path: &Path, loader: &Loader) -> Result<NamedAgent, CommandFailure> {
    let bytes = files::read(path)?;
    let (named, reports) = NamedAgent::read(path, &bytes, loader);
    if named.is_none() {
        named::is_agent(path, &bytes, "serve")?;
    }
    let reports = named::once(reports);
    let Some(named) = named else { return Err(reported(&reports)) };
    policies::say(&reports);
    if named.file.value.routes.is_empty() {
        let shown = path.display();
        let message = format!("{shown} has no route; write the names that clients ask for under `routes`");
        return Err(CommandFailure::Usage(message));
    }
    Ok(named)
}

/// A gateway that clients can reach.
struct Service {
    bound: SocketAddr,
    listener: TcpListener,
    tls: Option<Arc<TlsServer>>,
    server: Arc<GatewayServer>,
    servers: AgentServers,
    stop: CancellationToken,
    drain: Duration,
    keeper: Arc<BudgetKeeper>,
    /// Writes what keys spend, and takes renewed certificates, and edits, if that is wanted.
    tasks: Vec<JoinHandle<()>>,
}

impl Service {
    /// `spent`: the file in which is kept what keys spend; `None`: it is kept nowhere.
    fn open(
        made: FileGateway,
        spent: Option<SpentPlace>,
        address: SocketAddr,
        reload: bool,
    ) -> Result<Self, CommandFailure> {
        let FileGateway { gateway, keys, drain, tls, servers, watch } = made;
        let access =
            AccessRules::new(address, &keys.keys).ok_or_else(|| CommandFailure::Usage(NO_KEYS.to_owned()))?;
        let gateway = Arc::new(gateway);
        let keeper = Arc::new(BudgetKeeper::new(Arc::clone(&gateway), spent));
        keeper.take(&keys).map_err(|error| CommandFailure::Report(error.to_string()))?;
        http::raise_open_files();
        let tls = tls.map(http::secured).transpose()?;
        let listener = http::bind("--addr", address)?;
        let bound =
            listener.local_addr().map_err(|error| CommandFailure::io("cannot serve clients", error))?;
        if tls.is_none() && !access.is_loopback() {
            out::say(NO_TLS);
        }
        out::say(&format!("serves  {}://{bound}\n", http::scheme(tls.is_some())));
        let stop = CancellationToken::new();
        let shared = Arc::clone(&gateway).keep_shared();
        let server = Arc::new(GatewayServer::new(gateway, access, stop.clone()));
        let watch = watch.filter(|_| reload);
        let edits = |watch| take_edits(watch, Arc::clone(&server), Arc::clone(&keeper), address);
        let edits = watch.map(|watch| tokio::spawn(edits(watch)));
        let (tls, renewed) = tls.unzip();
        let kept = [tokio::spawn(Arc::clone(&keeper).keep()), tokio::spawn(shared)];
        let tasks = edits.into_iter().chain(renewed).chain(kept).collect();
        Ok(Self { bound, listener, tls, server, servers, stop, drain, keeper, tasks })
    }

    /// Serves until a signal ends it.
    async fn run(self, signals: &mut StopSignals, export: Export) -> Result<ExitStatus, CommandFailure> {
        let Self { listener, tls, server, servers, stop, drain, keeper, tasks, .. } = self;
        let counted = Arc::clone(&server);
        export.metrics(move || counted.metrics());
        let entry = GatewayEntry::new(Arc::clone(&server));
        let mut serving = pin!(async {
            let all = drain.saturating_add(LAST_WORDS);
            let mut ending = pin!(http::serve(listener, tls, entry, stop.clone(), all));
            tokio::select! {
                () = &mut ending => {}
                () = cut_off(&server, &stop, drain) => ending.await,
            }
            Ok(())
        });
        let mut ended = signals.unless_heard(serving.as_mut()).await;
        if ended.is_err() {
            stop.cancel();
            ended = signals.unless_heard(serving).await;
        }
        tasks.iter().for_each(JoinHandle::abort);
        // What the others cannot be told is written.
        keeper.tell().await;
        keeper.write();
        export.end().await;
        ended?;
        servers.shutdown().await;
        Ok(ExitStatus::Clean)
    }
}

/// Cuts off the requests that are in flight at the end of the stop, and says how many.
async fn cut_off(server: &GatewayServer, stop: &CancellationToken, drain: Duration) {
    stop.cancelled().await;
    tokio::time::sleep(drain).await;
    match server.cut_off() {
        0 => {}
        cut => out::say(&format!("warning: `stop.drain` is over; requests that were cut off: {cut}\n")),
    }
}

/// Takes edits of the file and of its policies, as long as it is polled.
async fn take_edits(
    watch: GatewayWatch,
    server: Arc<GatewayServer>,
    keeper: Arc<BudgetKeeper>,
    address: SocketAddr,
) {
    let take = |found: Result<LimitedKeys, GatewayFileError>| match found {
        Ok(keys) => {
            let access = AccessRules::new(address, &keys.keys).ok_or_else(|| NO_KEYS.to_owned());
            let taken = access
                .and_then(|access| keeper.take(&keys).map(|()| access).map_err(|error| error.to_string()));
            match taken {
                Ok(access) => {
                    let takes_all = server.set_access(access);
                    if takes_all {
                        out::say(OPEN_NOW);
                    }
                    out::say(
                        "note: the policy and the keys are read again; models, routes and `tls` are at the next start\n",
                    );
                }
                Err(why) => out::say(&format!("warning: the keys before stay: {why}\n")),
            }
        }
        Err(error) => {
            let error = failed(error).to_string();
            let why = if error.is_empty() { String::new() } else { format!(": {error}") };
            out::say(&format!("warning: the policy and the keys before stay{why}\n"));
        }
    };
    look_again(watch, GatewayWatch::poll, take).await;
}

fn failed(error: GatewayFileError) -> CommandFailure {
    match error {
        GatewayFileError::File(AgentFileError::Mistakes(reports)) => reported(&named::once(reports)),
        error => CommandFailure::Report(error.to_string()),
    }
}

/// Makes a key, and prints it with its hash.
fn make_key() -> Result<ExitStatus, CommandFailure> {
    let mut random = [0; RANDOM];
    let filled = SystemRandom::new().fill(&mut random);
    filled.map_err(|_| CommandFailure::Report("the system has no random bytes for a key".into()))?;
    let key = format!("{PREFIX}{}", hex(&random));
    let hash = hex(digest(&SHA256, key.as_bytes()).as_ref());
    out::raw(&format!("key     {key}\nsha256  {hash}\n"))?;
    Ok(ExitStatus::Clean)
}

fn hex(bytes: &[u8]) -> String {
    let digit = |half: u8| char::from_digit(u32::from(half), 16).unwrap_or_default();
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 0xf)]).collect()
}
