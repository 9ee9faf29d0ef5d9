//! Problems of arguments and reports: parsing, validators, and their text on one line.

use core::fmt::Write as _;

use serde::de::IgnoredAny;
use serde_json::{Map, Value, json};

use super::depth::too_deep;
use super::event::FinishReason;
use crate::policy::{OutputPolicy, Policy, Validator};
use crate::text::repair::{repair_for, too_long};
use crate::text::{SchemaProblem, Template, TemplateError, excerpt};

/// The maximum number of digits shown of a number.
const MOST_DIGITS: usize = 40;

/// The problems that validators find in a value. A validator that cannot be evaluated counts as violated. `vars`
/// makes a copy of the value, called only if there are validators.
pub(crate) fn violations(validators: &[Validator], vars: impl FnOnce() -> Value) -> Vec<SchemaProblem> {
    if validators.is_empty() {
        return Vec::new();
    }
    let Value::Object(vars) = vars() else { return Vec::new() };
    validators.iter().filter_map(|validator| violation(validator, &vars)).collect()
}

/// The problems that the validators of a tool find in arguments that its schema accepts.
pub(crate) fn refused_arguments(
    validators: &[Validator],
    (tool, arguments): (&str, &Value),
) -> Vec<SchemaProblem> {
    violations(validators, || json!({ "args": arguments, "tool": tool }))
}

/// The problems of a report: those of the schema, or else those of the validators.
pub(crate) fn reported(output: &OutputPolicy, report: &Value) -> Vec<SchemaProblem> {
    // The schema comes first: validators are written for valid values, and their errors would mislead otherwise.
    let problems = output.schema.value.problems(report);
    if !problems.is_empty() {
        return problems;
    }
    violations(&output.validate.value, || json!({ "output": report, "tool": output.tool.value }))
}

fn violation(validator: &Validator, vars: &Map<String, Value>) -> Option<SchemaProblem> {
    let message = match validator.check.holds(vars) {
        Ok(true) => return None,
        Ok(false) => validator.message.render(vars).unwrap_or_else(|error| error.to_string()),
        // A validator that cannot be evaluated counts as violated: otherwise it would protect nothing.
        Err(error) => format!("{}: {error}", validator.name),
    };
    Some(SchemaProblem { pointer: String::new(), message })
}

/// Parses arguments as JSON. A call without arguments has an empty object.
///
/// Possible repairs are already made; otherwise the error includes why none is possible.
pub(crate) fn parse(policy: &Policy, arguments: &str) -> Result<Value, SchemaProblem> {
    // Models send nothing for tools without parameters and mean an empty object.
    if arguments.trim().is_empty() {
        return Ok(Value::Object(Map::new()));
    }
    let value = serde_json::from_str(arguments).map_err(|error| {
        let mut message = format!("not valid JSON: {error}");
        if policy.turn().repair_json.value
            && let Err(refusal) = repair_for(arguments, &|_| false)
        {
            // Formatting into a string does not fail.
            let _ = write!(message, "; not repaired: {refusal}");
        }
        SchemaProblem { pointer: String::new(), message }
    })?;
    // Later code recurses over the value, so deeper values are refused here.
    match too_deep(&value) {
        None => Ok(value),
        Some(message) => Err(SchemaProblem { pointer: String::new(), message }),
    }
}

/// The same of a reply that stopped for that reason: what was cut is not wrong but unfinished, and as long a call would be cut again.
pub(crate) fn parse_said(
    policy: &Policy,
    arguments: &str,
    finish: Option<&FinishReason>,
) -> Result<Value, SchemaProblem> {
    parse(policy, arguments).map_err(|problem| {
        let was_cut = matches!(finish, Some(FinishReason::Length | FinishReason::ContextWindow));
        let is_half = || serde_json::from_str::<IgnoredAny>(arguments).is_err_and(|error| error.is_eof());
        if !was_cut || !is_half() {
            return problem;
        }
        let SchemaProblem { pointer, message } = problem;
        let message = format!("cut at the token limit of the reply, so write less at once: {message}");
        SchemaProblem { pointer, message }
    })
}

/// The problem of JSON with an integer that does not fit into 64 bits and would be rounded.
pub(crate) fn changed(json: &str) -> Option<SchemaProblem> {
    let (_, number) = too_long(json)?;
    let number = shortened(number);
    let message =
        format!("the integer {number} does not fit into 64 bits and would be changed: send it as a string");
    Some(SchemaProblem { pointer: String::new(), message })
}

/// A number in a form of limited length.
fn shortened(number: &str) -> String {
    match number.get(..MOST_DIGITS) {
        Some(first) if number.len() > MOST_DIGITS => format!("{first}…"),
        _ => number.to_owned(),
    }
}

/// The problems on one line, as in records.
pub(crate) fn join_problems(problems: &[SchemaProblem]) -> String {
    let lines: Vec<String> =
        problems
            .iter()
            .map(|p| {
                if p.pointer.is_empty() { p.message.clone() } else { format!("{}: {}", p.pointer, p.message) }
            })
            .collect();
    lines.join("; ")
}

/// Renders a text for the model, cut to the length that the policy allows.
pub(crate) fn told(
    policy: &Policy,
    template: &Template,
    vars: &Map<String, Value>,
) -> Result<String, TemplateError> {
    let text = template.render(vars)?;
    // A validator's message may quote a whole result, and enters the model's context.
    let most = usize::try_from(policy.turn().max_feedback_chars.value.get()).unwrap_or(usize::MAX);
    Ok(excerpt(&text, most))
}
