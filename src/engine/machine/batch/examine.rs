//! Before a tool runs: does it exist, do its arguments hold.

use serde_json::{Value, json};

use super::super::run_parts::RunParts;
use super::super::tool_series::{CallPhase, Invalid, Refusal};
use super::super::turn_guidance::Guidance;
use crate::engine::problems::{changed, parse, violations};
use crate::policy::{CallOverride, ErrorClass, Problem};
use crate::session::ToolCall;

/// What was found out about a call.
pub(super) enum Finding {
    /// It may run with these arguments.
    Runs(Value),
    /// It does not run, or not yet. The arguments, as far as they could be read.
    Stays(Value, CallPhase),
}

/// Looks at a call before it runs. `afterwords`: what the model reads after the results.
pub(super) fn examine(
    call: &ToolCall,
    planner: Option<&CallOverride>,
    afterwords: &mut Vec<Guidance>,
    run: &mut RunParts<'_>,
) -> Finding {
    if run.policy().output().is_some_and(|output| output.tool.value == call.name) {
        return Finding::Stays(Value::Null, CallPhase::Report(call.arguments.clone()));
    }
    if let Some(refusal) = only_the_end(&call.name, run) {
        return refused(refusal);
    }
    let parsed = parse(run.policy(), &call.arguments);
    let warned = run.turns.turn_of(run.terms.of_turn).is_some_and(|turn| turn.nudged);
    let ending = (&mut *run.ending, run.turn);
    let repeated = run.loops.examine(call, parsed.as_ref().ok(), ending, warned, afterwords, &mut run.out);
    if let Some(refusal) = repeated {
        return refused(refusal);
    }
    let Some(schema) = run.out.rules.tools.schema(&call.name) else {
        return refused(not_found(&call.name, run));
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
        let rules = run.policy().call(&call.name, &arguments, planner);
        for left_out in rules.left_out {
            run.out.warn(left_out);
        }
        let vars = || json!({ "args": arguments, "tool": call.name });
        problems = violations(&rules.policy.validate.value, vars);
    }
    if !problems.is_empty() {
        return invalid(arguments, ErrorClass::InvalidArgs, problems);
    }
    Finding::Runs(arguments)
}

/// Why a call of a tool does not run in the last turn, or once the end was asked for.
pub(super) fn only_the_end(tool: &str, run: &mut RunParts<'_>) -> Option<Refusal> {
    let turn = run.turn;
    run.ending.refuse(tool, turn, &mut run.out)
}

/// There is no tool of that name.
pub(super) fn not_found(name: &str, run: &mut RunParts<'_>) -> Refusal {
    let mut near: Vec<(usize, &str)> =
        run.out.rules.tools.names().map(|known| (strsim::osa_distance(known, name), known)).collect();
    near.sort_unstable();
    let most = usize::try_from(run.policy().turn().calls.suggestions.value).unwrap_or(usize::MAX);
    let suggestions: Vec<&str> = near.into_iter().take(most).map(|(_, known)| known).collect();
    let messages = &run.policy().tool(name).messages;
    let text = run.out.say(&messages.not_found, json!({ "tool": name, "suggestions": suggestions }));
    Refusal { class: ErrorClass::ToolNotFound, text, because: Vec::new() }
}

const fn refused(refusal: Refusal) -> Finding {
    Finding::Stays(Value::Null, CallPhase::Refused(refusal))
}

fn invalid(arguments: Value, class: ErrorClass, problems: Vec<Problem>) -> Finding {
    Finding::Stays(arguments, CallPhase::Invalid(Invalid { class, problems }))
}
