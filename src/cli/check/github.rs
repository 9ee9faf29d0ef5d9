//! Annotations of GitHub Actions: workflow commands, one a line.

use std::fmt::Write as _;

use crate::text::{Diagnostic, Report, visible};

/// One command for each problem.
pub(super) fn commands(reports: &[Report]) -> String {
    let mut out = String::new();
    for report in reports {
        for problem in report.diagnostics() {
            // Writing into a string does not fail.
            let _ = writeln!(out, "{}", command(report, problem));
        }
        if report.more() > 0 {
            let _ = writeln!(out, "::notice::and {} more", report.more());
        }
    }
    out
}

fn command(report: &Report, problem: &Diagnostic) -> String {
    let place = report.sources().place_of(problem.span);
    let (end_line, end_column) = report.sources().end_of(problem.span);
    // Files are known there by their paths from the root of the repository.
    let file = place.file.strip_prefix("./").unwrap_or(&place.file);
    let mut at = format!("file={},line={},col={}", property(&visible(file)), place.line, place.column);
    // A place over several lines has no columns there.
    if end_line == place.line {
        let _ = write!(at, ",endColumn={end_column}");
    } else {
        let _ = write!(at, ",endLine={end_line}");
    }
    let mut said = visible(&problem.message).into_owned();
    if let Some(label) = &problem.label {
        let _ = write!(said, " ({})", visible(label));
    }
    for (span, label) in &problem.also {
        let place = report.sources().place_of(*span).to_string();
        let _ = write!(said, "\n{}: {}", visible(&place), visible(label));
    }
    for help in &problem.help {
        let _ = write!(said, "\nhelp: {}", visible(help));
    }
    let (kind, code) = (problem.severity, property(problem.code.as_str()));
    format!("::{kind} {at},title={code}::{}", data(&said))
}

/// Text after the `::`.
fn data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// The value of a property.
fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_end_a_command_is_escaped() {
        assert_eq!(property("a,b:c%d.yaml"), "a%2Cb%3Ac%25d.yaml");
        assert_eq!(data("50%\nof a: b, c\r"), "50%25%0Aof a: b, c%0D");
    }
}
