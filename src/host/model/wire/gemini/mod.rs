//! Gemini's `generateContent` format.
//!
//! An answer is a list of parts. The text and the function calls among them become the reply; everything else, thoughts and
//! their signatures above all, is kept on its part and goes back to who sent it.

mod contents;
mod family;
mod parts;
mod reply;
mod request;
mod stream;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use reqwest::header::HeaderMap;
use serde_json::{Map, Value};

#[cfg(feature = "serve")]
pub(in crate::host::model) use contents::STAND_IN;
use family::GeminiFamily;
use stream::ReplyParts;

use super::extras::{CONTENT, foreign_note, has_foreign};
use super::{StreamDecoder, WireFormat};
use crate::engine::{Failure, ModelReply};
use crate::host::port::ModelRequest;
use crate::session::Message;

/// The format, for one model.
#[derive(Clone, Debug)]
pub(crate) struct GeminiFormat {
    /// The model's name on the server.
    pub(crate) model: String,
    /// The model and its server: nobody else takes its signatures.
    pub(crate) issuer: String,
    pub(crate) temperature: Option<f64>,
    /// The most tokens of a reply.
    pub(crate) max_tokens: Option<u32>,
    /// Fields to add; null leaves a field out.
    pub(crate) extra: Map<String, Value>,
    pub(crate) signatures: Arc<SignatureRules>,
}

/// What a server wants of signatures, as far as it is known.
#[derive(Debug, Default)]
pub(crate) struct SignatureRules {
    /// The first call of each turn must have one.
    required: AtomicBool,
    /// It has refused those of earlier replies.
    refused: AtomicBool,
}

impl SignatureRules {
    /// Those of a model of that name.
    pub(crate) fn of(model: &str) -> Self {
        let required = GeminiFamily::of(model).requires_signatures;
        Self { required: AtomicBool::new(required), ..Self::default() }
    }

    fn required(&self) -> bool {
        self.required.load(Ordering::Relaxed)
    }

    fn refused(&self) -> bool {
        self.refused.load(Ordering::Relaxed)
    }
}

impl WireFormat for GeminiFormat {
    fn write(&self, request: &ModelRequest<'_>) -> serde_json::Result<Vec<u8>> {
        serde_json::to_vec(&request::body(self, request))
    }

    fn read(
        &self,
        body: &[u8],
        headers: &HeaderMap,
        conversation: &[Message],
    ) -> Result<ModelReply, Failure> {
        stream::read_body(body, headers, conversation, &self.issuer)
    }

    fn begin(&self) -> Box<dyn StreamDecoder> {
        Box::new(ReplyParts::of(&self.issuer))
    }

    fn left_out(&self, conversation: &[Message]) -> Vec<String> {
        let any = has_foreign(conversation, Some(CONTENT), &self.issuer);
        any.then(|| foreign_note(&self.model)).into_iter().collect()
    }

    fn learn(&self, failure: &Failure) -> Option<String> {
        let (rule, how) = match signature_fault(failure)? {
            SignatureFault::Missing => {
                (&self.signatures.required, "with a stand-in for missing thought signatures")
            }
            SignatureFault::Refused => {
                self.signatures.required.store(true, Ordering::Relaxed);
                (&self.signatures.refused, "without the thought signatures of earlier replies")
            }
        };
        let known = rule.swap(true, Ordering::Relaxed);
        (!known).then(|| format!("`{}` refused the request, which is sent again {how}", self.model))
    }
}

/// What a server says of the signatures in a request.
enum SignatureFault {
    Missing,
    Refused,
}

fn signature_fault(failure: &Failure) -> Option<SignatureFault> {
    // The sentences: nanbingxyz/5ire#405, GewoonJaap/gemini-cli-openai#156, and "Thought signatures" on ai.google.dev.
    let said = failure.message.to_ascii_lowercase().replace('_', " ");
    let of_signature = said.contains("thought signature");
    if failure.code.as_deref() == Some("missing_thought_signature")
        || (of_signature && said.contains("missing"))
    {
        return Some(SignatureFault::Missing);
    }
    let refused = ["not valid", "invalid", "corrupted"].iter().any(|word| said.contains(word));
    (of_signature && refused).then_some(SignatureFault::Refused)
}
