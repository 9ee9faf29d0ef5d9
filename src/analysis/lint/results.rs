//! Rules about the results of tools that say something and do nothing.

use super::LintFindings;
use crate::policy::decode::Patch;
use crate::policy::document::ResultPolicy;
use crate::policy::form::Document;
use crate::policy::part::{PartKind, PolicyPart};
use crate::policy::{OverMax, SizeCap, SizeUnit, TextSize};
use crate::text::{Code, Diagnostic};

/// The built-in notice needs about as many characters.
const NOTICE: u64 = 80;

/// Looks at the rules of every tool in the files.
pub(super) fn check(parts: &[PolicyPart], found: &mut LintFindings<'_>) {
    for part in parts.iter().filter(|part| part.kind != PartKind::Builtin) {
        for (_, tool) in &part.blocks.tools.0 {
            never_too_large(&tool.result, found);
            notice_alone(&tool.result, found);
        }
    }
}

/// What is kept where nothing is too large.
fn never_too_large(layer: &ResultPolicy<Document>, found: &mut LintFindings<'_>) {
    let (Patch::Set(OverMax::Spill, span), Patch::Set(SizeCap::Unlimited, max)) =
        (&layer.overflow, &layer.max)
    else {
        return;
    };
    let message = "`overflow: spill` has no effect: no result is larger than `max: unlimited`";
    let problem = Diagnostic::warning(Code::NEVER_SPILLS, *span, message);
    found.push(problem.also(*max, "says so").help("give `max` a size, or remove `overflow`"));
}

/// A size that the notice fills.
fn notice_alone(layer: &ResultPolicy<Document>, found: &mut LintFindings<'_>) {
    let Patch::Set(SizeCap::Most(size), span) = &layer.max else { return };
    let TextSize { count, unit } = *size;
    let least = if unit == SizeUnit::Tokens { NOTICE / 3 } else { NOTICE };
    if count >= least {
        return;
    }
    let message = format!("of a result larger than {size} the model sees little but the notice");
    let problem = Diagnostic::warning(Code::NOTICE_ALONE, *span, message);
    found.push(problem.help(format!("write at least {least} {}", unit.name())));
}
