//! Why a text is not repaired.

use core::fmt;

/// A text that is not repaired.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason} at byte {at}")]
pub struct RepairRefusal {
    /// Why.
    pub(crate) reason: RefusalReason,
    /// Where, in bytes from the beginning.
    pub at: usize,
}

macro_rules! reasons {
    ($($(#[doc = $doc:literal])+ $variant:ident = $text:literal,)+) => {
        /// Why a text is not repaired.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum RefusalReason { $($(#[doc = $doc])+ $variant,)+ }

        impl fmt::Display for RefusalReason {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $(Self::$variant => $text,)+ })
            }
        }
    };
}

reasons! {
    /// More than 1 MiB.
    TooLarge = "the text is too large to be repaired",
    /// More than 127 levels.
    TooDeep = "too many objects and arrays inside each other",
    /// More steps than a text of this size takes.
    TooMuchWork = "the text takes too much work to be repaired",
    /// There is neither an object nor an array.
    NoValue = "there is no JSON value",
    /// There are two different values.
    TwoValues = "there is more than one value",
    /// What surrounds the value may belong to it.
    UnclearSurroundings = "text around the value may be part of it",
    /// The text stops inside a string.
    CutInString = "the text is cut off inside a string",
    /// The text stops right after a number or word: more of it may be missing.
    CutInScalar = "the text is cut off where more of a number or word may follow",
    /// The text stops where something must follow.
    CutOff = "the text is cut off where more must follow",
    /// A closing bracket does not fit what is open, and there is more than one way to put it right.
    MismatchedBrackets = "brackets do not match, and there is more than one way to close them",
    /// It cannot be reported where a string ends.
    UnclearQuotes = "it is not clear which quotes end the string",
    /// A backslash may be meant as itself or as an escape.
    UnclearEscapes = "it is not clear which backslashes are escapes",
    /// Half of a surrogate pair.
    LoneSurrogate = "an escape is half of a character",
    /// A key comes twice in one object.
    DuplicateKey = "a key comes twice",
    /// A member has no value, or an array an empty place.
    MissingValue = "a value is missing",
    /// A text without quotes, or a number that is none.
    NotAValue = "neither a string in quotes, a number nor a literal",
    /// A number would not be the same afterwards.
    NumberChanges = "a number has more digits than can be kept: send it as a string",
    /// A number, a literal or a text: the text can be each.
    TwoReadings = "a value can be read in two ways, and no schema decides",
    /// The text is cut off; closed there, it does not hold the schema, or there is none.
    NotDecided = "the text is cut off, and no schema holds if it is closed there",
    /// Something else than a key, or no colon after it.
    NotAMember = "a key and a colon are due",
    /// Something else than a comma or a closing bracket after a value.
    Unexpected = "a comma or a closing bracket is due",
    /// A comment without an end.
    OpenComment = "a comment does not end",
}
