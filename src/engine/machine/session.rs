//! Feedback, reducers and metrics: how the session comes to know about failures.

use serde_json::{Value, json};

use super::super::because::because;
use super::super::directive::{DecisionReason, Note};
use super::super::metric::MetricName;
use super::out::StepOutput;
use crate::policy::{ErrorClass, Policy, RetryPolicy, Setting, Trigger};
use crate::session::{FeedbackSource, ReducerError, RetryFeedback};
use crate::time::Nanos;

/// One failure that feedback is due for.
pub(in crate::engine) struct FailedAttempt<'a> {
    pub(in crate::engine) source: FeedbackSource,
    pub(in crate::engine) tool: Option<&'a str>,
    pub(in crate::engine) attempt: u32,
    pub(in crate::engine) class: ErrorClass,
    pub(in crate::engine) message: &'a str,
    pub(in crate::engine) next_delay: Nanos,
}

impl StepOutput<'_> {
    /// Writes a retryable failure into the session, if the policy wants it there. Returns what a reducer had
    /// against it.
    pub(in crate::engine) fn feedback(
        &mut self,
        retry: &RetryPolicy,
        failed: &FailedAttempt<'_>,
    ) -> Option<ReducerError> {
        let why = |policy: &Policy| vec![because(policy, "retry.emit_feedback", &retry.emit_feedback, [])];
        self.feedback_because(why, retry, failed)
    }

    /// The same, for that reason.
    pub(in crate::engine) fn feedback_because(
        &mut self,
        why: impl FnOnce(&Policy) -> Vec<DecisionReason>,
        retry: &RetryPolicy,
        failed: &FailedAttempt<'_>,
    ) -> Option<ReducerError> {
        // Counted even where no feedback is wanted: the metric is about the model, the feedback for it.
        if is_validation(failed.class) {
            self.count(MetricName::ValidationRetryTotal, subject(failed), 1);
        }
        if !retry.emit_feedback.value {
            return None;
        }
        let feedback = RetryFeedback {
            source: failed.source,
            tool_name: failed.tool.map(str::to_owned),
            attempt: failed.attempt,
            max_attempts: retry.most_attempts(failed.class, failed.attempt),
            error_type: failed.class,
            message: failed.message.to_owned(),
            retry_scheduled_at: self.now.saturating_add(failed.next_delay),
            next_delay: failed.next_delay,
        };
        // The event is put together only if a reducer listens, as the message may be long.
        let listens = self.rules.policy.session().listens(Trigger::RetryFeedback);
        let event = listens.then(|| json!({ "tool": failed.tool, "feedback": feedback }));
        let why = why(self.rules.policy);
        self.note(Note::Feedback { feedback }, why);
        event.and_then(|event| self.reduce(Trigger::RetryFeedback, || event))
    }

    /// Runs the reducers that listen to `trigger`. Returns the first that failed; all that failed are reported. The event is
    /// put together only if there are any.
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
        let mut first = None;
        // All reducers run, whatever one of them says: each keeps a part of the session's state, and a part that
        // misses an event is wrong from then on.
        for (error, index) in failed {
            self.reducer_failed(&error, index);
            let event = json!({ "error": error });
            // A reducer that fails while it takes the news of a failure is reported. Passing that on to reducers as
            // well might never end.
            for (error, index) in self.slices.reduce(session, Trigger::ReducerError, &event) {
                self.reducer_failed(&error, index);
            }
            // The first objection is the one that the model reads; all of them are noted for people.
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

/// Whether the class is a failure of validation, as opposed to one of transport or execution.
// No wildcard: a new class has to say whether the model can cure it.
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
