//! Feedback, reducers and metrics: how failures enter the session.

use serde_json::{Value, json};

use super::super::because::because;
use super::super::directive::Note;
use super::super::metric::MetricName;
use super::out::StepOutput;
use crate::policy::{ErrorClass, RetryPolicy, Setting, Trigger};
use crate::session::{FeedbackSource, ReducerError, RetryFeedback};
use crate::time::Nanos;

/// A failure that may lead to feedback.
pub(in crate::engine) struct FailedAttempt<'a> {
    pub(in crate::engine) source: FeedbackSource,
    pub(in crate::engine) tool: Option<&'a str>,
    pub(in crate::engine) attempt: u32,
    pub(in crate::engine) class: ErrorClass,
    pub(in crate::engine) message: &'a str,
    pub(in crate::engine) next_delay: Nanos,
}

impl StepOutput<'_> {
    /// Records a retryable failure in the session, if the policy asks for it. Returns the objection of a reducer.
    pub(in crate::engine) fn feedback(
        &mut self,
        retry: &RetryPolicy,
        failed: &FailedAttempt<'_>,
    ) -> Option<ReducerError> {
        let feedback = self.feedback_about(retry, failed)?;
        let why = because(self.rules.policy, "retry.emit_feedback", &retry.emit_feedback, []);
        self.note(Note::Feedback { feedback: feedback.clone() }, vec![why]);
        self.remember(feedback)
    }

    /// Like `feedback`, without a required note. `told`: the note is written all the same.
    pub(in crate::engine) fn feedback_unwritten(
        &mut self,
        retry: &RetryPolicy,
        failed: &FailedAttempt<'_>,
        told: bool,
    ) -> Option<ReducerError> {
        let feedback = self.feedback_about(retry, failed)?;
        if told {
            self.note(Note::Feedback { feedback: feedback.clone() }, Vec::new());
        }
        self.remember(feedback)
    }

    /// The feedback about a failure, if the policy asks for it.
    fn feedback_about(&mut self, retry: &RetryPolicy, failed: &FailedAttempt<'_>) -> Option<RetryFeedback> {
        // Counted even without feedback: the metric is about the model, the feedback is for the model.
        if is_validation(failed.class) {
            self.count(MetricName::ValidationRetryTotal, subject(failed), 1);
        }
        retry.emit_feedback.value.then(|| RetryFeedback {
            source: failed.source,
            tool_name: failed.tool.map(str::to_owned),
            attempt: failed.attempt,
            max_attempts: retry.most_attempts(failed.class, failed.attempt),
            error_type: failed.class,
            message: failed.message.to_owned(),
            retry_scheduled_at: self.now.saturating_add(failed.next_delay),
            next_delay: failed.next_delay,
        })
    }

    fn remember(&mut self, feedback: RetryFeedback) -> Option<ReducerError> {
        let session = self.rules.policy.session();
        if !session.listens(Trigger::RetryFeedback) {
            return None;
        }
        let failed = self.slices.reduce_feedback(session, feedback);
        if failed.is_empty() { None } else { self.objection(failed) }
    }

    /// Runs the reducers for `trigger`. Returns the error of the first that failed; all errors are reported. The
    /// event is built only if there are reducers.
    pub(in crate::engine) fn reduce(
        &mut self,
        trigger: Trigger,
        event: impl FnOnce() -> Value,
    ) -> Option<ReducerError> {
        let session = self.rules.policy.session();
        if !session.listens(trigger) {
            return None;
        }
        let failed = self.slices.reduce(session, trigger, &event());
        self.objection(failed)
    }

    /// Reports the reducers that failed, and returns the error of the first.
    fn objection(&mut self, failed: Vec<(ReducerError, usize)>) -> Option<ReducerError> {
        let session = self.rules.policy.session();
        let mut first = None;
        // All reducers run, even after an error: each keeps a part of the session's state, and a missed event would
        // make that part wrong.
        for (error, index) in failed {
            self.reducer_failed(&error, index);
            let event = json!({ "error": error });
            // A reducer that fails on the report of an error is only reported. Passing that error to reducers as well
            // might never end.
            for (error, index) in self.slices.reduce(session, Trigger::ReducerError, &event) {
                self.reducer_failed(&error, index);
            }
            // The model reads the first objection; all of them are noted for people.
            first.get_or_insert(error);
        }
        first
    }

    fn reducer_failed(&mut self, error: &ReducerError, index: usize) {
        let rule = self.rules.policy.session().reducers.get(index);
        let why = rule.map(|rule| {
            let path = format!("session.reducers.{}", rule.name);
            because(self.rules.policy, path, &Setting::new(&error.message, rule.origin), [])
        });
        self.count(MetricName::ReducerErrorTotal, error.reducer.clone(), 1);
        self.note(Note::ReducerError { error: error.clone() }, why.into_iter().collect());
    }
}

/// Whether the class is a failure of validation, not of transport or execution.
// No wildcard: each new class must be assigned here.
pub(in crate::engine) const fn is_validation(class: ErrorClass) -> bool {
    match class {
        ErrorClass::InvalidArgs
        | ErrorClass::MalformedToolCall
        | ErrorClass::ToolNotFound
        | ErrorClass::InvalidOutput
        | ErrorClass::TruncatedOutput
        | ErrorClass::EmptyResponse
        | ErrorClass::TextOnly
        | ErrorClass::ReasoningOnly => true,
        ErrorClass::ToolUnavailable
        | ErrorClass::ExecutionError
        | ErrorClass::Timeout
        | ErrorClass::PermissionDenied
        | ErrorClass::NetworkError
        | ErrorClass::RateLimit
        | ErrorClass::QuotaExceeded
        | ErrorClass::Overloaded
        | ErrorClass::AuthError
        | ErrorClass::NotFound
        | ErrorClass::InvalidRequest
        | ErrorClass::ModelError
        | ErrorClass::ContextOverflow
        | ErrorClass::ContentFilter
        | ErrorClass::OrphanToolCall
        | ErrorClass::ReducerError
        | ErrorClass::CircuitOpen
        | ErrorClass::RepeatedCall
        | ErrorClass::Cancelled => false,
    }
}

fn subject(failed: &FailedAttempt<'_>) -> String {
    failed.tool.map_or_else(|| "output".to_owned(), |tool| format!("tool {tool}"))
}
