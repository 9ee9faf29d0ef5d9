//! Tools that are commands: arguments as JSON on standard input, the result on standard output.

mod argv;
mod background;
#[cfg(test)]
mod background_tests;
pub(super) mod capture;
pub(super) mod group;
mod look;
pub(super) mod output;
mod running;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::Value;
use tokio::process::Command;

pub use self::argv::Argument;
pub use self::background::Processes;
use self::group::Patience;
pub use self::look::PROCESS_TOOLS;
pub use self::output::OutputFormat;
#[cfg(feature = "mcp")]
pub(super) use self::running::forever;
use self::running::{Ended, Kept, Printed, Running, STDERR_BYTES};
use super::ToolError;
use crate::engine::{EffectState, RunFacts, ToolOutcome, ToolSpec};
use crate::host::{BoxFuture, Tool, ToolInput, file_error};
use crate::time::Nanos;

/// The variables of the host's environment a command sees unless told otherwise. Keys of providers are not
/// among them.
pub const DEFAULT_ENV: &[&str] =
    &["PATH", "HOME", "USER", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "SYSTEMROOT"];

/// A tool that is a command.
#[derive(Clone)]
pub struct ProcessConfig {
    /// How it is declared to the model.
    pub spec: ToolSpec,
    /// The command and its arguments. No shell reads them.
    pub command: Vec<String>,
    /// More arguments, made of those of the call.
    pub arguments: Vec<Argument>,
    /// What it gets on standard input; `None`: the arguments of the call as JSON, unless there are templates of
    /// arguments.
    pub stdin: Option<Stdin>,
    /// Where it runs; `None`: where the host runs.
    pub working_dir: Option<PathBuf>,
    /// The variables of the host's environment it sees; see [`DEFAULT_ENV`].
    pub pass_env: Vec<String>,
    /// More variables. Their values are never shown.
    pub env: BTreeMap<String, String>,
    /// What standard output holds.
    pub output: OutputFormat,
    /// The most bytes of standard output that are kept: the first ones.
    pub max_output: usize,
    /// How long its processes have, once told to end, before they are killed.
    pub grace: Nanos,
    /// How long processes that outlive the command have to write out what they have; at most the grace.
    pub linger: Nanos,
    /// How long a run may take before [`on_timeout`](Self::on_timeout); `None`: as long as the policy allows.
    pub timeout: Option<Nanos>,
    /// What is done when the time is up.
    pub on_timeout: OnTimeout,
    /// Where commands go on whose time is up. `None`: they do not, but are killed.
    pub background: Option<Processes>,
    /// A command in the background is not ended with its run.
    pub keep: bool,
}

/// What a command gets on standard input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stdin {
    /// The arguments of the call as JSON.
    Json,
    /// Nothing.
    Nothing,
}

/// What is done with a command whose time is up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnTimeout {
    /// It is ended, with all its processes.
    #[default]
    Kill,
    /// It is waited for as long as the policy allows; the log tells that it takes long.
    Wait,
    /// It goes on, and the call is answered with its handle.
    Background,
}

/// Runs a command for each call. Every run has a process group of its own, and nothing of it outlives the run unless
/// it is told to go on in the background.
#[derive(Clone, Debug)]
pub struct ProcessTool {
    config: ProcessConfig,
}

impl ProcessConfig {
    /// `command` with the usual settings: output `auto`, at most 1 MiB of it, 2 s of grace, killed when its time is up.
    pub fn new<S: Into<String>>(spec: ToolSpec, command: impl IntoIterator<Item = S>) -> Self {
        Self {
            spec,
            command: command.into_iter().map(Into::into).collect(),
            working_dir: None,
            pass_env: DEFAULT_ENV.iter().map(ToString::to_string).collect(),
            env: BTreeMap::new(),
            output: OutputFormat::Auto,
            max_output: 1024 * 1024,
            grace: Nanos::from_secs(2),
            linger: Nanos::from_millis(250),
            timeout: None,
            on_timeout: OnTimeout::Kill,
            background: None,
            keep: false,
            arguments: Vec::new(),
            stdin: None,
        }
    }
}

impl ProcessTool {
    /// The tool. Whether the command exists is seen when it is run.
    pub fn new(config: ProcessConfig) -> Self {
        Self { config }
    }

    async fn run_once(&self, input: ToolInput<'_>, facts: &mut RunFacts) -> Result<Value, ToolError> {
        if input.cancel.is_cancelled() {
            let error = ToolError::cancelled(format!("{} was stopped before it began", self.shown()));
            return Err(error.effect(EffectState::NotStarted));
        }
        let child = self.command(&input)?.spawn().map_err(|error| self.not_started(&error))?;
        let kept = Kept {
            first: self.config.max_output,
            // Only who looks at it while it runs wants the end of what it printed.
            last: if self.background().is_some() { self.config.max_output } else { 0 },
        };
        let written = self.reads_json().then(|| input.arguments.to_string());
        let mut running = Running::new(child, written, kept, self.patience());
        facts.process_id = running.id().map(|id| id.to_string());
        let soft = self.config.timeout.filter(|own| input.timeout.is_none_or(|policy| *own < policy));
        let mut ended = running.ended(&input.cancel, soft.or(input.timeout)).await;
        if let Ended::Timeout(after) = ended {
            match (self.config.on_timeout, self.background()) {
                (OnTimeout::Wait, _) if soft.is_some() => {
                    let timeout_ms = after.0 / 1_000_000;
                    tracing::warn!(
                        tool = self.config.spec.name,
                        timeout_ms,
                        "a tool takes longer than its timeout"
                    );
                    let rest = input.timeout.map(|policy| policy.saturating_sub(after));
                    ended = match running.ended(&input.cancel, rest).await {
                        Ended::Timeout(_) => Ended::Timeout(input.timeout.unwrap_or_default()),
                        ended => ended,
                    };
                }
                (OnTimeout::Background, Some(processes)) => {
                    let (id, prints) = (running.id(), running.prints());
                    let (name, keep) = (&self.config.spec.name, self.config.keep);
                    match processes.adopt(running, name, &input.cancel, keep) {
                        Ok(handle) => return Ok(background::goes_on(&handle, id, &prints, after)),
                        Err(back) => running = *back,
                    }
                }
                _ => {}
            }
        }
        running.close(&ended).await;
        let prints = running.prints();
        let printed = prints.lock();
        self.outcome(ended, &printed)
    }

    /// Where its commands go on when their time is up.
    fn background(&self) -> Option<&Processes> {
        self.config.background.as_ref().filter(|_| self.config.on_timeout == OnTimeout::Background)
    }

    fn reads_json(&self) -> bool {
        match self.config.stdin {
            Some(stdin) => stdin == Stdin::Json,
            None => self.config.arguments.is_empty(),
        }
    }

    fn patience(&self) -> Patience {
        Patience { grace: self.config.grace.to_std(), linger: self.config.linger.to_std() }
    }

    fn command(&self, input: &ToolInput<'_>) -> Result<Command, ToolError> {
        let Some((program, arguments)) = self.config.command.split_first() else {
            let name = &self.config.spec.name;
            return Err(ToolError::unavailable(format!("tool `{name}` has no command to run; give it one")));
        };
        let mut command = Command::new(self.program(program));
        command.args(arguments).args(argv::fill(&self.config.arguments, input.arguments)?);
        if let Some(dir) = &self.config.working_dir {
            command.current_dir(dir);
        }
        command.env_clear();
        for name in &self.config.pass_env {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        command.envs(&self.config.env);
        command.env("UNFAZED_IDEMPOTENCY_KEY", input.idempotency_key);
        command.env("UNFAZED_ATTEMPT", input.attempt.to_string());
        command.stdin(if self.reads_json() { Stdio::piped() } else { Stdio::null() });
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        #[cfg(unix)]
        command.process_group(0);
        Ok(command)
    }

    /// A path with a folder in it is meant from the working directory, on every system.
    fn program(&self, program: &str) -> PathBuf {
        let path = Path::new(program);
        match &self.config.working_dir {
            Some(dir) if path.is_relative() && path.components().count() > 1 => {
                let path = dir.join(path);
                std::path::absolute(&path).unwrap_or(path)
            }
            _ => path.to_path_buf(),
        }
    }

    fn not_started(&self, error: &io::Error) -> ToolError {
        let command = self.shown();
        if let Some(dir) = &self.config.working_dir
            && !dir.is_dir()
        {
            let dir = dir.display();
            return ToolError::unavailable(format!("{command} cannot run: there is no folder `{dir}`"));
        }
        match error.kind() {
            io::ErrorKind::NotFound => ToolError::unavailable(self.not_found()),
            io::ErrorKind::PermissionDenied => ToolError::permission_denied(format!(
                "{command} may not be run: {error}; is it executable?",
                error = file_error(error)
            )),
            io::ErrorKind::ArgumentListTooLong => ToolError::invalid_args(
                "the arguments are longer than a command can be given; make them shorter",
            ),
            _ => ToolError::unavailable(format!("{command} could not be started: {}", file_error(error))),
        }
    }

    fn not_found(&self) -> String {
        let program = self.config.command.first().map(|program| self.program(program)).unwrap_or_default();
        let command = self.shown();
        if program.components().count() > 1 && program.exists() {
            return format!(
                "the command {command} cannot run: the interpreter in its first line was not found"
            );
        }
        if program.components().count() > 1 {
            return format!("the command {command} was not found; there is no such file");
        }
        format!("the command {command} was not found; is it installed, and in PATH?")
    }

    fn outcome(&self, ended: Ended, printed: &Printed) -> Result<Value, ToolError> {
        let command = self.shown();
        let said = match printed.complained.text() {
            text if text.is_empty() => printed.first.last(STDERR_BYTES),
            text => text,
        };
        let with = |what: String| if said.is_empty() { what } else { format!("{what}: {said}") };
        match ended {
            Ended::Exit(Ok(status)) if status.success() => {
                self.config.output.read(&printed.first).map_err(|why| {
                    ToolError::failed(format!("{command} did its work, but {why}"))
                        .effect(EffectState::Committed)
                })
            }
            Ended::Exit(Ok(status)) => Err(if let Some(code) = status.code() {
                ToolError::failed(with(format!("{command} exited with code {code}")))
            } else {
                let what = with(format!("{command} was killed by {}", group::signal_of(status)));
                ToolError::failed(what).effect(EffectState::Unknown)
            }),
            Ended::Exit(Err(error)) => {
                let what = format!("how {command} ended is not known: {}", file_error(&error));
                Err(ToolError::failed(what).effect(EffectState::Unknown))
            }
            Ended::Timeout(after) => {
                let after = super::allowed(Some(after));
                Err(ToolError::timeout(with(format!("{command} did not end within {after} and was killed"))))
            }
            Ended::Cancelled => Err(ToolError::cancelled(with(format!("{command} was stopped")))),
        }
    }

    /// The command as messages name it.
    fn shown(&self) -> String {
        format!("`{}`", self.config.command.first().map_or("", String::as_str))
    }
}

impl Tool for ProcessTool {
    fn spec(&self) -> &ToolSpec {
        &self.config.spec
    }

    fn run<'a>(&'a self, input: ToolInput<'a>) -> BoxFuture<'a, ToolOutcome> {
        Box::pin(async move { self.run_told(input).await.0 })
    }

    fn run_told<'a>(&'a self, input: ToolInput<'a>) -> BoxFuture<'a, (ToolOutcome, RunFacts)> {
        Box::pin(async move {
            let mut facts = RunFacts::default();
            let outcome = self.run_once(input, &mut facts).await.into();
            (outcome, facts)
        })
    }

    fn settled(&self) -> BoxFuture<'_, ()> {
        match &self.config.background {
            Some(processes) => Box::pin(processes.settled()),
            None => Box::pin(std::future::ready(())),
        }
    }
}

impl fmt::Debug for ProcessConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProcessConfig")
            .field("tool", &self.spec.name)
            .field("command", &self.command)
            .field("arguments", &self.arguments)
            .field("working_dir", &self.working_dir)
            .field("pass_env", &self.pass_env)
            .field("env", &self.env.keys())
            .field("output", &self.output)
            .finish_non_exhaustive()
    }
}
