//! A model replied: the reply is repaired, taken or refused, and its calls, text or report are what comes next.

use serde_json::json;

use super::super::directive::{Outcome, Settlement};
use super::super::event::{Drive, FinishReason, ModelReply};
use super::super::failure::Failure;
use super::super::machine::{Guidance, Then, fault_of, repair_reply, reply_refused, take_leaked_calls};
use super::super::metric::MetricName;
use super::Split;
use crate::policy::{ErrorClass, Policy, TextOnly, Trigger};
use crate::session::Message;

impl Split<'_> {
    pub(super) fn on_reply(&mut self, mut reply: ModelReply) -> Then {
        if let Some(usage) = reply.usage {
            *self.run.usage = self.run.usage.plus(usage);
        }
        let truncated = self.reply_measured(&mut reply);
        if reply.opaque {
            let Self { run, model, .. } = self;
            let target = model.series.target(run.targets).cloned().unwrap_or_default();
            return self.reply_taken(reply, &target, false, None);
        }
        let output = self.run.policy().output().is_some();
        if let Some(failure) = fault_of(&reply, truncated, output) {
            return Then::Failed(Box::new(failure));
        }
        let dropped = self.reply_repaired(&mut reply);
        if reply.calls.is_empty()
            && let Some(text) = dropped
        {
            let Self { run, model, .. } = self;
            model.guidance.guide(ErrorClass::MalformedToolCall, text, &mut run.out);
            return failed(ErrorClass::MalformedToolCall, "no call of the reply can be read");
        }
        let Self { run, model, .. } = self;
        let target = model.series.target(run.targets).cloned().unwrap_or_default();
        let policy = self.run.policy().model(&target);
        if output && reply.calls.is_empty() && refuses_text(self.run.policy(), truncated) {
            let class = if truncated { ErrorClass::TruncatedOutput } else { ErrorClass::TextOnly };
            if policy.retry.retries(class) {
                return self.text_failed(class, reply);
            }
        }
        if !truncated && let Some(then) = self.report_failed(&policy, &reply) {
            return then;
        }
        self.reply_taken(reply, &target, truncated, dropped)
    }

    /// What the reply says of tokens and of its end. Returns whether it was cut.
    fn reply_measured(&mut self, reply: &mut ModelReply) -> bool {
        let Self { run, model, .. } = self;
        if let Some(usage) = reply.usage
            && let Some(target) = model.series.target(run.targets)
        {
            model.window.learn_from(usage, target, &model.guidance, run);
        }
        for note in core::mem::take(&mut reply.notes) {
            run.out.warn(note);
        }
        run.last.finish = Some(reply.finish.clone());
        let truncated = reply.finish == FinishReason::Length && reply.calls.is_empty();
        let answers = run.policy().output().is_none() && !reply.is_empty();
        if truncated && answers && run.ending.is_now() && run.terms.lowered {
            run.out.warn("the answer is cut where the budget of the run ends; it is taken as it is");
            return false;
        }
        truncated
    }

    /// Repairs the calls of a reply. Returns what the model is told of those that were dropped.
    fn reply_repaired(&mut self, reply: &mut ModelReply) -> Option<String> {
        let Self { run, .. } = self;
        if let FinishReason::Other(reason) = &reply.finish {
            run.out.warn(format!(
                "the model stopped for a reason that is not known, `{reason}`; its reply is taken"
            ));
        }
        take_leaked_calls(reply, run.event, &mut run.out);
        repair_reply(reply, &mut run.out);
        self.drop_malformed(reply)
    }

    /// The attempt succeeded: the reply goes into the conversation, and its calls or its text come next.
    fn reply_taken(
        &mut self,
        reply: ModelReply,
        target: &str,
        truncated: bool,
        dropped: Option<String>,
    ) -> Then {
        let Self { run, model, batch, .. } = self;
        let (policy, output) = (run.policy(), run.policy().output().is_some());
        let rules = policy.model(target);
        let attempts = model.series.attempt();
        let after = model.series.end();
        run.models.answered(target, &rules);
        run.earn(&format!("model {target}"), &rules.retry.budget.value, after);
        run.out.count(MetricName::RetryAttempts, format!("model {target}"), attempts.into());
        let turn = run.turn;
        let objection = run.out.reduce(Trigger::ModelResponded, || {
            let names: Vec<&str> = reply.calls.iter().map(|proposal| proposal.call.name.as_str()).collect();
            json!({
                "target": target, "turn": turn, "attempts": attempts, "text": reply.text, "calls": names,
                "usage": reply.usage,
            })
        });
        let objection = objection.map(|error| reply_refused(&error, &mut run.out));
        let calls = reply.calls.iter().map(|proposal| proposal.call.clone()).collect();
        let refused = output && reply.calls.is_empty() && refuses_text(policy, truncated);
        let mut room = None;
        // A reply that was cut before it said anything leaves nothing in the history.
        if !reply.is_empty() && (!refused || policy.turn().guidance.keep.value) {
            let message = Message::Assistant { text: reply.text.clone(), calls, extra: reply.extra };
            if !reply.calls.is_empty() {
                room = model.window.room_for_results(target, &message, reply.calls.len(), run);
            }
            run.append(message);
        }
        if run.context.drive == Drive::Calls {
            let objection = objection.map(|text| (ErrorClass::ReducerError, text));
            let dropped = dropped.map(|text| (ErrorClass::MalformedToolCall, text));
            for (class, text) in objection.into_iter().chain(dropped) {
                model.guidance.reject_turn(class, text, Vec::new(), &mut run.out);
            }
            run.turns.taken(run.proposal, turn, room);
            return Then::Settled(Settlement::Reply { target: target.to_owned(), attempts });
        }
        if !reply.calls.is_empty() {
            let objection = objection.map(|text| Guidance { class: ErrorClass::ReducerError, text });
            let dropped = dropped.map(|text| Guidance { class: ErrorClass::MalformedToolCall, text });
            batch.prepare(room, objection.into_iter().chain(dropped).collect());
            model.guidance.clear();
            return batch.begin(reply.calls, run).into();
        }
        if let Some(text) = objection
            && !run.ending.is_now()
        {
            model.guidance.reject_turn(ErrorClass::ReducerError, text, Vec::new(), &mut run.out);
            return Then::TurnWhenDue;
        }
        self.text_taken(reply.text, truncated)
    }

    /// A reply without calls was taken: it is the answer, the report, or a text where a report was due.
    fn text_taken(&mut self, text: String, truncated: bool) -> Then {
        let Self { run, model, report, .. } = self;
        let (guidance, policy) = (&mut model.guidance, run.policy());
        match policy.turn().text_only.value {
            _ if truncated => report.on_text_instead(ErrorClass::TruncatedOutput, &text, guidance, run),
            _ if policy.output().is_none() => Then::finished(Outcome::Answered { text }),
            TextOnly::Accept => report.on_text(text, guidance, run),
            TextOnly::Reject => report.on_text_instead(ErrorClass::TextOnly, &text, guidance, run),
        }
    }

    /// A text came where a report was due, and the model's own rules say that such a reply is tried again: that is an
    /// attempt of the turn, and none of the report.
    fn text_failed(&mut self, class: ErrorClass, reply: ModelReply) -> Then {
        let Self { run, report, .. } = self;
        let message = match class {
            ErrorClass::TruncatedOutput => "the reply was cut at the token limit",
            _ => "the reply is a text, without a call",
        };
        if class == ErrorClass::TextOnly {
            run.out.count(MetricName::ValidationRetryTotal, "output".into(), 1);
            report.keep_text(&reply.text, run.policy());
        }
        if run.policy().turn().guidance.keep.value && !reply.text.trim().is_empty() {
            run.append(Message::Assistant { text: reply.text, calls: Vec::new(), extra: reply.extra });
        }
        failed(class, message)
    }
}

/// Whether a text is certainly no report: what is not kept of it is not kept in the conversation either.
fn refuses_text(policy: &Policy, truncated: bool) -> bool {
    truncated || policy.turn().text_only.value == TextOnly::Reject
}

fn failed(class: ErrorClass, message: &str) -> Then {
    Then::Failed(Box::new(Failure::of(class, message)))
}
