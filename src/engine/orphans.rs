//! Texts about a repair of the history: the replacement of a missing result, and the reminder about removed calls.
//!
//! Pure and stateless: shared by the interpreter and the guards.

use serde_json::{Value, json};

use super::directive::OrphanToolCallsPruned;
use crate::policy::{HistoryPolicy, Setting};
use crate::session::{HistoryRepair, ToolCall};
use crate::text::Template;

/// Renders a template of the policy.
pub(crate) type TemplateWriter<'a> = &'a mut dyn FnMut(&Setting<Template>, Value) -> String;

/// Writes the inserted results.
pub(crate) fn write(rules: &HistoryPolicy, repair: &mut HistoryRepair, say: TemplateWriter<'_>) {
    repair.write(&mut |result| say(&rules.messages.injected, json!({ "tool": result.tool })));
}

/// The record of a repair. `refused`: the model that refused the history, and its provider's message.
pub(crate) fn told(repair: &HistoryRepair, refused: Option<(&str, &str)>) -> OrphanToolCallsPruned {
    let number = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
    OrphanToolCallsPruned {
        pruned_count: number(repair.pruned.len()),
        injected_count: number(repair.injected.len()),
        dropped_count: number(repair.dropped),
        moved_count: number(repair.moved),
        malformed_count: number(repair.malformed),
        model: refused.map(|(model, _)| model.to_owned()),
        original_error: refused.map(|(_, error)| error.to_owned()),
    }
}

/// The reminder for the model about removed calls, if there are any.
pub(crate) fn reminder(
    rules: &HistoryPolicy,
    pruned: &[ToolCall],
    say: TemplateWriter<'_>,
) -> Option<String> {
    let most = usize::try_from(rules.max_argument_chars.value.get()).unwrap_or(usize::MAX);
    let call = |call: &ToolCall| json!({ "tool": call.name, "arguments": arguments(call, most) });
    // Arguments are cut, because the reminder is repeated with each attempt (SwarmSDK shows 50 characters).
    let calls: Value = pruned.iter().map(call).collect();
    (!pruned.is_empty()).then(|| say(&rules.messages.pruned, json!({ "calls": calls })))
}

/// The arguments of a call on one line; each text among them is cut.
fn arguments(call: &ToolCall, most: usize) -> String {
    // Arguments that are not an object are shown as sent.
    let Ok(Value::Object(fields)) = serde_json::from_str(&call.arguments) else {
        return cut(&call.arguments, most);
    };
    let field = |(name, value): (String, Value)| match value {
        Value::String(text) => format!("{name}: {}", Value::from(cut(&text, most))),
        value => format!("{name}: {}", cut(&value.to_string(), most)),
    };
    fields.into_iter().map(field).collect::<Vec<_>>().join(", ")
}

/// A text of at most `most` characters; three dots mark a cut.
fn cut(text: &str, most: usize) -> String {
    if text.char_indices().nth(most).is_none() {
        return text.to_owned();
    }
    let start: String = text.chars().take(most.saturating_sub(3)).collect();
    format!("{start}...")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        arguments(&ToolCall { id: "x".into(), name: "t".into(), arguments: text.into() }, 50)
    }

    #[test]
    fn arguments_are_shown_as_a_person_would_write_them() {
        assert_eq!(shown(r#"{"file_path": "/a.rb", "line": 3}"#), r#"file_path: "/a.rb", line: 3"#);
        assert_eq!(shown("{}"), "");
    }

    #[test]
    fn a_text_over_fifty_characters_is_cut_at_forty_seven() {
        let (fits, over) = ("é".repeat(50), "é".repeat(51));
        assert_eq!(shown(&json!({ "a": fits }).to_string()), format!("a: \"{fits}\""));
        assert_eq!(shown(&json!({ "a": over }).to_string()), format!("a: \"{}...\"", "é".repeat(47)));
    }

    #[test]
    fn whatever_else_is_long_is_cut_too() {
        assert_eq!(shown(&json!({ "a": vec![1_000_000; 20] }).to_string()).chars().count(), 53);
        assert_eq!(shown(&"{broken ".repeat(20)).chars().count(), 50);
    }
}
