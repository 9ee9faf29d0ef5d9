//! Rows of the table of errors that are never reached, and those that hide too much.

use super::LintFindings;
use crate::analysis::error_facts::ErrorFacts;
use crate::policy::{ErrorClass, ErrorRow, Policy};
use crate::text::{Code, Diagnostic, Span};

/// The status of a rate limit, with which a quota that is used up comes as well.
const LIMITED: u16 = 429;
/// So many combinations of what rows list are held against each other.
const MOST: usize = 2_000;

/// Looks at the rows of the files: one is dead if each combination it lists is matched by a row before it.
pub(super) fn check(policy: &Policy, found: &mut LintFindings<'_>) {
    let mut before: Vec<(ErrorFacts, Span)> = Vec::new();
    for row in policy.errors().own_rows() {
        let Some(span) = found.place(row.origin) else { continue };
        if hides_quotas(row) {
            found.push(hidden_quotas(row, span));
        }
        let all = ErrorFacts::of(row);
        if before.len().saturating_add(all.len()) > MOST {
            return;
        }
        let by =
            |facts: &ErrorFacts| before.iter().find(|(asked, _)| asked.holds_for(facts)).map(|(_, at)| *at);
        let covered: Option<Vec<_>> = all.iter().map(by).collect();
        if let Some(first) = covered.and_then(|all| all.first().copied()) {
            let message = format!("this row is unreachable: rows before it match {}", row.matcher());
            let problem = Diagnostic::warning(Code::DEAD_ROW, span, message).also(first, "matches before");
            found.push(problem.help("remove it, or move it above them"));
        }
        before.extend(all.into_iter().map(|facts| (facts, span)));
    }
}

/// Whether a row takes what only words tell from a rate limit, and looks at none.
fn hides_quotas(row: &ErrorRow) -> bool {
    let words = [&row.code, &row.kind, &row.message, &row.detail, &row.provider];
    let silent = row.words.is_empty() && words.iter().all(|list| list.is_empty());
    let limited = row.status.is_empty() || row.status.iter().any(|status| status.matches(LIMITED));
    silent && limited && row.class != ErrorClass::QuotaExceeded
}

fn hidden_quotas(row: &ErrorRow, span: Span) -> Diagnostic {
    let class = row.class;
    let (message, help) = if row.status.is_empty() {
        let message =
            format!("this row classifies every failure as `{class}`: rows below it are unreachable");
        (message, "match what distinguishes such failures: a `status`, a `code`, a `message`")
    } else {
        let message =
            format!("this row classifies exhausted quotas as `{class}` too: they also have status {LIMITED}");
        (message, "name a `code`, a `type` or a `message` as well, or leave the status to the built-in table")
    };
    Diagnostic::warning(Code::HIDDEN_QUOTA, span, message).help(help)
}
