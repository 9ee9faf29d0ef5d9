//! The result for people: what failed, expected and got side by side, and what happened when.

use std::fmt::Write as _;

use crate::cases::{CaseVerdict, ExpectationMismatch, PolicyCoverage, TestCase};
use crate::text::{columns, padded};
use anstyle::{AnsiColor, Style};

use super::PlayedFile;
use crate::cli::exit::CommandFailure;
use crate::cli::out;
use crate::cli::text::{delay, one_line};

const BAD: Style = AnsiColor::Red.on_default().bold();
const GOOD: Style = AnsiColor::Green.on_default();
const BOLD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();

/// The widest column, in characters; what is longer continues in the next line.
const WIDEST: usize = 56;
/// The narrowest column that can be read; where there is less room, what came stands below what was expected.
const NARROWEST: usize = 20;
/// What stands beside the two columns.
const MARGINS: usize = 8;

pub(super) fn print(all: &[PlayedFile], coverage: Option<&PolicyCoverage>) -> Result<(), CommandFailure> {
    out::styled(&text(all, coverage, out::width()))
}

fn text(all: &[PlayedFile], coverage: Option<&PolicyCoverage>, width: Option<usize>) -> String {
    let mut out = String::new();
    let broken = all.iter().filter(|played| played.broken.is_some()).count();
    let (mut passed, mut failed) = (0_usize, 0_usize);
    for (case, verdict) in all.iter().flat_map(PlayedFile::cases) {
        if verdict.passed() {
            passed += 1;
        } else {
            failed += 1;
            failure(&mut out, case, verdict, width);
        }
    }
    if let Some(coverage) = coverage {
        self::coverage(&mut out, coverage);
    }
    let style = if failed > 0 || broken > 0 { BAD } else { GOOD };
    let unusable = match broken {
        0 => String::new(),
        1 => ", 1 file cannot be used".to_owned(),
        some => format!(", {some} files cannot be used"),
    };
    let _ = writeln!(out, "{style}{passed} passed, {failed} failed{unusable}{style:#}");
    out
}

fn failure(out: &mut String, case: &TestCase, verdict: &CaseVerdict, width: Option<usize>) {
    let place = case.place();
    let _ = writeln!(
        out,
        "{BAD}FAILED{BAD:#} {}:{}: {BOLD}{}{BOLD:#}",
        place.file,
        place.line,
        one_line(case.name())
    );
    if let Some(given) = case.given() {
        let _ = writeln!(out, "  {DIM}{}{DIM:#}", one_line(given));
    }
    for mismatch in &verdict.mismatches {
        compared(out, mismatch, width);
    }
    let _ = writeln!(out, "\n  {DIM}what happened{DIM:#}");
    let mut said: &[String] = &[];
    for line in &verdict.timeline {
        let _ = writeln!(out, "  {:>10}  {}", delay(line.at), one_line(&line.text));
        // The same reasons are not said twice in a row.
        if !line.why.is_empty() && line.why != said {
            said = &line.why;
            for why in said {
                let _ = writeln!(out, "              {DIM}{}{DIM:#}", one_line(why));
            }
        }
    }
    out.push('\n');
}

fn compared(out: &mut String, mismatch: &ExpectationMismatch, width: Option<usize>) {
    let _ = writeln!(out, "\n  {BOLD}{}{BOLD:#}", mismatch.what);
    let column = width.map_or(WIDEST, |width| (width.saturating_sub(MARGINS) / 2).min(WIDEST));
    if column >= NARROWEST {
        side_by_side(out, mismatch, column);
    } else {
        one_below_the_other(out, mismatch);
    }
}

fn side_by_side(out: &mut String, mismatch: &ExpectationMismatch, column: usize) {
    let cells: Vec<(Vec<String>, Vec<String>, bool)> = mismatch
        .rows
        .iter()
        .map(|row| (wrap(&row.expected, column), wrap(&row.got, column), row.same))
        .collect();
    let width = |text: &String| columns(text);
    let widest = cells.iter().flat_map(|(expected, ..)| expected).map(width).max().unwrap_or(0).max(8);
    let _ = writeln!(out, "    {DIM}  {:<widest$}  got{DIM:#}", "expected");
    for (expected, got, same) in &cells {
        for index in 0..expected.len().max(got.len()).max(1) {
            let mark = if *same || index > 0 { " " } else { "≠" };
            let (left, right) = (expected.get(index), got.get(index));
            let (left, right) = (left.map_or("", String::as_str), right.map_or("", String::as_str));
            let line = format!("    {mark} {}  {right}", padded(left, widest));
            out.push_str(line.trim_end());
            out.push('\n');
        }
    }
}

fn one_below_the_other(out: &mut String, mismatch: &ExpectationMismatch) {
    for row in &mismatch.rows {
        let mark = if row.same { " " } else { "≠" };
        let (expected, got) = (one_line(&row.expected), one_line(&row.got));
        for (what, text) in [("expected", expected), ("got     ", got)] {
            if !text.is_empty() {
                let _ = writeln!(out, "  {mark} {what} {text}");
            }
        }
    }
}

/// The text in lines that fit into a column. Words are whole, unless one is longer than a line.
fn wrap(text: &str, column: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for line in text.lines() {
        let line = one_line(line);
        let mut rest = line.as_str();
        while columns(rest) > column {
            let (now, later) = rest.split_at(end_of_line(rest, column));
            lines.push(now.trim_end().to_owned());
            rest = later.trim_start();
        }
        if !rest.is_empty() {
            lines.push(rest.to_owned());
        }
    }
    lines
}

/// Where a text that is wider than a column is broken: at its last blank there, or else where the column ends.
fn end_of_line(text: &str, column: usize) -> usize {
    let ends = || text.char_indices().map(|(at, c)| at + c.len_utf8());
    let fits = ends().take_while(|end| columns(&text[..*end]) <= column).last();
    // Something goes into every line, however narrow.
    let fits = fits.or_else(|| ends().next()).unwrap_or(text.len());
    if text[fits..].starts_with(' ') {
        return fits;
    }
    text[..fits].rfind(' ').filter(|at| !text[..*at].trim().is_empty()).unwrap_or(fits)
}

fn coverage(out: &mut String, coverage: &PolicyCoverage) {
    let (all, won) = coverage.count();
    if all == 0 {
        out.push_str("coverage: the cases name no policy file, so there is nothing to cover\n");
        return;
    }
    for leaf in coverage.leaves().filter(|leaf| leaf.cases == 0) {
        let _ = writeln!(out, "{}: `{}` never decides anything", leaf.place, leaf.path);
    }
    let _ =
        writeln!(out, "coverage: {won} of {all} values decide something in a case, {} %", won * 100 / all);
}

#[cfg(test)]
mod tests {
    use crate::cases::SuiteLoader;

    fn shown_at(text: &str, width: Option<usize>) -> String {
        let open = |_: &str, path: &str| Err(format!("there is no {path}"));
        let suite = SuiteLoader::new(open).read("a.test.yaml", text.as_bytes()).unwrap();
        let played = super::super::play(suite, None, None);
        anstream::adapter::strip_str(&super::text(&[played], None, width)).to_string()
    }

    fn shown(text: &str) -> String {
        shown_at(text, None)
    }

    #[test]
    fn a_failure_stands_beside_what_was_expected_with_what_happened() {
        insta::assert_snapshot!(shown(
            "version: 1
inline:
  tools:
    search:
      effect: read_only
      retry: {max_attempts: 3, backoff: {kind: exponential, base: 1s, factor: 2, jitter: none}}
cases:
  - name: gives up too early
    given: The service is overloaded for good.
    tool: search
    outcomes: [rate_limit x9]
    expect:
      attempts: 4
      delays: [1s, 2s, 4s]
      final: ok
      told: [try again]
      why: {max_attempts: a.test.yaml:9, effect: global}
  - name: passes
    tool: search
    outcomes: [ok]
    expect: {final: ok}
"
        ));
    }

    #[test]
    fn a_failure_fits_on_the_terminal() {
        let case = "version: 1
cases:
  - name: tells the model what to do
    tool: search
    outcomes: [auth_error, ok]
    expect:
      told: a sentence that is longer than a column of a terminal of eighty characters
      directives: [{directive: exhausted, exhausted: {action: tool search, reason: attempts}}]
";
        insta::assert_snapshot!("eighty_columns", shown_at(case, Some(80)));
        insta::assert_snapshot!("forty_columns", shown_at(case, Some(40)));
    }

    #[test]
    fn words_are_whole_and_characters_keep_their_columns() {
        assert_eq!(super::wrap("timeout, may_have_acted=false", 21), ["timeout,", "may_have_acted=false"]);
        assert_eq!(super::wrap("a reply and one more", 7), ["a reply", "and one", "more"]);
        assert_eq!(super::wrap("{\"tool\":\"search\"}", 8), ["{\"tool\":", "\"search\"", "}"]);
        assert_eq!(super::wrap("日本語ツール", 6), ["日本語", "ツール"]);
        assert_eq!(super::wrap("日本", 1), ["日", "本"]);
    }

    #[test]
    fn a_case_that_lacks_something_is_told_so() {
        insta::assert_snapshot!(shown(
            "version: 1
cases:
  - name: runs out
    tool: search
    inline: {tools: {search: {effect: read_only, retry: {backoff: {kind: constant, delay: 0s}}}}}
    outcomes: [timeout]
    expect: {attempts: 3}
"
        ));
    }
}
