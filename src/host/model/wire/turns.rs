//! A conversation as turns: what precedes it, and roles that alternate.

use serde_json::{Value, json};

use crate::session::Message;

/// What precedes the conversation.
pub(super) fn system(conversation: &[Message]) -> Option<String> {
    let texts = conversation.iter().filter_map(|message| match message {
        Message::System { text } => Some(text.trim()).filter(|text| !text.is_empty()),
        Message::User { .. } | Message::Assistant { .. } | Message::Tool { .. } => None,
    });
    let text = texts.collect::<Vec<_>>().join("\n\n");
    Some(text).filter(|text| !text.is_empty())
}

/// Turns whose roles alternate. What a turn says is a list; of a user's, the results of tools come first.
#[derive(Default)]
pub(super) struct RoleTurns(Vec<RoleTurn>);

struct RoleTurn {
    role: &'static str,
    results: Vec<Value>,
    rest: Vec<Value>,
}

impl RoleTurns {
    /// Adds what one message says: to the last turn if that has the same role.
    pub(super) fn push(&mut self, role: &'static str, results: Vec<Value>, rest: Vec<Value>) {
        // Anthropic and Gemini refuse empty messages, and they say nothing.
        if results.is_empty() && rest.is_empty() {
            return;
        }
        match self.0.last_mut() {
            Some(last) if last.role == role => {
                last.results.extend(results);
                last.rest.extend(rest);
            }
            _ => self.0.push(RoleTurn { role, results, rest }),
        }
    }

    /// The turns, each with what it says in that field.
    pub(super) fn into_messages(self, field: &str) -> Vec<Value> {
        let message = |RoleTurn { role, mut results, rest }| {
            // All results of a turn stand in the next message of the user, before anything else.
            results.extend(rest);
            json!({"role": role, field: results})
        };
        self.0.into_iter().map(message).collect()
    }
}
