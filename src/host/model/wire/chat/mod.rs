//! The chat-completions format, as OpenAI-compatible servers speak it.
//!
//! Few fields are typed; everything else a provider sends is kept in `extra` and goes back with the message. Reading
//! is lenient about what providers do differently (missing ids, arguments as an object, content in parts) and
//! strict about what would change the meaning.

mod calls;
mod learned;
mod message;
mod parts;
mod plain;
mod reply;
mod request;
mod server;
mod stream;

use reqwest::header::HeaderMap;

pub(crate) use learned::LearnedForms;
pub(crate) use message::{ChatContent, ChatMessage, WireCall, chat_messages};
pub(crate) use reply::read_body;
use reply::{read_answer, signed};
pub(crate) use request::{ChatRequest, SamplingOptions};
pub(crate) use server::ChatServer;
#[cfg(all(test, feature = "serve"))]
pub(crate) use server::known_hosts;
use stream::ChatParts;

use super::extras::{foreign_note, has_foreign, has_signed, signed_note};
use super::{StreamDecoder, WireFormat};
use crate::engine::{Failure, ModelReply};
use crate::host::port::ModelRequest;
use crate::session::Message;

/// The format, for one model.
#[derive(Clone, Debug)]
pub(crate) struct ChatFormat {
    /// The model's name on the server.
    pub(crate) model: String,
    /// The model and its server: nobody else takes what it signed.
    pub(crate) issuer: String,
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
            &self.issuer,
        ))
    }

    fn read(
        &self,
        body: &[u8],
        headers: &HeaderMap,
        conversation: &[Message],
    ) -> Result<ModelReply, Failure> {
        let reply = read_answer(body, headers, conversation, self.server.finish_optional)?;
        Ok(signed(reply, &self.issuer))
    }

    fn begin(&self) -> Box<dyn StreamDecoder> {
        Box::new(ChatParts::of(self.server.finish_optional, &self.issuer))
    }

    fn takes_documents(&self) -> bool {
        self.server.documents
    }

    fn left_out(&self, conversation: &[Message]) -> Vec<String> {
        if has_foreign(conversation, None, &self.issuer) {
            vec![foreign_note(&self.model)]
        } else if has_signed(conversation, &self.issuer) {
            vec![signed_note(&self.model)]
        } else {
            Vec::new()
        }
    }

    fn learn(&self, failure: &Failure) -> Option<String> {
        self.learned_forms.learn(failure, &self.model, self.server, |option| self.sampling.sends(option))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::host::model::fuzzed::{chat, request};
    use crate::host::model::sse::SseEvent;

    #[test]
    fn reasoning_among_the_parts_goes_back_to_itself_alone() {
        let sealed = json!({"type": "reasoning", "summary": [
            {"type": "summary_text", "text": "hm so", "signature": "c2ln"}]});
        let thought = json!({"type": "thinking", "thinking": [{"type": "text", "text": "hm so"}]});
        let pieces = |kind: &str| match kind {
            "reasoning" => [
                json!({"type": kind, "summary": [{"type": "summary_text", "text": "hm ", "signature": ""}]}),
                json!({"type": kind, "summary": [{"type": "summary_text", "text": "so", "signature": "c2ln"}]}),
            ],
            _ => {
                ["hm ", "so"].map(|text| json!({"type": kind, "thinking": [{"type": "text", "text": text}]}))
            }
        };
        for part in [sealed, thought] {
            let content = json!([part, {"type": "text", "text": "Yes."}]);
            let whole = json!({"choices": [{"message": {"content": content}, "finish_reason": "stop"}]});
            let mut stream = chat().begin();
            for piece in pieces(part["type"].as_str().unwrap())
                .into_iter()
                .map(|piece| json!([piece]))
                .chain([json!("Yes.")])
            {
                let choice = json!({"choices": [{"index": 0, "delta": {"content": piece}}]});
                let event = SseEvent { name: String::new(), data: choice.to_string() };
                stream.take(&event, &HeaderMap::new()).unwrap();
            }
            assert_eq!(stream.tally().received, 9);
            let end = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}).to_string();
            stream.take(&SseEvent { name: String::new(), data: end }, &HeaderMap::new()).unwrap();
            for reply in
                [chat().read(whole.to_string().as_bytes(), &HeaderMap::new(), &[]), stream.reply(&[])]
            {
                let ModelReply { text, extra, .. } = reply.unwrap();
                assert_eq!(text, "Yes.");
                let messages = [Message::user("go"), Message::Assistant { text, calls: Vec::new(), extra }];
                let sent = |format: &ChatFormat| -> Value {
                    serde_json::from_slice(&format.write(&request(&messages)).unwrap()).unwrap()
                };
                assert_eq!(sent(&chat())["messages"][1]["content"], content);
                let other = ChatFormat { issuer: "elsewhere main".into(), ..chat() };
                assert_eq!(sent(&other)["messages"][1], json!({"role": "assistant", "content": "Yes."}));
            }
            let alone = json!({"choices": [{"message": {"content": [part]}, "finish_reason": "stop"}]});
            let reply = chat().read(alone.to_string().as_bytes(), &HeaderMap::new(), &[]).unwrap();
            assert!(reply.text.is_empty() && reply.has_reasoning());
        }
    }

    #[test]
    fn what_a_model_signed_goes_back_to_itself_alone() {
        let message = json!({
            "content": "", "reasoning_content": "hm", "reasoning_details": [{"signature": "c2ln"}],
            "tool_calls": [{"id": "a", "function": {"name": "look", "arguments": "{}"},
                "extra_content": {"google": {"thought_signature": "c2ln"}}}],
        });
        let body = json!({"choices": [{"message": message, "finish_reason": "tool_calls"}]}).to_string();
        let event = |delta: &Value, end: Value| SseEvent {
            name: String::new(),
            data: json!({"choices": [{"index": 0, "delta": delta, "finish_reason": end}]}).to_string(),
        };
        let mut stream = chat().begin();
        stream.take(&event(&message, Value::Null), &HeaderMap::new()).unwrap();
        stream.take(&event(&json!({}), "tool_calls".into()), &HeaderMap::new()).unwrap();
        for reply in [chat().read(body.as_bytes(), &HeaderMap::new(), &[]), stream.reply(&[])] {
            let ModelReply { text, calls, extra, .. } = reply.unwrap();
            let calls = calls.into_iter().map(|proposal| proposal.call).collect();
            let messages = [Message::user("go"), Message::Assistant { text, calls, extra }];
            let sent = |format: &ChatFormat| -> Value {
                serde_json::from_slice(&format.write(&request(&messages)).unwrap()).unwrap()
            };
            let own = &sent(&chat())["messages"][1];
            assert_eq!(own["reasoning_details"], message["reasoning_details"]);
            assert_eq!(own["tool_calls"][0]["extra_content"], message["tool_calls"][0]["extra_content"]);
            assert_eq!(chat().left_out(&messages), Vec::<String>::new());
            let other = ChatFormat { issuer: "elsewhere main".into(), ..chat() };
            let foreign = sent(&other)["messages"][1].to_string();
            assert!(
                !foreign.contains("c2ln") && foreign.contains("\"reasoning_content\":\"hm\""),
                "{foreign}"
            );
            assert!(!own.to_string().contains("reasoning_issuer") && !foreign.contains("reasoning_issuer"));
            let note = "`main` is not sent what other models signed in earlier replies";
            assert_eq!(other.left_out(&messages), [note]);
        }
    }
}
