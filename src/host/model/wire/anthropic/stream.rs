//! Streamed responses of the messages format, put together block by block.

use std::collections::HashMap;

use reqwest::header::HeaderMap;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value};

use super::reply::{take_rest, to_reply, unexpected, usage, without_reason};
use super::streamed::{StreamedBlock, is_blank};
use crate::engine::{Failure, ModelReply};
use crate::host::model::failure;
use crate::host::model::sse::SseEvent;
use crate::host::model::wire::answer_fields::AnswerFields;
use crate::host::model::wire::finish::{self, is_said};
use crate::host::model::wire::kept::{EACH, entries_weight};
use crate::host::model::wire::objects::of_objects;
use crate::host::model::wire::tally::StreamTally;
use crate::host::model::wire::usage::UsageBesideCache;
use crate::host::model::wire::{StreamDecoder, StreamProgress, chars, event, lenient, unread};
use crate::session::Message;

/// One event, whatever it is about.
#[derive(Deserialize)]
#[serde(remote = "Self")]
struct MessagesEvent {
    #[serde(default, rename = "type")]
    kind: Option<String>,
    #[serde(default, deserialize_with = "lenient::number")]
    index: Option<u64>,
    #[serde(default, deserialize_with = "lenient::or_default")]
    message: MessageStart,
    #[serde(default)]
    content_block: Option<Map<String, Value>>,
    #[serde(default, deserialize_with = "lenient::or_default")]
    delta: Map<String, Value>,
    #[serde(default, deserialize_with = "usage")]
    usage: Option<UsageBesideCache>,
}

/// A piece of a block with nothing but the fields that every server sends, as nearly all events are. Others may hold an error,
/// and are looked at as JSON first.
#[derive(Deserialize)]
#[serde(remote = "Self")]
#[serde(deny_unknown_fields)]
struct PlainPiece {
    #[serde(rename = "type")]
    _kind: PieceKind,
    index: u64,
    delta: PlainDelta,
}

#[derive(Deserialize)]
enum PieceKind {
    #[serde(rename = "content_block_delta")]
    Delta,
}

#[derive(Deserialize)]
#[serde(remote = "Self")]
#[serde(deny_unknown_fields)]
struct PlainDelta {
    #[serde(default, rename = "type")]
    _kind: IgnoredAny,
    #[serde(default)]
    text: Option<String>,
    #[serde(default)]
    thinking: Option<String>,
    #[serde(default)]
    partial_json: Option<String>,
}

impl PlainDelta {
    /// What is said, and in which field.
    fn said(self) -> impl Iterator<Item = (&'static str, Value)> {
        let fields = [("text", self.text), ("thinking", self.thinking), ("partial_json", self.partial_json)];
        fields.into_iter().filter_map(|(field, said)| Some((field, Value::String(said?))))
    }
}

/// The message as it begins. What code of the server's has called is in it from the beginning, and so is why it stopped.
#[derive(Default, Deserialize)]
#[serde(remote = "Self")]
struct MessageStart {
    #[serde(default, deserialize_with = "lenient::or_default")]
    content: Vec<Map<String, Value>>,
    #[serde(default, deserialize_with = "finish::reason")]
    stop_reason: Option<String>,
    #[serde(default, deserialize_with = "usage")]
    usage: Option<UsageBesideCache>,
}

/// An answer that is being put together.
#[derive(Debug, Default)]
pub(crate) struct ReplyBlocks {
    issuer: String,
    pauses: bool,
    begun: Vec<StreamedBlock>,
    /// Where the block with that `index` is.
    places: HashMap<u64, usize>,
    stop: Option<String>,
    /// Why it had stopped as it began.
    first_stop: Option<String>,
    usage: Option<UsageBesideCache>,
    fields: AnswerFields,
    tally: StreamTally,
    started: bool,
    done: bool,
}

impl StreamDecoder for ReplyBlocks {
    fn take(&mut self, event: &SseEvent, headers: &HeaderMap) -> Result<StreamProgress, Failure> {
        // It ends the stream; whether the answer is whole, its own events tell.
        if event.data.trim() == event::DONE {
            return Ok(StreamProgress::Done);
        }
        if event.name != "error"
            && let Ok(PlainPiece { index, delta, .. }) = serde_json::from_str(&event.data)
        {
            self.add(Some(index), delta.said())?;
            return Ok(StreamProgress::More);
        }
        let Some(mut value) = event::data(event, headers)? else { return Ok(StreamProgress::More) };
        self.tally.kept = take_rest(&mut value, &event.name, &mut self.fields, self.tally.kept);
        let read: MessagesEvent = serde_json::from_value(value).map_err(|error| unexpected(&error))?;
        match read.kind.as_deref().unwrap_or(&event.name) {
            "message_start" => {
                self.started = true;
                self.count(read.message.usage);
                self.first_stop = read.message.stop_reason.filter(|_| !read.message.content.is_empty());
                for block in read.message.content.into_iter().filter(|block| !is_blank(block)) {
                    let text = block.get("text").and_then(Value::as_str).unwrap_or_default();
                    self.tally.fresh.push_str(text);
                    self.begin(None, Some(block))?;
                    self.begun.iter_mut().for_each(|block| block.open = false);
                }
            }
            "content_block_start" => self.begin(read.index, read.content_block)?,
            "content_block_delta" => self.add(read.index, read.delta.into_iter())?,
            "content_block_stop" => block(&mut self.begun, &self.places, read.index)?.open = false,
            "message_delta" => {
                // Counts in `message_delta` are cumulative, so the last one holds.
                self.count(read.usage);
                let stop = read.delta.get("stop_reason").and_then(Value::as_str);
                let stop = stop.filter(|stop| is_said(stop) && finish::replaces(stop, self.stop.as_deref()));
                self.stop = stop.map(str::to_owned).or(self.stop.take());
            }
            "message_stop" => {
                self.done = true;
                self.stop = self.stop.take().or(self.first_stop.take());
                return Ok(StreamProgress::Done);
            }
            // `ping` may come at any time, and new types are to be passed over (Anthropic, "Streaming messages").
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
        // `message_stop` alone proves nothing: a router also writes it behind a stream that broke off.
        self.stop.is_some() && !self.has_open()
    }

    fn reply(self: Box<Self>, conversation: &[Message]) -> Result<ModelReply, Failure> {
        if self.done && !self.started {
            return Err(failure::unreadable("the answer holds no message"));
        }
        let has_said = !self.begun.is_empty() && !self.has_open();
        if self.done && self.stop.is_none() && has_said {
            return Err(without_reason());
        }
        // The SDKs raise nothing where a stream stops early, so half an answer would pass for a whole one.
        if !self.is_whole() {
            return Err(unread::ended_early(self.started));
        }
        let blocks = self.begun.into_iter().map(StreamedBlock::whole).collect();
        to_reply(blocks, self.stop, self.usage, self.fields, (conversation, (&self.issuer, self.pauses)))
    }
}

impl ReplyBlocks {
    /// An answer of that issuer. `pauses`: whether a turn that was paused is continued.
    pub(super) fn of(issuer: &str, pauses: bool) -> Self {
        Self { issuer: issuer.to_owned(), pauses, ..Self::default() }
    }

    fn has_open(&self) -> bool {
        self.begun.iter().any(|block| block.open)
    }

    fn count(&mut self, usage: Option<UsageBesideCache>) {
        if let Some(later) = usage {
            self.usage = Some(self.usage.unwrap_or_default().then(later));
        }
    }

    /// # Errors
    /// It contradicts what came before, or is no block.
    fn begin(&mut self, index: Option<u64>, block: Option<Map<String, Value>>) -> Result<(), Failure> {
        self.started = true;
        // Servers that leave the index out send one block after the other.
        let index = index.unwrap_or_else(|| u64::try_from(self.begun.len()).unwrap_or(u64::MAX));
        let wrong =
            |what| Err(failure::unreadable(format!("the stream of the answer begins block {index} {what}")));
        let has_kind = |fields: &Map<String, Value>| fields.get("type").is_some_and(Value::is_string);
        let Some(fields) = block.filter(has_kind) else { return wrong("without saying what it is") };
        if self.stop.is_some() {
            return wrong("after the model has stopped");
        }
        // Deltas name their block by its index, and a server may leave some out.
        if self.places.insert(index, self.begun.len()).is_some() {
            return wrong("twice");
        }
        self.tally.has_calls |= fields.get("type").is_some_and(|kind| kind == "tool_use");
        let said = ["text", "thinking", "data", "name"].iter().filter_map(|key| fields.get(*key)?.as_str());
        self.tally.received = self.tally.received.saturating_add(said.map(chars).sum());
        self.tally.kept += EACH + entries_weight(&fields);
        self.begun.push(StreamedBlock::of(fields));
        Ok(())
    }

    fn add<K: AsRef<str>>(
        &mut self,
        index: Option<u64>,
        delta: impl Iterator<Item = (K, Value)>,
    ) -> Result<(), Failure> {
        let Self { begun, places, tally, stop, .. } = self;
        let block = block(begun, places, index)?;
        let has_ended = stop.is_some() || !block.open;
        let mut grown = 0;
        for (field, value) in delta {
            // Compatible servers send empty pieces behind the end.
            if field.as_ref() == "type" || value.is_null() || (has_ended && value == "") {
                continue;
            }
            if has_ended {
                let what = "the stream of the answer continues with a block that has ended";
                return Err(failure::unreadable(what));
            }
            if let ("text", Some(text)) = (field.as_ref(), value.as_str()) {
                tally.fresh.push_str(text);
            }
            grown = block.add(field.as_ref(), value, &mut tally.kept)?.unwrap_or(grown);
        }
        tally.received = tally.received.saturating_add(grown);
        Ok(())
    }
}

/// The block with that `index`; without one, the last.
fn block<'b>(
    begun: &'b mut [StreamedBlock],
    places: &HashMap<u64, usize>,
    index: Option<u64>,
) -> Result<&'b mut StreamedBlock, Failure> {
    let at = match index {
        Some(index) => places.get(&index).copied(),
        None => begun.len().checked_sub(1),
    };
    at.and_then(|at| begun.get_mut(at)).ok_or_else(|| {
        let index = index.unwrap_or_default();
        failure::unreadable(format!(
            "the stream of the answer continues with block {index}, which it has not begun"
        ))
    })
}

of_objects!(MessagesEvent, PlainPiece, PlainDelta, MessageStart);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::FinishReason;
    use crate::policy::ErrorClass;
    use crate::session::{ToolCall, Usage};
    use serde_json::json;

    fn taken(events: &[Value]) -> Result<ReplyBlocks, Failure> {
        let mut blocks = ReplyBlocks::of("here", false);
        for data in events {
            let name = data["type"].as_str().unwrap_or_default().to_owned();
            blocks.take(&SseEvent { name, data: data.to_string() }, &HeaderMap::new())?;
        }
        Ok(blocks)
    }

    fn assemble(events: &[Value]) -> Result<ModelReply, Failure> {
        Box::new(taken(events)?).reply(&[])
    }

    fn start() -> Value {
        let usage = json!({"input_tokens": 10, "cache_read_input_tokens": 7, "output_tokens": 1});
        json!({"type": "message_start", "message": {"id": "msg_1", "content": [], "usage": usage}})
    }

    fn begin(index: u64, block: &Value) -> Value {
        json!({"type": "content_block_start", "index": index, "content_block": block})
    }

    fn delta(index: u64, kind: &str, field: &str, text: &str) -> Value {
        json!({"type": "content_block_delta", "index": index, "delta": {"type": kind, field: text}})
    }

    fn stop(index: u64) -> Value {
        json!({"type": "content_block_stop", "index": index})
    }

    fn end(reason: &str) -> Value {
        json!({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 9}})
    }

    fn call(index: u64, id: &str) -> Value {
        begin(index, &json!({"type": "tool_use", "id": id, "name": "look", "input": {}}))
    }

    #[test]
    fn a_message_may_begin_with_blocks_that_are_whole() {
        let call = json!({"type": "tool_use", "id": "a", "name": "look", "input": {"x": 1}});
        let begun = |stop: Value| {
            let message = json!({"content": [{"type": "text", "text": "So:"}, call], "stop_reason": stop});
            json!({"type": "message_start", "message": message})
        };
        let stopped = json!({"type": "message_stop"});
        let reply = assemble(&[begun(json!("tool_use")), stopped.clone()]).unwrap();
        assert_eq!(
            (reply.text.as_str(), reply.calls.len(), reply.finish),
            ("So:", 1, FinishReason::ToolCalls)
        );
        assert!(assemble(&[begun(json!("tool_use"))]).is_err(), "it has not ended");
        assert!(assemble(&[begun(Value::Null), stopped.clone()]).is_err(), "it does not say why");
        let blank = json!({"type": "message_start", "message": {"content": [{"type": "text", "text": ""}]}});
        let again =
            [begin(0, &json!({"type": "text", "text": ""})), delta(0, "text_delta", "text", "a"), stop(0)];
        assert_eq!(assemble(&[&[blank][..], &again, &[end("end_turn")]].concat()).unwrap().text, "a");
        let more =
            [begin(2, &json!({"type": "text", "text": ""})), delta(2, "text_delta", "text", " b"), stop(2)];
        let whole = [&[begun(Value::Null)][..], &more, &[end("tool_use"), stopped]].concat();
        assert_eq!(assemble(&whole).unwrap().text, "So: b");
    }

    #[test]
    fn blocks_are_put_together_by_index() {
        let reply = assemble(&[
            start(),
            begin(0, &json!({"type": "thinking", "thinking": "", "signature": ""})),
            json!({"type": "ping"}),
            delta(0, "thinking_delta", "thinking", "h"),
            delta(0, "thinking_delta", "thinking", "m"),
            delta(0, "signature_delta", "signature", "c2ln"),
            stop(0),
            begin(1, &json!({"type": "text", "text": ""})),
            delta(1, "text_delta", "text", "Let me "),
            delta(1, "text_delta", "text", "look."),
            stop(1),
            call(2, "a"),
            call(3, "b"),
            delta(2, "input_json_delta", "partial_json", ""),
            delta(2, "input_json_delta", "partial_json", "{\"x\""),
            delta(2, "input_json_delta", "partial_json", ": 1}"),
            stop(2),
            stop(3),
            json!({"type": "something_new", "index": 9}),
            end("tool_use"),
            json!({"type": "message_stop"}),
        ])
        .unwrap();
        let call = |id: &str, arguments: &str| {
            ToolCall { id: id.into(), name: "look".into(), arguments: arguments.into() }.into()
        };
        assert_eq!(reply.calls, [call("a", r#"{"x": 1}"#), call("b", "{}")]);
        assert_eq!((reply.text.as_str(), reply.finish), ("Let me look.", FinishReason::ToolCalls));
        assert_eq!(reply.usage, Some(Usage { input: 17, output: 9, cache_read: 7, ..Usage::default() }));
        let kept = json!({"thinking_anthropic": {"issuer": "here", "items": [
            {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
            {"type": "text", "chars": 12},
            {"type": "tool_use", "id": "a"},
            {"type": "tool_use", "id": "b"},
        ]}});
        assert_eq!(Value::Object(reply.extra), kept);
    }

    #[test]
    fn a_count_of_nothing_at_the_end_replaces_none() {
        let usage = json!({"input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": 9});
        let mut last = end("end_turn");
        last["usage"] = usage;
        let reply = assemble(&[start(), begin(0, &json!({"type": "text", "text": "x"})), stop(0), last]);
        let expected = Usage { input: 17, output: 9, cache_read: 7, ..Usage::default() };
        assert_eq!(reply.unwrap().usage, Some(expected));
    }

    #[test]
    fn a_summary_of_what_came_before_is_kept_as_it_came() {
        let reply = assemble(&[
            start(),
            begin(0, &json!({"type": "compaction", "content": null})),
            delta(0, "compaction_delta", "content", "So far: "),
            delta(0, "compaction_delta", "content", "all."),
            delta(0, "compaction_delta", "encrypted_content", "c2ln"),
            stop(0),
            end("end_turn"),
        ])
        .unwrap();
        let block = json!({"type": "compaction", "content": "So far: all.", "encrypted_content": "c2ln"});
        assert_eq!(reply.extra["thinking_anthropic"]["items"], json!([block]));
        assert_eq!(reply.text, "");
    }

    #[test]
    fn what_has_come_is_counted_in_characters_and_pings_do_not_count() {
        let mut events = vec![start(), json!({"type": "ping"})];
        assert_eq!(taken(&events).unwrap().tally().received, 0);
        events
            .extend([begin(0, &json!({"type": "text", "text": ""})), delta(0, "text_delta", "text", "añb")]);
        assert_eq!(taken(&events).unwrap().tally().received, 3);
        events.extend([stop(0), call(1, "a"), delta(1, "input_json_delta", "partial_json", "{}")]);
        assert_eq!(taken(&events).unwrap().tally().received, 9);
    }

    #[test]
    fn a_stream_that_stops_too_early_is_no_answer() {
        let text = begin(0, &json!({"type": "text", "text": "x"}));
        let open_call = [start(), call(0, "a"), delta(0, "input_json_delta", "partial_json", "{}")];
        let table: &[(Vec<Value>, &str)] = &[
            (vec![], "the stream of the answer ends before it has begun"),
            (vec![start()], "the stream of the answer ends in the middle"),
            (vec![start(), text.clone(), stop(0)], "the stream of the answer ends in the middle"),
            (vec![start(), json!({"type": "message_stop"})], "the stream of the answer ends in the middle"),
            (vec![start(), end("")], "the stream of the answer ends in the middle"),
            (
                vec![start(), text.clone(), stop(0), end("None")],
                "the stream of the answer ends in the middle",
            ),
            // Reasons to stop do not close a block.
            ([&open_call[..], &[end("tool_use")]].concat(), "the stream of the answer ends in the middle"),
            (
                [&open_call[..], &[json!({"type": "message_stop"})]].concat(),
                "the stream of the answer ends in the middle",
            ),
        ];
        for (events, says) in table {
            let failure = assemble(events).unwrap_err();
            let found = (failure.class, failure.message.as_str());
            assert_eq!(found, (Some(ErrorClass::NetworkError), *says), "{events:?}");
        }
        // Its last event does not say why it stops.
        let (ended, unsaid) = (
            json!({"type": "message_stop"}),
            json!({"type": "message_delta", "delta": {"stop_reason": null}}),
        );
        for before in [vec![], vec![unsaid], vec![end("")]] {
            let failure = assemble(
                &[&[start(), text.clone(), stop(0)], &*before, core::slice::from_ref(&ended)].concat(),
            )
            .unwrap_err();
            assert_eq!(failure.message, "the answer has no `stop_reason`, so it may be cut", "{before:?}");
        }
        let whole = assemble(&[start(), text, stop(0), end("end_turn")]).unwrap();
        assert_eq!((whole.text.as_str(), whole.finish), ("x", FinishReason::Stop));
    }

    #[test]
    fn a_mark_of_another_format_ends_the_stream_and_makes_no_answer_whole() {
        let text = begin(0, &json!({"type": "text", "text": "x"}));
        let marked = |events: &[Value]| {
            let mut blocks = taken(events).unwrap();
            let mark = SseEvent { name: "data".to_owned(), data: "[DONE]".to_owned() };
            assert_eq!(blocks.take(&mark, &HeaderMap::new()).unwrap(), StreamProgress::Done);
            Box::new(blocks).reply(&[])
        };
        assert_eq!(marked(&[start(), text.clone(), stop(0), end("end_turn")]).unwrap().text, "x");
        let failure = marked(&[start(), text]).unwrap_err();
        assert_eq!(failure.message, "the stream of the answer ends in the middle");
    }

    #[test]
    fn a_stream_that_cannot_be_read_is_no_answer() {
        let unknown = assemble(&[start(), stop(3)]).unwrap_err();
        let says = "the stream of the answer continues with block 3, which it has not begun";
        assert_eq!((unknown.class, unknown.message.as_str()), (Some(ErrorClass::ModelError), says));
        let empty = assemble(&[json!({"type": "message_stop"})]).unwrap_err();
        assert_eq!(empty.message, "the answer holds no message");
    }

    #[test]
    fn what_is_of_another_type_or_contradicts_the_end_is_no_answer() {
        let text = begin(0, &json!({"type": "text", "text": ""}));
        let piece = |index: u64, field: &str, value: Value| json!({"type": "content_block_delta", "index": index, "delta": {"type": "x", field: value}});
        let late = delta(0, "text_delta", "text", "late");
        let table: &[(&[Value], &str)] = &[
            (
                &[call(0, "a"), piece(0, "partial_json", json!({"x": 1}))],
                "`partial_json` of a piece is not a string",
            ),
            (
                &[call(0, "a"), piece(0, "partial_json", json!(5))],
                "`partial_json` of a piece is not a string",
            ),
            (&[text.clone(), piece(0, "text", json!(5))], "`text` of a piece is not a string"),
            (
                &[text.clone(), piece(0, "partial_json", json!("{}"))],
                "a piece of another kind, `partial_json`",
            ),
            (&[call(0, "a"), late.clone()], "a piece of another kind, `text`"),
            (
                &[begin(0, &json!({"type": "text", "text": 5})), stop(0), end("end_turn")],
                "`text` of a block is not a string",
            ),
            (
                &[begin(0, &json!({"type": "tool_use", "id": "a", "name": 5})), stop(0), end("tool_use")],
                "`name` of a block is not a string",
            ),
            (
                &[json!({"type": "content_block_start", "index": 0})],
                "begins block 0 without saying what it is",
            ),
            (&[begin(0, &json!({}))], "begins block 0 without saying what it is"),
            (&[text.clone(), stop(0), text.clone()], "begins block 0 twice"),
            (&[text.clone(), stop(0), late.clone()], "continues with a block that has ended"),
            (&[text.clone(), stop(0), end("end_turn"), late], "continues with a block that has ended"),
            (
                &[text.clone(), stop(0), end("end_turn"), call(1, "a")],
                "begins block 1 after the model has stopped",
            ),
        ];
        for (events, says) in table {
            let failure = assemble(&[&[start()], *events].concat()).unwrap_err();
            assert_eq!(failure.class, Some(ErrorClass::ModelError), "{events:?}");
            assert!(failure.message.ends_with(says), "{}", failure.message);
        }
        let nothing = [
            delta(0, "text_delta", "text", ""),
            json!({"type": "content_block_delta", "index": 0, "delta": null}),
        ];
        let whole = [&[start(), text, stop(0), end("end_turn")], &nothing[..]].concat();
        assert_eq!(assemble(&whole).unwrap().finish, FinishReason::Stop);
    }

    #[test]
    fn blocks_without_an_index_follow_each_other() {
        let without = |mut event: Value| {
            event.as_object_mut().unwrap().remove("index");
            event
        };
        let events = [
            begin(0, &json!({"type": "text", "text": ""})),
            delta(0, "text_delta", "text", "Hi"),
            stop(0),
            call(1, "a"),
            delta(1, "input_json_delta", "partial_json", "{}"),
            stop(1),
        ];
        let events: Vec<Value> = events.into_iter().map(without).collect();
        let reply = assemble(&[&[start()], &events[..], &[end("tool_use")]].concat()).unwrap();
        assert_eq!((reply.text.as_str(), reply.calls.len()), ("Hi", 1));
    }

    #[test]
    fn an_error_in_the_stream_is_left_to_the_table() {
        let error = json!({"type": "error", "error": {
            "details": null, "type": "overloaded_error", "message": "Overloaded",
        }});
        let failure = assemble(&[start(), error]).unwrap_err();
        let found = (failure.class, failure.kind.as_deref(), failure.message.as_str());
        assert_eq!(found, (None, Some("overloaded_error"), "Overloaded"));
    }

    #[test]
    fn broken_input_stays_as_it_came() {
        let broken = [
            start(),
            call(0, "a"),
            delta(0, "input_json_delta", "partial_json", "{\"x\": "),
            stop(0),
            end("max_tokens"),
        ];
        let reply = assemble(&broken).unwrap();
        assert_eq!(
            (reply.calls[0].call.arguments.as_str(), reply.finish),
            ("{\"x\": ", FinishReason::Length)
        );
    }
}
