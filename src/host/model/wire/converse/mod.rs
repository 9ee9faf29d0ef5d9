//! Bedrock's Converse and `ConverseStream`.
//!
//! A message is a list of blocks. The text and the tool calls among them become the reply; reasoning with its signature is
//! kept as it came, and goes back to the model that signed it.

mod blocks;
mod family;
mod reply;
mod request;
mod stream;

use std::sync::atomic::{AtomicBool, Ordering};

use reqwest::header::HeaderMap;
use serde_json::{Map, Value};

pub(crate) use self::family::{ModelFamily, OwnChoice};
use self::stream::ReplyBlocks;
use super::extras::{CONVERSE, foreign_note, has_foreign};
use super::{RefusalWords, StreamDecoder, WireFormat};
use crate::engine::{Failure, ModelReply};
use crate::host::port::ModelRequest;
use crate::session::Message;

/// The format, for one model.
#[derive(Debug)]
pub(crate) struct ConverseFormat {
    /// The model's id.
    pub(crate) model: String,
    /// Who sees its own reasoning again.
    pub(crate) issuer: String,
    pub(crate) temperature: Option<f64>,
    pub(crate) max_tokens: Option<u32>,
    /// Fields to add; null leaves a field out.
    pub(crate) extra: Map<String, Value>,
    /// What its family takes otherwise than most.
    pub(crate) family: ModelFamily,
    /// Whether the model has refused to be told which tool to call.
    pub(crate) chooses_itself: AtomicBool,
}

impl WireFormat for ConverseFormat {
    fn write(&self, request: &ModelRequest<'_>) -> serde_json::Result<Vec<u8>> {
        serde_json::to_vec(&request::body(self, request))
    }

    fn read(
        &self,
        body: &[u8],
        headers: &HeaderMap,
        conversation: &[Message],
    ) -> Result<ModelReply, Failure> {
        reply::read_body(body, headers, conversation, &self.issuer)
    }

    fn begin(&self) -> Box<dyn StreamDecoder> {
        Box::new(ReplyBlocks::of(&self.issuer))
    }

    fn left_out(&self, conversation: &[Message]) -> Vec<String> {
        let any = has_foreign(conversation, Some(CONVERSE), &self.issuer);
        any.then(|| foreign_note(&self.model)).into_iter().collect()
    }

    fn learn(&self, failure: &Failure) -> Option<String> {
        // "This model doesn't support the toolConfig.toolChoice.any field. Remove toolConfig.toolChoice.any and try again."
        // (pydantic/pydantic-ai#1649), and the words of Anthropic's API behind "The model returned the following errors".
        let is_refusal = matches!(failure.status, None | Some(400 | 422));
        let refused = is_refusal && RefusalWords::of(failure).refuses_demand();
        let known = refused && self.chooses_itself.swap(true, Ordering::Relaxed);
        (refused && !known).then(|| {
            format!("`{}` refused a choice among its tools, and is asked again without one", self.model)
        })
    }
}
