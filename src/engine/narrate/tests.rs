use serde_json::{Value, json};

use super::*;
use crate::engine::{Failure, Record};
use crate::policy::ErrorClass;

fn directive(json: Value) -> Directive {
    serde_json::from_value(json).unwrap()
}

fn told(json: Value) -> String {
    Narrator::default().directive(&directive(json)).to_string()
}

/// A directive of each kind.
pub(crate) fn every_directive() -> Vec<Directive> {
    [every("Work"), every("Note")].concat().into_iter().map(directive).collect()
}

/// The first example in the schema for a value of this kind.
fn example(root: &Value, schema: &Value) -> Value {
    if let Some(example) = schema["examples"].get(0) {
        return example.clone();
    }
    if let Some(name) = schema["$ref"].as_str().and_then(|path| path.rsplit('/').next()) {
        let own = example(root, &root["$defs"][name]);
        let more = schema["properties"].as_object().map(|_| fields(root, schema));
        return match (own, more) {
            (Value::Object(mut own), Some(Value::Object(more))) => {
                own.extend(more);
                Value::Object(own)
            }
            (own, _) => own,
        };
    }
    for forms in ["oneOf", "anyOf"] {
        if let Some(form) = schema[forms].get(0) {
            let mut whole = example(root, form);
            if let (Some(whole), Value::Object(more)) = (whole.as_object_mut(), fields(root, schema)) {
                whole.extend(more);
            }
            return whole;
        }
    }
    match (schema["const"].as_str(), schema["enum"].get(0), schema["type"].as_str()) {
        (Some(word), ..) => json!(word),
        (_, Some(word), _) => word.clone(),
        (.., Some("integer" | "number")) => json!(1),
        (.., Some("boolean")) => json!(true),
        (.., Some("array")) => json!([]),
        (.., Some("string")) => json!("text"),
        _ => fields(root, schema),
    }
}

fn fields(root: &Value, schema: &Value) -> Value {
    let all = schema["properties"].as_object().into_iter().flatten();
    Value::Object(all.map(|(name, field)| (name.clone(), example(root, field))).collect())
}

/// One record of each kind, from the examples of the schema.
fn every(sort: &str) -> Vec<Value> {
    let root = Record::json_schema();
    let kinds = root["$defs"][sort]["oneOf"].as_array().unwrap().clone();
    assert!(kinds.len() > 5, "{sort}");
    kinds.iter().map(|kind| example(&root, kind)).collect()
}

#[test]
fn every_directive_has_words_of_its_own() {
    let mut lines = Vec::new();
    for json in [every("Work"), every("Note")].concat() {
        let kind = json["directive"].as_str().unwrap().to_owned();
        let told = Narrator::default().directive(&directive(json));
        assert!(!told.title.is_empty() && !told.subject.is_empty(), "{kind}");
        lines.push(format!("{kind:25}{} {told}", told.sign));
    }
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn every_event_has_words_of_its_own() {
    let mut lines = Vec::new();
    for json in every("Envelope") {
        let kind = json["event"].as_str().unwrap().to_owned();
        let event: Event = serde_json::from_value(json).unwrap();
        lines.push(format!("{kind:25}{}", Narrator::default().any_event(&event)));
    }
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn a_failure_is_told_once() {
    for (failed, said) in [
        (json!({"class": "timeout", "message": "timeout"}), "timeout"),
        (json!({"class": "rate_limit", "message": "Rate limit"}), "rate_limit"),
        (json!({"status": 429, "message": "HTTP 429"}), "HTTP 429"),
        (json!({"status": 529, "class": "overloaded", "message": "overloaded"}), "529 overloaded"),
        (json!({"status": 429, "message": "slow down"}), "429 slow down"),
        (json!({"class": "timeout", "message": "no answer"}), "timeout: no answer"),
    ] {
        let failed: Failure = serde_json::from_value(failed).unwrap();
        assert_eq!(phrase::failure(&failed), said);
    }
    let mut narrator = Narrator::default();
    assert!(narrator.is_new_failure("no answer") && !narrator.is_new_failure("no answer"));
    assert_eq!(phrase::classified(ErrorClass::Timeout.name(), ""), "timeout");
}

#[test]
fn a_breaker_that_lets_no_probe_through_is_open_as_long_as_it_lives() {
    for lifetime in
        ["the rest of the turn", "the rest of the run", "the rest of the session", "all runs that share it"]
    {
        let place = json!({ "file": "p.yaml", "line": 1, "column": 1 });
        let facts = [format!("no probe is let through for {lifetime}")];
        let because = json!([{ "rule": "breaker.open_for", "value": "unlimited", "layer": "tool", "place": place, "facts": facts }]);
        let opens = json!({ "directive": "breaker", "tool": "fetch", "state": "open", "because": because });
        assert_eq!(told(opens), format!("breaker of fetch opens for {lifetime}"));
    }
}

#[test]
fn foreign_text_cannot_command_a_terminal() {
    let text = told(json!({"directive": "warning", "message": "a\u{1b}[2Jb\n\nc\u{202e}d"}));
    assert_eq!(text, "warning: a\\u{1b}[2Jb / c\\u{202e}d");
}

#[test]
fn what_ended_the_attempts_is_told_with_what_follows() {
    let mut narrator = Narrator::default();
    let skip = json!({"directive": "turn_retry", "action": "skip-provider", "target": "main", "next_target": "spare",
        "remaining": 1, "error_type": "overloaded", "backoff": 0, "log_message": "main: overloaded"});
    assert_eq!(
        narrator.directive(&directive(skip)).to_string(),
        "model main falls back to spare: overloaded"
    );
    let end = json!({"directive": "exhausted", "exhausted": {"action": "model main", "reason": "attempts",
        "attempts": [{"attempt": 1, "error_type": "overloaded", "message": "", "at": 0, "delay": 0}]}, "decision": null});
    assert_eq!(
        narrator.directive(&directive(end)).to_string(),
        "model main is given up after 1 attempt: attempts exhausted; fallback to model spare"
    );
}
