//! The repairs there are, by name.

use core::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

macro_rules! repairs {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal,)+) => {
        /// Something that was repaired.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
        #[serde(rename_all = "snake_case")]
        pub(crate) enum RepairKind { $($(#[doc = $doc])+ $variant,)+ }

        impl RepairKind {
            /// Every repair, in the order of the reference.
            pub(crate) const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// Its name in events.
            pub(crate) const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }
        }
    };
}

repairs! {
    /// Prose before or after the value was left out.
    TextAround = "text_around",
    /// A fence of backticks around the value was taken off.
    CodeFence = "code_fence",
    /// The same value came more than once.
    RepeatedValue = "repeated_value",
    /// A comment was left out.
    Comment = "comment",
    /// A comma before a closing bracket was left out.
    TrailingComma = "trailing_comma",
    /// A comma too many between two members was left out.
    ExtraComma = "extra_comma",
    /// A comma between two members was put in.
    MissingComma = "missing_comma",
    /// A colon between a key and its value was put in.
    MissingColon = "missing_colon",
    /// A quote at the beginning or the end of a text was put in.
    MissingQuote = "missing_quote",
    /// A quote that was written twice was taken once.
    DoubledQuote = "doubled_quote",
    /// Quotes inside a text were taken as part of it.
    UnescapedQuote = "unescaped_quote",
    /// Single quotes were taken as double ones.
    SingleQuotes = "single_quotes",
    /// Typographic quotes, as word processors put them, were taken as double ones.
    SmartQuotes = "smart_quotes",
    /// A key without quotes was taken as a key.
    UnquotedKey = "unquoted_key",
    /// A text without quotes was taken as a text.
    UnquotedText = "unquoted_text",
    /// A member that came twice with the same value was taken once.
    RepeatedKey = "repeated_key",
    /// A number that begins or ends with a dot was completed: `.5`, `1.`.
    NumberForm = "number_form",
    /// `True`, `False` and `None` were taken as `true`, `false` and `null`.
    PythonLiteral = "python_literal",
    /// `...` where a member is due was left out.
    Ellipsis = "ellipsis",
    /// A control character inside a text was kept as it is.
    ControlCharacter = "control_character",
    /// A backslash that begins no escape of JSON was kept, or its escape of another language was read.
    BadEscape = "bad_escape",
    /// A bracket or brace was put in at the beginning or the end.
    MissingBracket = "missing_bracket",
    /// A bracket or brace too many was left out.
    ExtraBracket = "extra_bracket",
    /// Closing brackets at the end in the wrong order were put right.
    MismatchedBracket = "mismatched_bracket",
    /// The text stopped before its end: what was open was closed there. This is certain only if a schema then holds.
    ClosedAtEnd = "closed_at_end",
    /// A text of JSON that was escaped once too often was read without its escapes.
    EscapedText = "escaped_text",
    /// Of two readings the one was taken that holds the schema.
    ChosenBySchema = "chosen_by_schema",
    /// A text of JSON was taken for what it says, because the schema wants that.
    UnpackedText = "unpacked_text",
}

/// A set of repairs; one bit each.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct RepairSet(u32);

impl RepairSet {
    /// Whether there are none.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether `repair` is in the set.
    pub(crate) const fn contains(self, repair: RepairKind) -> bool {
        self.0 & Self::bit(repair) != 0
    }

    /// The repairs of the set, in the order of the reference.
    pub(crate) fn iter(self) -> impl Iterator<Item = RepairKind> {
        RepairKind::ALL.iter().copied().filter(move |repair| self.contains(*repair))
    }

    pub(super) const fn add(&mut self, repair: RepairKind) {
        self.0 |= Self::bit(repair);
    }

    pub(super) const fn remove(&mut self, repair: RepairKind) {
        self.0 &= !Self::bit(repair);
    }

    const fn bit(repair: RepairKind) -> u32 {
        1 << (repair as u32)
    }
}

impl FromIterator<RepairKind> for RepairSet {
    fn from_iter<I: IntoIterator<Item = RepairKind>>(repairs: I) -> Self {
        let mut set = Self::default();
        for repair in repairs {
            set.add(repair);
        }
        set
    }
}

impl fmt::Display for RepairSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.iter().map(RepairKind::name).collect();
        f.write_str(&names.join(", "))
    }
}

impl fmt::Debug for RepairSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{self}]")
    }
}

impl Serialize for RepairSet {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

impl<'de> Deserialize<'de> for RepairSet {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Vec::<RepairKind>::deserialize(deserializer).map(|list| list.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_repair_has_a_bit_and_the_name_it_is_written_by() {
        let all: RepairSet = RepairKind::ALL.iter().copied().collect();
        assert_eq!(all.iter().count(), RepairKind::ALL.len());
        for repair in RepairKind::ALL {
            assert_eq!(serde_json::to_value(repair).unwrap(), repair.name());
        }
        assert_eq!(serde_json::from_value::<RepairSet>(serde_json::to_value(all).unwrap()).unwrap(), all);
    }
}
