//! Drops calls that cannot be parsed, if the policy says so.

use core::mem;

use serde_json::json;

use super::super::because::{ShownValue, because};
use super::super::directive::{DecisionReason, Note};
use super::super::event::{ModelReply, ProposedCall};
use super::super::metric::MetricName;
use super::super::problems::parse_said;
use super::SplitState;
use crate::policy::{ErrorClass, MalformedCalls};
use crate::session::ToolCall;
use crate::text::SchemaProblem;

impl SplitState<'_> {
    /// Drops calls that cannot be parsed from a reply, if the policy says so. Returns the text for the model; `None`:
    /// no call was dropped.
    pub(super) fn drop_malformed(&mut self, reply: &mut ModelReply) -> Option<String> {
        let rule = &self.run.policy().turn().malformed_calls;
        // By default such calls are kept and answered: a dropped call leaves its reply incomplete (ai-agent dropped
        // them first, and answers them now).
        if rule.value != MalformedCalls::Drop {
            return None;
        }
        let why = because(self.run.policy(), "turn.malformed_calls", &rule.map(ShownValue), []);
        let mut texts = Vec::new();
        // The other calls of the reply run; a broken call must not affect them.
        for ProposedCall { call, policy, opaque } in mem::take(&mut reply.calls) {
            match parse_said(self.run.policy(), &call.arguments, self.run.last.finish.as_ref()) {
                Ok(_) => reply.calls.push(ProposedCall { call, policy, opaque }),
                Err(problem) => texts.push(self.dropped(call, &problem, why.clone())),
            }
        }
        (!texts.is_empty()).then(|| texts.join("\n"))
    }

    fn dropped(&mut self, call: ToolCall, problem: &SchemaProblem, why: DecisionReason) -> String {
        let ToolCall { id, name, .. } = call;
        let Self { run, report, .. } = self;
        let policy = run.policy();
        let output = policy.output().filter(|output| output.tool.value == name);
        let (subject, text) = if let Some(output) = output {
            ("output".to_owned(), report.say_malformed(output, problem, &mut run.out))
        } else {
            let problems = [problem];
            let vars = json!({ "tool": name, "attempt": 1, "max_attempts": null, "problems": problems });
            let text = run.out.say(&policy.tool(&name).messages.invalid_args, vars);
            (format!("tool {name}"), text)
        };
        run.out.count(MetricName::ValidationRetryTotal, subject, 1);
        let refused = Note::Refused {
            call: id,
            tool: name,
            error_type: ErrorClass::MalformedToolCall,
            message: text.clone(),
        };
        run.out.note(refused, vec![why]);
        // A report that cannot be parsed was an attempt at the report, too.
        if output.is_some() {
            report.on_delivered(run);
        }
        text
    }
}
