//! `null` that unsets nothing, where no value is merged: `by_class`, and the priorities of selectors.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::LintFindings;
use super::numbers::each;
use crate::policy::decode::{Patch, Spanned};
use crate::policy::document::PrioritizedRule;
use crate::policy::part::{PartKind, PolicyPart};
use crate::policy::{ClassSet, ErrorClass, Selector};
use crate::text::{Code, Diagnostic, Span};

/// Looks at all files together: what none of them sets, none of them can unset.
pub(super) fn check(parts: &[PolicyPart], found: &mut LintFindings<'_>) {
    let files = || parts.iter().filter(|part| part.kind != PartKind::Builtin);
    let mut set = ClassSet::EMPTY;
    let mut nulls: Vec<(Option<ErrorClass>, Span)> = Vec::new();
    for part in files() {
        each(&part.blocks, &mut |layer| {
            // What unsets the whole of `retry` is reported with its values.
            let whole = null(&layer.max_attempts);
            let unset = layer.by_class.unset_at().filter(|span| whole != Some(*span));
            nulls.extend(unset.map(|span| (None, span)));
            for (class, own) in layer.by_class.layers() {
                let says = [
                    own.max_attempts.as_set().is_some(),
                    own.backoff.as_set().is_some(),
                    own.server_delay.as_set().is_some(),
                ];
                if says.contains(&true) {
                    set = set.with(class);
                }
                let unset = [null(&own.max_attempts), null(&own.backoff), null(&own.server_delay)];
                nulls.extend(unset.into_iter().flatten().map(|span| (Some(class), span)));
            }
        });
    }
    for (class, span) in nulls {
        match class {
            None if set == ClassSet::EMPTY => idle("by_class", span, found),
            Some(class) if !set.contains(class) => idle(&format!("by_class.{class}"), span, found),
            _ => {}
        }
    }
    priorities(files().flat_map(|part| &part.blocks.tools.0), found);
    priorities(files().flat_map(|part| &part.blocks.models.0), found);
}

/// Reports priorities that are unset where no rule for the same selector has one.
fn priorities<'p, T: PrioritizedRule + 'p>(
    rules: impl Iterator<Item = &'p (Spanned<Selector>, Arc<T>)> + Clone,
    found: &mut LintFindings<'_>,
) {
    let set: BTreeSet<&Selector> = rules
        .clone()
        .filter(|(_, rule)| rule.priority().as_set().is_some())
        .map(|(at, _)| &at.value)
        .collect();
    for (selector, rule) in rules {
        if let Patch::Null(span) = rule.priority()
            && !set.contains(&selector.value)
        {
            idle("priority", span, found);
        }
    }
}

fn idle(path: &str, span: Span, found: &mut LintFindings<'_>) {
    let message = format!("`{path}` is unset, and no file sets it below");
    let problem = Diagnostic::warning(Code::IDLE_NULL, span, message).label("unsets nothing");
    found.push(problem.help("remove it: the built-in value applies here anyway"));
}

/// Where a value is unset.
const fn null<T>(patch: &Patch<T>) -> Option<Span> {
    match patch {
        Patch::Null(span) => Some(*span),
        Patch::Absent | Patch::Set(..) => None,
    }
}
