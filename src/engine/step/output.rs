//! The final report: accepted, or refused with feedback as often as the policy allows.

use serde_json::{Value, json};

use super::super::because::to_retry;
use super::super::directive::{Because, Decision, Note, Outcome};
use super::super::event::Drive;
use super::super::machine::{Failed, repair_text};
use super::super::metric::MetricName;
use super::super::problems::{changed, join_problems, parse, reported};
use super::super::reason::told;
use super::super::retry::{Case, Obstacle, Verdict};
use super::super::state::{Pending, Series, SlotPhase, Subject};
use super::Step;
use crate::policy::{ErrorClass, OutputPolicy, Problem, Trigger};
use crate::session::{FeedbackSource, Message, ReducerError, ReportSource, RetryExhausted, StopReason};

/// What is wrong with what came as the report.
enum Fault {
    /// It does not hold.
    Invalid(Vec<Problem>),
    /// It is no report but a text; what the model is told.
    Text(ErrorClass, String),
    /// A reducer did not take it.
    Reducer(Box<ReducerError>),
}

impl Fault {
    const fn class(&self) -> ErrorClass {
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
}

/// What became of a report that was refused.
enum Refused {
    /// The model is asked again.
    Again { text: String, why: Vec<Because> },
    /// It is not.
    GivenUp { text: String, reason: StopReason },
}

impl Step<'_> {
    /// The report came as a tool call. If the policy has no report any more, that is a tool that does not exist.
    pub(super) fn report_called(&mut self, index: usize, raw: &str) {
        let Some(output) = self.policy.output().cloned() else {
            let tool = self.state.batch.slots.get(index).map(|slot| slot.tool.clone()).unwrap_or_default();
            let refusal = self.not_found(&tool);
            return self.set_phase(index, SlotPhase::Refused(refusal));
        };
        if self.state.report.accepted.is_some() {
            return self.answer(index, "a report was accepted already".into(), true);
        }
        match self.judge(&output, raw) {
            Ok(report) => {
                self.accept(report, ReportSource::ToolCall);
                self.answer(index, "accepted".into(), false);
            }
            Err(fault) => match self.refuse_delivered(&output, &fault) {
                Refused::Again { text, .. } => self.answer(index, text, true),
                Refused::GivenUp { text, reason } => {
                    self.answer(index, text, true);
                    if !self.output_exhausted(&output, reason) {
                        self.set_phase(index, SlotPhase::WithPlanner);
                    }
                }
            },
        }
    }

    /// The report came as plain text, or from a host that runs its own loop.
    pub(super) fn text_proposed(&mut self, raw: String) {
        let Some(output) = self.policy.output().cloned() else {
            return self.finish(Outcome::Answered { text: raw }, Vec::new());
        };
        let raw = repair_text(&raw, "", "", &mut self.parts().out).unwrap_or(raw);
        match self.judge(&output, &raw) {
            Ok(report) => {
                let source = match self.state.context.drive {
                    Drive::Turns => ReportSource::Text,
                    Drive::Calls => ReportSource::Host,
                };
                self.accept(report, source);
                self.after_output();
            }
            Err(fault) => {
                let refused = self.refuse_delivered(&output, &fault);
                self.tell(&output, fault.class(), refused);
            }
        }
    }

    fn refuse_delivered(&mut self, output: &OutputPolicy, fault: &Fault) -> Refused {
        let refused = self.refuse_output(output, fault);
        self.report_attempted();
        refused
    }

    /// Plain text came where a report was due.
    pub(super) fn text_refused(&mut self, class: ErrorClass, raw: &str) {
        let Some(output) = self.policy.output().cloned() else { return };
        if class == ErrorClass::TextOnly {
            self.keep_as_report(raw);
        }
        let attempt = self.state.report.series.as_ref().map_or(1, Series::attempt);
        let vars = json!({
            "tool": output.tool.value, "attempt": attempt, "max_attempts": output.retry.max_attempts.value.limit(),
        });
        let text = self.say(&self.policy.turn().text_only_message.clone(), vars);
        let refused = self.refuse_output(&output, &Fault::Text(class, text));
        self.tell(&output, class, refused);
    }

    /// Keeps a text that would hold as the report, for the case that no other one comes.
    pub(super) fn keep_as_report(&mut self, raw: &str) {
        let Some(output) = self.policy.output().filter(|_| self.policy.turn().pending_report.value) else {
            return;
        };
        let Ok(report) = parse(self.policy, raw) else { return };
        if reported(output, &report).is_empty() {
            self.state.report.pending = Some(report);
        }
    }

    /// Goes on after a report or a text that did not come as a tool call.
    pub(super) fn after_output(&mut self) {
        match self.state.context.drive {
            Drive::Turns => self.next_turn_when_due(),
            Drive::Calls => {
                if let Some(output) = self.state.report.accepted.take() {
                    self.finish(Outcome::Reported { output }, Vec::new());
                }
            }
        }
    }

    fn tell(&mut self, output: &OutputPolicy, class: ErrorClass, refused: Refused) {
        match refused {
            Refused::Again { text, why } => {
                self.reject_turn(class, text, why);
                self.after_output();
            }
            Refused::GivenUp { text, reason } => {
                self.append(Message::User { text, guidance: Some(class.name().into()) });
                self.give_up(output, reason);
            }
        }
    }

    /// The last turn brought other calls instead of the report: that is one attempt at it. Without a report to
    /// deliver, it was the end.
    pub(super) fn nothing_reported(&mut self) {
        let Some(output) = self.policy.output().cloned() else {
            let why = told(self.policy, self.state.ending.why(self.rules(), []));
            return self.run_failed(StopReason::Attempts, why);
        };
        let message = format!("other tools were called instead of `{}`", output.tool.value);
        let fault = Fault::Invalid(vec![Problem { pointer: String::new(), message }]);
        // The calls have been answered with what is due.
        match self.refuse_output(&output, &fault) {
            Refused::Again { .. } => self.after_output(),
            Refused::GivenUp { reason, .. } => self.give_up(&output, reason),
        }
    }

    fn give_up(&mut self, output: &OutputPolicy, reason: StopReason) {
        if self.output_exhausted(output, reason) && !self.state.is_over() {
            self.after_output();
        }
    }

    /// Holds a report against the schema, the validators and the reducers.
    fn judge(&mut self, output: &OutputPolicy, raw: &str) -> Result<Value, Fault> {
        let report = self.parsed_report(output, raw).map_err(Fault::Invalid)?;
        let turn = self.state.turn;
        match self.reduce(Trigger::OutputAccepted, || json!({ "output": report, "turn": turn })) {
            None => Ok(report),
            Some(error) => Err(Fault::Reducer(Box::new(error))),
        }
    }

    /// The report, or what the schema and the validators have against it.
    pub(super) fn parsed_report(&self, output: &OutputPolicy, raw: &str) -> Result<Value, Vec<Problem>> {
        let report = parse(self.policy, raw).map_err(|problem| vec![problem])?;
        let mut problems: Vec<Problem> = changed(raw).into_iter().collect();
        if problems.is_empty() {
            problems = reported(output, &report);
        }
        if problems.is_empty() { Ok(report) } else { Err(problems) }
    }

    fn accept(&mut self, report: Value, source: ReportSource) {
        self.state.report.pending = None;
        let series = self.state.report.series.take();
        let attempts = series.as_ref().map_or(1, Series::attempt);
        let after = series.and_then(|series| series.history.last().map(|record| record.error_type));
        if let Some(output) = self.policy.output() {
            self.earn("output", &output.retry.budget.value, after);
        }
        self.count(MetricName::RetryAttempts, "output".into(), attempts.into());
        self.note(Note::OutputAccepted { output: report.clone(), source }, Vec::new());
        self.state.report.accepted = Some(report);
    }

    fn refuse_output(&mut self, output: &OutputPolicy, fault: &Fault) -> Refused {
        let class = fault.class();
        let now = self.state.now;
        let mut series = self.state.report.series.take().unwrap_or_else(|| Series::begin(now));
        let most = output.retry.for_class(class).max_attempts.value;
        let over = series.resume(most);
        let progress = series.progress();
        let message = fault.message();
        let mut objection = fault.objection();
        let obstacle = if objection.is_some() { Obstacle::ReducerError } else { Obstacle::None };
        let mut case = Case { correction: true, ..self.case(class, None, obstacle) };
        let seed = self.seed("output", &self.state.run);
        let mut verdict = match over {
            Some(reason) => Verdict::Stop(reason),
            None => self.verdict("output", &output.retry, progress, &mut case, seed),
        };
        let attempt = progress.attempt;
        let max_attempts = most.limit();
        let source = FeedbackSource::StructuredOutput;
        let failed =
            Failed { source, tool: None, attempt, class, message: &message, next_delay: verdict.delay() };
        if over.is_none() && output.retry.retries(class) {
            objection = objection.or(self.feedback(&output.retry, &failed));
        }
        let turn = self.state.turn;
        let refused = self.reduce(
            Trigger::OutputRefused,
            || json!({ "attempt": attempt, "error_type": class, "message": message, "turn": turn }),
        );
        objection = objection.or(refused);
        if objection.is_some() {
            verdict = Verdict::Stop(StopReason::ReducerError);
        }
        series.record(class, &message, now, verdict.delay());
        self.state.last_error = Some((class, message.clone()));
        if let Verdict::Stop(reason) = verdict {
            series.over = Some(reason);
        }
        self.state.report.series = Some(series);
        let text = match (&objection, fault) {
            // What a reducer has against a report is for the model to change, as much as any other problem.
            (Some(error), _) => {
                let message = format!("{}: {}", error.reducer, error.message);
                let problem = Problem { pointer: String::new(), message };
                self.say_invalid(output, attempt, &[problem])
            }
            (None, Fault::Invalid(problems)) => self.say_invalid(output, attempt, problems),
            (None, Fault::Text(..) | Fault::Reducer(_)) => message.clone(),
        };
        match verdict {
            Verdict::Retry { delay, by } => {
                let why = to_retry(self.policy, &output.retry, progress, &case, delay, by);
                self.charge("output", &output.retry, class);
                self.count(MetricName::RetryDelaySeconds, "output".into(), delay.0);
                let subject = Subject {
                    name: "output".into(),
                    attempt: attempt.saturating_add(1),
                    max_attempts,
                    error_type: class,
                    message: message.clone(),
                };
                self.hold(delay, subject, why.clone());
                let why = told(self.policy, why);
                self.report_refused(fault, attempt, max_attempts, message, why.clone());
                Refused::Again { text, why }
            }
            Verdict::Stop(reason) => {
                let why = self.why_stopped("output", &output.retry, progress, &case, reason);
                self.report_refused(fault, attempt, max_attempts, message, why);
                Refused::GivenUp { text, reason }
            }
        }
    }

    pub(super) fn say_invalid(
        &mut self,
        output: &OutputPolicy,
        attempt: u32,
        problems: &[Problem],
    ) -> String {
        self.say_problems(output, attempt, output.retry.max_attempts.value.limit(), problems)
    }

    pub(super) fn say_problems(
        &mut self,
        output: &OutputPolicy,
        attempt: u32,
        max_attempts: Option<u32>,
        problems: &[Problem],
    ) -> String {
        let vars = json!({
            "tool": output.tool.value, "attempt": attempt, "max_attempts": max_attempts, "problems": problems,
        });
        self.say(&output.invalid_message, vars)
    }

    /// A text that came instead of a report is rejected as a turn; it is no report that could be refused.
    fn report_refused(
        &mut self,
        fault: &Fault,
        attempt: u32,
        max_attempts: Option<u32>,
        message: String,
        why: Vec<Because>,
    ) {
        match fault {
            Fault::Text(..) => {}
            Fault::Invalid(_) | Fault::Reducer(_) => {
                self.note(Note::OutputRefused { attempt, max_attempts, message }, why);
            }
        }
    }

    /// No further report is asked for. `false`: the planner has to decide first.
    fn output_exhausted(&mut self, output: &OutputPolicy, reason: StopReason) -> bool {
        let attempts =
            self.state.report.series.as_ref().map(|series| series.history.clone()).unwrap_or_default();
        let progress_attempt = u64::try_from(attempts.len()).unwrap_or(u64::MAX);
        let exhausted = RetryExhausted { action: "output".into(), reason, attempts, retry_after: None };
        self.count(MetricName::RetryAttempts, "output".into(), progress_attempt);
        self.count_overdrawn("output", reason);
        let mut why = Vec::new();
        // A reducer's objection is for the model to answer, within the turns that are left.
        let decision = match reason {
            StopReason::ReducerError => Some(Decision::TellModel),
            _ => self.decide(&output.on_exhausted, &mut why),
        };
        self.note(Note::Exhausted { exhausted: exhausted.clone(), decision }, why);
        match decision {
            Some(decision) => self.give_up_output(decision, exhausted),
            None => self.consult(Pending::ConsultOutput, exhausted),
        }
        decision.is_some()
    }
}
