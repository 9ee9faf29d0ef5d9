//! A report that does not hold, where the policy counts it as an attempt of its turn.

use super::super::because::because;
use super::super::directive::Note;
use super::super::event::ModelReply;
use super::super::failure::Failure;
use super::super::metric::MetricName;
use super::super::problems::join_problems;
use super::Step;
use crate::policy::{ErrorClass, ModelPolicy, OutputPolicy, Problem, TextOnly};
use crate::session::Message;

impl Step<'_> {
    /// A reply is a report that does not hold, and the rules of its model retry `invalid_output`: that is an attempt of the
    /// turn, and none of the report. The next attempt, at the model that is due, may call tools again. `false`: the reply
    /// is another one, or the report's own rules decide.
    pub(super) fn report_failed(&mut self, policy: &ModelPolicy, reply: &ModelReply) -> bool {
        let class = ErrorClass::InvalidOutput;
        if !policy.retry.retries(class) {
            return false;
        }
        let Some(output) = self.policy.output().cloned() else { return false };
        let Some(problems) = self.problems_of_report(&output, reply) else { return false };
        let attempt = self.attempt_at_model();
        let max_attempts = policy.retry.for_class(class).max_attempts.value.limit();
        let message = join_problems(&problems);
        let text = self.say_problems(&output, attempt, max_attempts, &problems);
        self.count(MetricName::ValidationRetryTotal, "output".into(), 1);
        let why = because(self.policy, "retry.retry_on", &policy.retry.retry_on, [class.name().to_owned()]);
        self.note(Note::OutputRefused { attempt, max_attempts, message: message.clone() }, vec![why]);
        self.report_attempted();
        if self.policy.turn().guidance.keep.value {
            self.keep_report(reply, &text);
        }
        if reply.calls.is_empty() || !self.policy.turn().guidance.keep.value {
            self.guide(class, text);
        }
        self.model_failed(&Failure::of(class, message));
        true
    }

    /// What is wrong with a reply that is a report and nothing else; `None`: nothing, or it is another reply.
    fn problems_of_report(&self, output: &OutputPolicy, reply: &ModelReply) -> Option<Vec<Problem>> {
        let tool = &output.tool.value;
        if reply.calls.is_empty() {
            let is_report = self.policy.turn().text_only.value == TextOnly::Accept;
            let text = if is_report { &reply.text } else { return None };
            let repaired = self.rules().repaired(text, "").map(|repaired| repaired.value.to_string());
            return self.parsed_report(output, repaired.as_ref().unwrap_or(text)).err();
        }
        let mut first = None;
        for proposal in &reply.calls {
            if proposal.call.name != *tool {
                return None;
            }
            let problems = self.parsed_report(output, &proposal.call.arguments).err()?;
            first.get_or_insert(problems);
        }
        first
    }

    /// The report that was refused stays in the conversation, with what is wrong as the result of its call.
    fn keep_report(&mut self, reply: &ModelReply, text: &str) {
        let calls = reply.calls.iter().map(|proposal| proposal.call.clone()).collect();
        self.append(Message::Assistant { text: reply.text.clone(), calls, extra: reply.extra.clone() });
        for proposal in &reply.calls {
            self.append(Message::Tool {
                call: proposal.call.id.clone(),
                tool: proposal.call.name.clone(),
                text: text.to_owned(),
                error: true,
                handle: None,
            });
        }
    }
}
