//! Before a tool runs: does it exist, do its arguments hold.

use serde_json::{Value, json};

use super::super::event::Drive;
use super::super::problems::{changed, parse, violations};
use super::super::state::{Invalid, Refusal, SlotPhase};
use super::{Split, Step};
use crate::policy::{CallOverride, ErrorClass, Problem};
use crate::session::ToolCall;

/// What was found out about a call.
pub(super) enum Finding {
    /// It may run with these arguments.
    Runs(Value),
    /// It does not run, or not yet. The arguments, as far as they could be read.
    Stays(Value, SlotPhase),
}

impl Step<'_> {
    pub(super) fn examine(&mut self, call: &ToolCall, planner: Option<&CallOverride>) -> Finding {
        if self.policy.output().is_some_and(|output| output.tool.value == call.name) {
            return Finding::Stays(Value::Null, SlotPhase::Report(call.arguments.clone()));
        }
        if let Some(refusal) = self.only_the_end(&call.name) {
            return refused(refusal);
        }
        let parsed = parse(self.policy, &call.arguments);
        let (turn, drive) = (self.state.turn, self.state.context.drive);
        let Split { mut run, batch, .. } = self.split();
        let ending = (drive == Drive::Turns).then_some((&mut *run.ending, turn));
        let (arguments, afterwords) = (parsed.as_ref().ok(), &mut batch.afterwords);
        let repeated = run.loops.examine(call, arguments, ending, afterwords, &mut run.out);
        if let Some(refusal) = repeated {
            return refused(refusal);
        }
        let Some(schema) = self.tools.schema(&call.name) else {
            return refused(self.not_found(&call.name));
        };
        let arguments = match parsed {
            Ok(arguments) => arguments,
            Err(problem) => return invalid(Value::Null, ErrorClass::MalformedToolCall, vec![problem]),
        };
        let mut problems: Vec<Problem> = changed(&call.arguments).into_iter().collect();
        if problems.is_empty() {
            problems = schema.problems(&arguments);
        }
        if problems.is_empty() {
            let rules = self.policy.call(&call.name, &arguments, planner);
            for left_out in rules.left_out {
                self.warn(left_out);
            }
            let vars = || json!({ "args": arguments, "tool": call.name });
            problems = violations(&rules.policy.validators.value, vars);
        }
        if !problems.is_empty() {
            return invalid(arguments, ErrorClass::InvalidArgs, problems);
        }
        Finding::Runs(arguments)
    }

    /// Why a call of a tool does not run in the last turn, or once the end was asked for.
    pub(super) fn only_the_end(&mut self, tool: &str) -> Option<Refusal> {
        let turn = self.state.turn;
        let Split { mut run, .. } = self.split();
        run.ending.refuse(tool, turn, &mut run.out)
    }

    /// There is no tool of that name.
    pub(super) fn not_found(&mut self, name: &str) -> Refusal {
        let mut near: Vec<(usize, &str)> =
            self.tools.names().map(|known| (strsim::osa_distance(known, name), known)).collect();
        near.sort_unstable();
        let most = usize::try_from(self.policy.turn().calls.suggestions.value).unwrap_or(usize::MAX);
        let suggestions: Vec<&str> = near.into_iter().take(most).map(|(_, known)| known).collect();
        let messages = &self.policy.tool(name).messages;
        let text = self.say(&messages.not_found, json!({ "tool": name, "suggestions": suggestions }));
        Refusal { class: ErrorClass::ToolNotFound, text, because: Vec::new() }
    }
}

const fn refused(refusal: Refusal) -> Finding {
    Finding::Stays(Value::Null, SlotPhase::Refused(refusal))
}

fn invalid(arguments: Value, class: ErrorClass, problems: Vec<Problem>) -> Finding {
    Finding::Stays(arguments, SlotPhase::Invalid(Invalid { class, problems }))
}
