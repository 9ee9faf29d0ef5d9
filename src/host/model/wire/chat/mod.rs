//! The chat-completions format, as OpenAI-compatible servers speak it.
//!
//! Few fields are typed; everything else a provider sends is kept in `extra` and goes back with the message. Reading
//! is lenient about what providers do differently (missing ids, arguments as an object, content in parts) and
//! strict about what would change the meaning.

mod message;
mod reply;
mod request;
mod stream;

use reqwest::header::HeaderMap;

pub use message::chat_messages;
pub(crate) use message::{ChatMessage, Content};
use reply::read_answer;
pub(crate) use reply::read_body;
pub(crate) use request::{ChatRequest, Sampling};
use stream::Parts;

use super::Format;
use crate::engine::{Failure, ModelReply};
use crate::host::port::ModelRequest;
use crate::session::Message;

/// The format, for one model.
#[derive(Clone, Debug)]
pub(crate) struct Chat {
    /// The model's name on the server.
    pub(crate) model: String,
    /// What is the same for every request.
    pub(crate) sampling: Sampling,
}

impl Format for Chat {
    type Assembly = Parts;

    fn write(&self, request: &ModelRequest<'_>) -> serde_json::Result<Vec<u8>> {
        serde_json::to_vec(&ChatRequest::new(&self.model, request, &self.sampling))
    }

    fn read(
        &self,
        body: &[u8],
        headers: &HeaderMap,
        conversation: &[Message],
    ) -> Result<ModelReply, Failure> {
        read_answer(body, headers, conversation, self.sampling.finish_optional)
    }

    fn begin(&self) -> Self::Assembly {
        Parts::of(self.sampling.finish_optional)
    }
}
