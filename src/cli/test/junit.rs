//! The result as `JUnit` XML, for machines that show it.

use std::fmt::Write as _;

use crate::cases::{CaseVerdict, ExpectationMismatch};

use super::{BrokenFile, PlayedFile};
use crate::cli::text::xml;

pub(super) fn document(all: &[PlayedFile]) -> String {
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"unfazed\">\n");
    for played in all {
        let failed = played.cases().filter(|(_, verdict)| !verdict.passed()).count();
        let name = xml(&played.name);
        let errors = usize::from(played.broken.is_some());
        let count = played.verdicts.len() + errors;
        let _ = writeln!(
            out,
            "  <testsuite name=\"{name}\" tests=\"{count}\" failures=\"{failed}\" errors=\"{errors}\" skipped=\"0\">"
        );
        if let Some(broken) = &played.broken {
            error(&mut out, &name, broken);
        }
        for (case, verdict) in played.cases() {
            let (title, line) = (xml(case.name()), case.place().line);
            let open = format!(
                "    <testcase name=\"{title}\" classname=\"{name}\" file=\"{name}\" line=\"{line}\""
            );
            if verdict.passed() {
                let _ = writeln!(out, "{open}/>");
                continue;
            }
            let what: Vec<&str> = verdict.mismatches.iter().map(|mismatch| mismatch.what.as_str()).collect();
            let _ = writeln!(out, "{open}>");
            let _ = writeln!(
                out,
                "      <failure message=\"{}\">{}</failure>",
                xml(&what.join(", ")),
                xml(&body(verdict))
            );
            out.push_str("    </testcase>\n");
        }
        out.push_str("  </testsuite>\n");
    }
    out.push_str("</testsuites>\n");
    out
}

/// A file that cannot be used, as a case that ended in an error.
fn error(out: &mut String, name: &str, broken: &BrokenFile) {
    let said = match broken {
        BrokenFile::Unread(error) => error.to_string(),
        BrokenFile::Mistakes(reports) => {
            reports.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
        }
    };
    let _ = writeln!(
        out,
        "    <testcase name=\"the file can be used\" classname=\"{name}\" file=\"{name}\">\n      \
         <error message=\"{}\">{}</error>\n    </testcase>",
        xml(said.lines().next().unwrap_or_default()),
        xml(&said)
    );
}

fn body(verdict: &CaseVerdict) -> String {
    let mut out = String::new();
    for ExpectationMismatch { what, rows, .. } in &verdict.mismatches {
        let _ = writeln!(out, "{what}");
        for row in rows.iter().filter(|row| !row.same) {
            let _ = writeln!(out, "  expected: {}\n  got:      {}", row.expected, row.got);
        }
    }
    for line in &verdict.timeline {
        let _ = writeln!(out, "{:>10}  {}", line.at.to_string(), line.text);
        for why in &line.why {
            let _ = writeln!(out, "            {why}");
        }
    }
    out
}
