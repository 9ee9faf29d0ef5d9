//! Records of which only some fields are told: what a test file expects of events, directives and messages.

use core::marker::PhantomData;

use regex::Regex;
use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value, json};

use super::fields;
use crate::policy::decode::{Decode, Reader};
use crate::policy::yaml::{Data, Node};
use crate::policy::{Code, Diagnostic, Span, parse_duration};

/// The fields a record may have.
pub(crate) trait Fields {
    /// The name of the schema.
    const SCHEMA: &'static str;
    /// Their names.
    const NAMES: &'static [&'static str];
    /// The field a bare word stands for; empty: there is none.
    const WORD: &'static str = "";
    /// The words it may be; empty: any.
    const WORDS: &'static [&'static str] = &[];
}

/// A record of which only some fields are told.
#[derive(Clone, Debug)]
pub(crate) struct Pattern<F> {
    /// The fields that are told, and what they are to be.
    pub(crate) value: Value,
    fields: PhantomData<fn() -> F>,
}

macro_rules! fields {
    ($($(#[doc = $doc:literal])+ $name:ident as $schema:literal = [$($field:literal),+ $(,)?] $(, $word:literal)? $(, [$($words:literal),+ $(,)?])?;)+) => {$(
        $(#[doc = $doc])+
        #[derive(Clone, Copy, Debug)]
        pub(crate) enum $name {}

        impl Fields for $name {
            const SCHEMA: &'static str = $schema;
            const NAMES: &'static [&'static str] = &[$($field),+];
            $(const WORD: &'static str = $word;)?
            $(const WORDS: &'static [&'static str] = &[$($words),+];)?
        }
    )+};
}

fields! {
    /// A run of a tool.
    CallFields as "CallPattern" = ["tool", "call", "attempt", "max_attempts", "arguments", "timeout", "idempotency_key", "at"], "tool";
    /// A wait.
    WaitFields as "WaitPattern" = ["subject", "delay", "attempt", "max_attempts", "error_type", "message", "at"], "subject";
    /// A call that was refused before it ran.
    RefusedFields as "RefusedPattern" = ["call", "tool", "error_type", "message"], "tool";
    /// A record of feedback.
    FeedbackFields as "FeedbackPattern" = [
        "source", "tool_name", "attempt", "max_attempts", "error_type", "message", "retry_scheduled_at",
        "next_delay_seconds",
    ];
    /// A message of the conversation.
    MessageFields as "MessagePattern" = ["role", "text", "guidance", "calls", "extra", "call", "tool", "error"];
    /// A directive.
    DirectiveFields as "DirectivePattern" = [
        "directive", "action", "because", "at", "work", "turn", "max_turns", "last", "attempt", "max_attempts", "target",
        "tools", "tool_choice", "timeout", "call", "tool", "arguments", "idempotency_key", "delay", "until",
        "subject", "error_type", "message", "exhausted", "feedback", "error", "attempts", "state", "decision",
        "output", "name", "value", "outcome", "repairs", "next_target", "remaining", "backoff", "log_message",
        "system_message", "sources", "source", "reason",
    ], "directive", [
        "prepare_turn", "call_model", "run_tool", "wait", "consult", "append", "feedback", "reducer_error",
        "refused", "repaired", "tool_ended", "reject_turn", "turn_retry", "final_turn", "dropped", "breaker", "shadow", "exhausted", "output_accepted", "output_refused",
        "metric", "warning", "finish",
    ];
    /// An event.
    EventFields as "EventPattern" = [
        "event", "seq", "now", "at", "work", "run", "policy", "seed", "drive", "system", "task", "targets",
        "tools", "deadline", "messages", "message_tokens", "tool_tokens", "reply", "failure", "calls", "output",
        "outcome", "decision", "reason",
    ], "event", [
        "run_started", "turn_prepared", "model_responded", "model_failed", "tools_proposed", "output_proposed",
        "tool_finished", "timer_fired", "planner_decided", "policy_changed", "stop_requested", "cancelled",
    ];
}

/// A directive or an event.
#[derive(Clone, Copy, Debug)]
pub(crate) enum HappeningFields {}

impl Fields for HappeningFields {
    const SCHEMA: &'static str = "HappeningPattern";
    const NAMES: &'static [&'static str] = &[
        "directive",
        "event",
        "action",
        "because",
        "at",
        "seq",
        "now",
        "work",
        "turn",
        "max_turns",
        "last",
        "attempt",
        "max_attempts",
        "target",
        "targets",
        "tools",
        "tool_choice",
        "timeout",
        "call",
        "calls",
        "tool",
        "arguments",
        "idempotency_key",
        "delay",
        "until",
        "subject",
        "error_type",
        "message",
        "messages",
        "exhausted",
        "feedback",
        "error",
        "attempts",
        "state",
        "decision",
        "output",
        "name",
        "value",
        "outcome",
        "repairs",
        "next_target",
        "remaining",
        "backoff",
        "log_message",
        "system_message",
        "sources",
        "source",
        "reply",
        "failure",
        "reason",
    ];
    const WORD: &'static str = DirectiveFields::WORD;
    const WORDS: &'static [&'static str] = DirectiveFields::WORDS;
}

impl<F: Fields> Decode for Pattern<F> {
    const NAME: Option<&'static str> = Some(F::SCHEMA);

    fn decode(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        let value = match &node.data {
            Data::Text(word) if !F::WORD.is_empty() => {
                known(word, F::WORDS, node.span, reader)?;
                Value::Object(Map::from_iter([(F::WORD.to_owned(), word.to_string().into())]))
            }
            Data::Map(entries) => {
                let mut fine = !entries.is_empty();
                if entries.is_empty() {
                    let problem = Diagnostic::error(Code::MISSING_FIELD, node.span, "this expects nothing");
                    reader.report(problem.help("name at least one field"));
                }
                for (key, value) in entries.iter() {
                    if !F::NAMES.contains(&&*key.name) {
                        reader.unknown_field(key, F::NAMES, entries);
                        fine = false;
                    }
                    if let (true, Data::Text(word)) = (*key.name == *F::WORD, &value.data) {
                        fine &= known(word, F::WORDS, value.span, reader).is_some();
                    }
                }
                if !fine {
                    return None;
                }
                node.to_json()
            }
            _ if F::WORD.is_empty() => return reader.wrong_type(node, "a mapping"),
            _ => return reader.wrong_type(node, "a mapping, or a name"),
        };
        Some(Self { value, fields: PhantomData })
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        let record = json!({
            "type": "object",
            "properties": fields::schemas(F::NAMES),
            "additionalProperties": false,
            "minProperties": 1,
        });
        if F::WORD.is_empty() {
            return Schema::try_from(record).unwrap_or_default();
        }
        let word = if F::WORDS.is_empty() { json!({"type": "string"}) } else { json!({"enum": F::WORDS}) };
        json_schema!({"anyOf": [word, record]})
    }
}

fn known(word: &str, words: &[&str], span: Span, reader: &mut Reader<'_>) -> Option<()> {
    if words.is_empty() || words.contains(&word) {
        return Some(());
    }
    reader.bad_choice(span, word, words)
}

/// Whether `found` is what is expected: mappings may have more fields, everything else is the same.
///
/// `{contains: TEXT}` and `{matches: REGEX}` stand for texts, and durations for numbers of nanoseconds.
pub(crate) fn matches(expected: &Value, found: &Value) -> bool {
    match (expected, found) {
        (Value::Object(expected), Value::String(text)) => of_text(expected, text),
        (Value::Object(expected), Value::Object(found)) => {
            expected.iter().all(|(key, value)| matches(value, found.get(key).unwrap_or(&Value::Null)))
        }
        (Value::Array(expected), Value::Array(found)) => {
            expected.len() == found.len() && expected.iter().zip(found).all(|(a, b)| matches(a, b))
        }
        (Value::Number(a), Value::Number(b)) => {
            a == b || (a.as_f64() == b.as_f64() && (a.is_f64() || b.is_f64()))
        }
        (Value::String(a), Value::Number(b)) => {
            parse_duration(a).is_ok_and(|duration| Some(duration.0) == b.as_u64())
        }
        (Value::String(a), Value::String(b)) => {
            // Two ways to write the same duration.
            a == b || matches!((parse_duration(a), parse_duration(b)), (Ok(a), Ok(b)) if a == b)
        }
        (a, b) => a == b,
    }
}

fn of_text(expected: &Map<String, Value>, text: &str) -> bool {
    !expected.is_empty()
        && expected.iter().all(|(key, value)| match (key.as_str(), value.as_str()) {
            ("contains", Some(part)) => text.contains(part),
            ("matches", Some(pattern)) => Regex::new(pattern).is_ok_and(|regex| regex.is_match(text)),
            _ => false,
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_are_those_that_hosts_see() {
        let page = include_str!("../../docs/events.md");
        let words = DirectiveFields::WORDS.iter().chain(EventFields::WORDS);
        let missing: Vec<_> = words.filter(|word| !page.contains(&format!("`{word}`"))).collect();
        assert!(missing.is_empty(), "{missing:?}");
        let told = page.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
        for name in told.filter(|name| is_directive(page, name)) {
            assert!(DirectiveFields::WORDS.contains(&name), "{name} is not known");
        }
    }

    /// Whether the page tells it below one of the headings on directives.
    fn is_directive(page: &str, name: &str) -> bool {
        let sections = page.split("\n## ").filter(|section| section.starts_with("Directives"));
        sections
            .flat_map(str::lines)
            .any(|line| line.starts_with(&format!("| `{name}` |")) && name != "directive")
    }

    #[test]
    fn a_record_may_have_more_than_is_expected_but_nothing_else() {
        let found =
            json!({"a": 1, "b": {"c": [1, 2]}, "delay": 1_500_000_000_u64, "text": "the price is 12"});
        for expected in [
            json!({"a": 1}),
            json!({"a": 1.0}),
            json!({"b": {"c": [1, 2]}}),
            json!({"delay": "1.5s"}),
            json!({"text": {"contains": "price"}}),
            json!({"text": {"matches": "price is \\d+$"}}),
            json!({"none": null}),
        ] {
            assert!(matches(&expected, &found), "{expected}");
        }
        for expected in [
            json!({"a": 2}),
            json!({"a": "1"}),
            json!({"b": {"c": [1]}}),
            json!({"delay": "1s"}),
            json!({"text": "price"}),
            json!({"text": {"contains": "cost"}}),
            json!({"text": {}}),
            json!({"none": 1}),
        ] {
            assert!(!matches(&expected, &found), "{expected}");
        }
    }
}
