//! What becomes of the results of tools: how much of them a model is shown, in which form, and where the rest is.

use core::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// No character has more bytes.
const CHAR_BYTES: u64 = 4;
/// Bytes of prose for a token, as an estimate.
// The usual estimate for English (OpenAI's documentation: about four characters a token).
const PROSE_BYTES: u64 = 4;
/// Tokens for so many bytes of JSON: 2.8 bytes for one.
// localcowork, ADR-007: 2.8 characters of JSON a token; 14 to 5 says so in whole numbers.
const JSON_TOKENS: u64 = 5;
const JSON_BYTES: u64 = 14;

/// The most there may be of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SizeCap {
    /// So much.
    Most(TextSize),
    /// Any amount.
    Unlimited,
}

/// The size of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TextSize {
    /// How many.
    /// Example: `6000`
    pub count: u64,
    /// Of what.
    pub unit: SizeUnit,
}

/// What sizes are counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, unfazed_macros::Named)]
#[serde(rename_all = "snake_case")]
pub enum SizeUnit {
    /// Characters.
    Chars,
    /// Bytes.
    Bytes,
    /// Tokens, estimated: four bytes for one, 2.8 of what looks like JSON.
    Tokens,
}

/// The tokens of a text, estimated by its bytes: four for a token of prose, 2.8 for one of JSON.
pub(crate) fn estimated_tokens(text: &str) -> u64 {
    let bytes = count(text.len());
    if looks_like_json(text) {
        bytes.saturating_mul(JSON_TOKENS).div_ceil(JSON_BYTES)
    } else {
        bytes.div_ceil(PROSE_BYTES)
    }
}

/// By the first and the last character: reading the whole text would cost more than the answer is worth.
fn looks_like_json(text: &str) -> bool {
    let text = text.trim();
    (text.starts_with('{') && text.ends_with('}')) || (text.starts_with('[') && text.ends_with(']'))
}

impl SizeUnit {
    /// How many of them a text has.
    pub fn measure(self, text: &str) -> u64 {
        match self {
            Self::Chars => count(text.chars().count()),
            Self::Bytes => count(text.len()),
            Self::Tokens => estimated_tokens(text),
        }
    }
}

impl TextSize {
    /// Whether a text is no larger.
    pub fn holds(self, text: &str) -> bool {
        // A character has one to four bytes, so those of most texts are not counted.
        let (bytes, chars) = (count(text.len()), self.unit == SizeUnit::Chars);
        let (few, many) = (bytes <= self.count, bytes > self.count.saturating_mul(CHAR_BYTES));
        if chars && (few || many) { few } else { self.unit.measure(text) <= self.count }
    }

    /// The most bytes that are no more than this many tokens, whatever they are of; other sizes stay.
    pub(crate) const fn of_json(self) -> Self {
        match self.unit {
            SizeUnit::Tokens => {
                let bytes = self.count.saturating_mul(JSON_BYTES) / JSON_TOKENS;
                Self { count: bytes, unit: SizeUnit::Bytes }
            }
            SizeUnit::Chars | SizeUnit::Bytes => self,
        }
    }

    /// As [`of_json`](Self::of_json), if they are of prose.
    pub(crate) const fn of_prose(self) -> Self {
        match self.unit {
            SizeUnit::Tokens => Self { count: self.count.saturating_mul(PROSE_BYTES), unit: SizeUnit::Bytes },
            SizeUnit::Chars | SizeUnit::Bytes => self,
        }
    }

    /// The most bytes that a text can have which is no larger.
    const fn most_bytes(self) -> u64 {
        match self.unit {
            SizeUnit::Chars => self.count.saturating_mul(CHAR_BYTES),
            SizeUnit::Bytes => self.count,
            SizeUnit::Tokens => self.count.saturating_mul(PROSE_BYTES),
        }
    }

    /// A size that only holds what is no larger than this and than the other: the smaller one, if one of them surely is.
    pub(crate) fn and(self, other: Self) -> Self {
        // A number of tokens means the fewest bytes if they are JSON, so this many bytes are never too many.
        let (ours, others) = (self.of_json().count, other.of_json().count);
        if self.unit == other.unit {
            Self { count: self.count.min(other.count), unit: self.unit }
        } else if self.most_bytes() <= others {
            self
        } else if other.most_bytes() <= ours {
            other
        } else {
            Self { count: ours.min(others), unit: SizeUnit::Bytes }
        }
    }
}

impl SizeCap {
    /// The size, if there is one.
    pub const fn size(self) -> Option<TextSize> {
        match self {
            Self::Most(size) => Some(size),
            Self::Unlimited => None,
        }
    }

    /// Reads `6000 chars`, `12 KiB`, `2500 tokens`, `unlimited`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        if text == "unlimited" {
            return Some(Self::Unlimited);
        }
        let digits = text.find(|c: char| !c.is_ascii_digit())?;
        let (count, unit) = text.split_at_checked(digits)?;
        let (unit, times) = match unit.trim() {
            "char" | "chars" => (SizeUnit::Chars, 1),
            "byte" | "bytes" | "B" => (SizeUnit::Bytes, 1),
            // `KB` is not taken: to some it is 1000 bytes, and to others 1024.
            "KiB" => (SizeUnit::Bytes, 1 << 10),
            "MiB" => (SizeUnit::Bytes, 1 << 20),
            "token" | "tokens" => (SizeUnit::Tokens, 1),
            _ => return None,
        };
        let count = count.parse::<u64>().ok()?.checked_mul(times)?;
        Some(Self::Most(TextSize { count, unit }))
    }
}

fn count(many: usize) -> u64 {
    u64::try_from(many).unwrap_or(u64::MAX)
}

impl fmt::Display for TextSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.count, self.unit.name())
    }
}

impl fmt::Display for SizeCap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Most(size) => size.fmt(f),
            Self::Unlimited => f.write_str("unlimited"),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn sizes_are_written_with_their_unit() {
        for (text, shown) in [
            ("6000 chars", "6000 chars"),
            ("1 char", "1 chars"),
            ("12 KiB", "12288 bytes"),
            ("1MiB", "1048576 bytes"),
            ("0 bytes", "0 bytes"),
            ("2500 tokens", "2500 tokens"),
            ("unlimited", "unlimited"),
        ] {
            assert_eq!(SizeCap::parse(text).unwrap().to_string(), shown);
        }
        for text in ["", "6000", "chars", "-1 chars", "1.5 KiB", "6 miles", "99999999999999999999 chars"] {
            assert_eq!(SizeCap::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_text_is_measured_in_each_unit() {
        let measured = [SizeUnit::Chars, SizeUnit::Bytes, SizeUnit::Tokens].map(|unit| unit.measure("äöü"));
        assert_eq!(measured, [3, 6, 2]);
        assert_eq!(SizeUnit::Tokens.measure(r#"{"city":"Oslo"}"#), 6);
    }

    #[test]
    fn of_two_sizes_the_smaller_one_is_taken_as_it_is() {
        let size = |text: &str| SizeCap::parse(text).unwrap().size().unwrap();
        for (one, other, both) in [
            ("118 tokens", "16000 chars", "118 tokens"),
            ("500 chars", "5000 tokens", "500 chars"),
            ("300 chars", "200 chars", "200 chars"),
            ("5000 tokens", "16000 chars", "14000 bytes"),
            ("2000 tokens", "5000 chars", "5000 bytes"),
        ] {
            assert_eq!(size(one).and(size(other)), size(both));
            assert_eq!(size(other).and(size(one)), size(both));
        }
    }

    proptest! {
        #[test]
        fn what_two_sizes_hold_together_each_of_them_holds(
            text in "[a\u{e4}\u{20ac}\u{1f600}]{0,60}", json in any::<bool>(), counts in (0_u64..90, 0_u64..90), units in (0..3, 0..3),
        ) {
            let unit = |at: i32| [SizeUnit::Chars, SizeUnit::Bytes, SizeUnit::Tokens][usize::try_from(at).unwrap()];
            let one = TextSize { count: counts.0, unit: unit(units.0) };
            let other = TextSize { count: counts.1, unit: unit(units.1) };
            let text = if json { format!("[{text}]") } else { text };
            if one.and(other).holds(&text) {
                prop_assert!(one.holds(&text) && other.holds(&text));
            }
        }
    }
}
