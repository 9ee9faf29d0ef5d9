//! Repair of JSON that a model wrote badly. Pure: text in; a value and the names of its repairs, or a refusal.
//!
//! Text that is JSON is never changed. Text that can be read in one way only is repaired. Text that can be read in
//! two ways is refused: a guess would run a tool with arguments nobody sent. So is a number with more digits than can be
//! kept. A text that stops where a string or a member is not over is closed there, but not certain
//! ([`RepairedJson::is_certain`]). A schema decides both ([`repair_for`]): of two readings the one that holds it, a value
//! that was closed at the end if it holds it, and where brackets are missing, if only one place holds it.
//!
//! No recursion: open objects and arrays are on a stack of their own. The text is gone through once, and size, depth
//! and work are bounded.

mod around;
mod bare;
mod cursor;
mod escaped;
mod kind;
mod moved;
mod number;
mod open_structure;
mod quote;
mod refusal;
mod string;
mod structure;
mod words;

use cursor::{BracketMisfit, ReadingChoice, TextCursor};
use serde_json::Value;

pub(crate) use kind::RepairKind;
pub use kind::RepairSet;
pub(crate) use number::too_long;
pub(crate) use refusal::RefusalReason;
pub use refusal::RepairRefusal;

/// The most bytes of text that are repaired.
pub(crate) const MAX_BYTES: usize = 1024 * 1024;

/// The most objects and arrays inside each other: what the JSON reader itself takes.
pub(crate) const MAX_DEPTH: usize = 127;

/// A value, and what had to be repaired to read it.
#[derive(Clone, Debug, PartialEq)]
pub struct RepairedJson {
    /// The value.
    pub value: Value,
    /// Each kind of repair that was made, once; empty: the text was JSON as it stood.
    pub repairs: RepairSet,
}

impl RepairedJson {
    /// Whether the text can mean nothing else. Where it stops before its end, and what was open is closed there, more may
    /// have been meant: such a value is only to be taken if a schema holds.
    ///
    /// ```
    /// use unfazed::text::repair::repair;
    /// assert!(repair("{'city': 'Oslo',}").unwrap().is_certain());
    /// assert!(!repair(r#"{"city": "Os"#).unwrap().is_certain());
    /// ```
    pub const fn is_certain(&self) -> bool {
        !self.repairs.contains(RepairKind::ClosedAtEnd)
    }
}

/// Reads a value from text that should be JSON.
///
/// # Errors
/// The text cannot be read in one way only; says why and where.
pub fn repair(text: &str) -> Result<RepairedJson, RepairRefusal> {
    if ends_as_it_begins(text)
        && let Ok(value) = serde_json::from_str(text)
    {
        // RFC 8259, section 6: other readers keep no more than a double does, and a changed id is another id.
        return match too_long(text) {
            Some((at, _)) => Err(RepairRefusal { reason: RefusalReason::NumberChanges, at }),
            None => Ok(RepairedJson { value, repairs: RepairSet::default() }),
        };
    }
    repair_broken(text)
}

/// Whether a text that begins with a bracket ends with its other half. Most broken text does not, and need not be read
/// as if it were JSON first.
fn ends_as_it_begins(text: &str) -> bool {
    let text = text.trim_ascii();
    match text.as_bytes() {
        [b'{', .., last] => *last == b'}',
        [b'[', .., last] => *last == b']',
        _ => true,
    }
}

/// As [`repair`], for text that is known not to be JSON.
///
/// # Errors
/// As there.
pub(crate) fn repair_broken(text: &str) -> Result<RepairedJson, RepairRefusal> {
    read(text, ReadingChoice::Neither).map_err(|(refusal, _)| refusal)
}

/// As [`repair`] of text that is known not to be JSON, where a schema is at hand: it decides whether a text that stops before its end may be closed
/// there, and between readings of which none is certain.
///
/// # Errors
/// As there; and the schema does not decide.
pub fn repair_for(text: &str, holds: &dyn Fn(&Value) -> bool) -> Result<RepairedJson, RepairRefusal> {
    let ambiguous = match read(text, ReadingChoice::Neither) {
        // A missing bracket may belong to another place, and the schema may show which.
        Ok(found) if moved::may_be(found.repairs) && !holds(&found.value) => {
            return Ok(moved::read(text, holds).unwrap_or(found));
        }
        Ok(found) if found.is_certain() || holds(&found.value) => return Ok(found),
        Ok(_) => return Err(RepairRefusal { reason: RefusalReason::NotDecided, at: text.len() }),
        Err((refusal, false)) => return Err(refusal),
        Err((refusal, true)) => refusal,
    };
    let held = |choice| read(text, choice).ok().filter(|found| holds(&found.value));
    let first = match (held(ReadingChoice::First), held(ReadingChoice::Octal)) {
        (Some(decimal), Some(octal)) if decimal.value == octal.value => Some(decimal),
        (None, None) => None,
        // Two numbers: a wrong one is worse than none, also where only one of them holds.
        _ => return Err(ambiguous),
    };
    // If both readings hold the schema with different values, the schema does not decide.
    match (first, held(ReadingChoice::Second)) {
        (Some(found), None) | (None, Some(found)) => Ok(found),
        (Some(first), Some(second)) if first.value == second.value => Ok(first),
        _ => Err(ambiguous),
    }
}

/// The value and its repairs; or why not, and whether it is for two readings.
fn read(text: &str, choice: ReadingChoice) -> Result<RepairedJson, (RepairRefusal, bool)> {
    if text.len() > MAX_BYTES {
        return Err((RepairRefusal { reason: RefusalReason::TooLarge, at: MAX_BYTES }, false));
    }
    // First of all: escaped text would look like a key without quotes to the parser.
    if let Some(value) = escaped::read(text) {
        return Ok(RepairedJson { value, repairs: RepairSet::from_iter([RepairKind::EscapedText]) });
    }
    // Brackets are trusted first. Other readings of them are tried only if that leads nowhere.
    let refused = match read_as(text, choice, BracketMisfit::Refused) {
        Ok(found) => return Ok(found),
        Err(refused) => refused,
    };
    if !brackets_may_be_at_fault(refused.0.reason) {
        return Err(refused);
    }
    let mut readings: Vec<RepairedJson> = Vec::new();
    for misfit in [BracketMisfit::Missing, BracketMisfit::Mistyped] {
        if let Ok(found) = read_as(text, choice, misfit)
            && !readings.iter().any(|known| known.value == found.value)
        {
            readings.push(found);
        }
    }
    match (readings.len(), choice) {
        (1, _) | (2, ReadingChoice::First | ReadingChoice::Octal) => {
            readings.into_iter().next().ok_or(refused)
        }
        (2, ReadingChoice::Second) => readings.into_iter().nth(1).ok_or(refused),
        (found, _) => Err((refused.0, refused.1 || found == 2)),
    }
}

fn read_as(
    text: &str,
    choice: ReadingChoice,
    misfit: BracketMisfit,
) -> Result<RepairedJson, (RepairRefusal, bool)> {
    let mut cursor = TextCursor::new(text, choice, misfit);
    match around::read(&mut cursor) {
        // A repaired quote may have taken the bracket out of a text, so both together are a guess.
        Ok(_) if misfit != BracketMisfit::Refused && quotes_are_at_fault(cursor.repairs) => {
            Err((RepairRefusal { reason: RefusalReason::MismatchedBrackets, at: text.len() }, false))
        }
        Ok(value) => Ok(RepairedJson { value, repairs: cursor.repairs }),
        Err(refusal) => Err((refusal, cursor.ambiguous)),
    }
}

/// Whether quotes were repaired: a bracket that does not fit may be part of a text then.
fn quotes_are_at_fault(repairs: RepairSet) -> bool {
    [RepairKind::MissingQuote, RepairKind::DoubledQuote, RepairKind::UnescapedQuote]
        .iter()
        .any(|repair| repairs.contains(*repair))
}

/// Whether a text may have been refused because a bracket in its middle is missing, of the other kind, or too many.
const fn brackets_may_be_at_fault(reason: RefusalReason) -> bool {
    matches!(
        reason,
        RefusalReason::MismatchedBrackets
            | RefusalReason::UnclearQuotes
            | RefusalReason::NotAMember
            | RefusalReason::UnclearSurroundings
    )
}

#[cfg(test)]
mod laws;
#[cfg(test)]
mod tests;
