//! Anthropic's messages format.
//!
//! A message is a list of blocks. The text and the tool calls among them become the reply; everything else, thinking with
//! its signature above all, is kept as it came and goes back in its place: the API wants to see it again, untouched.

mod blocks;
mod reply;
mod request;
mod stream;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use reqwest::header::HeaderMap;
use serde_json::{Map, Value};

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
    /// Whether the server has refused what the model thought before.
    pub(crate) refuses_thinking: Arc<AtomicBool>,
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
        read_body(body, headers, conversation, &self.issuer)
    }

    fn begin(&self) -> Box<dyn StreamDecoder> {
        Box::new(ReplyBlocks::of(&self.issuer))
    }

    fn left_out(&self, conversation: &[Message]) -> Vec<String> {
        let any = has_foreign(conversation, Some(KEPT), &self.issuer);
        let foreign = any.then(|| foreign_note(&self.model));
        let told =
            "is asked without `thinking`: the last calls in the conversation came without any of its own";
        let without = request::cannot_think(self, conversation).then(|| format!("`{}` {told}", self.model));
        foreign.into_iter().chain(without).collect()
    }

    fn learn(&self, failure: &Failure) -> Option<String> {
        if failure.status != Some(400) || !refuses_thinking(&failure.message) {
            return None;
        }
        let known = self.refuses_thinking.swap(true, Ordering::Relaxed);
        (!known).then(|| {
            let told = "refused the request, which is sent again without the thinking of earlier replies";
            format!("`{}` {told}", self.model)
        })
    }
}

/// Whether a request was refused for the thinking in it.
fn refuses_thinking(said: &str) -> bool {
    // "Invalid `signature` in `thinking` block"; "Expected `thinking` or `redacted_thinking`, but found `tool_use`"
    // (anomalyco/opencode#3077); "`thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified".
    let said = said.to_ascii_lowercase();
    let words = ["signature", "but found", "cannot be modified"];
    said.contains("thinking") && words.iter().any(|word| said.contains(word))
}
