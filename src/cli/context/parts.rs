//! The tokens of a conversation, part by part.

use crate::context::{RequestTokens, TokenCounter, message_tokens};
use crate::session::Message;

/// What takes tokens.
#[derive(Default)]
pub(super) struct TokenParts {
    /// The instructions.
    pub(super) system: u64,
    /// Each tool by its name.
    pub(super) tools: Vec<(String, u64)>,
    /// What the user, or the policy in the place of the user, said.
    pub(super) user: MessageGroup,
    /// What the model said, its calls among it.
    pub(super) assistant: MessageGroup,
    /// The results of tools.
    pub(super) results: MessageGroup,
    /// Images.
    pub(super) images: u64,
    /// What the provider adds to each request.
    pub(super) fixed: u64,
}

/// Messages of one kind.
#[derive(Clone, Copy, Default)]
pub(super) struct MessageGroup {
    pub(super) messages: u64,
    pub(super) tokens: u64,
}

impl MessageGroup {
    fn add(&mut self, tokens: u64) {
        self.messages = self.messages.saturating_add(1);
        self.tokens = self.tokens.saturating_add(tokens);
    }
}

impl TokenParts {
    /// Those of a conversation.
    pub(super) fn of(counter: &dyn TokenCounter, messages: &[Message], tools: Vec<(String, u64)>) -> Self {
        let mut parts = Self { tools, ..Self::default() };
        for message in messages {
            let tokens = message_tokens(counter, message);
            match message {
                Message::System { .. } => parts.system = parts.system.saturating_add(tokens),
                Message::User { .. } => parts.user.add(tokens),
                Message::Assistant { .. } => parts.assistant.add(tokens),
                Message::Tool { .. } => parts.results.add(tokens),
            }
        }
        parts
    }

    /// Those of a request.
    pub(super) fn of_request(request: &RequestTokens) -> Self {
        let mut parts = Self { system: request.system, fixed: request.fixed, ..Self::default() };
        parts.tools = request.tools.iter().map(|tool| (tool.name.clone(), tool.tokens)).collect();
        for message in &request.messages {
            let images = message.images;
            parts.images = parts.images.saturating_add(images);
            let text = message.tokens.saturating_sub(images);
            match message.role.as_str() {
                "system" | "developer" => parts.system = parts.system.saturating_add(text),
                "tool" => parts.results.add(text),
                role => {
                    if message.results > 0 {
                        parts.results.add(message.results);
                    }
                    let rest = text.saturating_sub(message.results);
                    if role == "assistant" { parts.assistant.add(rest) } else { parts.user.add(rest) }
                }
            }
        }
        parts
    }

    /// The same with other numbers of tokens.
    pub(super) fn each(self, other: &dyn Fn(u64) -> u64) -> Self {
        let said = |said: MessageGroup| MessageGroup { tokens: other(said.tokens), ..said };
        Self {
            system: other(self.system),
            tools: self.tools.into_iter().map(|(name, tokens)| (name, other(tokens))).collect(),
            user: said(self.user),
            assistant: said(self.assistant),
            results: said(self.results),
            images: other(self.images),
            fixed: other(self.fixed),
        }
    }

    /// Those of all tools.
    pub(super) fn all_tools(&self) -> u64 {
        self.tools.iter().map(|(_, tokens)| *tokens).fold(0, u64::saturating_add)
    }

    /// Those of all messages, the instructions among them.
    pub(super) fn messages(&self) -> u64 {
        let parts = [self.system, self.user.tokens, self.assistant.tokens, self.results.tokens, self.images];
        parts.into_iter().fold(0, u64::saturating_add)
    }

    /// All of them.
    pub(super) fn used(&self) -> u64 {
        self.messages().saturating_add(self.all_tools())
    }
}
