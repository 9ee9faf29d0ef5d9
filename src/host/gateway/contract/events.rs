//! The events of an answer with what was repaired in the place of what the model wrote.
//!
//! What a model writes comes in pieces: the first one gets all of it, the others are empty. Events that say it whole get the same. All
//! other events stay as they are, byte for byte.

use bytes::Bytes;
use serde_json::Value;

use super::rewritten::is_of_type;
use super::spliced::spliced;
use crate::engine::ModelReply;
use crate::host::model::front::GatewayDialect;

/// What stands before what an event says.
const DATA: &str = "data:";

/// A line of a stream.
struct StreamLine<'s> {
    bytes: &'s [u8],
    /// What its event says, if it is one of JSON.
    said: Option<Value>,
    is_changed: bool,
}

/// A place in an event that has something of the reply.
struct ReplyPlace {
    line: usize,
    pointer: String,
    of: PlaceOf,
    kind: PlaceKind,
}

/// What a place has something of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PlaceOf {
    Text,
    /// The call that the dialect gives this number.
    Call(u64),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum PlaceKind {
    /// A piece of the text, or of the arguments.
    Piece,
    /// All of it, as text.
    Whole,
    /// Arguments as an object.
    Object,
    Name,
}

/// The stream with the calls and the text of `now` in the place of those that were `said`; `None`: not all of it is there, or something
/// else would be lost.
pub(super) fn rewritten(
    dialect: GatewayDialect,
    stream: &[u8],
    said: &ModelReply,
    now: &ModelReply,
) -> Option<Bytes> {
    let mut lines: Vec<StreamLine<'_>> = stream.split_inclusive(|byte| *byte == b'\n').map(read).collect();
    let mut places = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        if let Some(said) = &line.said {
            let mut found = PlaceFinder { line: at, places: &mut places };
            match dialect {
                GatewayDialect::Chat => found.chat(said)?,
                GatewayDialect::Messages => found.messages(said)?,
                GatewayDialect::Responses => found.responses(said)?,
                GatewayDialect::Gemini => found.gemini(said)?,
            }
        }
    }
    let mut calls: Vec<PlaceOf> = Vec::new();
    for place in places.iter().filter(|place| place.of != PlaceOf::Text) {
        if !calls.contains(&place.of) {
            calls.push(place.of);
        }
    }
    if said.calls != now.calls {
        if [said.calls.len(), now.calls.len()] != [calls.len(); 2] {
            return None;
        }
        for ((of, said), now) in calls.into_iter().zip(&said.calls).zip(&now.calls) {
            let (said, now) = (&said.call, &now.call);
            let places: Vec<&ReplyPlace> = places.iter().filter(|place| place.of == of).collect();
            if said.name != now.name {
                let names = places.iter().filter(|place| place.kind == PlaceKind::Name);
                put(&mut lines, names.copied(), &said.name, &now.name)?;
            }
            if said.arguments != now.arguments {
                let arguments = places.iter().filter(|place| place.kind != PlaceKind::Name);
                put(&mut lines, arguments.copied(), &said.arguments, &now.arguments)?;
            }
        }
    }
    if said.text != now.text {
        put(&mut lines, places.iter().filter(|place| place.of == PlaceOf::Text), &said.text, &now.text)?;
    }
    written(&lines)
}

/// Reads a line. What is no event of JSON is passed on as it is.
fn read(bytes: &[u8]) -> StreamLine<'_> {
    let data = bytes.strip_prefix(DATA.as_bytes()).and_then(|data| core::str::from_utf8(data).ok());
    StreamLine { bytes, said: data.and_then(|data| serde_json::from_str(data).ok()), is_changed: false }
}

/// Puts `now` in the place of `said`, if all of it is in these places: what is out already cannot be changed.
fn put<'p>(
    lines: &mut [StreamLine<'_>],
    places: impl Iterator<Item = &'p ReplyPlace>,
    said: &str,
    now: &str,
) -> Option<()> {
    let (mut pieces, mut rest, mut is_whole) = (String::new(), now, false);
    for place in places {
        let line = lines.get_mut(place.line)?;
        let written = line.said.as_mut()?.pointer_mut(&place.pointer)?;
        let before = written.as_str().unwrap_or_default().to_owned();
        *written = match place.kind {
            PlaceKind::Piece => {
                pieces.push_str(&before);
                core::mem::take(&mut rest).into()
            }
            PlaceKind::Object => serde_json::from_str(now).ok()?,
            PlaceKind::Whole | PlaceKind::Name if before == said => now.into(),
            // Items begin empty.
            PlaceKind::Whole if before.is_empty() => continue,
            PlaceKind::Whole | PlaceKind::Name => return None,
        };
        is_whole |= matches!(place.kind, PlaceKind::Object | PlaceKind::Name);
        line.is_changed = true;
    }
    (is_whole || pieces == said).then_some(())
}

/// The lines as bytes.
fn written(lines: &[StreamLine<'_>]) -> Option<Bytes> {
    let mut stream = Vec::new();
    for line in lines {
        match &line.said {
            Some(said) if line.is_changed => {
                let before = core::str::from_utf8(line.bytes).ok()?.strip_prefix(DATA)?;
                stream.extend_from_slice(DATA.as_bytes());
                stream.extend_from_slice(spliced(before, said)?.as_bytes());
            }
            _ => stream.extend_from_slice(line.bytes),
        }
    }
    Some(stream.into())
}

/// Finds the places of an event.
struct PlaceFinder<'p> {
    line: usize,
    places: &'p mut Vec<ReplyPlace>,
}

impl PlaceFinder<'_> {
    /// Adds a place, if there is text in it.
    fn add(&mut self, said: &Value, pointer: String, of: PlaceOf, kind: PlaceKind) {
        if said.pointer(&pointer).is_some_and(|value| value.is_string() || kind == PlaceKind::Object) {
            self.places.push(ReplyPlace { line: self.line, pointer, of, kind });
        }
    }

    fn chat(&mut self, said: &Value) -> Option<()> {
        let choices = said.get("choices").and_then(Value::as_array);
        let [choice] = choices.map(Vec::as_slice).unwrap_or_default() else {
            return choices.is_none_or(Vec::is_empty).then_some(());
        };
        self.add(said, "/choices/0/delta/content".into(), PlaceOf::Text, PlaceKind::Piece);
        let calls = choice.pointer("/delta/tool_calls").and_then(Value::as_array);
        for (at, call) in calls.into_iter().flatten().enumerate() {
            let of = PlaceOf::Call(call.get("index").map_or(Some(0), Value::as_u64)?);
            let function = format!("/choices/0/delta/tool_calls/{at}/function");
            self.add(said, format!("{function}/name"), of, PlaceKind::Name);
            self.add(said, format!("{function}/arguments"), of, PlaceKind::Piece);
        }
        Some(())
    }

    fn messages(&mut self, said: &Value) -> Option<()> {
        let index = said.get("index").and_then(Value::as_u64);
        if let Some(block) = said.get("content_block").filter(|block| is_of_type(block, "tool_use")) {
            // One whose input comes at once has no pieces.
            let is_empty =
                block.get("input").and_then(Value::as_object).is_none_or(serde_json::Map::is_empty);
            is_empty.then_some(())?;
            self.add(said, "/content_block/name".into(), PlaceOf::Call(index?), PlaceKind::Name);
        }
        if let Some(of) = index.map(PlaceOf::Call)
            && said.pointer("/delta/partial_json").is_some()
        {
            // Tools of the provider stream their input in the same way.
            if self.places.iter().any(|place| place.of == of) {
                self.add(said, "/delta/partial_json".into(), of, PlaceKind::Piece);
            }
        }
        if said.get("delta").is_some_and(|delta| is_of_type(delta, "text_delta")) {
            self.add(said, "/delta/text".into(), PlaceOf::Text, PlaceKind::Piece);
        }
        Some(())
    }

    fn responses(&mut self, said: &Value) -> Option<()> {
        let index = said.get("output_index").and_then(Value::as_u64);
        match said.get("type").and_then(Value::as_str).unwrap_or_default() {
            "response.output_item.added" | "response.output_item.done" => {
                self.item(said, said.get("item")?, "/item", index?);
            }
            "response.function_call_arguments.delta" => {
                self.add(said, "/delta".into(), PlaceOf::Call(index?), PlaceKind::Piece);
            }
            "response.function_call_arguments.done" => {
                self.add(said, "/arguments".into(), PlaceOf::Call(index?), PlaceKind::Whole);
            }
            "response.output_text.delta" => self.add(said, "/delta".into(), PlaceOf::Text, PlaceKind::Piece),
            "response.output_text.done" => self.add(said, "/text".into(), PlaceOf::Text, PlaceKind::Whole),
            "response.content_part.added" | "response.content_part.done" => {
                self.add(said, "/part/text".into(), PlaceOf::Text, PlaceKind::Whole);
            }
            "response.completed" | "response.incomplete" => {
                let items = said.pointer("/response/output").and_then(Value::as_array);
                for (at, item) in items.into_iter().flatten().enumerate() {
                    self.item(said, item, &format!("/response/output/{at}"), u64::try_from(at).ok()?);
                }
            }
            _ => {}
        }
        Some(())
    }

    fn item(&mut self, said: &Value, item: &Value, pointer: &str, index: u64) {
        if is_of_type(item, "function_call") {
            self.add(said, format!("{pointer}/name"), PlaceOf::Call(index), PlaceKind::Name);
            self.add(said, format!("{pointer}/arguments"), PlaceOf::Call(index), PlaceKind::Whole);
        } else if is_of_type(item, "message") {
            let parts = item.get("content").and_then(Value::as_array).map_or(0, Vec::len);
            for part in 0..parts {
                self.add(said, format!("{pointer}/content/{part}/text"), PlaceOf::Text, PlaceKind::Whole);
            }
        }
    }

    fn gemini(&mut self, said: &Value) -> Option<()> {
        let candidates = said.get("candidates").and_then(Value::as_array);
        if candidates.is_some_and(|all| all.len() > 1) {
            return None;
        }
        let parts = said.pointer("/candidates/0/content/parts").and_then(Value::as_array);
        for (at, part) in parts.into_iter().flatten().enumerate() {
            let pointer = format!("/candidates/0/content/parts/{at}");
            if part.get("functionCall").is_some() {
                // Each call comes in one piece.
                let place = u64::try_from(self.places.len()).ok()?;
                let of = PlaceOf::Call(place);
                self.add(said, format!("{pointer}/functionCall/name"), of, PlaceKind::Name);
                self.add(said, format!("{pointer}/functionCall/args"), of, PlaceKind::Object);
            } else if part.get("thought") != Some(&Value::Bool(true)) {
                self.add(said, format!("{pointer}/text"), PlaceOf::Text, PlaceKind::Piece);
            }
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::session::ToolCall;

    fn reply(text: &str, calls: &[(&str, &str)]) -> ModelReply {
        let call = |(name, arguments): &(&str, &str)| {
            ToolCall { id: "a".into(), name: (*name).into(), arguments: (*arguments).into() }.into()
        };
        ModelReply { text: text.into(), calls: calls.iter().map(call).collect(), ..ModelReply::default() }
    }

    /// Two calls in pieces behind a text, as each dialect streams them.
    fn streams(
        text: [&str; 2],
        first: (&str, [&str; 2]),
        second: (&str, &str),
    ) -> [(GatewayDialect, Vec<Value>); 4] {
        let ((name, [a, b]), (other, whole)) = (first, second);
        let all = format!("{a}{b}");
        let object = |text: &str| serde_json::from_str::<Value>(text).unwrap_or_else(|_| json!({"n": text}));
        let chat = |delta: Value| json!({"id": "i", "t": 0.5, "choices": [{"index": 0, "delta": delta}]});
        let piece = |index: u64, name: Option<&str>, arguments: &str| {
            let mut function = json!({"arguments": arguments});
            if let Some(name) = name {
                function["name"] = name.into();
            }
            chat(json!({"tool_calls": [{"index": index, "function": function}]}))
        };
        let partial = |index: u64, json: &str| json!({"type": "content_block_delta", "index": index, "delta": {"type": "input_json_delta", "partial_json": json}});
        let said = |text: &str| json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}});
        let begins = |index: u64, name: &str| json!({"type": "content_block_start", "index": index, "content_block": {"type": "tool_use", "id": "t", "name": name, "input": {}}});
        let item = |name: &str, arguments: &str| json!({"type": "function_call", "call_id": "c", "name": name, "arguments": arguments});
        let message = json!({"type": "message", "content": [{"type": "output_text", "text": text.concat()}]});
        let delta = |index: u64, more: &str| json!({"type": "response.function_call_arguments.delta", "output_index": index, "delta": more});
        let part = |value: Value| json!({"candidates": [{"content": {"parts": [value]}}]});
        [
            (
                GatewayDialect::Chat,
                vec![
                    chat(json!({"content": text[0]})),
                    chat(json!({"content": text[1]})),
                    piece(0, Some(name), a),
                    piece(1, Some(other), whole),
                    piece(0, None, b),
                    json!({"choices": [], "usage": {"total_tokens": 3}}),
                ],
            ),
            (
                GatewayDialect::Messages,
                vec![
                    said(text[0]),
                    said(text[1]),
                    begins(1, name),
                    partial(1, a),
                    partial(1, b),
                    begins(2, other),
                    partial(2, whole),
                    json!({"type": "message_stop"}),
                ],
            ),
            (
                GatewayDialect::Responses,
                vec![
                    json!({"type": "response.output_text.delta", "output_index": 0, "delta": text[0]}),
                    json!({"type": "response.output_text.delta", "output_index": 0, "delta": text[1]}),
                    json!({"type": "response.output_text.done", "output_index": 0, "text": text.concat()}),
                    json!({"type": "response.output_item.added", "output_index": 1, "item": item(name, "")}),
                    delta(1, a),
                    delta(1, b),
                    json!({"type": "response.function_call_arguments.done", "output_index": 1, "arguments": all}),
                    json!({"type": "response.output_item.done", "output_index": 1, "item": item(name, &all)}),
                    json!({"type": "response.output_item.added", "output_index": 2, "item": item(other, "")}),
                    delta(2, whole),
                    json!({"type": "response.completed", "response": {"output": [message, item(name, &all), item(other, whole)]}}),
                ],
            ),
            (
                GatewayDialect::Gemini,
                vec![
                    part(json!({"text": "hm", "thought": true})),
                    part(json!({"text": text[0]})),
                    part(json!({"text": text[1]})),
                    part(json!({"functionCall": {"name": name, "args": object(&all)}})),
                    part(json!({"functionCall": {"name": other, "args": object(whole)}})),
                ],
            ),
        ]
    }

    fn bytes(events: &[Value]) -> String {
        let written = |event| format!("event: e\r\ndata: {event}\r\n\r\n: still here\n\n");
        events.iter().map(written).collect::<Vec<_>>().concat()
    }

    #[test]
    fn only_what_was_repaired_is_changed_in_every_dialect() {
        let said = reply("{'a': 1}", &[("Look", "{'n':1}"), ("see", "{}")]);
        let now = reply(r#"{"a":1}"#, &[("look", r#"{"n":1}"#), ("see", "{}")]);
        let before = streams(["{'a'", ": 1}"], ("Look", ["{'n'", ":1}"]), ("see", "{}"));
        let after = streams([r#"{"a":1}"#, ""], ("look", [r#"{"n":1}"#, ""]), ("see", "{}"));
        for ((dialect, before), (_, after)) in before.into_iter().zip(after) {
            let stream = rewritten(dialect, bytes(&before).as_bytes(), &said, &now).unwrap();
            assert_eq!(core::str::from_utf8(&stream).unwrap(), bytes(&after), "{dialect:?}");
            // What is out already cannot be changed.
            let cut = bytes(&before[4..]);
            assert_eq!(rewritten(dialect, cut.as_bytes(), &said, &now), None, "{dialect:?}");
        }
    }

    #[test]
    fn no_reader_cuts_an_event_that_was_repaired() {
        let (said, now) =
            (reply("", &[("look", "{'n':'\u{2028}'}")]), reply("", &[("look", "{\"n\":\"\u{2028}\"}")]));
        let event = json!({"choices": [{"delta": {"tool_calls": [{"index": 0, "function": {"name": "look", "arguments": "{'n':'\u{2028}'}"}}]}}]});
        let stream = rewritten(GatewayDialect::Chat, bytes(&[event]).as_bytes(), &said, &now).unwrap();
        let stream = core::str::from_utf8(&stream).unwrap();
        assert!(stream.contains(r#"{\"n\":\"\u2028\"}"#) && !stream.contains('\u{2028}'), "{stream}");
    }

    #[test]
    fn every_byte_of_an_event_stays_but_what_the_model_wrote() {
        let (said, now) = (reply("", &[("look", "{'n':1}")]), reply("", &[("look", r#"{"n":1}"#)]));
        for number in ["0.5", "0.12345678901234567890123", "-1.1920928955078125e-07"] {
            let stream = |arguments: &str| {
                format!(
                    "data:  {{ \"t\":{number},\"choices\":[{{\"delta\":{{\"tool_calls\":[{{\"index\":0,\"function\":{{\"name\":\"look\",\"arguments\":{arguments}}}}}]}}}}]}}\n\ndata: [DONE]\n\n"
                )
            };
            let before = stream("\"{'n':1}\"");
            let after = rewritten(GatewayDialect::Chat, before.as_bytes(), &said, &now).unwrap();
            assert_eq!(after, stream("\"{\\\"n\\\":1}\""));
        }
    }
}
