//! Records with only some fields given: what a test file expects of events, directives and messages.

use core::marker::PhantomData;

use regex::Regex;
use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value, json};

use super::fields;
use super::forms::{fault, is_of_text};
use super::kinds::{RecordKind, RecordShape, kinds};
use crate::policy::ErrorClass;
use crate::policy::decode::{Decode, NodeReader, list};
use crate::text::yaml::{YamlData, YamlKey, YamlNode};
use crate::text::{Code, Diagnostic, Span, parse_duration};

/// The fields a record may have.
pub(crate) trait RecordFields {
    /// The name of the schema.
    const SCHEMA: &'static str;
    /// Their names, where there is only one kind.
    const NAMES: &'static [&'static str] = &[];
    /// The field a bare word stands for, if it is not the name of a kind; empty: there is none.
    const WORD: &'static str = "";
    /// The keys that name the kinds of such records, each with its own fields; empty: there is only one.
    const TAGS: &'static [&'static str] = &[];
}

/// A value that is expected, as far as it matters.
#[derive(Clone, Debug)]
pub(crate) struct ExpectedValue(pub(crate) Value);

/// A record with only some fields given.
#[derive(Clone, Debug)]
pub(crate) struct RecordPattern<F> {
    /// The fields that are given, with their expected values.
    pub(crate) value: Value,
    /// Where it is written.
    pub(crate) span: Span,
    fields: PhantomData<fn() -> F>,
}

macro_rules! fields {
    ($($(#[doc = $doc:literal])+ $name:ident as $schema:literal = [$($field:literal),+ $(,)?] $(, $word:literal)?;)+) => {$(
        $(#[doc = $doc])+
        #[derive(Clone, Copy, Debug)]
        pub(crate) enum $name {}

        impl RecordFields for $name {
            const SCHEMA: &'static str = $schema;
            const NAMES: &'static [&'static str] = &[$($field),+];
            $(const WORD: &'static str = $word;)?
        }
    )+};
}

macro_rules! records {
    ($($(#[doc = $doc:literal])+ $name:ident as $schema:literal = [$($tag:literal),+] $(, $word:literal)?;)+) => {$(
        $(#[doc = $doc])+
        #[derive(Clone, Copy, Debug)]
        pub(crate) enum $name {}

        impl RecordFields for $name {
            const SCHEMA: &'static str = $schema;
            const TAGS: &'static [&'static str] = &[$($tag),+];
            $(const WORD: &'static str = $word;)?
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
}

records! {
    /// A message of the conversation.
    MessageFields as "MessagePattern" = ["role"];
    /// A directive.
    DirectiveFields as "DirectivePattern" = ["directive"], "directive";
    /// An event.
    EventFields as "EventPattern" = ["event"], "event";
    /// A directive or an event.
    HappeningFields as "HappeningPattern" = ["directive", "event"], "directive";
}

impl<F: RecordFields> Decode for RecordPattern<F> {
    const NAME: Option<&'static str> = Some(F::SCHEMA);

    fn decode(node: &YamlNode, reader: &mut NodeReader<'_>) -> Option<Self> {
        let value = match &node.data {
            YamlData::Text(word) if !F::WORD.is_empty() => {
                let tag = match kinds(F::TAGS).find(|kind| *kind.name == **word) {
                    Some(kind) => kind.tag,
                    None if F::TAGS.is_empty() => F::WORD,
                    None => return reader.bad_choice(node.span, word, &names::<F>("")),
                };
                Value::Object(Map::from_iter([(tag.to_owned(), word.to_string().into())]))
            }
            YamlData::Map(entries) => {
                let mut fine = !entries.is_empty();
                if entries.is_empty() {
                    let problem = Diagnostic::error(Code::MISSING_FIELD, node.span, "this expects nothing");
                    reader.report(problem.help("name at least one field"));
                }
                let known = field_names::<F>();
                for (key, value) in entries.iter() {
                    if !known.contains(&&*key.name) {
                        reader.unknown_field(key, &known, entries);
                        fine = false;
                    }
                    fine &= a_class(key, value, reader);
                    let named = names::<F>(&key.name);
                    if let (false, YamlData::Text(word)) = (named.is_empty(), &value.data)
                        && !named.contains(&&**word)
                    {
                        fine = reader.bad_choice::<()>(value.span, word, &named).is_some();
                    }
                }
                if !fine || !possible(F::TAGS, node.span, entries, reader) | !sound(node, reader) {
                    return None;
                }
                node.to_json()
            }
            _ if F::WORD.is_empty() => return reader.wrong_type(node, "a mapping"),
            _ => return reader.wrong_type(node, "a mapping, or a name"),
        };
        Some(Self { value, span: node.span, fields: PhantomData })
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        let record = json!({
            "type": "object",
            "properties": fields::schemas(&field_names::<F>(), F::TAGS),
            "additionalProperties": false,
            "minProperties": 1,
        });
        if F::WORD.is_empty() {
            return Schema::try_from(record).unwrap_or_default();
        }
        let names = names::<F>("");
        let word = if names.is_empty() { json!({"type": "string"}) } else { json!({"enum": names}) };
        json_schema!({"anyOf": [word, record]})
    }
}

impl Decode for ExpectedValue {
    fn decode(node: &YamlNode, reader: &mut NodeReader<'_>) -> Option<Self> {
        sound(node, reader).then(|| Self(node.to_json()))
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        Schema::default()
    }
}

/// Whether there are records with all these fields. Others can never come.
fn possible(
    tags: &'static [&'static str],
    span: Span,
    entries: &[(YamlKey, YamlNode)],
    reader: &mut NodeReader<'_>,
) -> bool {
    if tags.is_empty() {
        return true;
    }
    let all = || kinds(tags);
    let told = |kind: &&RecordKind| {
        entries.iter().any(|(key, value)| {
            *key.name == *kind.tag && matches!(&value.data, YamlData::Text(word) if **word == *kind.name)
        })
    };
    if let Some(kind) = all().find(told) {
        let known = entries.iter().fold(true, |fine, (key, value)| fine & field_of(kind, key, value, reader));
        return known && may_be(&[kind], entries, reader);
    }
    let fit: Vec<&RecordKind> =
        all().filter(|kind| entries.iter().all(|(key, _)| kind.field(&key.name).is_some())).collect();
    let Some((kind, others)) = fit.split_first() else {
        let fields: Vec<&str> = entries.iter().map(|(key, _)| &*key.name).collect();
        let message = format!("nothing has {} together, so this can never come", list(&fields));
        reader.report(Diagnostic::error(Code::CONTRADICTION, span, message));
        return false;
    };
    // Of several kinds that fit, what is within a field is known only where they agree.
    let agreed = |name: &str| {
        let inner = kind.field(name)?;
        let same = |other: &&RecordKind| other.field(name) == Some(inner);
        others.iter().all(same).then_some(inner)
    };
    let known = entries.iter().fold(true, |fine, (key, value)| {
        fine & agreed(&key.name).is_none_or(|inner| within(inner, value, reader))
    });
    known && may_be(&fit, entries, reader)
}

/// Whether the fields of one of these kinds may be what is expected of them.
fn may_be(kinds: &[&RecordKind], entries: &[(YamlKey, YamlNode)], reader: &mut NodeReader<'_>) -> bool {
    let fault_of = |kind: &&RecordKind| entries.iter().find_map(|(key, value)| fault(kind, key, value));
    let mut faults = Vec::new();
    for kind in kinds {
        match fault_of(kind) {
            Some(fault) => faults.push(fault),
            None => return true,
        }
    }
    let Some(first) = faults.into_iter().next() else { return true };
    first.report(reader);
    false
}

/// Whether records of a kind have a field, and what is within it.
fn field_of(kind: &RecordKind, key: &YamlKey, value: &YamlNode, reader: &mut NodeReader<'_>) -> bool {
    if let Some(inner) = kind.field(&key.name) {
        return within(inner, value, reader);
    }
    let message = format!("`{}` has no `{}`, so this can never come", kind.name, key.name);
    let problem = Diagnostic::error(Code::CONTRADICTION, key.span, message);
    reader.report(problem.help(format!("it has {}", list(&kind.names()))));
    false
}

/// Whether the fields of a record within a record exist.
fn within(shape: &RecordShape, node: &YamlNode, reader: &mut NodeReader<'_>) -> bool {
    match &node.data {
        _ if shape.is_any() => true,
        YamlData::List(items) => items.iter().fold(true, |fine, item| fine & within(shape, item, reader)),
        YamlData::Map(entries) => entries.iter().fold(true, |fine, (key, value)| {
            let Some(inner) = shape.field(&key.name) else {
                reader.unknown_field(key, &shape.names(), entries);
                return false;
            };
            fine & within(inner, value, reader) & a_class(key, value, reader)
        }),
        _ => true,
    }
}

/// Whether a placeholder for texts can match, and can fail to match.
fn sound(node: &YamlNode, reader: &mut NodeReader<'_>) -> bool {
    match &node.data {
        YamlData::List(items) => items.iter().fold(true, |fine, item| fine & sound(item, reader)),
        YamlData::Map(entries) if is_of_text(entries) => {
            entries.iter().fold(true, |fine, (key, value)| fine & of_any_text(key, value, reader))
        }
        YamlData::Map(entries) => entries.iter().fold(true, |fine, (_, value)| fine & sound(value, reader)),
        _ => true,
    }
}

/// Whether the class that is expected exists.
fn a_class(key: &YamlKey, value: &YamlNode, reader: &mut NodeReader<'_>) -> bool {
    match &value.data {
        YamlData::Text(name) if *key.name == *"error_type" && ErrorClass::from_name(name).is_none() => {
            let names: Vec<&str> = ErrorClass::ALL.iter().map(|class| class.name()).collect();
            reader.bad_choice::<()>(value.span, name, &names).is_some()
        }
        _ => true,
    }
}

/// Reports `contains` and `matches` that hold for any text, or for none.
fn of_any_text(key: &YamlKey, value: &YamlNode, reader: &mut NodeReader<'_>) -> bool {
    let YamlData::Text(text) = &value.data else { return true };
    if text.is_empty() {
        let message = format!("any text {} this, so it expects nothing", key.name);
        let problem = Diagnostic::error(Code::MISSING_FIELD, value.span, message);
        reader.report(problem.help("write a piece of the text, or remove it"));
        return false;
    }
    if *key.name == *"matches"
        && let Err(error) = Regex::new(text)
    {
        let said = error.to_string();
        let why = said.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
        let message = format!("this is not a regular expression: {why}");
        reader.report(Diagnostic::error(Code::BAD_VALUE, value.span, message));
        return false;
    }
    true
}

/// The names of the kinds that this key tells; of all kinds for an empty key.
fn names<F: RecordFields>(tag: &str) -> Vec<&'static str> {
    kinds(F::TAGS).filter(|kind| tag.is_empty() || kind.tag == tag).map(|kind| kind.name).collect()
}

/// The names of the fields that such a record may have.
fn field_names<F: RecordFields>() -> Vec<&'static str> {
    let mut known: Vec<&str> = F::NAMES.iter().chain(F::TAGS).copied().collect();
    for name in kinds(F::TAGS).flat_map(RecordKind::names) {
        if !known.contains(&name) {
            known.push(name);
        }
    }
    known
}

/// Whether `found` is what is expected: mappings may have more fields, unless none is expected; everything else is the same.
///
/// `{contains: TEXT}` and `{matches: REGEX}` stand for texts, and durations for numbers of nanoseconds.
pub(crate) fn matches(expected: &Value, found: &Value) -> bool {
    match (expected, found) {
        (Value::Object(expected), Value::String(text)) => of_text(expected, text),
        (Value::Object(expected), Value::Object(found)) if expected.is_empty() => found.is_empty(),
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
        let words = names::<HappeningFields>("").into_iter();
        let missing: Vec<_> = words.filter(|word| !page.contains(&format!("`{word}`"))).collect();
        assert!(missing.is_empty(), "{missing:?}");
        let told = page.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
        for name in told.filter(|name| is_directive(page, name)) {
            assert!(names::<DirectiveFields>("").contains(&name), "{name} is not known");
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
        let found = json!({
            "a": 1, "b": {"c": [1, 2]}, "delay": 1_500_000_000_u64, "text": "the price is 12", "empty": {},
        });
        for expected in [
            json!({"a": 1}),
            json!({"a": 1.0}),
            json!({"b": {"c": [1, 2]}}),
            json!({"delay": "1.5s"}),
            json!({"text": {"contains": "price"}}),
            json!({"text": {"matches": "price is \\d+$"}}),
            json!({"none": null}),
            json!({"empty": {}}),
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
            json!({"b": {}}),
        ] {
            assert!(!matches(&expected, &found), "{expected}");
        }
    }
}
