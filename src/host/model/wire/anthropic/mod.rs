//! Anthropic's messages format.
//!
//! A message is a list of blocks. The text and the tool calls among them become the reply; everything else, thinking with
//! its signature above all, is kept as it came and goes back in its place: the API wants to see it again, untouched.

mod blocks;
mod family;
mod paused;
mod reply;
mod request;
mod stream;
mod streamed;

use reqwest::header::HeaderMap;
use serde_json::{Map, Value};

pub(crate) use family::ClaudeFamily;
pub(crate) use paused::PausedTurn;
use reply::read_body;
use stream::ReplyBlocks;

use super::extras::{KEPT, foreign_note, has_foreign};
use super::{StreamDecoder, WireFormat};
use crate::engine::{Failure, ModelReply};
use crate::host::port::ModelRequest;
use crate::session::Message;

/// The format, for one model.
#[derive(Clone, Debug)]
pub(crate) struct MessagesFormat {
    /// The model's name on the server.
    pub(crate) model: String,
    /// The model and its server: nobody else takes what it signed.
    pub(crate) issuer: String,
    /// The most tokens of a reply.
    pub(crate) max_tokens: u32,
    pub(crate) stream: bool,
    pub(crate) temperature: Option<f64>,
    /// Fields to add; null leaves a field out.
    pub(crate) extra: Map<String, Value>,
    /// Whether turns that the server pauses are continued.
    pub(crate) pauses: bool,
}

impl WireFormat for MessagesFormat {
    fn write(&self, request: &ModelRequest<'_>) -> serde_json::Result<Vec<u8>> {
        serde_json::to_vec(&request::body(self, request))
    }

    fn read(
        &self,
        body: &[u8],
        headers: &HeaderMap,
        conversation: &[Message],
    ) -> Result<ModelReply, Failure> {
        read_body(body, headers, conversation, (&self.issuer, self.pauses))
    }

    fn begin(&self) -> Box<dyn StreamDecoder> {
        Box::new(ReplyBlocks::of(&self.issuer, self.pauses))
    }

    fn continue_paused(&mut self) {
        self.pauses = true;
    }

    fn left_out(&self, conversation: &[Message]) -> Vec<String> {
        let any = has_foreign(conversation, Some(KEPT), &self.issuer);
        let foreign = any.then(|| foreign_note(&self.model));
        let told =
            "is asked without `thinking`: the last calls in the conversation came without any of its own";
        let without = request::cannot_think(self, conversation).then(|| format!("`{}` {told}", self.model));
        foreign.into_iter().chain(without).collect()
    }
}
