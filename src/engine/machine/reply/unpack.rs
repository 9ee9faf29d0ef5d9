//! Arguments that came as a text of JSON: the whole, or single fields.

use std::borrow::Cow;

use serde_json::Value;

use super::super::out::{StepOutput, StepRules};
use crate::engine::because::because;
use crate::engine::directive::Note;
use crate::session::ToolCall;
use crate::text::Schema;
use crate::text::repair::{RepairKind, RepairSet};

/// So often texts within what came of a text are looked at.
// A text within a text is common with some models, four levels are not; a bound keeps hostile input cheap.
const DEPTH: usize = 3;

/// Takes texts of JSON among the arguments for what they say, if the schema holds then and does not before; a
/// note says so.
pub(super) fn unpack(call: &mut ToolCall, out: &mut StepOutput<'_>) {
    let rules = out.rules;
    let rule = &rules.policy.turn().calls.unpack_arguments;
    // Only texts can be unpacked, and looking for a quote is cheaper than parsing.
    if !rule.value || !call.arguments.contains('"') {
        return;
    }
    let Some(schema) = rules.schema_of(&call.name) else { return };
    let Ok(arguments) = serde_json::from_str::<Value>(&call.arguments) else { return };
    let Some(unpacked) = unpacked(rules, schema, &arguments) else { return };
    call.arguments = unpacked.to_string();
    let why = because(rules.policy, "turn.calls.unpack_arguments", rule, []);
    let repairs = RepairSet::from_iter([RepairKind::UnpackedText]);
    out.note(Note::Repaired { tool: call.name.clone(), call: call.id.clone(), repairs }, vec![why]);
}

/// The arguments with their texts taken for what they say. `None`: nothing is to be done, or it does not help.
pub(super) fn unpacked(rules: StepRules<'_>, schema: &Schema, arguments: &Value) -> Option<Value> {
    if !rules.policy.turn().calls.unpack_arguments.value {
        return None;
    }
    let mut value = Cow::Borrowed(arguments);
    for _ in 0..=DEPTH {
        let problems = schema.problems(&value);
        if problems.is_empty() {
            // A change is kept only if the schema holds with it: a text that looks like JSON is often meant as a
            // text.
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

/// What a text says that is JSON of something else than a text.
fn said_by(value: &Value) -> Option<Value> {
    let said = serde_json::from_str(value.as_str()?).ok()?;
    match said {
        // A text in a text is no progress, and unpacking `"\"5\""` would change the message.
        Value::String(_) => None,
        said => Some(said),
    }
}
