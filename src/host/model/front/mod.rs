//! Requests of clients in the neutral form, and replies in the dialect of the client: for models that speak another one.
//!
//! Nothing here does I/O. A reader names what it cannot carry over: what changes the meaning is refused, the rest is left out.

mod cached;
mod chat;
mod closed;
mod dialect;
mod fields;
mod fit;
mod gemini;
mod media;
mod messages;
mod names;
mod openai;
mod own;
mod request;
mod responses;
mod shared;
#[cfg(test)]
mod tests;

use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;

pub(crate) use self::dialect::GatewayDialect;
pub(in crate::host) use self::fields::Unconvertible;
use self::request::FrontRequest;
use self::responses::reply::ResponseHead;
use super::config::ModelConfig;
use super::refusals::{SentOption, ServerRefusals};
use super::wire::{IdForm, WireFormat, readable};
use crate::context::ToolForm;
use crate::engine::ModelReply;
use crate::session::Message;

/// Names the fields of the request that the model did not get.
const LEFT_OUT: HeaderName = HeaderName::from_static("x-unfazed-left-out");
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream");

/// The header that names the fields of a request which the model did not get, if there are any.
pub(in crate::host) fn left_out(fields: &[String]) -> Option<(HeaderName, HeaderValue)> {
    let names = HeaderValue::from_str(&fields.join(", ")).ok()?;
    (!names.is_empty()).then_some((LEFT_OUT, names))
}

/// A schema of Gemini as JSON Schema.
pub(in crate::host) fn gemini_schema(schema: Value) -> Value {
    gemini::schema::json_schema(schema)
}

/// A request of a client in the neutral form, for models that speak another dialect.
#[derive(Debug)]
pub(in crate::host) struct FrontCall {
    dialect: GatewayDialect,
    request: FrontRequest,
    stream: bool,
    head: ReplyHead,
}

/// A request as a model gets it.
pub(super) struct FittedRequest {
    pub(super) body: Vec<u8>,
    /// How it was written, which a refusal can change.
    pub(super) format: Box<dyn WireFormat>,
    /// The fields of the client's request that are not in it.
    pub(super) left_out: Vec<String>,
    /// The options in it that not every server of the dialect takes.
    pub(super) sent: Vec<SentOption>,
    /// Whether a message of the user was put before what the model says first.
    pub(super) opened: bool,
    /// Whether it has instructions in a role of their own.
    pub(super) instructs: bool,
}

/// What a reply says besides what the model said.
#[derive(Clone, Debug)]
pub(in crate::host) struct ReplyHead {
    /// The model that the client asked for.
    pub(in crate::host) model: String,
    /// What makes its id the only one.
    pub(in crate::host) id: String,
    /// When it was made, in seconds of Unix time.
    pub(in crate::host) created: u64,
}

/// A reply in the dialect of a client, while it comes.
pub(super) trait ReplyWriter: Send {
    /// The next text of the model.
    fn text(&mut self, text: &str) -> String;

    /// The rest, once the reply is whole.
    fn end(&mut self, reply: &ModelReply) -> String;

    /// What says that the reply is still coming, and nothing else.
    fn still(&self) -> String {
        // A comment (HTML standard, "Parsing an event stream").
        ": still here\n\n".to_owned()
    }
}

impl FrontCall {
    /// Reads a request.
    ///
    /// # Errors
    /// Something in it would change its meaning if it were left out, or it is no request.
    pub(in crate::host) fn read(
        dialect: GatewayDialect,
        body: &[u8],
        stream: bool,
        head: ReplyHead,
    ) -> Result<Self, Unconvertible> {
        let request = Self::request(dialect, body)?.continuable()?;
        Ok(Self { dialect, request, stream, head })
    }

    fn request(dialect: GatewayDialect, body: &[u8]) -> Result<FrontRequest, Unconvertible> {
        let other = core::str::from_utf8(body).ok().and_then(readable);
        let body = other.as_deref().map_or(body, str::as_bytes);
        match dialect {
            GatewayDialect::Chat => chat::request::read(body),
            GatewayDialect::Messages => messages::request::read(body),
            GatewayDialect::Responses => responses::request::read(body),
            GatewayDialect::Gemini => gemini::request::read(body),
        }
    }

    /// The same request with its conversation as it was repaired, which may end with what the model says: the client did not begin
    /// a message for it.
    ///
    /// # Errors
    /// Those of [`read`](Self::read).
    pub(in crate::host) fn again(&self, body: &[u8]) -> Result<Self, Unconvertible> {
        let request = Self::request(self.dialect, body)?;
        Ok(Self { dialect: self.dialect, request, stream: self.stream, head: self.head.clone() })
    }

    /// The same request with these messages behind its conversation, in which tools have the names that the client knows.
    #[must_use]
    pub(in crate::host) fn followed_by(mut self, messages: Vec<Message>) -> Self {
        for mut message in messages {
            match &mut message {
                Message::Assistant { calls, .. } => {
                    for call in calls {
                        call.name = self.request.names.sent(core::mem::take(&mut call.name));
                    }
                }
                Message::Tool { tool, .. } => *tool = self.request.names.sent(core::mem::take(tool)),
                Message::System { .. } | Message::User { .. } => {}
            }
            self.request.messages.push(message);
        }
        self
    }

    /// The conversation.
    pub(super) fn conversation(&self) -> &[Message] {
        &self.request.messages
    }

    /// Why a model of that dialect cannot have the request, though it can be read; `None` for the dialect: one that no client
    /// speaks.
    pub(in crate::host) fn refused_by(&self, dialect: Option<GatewayDialect>) -> Option<Unconvertible> {
        let form = match dialect {
            Some(GatewayDialect::Chat) => ToolForm::Chat,
            Some(GatewayDialect::Messages) => ToolForm::Messages,
            Some(GatewayDialect::Responses) => ToolForm::Responses,
            Some(GatewayDialect::Gemini) => ToolForm::Gemini,
            // The one that no client speaks is Bedrock's.
            None => ToolForm::Converse,
        };
        // Both dialects of `OpenAI` take any.
        let unanswerable = match form {
            ToolForm::Messages | ToolForm::Gemini | ToolForm::Converse => self.request.unanswerable(),
            ToolForm::Chat | ToolForm::Responses => None,
        };
        unanswerable.or_else(|| self.request.attachments.refused_by(form).map(Unconvertible::new))
    }

    /// The request for that model, as its refusals have taught that it takes it.
    ///
    /// # Errors
    /// A value that cannot be written.
    pub(super) fn fitted(
        &self,
        config: &ModelConfig,
        refusals: &ServerRefusals,
    ) -> serde_json::Result<FittedRequest> {
        self.request.fitted((config, refusals), self.stream)
    }

    /// The headers of the answer, by those of the provider.
    pub(super) fn headers(&self, mut headers: HeaderMap, left_out: &[String]) -> HeaderMap {
        headers.insert(CONTENT_TYPE, if self.stream { EVENTS } else { JSON });
        if let Some((name, value)) = self::left_out(left_out) {
            headers.insert(name, value);
        }
        headers
    }

    /// A reply of which nothing has come yet.
    pub(super) fn writer(&self) -> Box<dyn ReplyWriter> {
        let head = self.head.clone();
        match self.dialect {
            GatewayDialect::Messages if self.stream => Box::new(messages::stream::MessagesStream::new(head)),
            GatewayDialect::Messages => whole(move |reply| messages::reply::body(&head, reply)),
            GatewayDialect::Responses => {
                let FrontRequest { repeated, namespaced, customs, .. } = &self.request;
                let (repeated, namespaced) = (repeated.clone(), namespaced.clone());
                let head = ResponseHead { head, repeated, namespaced, customs: customs.clone() };
                if self.stream {
                    return Box::new(responses::stream::ResponsesStream::new(head));
                }
                whole(move |reply| responses::reply::body(&head, reply))
            }
            GatewayDialect::Chat if self.stream => {
                Box::new(chat::stream::ChatStream::new(head, self.request.counts))
            }
            GatewayDialect::Chat => whole(move |reply| chat::reply::body(&head, reply)),
            GatewayDialect::Gemini if self.stream => Box::new(gemini::stream::GeminiStream(head)),
            GatewayDialect::Gemini => whole(move |reply| gemini::reply::body(&head, reply)),
        }
    }

    /// The reply with the names and ids that the client knows and may send back.
    pub(super) fn settled(&self, mut reply: ModelReply) -> ModelReply {
        for proposed in &mut reply.calls {
            let call = &mut proposed.call;
            self.request.names.restore(&mut call.name);
            // The next turn may be another model's, which gets these ids byte by byte.
            if !IdForm::SHORT.takes(&call.id) {
                call.id = IdForm::SHORT.instead(&call.id, 0);
            }
        }
        reply
    }
}

/// A value on the line of an event. Readers that end lines where Unicode does (`str.splitlines` of Python, by which Google's SDK reads
/// streams) would cut it at three characters that JSON has as they are.
pub(in crate::host) fn on_one_line(value: &Value) -> String {
    let line = value.to_string();
    if !line.contains(['\u{85}', '\u{2028}', '\u{2029}']) {
        return line;
    }
    line.replace('\u{85}', "\\u0085").replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029")
}

/// A reply that is not streamed.
fn whole(body: impl Fn(&ModelReply) -> Value + Send + 'static) -> Box<dyn ReplyWriter> {
    Box::new(WholeReply(body))
}

struct WholeReply<B>(B);

impl<B: Fn(&ModelReply) -> Value + Send> ReplyWriter for WholeReply<B> {
    fn text(&mut self, _: &str) -> String {
        String::new()
    }

    fn end(&mut self, reply: &ModelReply) -> String {
        self.0(reply).to_string()
    }
}
