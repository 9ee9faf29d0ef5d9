//! What the model did: it answered, or it failed.

use serde_json::json;

use super::super::directive::Outcome;
use super::super::event::{FinishReason, ModelReply};
use super::super::failure::Failure;
use super::super::machine::{recover, repair_reply, take_leaked_calls};
use super::super::metric::MetricName;
use super::super::retry::{self, Case, Obstacle, Progress, Verdict};
use super::super::state::{Guidance, Series};
use super::Step;
use super::model_retry::FailedCall;
use crate::policy::{ErrorClass, TextOnly, Trigger};
use crate::session::{Message, ReducerError, StopReason};

impl Step<'_> {
    #[expect(clippy::too_many_lines, reason = "what is asked of a reply, one question after the other")]
    pub(super) fn model_responded(&mut self, mut reply: ModelReply) {
        if let Some(usage) = reply.usage {
            self.state.usage = self.state.usage.plus(usage);
            self.learn_from(usage);
        }
        for note in core::mem::take(&mut reply.notes) {
            self.warn(note);
        }
        self.state.model_turn.last_finish = Some(reply.finish.clone());
        let empty = reply.text.trim().is_empty() && reply.calls.is_empty();
        if reply.finish == FinishReason::ContentFilter && reply.calls.is_empty() {
            let text = if empty { "the provider's filter refused the reply" } else { reply.text.trim() };
            return self.model_failed(&Failure::of(ErrorClass::ContentFilter, text));
        }
        if reply.finish == FinishReason::ContextWindow && reply.calls.is_empty() {
            let text = "the model's window was full before the reply was whole";
            return self.model_failed(&Failure::of(ErrorClass::ContextOverflow, text));
        }
        let output = self.policy.output().is_some();
        let mut truncated = reply.finish == FinishReason::Length && reply.calls.is_empty();
        if truncated && !output && !empty && self.state.ending.is_now() && self.state.spending.lowered {
            self.warn("the answer is cut where the budget of the run ends; it is taken as it is");
            truncated = false;
        }
        if truncated && !output {
            return self.model_failed(&Failure::of(
                ErrorClass::TruncatedOutput,
                "the reply was cut at the token limit",
            ));
        }
        if empty && !truncated && reply.has_reasoning() {
            let message = "the reply is reasoning only, without an answer or a call";
            return self.model_failed(&Failure::of(ErrorClass::ReasoningOnly, message));
        }
        if empty && !truncated {
            return self.model_failed(&Failure::of(ErrorClass::EmptyResponse, "the reply is empty"));
        }
        if let FinishReason::Other(reason) = &reply.finish {
            let reason = reason.clone();
            self.warn(format!(
                "the model stopped for a reason that is not known, `{reason}`; its reply is taken"
            ));
        }
        let (event, out) = (self.state.seq, &mut self.parts().out);
        take_leaked_calls(&mut reply, event, out);
        repair_reply(&mut reply, out);
        let dropped = self.drop_malformed(&mut reply);
        if reply.calls.is_empty()
            && let Some(text) = dropped
        {
            self.guide(ErrorClass::MalformedToolCall, text);
            let message = "no call of the reply can be read";
            return self.model_failed(&Failure::of(ErrorClass::MalformedToolCall, message));
        }
        let target = self.state.target().cloned().unwrap_or_default();
        let policy = self.policy.model(&target);
        if output && reply.calls.is_empty() && self.refuses_text(truncated) {
            let class = if truncated { ErrorClass::TruncatedOutput } else { ErrorClass::TextOnly };
            if policy.retry.retries(class) {
                return self.text_failed(class, reply);
            }
        }
        if !truncated && self.report_failed(&policy, &reply) {
            return;
        }
        let attempts = self.attempt_at_model();
        let series = self.state.model_turn.series.take();
        self.state.models.answered(&target, &policy);
        let after = series.and_then(|series| series.history.last().map(|record| record.error_type));
        self.earn(&format!("model {target}"), &policy.retry.budget.value, after);
        self.count(MetricName::RetryAttempts, format!("model {target}"), attempts.into());
        let turn = self.state.turn;
        let objection = self.reduce(Trigger::ModelResponded, || {
            let names: Vec<&str> = reply.calls.iter().map(|proposal| proposal.call.name.as_str()).collect();
            json!({
                "target": target, "turn": turn, "attempts": attempts, "text": reply.text, "calls": names,
                "usage": reply.usage,
            })
        });
        let objection = objection.map(|error| self.reply_refused(&error));
        let calls = reply.calls.iter().map(|proposal| proposal.call.clone()).collect();
        let refused = output && reply.calls.is_empty() && self.refuses_text(truncated);
        // A reply that was cut before it said anything leaves nothing in the history.
        if !empty && (!refused || self.policy.turn().guidance.keep.value) {
            let message = Message::Assistant { text: reply.text.clone(), calls, extra: reply.extra };
            if !reply.calls.is_empty() {
                self.share_room(&message, reply.calls.len());
            }
            self.append(message);
        }
        if !reply.calls.is_empty() {
            let objection = objection.map(|text| Guidance { class: ErrorClass::ReducerError, text });
            let dropped = dropped.map(|text| Guidance { class: ErrorClass::MalformedToolCall, text });
            self.state.batch.afterwords = objection.into_iter().chain(dropped).collect();
            return self.begin_batch(reply.calls);
        }
        if let Some(text) = objection
            && !self.state.ending.is_now()
        {
            self.reject_turn(ErrorClass::ReducerError, text, Vec::new());
            return self.next_turn_when_due();
        }
        match self.policy.turn().text_only.value {
            _ if truncated => self.text_refused(ErrorClass::TruncatedOutput, &reply.text),
            _ if !output => self.finish(Outcome::Answered { text: reply.text }, Vec::new()),
            TextOnly::Accept => self.text_proposed(reply.text),
            TextOnly::Reject => self.text_refused(ErrorClass::TextOnly, &reply.text),
        }
    }

    pub(super) fn model_failed(&mut self, failure: &Failure) {
        let Some(target) = self.state.target().cloned() else { return };
        let policy = self.policy.model(&target);
        let classified = failure.classified(self.policy);
        let classified = retry::advised(classified, failure.should_retry, &policy.retry);
        let class = classified.class;
        if self.history_refused(failure, classified) || self.overflowed(failure, class) {
            return;
        }
        if class == ErrorClass::MalformedToolCall
            && let Some(reply) = recover(&failure.message, self.state.seq, &mut self.parts().out)
        {
            if failure.received > 0 {
                // The call is what the provider could not read; what it had sent before is not part of the reply.
                let attempt = self.attempt_at_model();
                self.retract(&target, attempt, failure.received);
            }
            return self.model_responded(reply);
        }
        let now = self.state.now;
        let attempt = self.attempt_at_model();
        let mut series = self.state.model_turn.series.take().unwrap_or_else(|| Series::begin(now));
        let progress = Progress { attempt, ..series.progress() };
        let case = self.case_of(failure, classified, &policy.retry, Obstacle::None);
        // A report that is an attempt of its turn: the next one corrects it.
        let mut case = Case { correction: class == ErrorClass::InvalidOutput, ..case };
        let seed = self.seed("model", &format!("{}-{}", self.state.run, self.state.turn));
        let name = format!("model {target}");
        let mut verdict = self.verdict(&name, &policy.retry, progress, &mut case, seed);
        let turn = self.state.turn;
        let objection = self.reduce(Trigger::ModelFailed, || {
            json!({
                "target": target, "turn": turn, "attempt": progress.attempt, "error_type": class,
                "message": failure.message, "status": failure.status, "limit": failure.limit(),
                "size": failure.size(), "received": failure.received,
            })
        });
        if let Some(error) = objection {
            verdict = Verdict::Stop(StopReason::ReducerError);
            let text = self.reply_refused(&error);
            self.append(Message::User { text, guidance: Some(ErrorClass::ReducerError.name().into()) });
        }
        if failure.received > 0 && self.retract(&target, progress.attempt, failure.received) {
            verdict = Verdict::Stop(StopReason::AfterPartial);
        }
        series.record(class, &failure.message, now, verdict.delay());
        self.state.last_error = Some((class, failure.message.clone()));
        self.state.model_turn.series = Some(series);
        let message = failure.message.clone();
        let failed = FailedCall { target, name, policy, progress, case, message, ended_by: None };
        match verdict {
            Verdict::Retry { delay, by } => self.retry_model(failed, delay, by),
            Verdict::Stop(reason) => self.model_exhausted(failed, reason),
        }
    }

    /// A text came where a report was due, and the model's own rules say that such a reply is tried again: that is an
    /// attempt of the turn, and none of the report.
    fn text_failed(&mut self, class: ErrorClass, reply: ModelReply) {
        let message = match class {
            ErrorClass::TruncatedOutput => "the reply was cut at the token limit",
            _ => "the reply is a text, without a call",
        };
        if class == ErrorClass::TextOnly {
            self.count(MetricName::ValidationRetryTotal, "output".into(), 1);
            self.keep_as_report(&reply.text);
        }
        if self.policy.turn().guidance.keep.value && !reply.text.trim().is_empty() {
            self.append(Message::Assistant { text: reply.text, calls: Vec::new(), extra: reply.extra });
        }
        self.model_failed(&Failure::of(class, message));
    }

    /// Whether a text is certainly no report: what is not kept of it is not kept in the conversation either.
    fn refuses_text(&self, truncated: bool) -> bool {
        truncated || self.policy.turn().text_only.value == TextOnly::Reject
    }

    /// What the model is told of a reducer that refused the update about its turn.
    fn reply_refused(&mut self, error: &ReducerError) -> String {
        let vars = json!({ "tool": "reply", "reducer": error.reducer, "error": error.message });
        self.say(&self.policy.turn().reducer_error_message.clone(), vars)
    }

    /// The same request would get the same empty reply: one line of guidance makes it another request.
    pub(super) fn nudge(&mut self, class: ErrorClass, max_attempts: Option<u32>) -> String {
        let tool = self.policy.output().map(|output| output.tool.value.clone());
        let attempt = self.attempt_at_model().saturating_sub(1);
        let vars = json!({ "tool": tool, "attempt": attempt, "max_attempts": max_attempts });
        let turn = self.policy.turn();
        let template = match class {
            ErrorClass::ReasoningOnly => &turn.reasoning_only_message,
            ErrorClass::TextOnly | ErrorClass::TruncatedOutput => &turn.text_only_message,
            _ => &turn.empty_message,
        };
        let text = self.say(template, vars);
        self.guide(class, text.clone());
        text
    }
}
