//! Before a tool runs: does it exist, do its arguments hold.

use serde_json::{Value, json};

use super::super::run_parts::RunParts;
use super::super::tool_series::{CallPhase, InvalidArguments};
use super::super::turn_guidance::ReplyGuidance;
use crate::engine::machine::call_refusal::CallRefusal;
use crate::engine::problems::{changed, parse, violations};
use crate::policy::{CallOverride, ErrorClass};
use crate::session::ToolCall;
use crate::text::SchemaProblem;

/// What was found out about a call.
pub(super) enum CallFinding {
    /// It may run with these arguments.
    Runs(Value),
    /// It does not run, or not yet. The arguments, as far as they could be read.
    Stays(Value, CallPhase),
}

/// Looks at a call before it runs. `opaque`: its arguments are not known. `afterwords`: what the model reads after the results.
pub(super) fn examine(
    call: &ToolCall,
    planner: Option<&CallOverride>,
    opaque: bool,
    afterwords: &mut Vec<ReplyGuidance>,
    run: &mut RunParts<'_>,
) -> CallFinding {
    // The report is no tool: neither loop detection nor its schema as a tool apply, `report_series` checks it.
    if run.policy().output().is_some_and(|output| output.tool.value == call.name) {
        return CallFinding::Stays(Value::Null, CallPhase::Report(call.arguments.clone()));
    }
    // Before all else, as no correction is of use for a call that may not run anyway.
    if let Some(refusal) = only_the_end(&call.name, run) {
        return refused(refusal);
    }
    // The host keeps the arguments to itself, so only what is known by name can be checked.
    if opaque {
        return match run.out.rules.tools.schema(&call.name) {
            Some(_) => CallFinding::Runs(Value::Null),
            None => refused(not_found(&call.name, run)),
        };
    }
    let parsed = parse(run.policy(), &call.arguments);
    let warned = run.turns.turn_of(run.terms.of_turn).is_some_and(|turn| turn.nudged);
    let ending = (&mut *run.ending, run.turn);
    // Before the arguments are checked: a broken call that is repeated is a loop, too, and correcting it might never
    // end.
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
    // An integer beyond 64 bits would be rounded (RFC 8259, section 6), and an id become another one: the model sends
    // it as a text instead.
    let mut problems: Vec<SchemaProblem> = changed(&call.arguments).into_iter().collect();
    if problems.is_empty() {
        problems = schema.problems(&arguments);
    }
    // Expressions of the policy see arguments that hold the schema, so they need not guard against missing fields.
    if problems.is_empty() {
        let rules = run.policy().call(&call.name, &arguments, planner);
        for left_out in rules.left_out {
            // A planner cannot loosen what its layer may not; dropping that without a word would hide why it had no
            // effect.
            run.out.warn(left_out);
        }
        let vars = || json!({ "args": arguments, "tool": call.name });
        problems = violations(&rules.policy.validate.value, vars);
    }
    if !problems.is_empty() {
        return invalid(arguments, ErrorClass::InvalidArgs, problems);
    }
    CallFinding::Runs(arguments)
}

/// Why a call of a tool does not run in the final turn, or once the end was asked for.
pub(super) fn only_the_end(tool: &str, run: &mut RunParts<'_>) -> Option<CallRefusal> {
    let turn = run.turn;
    run.ending.refuse(tool, turn, &mut run.out)
}

/// There is no tool of that name.
pub(super) fn not_found(name: &str, run: &mut RunParts<'_>) -> CallRefusal {
    let mut near: Vec<(usize, &str)> =
        // OSA counts swapped neighbours as one edit; the Levenshtein distance, which LocalCowork takes for its
        // suggestions, counts two.
        run.out.rules.tools.names().map(|known| (strsim::osa_distance(known, name), known)).collect();
    // Sorted by distance, then by name, so that equal distances come out in one order.
    near.sort_unstable();
    let most = usize::try_from(run.policy().turn().calls.suggestions.value).unwrap_or(usize::MAX);
    let suggestions: Vec<&str> = near.into_iter().take(most).map(|(_, known)| known).collect();
    let messages = &run.policy().tool(name).messages;
    let text = run.out.say(&messages.not_found, json!({ "tool": name, "suggestions": suggestions }));
    CallRefusal { class: ErrorClass::ToolNotFound, text, because: Vec::new() }
}

const fn refused(refusal: CallRefusal) -> CallFinding {
    CallFinding::Stays(Value::Null, CallPhase::Refused(refusal))
}

fn invalid(arguments: Value, class: ErrorClass, problems: Vec<SchemaProblem>) -> CallFinding {
    CallFinding::Stays(arguments, CallPhase::Invalid(InvalidArguments { class, problems }))
}
