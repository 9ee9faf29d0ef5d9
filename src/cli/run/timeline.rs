//! The live timeline: what happened, what is waited for, and which line of the policy decided it.

use std::collections::{HashMap, HashSet};
use std::io::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anstyle::{AnsiColor, Style};

mod resumed;

use super::answer::Answer;
use crate::cli::status::Status;
use crate::cli::text::{delay, fit, one_line, tokens, wrap};
use unfazed::engine::{
    Ask, Because, BreakerPhase, ContextReduced, Decision, Directive, EffectState, Envelope, Event, Failure,
    LoopPattern, LoopStage, ModelReply, Note, Order, OrphanToolCallsPruned, Outcome, Question, Repetition,
    RetryAction, RunStarted, ToolOutcome, Work, WorkId,
};
use unfazed::host::{Observer, Past, PolicyFilesError, Progress, SharedStateError};
use unfazed::policy::{ErrorClass, Scope};
use unfazed::session::{FinalReason, ReportSource, RetryExhausted};
use unfazed::time::Instant;

/// The longest piece of foreign text on one line, in characters.
const SHOWN: usize = 110;

/// What stands below a line begins where its text does.
const MARGIN: &str = "             ";
/// Room beside a line that grows, for how long nothing has come.
const PAUSE: usize = 8;
/// The narrowest lines of all, and the widest of a streamed answer.
const NARROWEST: usize = 20;
const WIDEST: usize = 100;

const DIM: Style = Style::new().dimmed();
const BOLD: Style = Style::new().bold();
const GOOD: Style = AnsiColor::Green.on_default();
const BAD: Style = AnsiColor::Red.on_default();
const WARN: Style = AnsiColor::Yellow.on_default();
const INFO: Style = AnsiColor::Cyan.on_default();

/// Prints a run as it goes on, for people.
pub(crate) struct Timeline<W> {
    out: W,
    status: Status,
    /// The columns of a line; `None`: as many as it takes.
    width: fn() -> Option<usize>,
    quiet: bool,
    started: Instant,
    now: Instant,
    /// What the work under way is called.
    names: HashMap<WorkId, String>,
    /// The reasons said in this turn: none is said twice.
    said: HashSet<String>,
    /// What was said to be wrong last; it is not said twice in a row.
    failure: String,
    /// The model that is asked instead of the one that is given up.
    next_target: Option<String>,
    /// The models that were given up since one answered.
    given_up: GivenUp,
    /// What is streamed, where it is shown.
    answer: Option<Answer>,
    /// The model that was called last, and whether it was shown saying something.
    speaker: String,
    spoke: bool,
}

/// What was given up, each with its attempts.
pub(crate) type GivenUp = Arc<Mutex<Vec<RetryExhausted>>>;

/// The columns of an answer in a terminal of so many.
fn of_answers(columns: usize) -> usize {
    columns.saturating_sub(MARGIN.len() + PAUSE).clamp(NARROWEST, WIDEST)
}

impl<W: Write + Send> Timeline<W> {
    /// Prints to `out`; `status` shows what is waited for; `quiet` leaves the reasons out.
    pub(crate) fn new(out: W, status: Status, quiet: bool) -> Self {
        Self {
            out,
            status,
            width: || None,
            quiet,
            started: Instant::default(),
            now: Instant::default(),
            names: HashMap::new(),
            said: HashSet::new(),
            failure: String::new(),
            next_target: None,
            given_up: GivenUp::default(),
            answer: None,
            speaker: String::new(),
            spoke: false,
        }
    }

    /// Wraps lines that are wider than the terminal is at that time.
    #[must_use]
    pub(crate) const fn fitting(mut self, width: fn() -> Option<usize>) -> Self {
        self.width = width;
        self
    }

    /// Shows answers while they come, in lines that fit the terminal; in lines of so many columns where its width is unknown.
    #[must_use]
    pub(crate) fn streaming(mut self, columns: usize) -> Self {
        self.answer = Some(Answer::new(of_answers(columns)));
        self
    }

    /// The models that were given up since one answered, for the end of the story.
    pub(crate) fn given_up(&self) -> GivenUp {
        Arc::clone(&self.given_up)
    }

    fn giving_up(&self) -> MutexGuard<'_, Vec<RetryExhausted>> {
        self.given_up.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn line(&mut self, mark: &str, style: Style, text: &str) {
        self.end_answer();
        let at = self.now.since(self.started);
        let (secs, millis) = (at.0 / 1_000_000_000, at.0 % 1_000_000_000 / 1_000_000);
        self.status.clear();
        self.print(&format!("{DIM}{secs:>4}.{millis:03}s{DIM:#}  {style}{mark}{style:#} {text}"), MARGIN);
    }

    /// Prints a line, the rest of which begins with that margin where it is too wide. A terminal that is gone is no reason to
    /// stop the run.
    fn print(&mut self, line: &str, margin: &str) {
        let _ = match (self.width)() {
            None => writeln!(self.out, "{line}"),
            Some(width) => writeln!(self.out, "{}", wrap(line, width.max(MARGIN.len() + NARROWEST), margin)),
        };
    }

    /// Shows a piece of an answer: whole lines for good, the last one as it grows.
    fn say(&mut self, text: &str) {
        let text = if self.spoke { text } else { text.trim_start() };
        if self.answer.is_none() || text.is_empty() {
            return;
        }
        self.status.clear();
        if !self.spoke {
            self.spoke = true;
            self.print(&format!("           {INFO}»{INFO:#} {} says", self.speaker), MARGIN);
        }
        let width = (self.width)();
        let Some(answer) = self.answer.as_mut() else { return };
        if let Some(columns) = width {
            answer.resize(of_answers(columns));
        }
        for line in answer.push(text) {
            let _ = writeln!(self.out, "{}", format!("{MARGIN}{line}").trim_end());
        }
        if !answer.line().is_empty() {
            self.status.typed(format!("  {}", answer.line()));
        }
    }

    /// Nothing follows what has come of an answer.
    fn end_answer(&mut self) {
        let Some(answer) = self.answer.as_mut().filter(|answer| !answer.line().is_empty()) else { return };
        self.status.clear();
        let _ = writeln!(self.out, "{MARGIN}{}", answer.end());
    }

    fn reasons(&mut self, because: &[Because]) {
        if self.quiet {
            return;
        }
        for Because { rule, value, layer, place, facts } in because {
            let facts = if facts.is_empty() { String::new() } else { format!("{}: ", facts.join(", ")) };
            let layer = match layer {
                Scope::Builtin => String::new(),
                layer => format!(", {layer} layer"),
            };
            // A list of classes is long, and the fact says which of them matters.
            let value =
                if value.starts_with('[') { String::new() } else { format!(" = {}", one_line(value)) };
            let line = format!("{facts}{rule}{value} ({place}{layer})");
            // What holds for one attempt of a turn holds for the next.
            if !self.said.insert(line.clone()) {
                continue;
            }
            self.print(&format!("{DIM}{MARGIN}{line}{DIM:#}"), &format!("{MARGIN}  "));
        }
    }

    fn run_started(&mut self, run: &RunStarted) {
        let tools: Vec<&str> = run.tools.iter().map(|tool| tool.name.as_str()).collect();
        let policy = run.policy.get(..12).unwrap_or(&run.policy);
        let text = format!(
            "{BOLD}run {}{BOLD:#}  models {}  tools {}  policy {policy}",
            run.run,
            run.targets.join(", "),
            tools.join(", "),
        );
        self.line("●", INFO, &text);
        self.line(" ", DIM, &format!("task: {}", fit(&one_line(&run.task), SHOWN)));
    }

    fn answered(&mut self, name: &str, reply: &ModelReply) {
        let tokens = reply.usage.map(|usage| format!("  {DIM}{}{DIM:#}", tokens(usage))).unwrap_or_default();
        let what = match reply.calls.as_slice() {
            [] if self.spoke => "has answered".to_owned(),
            [] => format!("says “{}”", fit(&one_line(&reply.text), SHOWN)),
            calls => {
                let calls: Vec<String> = calls
                    .iter()
                    .map(|p| format!("{}({})", one_line(&p.call.name), fit(&one_line(&p.call.arguments), 60)))
                    .collect();
                format!("calls {}", calls.join(", "))
            }
        };
        self.line("✓", GOOD, &format!("{name} {what}{tokens}"));
    }

    fn tool_finished(&mut self, name: &str, outcome: &ToolOutcome) {
        match outcome {
            ToolOutcome::Ok { data } => {
                let text = data.as_str().map_or_else(|| data.to_string(), str::to_owned);
                self.line("✓", GOOD, &format!("{name} returns {}", fit(&one_line(&text), SHOWN)));
            }
            ToolOutcome::Done => self.line("✓", GOOD, &format!("{name} has run")),
            ToolOutcome::Failed { failure, .. } => self.failed(name, failure),
        }
    }

    fn failed(&mut self, what: &str, failure: &Failure) {
        self.failure.clone_from(&failure.message);
        let status = failure.status.map(|status| format!("{status} ")).unwrap_or_default();
        let class = failure.class.map(|class| format!("{class}: ")).unwrap_or_default();
        let text = fit(&one_line(&failure.message), SHOWN);
        self.line("✗", BAD, &format!("{what} failed: {status}{class}{text}"));
        if let Some(reason) = failure.retry_after.ignored() {
            let line = format!("{DIM}{MARGIN}ignored {}{DIM:#}", one_line(reason));
            self.print(&line, &format!("{MARGIN}  "));
        }
    }

    /// What the work was called; it is over now.
    fn name(&mut self, work: WorkId) -> String {
        self.names.remove(&work).unwrap_or_default()
    }

    fn work(&mut self, work: &Work) {
        match work {
            Work::CallModel(call) => self.names.insert(work.id(), call.target.clone()),
            Work::Summarize(call) => {
                self.names.insert(work.id(), format!("{}, asked for a summary,", call.target))
            }
            Work::RunTool(run) => self.names.insert(work.id(), run.tool.clone()),
            Work::PrepareTurn(_)
            | Work::RepairHistory(_)
            | Work::ReduceContext(_)
            | Work::Wait(_)
            | Work::Consult(_)
            | Work::Ask(_) => None,
        };
        match work {
            Work::PrepareTurn(turn) => {
                self.said.clear();
                let last = if turn.last { "  only the report is allowed" } else { "" };
                self.line(
                    "─",
                    INFO,
                    &format!("{BOLD}turn {} of {}{BOLD:#}{last}", turn.turn, turn.max_turns),
                );
            }
            // What came of it is told by a note.
            Work::RepairHistory(_) | Work::ReduceContext(_) => {}
            Work::Summarize(call) => {
                let most =
                    call.max_output.map(|most| format!(" of at most {most} tokens")).unwrap_or_default();
                self.line("→", INFO, &format!("model {} is asked for a summary{most}", call.target));
                self.status.set(format!("model {}", call.target));
            }
            Work::CallModel(call) => {
                let attempt = attempt(call.attempt, call.max_attempts);
                (self.speaker, self.spoke) = (one_line(&call.target), false);
                self.status.set(format!("model {}{attempt}", call.target));
                // Of a first attempt the answer alone is shown, unless a budget leaves its reply less.
                let most = call.max_output.map(|most| format!(", with at most {most} tokens for its reply"));
                if call.attempt > 1 || most.is_some() {
                    let most = most.unwrap_or_default();
                    self.line("→", INFO, &format!("model {}{attempt}{most}", call.target));
                }
            }
            Work::RunTool(run) => {
                let attempt = attempt(run.attempt, run.max_attempts);
                let arguments = fit(&one_line(&run.arguments.to_string()), 60);
                self.line("→", INFO, &format!("runs {}({arguments}){attempt}", run.tool));
                self.status.set(format!("tool {}{attempt}", run.tool));
            }
            Work::Wait(wait) => {
                let text = format!(
                    "{WARN}waits {}{WARN:#} for {}: {}; then attempt {}{}",
                    delay(wait.delay),
                    wait.subject,
                    wait.error_type,
                    wait.attempt,
                    of(wait.max_attempts),
                );
                self.line("…", WARN, &text);
                self.status
                    .count_down(format!("waiting for {} ({})", wait.subject, wait.error_type), wait.delay);
            }
            Work::Ask(ask) => self.line("?", WARN, &asked(ask)),
            Work::Consult(consult) => {
                self.line(
                    "?",
                    WARN,
                    &format!("the planner is asked: {}", one_line(&consult.exhausted.to_string())),
                );
            }
        }
    }

    fn breaker(&mut self, tool: &str, state: BreakerPhase, until: Option<Instant>, because: &[Because]) {
        let text = match (state, until) {
            (BreakerPhase::Open, None) => format!("breaker of {tool} opens for {}", lifetime(because)),
            (BreakerPhase::Open, Some(until)) => {
                format!("breaker of {tool} opens for {}", delay(until.since(self.now)))
            }
            (BreakerPhase::HalfOpen, _) => format!("breaker of {tool} lets a probe through"),
            (BreakerPhase::Closed, _) => format!("breaker of {tool} closes"),
        };
        self.line("⚡", WARN, &text);
    }

    fn hidden(&mut self, tools: &[String]) {
        let text = match tools {
            [] => "every tool is shown to models again".to_owned(),
            tools => format!("not shown to models for now: {}", one_line(&tools.join(", "))),
        };
        self.line("⚡", WARN, &text);
    }

    fn repeats(&mut self, told: &Repetition) {
        let Repetition { tool, length, count, .. } = told;
        let tool = one_line(tool);
        let what = match told.pattern {
            LoopPattern::SameCall => format!("{tool} was called {count} times in the same way"),
            LoopPattern::Cycle => format!("the same {length} calls were made {count} times over"),
            LoopPattern::SameResult => format!("the same call of {tool} had the same result {count} times"),
            LoopPattern::SameError => format!("{tool} failed {count} times in the same way"),
        };
        let then = match told.stage {
            LoopStage::Nudge => "the model is told",
            LoopStage::Block => "it does not run",
            LoopStage::FinalTurn => "it does not run, and one last turn follows",
        };
        self.line("↻", WARN, &format!("{what}; {then}"));
    }

    fn exhausted(&mut self, exhausted: &RetryExhausted, decision: Option<Decision>) {
        let then = match (decision, self.next_target.take()) {
            (Some(Decision::TellModel), _) if exhausted.action.starts_with("model ") => {
                "the run ends".to_owned()
            }
            (Some(Decision::TellModel), _) => "the model is told".to_owned(),
            (Some(Decision::FinalTurn), _) => "one last turn".to_owned(),
            (Some(Decision::Fail), _) => "the run ends".to_owned(),
            (None, Some(next)) => format!("model {next} is asked next"),
            (None, None) => "the planner is asked".to_owned(),
        };
        if exhausted.action.starts_with("model ") {
            self.giving_up().push(exhausted.clone());
        }
        let attempts = exhausted.attempts.len();
        let plural = if attempts == 1 { "" } else { "s" };
        let reason = exhausted.reason.name();
        let text =
            format!("{} given up after {attempts} attempt{plural}: {reason}; {then}", exhausted.action);
        self.line("✗", BAD, &text);
    }

    fn result_cut(&mut self, note: &Note) {
        let Note::ResultCut { tool, unit, shown, total, handle, .. } = note else { return };
        let kept = if handle.is_some() { "; the whole is kept" } else { "" };
        let (tool, unit) = (one_line(tool), unit.name());
        self.line(
            "✂",
            WARN,
            &format!("the model is shown {shown} of {total} {unit} of the result of {tool}{kept}"),
        );
    }

    fn retracted(&mut self, target: &str, received: u64) {
        let plural = if received == 1 { "character" } else { "characters" };
        let text = if self.spoke {
            format!("what {target} says above is taken back: {received} {plural} of an answer that failed")
        } else {
            format!("{received} {plural} of an answer of {target} had come; they are dropped")
        };
        self.line("⊘", WARN, &text);
    }

    fn last_turn(&mut self, reason: FinalReason, turn: u32, max_turns: u32) {
        if reason != FinalReason::MaxTurns {
            let why = reason.name();
            self.line("⊘", WARN, &format!("turn {turn} is the last instead of {max_turns}: {why}"));
        }
    }

    fn reduced(&mut self, told: &ContextReduced) {
        let ContextReduced { step, tokens_before: was, tokens_after: now, .. } = told;
        self.line("✎", WARN, &format!("conversation reduced ({step}): {was} tokens become {now}"));
    }

    #[expect(clippy::too_many_lines, reason = "one arm for each note")]
    fn note(&mut self, note: &Note, because: &[Because]) {
        match note {
            Note::Feedback { feedback } => {
                let what = feedback.tool_name.as_deref().unwrap_or("the report");
                let attempt = format!("attempt {}{}", feedback.attempt, of(feedback.max_attempts));
                let mut text = format!("feedback on {what}, {attempt}: {}", feedback.error_type);
                if feedback.message != self.failure {
                    text.push_str(": ");
                    text.push_str(&fit(&one_line(&feedback.message), SHOWN));
                    self.failure.clone_from(&feedback.message);
                }
                self.line("↺", WARN, &text);
            }
            Note::ReducerError { error } => {
                self.line(
                    "✗",
                    BAD,
                    &format!("reducer {} failed: {}", error.reducer, one_line(&error.message)),
                );
            }
            Note::Refused { tool, error_type, message, .. } => {
                let text = match error_type {
                    // The feedback before it has said what is wrong.
                    ErrorClass::InvalidArgs | ErrorClass::MalformedToolCall => {
                        format!("{} does not run; the model is told what to change", one_line(tool))
                    }
                    class => {
                        let told = fit(&one_line(message), SHOWN);
                        format!("{} does not run ({class}); the model is told: {told}", one_line(tool))
                    }
                };
                self.line("⊘", WARN, &text);
            }
            Note::OrphanToolCallsPruned(told) => {
                self.line("✎", WARN, &format!("history repaired: {}", repaired(told)));
            }
            Note::ContextReduced(told) => self.reduced(told),
            Note::Repaired { tool, repairs, .. } => {
                let what = if tool.is_empty() { "the report".to_owned() } else { one_line(tool) };
                self.line("✎", WARN, &format!("JSON repaired for {what}: {repairs}"));
            }
            Note::Renamed { tool, from, .. } => {
                let text = format!("{} is taken for {}", one_line(from), one_line(tool));
                self.line("~", WARN, &text);
            }
            Note::EffectChecked { tool, by, effect, .. } => {
                self.line("?", WARN, &checked(tool, by, *effect));
            }
            Note::RoundsFailed { rounds, .. } => {
                let text = format!("no call went well {rounds} times in a row; the model is told");
                self.line("!", WARN, &text);
            }
            Note::LeakedCalls { .. } => {
                self.line("✎", WARN, "calls stood in the text; they are taken as calls");
            }
            Note::RejectTurn { error_type, .. } => {
                self.line(
                    "⊘",
                    WARN,
                    &format!("reply rejected ({error_type}); the model is told what is due"),
                );
            }
            Note::ResultCut { .. } => self.result_cut(note),
            Note::TurnRetracted { target, received, .. } => self.retracted(target, *received),
            Note::Breaker { tool, state, until } => self.breaker(tool, *state, *until, because),
            Note::ToolsHidden { tools } => self.hidden(tools),
            Note::LoopGuard(told) => self.repeats(told),
            Note::TurnRetry(retry) => {
                self.next_target = match retry.action {
                    RetryAction::SkipProvider => retry.next_target.clone(),
                    RetryAction::Retry | RetryAction::Abort => None,
                };
                if retry.sources.iter().any(|rule| rule == "context_window") {
                    self.line("⊘", WARN, &one_line(&retry.log_message));
                }
            }
            Note::Exhausted { exhausted, decision } => self.exhausted(exhausted, *decision),
            Note::Shadow { action, delay: wait, .. } => {
                let text = format!("in shadow: {action} would be tried again after {}", delay(*wait));
                self.line("○", WARN, &text);
            }
            Note::FinalTurn { reason, turn, max_turns } => self.last_turn(*reason, *turn, *max_turns),
            Note::OutputAccepted { source: ReportSource::Pending, .. } => {
                self.line(
                    "✓",
                    WARN,
                    "no report came; the text of an earlier reply is taken, which holds as one",
                );
            }
            Note::OutputAccepted { .. } => self.line("✓", GOOD, "report accepted"),
            Note::OutputRefused { message, .. } => {
                let mut text = "report refused; the model is told what to change".to_owned();
                if *message != self.failure {
                    text = format!("report refused: {}", fit(&one_line(message), SHOWN));
                }
                self.line("⊘", WARN, &text);
            }
            Note::ProposalRefused { message, .. } => {
                self.line("⊘", WARN, &format!("proposal refused: {message}"));
            }
            Note::Warning { message } => self.line("!", WARN, &one_line(message)),
            Note::Finish { outcome } => {
                let (style, text) = match outcome {
                    Outcome::Reported { .. } => (GOOD, "done: reported"),
                    Outcome::Answered { .. } => (GOOD, "done: answered"),
                    Outcome::Failed { .. } => (BAD, "failed"),
                    Outcome::Stopped { .. } => (WARN, "stopped"),
                };
                self.line("●", style, text);
            }
            // How a tool call ended has been said by its event, or is said by the end of its attempts.
            _ => {}
        }
    }
}

impl<W: Write + Send> Observer for Timeline<W> {
    fn resumed(&mut self, past: &Past) {
        self.going_on(past);
    }

    fn event(&mut self, envelope: &Envelope) {
        self.now = envelope.now;
        if self.started == Instant::default() {
            self.started = envelope.now;
        }
        match &envelope.event {
            Event::RunStarted(run) => {
                self.started = envelope.now;
                self.run_started(run);
            }
            Event::ModelResponded { work, reply } => {
                self.giving_up().clear();
                let name = self.name(*work);
                self.answered(&name, reply);
            }
            Event::ModelFailed { work, failure } => {
                let name = self.name(*work);
                self.failed(&name, failure);
            }
            Event::ToolFinished { work, outcome, .. } => {
                let name = self.name(*work);
                self.tool_finished(&name, outcome);
            }
            Event::PolicyChanged { policy } => {
                let digest = policy.get(..12).unwrap_or(policy);
                self.line("↻", WARN, &format!("the policy has changed; from now on {digest} is in force"));
            }
            Event::ToolsChanged { tools } => {
                let count = tools.len();
                self.line("↻", WARN, &format!("the tools have changed; there are {count} of them now"));
            }
            Event::StopRequested { reason } | Event::Cancelled { reason } => self.line("■", WARN, reason),
            // What it changes, the directives say.
            _ => {}
        }
    }

    fn streamed(&mut self, text: &str) {
        self.say(text);
    }

    fn progressed(&mut self, progress: &Progress) {
        let text = fit(&one_line(&progress.text), SHOWN);
        self.status.set(format!("tool {}: {text}", progress.tool));
    }

    fn on_reload_error(&mut self, error: &PolicyFilesError) {
        self.line("↻", BAD, "the policy has changed but cannot be used; the last good one stays in force");
        for line in error.to_string().lines() {
            self.print(&format!("{MARGIN}{line}"), &format!("{MARGIN}  "));
        }
    }

    fn on_shared_error(&mut self, error: &SharedStateError) {
        let error = one_line(&error.to_string());
        self.line(
            "⇄",
            WARN,
            &format!("what hosts share is out of reach: {error}; the run goes on with what it knows"),
        );
    }

    fn directive(&mut self, directive: &Directive) {
        match &directive.order {
            Order::Work(work) => self.work(work),
            Order::Note(note) => self.note(note, &directive.because),
        }
        if !matches!(directive.order, Order::Note(Note::Feedback { .. } | Note::ToolEnded { .. })) {
            self.reasons(&directive.because);
        }
    }
}

/// How long a breaker stays open that lets no probe through.
fn lifetime(because: &[Because]) -> &'static str {
    match because.iter().find(|because| because.rule == "breaker.scope").map(|because| because.value.as_str())
    {
        Some("turn") => "the rest of the turn",
        Some("session") => "the rest of the session",
        Some("shared") => "all runs that share it",
        _ => "the rest of the run",
    }
}

/// What was done about the history.
fn repaired(told: &OrphanToolCallsPruned) -> String {
    let done = [
        (told.pruned_count, "calls taken out"),
        (told.injected_count, "results put in"),
        (told.dropped_count, "results taken out"),
        (told.moved_count, "results moved to their calls"),
        (told.malformed_count, "calls with broken arguments"),
    ];
    let done = done.into_iter().filter(|(number, _)| *number > 0);
    done.map(|(number, what)| format!("{what}: {number}")).collect::<Vec<_>>().join(", ")
}

/// What a person is asked.
fn asked(ask: &Ask) -> String {
    let what = match ask.question {
        Question::Run => "may it run",
        Question::RunAgain => "it failed and may have acted; may it run again",
    };
    let arguments = fit(&one_line(&ask.arguments.to_string()), 60);
    format!("{}({arguments}): {what}?", one_line(&ask.tool))
}

/// What was found out about a run that may have acted.
fn checked(tool: &str, by: &str, effect: EffectState) -> String {
    let (tool, by) = (one_line(tool), if by.is_empty() { "the user".into() } else { one_line(by) });
    match effect {
        EffectState::NotStarted => format!("{tool} may run again: {by} says so"),
        EffectState::Committed => format!("{tool} has acted: {by} says so"),
        EffectState::Started | EffectState::Unknown => {
            format!("nobody knows whether {tool} has acted, and it does not run again")
        }
    }
}

fn attempt(attempt: u32, max: Option<u32>) -> String {
    if attempt > 1 { format!(", attempt {attempt}{}", of(max)) } else { String::new() }
}

fn of(max: Option<u32>) -> String {
    max.map(|max| format!(" of {max}")).unwrap_or_default()
}

#[cfg(test)]
mod tests;
