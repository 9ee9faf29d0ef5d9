//! Tools that are commands: arguments as JSON on standard input, the result on standard output.

mod capture;
mod group;
mod output;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};

use futures_util::FutureExt;
use serde_json::Value;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

use self::capture::{Head, Tail, drain};
use self::group::Group;
pub use self::output::OutputFormat;
use super::{ToolError, expiry};
use crate::engine::{EffectState, ToolOutcome, ToolSpec};
use crate::host::{BoxFuture, Tool, ToolInput};
use crate::time::Nanos;

/// The variables of the host's environment a command sees unless told otherwise. Keys of providers are not
/// among them.
pub const DEFAULT_ENV: &[&str] =
    &["PATH", "HOME", "USER", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "SYSTEMROOT"];

/// The most bytes of standard error that are kept for the error's text: the last ones.
const STDERR_BYTES: usize = 4 * 1024;

/// A tool that is a command.
#[derive(Clone)]
pub struct ProcessConfig {
    /// How it is declared to the model.
    pub spec: ToolSpec,
    /// The command and its arguments. No shell reads them.
    pub command: Vec<String>,
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
}

/// Runs a command for each call. Every run has a process group of its own, and nothing of it outlives the run.
#[derive(Clone, Debug)]
pub struct ProcessTool {
    config: ProcessConfig,
}

/// How a run came to its end.
enum Ended {
    Exit(io::Result<ExitStatus>),
    Timeout(Nanos),
    Cancelled,
}

impl ProcessConfig {
    /// `command` with the usual settings: output `auto`, at most 1 MiB of it, 2 s of grace.
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
        }
    }
}

impl ProcessTool {
    /// The tool. Whether the command exists is seen when it is run.
    pub fn new(config: ProcessConfig) -> Self {
        Self { config }
    }

    async fn run_once(&self, input: ToolInput<'_>) -> Result<Value, ToolError> {
        if input.cancel.is_cancelled() {
            let error = ToolError::cancelled(format!("{} was stopped before it began", self.shown()));
            return Err(error.effect(EffectState::NotStarted));
        }
        let arguments = input.arguments.to_string();
        let mut child = self.command(&input)?.spawn().map_err(|error| self.not_started(&error))?;
        let mut group = Group::of(&child);

        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let mut printed = Head::new(self.config.max_output);
        let mut complained = Tail::new(STDERR_BYTES);
        let ended = {
            let feed = async move {
                if let Some(mut stdin) = stdin {
                    // A command need not read its arguments: a closed pipe is no failure.
                    let _ = stdin.write_all(arguments.as_bytes()).await;
                }
            };
            let pipes = async {
                tokio::join!(
                    drain(stdout, |bytes| printed.push(bytes)),
                    drain(stderr, |bytes| complained.push(bytes))
                );
            };
            // Feeding stops with the command; what it printed is read to the end.
            let feed = std::pin::pin!(feed.fuse());
            let mut pipes = std::pin::pin!(pipes.fuse());
            let ended = tokio::select! {
                biased;
                status = child.wait() => Ended::Exit(status),
                () = input.cancel.cancelled() => Ended::Cancelled,
                () = expiry(input.timeout) => Ended::Timeout(input.timeout.unwrap_or_default()),
                never = forever(async { tokio::join!(feed, pipes.as_mut()) }) => match never {},
            };
            let grace = self.config.grace.to_std();
            if matches!(ended, Ended::Exit(_)) {
                group.settle(pipes.as_mut(), grace).await;
            }
            group.end(&mut child, pipes, grace).await;
            ended
        };
        self.outcome(ended, &printed, &complained)
    }

    fn command(&self, input: &ToolInput<'_>) -> Result<Command, ToolError> {
        let Some((program, arguments)) = self.config.command.split_first() else {
            let name = &self.config.spec.name;
            return Err(ToolError::unavailable(format!("tool `{name}` has no command to run; give it one")));
        };
        let mut command = Command::new(self.program(program));
        command.args(arguments);
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
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
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
            io::ErrorKind::PermissionDenied => {
                ToolError::permission_denied(format!("{command} may not be run: {error}; is it executable?"))
            }
            _ => ToolError::unavailable(format!("{command} could not be started: {error}")),
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

    fn outcome(&self, ended: Ended, printed: &Head, complained: &Tail) -> Result<Value, ToolError> {
        let command = self.shown();
        let said = match complained.text() {
            text if text.is_empty() => printed.last(STDERR_BYTES),
            text => text,
        };
        let with = |what: String| if said.is_empty() { what } else { format!("{what}: {said}") };
        match ended {
            Ended::Exit(Ok(status)) if status.success() => self.config.output.read(printed).map_err(|why| {
                ToolError::failed(format!("{command} did its work, but {why}")).effect(EffectState::Committed)
            }),
            Ended::Exit(Ok(status)) => Err(if let Some(code) = status.code() {
                ToolError::failed(with(format!("{command} exited with code {code}")))
            } else {
                let what = with(format!("{command} was killed by {}", group::signal_of(status)));
                ToolError::failed(what).effect(EffectState::Unknown)
            }),
            Ended::Exit(Err(error)) => {
                let what = format!("how {command} ended is not known: {error}");
                Err(ToolError::failed(what).effect(EffectState::Unknown))
            }
            Ended::Timeout(after) => {
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
        Box::pin(async move { self.run_once(input).await.into() })
    }
}

impl fmt::Debug for ProcessConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProcessConfig")
            .field("tool", &self.spec.name)
            .field("command", &self.command)
            .field("working_dir", &self.working_dir)
            .field("pass_env", &self.pass_env)
            .field("env", &self.env.keys())
            .field("output", &self.output)
            .finish_non_exhaustive()
    }
}

/// Does the work, then never ends.
async fn forever<T>(work: impl Future<Output = T>) -> std::convert::Infallible {
    work.await;
    std::future::pending().await
}
