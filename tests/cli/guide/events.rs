//! Every event and every directive is described, with its fields and the words they may have.

use serde_json::Value;
use unfazed::engine::Record;

use super::read;

/// The kinds of records, the field that tells them apart, and the heading of their table.
const TABLES: &[(&str, &str, &str)] = &[
    ("Envelope", "event", "## Events"),
    ("Work", "directive", "## Directives that ask for work"),
    ("Note", "directive", "## Directives to take note of"),
];
/// Words that a reader has to know.
const WORDS: &[&str] = &[
    "DriveMode",
    "WindowSource",
    "FinishReason",
    "EffectState",
    "PlannerDecision",
    "ApprovalAnswer",
    "StopReason",
    "ApprovalQuestion",
    "RetryAction",
    "BreakerPhase",
    "LoopPattern",
    "LoopStage",
    "ReportSource",
    "FinalReason",
    "FailureReason",
    "LayerKind",
];

#[test]
fn every_event_and_directive_is_described_with_its_fields() {
    let (schema, page) = (Record::json_schema(), read("docs/events.md"));
    let (mut missing, mut checked) = (Vec::new(), 0);
    for (kind, tag, heading) in TABLES {
        let (_, table) = page.split_once(&format!("\n{heading}\n")).unwrap();
        let table = table.split("\n## ").next().unwrap();
        for fields in schema["$defs"][kind]["oneOf"].as_array().unwrap() {
            let fields = fields_of(&schema, fields);
            let (_, name) = fields.iter().find(|(field, _)| field == tag).unwrap();
            let name = name["const"].as_str().unwrap();
            let row =
                table.lines().find(|line| line.starts_with(&format!("| `{name}` |"))).unwrap_or_default();
            checked += 1;
            for (field, _) in fields.iter().filter(|(field, _)| field != tag) {
                // The number of the work is reported once for all.
                let told = row.contains(&format!("`{field}`")) || *kind == "Work" && field == "work";
                if row.is_empty() || !told {
                    missing.push(format!("{name}: {field}"));
                }
            }
            if row.is_empty() {
                missing.push(name.to_owned());
            }
        }
    }
    assert!(checked > 40, "only {checked} were found");
    assert!(missing.is_empty(), "docs/events.md does not describe {missing:?}");
}

#[test]
fn every_word_that_a_field_may_have_is_told() {
    let (schema, page) = (Record::json_schema(), read("docs/events.md"));
    let mut missing = Vec::new();
    for kind in WORDS {
        let words = schema["$defs"][kind]["oneOf"].as_array().unwrap_or_else(|| panic!("there is no {kind}"));
        let words: Vec<&str> = words.iter().filter_map(|word| word["const"].as_str()).collect();
        assert!(!words.is_empty(), "{kind} has no words");
        missing.extend(
            words.iter().filter(|word| !page.contains(&format!("`{word}`"))).map(|word| (*kind, *word)),
        );
    }
    assert!(missing.is_empty(), "docs/events.md does not tell {missing:?}");
}

#[test]
fn every_reason_of_a_last_turn_is_one_of_the_labels() {
    let (schema, page) = (Record::json_schema(), read("docs/telemetry.md"));
    let reasons = schema["$defs"]["FinalReason"]["oneOf"].as_array().unwrap();
    let (_, told) = page.split_once("\n- `forced_final_reason` says").unwrap();
    let told = told.split("\n\n").next().unwrap();
    for reason in reasons.iter().filter_map(|reason| reason["const"].as_str()) {
        assert!(told.contains(&format!("`{reason}`")), "docs/telemetry.md does not tell `{reason}`");
    }
}

/// The fields of one kind of record, those of what it refers to among them.
fn fields_of(schema: &Value, kind: &Value) -> Vec<(String, Value)> {
    let own = kind["properties"].as_object().into_iter().flatten();
    let mut fields: Vec<_> = own.map(|(name, field)| (name.clone(), field.clone())).collect();
    if let Some(name) = kind["$ref"].as_str() {
        fields.extend(fields_of(schema, schema.pointer(name.trim_start_matches('#')).unwrap()));
    }
    fields
}
