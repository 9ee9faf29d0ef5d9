//! Bedrock's Converse and `ConverseStream`.
//!
//! A message is a list of blocks. The text and the tool calls among them become the reply; reasoning with its signature is
//! kept as it came, and goes back to the model that signed it.

mod blocks;
mod family;
mod reply;
mod request;
mod stream;

use reqwest::header::HeaderMap;
use serde_json::{Map, Value};

pub(crate) use self::family::{ModelFamily, OwnChoice};
use self::stream::ReplyBlocks;
use super::extras::{CONVERSE, foreign_note, has_foreign};
use super::{StreamDecoder, WireFormat};
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
}
