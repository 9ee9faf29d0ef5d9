//! Unpacks arguments that are JSON strings: all arguments, or single fields.

use std::borrow::Cow;

use serde_json::Value;

use super::super::out::{StepOutput, StepRules};
use crate::engine::because::because;
use crate::engine::directive::Note;
use crate::session::ToolCall;
use crate::text::Schema;
use crate::text::repair::{RepairKind, RepairSet, too_long};

/// The maximum number of unpacking passes.
// A string within a string is common with some models, four levels are not; a limit keeps hostile input cheap.
const DEPTH: usize = 3;

/// Parses JSON strings among the arguments, if the arguments are valid afterwards but not before; a note reports it.
pub(super) fn unpack(call: &mut ToolCall, out: &mut StepOutput<'_>) {
    let rules = out.rules;
    let rule = &rules.policy.turn().calls.unpack_arguments;
    // Only strings can be unpacked, and the search for a quote is cheaper than parsing.
    if !rule.value || !call.arguments.contains('"') {
        return;
    }
    let Some(schema) = rules.schema_of(&call.name) else { return };
    // A number that does not fit would be another one afterwards.
    if too_long(&call.arguments).is_some() {
        return;
    }
    let Ok(arguments) = serde_json::from_str::<Value>(&call.arguments) else { return };
    let Some(unpacked) = unpacked(rules, schema, &arguments) else { return };
    call.arguments = unpacked.to_string();
    let why = because(rules.policy, "turn.calls.unpack_arguments", rule, []);
    let repairs = RepairSet::from_iter([RepairKind::UnpackedText]);
    out.note(Note::Repaired { tool: call.name.clone(), call: call.id.clone(), repairs }, vec![why]);
}

/// The arguments with their strings parsed. `None`: nothing to unpack, or unpacking does not make them valid.
pub(super) fn unpacked(rules: StepRules<'_>, schema: &Schema, arguments: &Value) -> Option<Value> {
    if !rules.policy.turn().calls.unpack_arguments.value {
        return None;
    }
    let mut value = Cow::Borrowed(arguments);
    for _ in 0..=DEPTH {
        let problems = schema.problems(&value);
        if problems.is_empty() {
            // A change is kept only if the schema accepts it: a string that looks like JSON is often meant as a
            // string.
            return match value {
                Cow::Borrowed(_) => None,
                Cow::Owned(value) => Some(value),
            };
        }
        let mut changed = false;
        for problem in problems {
            let said = value.pointer(&problem.pointer).and_then(said_by);
            if let Some(said) = said
                && let Some(place) = value.to_mut().pointer_mut(&problem.pointer)
            {
                *place = said;
                changed = true;
            }
        }
        if !changed {
            return None;
        }
    }
    None
}

/// The JSON value in a string, unless it is a string itself.
fn said_by(value: &Value) -> Option<Value> {
    let text = value.as_str()?;
    // A number that does not fit would be another one.
    if too_long(text).is_some() {
        return None;
    }
    let said = serde_json::from_str(text).ok()?;
    match said {
        // A string in a string is no progress, and unpacking `"\"5\""` would change the message.
        Value::String(_) => None,
        said => Some(said),
    }
}
