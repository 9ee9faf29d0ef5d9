//! Checks a call before its tool runs: whether the tool exists and the arguments are valid.

use serde_json::{Value, json};

use super::super::out::{StepOutput, StepRules};
use super::super::run_parts::RunParts;
use super::super::tool_series::{CallPhase, InvalidArguments};
use super::super::turn_guidance::ReplyGuidance;
use crate::engine::machine::call_refusal::CallRefusal;
use crate::engine::problems::{changed, parse_said, refused_arguments};
use crate::policy::{CallOverride, ErrorClass};
use crate::session::ToolCall;
use crate::text::{SchemaProblem, visible};

/// The result of the check.
pub(super) enum CallFinding {
    /// The call may run with these arguments.
    Runs(Value),
    /// The call does not run, or not yet. Contains the arguments as far as they could be read.
    Stays(Value, CallPhase),
}

/// Checks a call before it runs. `opaque`: the arguments are not known. `afterwords`: texts the model reads after the
/// results.
pub(super) fn examine(
    call: &ToolCall,
    planner: Option<&CallOverride>,
    opaque: bool,
    afterwords: &mut Vec<ReplyGuidance>,
    run: &mut RunParts<'_>,
) -> CallFinding {
    // The report is not a tool: loop detection and tool schemas do not apply, and `report_series` validates it.
    if run.policy().output().is_some_and(|output| output.tool.value == call.name) {
        return CallFinding::Stays(Value::Null, CallPhase::Report(call.arguments.clone()));
    }
    // This check comes first, as a correction is useless for a call that may not run.
    if let Some(refusal) = only_the_end(&call.name, run) {
        return refused(refusal);
    }
    // The host withholds the arguments, so only checks by name are possible.
    if opaque {
        return match run.out.rules.tools.schema(&call.name) {
            Some(_) => CallFinding::Runs(Value::Null),
            None => refused(not_found(&call.name, &mut run.out)),
        };
    }
    let parsed = parse_said(run.policy(), &call.arguments, run.last.finish.as_ref());
    let warned = run.turns.turn_of(run.terms.of_turn).is_some_and(|turn| turn.nudged);
    let ending = (&mut *run.ending, run.turn);
    // Loop detection comes before the validation: a repeated broken call is a loop, too, and its correction might
    // never end.
    let repeated = run.loops.examine(call, parsed.as_ref().ok(), ending, warned, afterwords, &mut run.out);
    if let Some(refusal) = repeated {
        return refused(refusal);
    }
    let Some(schema) = run.out.rules.tools.schema(&call.name) else {
        return refused(not_found(&call.name, &mut run.out));
    };
    let arguments = match parsed {
        Ok(arguments) => arguments,
        Err(problem) => return invalid(Value::Null, ErrorClass::MalformedToolCall, vec![problem]),
    };
    // An integer beyond 64 bits would be rounded (RFC 8259, section 6), which could change an id: the model is asked
    // for a string instead.
    let mut problems: Vec<SchemaProblem> = changed(&call.arguments).into_iter().collect();
    if problems.is_empty() {
        problems = schema.problems(&arguments);
    }
    // Expressions of the policy only see valid arguments, so they need not handle missing fields.
    if problems.is_empty() {
        let rules = run.policy().call(&call.name, &arguments, planner);
        for left_out in rules.left_out {
            // A planner cannot loosen limits of its layer; without the warning it would be unclear why the value had
            // no effect.
            run.out.warn(left_out);
        }
        problems = refused_arguments(&rules.policy.validate.value, (&call.name, &arguments));
    }
    if !problems.is_empty() {
        return invalid(arguments, ErrorClass::InvalidArgs, problems);
    }
    CallFinding::Runs(arguments)
}

/// Why a tool call does not run in the final turn, or after a request to stop.
pub(super) fn only_the_end(tool: &str, run: &mut RunParts<'_>) -> Option<CallRefusal> {
    let turn = run.turn;
    run.ending.refuse(tool, turn, &mut run.out)
}

/// The refusal of a call whose tool does not exist.
pub(in crate::engine) fn not_found(name: &str, out: &mut StepOutput<'_>) -> CallRefusal {
    let StepRules { policy, tools } = out.rules;
    let mut near: Vec<(usize, &str)> =
        // OSA counts swapped neighbours as one edit; the Levenshtein distance, which LocalCowork uses for its
        // suggestions, counts two.
        tools.names().map(|known| (strsim::osa_distance(known, name), known)).collect();
    // Sorted by distance, then by name, so that the order of equal distances is fixed.
    near.sort_unstable();
    let most = usize::try_from(policy.turn().calls.suggestions.value).unwrap_or(usize::MAX);
    let suggestions: Vec<&str> = near.into_iter().take(most).map(|(_, known)| known).collect();
    let messages = &policy.tool(name).messages;
    let text = out.say(&messages.not_found, json!({ "tool": visible(name), "suggestions": suggestions }));
    CallRefusal { class: ErrorClass::ToolNotFound, text, because: Vec::new() }
}

const fn refused(refusal: CallRefusal) -> CallFinding {
    CallFinding::Stays(Value::Null, CallPhase::Refused(refusal))
}

fn invalid(arguments: Value, class: ErrorClass, problems: Vec<SchemaProblem>) -> CallFinding {
    CallFinding::Stays(arguments, CallPhase::Invalid(InvalidArguments { class, problems }))
}
