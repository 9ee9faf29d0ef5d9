//! Before a tool runs: does it exist, do its arguments hold, may it run now.

use serde_json::{Value, json};

use super::super::because::{because, threshold};
use super::super::breaker::{Admission, Breaker};
use super::super::directive::Note;
use super::super::problems::{parse, violations};
use super::super::state::{Invalid, LastTurn, Refusal, SlotPhase};
use super::Step;
use crate::policy::{CallOverride, ErrorClass, Problem, ToolPolicy};
use crate::session::{FinalReason, ToolCall};

/// How many similar names an unknown tool is answered with.
const SUGGESTIONS: usize = 3;

/// What was found out about a call.
pub(super) enum Finding {
    /// It may run with these arguments.
    Runs(Value),
    /// It does not run, or not yet. The arguments, as far as they could be read.
    Stays(Value, SlotPhase),
}

impl Step<'_> {
    pub(super) fn examine(&mut self, call: &ToolCall, planner: Option<&CallOverride>) -> Finding {
        // Whoever asked for the end does not want to see tools begin.
        let last =
            self.state.last_turn == LastTurn::Now || self.state.final_reason == Some(FinalReason::UserStop);
        if let Some(output) = self.policy.output() {
            if output.tool.value == call.name {
                return Finding::Stays(Value::Null, SlotPhase::Report(call.arguments.clone()));
            }
            if last {
                let turn = self.policy.turn();
                let vars = json!({
                    "tool": output.tool.value, "turn": self.state.turn, "max_turns": turn.max_turns.value.get(),
                });
                let text = self.say(&turn.final_turn_message, vars);
                let why = because(
                    self.policy,
                    "turn.max_turns",
                    &turn.max_turns,
                    ["only the report is allowed".into()],
                );
                return refused(ErrorClass::ToolUnavailable, text, vec![why]);
            }
        } else if last {
            let turn = self.policy.turn();
            let why =
                because(self.policy, "turn.max_turns", &turn.max_turns, ["only an answer is allowed".into()]);
            let vars = json!({
                "tool": call.name, "turn": self.state.turn, "max_turns": turn.max_turns.value.get(),
            });
            let text = self.say(&turn.no_tools_message, vars);
            return refused(ErrorClass::ToolUnavailable, text, vec![why]);
        }
        let Some(schema) = self.tools.schema(&call.name) else { return self.unknown(&call.name) };
        let arguments = match parse(self.policy, &call.arguments) {
            Ok(arguments) => arguments,
            Err(problem) => return invalid(Value::Null, ErrorClass::MalformedToolCall, vec![problem]),
        };
        let mut problems = schema.problems(&arguments);
        if problems.is_empty() {
            let rules = self.policy.call(&call.name, &arguments, planner);
            for left_out in rules.left_out {
                self.warn(left_out);
            }
            let vars = json!({ "args": arguments, "tool": call.name });
            problems = violations(&rules.policy.validators.value, vars);
        }
        if !problems.is_empty() {
            return invalid(arguments, ErrorClass::InvalidArgs, problems);
        }
        match self.state.breakers.get_mut(&call.name).map(|breaker| breaker.ask(self.state.now)) {
            None | Some(Admission::Run) => Finding::Runs(arguments),
            Some(Admission::Probe) => {
                let phase = super::super::BreakerPhase::HalfOpen;
                self.note(Note::Breaker { tool: call.name.clone(), state: phase, until: None }, Vec::new());
                Finding::Runs(arguments)
            }
            Some(Admission::Refused) => {
                let policy = self.tool_policy(&call.name, &arguments, planner);
                let failures = self.state.breakers.get(&call.name).map_or(0, Breaker::failures);
                let text =
                    self.say(&policy.breaker.message, json!({ "tool": call.name, "failures": failures }));
                let fact = format!("{failures} failures in a row");
                let why = because(self.policy, "breaker.failures", &threshold(&policy.breaker), [fact]);
                refused(ErrorClass::CircuitOpen, text, vec![why])
            }
        }
    }

    fn unknown(&mut self, name: &str) -> Finding {
        let mut near: Vec<(usize, &str)> =
            self.tools.names().map(|known| (strsim::osa_distance(known, name), known)).collect();
        near.sort_unstable();
        let suggestions: Vec<&str> = near.into_iter().take(SUGGESTIONS).map(|(_, known)| known).collect();
        let messages = &self.policy.tool(name).messages;
        let text = self.say(&messages.not_found, json!({ "tool": name, "suggestions": suggestions }));
        refused(ErrorClass::ToolNotFound, text, Vec::new())
    }

    /// The rules for one call.
    pub(super) fn tool_policy(
        &self,
        tool: &str,
        arguments: &Value,
        planner: Option<&CallOverride>,
    ) -> std::sync::Arc<ToolPolicy> {
        self.policy.call(tool, arguments, planner).policy
    }
}

fn refused(class: ErrorClass, text: String, because: Vec<super::Because>) -> Finding {
    Finding::Stays(Value::Null, SlotPhase::Refused(Refusal { class, text, because }))
}

fn invalid(arguments: Value, class: ErrorClass, problems: Vec<Problem>) -> Finding {
    Finding::Stays(arguments, SlotPhase::Invalid(Invalid { class, problems }))
}
