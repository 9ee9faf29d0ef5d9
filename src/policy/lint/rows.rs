//! Rows of the table of errors that are never reached.

use super::Found;
use crate::policy::error_facts::Facts;
use crate::policy::{Code, Diagnostic, Policy};

/// So many combinations of what rows list are held against each other.
const MOST: usize = 2_000;

/// Looks at the rows of the files: one is dead if each combination it lists is matched by a row before it.
pub(super) fn judge(policy: &Policy, found: &mut Found<'_>) {
    let mut before: Vec<(Facts, crate::policy::Span)> = Vec::new();
    for row in policy.errors().rows() {
        let Some(span) = found.place(row.origin) else { continue };
        let all = Facts::of(row);
        if before.len().saturating_add(all.len()) > MOST {
            return;
        }
        let by = |facts: &Facts| before.iter().find(|(asked, _)| asked.holds_for(facts)).map(|(_, at)| *at);
        let covered: Option<Vec<_>> = all.iter().map(by).collect();
        if let Some(first) = covered.and_then(|all| all.first().copied()) {
            let message = format!("this row is never reached: rows before it match {}", row.matcher());
            let problem = Diagnostic::warning(Code::DEAD_ROW, span, message).also(first, "matches before");
            found.push(problem.help("remove it, or write it above"));
        }
        before.extend(all.into_iter().map(|facts| (facts, span)));
    }
}
