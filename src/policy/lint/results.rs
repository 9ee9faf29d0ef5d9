//! Rules about the results of tools that say something and do nothing.

use super::Found;
use crate::policy::decode::Patch;
use crate::policy::document::ResultPolicy;
use crate::policy::form::Document;
use crate::policy::loader::{Part, PartKind};
use crate::policy::{Cap, Code, Diagnostic, OverMax, Size, Unit};

/// The built-in notice needs about as many characters.
const NOTICE: u64 = 80;

/// Looks at the rules of every tool in the files.
pub(super) fn judge(parts: &[Part], found: &mut Found<'_>) {
    for part in parts.iter().filter(|part| part.kind != PartKind::Builtin) {
        for (_, tool) in &part.blocks.tools.0 {
            never_too_large(&tool.result, found);
            notice_alone(&tool.result, found);
        }
    }
}

/// What is kept where nothing is too large.
fn never_too_large(layer: &ResultPolicy<Document>, found: &mut Found<'_>) {
    let (Patch::Set(OverMax::Spill, span), Patch::Set(Cap::Unlimited, max)) = (&layer.over, &layer.max)
    else {
        return;
    };
    let message = "`over: spill` does nothing: no result is larger than `max: unlimited`";
    let problem = Diagnostic::warning(Code::NEVER_SPILLS, *span, message);
    found.push(problem.also(*max, "says so").help("give `max` a size, or remove `over`"));
}

/// A size that the notice fills.
fn notice_alone(layer: &ResultPolicy<Document>, found: &mut Found<'_>) {
    let Patch::Set(Cap::Most(size), span) = &layer.max else { return };
    let Size { count, unit } = *size;
    let least = if unit == Unit::Tokens { NOTICE / 3 } else { NOTICE };
    if count >= least {
        return;
    }
    let message = format!("of a result that is larger than {size}, the model is shown little but the notice");
    let problem = Diagnostic::warning(Code::NOTICE_ALONE, *span, message);
    found.push(problem.help(format!("write at least {least} {}", unit.name())));
}
