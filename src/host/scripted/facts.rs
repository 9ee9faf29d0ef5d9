//! What a script can look at in a request.

use crate::host::model::{ChatContent, ChatMessage};

/// What a script can look at in a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RequestFacts {
    /// The model that is asked for.
    pub model: String,
    /// The turn: one more than there are assistant messages. A request that is sent again is the same turn.
    pub turn: u32,
    /// The role of the last message: `system`, `user`, `assistant` or `tool`.
    pub last_role: String,
    /// The tool whose result the last message is.
    pub last_tool: Option<String>,
    /// The text of the last message.
    pub last_text: String,
}

impl RequestFacts {
    pub(super) fn of_chat(model: &str, messages: &[ChatMessage]) -> Self {
        let is_assistant = |message: &&ChatMessage| message.role.as_deref() == Some("assistant");
        let assistants = messages.iter().filter(is_assistant).count();
        let last = messages.last().cloned().unwrap_or_default();
        // The wire names a result by its call; the tool's name is with the call.
        let calls = messages.iter().rev().flat_map(|message| &message.tool_calls);
        let last_tool = last.tool_call_id.and_then(|id| {
            let mut calls = calls.filter(|call| call.id.as_ref() == Some(&id));
            calls.find_map(|call| call.function.name.clone())
        });
        Self {
            model: model.to_owned(),
            turn: u32::try_from(assistants).unwrap_or(u32::MAX).saturating_add(1),
            last_role: last.role.unwrap_or_default(),
            last_tool,
            last_text: last.content.map(ChatContent::into_text).unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::{Message, ToolCall};
    use serde_json::Map;

    #[test]
    fn the_tool_of_a_result_is_found_by_its_call() {
        let call =
            |id: &str, name: &str| ToolCall { id: id.into(), name: name.into(), arguments: "{}".into() };
        let messages = [
            Message::user("go"),
            Message::Assistant {
                text: String::new(),
                calls: vec![call("a", "look"), call("b", "take")],
                extra: Map::new(),
            },
            Message::Tool {
                call: "b".into(),
                tool: "take".into(),
                text: "taken".into(),
                error: false,
                handle: None,
            },
        ];
        let facts = RequestFacts::of_chat("m", &messages.each_ref().map(ChatMessage::from));
        assert_eq!(
            facts,
            RequestFacts {
                model: "m".into(),
                turn: 2,
                last_role: "tool".into(),
                last_tool: Some("take".into()),
                last_text: "taken".into(),
            }
        );
    }
}
