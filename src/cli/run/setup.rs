//! From an agent file to a run: the agent, and its session.

use std::path::Path;
use std::sync::Arc;

use crate::host::agent_file::{AgentFileError, AgentWarning, FileAgent, NamedAgent, StartOptions};
use crate::host::{SessionCheckpoint, SharedState};
use crate::policy::Loader;
use crate::store::{FsyncMode, ResumedSession, SessionId, SessionLog, StoreError};
use tracing::Instrument;

use crate::cli::exit::CommandFailure;
use crate::cli::policies::reported;
use crate::cli::sessions::{self, FoundSession};
use crate::cli::settings::CliSettings;
use crate::cli::{files, named, out};

use super::issues;

/// What is said where nobody is there to share with.
const ALONE: &str = "note     the policy shares breakers or budgets between hosts (scope: shared), which takes sessions in \
                     PostgreSQL; this session counts by itself\n";

/// An agent that can run.
pub(crate) struct AgentSetup {
    pub(crate) agent: FileAgent,
    pub(crate) id: SessionId,
    pub(crate) session: Box<dyn SessionLog>,
    /// Where the session stood, if it continues.
    pub(crate) past: Option<SessionCheckpoint>,
}

/// What the command line says about the run.
#[derive(Clone)]
pub(crate) struct RunWishes {
    /// There is a task.
    pub(crate) has_task: bool,
    /// The policy's files are looked at before every turn.
    pub(crate) reload: bool,
    /// The session that continues.
    pub(crate) resume: Option<FoundSession>,
}

impl AgentSetup {
    /// Reads the agent file and everything it names, checks it all, starts the agent, and begins the session. Nothing is
    /// started before everything is checked.
    pub(crate) async fn load(
        path: &Path,
        loader: &Loader,
        settings: &CliSettings,
        RunWishes { has_task, reload, resume }: RunWishes,
    ) -> Result<Self, CommandFailure> {
        let named = read(path, loader)?;
        let folder = path.parent().unwrap_or(Path::new(""));
        let resumes = resume.is_some();
        let mut checked = named.check().map_err(|report| reported(&[report]))?;
        tell(&std::mem::take(&mut checked.warnings), resumes);
        if !has_task && checked.file().task.is_none() && !resumes {
            let message = "there is nothing to do: give --task, or write `task:` into the agent file";
            return Err(CommandFailure::Usage(message.into()));
        }
        let place = match &resume {
            Some(found) => found.place.clone(),
            None => sessions::of_run(settings, Some((checked.file(), folder)))?,
        };
        let id = resume.map_or_else(SessionId::generate, |found| found.id);
        // What the servers log belongs to the run they answer.
        let span = tracing::info_span!("run", correlation_id = %id);
        let options = StartOptions::new().reload(reload).redact(place.secrets());
        let started = checked.start(options).instrument(span).await;
        tell(started.as_ref().map_or(&checked.warnings, |started| &started.warnings), resumes);
        let mut agent = started.map_err(refused)?;
        let opened = place.open(FsyncMode::of_agent(&agent))?;
        let store = opened.store();
        let (session, past) = if resumes {
            let interpreter = agent.agent.interpreter().map_err(stopped)?;
            let ResumedSession { past, log, .. } =
                crate::store::resume(store, &id, &interpreter).await.map_err(stopped)?;
            (log, Some(past))
        } else {
            let header = agent.log_header(id.as_str());
            (store.create(&id, &header).await.map_err(|error| not_kept(&error))?, None)
        };
        agent.agent = agent.agent.results(place.results(&id));
        Ok(Self { agent: share(agent, store.shared_state())?, id, session, past })
    }
}

/// Reads the agent file and everything it names.
fn read(path: &Path, loader: &Loader) -> Result<NamedAgent, CommandFailure> {
    let bytes = files::read(path)?;
    let (named, reports) = NamedAgent::read(path, &bytes, loader);
    if named.is_none() {
        named::is_agent(path, &bytes, "run")?;
    }
    named.ok_or_else(|| reported(&named::once(reports)))
}

/// Says what may be a mistake. In a run that continues the first turn is over.
fn tell(warnings: &[AgentWarning], resumes: bool) {
    for warning in warnings {
        match warning {
            AgentWarning::Report(report) => out::say(&format!("{report}\n")),
            AgentWarning::ShortBudget(_) if resumes => {}
            AgentWarning::ServerTools { server, issues } => issues::tell(&issues::of(server, issues)),
            _ => out::say(&format!("warning  {warning}\n")),
        }
    }
}

/// Says why the agent was not started.
fn refused(error: AgentFileError) -> CommandFailure {
    match error {
        AgentFileError::Mistakes(reports) => reported(&named::once(reports)),
        AgentFileError::Servers(failed) => {
            for error in &failed {
                out::tell(error);
            }
            CommandFailure::Report(String::new())
        }
        error => stopped(error),
    }
}

/// Has the agent share what the policy says, or says that nobody is there to share with.
fn share(mut agent: FileAgent, shared: Option<Arc<dyn SharedState>>) -> Result<FileAgent, CommandFailure> {
    if let Some(shared) = shared {
        agent.agent = agent.agent.shared(shared);
        return Ok(agent);
    }
    let targets: Vec<String> = agent.file().models.keys().cloned().collect();
    if agent.agent.interpreter().map_err(stopped)?.shares(&targets) {
        out::say(ALONE);
    }
    Ok(agent)
}

fn stopped(error: impl std::fmt::Display) -> CommandFailure {
    CommandFailure::Stopped(error.to_string())
}

/// A session that cannot begin. Whoever cannot write there keeps sessions elsewhere.
fn not_kept(error: &StoreError) -> CommandFailure {
    let help = match error {
        StoreError::Io { .. } => {
            "; keep sessions in another folder: name it in UNFAZED_SESSIONS, in `sessions` of the settings file, or in \
             `session.dir` of the agent file"
        }
        _ => "",
    };
    CommandFailure::Stopped(format!("{error}{help}"))
}
