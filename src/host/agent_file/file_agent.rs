//! An agent of a file that can run, with what was started for it.

use std::fmt;
use std::path::{Path, PathBuf};

use secrecy::SecretString;

use super::AgentFile;
use super::check::AgentWarning;
use super::secrets::SecretError;
use super::servers::AgentServers;
use crate::engine::LogHeader;
use crate::host::{Agent, Clock, RunError, RunReport, RunTask, new_uuid};

/// An agent of a file, ready to run. Dropping it kills what was started for it; [`FileAgent::shutdown`] gives that time to end.
///
/// It writes no session. Add a recorder, where the file says that sessions are kept:
///
/// ```no_run
/// use unfazed::Agent;
/// use unfazed::host::{NoopObserver, RunTask, StopSwitch};
/// use unfazed::store::{FsyncMode, JsonlStore, Recorder, SessionId, Store};
///
/// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
/// let started = Agent::from_file("agent.yaml").await?;
/// let store = JsonlStore::new(started.session_dir(), FsyncMode::of_agent(&started));
/// let id = SessionId::generate();
/// let log = store.create(&id, &started.log_header(id.as_str())).await?;
/// let mut recorder = Recorder::new(log).await;
/// let task = RunTask { run: id.to_string(), ..started.task() };
/// let report = started.agent.run_with(task, &mut NoopObserver, Some(&mut recorder), StopSwitch::new()).await;
/// recorder.close().await;
/// started.shutdown().await;
/// println!("{:?}", report?.outcome);
/// # Ok(())
/// # }
/// ```
#[non_exhaustive]
pub struct FileAgent {
    /// The agent. What a host adds to it, such as an approver, is added here.
    pub agent: Agent,
    /// What was started for it.
    pub(crate) servers: AgentServers,
    /// What may be a mistake.
    pub warnings: Vec<AgentWarning>,
    pub(super) file: AgentFile,
    pub(super) path: PathBuf,
}

/// Where its file is, its agent and what was started; the file may have what nobody is to see.
impl fmt::Debug for FileAgent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("FileAgent");
        shown.field("path", &self.path).field("agent", &self.agent).field("servers", &self.servers);
        shown.finish_non_exhaustive()
    }
}

impl FileAgent {
    /// The agent file.
    pub(crate) const fn file(&self) -> &AgentFile {
        &self.file
    }

    /// The folder of the sessions, as `session.dir` says; it starts at the folder the program runs in.
    pub fn session_dir(&self) -> &Path {
        Path::new(&self.file.session.dir)
    }

    /// The address of the database that keeps the sessions instead, where `session.url` names one.
    ///
    /// # Errors
    /// There is no address where the file says it is.
    pub fn session_url(&self) -> Result<Option<SecretString>, SecretError> {
        let folder = self.path.parent().unwrap_or(Path::new(""));
        self.file
            .session
            .url
            .as_ref()
            .map_or(Ok(None), |url| url.secret("the address of the database", folder))
    }

    /// What the file says the agent is to do, as a run of its own. Without a `task` in the file, the task is empty.
    pub fn task(&self) -> RunTask {
        RunTask {
            run: new_uuid().to_string(),
            system: self.file.system.clone(),
            task: self.file.task.as_ref().map(|task| task.value.clone()).unwrap_or_default(),
            seed: self.file.seed,
            ..RunTask::default()
        }
    }

    /// Runs the agent to its end, telling nobody and writing nothing down.
    ///
    /// # Errors
    /// See [`Agent::run_with`]; and a file without a task.
    pub async fn run(&self) -> Result<RunReport, RunError> {
        if self.file.task.is_none() {
            return Err(RunError::NoTask);
        }
        self.agent.run(self.task()).await
    }

    /// As [`FileAgent::run`], with another task than that of the file.
    ///
    /// # Errors
    /// See [`Agent::run_with`].
    pub async fn run_task(&self, task: impl Into<String>) -> Result<RunReport, RunError> {
        self.agent.run(RunTask { task: task.into(), ..self.task() }).await
    }

    /// The first record of a session that begins now, for [`Store::create`](crate::store::Store::create): by it `unfazed run
    /// --resume` finds the agent again.
    pub fn log_header(&self, run: impl Into<String>) -> LogHeader {
        let policy = self.agent.policy();
        let facts = self.file.facts(&self.path, &policy);
        LogHeader::new(run, policy.digest(), Clock::system().now()).of_agent(facts)
    }

    /// Ends what was started for the agent.
    pub async fn shutdown(self) {
        self.servers.shutdown().await;
    }
}
