//! Models without a role for instructions: what the system says is sent as what the user says, in every wire format.

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, Ordering};

use super::wire::RefusalWords;
use crate::engine::Failure;
use crate::session::Message;

/// Whether a model takes instructions, as far as its refusals have shown.
#[derive(Debug, Default)]
pub(super) struct SystemRole {
    refused: AtomicBool,
}

impl SystemRole {
    /// The conversation as the model takes it. Instructions become the beginning of what the user says next: templates of models
    /// without the role want the other two to alternate.
    pub(super) fn sent<'m>(&self, conversation: &'m [Message]) -> Cow<'m, [Message]> {
        if !self.refused.load(Ordering::Relaxed) || !instructs(conversation) {
            return Cow::Borrowed(conversation);
        }
        let (mut sent, mut instructions) = (Vec::with_capacity(conversation.len()), Vec::new());
        for message in conversation {
            match message {
                Message::System { text } => instructions.push(text.as_str()),
                Message::User { text, guidance } => {
                    instructions.push(text.as_str());
                    let text = std::mem::take(&mut instructions).join("\n\n");
                    sent.push(Message::User { text, guidance: guidance.clone() });
                }
                Message::Assistant { .. } | Message::Tool { .. } => {
                    if !instructions.is_empty() {
                        sent.push(Message::user(std::mem::take(&mut instructions).join("\n\n")));
                    }
                    sent.push(message.clone());
                }
            }
        }
        if !instructions.is_empty() {
            sent.push(Message::user(instructions.join("\n\n")));
        }
        Cow::Owned(sent)
    }

    /// What a refusal says of the role, in words, if it is the role that was refused: from now on instructions are sent otherwise.
    /// `instructs`: whether the request had any in it.
    pub(super) fn learn(&self, model: &str, instructs: bool, refusal: &Failure) -> Option<String> {
        // llama.cpp and vLLM answer what a template raises with 500 too.
        let is_refusal = matches!(refusal.status, Some(400 | 422 | 500)) && refuses_system(refusal);
        if !instructs || !is_refusal {
            return None;
        }
        // Requests in flight at the same time learn the same.
        self.refused.store(true, Ordering::Relaxed);
        Some(format!(
            "`{model}` refused the request, which is sent again with the instructions in what the user says"
        ))
    }
}

/// Whether a conversation has instructions in a role of their own.
pub(super) fn instructs(conversation: &[Message]) -> bool {
    conversation.iter().any(|message| matches!(message, Message::System { .. }))
}

/// "System role not supported" (templates of Gemma), "Developer instruction is not enabled for models/gemma-3-27b-it" (Gemini's API),
/// "This model doesn't support system messages" (Bedrock), "'messages[0].role' does not support 'system' with this model" (`OpenAI`'s
/// o1-mini).
fn refuses_system(refusal: &Failure) -> bool {
    let words = RefusalWords::of(refusal);
    let named =
        ["system role", "system message", "system prompt", "system instruction", "developer instruction"];
    let refused = [
        " not supported",
        " is not supported",
        "s are not supported",
        " is not enabled",
        "s are not enabled",
    ];
    let supports = ["support ", "support the ", "support a ", "support any "];
    let says = |before: &str, after: &str| words.says(&[&format!("{before}{after}")]);
    let is_refused = named.iter().any(|name| {
        refused.iter().any(|refused| says(name, refused))
            || supports.iter().any(|support| says(support, name))
    });
    // One that may only stand elsewhere is refused for its place.
    let is_role =
        words.says(&["'system'", "\"system\""]) && !words.says(&["after role", "must be", "only be"]);
    let is_unknown = words.says(&["unexpected role", "invalid role", "unsupported role", "unknown role"]);
    let names_role =
        words.says(&["support 'system'", "role 'system' is not supported", "role 'system' not supported"]);
    let is_field = words.says(&["unknown name 'systeminstruction'", "unknown name 'system_instruction'"]);
    (is_refused && words.refuses()) || (is_role && (is_unknown || names_role)) || is_field
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::ToolCall;

    fn refused(status: u16, message: &str) -> Failure {
        Failure { status: Some(status), message: message.into(), ..Failure::default() }
    }

    fn system(text: &str) -> Message {
        Message::System { text: text.into() }
    }

    #[test]
    fn a_refusal_of_the_role_is_known_in_the_words_of_each_server() {
        for (status, message, is_one) in [
            (400, "System role not supported", true),
            (500, "System role not supported at row 1, column 69", true),
            (400, "Developer instruction is not enabled for models/gemma-3-27b-it", true),
            (400, "This model doesn't support system messages. Try again without system messages.", true),
            (400, "Unsupported value: 'messages[0].role' does not support 'system' with this model.", true),
            (
                400,
                "Invalid JSON payload received. Unknown name \"systemInstruction\": Cannot find field.",
                true,
            ),
            (400, "messages: Unexpected role \"system\". Allowed: user, assistant", true),
            (400, "System message must be at the beginning.", false),
            (400, "System role not supported. Conversation must start with the first user message", true),
            (400, "The system prompt is too long", false),
            (400, "Unexpected role 'system' after role 'assistant'", false),
            (400, "System messages are not allowed after others; they must be at the start", false),
            (400, "Unknown name \"foo\" at 'system_instruction.parts[0]'", false),
            (400, "Unknown part type image_url in system message", false),
            (400, "cache_control is not supported in system messages", false),
            (500, "An unexpected error occurred while rendering the system prompt", false),
            (429, "System role not supported", false),
        ] {
            let role = SystemRole::default();
            assert_eq!(role.learn("m", true, &refused(status, message)).is_some(), is_one, "{message}");
        }
    }

    #[test]
    fn instructions_become_what_the_user_says() {
        let role = SystemRole::default();
        let call = ToolCall { id: "a".into(), name: "look".into(), arguments: "{}".into() };
        let called =
            Message::Assistant { text: String::new(), calls: vec![call], extra: serde_json::Map::new() };
        let conversation = [
            system("a"),
            system("b"),
            Message::user("go"),
            called.clone(),
            system("c"),
            called.clone(),
            system("d"),
        ];
        assert_eq!(*role.sent(&conversation), conversation);
        let refusal = refused(400, "System role not supported");
        assert_eq!(role.learn("m", instructs(&conversation[2..4]), &refusal), None);
        assert!(role.learn("m", instructs(&conversation), &refusal).is_some());
        assert!(!instructs(&role.sent(&conversation)), "it cannot be refused again");
        let expected =
            [Message::user("a\n\nb\n\ngo"), called.clone(), Message::user("c"), called, Message::user("d")];
        assert_eq!(*role.sent(&conversation), expected);
        // What follows a reply changes nothing before it: a server that keeps that is sent the rest alone.
        assert_eq!(*role.sent(&conversation[..3]), expected[..1]);
        assert_eq!(*role.sent(&conversation[..5]), expected[..3]);
    }
}
