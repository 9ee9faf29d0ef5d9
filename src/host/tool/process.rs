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

use core::time::Duration;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::Value;
use tokio::process::Command;

pub use self::argv::CommandArgument;
pub use self::background::BackgroundProcesses;
use self::group::GracePeriods;
pub(crate) use self::look::PROCESS_TOOLS;
pub use self::output::OutputFormat;
#[cfg(feature = "mcp")]
pub(super) use self::running::forever;
use self::running::{KeptOutput, OutputLimits, RunOutcome, RunningProcess, STDERR_BYTES};
use super::ToolError;
use crate::engine::{EffectState, RunFacts, ToolOutcome, ToolSpec};
use crate::host::{BoxFuture, Tool, ToolInput, file_error};
use crate::time::Nanos;

/// The variables of the host's environment a command sees by default. Keys of providers are not
/// among them.
pub(crate) const DEFAULT_ENV: &[&str] =
    &["PATH", "HOME", "USER", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "SYSTEMROOT"];

/// A tool that is a command, and how it runs.
///
/// ```
/// use std::time::Duration;
/// use serde_json::json;
/// use unfazed::engine::ToolSpec;
/// use unfazed::host::{OutputFormat, ProcessConfig, ProcessTool};
///
/// let spec = ToolSpec {
///     name: "weather".into(),
///     description: "The weather of a city.".into(),
///     parameters: json!({"type": "object"}),
///     effect: None,
/// };
/// let config = ProcessConfig::new(spec, ["./weather.py"])
///     .output(OutputFormat::Json)
///     .timeout(Duration::from_secs(20))
///     .pass_env(["WEATHER_KEY"]);
/// let tool = ProcessTool::new(config);
/// # let _ = tool;
/// ```
#[derive(Clone)]
pub struct ProcessConfig {
    /// How it is declared to the model.
    spec: ToolSpec,
    /// The command and its arguments. No shell reads them.
    command: Vec<String>,
    /// More arguments, made of those of the call.
    arguments: Vec<CommandArgument>,
    /// What it gets on standard input; `None`: the arguments of the call as JSON, unless there are templates of
    /// arguments.
    stdin: Option<StdinMode>,
    /// Where it runs; `None`: where the host runs.
    working_dir: Option<PathBuf>,
    /// The variables of the host's environment it sees; see [`DEFAULT_ENV`].
    pass_env: Vec<String>,
    /// More variables. Their values are never shown.
    env: BTreeMap<String, String>,
    /// What standard output holds.
    output: OutputFormat,
    /// The most bytes of standard output that are kept: the first ones.
    max_output: usize,
    /// How long its processes have, once asked to end, before they are killed.
    grace: Nanos,
    /// How long processes that outlive the command have to write out what they have; at most the grace.
    linger: Nanos,
    /// How long a run may take before [`on_timeout`](Self::on_timeout); `None`: as long as the policy allows.
    timeout: Option<Nanos>,
    /// What is done when the time is up.
    on_timeout: OnTimeout,
    /// Where commands continue whose time is up. `None`: they do not, but are killed.
    background: Option<BackgroundProcesses>,
    /// A command in the background is not ended with its run.
    keep: bool,
    /// What it prints is in no failure: it may be a secret.
    hides_output: bool,
}

/// What a command gets on standard input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StdinMode {
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
    /// It continues, and the call is answered with its handle.
    Background,
}

/// Runs a command for each call. Every run has a process group of its own, and nothing of it outlives the run unless
/// it is moved to the background.
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
            hides_output: false,
            arguments: Vec::new(),
            stdin: None,
        }
    }

    /// Adds arguments of the command that are made of those of the call.
    #[must_use]
    pub fn arguments(mut self, arguments: impl IntoIterator<Item = CommandArgument>) -> Self {
        self.arguments.extend(arguments);
        self
    }

    /// Sets what it gets on standard input; without it, the arguments of the call as JSON, unless there are templates of
    /// arguments.
    #[must_use]
    pub const fn stdin(mut self, stdin: StdinMode) -> Self {
        self.stdin = Some(stdin);
        self
    }

    /// Sets where it runs; without it, where the host runs.
    #[must_use]
    pub fn working_dir(mut self, folder: impl Into<PathBuf>) -> Self {
        self.working_dir = Some(folder.into());
        self
    }

    /// Adds variables of the host's environment that it sees, besides `PATH`, `HOME` and what else no command does without. Keys
    /// of providers are not among those.
    #[must_use]
    pub fn pass_env<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> Self {
        self.pass_env.extend(names.into_iter().map(Into::into));
        self
    }

    /// Adds variables. Their values are never shown.
    #[must_use]
    pub fn env<K: Into<String>, V: Into<String>>(mut self, env: impl IntoIterator<Item = (K, V)>) -> Self {
        self.env.extend(env.into_iter().map(|(name, value)| (name.into(), value.into())));
        self
    }

    /// Sets what standard output holds.
    #[must_use]
    pub const fn output(mut self, output: OutputFormat) -> Self {
        self.output = output;
        self
    }

    /// Sets the most bytes of standard output that are kept: the first ones.
    #[must_use]
    pub const fn max_output(mut self, bytes: usize) -> Self {
        self.max_output = bytes;
        self
    }

    /// Sets how long its processes have, once asked to end, before they are killed.
    #[must_use]
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace.into();
        self
    }

    /// Sets how long processes that outlive the command have to write out what they have; at most the grace.
    #[must_use]
    pub fn linger(mut self, linger: Duration) -> Self {
        self.linger = linger.into();
        self
    }

    /// Sets how long a run may take before [`on_timeout`](Self::on_timeout); without it, as long as the policy allows.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout.into());
        self
    }

    /// Sets what is done when the time is up; without it, the command is killed.
    #[must_use]
    pub const fn on_timeout(mut self, on_timeout: OnTimeout) -> Self {
        self.on_timeout = on_timeout;
        self
    }

    /// Sets where commands continue whose time is up. Without it they do not, but are killed.
    #[must_use]
    pub fn background(mut self, processes: BackgroundProcesses) -> Self {
        self.background = Some(processes);
        self
    }

    /// Sets whether a command in the background outlives its run; without it, it is ended with it.
    #[must_use]
    pub const fn keep_running(mut self, keep: bool) -> Self {
        self.keep = keep;
        self
    }
}

impl ProcessConfig {
    /// Leaves what it prints out of failures: it may be a secret.
    pub(in crate::host) const fn hide_output(mut self) -> Self {
        self.hides_output = true;
        self
    }

    /// The command as messages name it.
    pub(in crate::host) fn named(&self) -> String {
        format!("`{}`", self.command.first().map_or("", String::as_str))
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
        let kept = OutputLimits {
            first: self.config.max_output,
            // Only who looks at it while it runs wants the end of what it printed.
            last: if self.background().is_some() { self.config.max_output } else { 0 },
        };
        let written = self.reads_json().then(|| input.arguments.to_string());
        let mut running = RunningProcess::new(child, written, kept, self.patience());
        facts.process_id = running.id().map(|id| id.to_string());
        let allowed = input.timeout.map(Nanos::from);
        let soft = self.config.timeout.filter(|own| allowed.is_none_or(|policy| *own < policy));
        let mut ended = running.ended(&input.cancel, soft.or(allowed)).await;
        if let RunOutcome::Timeout(after) = ended {
            match (self.config.on_timeout, self.background()) {
                (OnTimeout::Wait, _) if soft.is_some() => {
                    let timeout_ms = after.0 / 1_000_000;
                    tracing::warn!(
                        tool = self.config.spec.name,
                        timeout_ms,
                        "a tool takes longer than its timeout"
                    );
                    let rest = allowed.map(|policy| policy.saturating_sub(after));
                    ended = match running.ended(&input.cancel, rest).await {
                        RunOutcome::Timeout(_) => RunOutcome::Timeout(allowed.unwrap_or_default()),
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

    /// Where its commands continue when their time is up.
    fn background(&self) -> Option<&BackgroundProcesses> {
        self.config.background.as_ref().filter(|_| self.config.on_timeout == OnTimeout::Background)
    }

    fn reads_json(&self) -> bool {
        match self.config.stdin {
            Some(stdin) => stdin == StdinMode::Json,
            None => self.config.arguments.is_empty(),
        }
    }

    fn patience(&self) -> GracePeriods {
        GracePeriods { grace: self.config.grace.to_std(), linger: self.config.linger.to_std() }
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

    fn outcome(&self, ended: RunOutcome, printed: &KeptOutput) -> Result<Value, ToolError> {
        let command = self.shown();
        let said = match printed.complained.text() {
            text if text.is_empty() && !self.config.hides_output => printed.first.last(STDERR_BYTES),
            text => text,
        };
        let with = |what: String| if said.is_empty() { what } else { format!("{what}: {said}") };
        match ended {
            RunOutcome::Exit(Ok(status)) if status.success() => {
                self.config.output.read(&printed.first).map_err(|why| {
                    ToolError::failed(format!("{command} did its work, but {why}"))
                        .effect(EffectState::Committed)
                })
            }
            RunOutcome::Exit(Ok(status)) => Err(if let Some(code) = status.code() {
                ToolError::failed(with(format!("{command} exited with code {code}")))
            } else {
                let what = with(format!("{command} was killed by {}", group::signal_of(status)));
                ToolError::failed(what).effect(EffectState::Unknown)
            }),
            RunOutcome::Exit(Err(error)) => {
                let what = format!("how {command} ended is not known: {}", file_error(&error));
                Err(ToolError::failed(what).effect(EffectState::Unknown))
            }
            RunOutcome::Timeout(after) => {
                let after = super::allowed(Some(after.into()));
                Err(ToolError::timeout(with(format!("{command} did not end within {after} and was killed"))))
            }
            RunOutcome::Cancelled => Err(ToolError::cancelled(with(format!("{command} was stopped")))),
        }
    }

    /// The command as messages name it.
    fn shown(&self) -> String {
        self.config.named()
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

crate::debug_parts!(|this: ProcessConfig|
    tool: this.spec.name,
    command: this.command,
    arguments: this.arguments,
    working_dir: this.working_dir,
    pass_env: this.pass_env,
    env: this.env.keys(),
    output: this.output
);
