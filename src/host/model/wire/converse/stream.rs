//! Streamed responses of `ConverseStream`, put together block by block.

use std::collections::BTreeMap;

use aws_smithy_types::base64;
use reqwest::header::HeaderMap;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value, json};

use super::blocks::SERVER_TOOL;
use super::reply::{OF_ANSWER, misshapen, to_reply, unexpected, usage};
use crate::engine::{Failure, ModelReply};
use crate::host::model::failure::unreadable;
use crate::host::model::sse::SseEvent;
use crate::host::model::wire::answer_fields::AnswerFields;
use crate::host::model::wire::kept::{EACH, entries_weight, weight};
use crate::host::model::wire::objects::of_objects;
use crate::host::model::wire::tally::StreamTally;
use crate::host::model::wire::usage::UsageBesideCache;
use crate::host::model::wire::{StreamDecoder, StreamProgress, chars, event, finish, lenient, unread};
use crate::session::Message;

/// One event, whatever it is about. Its padding (`p`) is passed over.
#[derive(Deserialize)]
#[serde(remote = "Self")]
#[serde(rename_all = "camelCase")]
struct ConverseEvent {
    #[serde(default)]
    content_block_index: u64,
    #[serde(default, deserialize_with = "lenient::or_default")]
    start: Map<String, Value>,
    #[serde(default, deserialize_with = "lenient::or_default")]
    delta: Map<String, Value>,
    #[serde(default, deserialize_with = "finish::reason")]
    stop_reason: Option<String>,
    #[serde(default, deserialize_with = "usage")]
    usage: Option<UsageBesideCache>,
}

/// An event with nothing but the fields that every server sends, as nearly all events are: a piece of text, the end of a block, the
/// start of the message. Others may hold an error, and are looked at as JSON first.
#[derive(Deserialize)]
#[serde(remote = "Self")]
#[serde(deny_unknown_fields)]
struct PlainEvent {
    #[serde(default, rename = "contentBlockIndex")]
    index: Option<u64>,
    #[serde(default)]
    delta: Option<PlainText>,
    #[serde(default, rename = "role")]
    _role: IgnoredAny,
    #[serde(default, rename = "p")]
    _padding: IgnoredAny,
}

#[derive(Deserialize)]
#[serde(remote = "Self")]
#[serde(deny_unknown_fields)]
struct PlainText {
    text: String,
}

/// An answer that is being put together.
#[derive(Debug, Default)]
pub(super) struct ReplyBlocks {
    issuer: String,
    begun: BTreeMap<u64, ReplyBlock>,
    stop: Option<String>,
    usage: Option<UsageBesideCache>,
    fields: AnswerFields,
    tally: StreamTally,
    started: bool,
}

/// One block.
#[derive(Debug)]
struct ReplyBlock {
    content: BlockContent,
    open: bool,
}

/// What a block is.
#[derive(Debug)]
enum BlockContent {
    Text {
        text: String,
        citations: Vec<Value>,
    },
    /// A call, whose input comes as pieces of JSON.
    Call {
        fields: Map<String, Value>,
        input: String,
    },
    Reasoning {
        text: String,
        signature: Option<String>,
    },
    /// Reasoning that only its issuer can read.
    Sealed(String),
    /// The result of a call that the server has run, whose content comes in pieces.
    Result {
        fields: Map<String, Value>,
        content: Vec<Value>,
    },
    /// Something else, such as an image: its name, and its fields as far as they have come.
    Other {
        name: String,
        fields: Map<String, Value>,
    },
}

impl StreamDecoder for ReplyBlocks {
    fn take(&mut self, event: &SseEvent, headers: &HeaderMap) -> Result<StreamProgress, Failure> {
        if self.take_plain(event)? {
            self.started = true;
            return Ok(StreamProgress::More);
        }
        let Some(mut value) = event::data(event, headers)? else { return Ok(StreamProgress::More) };
        if matches!(event.name.as_str(), "messageStop" | "metadata") {
            self.tally.kept = self.fields.take(&mut value, &OF_ANSWER, self.tally.kept);
        }
        let read: ConverseEvent = serde_json::from_value(value).map_err(|error| unexpected(&error))?;
        self.started = true;
        let index = read.content_block_index;
        match event.name.as_str() {
            "contentBlockStart" => self.begin(index, read.start)?,
            "contentBlockDelta" => {
                if let Some((kind, delta)) = read.delta.into_iter().next() {
                    self.add(index, &kind, &delta)?;
                }
            }
            // A block of which nothing came is none.
            "contentBlockStop" => self.end(index),
            "messageStop" => {
                let said = read.stop_reason.filter(|said| finish::replaces(said, self.stop.as_deref()));
                self.stop = said.or(self.stop.take());
            }
            // The tokens follow the end.
            "metadata" => {
                if let Some(later) = read.usage {
                    self.usage = Some(self.usage.unwrap_or_default().then(later));
                }
                if self.stop.is_some() {
                    return Ok(StreamProgress::Done);
                }
            }
            _ => {}
        }
        Ok(StreamProgress::More)
    }

    fn tally(&self) -> &StreamTally {
        &self.tally
    }

    fn tally_mut(&mut self) -> &mut StreamTally {
        &mut self.tally
    }

    fn is_whole(&self) -> bool {
        self.stop.is_some() && !self.begun.values().any(|block| block.open)
    }

    fn reply(self: Box<Self>, conversation: &[Message]) -> Result<ModelReply, Failure> {
        if !self.is_whole() {
            return Err(unread::ended_early(self.started));
        }
        let blocks = self.begun.into_values().map(|block| block.content.whole()).collect();
        to_reply(blocks, self.stop, self.usage, self.fields, (conversation, &self.issuer))
    }
}

impl ReplyBlocks {
    /// An answer of that issuer.
    pub(super) fn of(issuer: &str) -> Self {
        Self { issuer: issuer.to_owned(), ..Self::default() }
    }

    /// Takes an event that is plain. `false`: it is not.
    fn take_plain(&mut self, event: &SseEvent) -> Result<bool, Failure> {
        let name = event.name.as_str();
        if !matches!(name, "messageStart" | "contentBlockDelta" | "contentBlockStop") {
            return Ok(false);
        }
        let Ok(PlainEvent { index, delta, .. }) = serde_json::from_str(&event.data) else { return Ok(false) };
        match (name, index, delta) {
            ("messageStart", None, None) => {}
            ("contentBlockDelta", Some(index), Some(PlainText { text })) => {
                self.add(index, "text", &Value::String(text))?;
            }
            ("contentBlockStop", Some(index), None) => self.end(index),
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn end(&mut self, index: u64) {
        if let Some(block) = self.begun.get_mut(&index) {
            block.open = false;
        }
    }

    fn begin(&mut self, index: u64, start: Map<String, Value>) -> Result<(), Failure> {
        if self.stop.is_some() {
            return Err(unreadable(format!(
                "the stream of the answer begins block {index} after the model has stopped"
            )));
        }
        let content = match start.into_iter().next() {
            Some((kind, fields)) if kind == "toolUse" => {
                let Value::Object(fields) = fields else { return Err(misshapen("a tool call is no object")) };
                let named = fields.get("name").and_then(Value::as_str).map_or(0, chars);
                self.tally.received = self.tally.received.saturating_add(named);
                self.tally.kept += entries_weight(&fields);
                BlockContent::Call { fields, input: String::new() }
            }
            Some((kind, Value::Object(fields))) if kind == "toolResult" => {
                self.tally.kept += entries_weight(&fields);
                BlockContent::Result { fields, content: Vec::new() }
            }
            // Its pieces say which kind of reasoning it is.
            Some((kind, _)) if matches!(kind.as_str(), "text" | "reasoningContent") => return Ok(()),
            Some((name, Value::Object(fields))) => {
                self.tally.kept += entries_weight(&fields);
                BlockContent::Other { name, fields }
            }
            Some((name, _)) => return Err(misshapen(&format!("a block of the kind `{name}` is no object"))),
            // Its first piece says what it is: servers that play this API begin blocks of text so (`bedrock-converse.js` of
            // aimock).
            None => return Ok(()),
        };
        self.tally.kept += EACH;
        match self.begun.insert(index, ReplyBlock { content, open: true }) {
            None => Ok(()),
            Some(_) => Err(unreadable(format!("the stream of the answer begins block {index} twice"))),
        }
    }

    fn add(&mut self, index: u64, kind: &str, delta: &Value) -> Result<(), Failure> {
        if self.stop.is_some() && *delta != "" {
            return Err(unreadable("the stream of the answer continues after the model has stopped"));
        }
        let block = match self.begun.get_mut(&index) {
            Some(block) if !block.open => {
                let what = format!("the stream of the answer continues with block {index}, which has ended");
                return Err(unreadable(what));
            }
            Some(block) => block,
            None => {
                // Text and reasoning begin without saying so.
                let content = BlockContent::begun_by(kind, delta).ok_or_else(|| {
                    let what = "which it has not begun";
                    unreadable(format!("the stream of the answer continues with block {index}, {what}"))
                })?;
                self.tally.kept += EACH;
                self.begun.entry(index).or_insert(ReplyBlock { content, open: true })
            }
        };
        if let (BlockContent::Text { .. }, Some(text)) = (&block.content, delta.as_str()) {
            self.tally.fresh.push_str(text);
        }
        let added = block.content.add(kind, delta);
        let (characters, bytes) = added.ok_or_else(|| {
            misshapen(&format!("a piece of block {index} is of another type, or of another block"))
        })?;
        self.tally.received = self.tally.received.saturating_add(characters);
        self.tally.kept += bytes;
        Ok(())
    }
}

impl BlockContent {
    /// An empty block of the kind that a piece belongs to; `None`: such a one has to be begun.
    fn begun_by(kind: &str, delta: &Value) -> Option<Self> {
        match kind {
            // A text that cites something may begin with what it cites.
            "text" | "citation" => Some(Self::Text { text: String::new(), citations: Vec::new() }),
            "reasoningContent" if delta.get("redactedContent").is_some() => Some(Self::Sealed(String::new())),
            "reasoningContent" => Some(Self::Reasoning { text: String::new(), signature: None }),
            "toolUse" => None,
            name => Some(Self::Other { name: name.to_owned(), fields: Map::new() }),
        }
    }

    /// Adds a piece: how many characters the model has written with it, and how many bytes it takes. `None`: it is of another type, or
    /// of another block: to pass over it would make another reply of it.
    fn add(&mut self, kind: &str, delta: &Value) -> Option<(u64, usize)> {
        let field = |name: &str| match (delta, delta.get(name)) {
            (Value::Object(_), None | Some(Value::Null)) => Some(""),
            (Value::Object(_), Some(field)) => field.as_str(),
            _ => None,
        };
        let (target, piece) = match (self, kind) {
            (Self::Text { text, .. }, "text") => (text, delta.as_str()?),
            (Self::Text { citations, .. }, "citation") => {
                citations.push(delta.clone());
                return Some((0, EACH + weight(delta)));
            }
            (Self::Call { input, .. }, "toolUse") => (input, field("input")?),
            (Self::Reasoning { text, signature }, "reasoningContent") => {
                // It comes in one piece, and two joined ones would be refused.
                let sealed = field("signature")?;
                if !sealed.is_empty() {
                    *signature = Some(sealed.to_owned());
                    return Some((0, sealed.len()));
                }
                (text, field("text")?)
            }
            (Self::Sealed(sealed), "reasoningContent") => {
                let more = field("redactedContent")?;
                *sealed = joined(sealed, more);
                return Some((0, more.len()));
            }
            (Self::Result { content, .. }, "toolResult") => {
                let more = delta.as_array()?;
                for piece in more {
                    join_result(content, piece);
                }
                return Some((0, more.iter().map(weight).sum()));
            }
            (_, "text" | "toolUse" | "reasoningContent") => return None,
            (Self::Other { name, fields }, kind) if name == kind => {
                let Some(more) = delta.as_object() else { return Some((0, 0)) };
                fields.extend(more.iter().map(|(field, value)| (field.clone(), value.clone())));
                return Some((0, entries_weight(more)));
            }
            // What is unknown here.
            _ => return Some((0, 0)),
        };
        target.push_str(piece);
        Some((chars(piece), piece.len()))
    }

    /// The block as it is in an answer that is not streamed; input that is broken stays a text.
    fn whole(self) -> Value {
        match self {
            Self::Text { text, citations } if citations.is_empty() => json!({ "text": text }),
            Self::Text { text, citations } => {
                json!({"citationsContent": {"content": [{"text": text}], "citations": citations}})
            }
            Self::Call { mut fields, input } => {
                let is_of_server = fields.get("type").is_some_and(|kind| kind == SERVER_TOOL);
                let read = if is_of_server { serde_json::from_str(&input).ok() } else { None };
                fields.insert("input".to_owned(), read.unwrap_or(Value::String(input)));
                json!({ "toolUse": fields })
            }
            Self::Reasoning { text, signature } => {
                let mut reasoning = json!({ "text": text });
                if let Some(signature) = signature {
                    reasoning["signature"] = signature.into();
                }
                json!({"reasoningContent": {"reasoningText": reasoning}})
            }
            Self::Sealed(sealed) => json!({"reasoningContent": {"redactedContent": sealed}}),
            Self::Result { mut fields, content } => {
                fields.insert("content".to_owned(), content.into());
                json!({ "toolResult": fields })
            }
            Self::Other { name, fields } => json!({ name: fields }),
        }
    }
}

/// Puts a piece behind what has come of a result: texts grow.
fn join_result(content: &mut Vec<Value>, piece: &Value) {
    let more = piece.get("text").and_then(Value::as_str);
    match (content.last_mut().and_then(|last| last.get_mut("text")), more) {
        (Some(Value::String(text)), Some(more)) => text.push_str(more),
        _ => content.push(piece.clone()),
    }
}

/// The bytes of two pieces, all in base64.
fn joined(first: &str, more: &str) -> String {
    match (base64::decode(first), base64::decode(more)) {
        (Ok(first), Ok(more)) => base64::encode([first, more].concat()),
        // What is no base64 only its issuer understands.
        _ => [first, more].concat(),
    }
}

of_objects!(ConverseEvent, PlainEvent, PlainText);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::FinishReason;
    use crate::policy::ErrorClass;
    use crate::session::{ToolCall, Usage};

    fn taken(events: &[(&str, Value)]) -> Result<ReplyBlocks, Failure> {
        let mut blocks = ReplyBlocks::of("here");
        for (name, data) in events {
            let event = SseEvent { name: (*name).to_owned(), data: data.to_string() };
            blocks.take(&event, &HeaderMap::new())?;
        }
        Ok(blocks)
    }

    fn assemble(events: &[(&str, Value)]) -> Result<ModelReply, Failure> {
        Box::new(taken(events)?).reply(&[])
    }

    fn delta(index: u64, delta: &Value) -> (&'static str, Value) {
        ("contentBlockDelta", json!({"contentBlockIndex": index, "delta": delta, "p": "abcd"}))
    }

    fn stop(index: u64) -> (&'static str, Value) {
        ("contentBlockStop", json!({"contentBlockIndex": index}))
    }

    fn call(index: u64, id: &str) -> (&'static str, Value) {
        let start = json!({"toolUse": {"toolUseId": id, "name": "look"}});
        ("contentBlockStart", json!({"contentBlockIndex": index, "start": start}))
    }

    fn end(reason: &str) -> (&'static str, Value) {
        ("messageStop", json!({"stopReason": reason}))
    }

    fn start() -> (&'static str, Value) {
        ("messageStart", json!({"role": "assistant"}))
    }

    #[test]
    fn blocks_are_put_together_by_index() {
        let usage = json!({"usage": {"inputTokens": 10, "outputTokens": 9, "cacheReadInputTokens": 7}});
        let events = [
            start(),
            delta(0, &json!({"reasoningContent": {"text": "h"}})),
            delta(0, &json!({"reasoningContent": {"text": "m"}})),
            delta(0, &json!({"reasoningContent": {"signature": "c2ln"}})),
            stop(0),
            delta(1, &json!({"text": "Let me "})),
            delta(1, &json!({"text": "look."})),
            stop(1),
            call(2, "a"),
            delta(2, &json!({"toolUse": {"input": "{\"x\""}})),
            delta(2, &json!({"toolUse": {"input": ": 1}"}})),
            stop(2),
            call(3, "b"),
            stop(3),
            ("somethingNew", json!({})),
            end("tool_use"),
            ("metadata", usage),
        ];
        let reply = assemble(&events).unwrap();
        let call = |id: &str, arguments: &str| {
            ToolCall { id: id.into(), name: "look".into(), arguments: arguments.into() }.into()
        };
        assert_eq!(reply.calls, [call("a", r#"{"x": 1}"#), call("b", "{}")]);
        assert_eq!((reply.text.as_str(), reply.finish), ("Let me look.", FinishReason::ToolCalls));
        assert_eq!(reply.usage, Some(Usage { input: 17, output: 9, cache_read: 7, ..Usage::default() }));
        let signed = json!({"reasoningContent": {"reasoningText": {"text": "hm", "signature": "c2ln"}}});
        let items = json!([signed, {"chars": 12}, {"call": "a"}, {"call": "b"}]);
        assert_eq!(
            Value::Object(reply.extra),
            json!({"thinking_bedrock": {"issuer": "here", "items": items}})
        );
    }

    #[test]
    fn a_block_may_begin_with_its_kind_alone() {
        let events = [
            start(),
            ("contentBlockStart", json!({"contentBlockIndex": 0, "start": {"reasoningContent": {}}})),
            delta(0, &json!({"reasoningContent": {"text": "hm"}})),
            stop(0),
            ("contentBlockStart", json!({"contentBlockIndex": 1, "start": {"text": ""}})),
            delta(1, &json!({"text": "Hello"})),
            stop(1),
            end("end_turn"),
        ];
        assert_eq!(assemble(&events).unwrap().text, "Hello");
    }

    #[test]
    fn a_text_may_begin_with_what_it_cites() {
        let cited = json!({"title": "a", "source": "b"});
        let events = [
            start(),
            delta(0, &json!({ "citation": cited })),
            delta(0, &json!({"text": "Hel"})),
            delta(0, &json!({"text": "lo"})),
            stop(0),
            end("end_turn"),
        ];
        let reply = assemble(&events).unwrap();
        assert_eq!(reply.text, "Hello");
        let items = json!([{"chars": 5, "citations": [cited]}]);
        assert_eq!(Value::Object(reply.extra)["thinking_bedrock"]["items"], items);
    }

    #[test]
    fn a_block_of_another_kind_is_kept_and_takes_no_text() {
        let begun = json!({"image": {"format": "png"}});
        let image = [
            start(),
            ("contentBlockStart", json!({"contentBlockIndex": 0, "start": begun})),
            delta(0, &json!({"image": {"source": {"bytes": "AAAA"}}})),
        ];
        let ended = [stop(0), end("end_turn")];
        let reply = assemble(&[&image[..], &ended].concat()).unwrap();
        assert_eq!(reply.text, "[an image]");
        let kept = json!([{"beside": {"image": {"format": "png", "source": {"bytes": "AAAA"}}}}]);
        assert_eq!(Value::Object(reply.extra)["thinking_bedrock"]["items"], kept);
        let text = [delta(0, &json!({"text": "Hello"}))];
        assert!(assemble(&[&image[..], &text, &ended].concat()).is_err());
    }

    #[test]
    fn what_the_server_runs_is_kept_as_it_came_and_is_no_call() {
        let use_ = json!({"toolUseId": "s", "name": "nova_code_interpreter", "type": "server_tool_use"});
        let result = json!({"toolUseId": "s", "type": "nova_code_interpreter_result", "status": "success"});
        let piece = |text: &str| json!({"toolResult": [{"text": text}]});
        let events = [
            start(),
            ("contentBlockStart", json!({"contentBlockIndex": 0, "start": {"toolUse": use_}})),
            delta(0, &json!({"toolUse": {"input": "{\"x\": 1}"}})),
            stop(0),
            ("contentBlockStart", json!({"contentBlockIndex": 1, "start": {"toolResult": result}})),
            delta(1, &piece("4")),
            delta(1, &piece("2")),
            stop(1),
            delta(2, &json!({"text": "42"})),
            stop(2),
            end("end_turn"),
        ];
        let reply = assemble(&events).unwrap();
        assert_eq!((reply.text.as_str(), reply.calls.len()), ("42", 0));
        let (mut call, mut ran) = (use_, result);
        call["input"] = json!({"x": 1});
        ran["content"] = json!([{"text": "42"}]);
        let items = json!([{"toolUse": call}, {"toolResult": ran}, {"chars": 2}]);
        assert_eq!(reply.extra["thinking_bedrock"]["items"], items);
    }

    #[test]
    fn a_block_that_begins_without_a_kind_is_what_its_first_piece_is() {
        let begins = |index: u64| ("contentBlockStart", json!({"contentBlockIndex": index, "start": {}}));
        let reasoning = json!({"reasoningContent": {"text": "hm"}});
        let events = [
            start(),
            begins(0),
            delta(0, &reasoning),
            stop(0),
            begins(1),
            delta(1, &json!({"text": "Hi."})),
            stop(1),
            begins(2),
            stop(2),
            end("end_turn"),
        ];
        assert_eq!(assemble(&events).unwrap().text, "Hi.");
        let cut = assemble(&[start(), begins(0), delta(0, &json!({"text": "H"})), end("end_turn")]);
        assert_eq!(cut.unwrap_err().message, "the stream of the answer ends in the middle");
    }

    #[test]
    fn the_tokens_end_the_stream_and_the_reason_to_stop_does_not() {
        let mut blocks =
            taken(&[start(), delta(0, &json!({"text": "añb"})), stop(0), end("end_turn")]).unwrap();
        assert!(blocks.is_whole());
        assert_eq!((blocks.tally().received, blocks.tally().fresh.as_str()), (3, "añb"));
        let metadata = SseEvent { name: "metadata".into(), data: "{}".into() };
        assert_eq!(blocks.take(&metadata, &HeaderMap::new()).unwrap(), StreamProgress::Done);
    }

    #[test]
    fn a_stream_that_stops_too_early_is_no_answer() {
        let text = delta(0, &json!({"text": "x"}));
        for (events, says) in [
            (vec![], "the stream of the answer ends before it has begun"),
            (vec![start()], "the stream of the answer ends in the middle"),
            (vec![start(), text.clone(), stop(0)], "the stream of the answer ends in the middle"),
            (
                vec![start(), text.clone(), stop(0), end("none")],
                "the stream of the answer ends in the middle",
            ),
            // Reasons to stop do not close a block.
            (vec![start(), call(0, "a"), end("tool_use")], "the stream of the answer ends in the middle"),
            (
                vec![start(), text.clone(), stop(0), ("metadata", json!({}))],
                "the stream of the answer ends in the middle",
            ),
        ] {
            let failure = assemble(&events).unwrap_err();
            let found = (failure.class, failure.message.as_str());
            assert_eq!(found, (Some(ErrorClass::NetworkError), says), "{events:?}");
        }
        assert_eq!(assemble(&[start(), text, stop(0), end("end_turn")]).unwrap().text, "x");
    }

    #[test]
    fn a_stream_that_cannot_be_read_is_no_answer() {
        let input = delta(3, &json!({"toolUse": {"input": "{}"}}));
        let text = delta(0, &json!({"text": "x"}));
        for (events, says) in [
            (vec![start(), input], "the stream of the answer continues with block 3, which it has not begun"),
            (
                vec![text.clone(), stop(0), text],
                "the stream of the answer continues with block 0, which has ended",
            ),
            (vec![call(0, "a"), call(0, "b")], "the stream of the answer begins block 0 twice"),
            (
                vec![call(0, "a"), stop(0), end("tool_use"), call(1, "b")],
                "the stream of the answer begins block 1 after the model has stopped",
            ),
            (
                vec![start(), end("end_turn"), delta(0, &json!({"text": "late"}))],
                "the stream of the answer continues after the model has stopped",
            ),
            (
                vec![("contentBlockStart", json!({"contentBlockIndex": 0, "start": {"toolUse": "x"}}))],
                "the answer is not a message: a tool call is no object",
            ),
        ] {
            let failure = assemble(&events).unwrap_err();
            assert_eq!((failure.class, failure.message.as_str()), (Some(ErrorClass::ModelError), says));
        }
    }

    #[test]
    fn a_piece_of_another_type_or_block_is_no_answer() {
        let says = "the answer is not a message: a piece of block 0 is of another type, or of another block";
        for (first, wrong) in [
            (delta(0, &json!({"text": "Hi"})), json!({"text": 5})),
            (delta(0, &json!({"text": "Hi"})), json!({"toolUse": {"input": "{}"}})),
            (call(0, "a"), json!({"toolUse": {"input": {"x": 1}}})),
            (call(0, "a"), json!({"toolUse": "{}"})),
            (call(0, "a"), json!({"text": "Hi"})),
            (
                delta(0, &json!({"reasoningContent": {"text": "hm"}})),
                json!({"reasoningContent": {"signature": 5}}),
            ),
        ] {
            let failure =
                assemble(&[start(), first, delta(0, &wrong), stop(0), end("end_turn")]).unwrap_err();
            assert_eq!(
                (failure.class, failure.message.as_str()),
                (Some(ErrorClass::ModelError), says),
                "{wrong}"
            );
        }
    }

    #[test]
    fn sealed_reasoning_may_come_in_pieces() {
        // "a" and "bcd": each piece is base64 of its own.
        let sealed = |piece: &str| delta(0, &json!({"reasoningContent": {"redactedContent": piece}}));
        let text = delta(1, &json!({"text": "Hi"}));
        let events = [start(), sealed("YQ=="), sealed("YmNk"), stop(0), text, stop(1), end("end_turn")];
        let kept = &assemble(&events).unwrap().extra["thinking_bedrock"]["items"][0];
        assert_eq!(kept, &json!({"reasoningContent": {"redactedContent": "YWJjZA=="}}));
    }
}
