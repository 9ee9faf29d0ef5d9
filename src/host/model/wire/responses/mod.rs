//! `OpenAI`'s Responses format.
//!
//! A response is a list of items. The text and the function calls among them become the reply; everything else, reasoning
//! above all, is kept as it came and goes back in its place to who sent it.

mod continued;
mod input;
mod items;
mod reply;
mod request;
mod stream;
mod streamed;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use reqwest::header::HeaderMap;
use serde_json::{Map, Value};

pub(crate) use continued::LostResponses;
use stream::ReplyItems;

use super::extras::{RESPONSE, foreign_note, has_foreign};
use super::{StreamDecoder, WireFormat};
use crate::engine::{Failure, ModelReply};
use crate::host::port::ModelRequest;
use crate::session::Message;

/// The format, for one model.
#[derive(Clone, Debug)]
pub(crate) struct ResponsesFormat {
    /// The model's name on the server.
    pub(crate) model: String,
    /// The model and its server: nobody else can read what it thought.
    pub(crate) issuer: String,
    pub(crate) stream: bool,
    pub(crate) temperature: Option<f64>,
    /// The most tokens of a reply.
    pub(crate) max_tokens: Option<u32>,
    /// Fields to add; null leaves a field out.
    pub(crate) extra: Map<String, Value>,
    /// Whether a request continues the last response, which the server keeps, where nothing has changed since.
    pub(crate) continues: bool,
    /// The responses that the server no longer has.
    pub(crate) lost: Arc<LostResponses>,
    /// Whether the server has refused what the model thought before.
    pub(crate) refuses_reasoning: Arc<AtomicBool>,
}

impl WireFormat for ResponsesFormat {
    fn write(&self, request: &ModelRequest<'_>) -> serde_json::Result<Vec<u8>> {
        serde_json::to_vec(&request::body(self, request))
    }

    fn read(
        &self,
        body: &[u8],
        headers: &HeaderMap,
        conversation: &[Message],
    ) -> Result<ModelReply, Failure> {
        reply::read_body(body, headers, conversation, (&self.issuer, self.continues(), self.most()))
    }

    fn begin(&self) -> Box<dyn StreamDecoder> {
        Box::new(ReplyItems::of(&self.issuer, self.continues(), self.most()))
    }

    fn left_out(&self, conversation: &[Message]) -> Vec<String> {
        let any = has_foreign(conversation, Some(RESPONSE), &self.issuer);
        any.then(|| foreign_note(&self.model)).into_iter().collect()
    }

    fn learn(&self, failure: &Failure) -> Option<String> {
        if self.continues()
            && let Some(note) = self.lost.learn(failure, &self.model)
        {
            return Some(note);
        }
        if !refuses_reasoning(failure) || self.refuses_reasoning.swap(true, Ordering::Relaxed) {
            return None;
        }
        Some(format!(
            "`{}` refused the request, which is sent again without the reasoning of earlier replies",
            self.model
        ))
    }
}

/// Whether a request was refused for the reasoning in it.
fn refuses_reasoning(failure: &Failure) -> bool {
    // Reasoning is bound to the account too, so another key makes the server refuse it (`exception_mapping_utils.py` of
    // LiteLLM). The other sentences: vercel/ai#7099, and `convert-to-openai-responses-input.ts` of its `@ai-sdk/openai`.
    const SENTENCES: [&str; 2] =
        ["without its required following item", "without its required 'reasoning' item"];
    failure.code.as_deref() == Some("invalid_encrypted_content")
        || SENTENCES.iter().any(|sentence| failure.message.contains(sentence))
}
