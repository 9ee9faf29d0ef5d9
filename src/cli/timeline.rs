//! The live timeline: what happened, what is waited for, and which line of the policy decided it.

use std::collections::HashSet;
use std::io::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anstyle::{AnsiColor, Style};

mod answer;
mod resumed;

use crate::cli::status::StatusLine;
use crate::cli::text::{fit, one_line, tokens, wrap};
use crate::engine::{
    Directive, DirectiveKind, Envelope, Event, ModelReply, Narration, Narrator, Note, Prominence, RunStarted,
    Severity, Work,
};
use crate::host::{Observer, PolicyFilesError, SessionCheckpoint, SharedStateError, ToolProgress};
use crate::session::RetryExhausted;
use crate::time::Instant;
use answer::StreamedAnswer;

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

/// Prints a run as it continues, for people.
pub(crate) struct RunTimeline<W> {
    out: W,
    status: StatusLine,
    /// The columns of a line; `None`: as many as it takes.
    width: fn() -> Option<usize>,
    quiet: bool,
    started: Instant,
    now: Instant,
    narrator: Narrator,
    /// The reasons said in this turn: none is said twice.
    said: HashSet<String>,
    /// The models that were given up since one answered.
    given_up: GivenUp,
    /// What is streamed, where it is shown.
    answer: Option<StreamedAnswer>,
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

impl<W: Write + Send> RunTimeline<W> {
    /// Prints to `out`; `status` shows what is waited for; `quiet` leaves the reasons out.
    pub(crate) fn new(out: W, status: StatusLine, quiet: bool) -> Self {
        Self {
            out,
            status,
            width: || None,
            quiet,
            started: Instant::default(),
            now: Instant::default(),
            narrator: Narrator::default(),
            said: HashSet::new(),
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
        self.answer = Some(StreamedAnswer::new(of_answers(columns)));
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

    fn tell(&mut self, told: &Narration) {
        let style = match told.severity {
            _ if told.good => GOOD,
            Severity::Error => BAD,
            Severity::Warn => WARN,
            Severity::Trace | Severity::Debug | Severity::Info => INFO,
        };
        self.line(told.sign, style, &told.to_string());
    }

    fn reasons(&mut self, because: Vec<String>) {
        // What holds for one attempt of a turn holds for the next.
        let because = because.into_iter().filter(|line| self.said.insert(line.clone()));
        for line in because.collect::<Vec<_>>() {
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

    fn answered(&mut self, told: Narration, reply: &ModelReply) {
        self.giving_up().clear();
        // What was shown while it came is not shown again.
        let is_shown = self.spoke && reply.calls.is_empty();
        let told = if is_shown { told.with("has answered", "") } else { told };
        let tokens = reply.usage.map(|usage| format!("  {DIM}{}{DIM:#}", tokens(usage))).unwrap_or_default();
        self.line(told.sign, GOOD, &format!("{told}{tokens}"));
    }

    /// Shows what is waited for, and keeps what later lines are about.
    fn set_going(&mut self, work: &Work) {
        match work {
            Work::PrepareTurn(_) => self.said.clear(),
            Work::Summarize(call) => self.status.set(format!("model {}", one_line(&call.target))),
            Work::CallModel(call) => {
                (self.speaker, self.spoke) = (one_line(&call.target), false);
                self.status.set(format!(
                    "model {}{}",
                    self.speaker,
                    attempt(call.attempt, call.max_attempts)
                ));
            }
            Work::RunTool(run) => {
                let attempt = attempt(run.attempt, run.max_attempts);
                self.status.set(format!("tool {}{attempt}", one_line(&run.tool)));
            }
            Work::Wait(wait) => {
                self.status
                    .count_down(format!("waiting for {} ({})", wait.subject, wait.error_type), wait.delay);
            }
            _ => {}
        }
    }
}

impl<W: Write + Send> Observer for RunTimeline<W> {
    fn resumed(&mut self, past: &SessionCheckpoint) {
        self.going_on(past);
    }

    fn event(&mut self, envelope: &Envelope) {
        self.now = envelope.now;
        if self.started == Instant::default() {
            self.started = envelope.now;
        }
        let told = self.narrator.event(envelope);
        match &envelope.event {
            Event::RunStarted(run) => {
                self.started = envelope.now;
                self.run_started(run);
            }
            Event::ModelResponded { reply, .. } => self.answered(told, reply),
            _ if told.prominence == Prominence::Main => self.tell(&told),
            // What it changes, the directives say.
            _ => {}
        }
    }

    fn streamed(&mut self, text: &str) {
        self.say(text);
    }

    fn progressed(&mut self, progress: &ToolProgress) {
        let text = fit(&one_line(&progress.text), SHOWN);
        self.status.set(format!("tool {}: {text}", progress.tool));
    }

    fn on_reload_error(&mut self, error: &PolicyFilesError) {
        self.line("↻", BAD, "the policy has changed but cannot be used; the last good one stays in effect");
        for line in error.to_string().lines() {
            self.print(&format!("{MARGIN}{line}"), &format!("{MARGIN}  "));
        }
    }

    fn on_shared_error(&mut self, error: &SharedStateError) {
        let error = one_line(&error.to_string());
        self.line(
            "⇄",
            WARN,
            &format!("what hosts share is out of reach: {error}; the run continues with what it knows"),
        );
    }

    fn directive(&mut self, directive: &Directive) {
        let mut told = self.narrator.directive(directive);
        match &directive.order {
            DirectiveKind::Work(work) => self.set_going(work),
            DirectiveKind::Note(Note::Exhausted { exhausted, .. })
                if exhausted.action.starts_with("model ") =>
            {
                self.giving_up().push(exhausted.clone());
            }
            // The end of the attempts has the reasons of both.
            DirectiveKind::Note(Note::Feedback { .. } | Note::ToolEnded { .. }) => told.because.clear(),
            DirectiveKind::Note(_) => {}
        }
        if told.prominence == Prominence::Main {
            self.tell(&told);
        }
        if !self.quiet {
            self.reasons(told.because);
        }
    }
}

fn attempt(attempt: u32, max: Option<u32>) -> String {
    let of = max.map(|max| format!(" of {max}")).unwrap_or_default();
    if attempt > 1 { format!(", attempt {attempt}{of}") } else { String::new() }
}

#[cfg(test)]
mod tests;
