//! Texts that are almost JSON, by what is wrong with them. `tests/repairs/corpus.jsonl` has the value of those that have one
//! reading; without a `value`, a text is refused. A value that is not certain is marked: only a schema may take it.

use serde_json::Value;
use unfazed::text::repair::{RepairedJson, repair, repair_for};

#[test]
fn a_text_has_its_one_value_or_is_refused() {
    let corpus = include_str!("../repairs/corpus.jsonl");
    let mut wrong = Vec::new();
    let (mut values, mut refusals) = (0, 0);
    for line in corpus.lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        let (text, fault) = (case["text"].as_str().unwrap(), case["fault"].as_str().unwrap());
        let certain = case["certain"].as_bool().unwrap_or(true);
        let found = repair(text);
        let (right, by_schema) = if let Some(value) = case.get("value") {
            values += 1;
            let right =
                found.as_ref().is_ok_and(|found| found.value == *value && found.is_certain() == certain);
            (right, repair_for(text, &|_| false).is_ok() == certain)
        } else {
            refusals += 1;
            (found.is_err(), true)
        };
        if !right || !by_schema {
            wrong.push(format!(
                "{fault}: {text}: {:?}",
                found.map(|RepairedJson { value, .. }| value.to_string())
            ));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), values + refusals, wrong.join("\n"));
    assert!(values >= 250 && refusals >= 60, "{values} values, {refusals} refusals");
}
