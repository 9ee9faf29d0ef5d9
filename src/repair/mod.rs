//! Repair of JSON that a model wrote badly. Pure: text in; a value and the names of its repairs, or a refusal.
//!
//! Text that is JSON is never changed. Text that can be read in one way only is repaired. Text that can be read in
//! two ways, or that stops before its end is known, is refused: a guess would run a tool with arguments nobody sent.
//! So is a number with more digits than can be kept.
//!
//! No recursion: open objects and arrays are on a stack of their own. The text is gone through once, and size, depth
//! and work are bounded.
#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing,
        clippy::arithmetic_side_effects
    )
)]

mod around;
mod bare;
mod cursor;
mod kind;
mod number;
mod refusal;
mod string;
mod structure;

use serde_json::Value;

pub use kind::{Repair, Repairs};
pub(crate) use number::too_long;
pub use refusal::{Reason, Refusal};

/// The most bytes of text that are repaired.
pub const MAX_BYTES: usize = 1024 * 1024;

/// The most objects and arrays inside each other: what the JSON reader itself takes.
pub const MAX_DEPTH: usize = 127;

/// A value, and what had to be repaired to read it.
#[derive(Clone, Debug, PartialEq)]
pub struct Repaired {
    /// The value.
    pub value: Value,
    /// Each kind of repair that was made, once; empty: the text was JSON as it stood.
    pub repairs: Repairs,
}

/// Reads a value from text that should be JSON.
///
/// # Errors
/// The text cannot be read in one way only; says why and where.
pub fn repair(text: &str) -> Result<Repaired, Refusal> {
    if ends_as_it_begins(text)
        && let Ok(value) = serde_json::from_str(text)
    {
        return match too_long(text) {
            Some((at, _)) => Err(Refusal { reason: Reason::NumberChanges, at }),
            None => Ok(Repaired { value, repairs: Repairs::default() }),
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
pub fn repair_broken(text: &str) -> Result<Repaired, Refusal> {
    if text.len() > MAX_BYTES {
        return Err(Refusal { reason: Reason::TooLarge, at: MAX_BYTES });
    }
    let mut cursor = cursor::Cursor::new(text);
    let value = around::read(&mut cursor)?;
    Ok(Repaired { value, repairs: cursor.repairs })
}

#[cfg(test)]
mod laws;
#[cfg(test)]
mod tests;
