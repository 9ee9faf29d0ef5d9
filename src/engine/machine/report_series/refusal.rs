//! A report that is refused: counted, told to the model, and asked for again as often as the policy allows.

use serde_json::json;

use super::super::out::Out;
use super::super::pending_delay::Subject;
use super::super::run_parts::RunParts;
use super::super::session::Failed;
use super::ReportSeries;
use crate::engine::because::to_retry;
use crate::engine::directive::{Because, Note};
use crate::engine::metric::MetricName;
use crate::engine::problems::join_problems;
use crate::engine::reason::told;
use crate::engine::retry::{Case, Obstacle, Verdict};
use crate::engine::state::Series;
use crate::policy::{ErrorClass, OutputPolicy, Problem, Trigger};
use crate::session::{FeedbackSource, ReducerError, StopReason};

/// What is wrong with what came as the report.
pub(super) enum Fault {
    /// It does not hold.
    Invalid(Vec<Problem>),
    /// It is no report but a text; what the model is told.
    Text(ErrorClass, String),
    /// A reducer did not take it.
    Reducer(Box<ReducerError>),
}

/// What became of a report that was refused.
pub(super) enum Refused {
    /// The model is asked again.
    Again { text: String, why: Vec<Because> },
    /// It is not.
    GivenUp { text: String, reason: StopReason },
}

impl Fault {
    pub(super) const fn class(&self) -> ErrorClass {
        match self {
            Self::Invalid(_) => ErrorClass::InvalidOutput,
            Self::Text(class, _) => *class,
            Self::Reducer(_) => ErrorClass::ReducerError,
        }
    }

    fn message(&self) -> String {
        match self {
            Self::Invalid(problems) => join_problems(problems),
            Self::Text(_, message) => message.clone(),
            Self::Reducer(error) => error.message.clone(),
        }
    }

    fn objection(&self) -> Option<ReducerError> {
        match self {
            Self::Invalid(_) | Self::Text(..) => None,
            Self::Reducer(error) => Some(ReducerError::clone(error)),
        }
    }

    /// What the model is told.
    fn text(
        &self,
        objection: Option<&ReducerError>,
        output: &OutputPolicy,
        attempt: u32,
        out: &mut Out<'_>,
    ) -> String {
        match (objection, self) {
            // What a reducer has against a report is for the model to change, as much as any other problem.
            (Some(error), _) => {
                let message = format!("{}: {}", error.reducer, error.message);
                say_invalid(output, attempt, &[Problem { pointer: String::new(), message }], out)
            }
            (None, Self::Invalid(problems)) => say_invalid(output, attempt, problems, out),
            (None, Self::Text(..) | Self::Reducer(_)) => self.message(),
        }
    }
}

impl ReportSeries {
    /// Refuses a report, and decides whether another one is asked for.
    pub(super) fn refuse(&mut self, output: &OutputPolicy, fault: &Fault, run: &mut RunParts<'_>) -> Refused {
        let class = fault.class();
        let now = run.out.now;
        let mut series = self.series.take().unwrap_or_else(|| Series::begin(now));
        let most = output.retry.for_class(class).max_attempts.value;
        let over = series.resume(most);
        let progress = series.progress();
        let message = fault.message();
        let mut objection = fault.objection();
        let obstacle = if objection.is_some() { Obstacle::ReducerError } else { Obstacle::None };
        let mut case = Case { correction: true, ..run.case(class, None, obstacle) };
        let seed = run.seed("output", run.id);
        let mut verdict = match over {
            Some(reason) => Verdict::Stop(reason),
            None => run.verdict("output", &output.retry, progress, &mut case, seed),
        };
        let attempt = progress.attempt;
        let source = FeedbackSource::StructuredOutput;
        let failed =
            Failed { source, tool: None, attempt, class, message: &message, next_delay: verdict.delay() };
        if over.is_none() && output.retry.retries(class) {
            objection = objection.or(run.out.feedback(&output.retry, &failed));
        }
        let turn = run.turn;
        let refused = run.out.reduce(
            Trigger::OutputRefused,
            || json!({ "attempt": attempt, "error_type": class, "message": message, "turn": turn }),
        );
        objection = objection.or(refused);
        if objection.is_some() {
            verdict = Verdict::Stop(StopReason::ReducerError);
        }
        series.record(class, &message, now, verdict.delay());
        run.last.error = Some((class, message.clone()));
        if let Verdict::Stop(reason) = verdict {
            series.over = Some(reason);
        }
        self.series = Some(series);
        let text = fault.text(objection.as_ref(), output, attempt, &mut run.out);
        let max_attempts = most.limit();
        match verdict {
            Verdict::Retry { delay, by } => {
                let why = to_retry(run.policy(), &output.retry, progress, &case, delay, by);
                run.charge("output", &output.retry, class);
                run.out.count(MetricName::RetryDelaySeconds, "output".into(), delay.0);
                let subject = Subject {
                    name: "output".into(),
                    attempt: attempt.saturating_add(1),
                    max_attempts,
                    error_type: class,
                    message: message.clone(),
                };
                run.terms.delay.wait(delay, subject, why.clone(), now);
                let why = told(run.policy(), why);
                note_refused(fault, attempt, max_attempts, message, why.clone(), &mut run.out);
                Refused::Again { text, why }
            }
            Verdict::Stop(reason) => {
                let why = run.why_stopped("output", &output.retry, progress, &case, reason);
                note_refused(fault, attempt, max_attempts, message, why, &mut run.out);
                Refused::GivenUp { text, reason }
            }
        }
    }

    /// What the model is told of a report whose call cannot be read.
    pub(in crate::engine) fn say_malformed(
        &self,
        output: &OutputPolicy,
        problem: &Problem,
        out: &mut Out<'_>,
    ) -> String {
        let attempt = self.refused.saturating_add(1);
        say_invalid(output, attempt, core::slice::from_ref(problem), out)
    }
}

/// What the model is told of a report that does not hold.
pub(in crate::engine) fn say_problems(
    output: &OutputPolicy,
    attempt: u32,
    max_attempts: Option<u32>,
    problems: &[Problem],
    out: &mut Out<'_>,
) -> String {
    let vars = json!({
        "tool": output.tool.value, "attempt": attempt, "max_attempts": max_attempts, "problems": problems,
    });
    out.say(&output.messages.invalid, vars)
}

fn say_invalid(output: &OutputPolicy, attempt: u32, problems: &[Problem], out: &mut Out<'_>) -> String {
    say_problems(output, attempt, output.retry.max_attempts.value.limit(), problems, out)
}

/// A text that came instead of a report is rejected as a turn; it is no report that could be refused.
fn note_refused(
    fault: &Fault,
    attempt: u32,
    max_attempts: Option<u32>,
    message: String,
    why: Vec<Because>,
    out: &mut Out<'_>,
) {
    match fault {
        Fault::Text(..) => {}
        Fault::Invalid(_) | Fault::Reducer(_) => {
            out.note(Note::OutputRefused { attempt, max_attempts, message }, why);
        }
    }
}
