//! Fields that an event does not have.

use std::sync::LazyLock;

use schemars::generate::SchemaSettings;
use serde_json::Value;

use super::Event;
use crate::text::SchemaPart;

static EVENTS: LazyLock<Value> = LazyLock::new(|| {
    SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<Event>().to_value()
});

impl Event {
    /// What is wrong with the first field of a value that an event does not have, at whatever depth, and which it has: serde
    /// passes over it, and what a misspelt one says would be lost. `None`: there is no such field.
    pub fn unknown_field(event: &Value) -> Option<String> {
        let root = &*EVENTS;
        let (pointer, message) = SchemaPart { root, part: root }.unknown_field(event, "")?;
        Some(if pointer.is_empty() { message } else { format!("`{pointer}`: {message}") })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_field_that_no_event_has_is_named_with_those_there_are() {
        let said = |event: Value| Event::unknown_field(&event);
        let call = json!({"id": "a", "name": "search", "arguments": "{}"});
        assert_eq!(said(json!({"event": "tools_proposed", "calls": [call]})), None);
        assert_eq!(
            said(json!({"event": "timer_fired", "work": 1, "wrok": 1})).unwrap(),
            "`wrok` is not allowed; allowed: `event`, `work`; did you mean `work`?"
        );
        let nested =
            said(json!({"event": "tools_proposed", "calls": [{"id": "a", "nme": "search"}]})).unwrap();
        assert!(nested.starts_with("`/calls/0`: `nme` is not allowed"), "{nested}");
        // What a tool returns is the tool's to say.
        let outcome = json!({"outcome": "ok", "data": {"any": {"thing": 1}}});
        assert_eq!(said(json!({"event": "tool_finished", "work": 1, "outcome": outcome})), None);
    }
}
