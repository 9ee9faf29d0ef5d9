//! The result as one JSON document.

use crate::cases::{
    CaseVerdict, ExternalProof, PolicyCoverage, ProvedClaim, TestCase, TestSuite, UnmetClaim, UnprovedClaim,
};
use crate::text::Report;
use indexmap::IndexMap;
use serde_json::{Value, json};

use super::{BrokenFile, PlayedFile};

pub(super) fn document(all: &[PlayedFile], coverage: Option<&PolicyCoverage>) -> Value {
    let files: Vec<Value> = all
        .iter()
        .map(|played| {
            let cases: Vec<Value> = played.cases().map(|(one, verdict)| case(one, verdict)).collect();
            let about = played.suite.as_ref().and_then(TestSuite::about);
            let mut file = json!({"file": played.name, "about": about, "cases": cases});
            let elsewhere = played.suite.as_ref().map_or(&[][..], TestSuite::elsewhere);
            let unmet = played.suite.as_ref().map_or(&[][..], TestSuite::unmet);
            if let Some(fields) = file.as_object_mut() {
                if !unmet.is_empty() {
                    fields.insert("unmet".to_owned(), unmet.iter().map(not_met).collect());
                }
                if !elsewhere.is_empty() {
                    fields.insert("elsewhere".to_owned(), elsewhere.iter().map(shown_by).collect());
                }
                if let Some(broken) = &played.broken {
                    fields.insert("errors".to_owned(), errors(broken));
                }
            }
            file
        })
        .collect();
    let verdicts = || all.iter().flat_map(PlayedFile::cases).map(|(_, verdict)| verdict);
    let mut document = json!({
        "version": 1,
        "passed": verdicts().filter(|verdict| verdict.passed()).count(),
        "failed": verdicts().filter(|verdict| !verdict.passed()).count(),
        "broken": all.iter().filter(|played| played.broken.is_some()).count(),
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

/// Why a file cannot be used: its diagnostics, as `check` gives them, or what happened when it was read.
fn errors(broken: &BrokenFile) -> Value {
    match broken {
        BrokenFile::Unread(error) => json!([{"message": error.to_string()}]),
        BrokenFile::Mistakes(reports) => {
            let reports = reports.iter().map(Report::to_json);
            let all = reports.filter_map(|report| report.get("diagnostics")?.as_array().cloned());
            Value::Array(all.flatten().collect())
        }
    }
}

fn shown_by(elsewhere: &ExternalProof) -> Value {
    let ExternalProof { claim, file, test } = elsewhere;
    json!({"document": claim.document, "statement": claim.statement, "file": file, "test": test})
}

fn not_met(unmet: &UnmetClaim) -> Value {
    let UnmetClaim { claim, result, because } = unmet;
    let result = match result {
        UnprovedClaim::DoesNotHold => "does_not_hold",
        UnprovedClaim::NotExpressible => "not_expressible",
    };
    json!({"document": claim.document, "statement": claim.statement, "result": result, "because": because})
}

/// The statements a case proves, by document.
fn proves(claims: &[ProvedClaim]) -> Value {
    let mut documents: IndexMap<&str, Vec<&str>> = IndexMap::new();
    for claim in claims {
        documents.entry(&claim.document).or_default().push(&claim.statement);
    }
    json!(documents)
}

fn case(case: &TestCase, verdict: &CaseVerdict) -> Value {
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
        "proves": proves(case.proves()), "passed": verdict.passed(), "failures": failures, "timeline": timeline,
    })
}
