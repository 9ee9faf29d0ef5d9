//! What is to be run: an agent file, or a session that continues.

use std::path::{Path, PathBuf};

use super::RunArgs;
use crate::cli::exit::CommandFailure;
use crate::cli::sessions::{FoundSession, to_go_on};
use crate::cli::settings::CliSettings;
use crate::cli::{files, named};

/// What the command line asks for.
pub(super) enum RequestedRun {
    /// A run.
    Run(RunRequest),
    /// What the last run of a session came to.
    Outcome(FoundSession),
}

/// What is to be run.
pub(super) struct RunRequest {
    /// The agent file.
    pub(super) agent: PathBuf,
    /// What the agent is to do, if the command line says.
    pub(super) task: Option<String>,
    /// The profile of its policy.
    pub(super) profile: Option<String>,
    /// The session that continues.
    pub(super) resume: Option<FoundSession>,
}

/// The path as it is named in this folder: so the files of the policy have the names they had.
fn from_here(path: &Path) -> PathBuf {
    let here = std::env::current_dir().unwrap_or_default();
    path.strip_prefix(here).unwrap_or(path).to_path_buf()
}

/// Refuses an agent file where a task is expected: it would become the next message of the session.
fn is_no_agent(said: &str, wanted: &str) -> Result<(), CommandFailure> {
    if !files::is_meant(said) {
        return Ok(());
    }
    let path = Path::new(said);
    let is_agent = files::bytes(path).is_ok_and(|bytes| named::other_kind(path, &bytes).is_none());
    if !is_agent || std::fs::metadata(path).is_ok_and(|found| found.len() == 0) {
        return Ok(());
    }
    Err(CommandFailure::Usage(format!(
        "`{said}` is an agent file, and --resume takes a task there; to continue with that agent: unfazed run --resume {wanted} \
         --agent {said}"
    )))
}

/// Reads what the command line asks for.
pub(super) fn of(args: &RunArgs, settings: &CliSettings) -> Result<RequestedRun, CommandFailure> {
    if args.task.as_ref().or(args.question.as_ref()).is_some_and(|task| task.trim().is_empty()) {
        return Err(CommandFailure::Usage(
            "the task is empty: say what is to be done, or leave it out".into(),
        ));
    }
    let profile = args.profile.clone().or_else(|| settings.profile.clone());
    let Some(wanted) = &args.resume else {
        let agent = args.what.clone().unwrap_or_default().into();
        let task = args.task.clone().or_else(|| args.question.clone());
        return Ok(RequestedRun::Run(RunRequest { agent, task, profile, resume: None }));
    };
    let said = args.what.as_ref().map(|task| task.to_string_lossy().into_owned());
    if let Some(said) = &said {
        is_no_agent(said, wanted)?;
    }
    let task = match (said, &args.task) {
        (Some(_), Some(_)) => {
            return Err(CommandFailure::Usage(
                "there are two tasks: give one, with --task or without".into(),
            ));
        }
        (said, task) => said.or_else(|| task.clone()),
    };
    if task.as_ref().is_some_and(|task| task.trim().is_empty()) {
        return Err(CommandFailure::Usage(
            "the task is empty: say what is to be done, or leave it out".into(),
        ));
    }
    if task.is_none() && !args.attached.is_empty() {
        return Err(CommandFailure::Usage("--attach comes with a task: say what is to be done next".into()));
    }
    let found = to_go_on(settings, args.agent_file.as_deref(), wanted, task.is_some())?;
    if found.is_over {
        return Ok(RequestedRun::Outcome(found));
    }
    let known = found.header.agent.as_ref();
    let agent = match (&args.agent_file, known) {
        (Some(file), _) => file.clone(),
        (None, Some(agent)) => from_here(Path::new(&agent.file)),
        (None, None) => {
            return Err(CommandFailure::Usage(format!(
                "session {} does not say which agent it is of; give --agent FILE",
                found.id
            )));
        }
    };
    let profile = profile.or_else(|| known.and_then(|agent| agent.profile.clone()));
    Ok(RequestedRun::Run(RunRequest { agent, task, profile, resume: Some(found) }))
}
