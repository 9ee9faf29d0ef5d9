//! Refused reports: counted, explained to the model, and requested again as often as the policy allows.

use serde_json::json;

use super::super::out::StepOutput;
use super::super::pending_delay::WaitSubject;
use super::super::run_parts::RunParts;
use super::super::session::FailedAttempt;
use super::ReportSeries;
use crate::engine::attempt_series::AttemptSeries;
use crate::engine::because::{to_allow, to_retry};
use crate::engine::directive::{DecisionReason, Note};
use crate::engine::metric::MetricName;
use crate::engine::problems::join_problems;
use crate::engine::reason::told;
use crate::engine::retry::{FailureContext, RetryBlocker, RetryVerdict};
use crate::policy::{ErrorClass, OutputPolicy, Trigger};
use crate::session::{FeedbackSource, ReducerError, StopReason};
use crate::text::SchemaProblem;

/// Why a report is refused.
pub(super) enum ReportFault {
    /// The report is invalid.
    Invalid(Vec<SchemaProblem>),
    /// Text instead of a report, with the message to the model.
    Text(ErrorClass, String),
    /// A reducer objected to the report.
    Reducer(Box<ReducerError>),
}

/// What follows a refused report.
pub(super) enum RefusedReport {
    /// Another report is requested.
    Again { text: String, why: Vec<DecisionReason> },
    /// No further report is requested.
    GivenUp { text: String, reason: StopReason },
}

impl ReportFault {
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

    /// The message to the model.
    fn text(
        &self,
        objection: Option<&ReducerError>,
        output: &OutputPolicy,
        attempt: u32,
        out: &mut StepOutput<'_>,
    ) -> String {
        match (objection, self) {
            // For the model a reducer's objection is an ordinary problem of the report, so it has the same form.
            (Some(error), _) => {
                let message = format!("{}: {}", error.reducer, error.message);
                say_invalid(output, attempt, &[SchemaProblem { pointer: String::new(), message }], out)
            }
            (None, Self::Invalid(problems)) => say_invalid(output, attempt, problems, out),
            (None, Self::Text(..) | Self::Reducer(_)) => self.message(),
        }
    }
}

impl ReportSeries {
    /// Refuses a report, and decides whether another one is requested.
    pub(super) fn refuse(
        &mut self,
        output: &OutputPolicy,
        fault: &ReportFault,
        run: &mut RunParts<'_>,
    ) -> RefusedReport {
        let class = fault.class();
        let now = run.out.now;
        let mut series = self.series.take().unwrap_or_else(|| AttemptSeries::begin(now));
        let most = output.retry.for_class(class).max_attempts.value;
        // If the run continued after the end of the series, the series stays ended unless the limit has grown.
        let over = series.resume(most);
        let progress = series.progress();
        let message = fault.message();
        let mut objection = fault.objection();
        let obstacle = if objection.is_some() { RetryBlocker::ReducerError } else { RetryBlocker::None };
        // The model corrects the report, so the backoff for corrections applies.
        let mut case = FailureContext { correction: true, ..run.case(class, None, obstacle) };
        let seed = run.seed("output", run.id);
        let mut verdict = match over {
            Some(reason) => RetryVerdict::Stop(reason),
            None => run.verdict("output", &output.retry, progress, &mut case, seed),
        };
        let attempt = progress.attempt;
        let source = FeedbackSource::StructuredOutput;
        let failed = FailedAttempt {
            source,
            tool: None,
            attempt,
            class,
            message: &message,
            next_delay: verdict.delay(),
        };
        // No feedback for a class that is not retried: no attempt would read it.
        if over.is_none() && output.retry.retries(class) {
            objection = objection.or(run.out.feedback(&output.retry, &failed));
        }
        let turn = run.turn;
        let refused = run.out.reduce(
            Trigger::OutputRefused,
            || json!({ "attempt": attempt, "error_type": class, "message": message, "turn": turn }),
        );
        objection = objection.or(refused);
        // An objection ends the attempts, whatever the policy would allow (weakincentives: "halts further tool
        // retries").
        if objection.is_some() {
            verdict = RetryVerdict::Stop(StopReason::ReducerError);
        }
        series.record(class, &message, now, verdict.delay());
        run.last.error = Some((class, message.clone()));
        if let RetryVerdict::Stop(reason) = verdict {
            // Stored, because another report may come in a later turn.
            series.over = Some(reason);
        }
        self.series = Some(series);
        let text = fault.text(objection.as_ref(), output, attempt, &mut run.out);
        let max_attempts = most.limit();
        match verdict {
            RetryVerdict::Retry { delay, by } => {
                let why = to_retry(run.policy(), &output.retry, progress, &case, delay, by);
                run.charge("output", &output.retry, class);
                run.out.count(MetricName::RetryDelaySeconds, "output".into(), delay.0);
                let subject = WaitSubject {
                    name: "output".into(),
                    attempt: attempt.saturating_add(1),
                    max_attempts,
                    error_type: class,
                    message: message.clone(),
                    pool: None,
                };
                run.terms.delay.wait(delay, subject, why, now);
                // The directive to wait names the rule for the delay.
                let why = told(run.policy(), to_allow(run.policy(), &output.retry, progress, &case));
                note_refused(fault, attempt, max_attempts, message, why.clone(), &mut run.out);
                RefusedReport::Again { text, why }
            }
            RetryVerdict::Stop(reason) => {
                let why = run.why_stopped("output", &output.retry, progress, &case, reason);
                note_refused(fault, attempt, max_attempts, message, why, &mut run.out);
                RefusedReport::GivenUp { text, reason }
            }
        }
    }

    /// The text for the model about a report whose call cannot be parsed.
    pub(in crate::engine) fn say_malformed(
        &self,
        output: &OutputPolicy,
        problem: &SchemaProblem,
        out: &mut StepOutput<'_>,
    ) -> String {
        // The number of delivered reports is used, since a call that cannot be parsed is not part of the series.
        let attempt = self.refused.saturating_add(1);
        say_invalid(output, attempt, core::slice::from_ref(problem), out)
    }
}

/// The text for the model about an invalid report.
pub(in crate::engine) fn say_problems(
    output: &OutputPolicy,
    attempt: u32,
    max_attempts: Option<u32>,
    problems: &[SchemaProblem],
    out: &mut StepOutput<'_>,
) -> String {
    let vars = json!({
        "tool": output.tool.value, "attempt": attempt, "max_attempts": max_attempts, "problems": problems,
    });
    out.say(&output.messages.invalid, vars)
}

fn say_invalid(
    output: &OutputPolicy,
    attempt: u32,
    problems: &[SchemaProblem],
    out: &mut StepOutput<'_>,
) -> String {
    say_problems(output, attempt, output.retry.max_attempts.value.limit(), problems, out)
}

/// Notes a refused report. Text instead of a report is rejected as a turn: there is no report to refuse.
fn note_refused(
    fault: &ReportFault,
    attempt: u32,
    max_attempts: Option<u32>,
    message: String,
    why: Vec<DecisionReason>,
    out: &mut StepOutput<'_>,
) {
    match fault {
        ReportFault::Text(..) => {}
        ReportFault::Invalid(_) | ReportFault::Reducer(_) => {
            out.note(Note::OutputRefused { attempt, max_attempts, message }, why);
        }
    }
}
