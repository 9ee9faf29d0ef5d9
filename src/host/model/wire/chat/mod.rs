//! The chat-completions format, as OpenAI-compatible servers speak it.
//!
//! Few fields are typed; everything else a provider sends is kept in `extra` and goes back with the message. Reading
//! is lenient about what providers do differently (missing ids, arguments as an object, content in parts) and
//! strict about what would change the meaning.

mod learned;
mod message;
mod plain;
mod reply;
mod request;
mod server;
mod stream;

use reqwest::header::HeaderMap;

pub(crate) use learned::LearnedForms;
pub(crate) use message::{ChatContent, ChatMessage, WireCall, chat_messages};
use reply::read_answer;
pub(crate) use reply::read_body;
pub(crate) use request::{ChatRequest, SamplingOptions};
pub(crate) use server::ChatServer;
use stream::ChatParts;

use super::{StreamDecoder, WireFormat};
use crate::engine::{Failure, ModelReply};
use crate::host::port::ModelRequest;
use crate::session::Message;

/// The format, for one model.
#[derive(Clone, Debug)]
pub(crate) struct ChatFormat {
    /// The model's name on the server.
    pub(crate) model: String,
    /// What is the same for every request.
    pub(crate) sampling: SamplingOptions,
    /// What is known of the server.
    pub(crate) server: ChatServer,
    /// What its refusals have taught since.
    pub(crate) learned_forms: LearnedForms,
}

impl WireFormat for ChatFormat {
    fn write(&self, request: &ModelRequest<'_>) -> serde_json::Result<Vec<u8>> {
        serde_json::to_vec(&ChatRequest::new(
            &self.model,
            request,
            &self.sampling,
            &self.learned_forms.applied_to(self.server),
        ))
    }

    fn read(
        &self,
        body: &[u8],
        headers: &HeaderMap,
        conversation: &[Message],
    ) -> Result<ModelReply, Failure> {
        read_answer(body, headers, conversation, self.server.finish_optional)
    }

    fn begin(&self) -> Box<dyn StreamDecoder> {
        Box::new(ChatParts::of(self.server.finish_optional))
    }

    fn learn(&self, failure: &Failure) -> Option<String> {
        self.learned_forms.learn(failure, &self.model, self.server, |option| self.sampling.sends(option))
    }
}
