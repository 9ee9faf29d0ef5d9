//! Arguments that came as a text of JSON: the whole, or single fields.

use std::borrow::Cow;

use serde_json::Value;

use super::super::because::because;
use super::super::directive::Note;
use super::Step;
use crate::policy::Schema;
use crate::repair::{Repair, Repairs};
use crate::session::ToolCall;

/// So often texts within what came of a text are looked at.
const DEPTH: usize = 3;

impl Step<'_> {
    /// Takes texts of JSON among the arguments for what they say, if the schema holds then and does not before; that
    /// is told.
    pub(super) fn unpack(&mut self, call: &mut ToolCall) {
        let rule = &self.policy.turn().calls.unpack_arguments;
        // Without a text there is nothing to do.
        if !rule.value || !call.arguments.contains('"') {
            return;
        }
        let Some(schema) = self.schema_of(&call.name) else { return };
        let Ok(arguments) = serde_json::from_str::<Value>(&call.arguments) else { return };
        let Some(unpacked) = self.unpacked(schema, &arguments) else { return };
        call.arguments = unpacked.to_string();
        let why = because(self.policy, "turn.calls.unpack_arguments", rule, []);
        let repairs = Repairs::from_iter([Repair::UnpackedText]);
        self.note(Note::Repaired { tool: call.name.clone(), call: call.id.clone(), repairs }, vec![why]);
    }

    /// The arguments with their texts taken for what they say. `None`: nothing is to be done, or it does not help.
    pub(super) fn unpacked(&self, schema: &Schema, arguments: &Value) -> Option<Value> {
        if !self.policy.turn().calls.unpack_arguments.value {
            return None;
        }
        let mut value = Cow::Borrowed(arguments);
        for _ in 0..=DEPTH {
            let problems = schema.problems(&value);
            if problems.is_empty() {
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
}

/// What a text says that is JSON of something else than a text.
fn said_by(value: &Value) -> Option<Value> {
    let said = serde_json::from_str(value.as_str()?).ok()?;
    match said {
        Value::String(_) => None,
        said => Some(said),
    }
}
