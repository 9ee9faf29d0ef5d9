//! Messages of a conversation there was before the case.

use indexmap::IndexMap;
use serde_json::Value;

use super::run;
use crate::policy::decode::{Spanned, record, union};
use crate::session::{Message, ToolCall};

union! {
    /// A message of the conversation.
    pub(crate) enum MessageCase by role {
        /// Instructions that precede the conversation.
        System = "system" {
            /// The text.
            /// Example: `You look up prices.`
            text: String,
        },
        /// What the user, or the policy on the user's behalf, says.
        User = "user" {
            /// The text.
            /// Example: `What does item 42 cost?`
            text: String,
            /// Set if the policy wrote it: the name of the guidance.
            /// Example: `final_turn`
            guidance: Option<String>,
        },
        /// What the model said.
        Assistant = "assistant" {
            /// The text, possibly empty.
            /// Example: `Let me look.`
            text: String = String::new(),
            /// The tool calls, in the model's order.
            /// Example: `[{"id": "call_1", "name": "search", "arguments": {"query": "price"}}]`
            calls: Vec<PastCall> = Vec::new(),
            /// What the provider sent besides.
            /// Example: `{"reasoning_content": "First the price."}`
            extra: IndexMap<String, Value> = IndexMap::new(),
        },
        /// The result of one tool call.
        Tool = "tool" {
            /// The call it answers.
            /// Example: `call_1`
            call: String,
            /// The tool's name.
            /// Example: `search`
            tool: String,
            /// What the model is shown.
            /// Example: `"12.50"`
            text: String,
            /// Whether the call failed or was refused.
            error: bool = false,
        },
    }
}

record! {
    /// A call the model made.
    pub(crate) struct PastCall {
        /// Its id.
        /// Example: `call_1`
        pub(crate) id: String,
        /// The tool.
        /// Example: `search`
        pub(crate) name: String,
        /// The arguments: a mapping, or a string that is taken as the model wrote it.
        /// Example: `{"query": "price of item 42"}`
        pub(crate) arguments: Option<Spanned<Value>>,
    }
}

impl MessageCase {
    /// As the session keeps it.
    pub(crate) fn message(&self) -> Message {
        match self {
            Self::System { text } => Message::System { text: text.clone() },
            Self::User { text, guidance } => Message::User { text: text.clone(), guidance: guidance.clone() },
            Self::Assistant { text, calls, extra } => Message::Assistant {
                text: text.clone(),
                calls: calls.iter().map(PastCall::call).collect(),
                extra: extra.clone().into_iter().collect(),
            },
            Self::Tool { call, tool, text, error } => Message::Tool {
                call: call.clone(),
                tool: tool.clone(),
                text: text.clone(),
                error: *error,
                handle: None,
            },
        }
    }
}

impl PastCall {
    fn call(&self) -> ToolCall {
        let arguments = run::arguments(self.arguments.as_ref().map(|arguments| &arguments.value));
        ToolCall { id: self.id.clone(), name: self.name.clone(), arguments }
    }
}
