//! The messages of a conversation, in a form from which every wire format can be written.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::policy::{Cost, Price};

/// The tokens of a message in addition to its text.
// OpenAI's cookbook, "How to count tokens with tiktoken", has 3 for a message and 1 more for a name.
pub(crate) const PER_MESSAGE: u64 = 4;
/// The tokens of a tool call in addition to its name and arguments.
pub(crate) const PER_CALL: u64 = 10;
/// The fields for data that only providers can read: signatures and encrypted thinking. Sources: Anthropic "Extended
/// thinking" (`signature`, the `data` of `redacted_thinking`), Gemini "Thought signatures", `OpenAI` "Reasoning
/// models".
const SEALED: [&str; 4] = ["signature", "thought_signature", "encrypted_content", "data"];
/// The nesting beyond which values are counted whole.
const NESTED: u8 = 4;

/// One message of the conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "role", rename_all = "snake_case")]
pub enum Message {
    /// Instructions that precede the conversation.
    System {
        /// The text.
        /// Example: `You look up prices.`
        text: String,
    },
    /// What the user, or the policy on the user's behalf, says.
    User {
        /// The text.
        /// Example: `What does item 42 cost?`
        text: String,
        /// Set if the policy wrote it: the slug of the guidance (`text_only`, `final_turn`).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        /// Example: `final_turn`
        guidance: Option<String>,
    },
    /// What the model said.
    Assistant {
        /// The text, possibly empty.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        /// Example: `Let me look.`
        text: String,
        /// The tool calls, in the model's order.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        calls: Vec<ToolCall>,
        /// What the provider sent besides and wants to see again, untouched.
        #[serde(default, skip_serializing_if = "Map::is_empty")]
        /// Example: `{"reasoning_content": "First the price."}`
        extra: Map<String, Value>,
    },
    /// The result of one tool call.
    Tool {
        /// The call it answers.
        /// Example: `call_1`
        call: String,
        /// The tool's name.
        /// Example: `lookup_price`
        tool: String,
        /// What the model is shown.
        /// Example: `"12.50"`
        text: String,
        /// Whether the call failed or was refused.
        #[serde(default, skip_serializing_if = "crate::session::is_default")]
        error: bool,
        /// The handle under which all of it is kept, if it is; it stays when the text is shortened.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        /// Example: `r1-0`
        handle: Option<String>,
    },
}

/// A tool call as the model wrote it, or as it was repaired.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ToolCall {
    /// The provider's id of the call; unique in the conversation.
    /// Example: `call_1`
    pub id: String,
    /// The tool's name, as written.
    /// Example: `lookup_price`
    pub name: String,
    /// The arguments, as written: JSON text that may be broken.
    /// Example: `"{\"item\": 42}"`
    pub arguments: String,
}

/// Tokens as the provider counted them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Usage {
    /// Tokens of the request, those of a cache among them.
    /// Example: `120`
    pub input: u64,
    /// Tokens of the reply.
    /// Example: `20`
    pub output: u64,
    /// Tokens of the request that were read from a cache.
    /// Example: `80`
    #[serde(default, skip_serializing_if = "crate::session::is_default")]
    pub cache_read: u64,
    /// Tokens of the request that were written into a cache.
    /// Example: `30`
    #[serde(default, skip_serializing_if = "crate::session::is_default")]
    pub cache_write: u64,
    /// Tokens of the reply that are reasoning.
    /// Example: `15`
    #[serde(default, skip_serializing_if = "crate::session::is_default")]
    pub reasoning: u64,
}

impl Message {
    /// The field of `extra` that keeps what a provider says of the whole answer. It is never sent, so no request has its tokens.
    pub const ANSWER_FIELDS: &str = "answer_fields";

    /// A user message without guidance.
    pub fn user(text: impl Into<String>) -> Self {
        Self::User { text: text.into(), guidance: None }
    }

    /// The guidance at the end of one request, joined to one message; `None` if there is none.
    pub fn of_guidance(texts: &[String]) -> Option<Self> {
        let text = texts.join("\n\n");
        (!text.is_empty()).then(|| Self::User { text, guidance: Some("attempt".to_owned()) })
    }

    /// The tokens of the message; `count` returns the tokens of a text. The overhead per message is included.
    pub(crate) fn tokens(&self, count: &dyn Fn(&str) -> u64) -> u64 {
        let mut tokens = PER_MESSAGE.saturating_add(count(self.text()));
        if let Self::Assistant { calls, extra, .. } = self {
            for call in calls {
                let call = [PER_CALL, count(&call.name), count(&call.arguments)];
                tokens = call.into_iter().fold(tokens, u64::saturating_add);
            }
            let sent = extra.iter().filter(|(name, _)| *name != Self::ANSWER_FIELDS);
            let sent: Map<_, _> = sent.map(|(name, value)| (name.clone(), readable(value))).collect();
            if !sent.is_empty() {
                let sent = serde_json::to_string(&sent).unwrap_or_default();
                tokens = tokens.saturating_add(count(&sent));
            }
        }
        tokens
    }

    /// The text of the message; empty if it has none.
    pub fn text(&self) -> &str {
        match self {
            Self::System { text }
            | Self::User { text, .. }
            | Self::Assistant { text, .. }
            | Self::Tool { text, .. } => text,
        }
    }
}

/// The part of a provider's value that the model reads: everything but encrypted data.
pub(crate) fn readable(value: &Value) -> Value {
    readable_within(value, NESTED)
}

fn readable_within(value: &Value, depth: u8) -> Value {
    // Values from providers may be nested without end; beyond this depth they are counted whole.
    let Some(depth) = depth.checked_sub(1) else { return value.clone() };
    match value {
        Value::Array(items) => items.iter().map(|item| readable_within(item, depth)).collect(),
        Value::Object(fields) => {
            let is_sealed = |name: &str, value: &Value| SEALED.contains(&name) && value.is_string();
            let read = fields.iter().filter(|(name, value)| !is_sealed(name, value));
            read.map(|(name, value)| (name.clone(), readable_within(value, depth))).collect()
        }
        _ => value.clone(),
    }
}

impl Usage {
    /// The sum of all fields; saturating.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            input: self.input.saturating_add(other.input),
            output: self.output.saturating_add(other.output),
            cache_read: self.cache_read.saturating_add(other.cache_read),
            cache_write: self.cache_write.saturating_add(other.cache_write),
            reasoning: self.reasoning.saturating_add(other.reasoning),
        }
    }

    /// The cost. Cached tokens are limited to those of the request, and reasoning tokens to those of the reply.
    pub fn cost(self, price: Price) -> Cost {
        let read = self.cache_read.min(self.input);
        // A provider may report more cached tokens than tokens. No part may fall below zero.
        let written = self.cache_write.min(self.input.saturating_sub(read));
        let reasoning = self.reasoning.min(self.output);
        let plain = self.input.saturating_sub(read).saturating_sub(written);
        Cost::of([
            (plain, price.input),
            (read, price.cache_read.unwrap_or(price.input)),
            (written, price.cache_write.unwrap_or(price.input)),
            (self.output.saturating_sub(reasoning), price.output),
            (reasoning, price.reasoning.unwrap_or(price.output)),
        ])
    }

    /// Input and output together.
    pub const fn total(self) -> u64 {
        self.input.saturating_add(self.output)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRICE: Price = Price {
        input: 2_500_000,
        output: 10_000_000,
        cache_read: Some(250_000),
        cache_write: None,
        reasoning: Some(20_000_000),
    };

    #[test]
    fn what_is_never_sent_has_no_tokens() {
        let said = |extra: Value| {
            let extra = extra.as_object().cloned().unwrap_or_default();
            Message::Assistant { text: "x".into(), calls: Vec::new(), extra }
        };
        let count = |text: &str| u64::try_from(text.len()).unwrap();
        let fields = serde_json::json!({"fields": {"logprobs": ["a", "b"]}});
        let aside = said(serde_json::json!({ Message::ANSWER_FIELDS: fields }));
        assert_eq!(aside.tokens(&count), said(Value::Null).tokens(&count));
        let both = said(serde_json::json!({"reasoning": "hm", Message::ANSWER_FIELDS: fields}));
        assert_eq!(both.tokens(&count), said(serde_json::json!({"reasoning": "hm"})).tokens(&count));
    }

    #[test]
    fn tokens_cost_what_the_price_says() {
        let usage = Usage { input: 1_000_000, output: 100_000, ..Usage::default() };
        assert_eq!(usage.cost(PRICE).to_string(), "3.5");
        assert_eq!(Usage { input: 1, ..Usage::default() }.cost(PRICE).to_string(), "0.0000025");
    }

    #[test]
    fn tokens_of_a_cache_and_of_reasoning_have_prices_of_their_own() {
        let tokens =
            Usage { input: 1_000_000, cache_read: 800_000, cache_write: 100_000, ..Usage::default() };
        // 100 000 and the 100 000 written at 2.50, 800 000 at 0.25.
        assert_eq!(tokens.cost(PRICE).to_string(), "0.7");
        // 40 000 at 10, 60 000 at 20.
        let thinking = Usage { output: 100_000, reasoning: 60_000, ..Usage::default() };
        assert_eq!(thinking.cost(PRICE).to_string(), "1.6");
        assert_eq!(thinking.cost(Price { reasoning: None, ..PRICE }).to_string(), "1");
    }

    #[test]
    fn no_number_of_tokens_overflows_nor_counts_twice() {
        let tokens =
            Usage { input: u64::MAX, output: u64::MAX, cache_read: u64::MAX, cache_write: 1, reasoning: 2 };
        assert_eq!(tokens.cost(PRICE), Cost(u64::MAX));
        let more_than_all = Usage { input: 10, cache_read: 500, ..Usage::default() };
        assert_eq!(more_than_all.cost(PRICE), Cost(10 * 250_000));
    }
}
