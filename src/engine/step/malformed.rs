//! Calls that cannot be read, where the policy wants them out of the reply.

use core::mem;

use serde_json::json;

use super::super::because::{ShownValue, because};
use super::super::directive::{DecisionReason, Note};
use super::super::event::{ModelReply, ProposedCall};
use super::super::metric::MetricName;
use super::super::problems::parse;
use super::SplitState;
use crate::policy::{ErrorClass, MalformedCalls};
use crate::session::ToolCall;
use crate::text::SchemaProblem;

impl SplitState<'_> {
    /// Takes the calls that cannot be read out of a reply, if the policy says so. What the model learns of them; `None`:
    /// there is none.
    pub(super) fn drop_malformed(&mut self, reply: &mut ModelReply) -> Option<String> {
        let rule = &self.run.policy().turn().malformed_calls;
        // Kept by default and answered: dropping a call leaves its reply without what the model meant (ai-agent
        // dropped them first, and answers them since).
        if rule.value != MalformedCalls::Drop {
            return None;
        }
        let why = because(self.run.policy(), "turn.malformed_calls", &rule.map(ShownValue), []);
        let mut texts = Vec::new();
        // The other calls of the reply run; one broken call must not cost them.
        for ProposedCall { call, policy, opaque } in mem::take(&mut reply.calls) {
            match parse(self.run.policy(), &call.arguments) {
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
        // A report that cannot be read was an attempt at the report, too.
        if output.is_some() {
            report.on_delivered(run);
        }
        text
    }
}
