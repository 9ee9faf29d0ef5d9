//! The size of a conversation.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What the host measured before a turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TurnMeasure {
    /// Messages in the conversation.
    /// Example: `4`
    pub messages: u64,
    /// Tokens of the messages, counted or estimated.
    /// Example: `1200`
    pub message_tokens: u64,
    /// Tokens of the tool definitions as they are sent.
    /// Example: `350`
    pub tool_tokens: u64,
    /// How many calls and results of the conversation providers would object to.
    /// Example: `0`
    #[serde(default, skip_serializing_if = "crate::session::is_default")]
    pub history_faults: u64,
    /// The most tokens of the reply, where the request itself says so: they take the place of the policy's `output_reserve`.
    /// Example: `1000`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply_tokens: Option<u64>,
}

impl TurnMeasure {
    /// The tokens of the whole request.
    pub(super) const fn tokens(self) -> u64 {
        self.message_tokens.saturating_add(self.tool_tokens)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_measure_of_an_older_log_says_nothing_of_the_reply() {
        let old = json!({"messages": 1, "message_tokens": 2, "tool_tokens": 3});
        let read: TurnMeasure = serde_json::from_value(old.clone()).unwrap();
        assert_eq!((read.reply_tokens, serde_json::to_value(read).unwrap()), (None, old));
    }
}
