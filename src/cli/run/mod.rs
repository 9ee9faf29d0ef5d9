//! `unfazed run`: an agent, live, under a policy.

mod approval;
mod attached;
mod closing;
mod ended;
mod inventory;
mod issues;
mod json;
pub(in crate::cli) mod metrics;
mod over;
mod request;
mod setup;
pub(in crate::cli) mod signals;
mod spent;

use std::ffi::OsString;
use std::io::IsTerminal;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError};

use crate::engine::Outcome;
use crate::host::agent_file::FileAgent;
use crate::host::{Metrics, Observer, RunReport, RunTask, StopSwitch};
use crate::session::{AttemptRecord, FinalReason, RetryExhausted};
use crate::store::Recorder;
use clap::ValueEnum;
use tokio_util::sync::CancellationToken;

use self::approval::{ApproveFlag, TerminalApprover};
pub(crate) use self::inventory::{OfferedTool, ToolInventory};
pub(crate) use self::issues::{ToolIssue, tell as tell_issues};
use self::json::{JsonLines, WriteFailure};
use self::metrics::MetricsServer;
use self::request::{RequestedRun, RunRequest};
use self::setup::{AgentSetup, RunWishes};
use self::signals::StopSignals;

use super::exit::{CommandFailure, ExitStatus};
use super::settings::CliSettings;
use super::status::StatusLine;
use super::text::{one_line, tokens, visible};
use super::timeline::{GivenUp, RunTimeline};
use super::{named, out};

/// How many columns an output has that does not say it.
const COLUMNS: usize = 80;

/// Runs an agent under its policy and shows live what happens and why
#[derive(clap::Args)]
#[command(after_help = "Examples:
  unfazed run examples/quickstart/agent.yaml
  unfazed run agent.yaml --task 'find the cheapest flight' --format json
  unfazed run agent.yaml --attach photo.png 'what is it?'    # for a model that is shown images
  unfazed run agent.yaml --reload    # edit the policy while the agent works
  unfazed run agent.yaml --approve no    # what wants human approval does not run
  unfazed run agent.yaml --metrics-addr 127.0.0.1:9464
  unfazed run agent.yaml --stream always 2> run.log    # answers while they come, in a file too
  unfazed run --resume latest                          # resumes the last interrupted run
  unfazed run --resume 1f0a7c 'and by train?'          # asks the next question in a session

Exit codes:
  0    reported, or answered
  1    the run failed for another reason, or a file has problems
  2    the command was not understood, or an input cannot be read
  10   a provider does not take the key, or refuses permission
  11   the quota or the money is gone
  12   all attempts at a model, a tool or the report are used up
  13   the conversation or a reply is too large for the model; what there is of a reply is printed
  14   there is no report after the final turn
  15   the run has no time left
  16   a budget of the run is used up, and its final turn brought no report
  130  cancelled")]
pub(crate) struct RunArgs {
    /// The agent file; with `--resume`: what the agent is to do next.
    #[arg(value_name = "AGENT | TASK", required_unless_present = "resume")]
    what: Option<OsString>,
    /// Continues with a session: its id, the beginning or the end of it, or `latest`. A run that was broken off continues where
    /// its log ends; a task begins the next run.
    #[arg(long, value_name = "ID")]
    resume: Option<String>,
    /// The agent file of the session that continues, instead of the one it began with.
    #[arg(long = "agent", value_name = "FILE", requires = "resume")]
    agent_file: Option<PathBuf>,
    /// What the agent is to do, instead of what the file says.
    #[arg(long)]
    task: Option<String>,
    /// The same, without `--task`.
    #[arg(value_name = "TASK", conflicts_with_all = ["task", "resume"])]
    question: Option<String>,
    /// An image (PNG, JPEG, GIF, WebP) or a PDF that comes with the task, of at most 10 MiB; given again: one more.
    #[arg(long = "attach", value_name = "FILE")]
    attached: Vec<PathBuf>,
    /// The seed of jittered delays, instead of the file's.
    #[arg(long)]
    seed: Option<u64>,
    /// The profile of the policy that is chosen.
    #[arg(long, value_name = "NAME")]
    profile: Option<String>,
    /// Looks at the policy's files before every turn and continues under what they say then.
    #[arg(long)]
    reload: bool,
    /// Serves the metrics of the run to Prometheus while it continues; port 0 is any free one.
    #[arg(long, value_name = "IP:PORT", value_parser = metrics::address)]
    metrics_addr: Option<SocketAddr>,
    /// What is answered where the policy wants a person to agree; left out: a terminal is asked, and away from one the
    /// policy decides.
    #[arg(long, value_name = "ANSWER", value_enum)]
    approve: Option<ApproveFlag>,
    /// How the run is shown.
    #[arg(long, value_enum, default_value_t)]
    format: RunFormat,
    /// When answers that are streamed are shown while they come; `auto`: on a terminal.
    #[arg(long, value_name = "WHEN", value_enum, default_value_t)]
    stream: StreamFlag,
    /// Leaves out which policy line decided.
    #[arg(long, short)]
    quiet: bool,
}

/// How a run is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum RunFormat {
    /// A timeline on standard error, the report on standard output.
    #[default]
    Human,
    /// One event or directive a line on standard output.
    Json,
}

/// When streamed answers are shown while they come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum StreamFlag {
    /// In a timeline on a terminal.
    #[default]
    Auto,
    /// Anywhere; in JSON as lines of their own.
    Always,
    /// Nowhere.
    Never,
}

pub(crate) fn run(args: &RunArgs, settings: &CliSettings) -> Result<ExitStatus, CommandFailure> {
    let export = super::logs::start_exporting(settings)?;
    super::runtime::block_on(async {
        let metrics = Arc::new(Metrics::new());
        let counted = Arc::clone(&metrics);
        export.metrics(move || counted.snapshot());
        let ended = Box::pin(live(args, settings, metrics)).await;
        export.end().await;
        ended
    })
}

async fn live(
    args: &RunArgs,
    settings: &CliSettings,
    metrics: Arc<Metrics>,
) -> Result<ExitStatus, CommandFailure> {
    let RunRequest { agent, task: wanted, profile, resume } = match request::of(args, settings)? {
        RequestedRun::Run(request) => request,
        RequestedRun::Outcome(found) => return over::show(&found, args.format),
    };
    let mut signals = StopSignals::listen();
    let loader = match (&args.profile, &settings.profile) {
        (None, None) => named::loader(profile.as_deref()).profile_from("the session"),
        _ => named::chosen(args.profile.as_deref(), settings),
    };
    let wishes = RunWishes { has_task: wanted.is_some(), reload: args.reload, resume };
    let serving = match args.metrics_addr {
        Some(address) => Some(MetricsServer::start(address, Arc::clone(&metrics)).await?),
        None => None,
    };
    let setup = Box::pin(signals.unless_heard(AgentSetup::load(&agent, &loader, settings, wishes))).await?;
    let AgentSetup { agent: started, id, session, past } = setup;
    let described = started.task();
    let FileAgent { agent, servers, .. } = started;
    let agent = agent.metrics(metrics).approver(TerminalApprover::new(args.approve));
    if let Some(serving) = &serving {
        out::say(&format!("metrics  {}\n", serving.url()));
    }
    let said = Some(described.task.clone()).filter(|task| !task.is_empty());
    let attachments = attached::read(&args.attached)?;
    let task = |task: String| {
        let seed = args.seed.unwrap_or(described.seed);
        RunTask { run: id.to_string(), task, seed, attachments, ..described }
    };
    let (past, task) = match past {
        None => (None, Some(task(wanted.or(said).unwrap_or_default()))),
        Some(past) => {
            // A session without a run begins with what the agent is for.
            let wanted = wanted.or(said.filter(|_| past.state.run.is_empty() && past.is_over()));
            (Some(past), wanted.map(task))
        }
    };
    let mut recorder = Recorder::new(session).await;
    let (mut unwritten, mut given_up) = (WriteFailure::default(), GivenUp::default());
    let mut observer: Box<dyn Observer> = match args.format {
        RunFormat::Human => {
            let mut timeline = RunTimeline::new(anstream::stderr(), StatusLine::start(), args.quiet)
                .fitting(out::width_of_errors);
            let terminal = args.stream == StreamFlag::Auto && std::io::stderr().is_terminal();
            if terminal || args.stream == StreamFlag::Always {
                timeline = timeline.streaming(out::width_of_errors().unwrap_or(COLUMNS));
            }
            given_up = timeline.given_up();
            Box::new(timeline)
        }
        RunFormat::Json => {
            let lines = JsonLines::new(args.stream == StreamFlag::Always);
            unwritten = lines.unwritten();
            Box::new(lines)
        }
    };
    let (stop, leave) = (StopSwitch::new(), CancellationToken::new());
    let listening = tokio::spawn(signals.pass_on(stop.clone(), leave.clone()));
    let result = tokio::select! {
        biased;
        // Dropped in the middle, the run kills every process group it has going.
        () = leave.cancelled() => None,
        result = agent.go_on(past, task, &mut *observer, Some(&mut recorder), stop.clone()) => Some(result),
    };
    drop(observer);
    let ended = async {
        // Until the second signal: then what is left of them is killed.
        tokio::select! {
            biased;
            // Begun in any case: a shutdown that is dropped kills what it was to end.
            () = servers.shutdown() => {}
            () = stop.kill.cancelled() => {}
        }
        result
    };
    // Signals are handled to the end: servers have their grace, and that may be long.
    let result = tokio::select! {
        biased;
        () = leave.cancelled() => None,
        result = ended => result,
    };
    listening.abort();
    let session = recorder.place().to_owned();
    warn_of(&recorder.close().await);
    let Some(result) = result else {
        let resume = closing::resume(id.as_str(), "");
        out::say_raw(&format!("Cancelled at once; running tools were killed\n{resume}"));
        return Ok(ExitStatus::Cancelled);
    };
    let report = result.map_err(|error| CommandFailure::Stopped(error.to_string()))?;
    match args.format {
        RunFormat::Human => {
            let given_up = given_up.lock().unwrap_or_else(PoisonError::into_inner);
            show(&report, &given_up, &session, id.as_str())?;
        }
        RunFormat::Json => {
            if let Some(failed) = unwritten.lock().unwrap_or_else(PoisonError::into_inner).take() {
                return Err(failed);
            }
            out::raw(&format!("{}\n", json::result(&report, &session)))?;
        }
    }
    Ok(ended::exit(&report.outcome))
}

/// The report on standard output, everything about it on standard error.
fn show(
    report: &RunReport,
    given_up: &[RetryExhausted],
    session: &str,
    id: &str,
) -> Result<(), CommandFailure> {
    out::say("\n");
    let printed = print(&report.outcome, given_up, report.partial.as_deref());
    let mut shown = true;
    if matches!(report.outcome, Outcome::Reported { .. } | Outcome::Answered { .. }) {
        shown = std::io::stdout().is_terminal();
    }
    let blank = if shown { "\n" } else { "" };
    let turns = report.state.turn;
    let used = tokens(report.state.usage);
    let cost = report.cost.map(|cost| format!("cost     {cost} USD\n")).unwrap_or_default();
    let spent = spent::line(report).map(|spent| format!("spent    {spent}\n")).unwrap_or_default();
    let resume = if ended::exit(&report.outcome) == ExitStatus::Cancelled {
        closing::resume(id, " 'TASK'")
    } else {
        String::new()
    };
    out::say_raw(&format!(
        "{blank}turns    {turns}\ntokens   {used}\n{cost}{spent}{}{resume}",
        closing::session(session, id)
    ));
    printed
}

/// What a run came to: a report, an answer or the part there is of one on standard output, the rest on standard error.
fn print(
    outcome: &Outcome,
    given_up: &[RetryExhausted],
    partial: Option<&str>,
) -> Result<(), CommandFailure> {
    match outcome {
        Outcome::Reported { output } => result(&format!("{output:#}\n")),
        Outcome::Answered { text } => result(&format!("{text}\n")),
        Outcome::Failed { exhausted, report: failed } => {
            if failed.forced_final_reason == Some(FinalReason::UserStop) {
                out::say("Cancelled\n");
            }
            out::say(&format!("the run failed: {}\n", one_line(&ended::why(exhausted, failed))));
            // What another model came to before the last one belongs to the story.
            let all =
                if given_up.last() == Some(exhausted) { given_up } else { std::slice::from_ref(exhausted) };
            out::say(&history(all));
            if let Some(wait) = exhausted.retry_after {
                out::say(&format!("  {} asked to wait {wait}\n", one_line(&exhausted.action)));
            }
            out::say(&format!("{}\n", visible(&failed.text)));
            match partial {
                Some(text) => {
                    out::say(
                        "The answer was cut at the limit of tokens; what there is of it follows on standard output\n",
                    );
                    result(&format!("{text}\n"))
                }
                None => Ok(()),
            }
        }
        Outcome::Stopped { report, .. } => {
            out::say(&format!("Cancelled\n{}\n", visible(&report.text)));
            Ok(())
        }
    }
}

/// Prints what the run came to. What a model wrote must not command a terminal; a file gets it as it is.
fn result(text: &str) -> Result<(), CommandFailure> {
    if std::io::stdout().is_terminal() { out::raw(&visible(text)) } else { out::raw(text) }
}

/// Every attempt of everything that was given up.
fn history(given_up: &[RetryExhausted]) -> String {
    let mut lines = Vec::new();
    for RetryExhausted { action, attempts, .. } in given_up {
        let of = if given_up.len() > 1 { format!("{}, ", one_line(action)) } else { String::new() };
        for AttemptRecord { attempt, error_type, message, .. } in attempts {
            let message = one_line(message);
            lines.push(format!("  {of}attempt {attempt}: {error_type}: {message}\n"));
        }
    }
    lines.concat()
}

/// Says which files beside the session's log could not be written.
fn warn_of(problems: &[String]) {
    for problem in problems {
        out::say(&format!("warning: {problem}; the session's log is whole without it\n"));
    }
}
