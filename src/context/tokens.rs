//! The tokens of a conversation, and its measure for the interpreter.

use super::counter::{ByteEstimate, TokenCounter};
use super::declared::ToolForm;
use super::files::kept_tokens;
use super::history::findings;
use crate::engine::{ToolSpec, TurnMeasure};
use crate::session::Message;

/// The tokens of one message, by `counter`. The images and PDFs that it names as kept count, since models are shown them.
pub fn message_tokens(counter: &dyn TokenCounter, message: &Message) -> u64 {
    let shown = match message {
        Message::User { text, .. } | Message::Tool { text, .. } => kept_tokens(text),
        Message::System { .. } | Message::Assistant { .. } => 0,
    };
    message.tokens(&|text| counter.count(text)).saturating_add(shown)
}

/// The tokens of tool definitions by `counter`, in the form of chat completions. For other forms use a [`ToolForm`].
pub fn tool_tokens(counter: &dyn TokenCounter, tools: &[&ToolSpec]) -> u64 {
    tool_tokens_of("", counter, tools)
}

/// Like [`tool_tokens`], for a model by its name at its server: some models see tools in a special form.
pub(super) fn tool_tokens_of(model: &str, counter: &dyn TokenCounter, tools: &[&ToolSpec]) -> u64 {
    tools.iter().map(|tool| ToolForm::Chat.tokens(counter, model, tool)).fold(0, u64::saturating_add)
}

/// Like [`message_tokens`], by estimate.
pub fn estimate_message(message: &Message) -> u64 {
    message_tokens(&ByteEstimate, message)
}

/// The measure of the conversation for the interpreter before a turn.
pub fn measure(counter: &dyn TokenCounter, messages: &[Message], tools: &[&ToolSpec]) -> TurnMeasure {
    TurnMeasure {
        messages: u64::try_from(messages.len()).unwrap_or(u64::MAX),
        message_tokens: messages
            .iter()
            .map(|message| message_tokens(counter, message))
            .fold(0, u64::saturating_add),
        tool_tokens: tool_tokens(counter, tools),
        history_faults: u64::try_from(findings(messages).len()).unwrap_or(u64::MAX),
        ..TurnMeasure::default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::session::ToolCall;

    #[test]
    fn prose_and_json_are_estimated_differently() {
        let prose = "x".repeat(2800);
        assert_eq!(ByteEstimate.count(&prose), 700);
        assert_eq!(ByteEstimate.count(&format!("[{}]", &prose[2..])), 1000);
        assert_eq!(ByteEstimate.count(""), 0);
        assert_eq!(ByteEstimate.count("a"), 1);
    }

    #[test]
    fn a_message_costs_more_than_its_text() {
        assert_eq!(estimate_message(&Message::user("12345678")), 6);
    }

    #[test]
    fn an_image_that_a_message_names_counts() {
        let named = "[image a.png, image/png, 8 bytes: not shown, kept under the handle \"a-1\"]";
        assert!(estimate_message(&Message::user(named)) > 1600);
        // What a model says of a file shows it none.
        let said = Message::Assistant { text: named.into(), calls: vec![], extra: serde_json::Map::new() };
        assert!(estimate_message(&said) < 100);
    }

    #[test]
    fn a_tool_call_costs_its_name_its_arguments_and_ten() {
        let call =
            ToolCall { id: "call_1".into(), name: "look".into(), arguments: "{\"a\": \"bcdef\"}".into() };
        let with = |calls| Message::Assistant { text: String::new(), calls, extra: serde_json::Map::new() };
        let (none, one) = (estimate_message(&with(vec![])), estimate_message(&with(vec![call])));
        assert_eq!(one - none, 10 + 1 + 5);
    }

    #[test]
    fn what_the_provider_wants_to_see_again_is_counted() {
        let extra = serde_json::Map::from_iter([("signature".to_owned(), json!("x".repeat(1000)))]);
        let message = Message::Assistant { text: String::new(), calls: vec![], extra };
        assert!(estimate_message(&message) > 300);
    }

    #[test]
    fn tools_are_counted_as_they_are_sent() {
        let spec = ToolSpec {
            name: "look".into(),
            description: "Looks.".into(),
            parameters: json!({"type": "object"}),
            effect: None,
        };
        let sent = r#"{"type":"function","function":{"name":"look","description":"Looks.","parameters":{"type":"object"}}}"#;
        assert_eq!(tool_tokens(&ByteEstimate, &[&spec, &spec]), 2 * ByteEstimate.count(sent));
        assert_eq!(tool_tokens(&ByteEstimate, &[]), 0);
    }

    #[test]
    fn a_measure_is_the_sum_of_its_parts() {
        let messages = [Message::user("one"), Message::user("two")];
        let measure = measure(&ByteEstimate, &messages, &[]);
        assert_eq!((measure.messages, measure.message_tokens, measure.tool_tokens), (2, 10, 0));
    }
}
