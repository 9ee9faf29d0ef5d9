//! What is done so that a conversation stays within the window of a model.

use core::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::TextSize;

/// A share of what there is: a part of it, or so many tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContextShare {
    /// A part, in parts per million.
    Part(u32),
    /// So many tokens.
    Tokens(u64),
}

/// One step of a reduction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, unfazed_macros::Named)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ReduceStep {
    /// Results of tools are shortened, the oldest first.
    Results {
        /// So many messages at the end stay as they are.
        /// Example: `6`
        keep_last: u32,
        /// Only results that are larger.
        over: TextSize,
        /// How much of the beginning stays.
        show: TextSize,
    },
    /// The oldest messages are left out.
    Drop {
        /// So many messages at the end stay.
        /// Example: `10`
        keep_last: u32,
    },
    /// The oldest messages are left out, and a line about each of them stays.
    Digest {
        /// So many messages at the end stay.
        /// Example: `10`
        keep_last: u32,
        /// The most of all the lines; the oldest are left out.
        most: TextSize,
        /// The most of the line about a message.
        line: TextSize,
        /// The most of the line about the result of a tool.
        result_line: TextSize,
    },
    /// The oldest messages are left out, and a model sums them up.
    Summary {
        /// So many messages at the end stay.
        /// Example: `10`
        keep_last: u32,
        /// The most of the summary.
        most: TextSize,
        /// The model that writes it; `None`: the one whose window it is for.
        /// Example: `small`
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<String>,
        /// How much of its window the request for it may fill, in parts per million.
        /// Example: `800000`
        input_ppm: u32,
    },
    /// The last resort: large texts are cut in their middle, then the oldest messages are left out, then what was
    /// kept until then is cut.
    Truncate {
        /// So many messages at the end stay as long as can be.
        /// Example: `6`
        keep_last: u32,
        /// Only texts that are larger are cut.
        over: TextSize,
        /// How much of the beginning stays.
        head: TextSize,
        /// How much of the end stays.
        tail: TextSize,
    },
}

impl ContextShare {
    /// How many tokens of `whole` that is.
    pub fn of(self, whole: u64) -> u64 {
        match self {
            Self::Part(ppm) => {
                let part = u128::from(whole).saturating_mul(ppm.into()) / 1_000_000;
                u64::try_from(part).unwrap_or(u64::MAX)
            }
            Self::Tokens(tokens) => tokens,
        }
    }
}

impl fmt::Display for ContextShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tokens(tokens) => write!(f, "{tokens} tokens"),
            Self::Part(ppm) => {
                let text = format!("{}.{:06}", ppm / 1_000_000, ppm % 1_000_000);
                f.write_str(text.trim_end_matches('0').trim_end_matches('.'))
            }
        }
    }
}

impl ReduceStep {
    /// So many messages at the end stay.
    pub const fn keep_last(&self) -> u32 {
        match self {
            Self::Results { keep_last, .. }
            | Self::Drop { keep_last }
            | Self::Digest { keep_last, .. }
            | Self::Summary { keep_last, .. }
            | Self::Truncate { keep_last, .. } => *keep_last,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_a_part_or_a_number() {
        assert_eq!(ContextShare::Part(250_000).of(1001), 250);
        assert_eq!(ContextShare::Part(1_000_000).of(u64::MAX), u64::MAX);
        assert_eq!(ContextShare::Tokens(7).of(3), 7);
    }

    #[test]
    fn shares_are_shown_as_they_are_written() {
        let shown = [
            ContextShare::Part(250_000),
            ContextShare::Part(1_000_000),
            ContextShare::Part(0),
            ContextShare::Tokens(768),
        ];
        assert_eq!(shown.map(|share| share.to_string()), ["0.25", "1", "0", "768 tokens"]);
    }
}
