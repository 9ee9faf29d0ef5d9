//! Invalid reports that count as attempts of their turn.

use super::super::because::because;
use super::super::directive::Note;
use super::super::event::ModelReply;
use super::super::failure::Failure;
use super::super::machine::{NextMachine, RunParts, StepRules, parsed_report, say_problems};
use super::super::metric::MetricName;
use super::super::problems::join_problems;
use super::SplitState;
use crate::policy::{ErrorClass, ModelPolicy, OutputPolicy, TextOnly};
use crate::session::Message;
use crate::text::SchemaProblem;

impl SplitState<'_> {
    /// Handles an invalid report if the model's rules retry `invalid_output`: it is an attempt of the turn, not of
    /// the report. The next attempt may call tools again. `None`: the reply is not such a report, or the report's own
    /// rules decide.
    pub(super) fn report_failed(&mut self, policy: &ModelPolicy, reply: &ModelReply) -> Option<NextMachine> {
        let class = ErrorClass::InvalidOutput;
        // The rules of the report decide, unless the model's rules retry such a reply.
        if !policy.retry.retries(class) {
            return None;
        }
        let Self { run, model, report, .. } = self;
        let output = run.policy().output()?;
        let problems = problems_of_report(output, reply, run.out.rules)?;
        let attempt = model.series.attempt();
        let max_attempts = policy.retry.for_class(class).max_attempts.value.limit();
        let message = join_problems(&problems);
        let text = say_problems(output, attempt, max_attempts, &problems, &mut run.out);
        run.out.count(MetricName::ValidationRetryTotal, "output".into(), 1);
        let retried = [class.name().to_owned()];
        let why = because(run.policy(), "retry.retry_on", &policy.retry.retry_on, retried);
        run.out.note(Note::OutputRefused { attempt, max_attempts, message: message.clone() }, vec![why]);
        // A refused report may lead to the final turn, whichever rule counts the attempt.
        report.on_delivered(run);
        let keep = run.policy().turn().guidance.keep.value;
        if keep {
            keep_report(reply, &text, run);
        }
        // If the call is kept, its result contains the text; otherwise it is sent as guidance.
        if reply.calls.is_empty() || !keep {
            model.guidance.guide(class, text, &mut run.out);
        }
        Some(NextMachine::failed(Failure::of(class, message), self.run.policy()))
    }
}

/// The problems of a reply that consists of a report only; `None`: it is valid, or another kind of reply.
fn problems_of_report(
    output: &OutputPolicy,
    reply: &ModelReply,
    rules: StepRules<'_>,
) -> Option<Vec<SchemaProblem>> {
    let (tool, policy, finish) = (&output.tool.value, rules.policy, Some(&reply.finish));
    if reply.calls.is_empty() {
        let is_report = policy.turn().text_only.value == TextOnly::Accept;
        let text = if is_report { &reply.text } else { return None };
        let repaired = rules.repaired(text, "").map(|repaired| repaired.value.to_string());
        return parsed_report(output, (repaired.as_ref().unwrap_or(text), finish), policy).err();
    }
    let mut first = None;
    for proposal in &reply.calls {
        // Other calls run first; a report among them is checked as a call.
        if proposal.call.name != *tool {
            return None;
        }
        // One valid report is enough, and is accepted in the usual way.
        let problems = parsed_report(output, (&proposal.call.arguments, finish), policy).err()?;
        first.get_or_insert(problems);
    }
    first
}

/// Keeps the refused report in the conversation, with the problems as the result of its call.
fn keep_report(reply: &ModelReply, text: &str, run: &mut RunParts<'_>) {
    let calls = reply.calls.iter().map(|proposal| proposal.call.clone()).collect();
    run.append(Message::Assistant { text: reply.text.clone(), calls, extra: reply.extra.clone() });
    for proposal in &reply.calls {
        run.append(Message::Tool {
            call: proposal.call.id.clone(),
            tool: proposal.call.name.clone(),
            text: text.to_owned(),
            error: true,
            handle: None,
        });
    }
}
