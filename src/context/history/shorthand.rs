//! Conversations in shorthand, for tests.

use serde_json::Map;

use crate::session::{Message, ToolCall};

/// `u` is a user message, `a` an assistant message, `a:x,y` one that calls x and y, `s:x` one with text that calls x,
/// and `r:x` a result of x.
pub(in crate::context) fn conversation(text: &str) -> Vec<Message> {
    let word = |word: &str| {
        let (kind, ids) = word.split_once(':').unwrap_or((word, ""));
        let ids: Vec<&str> = ids.split(',').filter(|id| !id.is_empty()).collect();
        match (kind, ids.as_slice()) {
            ("a", ids) => assistant("", ids),
            ("s", ids) => assistant("Let me see.", ids),
            ("r", [id]) => result(id),
            ("u", []) => Message::user("hi"),
            _ => panic!("what is {word}?"),
        }
    };
    text.split_whitespace().map(word).collect()
}

/// The shorthand of a conversation.
pub(super) fn shorthand(messages: &[Message]) -> String {
    let word = |message: &Message| match message {
        Message::Assistant { text, calls, .. } => {
            let kind = if text.is_empty() { "a" } else { "s" };
            let ids: Vec<&str> = calls.iter().map(|call| call.id.as_str()).collect();
            if ids.is_empty() { kind.to_owned() } else { format!("{kind}:{}", ids.join(",")) }
        }
        Message::Tool { call, error: false, .. } => format!("r:{call}"),
        Message::Tool { call, error: true, .. } => format!("unknown:{call}"),
        Message::User { .. } => "u".to_owned(),
        Message::System { .. } => panic!("there is no word for it"),
    };
    messages.iter().map(word).collect::<Vec<_>>().join(" ")
}

fn assistant(text: &str, ids: &[&str]) -> Message {
    let call = |id: &&str| ToolCall { id: (*id).into(), name: "t".into(), arguments: "{}".into() };
    Message::Assistant { text: text.into(), calls: ids.iter().map(call).collect(), extra: Map::new() }
}

fn result(id: &str) -> Message {
    Message::Tool { call: id.to_owned(), tool: "t".into(), text: "seen".into(), error: false, handle: None }
}
