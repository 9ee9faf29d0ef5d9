//! SARIF 2.1.0, as code scanning reads it.

use std::fmt::Write as _;

use crate::text::{Code, Diagnostic, Report, Span};
use serde_json::{Value, json};

use crate::cli::pages;

/// The log of one run.
pub(super) fn log(reports: &[Report]) -> Value {
    let mut codes: Vec<Code> =
        reports.iter().flat_map(Report::diagnostics).map(|problem| problem.code).collect();
    codes.sort_unstable();
    codes.dedup();
    let results = reports.iter().flat_map(|report| {
        let codes = &codes;
        report.diagnostics().iter().map(move |problem| result(report, problem, codes))
    });
    let results: Vec<Value> = results.collect();
    let more: usize = reports.iter().map(Report::more).sum();
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {
                "name": "unfazed",
                "version": env!("CARGO_PKG_VERSION"),
                "rules": codes.iter().map(|code| rule(*code)).collect::<Vec<_>>(),
            }},
            "columnKind": "unicodeCodePoints",
            "results": results,
            "properties": {"more": more},
        }],
    })
}

fn rule(code: Code) -> Value {
    let mut rule = json!({"id": code.as_str()});
    if let Some(page) = pages::find(code.as_str()) {
        rule["shortDescription"] = json!({"text": page.title});
        rule["help"] = json!({"text": page.body, "markdown": page.body});
    }
    rule["defaultConfiguration"] = json!({"level": if code.is_lint() { "warning" } else { "error" }});
    rule
}

fn result(report: &Report, problem: &Diagnostic, codes: &[Code]) -> Value {
    let mut text = problem.message.clone();
    if let Some(label) = &problem.label {
        let _ = write!(text, " ({label})");
    }
    problem.help.iter().for_each(|help| text.extend(["\n", help]));
    let mut result = json!({
        "ruleId": problem.code.as_str(),
        "ruleIndex": codes.iter().position(|code| *code == problem.code),
        "level": problem.severity.name(),
        "message": {"text": text},
        "locations": [{"physicalLocation": location(report, problem.span)}],
    });
    if !problem.also.is_empty() {
        let also = problem.also.iter().enumerate().map(|(id, (span, label))| {
            json!({"id": id, "physicalLocation": location(report, *span), "message": {"text": label}})
        });
        result["relatedLocations"] = also.collect();
    }
    if let Some(fix) = &problem.fix {
        let at = location(report, fix.span);
        let title = fix.title.clone().unwrap_or_else(|| format!("write `{}`", fix.text));
        result["fixes"] = json!([{
            "description": {"text": title},
            "artifactChanges": [{
                "artifactLocation": at["artifactLocation"],
                "replacements": [{"deletedRegion": at["region"], "insertedContent": {"text": fix.text}}],
            }],
        }]);
    }
    result
}

fn location(report: &Report, span: Span) -> Value {
    let place = report.sources().place_of(span);
    let (end_line, end_column) = report.sources().end_of(span);
    json!({
        "artifactLocation": {"uri": uri(&place.file)},
        "region": {
            "startLine": place.line,
            "startColumn": place.column,
            "endLine": end_line,
            "endColumn": end_column,
        },
    })
}

/// A path as a reference to a file: everything that means something in one is escaped.
fn uri(path: &str) -> String {
    let mut uri = String::new();
    for byte in path.strip_prefix("./").unwrap_or(path).bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' | b'~' => {
                uri.push(char::from(byte));
            }
            _ => {
                // Writing into a string does not fail.
                let _ = write!(uri, "%{byte:02X}");
            }
        }
    }
    uri
}

#[cfg(test)]
mod tests {
    use super::uri;

    #[test]
    fn a_path_is_a_reference() {
        assert_eq!(uri("./a.yaml"), "a.yaml");
        assert_eq!(uri("my team/ä:#1.yaml"), "my%20team/%C3%A4%3A%231.yaml");
    }
}
