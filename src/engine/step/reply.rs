//! Handles the reply of a model: it is repaired, accepted or refused, and its calls, text or report follow.

use serde_json::json;

use super::super::directive::{Outcome, ProposalResult};
use super::super::event::{DriveMode, FinishReason, ModelReply};
use super::super::failure::Failure;
use super::super::machine::{
    NextMachine, ReplyGuidance, fault_of, repair_reply, reply_refused, take_leaked_calls,
};
use super::super::metric::MetricName;
use super::SplitState;
use crate::policy::{ClassifiedFailure, ErrorClass, Policy, TextOnly, Trigger};
use crate::session::Message;

impl SplitState<'_> {
    pub(super) fn on_reply(&mut self, mut reply: ModelReply) -> NextMachine {
        if let Some(usage) = reply.usage {
            // Counted even for a refused reply: it was paid for.
            *self.run.usage = self.run.usage.plus(usage);
        }
        let truncated = self.reply_measured(&mut reply);
        // The host withholds text and calls, so there is nothing to validate or repair.
        if reply.opaque {
            let Self { run, model, .. } = self;
            let target = model.series.target(run.targets).cloned().unwrap_or_default();
            return self.reply_taken(reply, &target, false, None);
        }
        let output = self.run.policy().output().is_some();
        if let Some(failure) = fault_of(&reply, truncated, output) {
            return NextMachine::failed(failure, self.run.policy());
        }
        let dropped = self.reply_repaired(&mut reply);
        // If no call can be parsed, the reply is an error, so it counts as a failed attempt of the turn.
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
            // Only if the policy retries such replies at this model; otherwise the rules of the report decide.
            if policy.retry.retries(class) {
                return self.text_failed(class, reply);
            }
        }
        if !truncated && let Some(then) = self.report_failed(&policy, &reply) {
            return then;
        }
        self.reply_taken(reply, &target, truncated, dropped)
    }

    /// Takes usage and finish reason of the reply. Returns whether it was cut.
    fn reply_measured(&mut self, reply: &mut ModelReply) -> bool {
        let Self { run, model, .. } = self;
        // Done first: the real count is learned from refused replies, too.
        if let Some(usage) = reply.usage
            && let Some(target) = model.series.target(run.targets)
        {
            model.window.learn_from(usage, target, &model.guidance, run);
            if reply.finish == FinishReason::Stop && run.models.known_windows().is_filled(target, usage) {
                reply.finish = FinishReason::ContextWindow;
            }
        }
        for note in core::mem::take(&mut reply.notes) {
            run.out.warn(note);
        }
        run.last.finish = Some(reply.finish.clone());
        // A cut reply with calls is not rejected: complete calls run, and the others are refused.
        let truncated = reply.finish == FinishReason::Length && reply.calls.is_empty();
        let answers = run.policy().output().is_none() && !reply.is_empty();
        // The budget shortened the reply, and no other one follows in the final turn: a partial answer is better than
        // none.
        if truncated && answers && run.ending.is_now() && run.terms.lowered {
            run.out.warn("the answer is cut where the budget of the run ends; it is taken as it is");
            return false;
        }
        truncated
    }

    /// Repairs the calls of a reply. Returns the text for the model about dropped calls.
    fn reply_repaired(&mut self, reply: &mut ModelReply) -> Option<String> {
        let Self { run, .. } = self;
        // Providers add finish reasons; an unknown one is reported, and never treated as `stop` without a warning.
        if let FinishReason::Other(reason) = &reply.finish {
            run.out.warn(format!(
                "the model stopped for a reason that is not known, `{reason}`; its reply is taken"
            ));
        }
        // Calls in the text come first, since they may need repairs like any others.
        take_leaked_calls(reply, run.event, &mut run.out);
        repair_reply(reply, &mut run.out);
        self.drop_malformed(reply)
    }

    /// Accepts the reply: it is appended to the conversation, and its calls or its text follow.
    fn reply_taken(
        &mut self,
        reply: ModelReply,
        target: &str,
        truncated: bool,
        dropped: Option<String>,
    ) -> NextMachine {
        let Self { run, model, batch, .. } = self;
        let (policy, output) = (run.policy(), run.policy().output().is_some());
        let rules = policy.model(target);
        let attempts = model.series.attempt();
        // The series ends with the reply, so that a failure in the next turn starts with a first attempt.
        let after = model.series.end();
        // One reply shows that the provider works again.
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
        // A reply cut before its first word would be an empty assistant message, which some providers refuse.
        if !reply.is_empty() && (!refused || policy.turn().guidance.keep.value) {
            let message = Message::Assistant { text: reply.text.clone(), calls, extra: reply.extra };
            if !reply.calls.is_empty() {
                // The results share the rest of the window after this very message.
                room = model.window.room_for_results(target, &message, reply.calls.len(), run);
            }
            run.append(message);
        }
        if run.context.drive == DriveMode::Calls {
            let objection = objection.map(|text| (ErrorClass::ReducerError, text));
            let dropped = dropped.map(|text| (ErrorClass::MalformedToolCall, text));
            // Without a batch to carry these texts, the proposal's settlement does.
            for (class, text) in objection.into_iter().chain(dropped) {
                model.guidance.reject_turn(class, text, Vec::new(), &mut run.out);
            }
            run.turns.taken(run.proposal, turn, room);
            return NextMachine::Settled(ProposalResult::Reply { target: target.to_owned(), attempts });
        }
        if !reply.calls.is_empty() {
            let objection = objection.map(|text| ReplyGuidance { class: ErrorClass::ReducerError, text });
            let dropped = dropped.map(|text| ReplyGuidance { class: ErrorClass::MalformedToolCall, text });
            batch.prepare(room, objection.into_iter().chain(dropped).collect());
            // A reply was accepted: guidance about earlier ones is removed.
            model.guidance.clear();
            return batch.begin(reply.calls, run).into();
        }
        if let Some(text) = objection
            // In the final turn no correction can follow, so the text is accepted as the end.
            && !run.ending.is_now()
        {
            model.guidance.reject_turn(ErrorClass::ReducerError, text, Vec::new(), &mut run.out);
            return NextMachine::TurnWhenDue;
        }
        self.text_taken(reply.text, truncated)
    }

    /// Handles an accepted reply without calls: an answer, a report, or a text instead of a report.
    fn text_taken(&mut self, text: String, truncated: bool) -> NextMachine {
        let Self { run, model, report, .. } = self;
        let (guidance, policy) = (&mut model.guidance, run.policy());
        match policy.turn().text_only.value {
            // Partial text is never a report, even if text is accepted as one.
            _ if truncated => report.on_text_instead(ErrorClass::TruncatedOutput, &text, guidance, run),
            _ if policy.output().is_none() => NextMachine::finished(Outcome::Answered { text }),
            TextOnly::Accept => report.on_text(text, guidance, run),
            TextOnly::Reject => report.on_text_instead(ErrorClass::TextOnly, &text, guidance, run),
        }
    }

    /// Handles text instead of a report if the model's rules retry such a reply: it is an attempt of the turn, not of
    /// the report.
    fn text_failed(&mut self, class: ErrorClass, reply: ModelReply) -> NextMachine {
        let Self { run, report, .. } = self;
        let message = match class {
            ErrorClass::TruncatedOutput => "the reply was cut at the token limit",
            _ => "the reply is a text, without a call",
        };
        if class == ErrorClass::TextOnly {
            run.out.count(MetricName::ValidationRetryTotal, "output".into(), 1);
            report.keep_text(&reply.text, run.policy());
        }
        // ai-agent's later rule: the model's text stays, so that it can see its mistake.
        if run.policy().turn().guidance.keep.value && !reply.text.trim().is_empty() {
            run.append(Message::Assistant { text: reply.text, calls: Vec::new(), extra: reply.extra });
        }
        failed(class, message)
    }
}

/// Whether a text is certainly no report, so that it is not kept in the conversation.
fn refuses_text(policy: &Policy, truncated: bool) -> bool {
    truncated || policy.turn().text_only.value == TextOnly::Reject
}

fn failed(class: ErrorClass, message: &str) -> NextMachine {
    NextMachine::Failed(Box::new(Failure::of(class, message)), ClassifiedFailure::certain(class))
}
