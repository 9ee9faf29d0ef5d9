//! A report that does not hold, where the policy counts it as an attempt of its turn.

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
    /// A reply is a report that does not hold, and the rules of its model retry `invalid_output`: that is an attempt of the
    /// turn, and none of the report. The next attempt, at the model that is due, may call tools again. `None`: the reply
    /// is another one, or the report's own rules decide.
    pub(super) fn report_failed(&mut self, policy: &ModelPolicy, reply: &ModelReply) -> Option<NextMachine> {
        let class = ErrorClass::InvalidOutput;
        // The rules of the report decide, unless the model's own say that such a reply is one more attempt.
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
        // A refused report may take the remaining turns away, whichever rule counts the attempt.
        report.on_delivered(run);
        let keep = run.policy().turn().guidance.keep.value;
        if keep {
            keep_report(reply, &text, run);
        }
        // With a call kept, its result carries the text; otherwise it goes as guidance.
        if reply.calls.is_empty() || !keep {
            model.guidance.guide(class, text, &mut run.out);
        }
        Some(NextMachine::failed(Failure::of(class, message), self.run.policy()))
    }
}

/// What is wrong with a reply that is a report and nothing else; `None`: nothing, or it is another reply.
fn problems_of_report(
    output: &OutputPolicy,
    reply: &ModelReply,
    rules: StepRules<'_>,
) -> Option<Vec<SchemaProblem>> {
    let (tool, policy) = (&output.tool.value, rules.policy);
    if reply.calls.is_empty() {
        let is_report = policy.turn().text_only.value == TextOnly::Accept;
        let text = if is_report { &reply.text } else { return None };
        let repaired = rules.repaired(text, "").map(|repaired| repaired.value.to_string());
        return parsed_report(output, repaired.as_ref().unwrap_or(text), policy).err();
    }
    let mut first = None;
    for proposal in &reply.calls {
        // Other calls run first; what comes with them is then checked as a call.
        if proposal.call.name != *tool {
            return None;
        }
        // One report that holds is enough, and is accepted in the usual way.
        let problems = parsed_report(output, &proposal.call.arguments, policy).err()?;
        first.get_or_insert(problems);
    }
    first
}

/// The report that was refused stays in the conversation, with what is wrong as the result of its call.
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
