//! The result as one JSON document.

use serde_json::{Value, json};
use unfazed::cases::{Case, Coverage, Verdict};

use super::Played;

pub(super) fn document(all: &[Played], coverage: Option<&Coverage>) -> Value {
    let files: Vec<Value> = all
        .iter()
        .map(|played| {
            let cases: Vec<Value> = played.cases().map(|(one, verdict)| case(one, verdict)).collect();
            json!({"file": played.suite.name(), "about": played.suite.about(), "cases": cases})
        })
        .collect();
    let verdicts = || all.iter().flat_map(Played::cases).map(|(_, verdict)| verdict);
    let mut document = json!({
        "version": 1,
        "passed": verdicts().filter(|verdict| verdict.passed()).count(),
        "failed": verdicts().filter(|verdict| !verdict.passed()).count(),
        "files": files,
    });
    if let (Some(coverage), Some(fields)) = (coverage, document.as_object_mut()) {
        let (all, won) = coverage.count();
        let leaves: Vec<Value> = coverage
            .leaves()
            .map(|leaf| {
                json!({
                    "path": leaf.path, "file": leaf.place.file, "line": leaf.place.line,
                    "column": leaf.place.column, "cases": leaf.cases,
                })
            })
            .collect();
        fields.insert("coverage".to_owned(), json!({"values": all, "won": won, "leaves": leaves}));
    }
    document
}

fn case(case: &Case, verdict: &Verdict) -> Value {
    let failures: Vec<Value> = verdict
        .mismatches
        .iter()
        .map(|mismatch| {
            let rows: Vec<Value> = mismatch
                .rows
                .iter()
                .map(|row| json!({"expected": row.expected, "got": row.got, "same": row.same}))
                .collect();
            json!({"what": mismatch.what, "rows": rows})
        })
        .collect();
    let timeline: Vec<Value> = verdict
        .timeline
        .iter()
        .map(|line| json!({"at": line.at.to_string(), "text": line.text, "why": line.why}))
        .collect();
    json!({
        "name": case.name(), "given": case.given(), "line": case.place().line, "column": case.place().column,
        "passed": verdict.passed(), "failures": failures, "timeline": timeline,
    })
}
