//! What is wrong with arguments and reports: parsing, validators, and the problems in one line.

use core::fmt::Write as _;

use serde_json::{Map, Value, json};

use super::depth::too_deep;
use crate::policy::{OutputPolicy, Policy, Validator};
use crate::text::repair::{repair_for, too_long};
use crate::text::{SchemaProblem, Template, TemplateError, excerpt};

/// How many digits of a number are shown.
const MOST_DIGITS: usize = 40;

/// What the validators have against the value. One that cannot be evaluated counts as one that does not hold. `vars` is a
/// copy of the value, made only if there is somebody to see it.
pub(crate) fn violations(validators: &[Validator], vars: impl FnOnce() -> Value) -> Vec<SchemaProblem> {
    if validators.is_empty() {
        return Vec::new();
    }
    let Value::Object(vars) = vars() else { return Vec::new() };
    validators.iter().filter_map(|validator| violation(validator, &vars)).collect()
}

/// What is wrong with a report: by the schema, or else by the validators.
pub(crate) fn reported(output: &OutputPolicy, report: &Value) -> Vec<SchemaProblem> {
    // The schema first: validators are written for values that hold it, and their errors would mislead otherwise.
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
        // A check that cannot be evaluated counts as failed: one that passes then would protect nothing.
        Err(error) => format!("{}: {error}", validator.name),
    };
    Some(SchemaProblem { pointer: String::new(), message })
}

/// The arguments as JSON. A call without arguments has an empty object.
///
/// What could be repaired has been; for the rest, the reason why not is reported too.
pub(crate) fn parse(policy: &Policy, arguments: &str) -> Result<Value, SchemaProblem> {
    // Models send nothing for tools without parameters; an empty object is what they mean.
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
    // What follows walks the value by recursion, so a deeper one is refused here.
    match too_deep(&value) {
        None => Ok(value),
        Some(message) => Err(SchemaProblem { pointer: String::new(), message }),
    }
}

/// What is wrong with JSON that would not stay what it is: an integer that does not fit into 64 bits.
pub(crate) fn changed(json: &str) -> Option<SchemaProblem> {
    let (_, number) = too_long(json)?;
    let number = shortened(number);
    let message =
        format!("the integer {number} does not fit into 64 bits and would be changed: send it as a string");
    Some(SchemaProblem { pointer: String::new(), message })
}

/// A number as it is shown, however long it is.
fn shortened(number: &str) -> String {
    match number.get(..MOST_DIGITS) {
        Some(first) if number.len() > MOST_DIGITS => format!("{first}…"),
        _ => number.to_owned(),
    }
}

/// The problems in one line, as records keep them.
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

/// Text for the model: rendered, and cut to what the policy allows to be shown at once.
pub(crate) fn told(
    policy: &Policy,
    template: &Template,
    vars: &Map<String, Value>,
) -> Result<String, TemplateError> {
    let text = template.render(vars)?;
    // A validator's message may quote a whole result; it goes into the context of the model.
    let most = usize::try_from(policy.turn().max_feedback_chars.value.get()).unwrap_or(usize::MAX);
    Ok(excerpt(&text, most))
}
