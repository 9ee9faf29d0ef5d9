//! Streams that are cut, lose, repeat or exchange events, or have values of other types: in every dialect each fault at every place.

use serde_json::{Value, json};

use super::{gemini, messages, read_as, responses};
use crate::engine::{Failure, FinishReason, ModelReply};
use crate::host::model::wire::WireFormat;

/// One event: its name, its data, and the text that is new in it.
type Event = (&'static str, Value, &'static str);
/// How a dialect writes an event.
type Written = fn(&Event) -> Vec<u8>;

/// A dialect, and an answer in it that says "Hello" and calls `look`.
struct Stream {
    name: &'static str,
    format: Box<dyn WireFormat>,
    kind: &'static str,
    written: Written,
    events: Vec<Event>,
    /// Which event says that the answer is whole.
    end: usize,
}

const SSE: &str = "text/event-stream";
const ARGUMENTS: [&str; 3] = ["{\"item\"", ": 42", "}"];

fn sse((name, data, _): &Event) -> Vec<u8> {
    let name = if name.is_empty() { String::new() } else { format!("event: {name}\n") };
    format!("{name}data: {data}\n\n").into_bytes()
}

#[cfg(feature = "bedrock")]
fn frame((name, data, _): &Event) -> Vec<u8> {
    crate::host::model::frames::tests::of_event(name, &data.to_string())
}

fn streams() -> Vec<Stream> {
    let of = |name, format: Box<dyn WireFormat>, events: Vec<Event>, end| Stream {
        name,
        format,
        kind: SSE,
        written: sse,
        events,
        end,
    };
    vec![
        of("chat", Box::new(super::chat()), chat_events(), 6),
        of("messages", Box::new(messages()), messages_events(), 10),
        of("responses", Box::new(responses()), responses_events(), 12),
        of("gemini", Box::new(gemini()), gemini_events(), 3),
        #[cfg(feature = "bedrock")]
        Stream {
            name: "converse",
            format: Box::new(super::converse()),
            kind: "application/vnd.amazon.eventstream",
            written: frame,
            events: converse_events(),
            end: 9,
        },
    ]
}

fn chat_events() -> Vec<Event> {
    let chunk = |delta: Value, end: Value, text| {
        ("", json!({"choices": [{"index": 0, "delta": delta, "finish_reason": end}]}), text)
    };
    let call = |call: Value| chunk(json!({"tool_calls": [call]}), Value::Null, "");
    let more = |piece: &str| call(json!({"index": 0, "function": {"arguments": piece}}));
    vec![
        chunk(json!({"role": "assistant", "content": "Hel"}), Value::Null, "Hel"),
        chunk(json!({"content": "lo"}), Value::Null, "lo"),
        call(
            json!({"index": 0, "id": "a", "type": "function", "function": {"name": "look", "arguments": ""}}),
        ),
        more(ARGUMENTS[0]),
        more(ARGUMENTS[1]),
        more(ARGUMENTS[2]),
        chunk(json!({}), json!("tool_calls"), ""),
    ]
}

fn messages_events() -> Vec<Event> {
    let event = |kind: &'static str, mut data: Value, text| {
        data["type"] = kind.into();
        (kind, data, text)
    };
    let delta = |index: u64, delta: Value, text| {
        event("content_block_delta", json!({"index": index, "delta": delta}), text)
    };
    let start = |index: u64, block: Value| {
        event("content_block_start", json!({"index": index, "content_block": block}), "")
    };
    let stop = |index: u64| event("content_block_stop", json!({ "index": index }), "");
    let input = |piece: &str| delta(1, json!({"type": "input_json_delta", "partial_json": piece}), "");
    vec![
        event(
            "message_start",
            json!({"message": {"role": "assistant", "content": [], "usage": {"input_tokens": 3}}}),
            "",
        ),
        start(0, json!({"type": "text", "text": ""})),
        delta(0, json!({"type": "text_delta", "text": "Hel"}), "Hel"),
        delta(0, json!({"type": "text_delta", "text": "lo"}), "lo"),
        stop(0),
        start(1, json!({"type": "tool_use", "id": "a", "name": "look", "input": {}})),
        input(ARGUMENTS[0]),
        input(ARGUMENTS[1]),
        input(ARGUMENTS[2]),
        stop(1),
        event(
            "message_delta",
            json!({"delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 5}}),
            "",
        ),
        event("message_stop", json!({}), ""),
    ]
}

fn responses_events() -> Vec<Event> {
    let said = json!({"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
        "content": [{"type": "output_text", "text": "Hello", "annotations": []}]});
    let called = json!({"type": "function_call", "id": "fc_1", "call_id": "a", "name": "look",
        "arguments": ARGUMENTS.concat(), "status": "completed"});
    let begun = |item: &Value, field: &str, empty: Value| {
        let mut item = item.clone();
        item[field] = empty;
        item["status"] = "in_progress".into();
        item
    };
    let events = [
        ("response.created", json!({"response": {"status": "in_progress"}}), ""),
        (
            "response.output_item.added",
            json!({"output_index": 0, "item": begun(&said, "content", json!([]))}),
            "",
        ),
        (
            "response.output_text.delta",
            json!({"output_index": 0, "item_id": "msg_1", "content_index": 0, "delta": "Hel"}),
            "Hel",
        ),
        (
            "response.output_text.delta",
            json!({"output_index": 0, "item_id": "msg_1", "content_index": 0, "delta": "lo"}),
            "lo",
        ),
        (
            "response.output_text.done",
            json!({"output_index": 0, "item_id": "msg_1", "content_index": 0, "text": "Hello"}),
            "",
        ),
        ("response.output_item.done", json!({"output_index": 0, "item": said}), ""),
        (
            "response.output_item.added",
            json!({"output_index": 1, "item": begun(&called, "arguments", json!(""))}),
            "",
        ),
        (
            "response.function_call_arguments.delta",
            json!({"output_index": 1, "item_id": "fc_1", "delta": ARGUMENTS[0]}),
            "",
        ),
        (
            "response.function_call_arguments.delta",
            json!({"output_index": 1, "item_id": "fc_1", "delta": ARGUMENTS[1]}),
            "",
        ),
        (
            "response.function_call_arguments.delta",
            json!({"output_index": 1, "item_id": "fc_1", "delta": ARGUMENTS[2]}),
            "",
        ),
        (
            "response.function_call_arguments.done",
            json!({"output_index": 1, "item_id": "fc_1", "arguments": ARGUMENTS.concat()}),
            "",
        ),
        ("response.output_item.done", json!({"output_index": 1, "item": called}), ""),
        ("response.completed", json!({"response": {"status": "completed", "output": [said, called]}}), ""),
    ];
    let numbered = events.into_iter().enumerate().map(|(number, (kind, mut data, text))| {
        data["type"] = kind.into();
        data["sequence_number"] = number.into();
        (kind, data, text)
    });
    numbered.collect()
}

fn gemini_events() -> Vec<Event> {
    let parts =
        |parts: Value| json!({"candidates": [{"content": {"role": "model", "parts": parts}, "index": 0}]});
    let mut last = parts(json!([{"text": ""}]));
    last["candidates"][0]["finishReason"] = "STOP".into();
    let args: Value = serde_json::from_str(&ARGUMENTS.concat()).unwrap();
    vec![
        ("", parts(json!([{"text": "Hel"}])), "Hel"),
        ("", parts(json!([{"text": "lo"}])), "lo"),
        ("", parts(json!([{"functionCall": {"id": "a", "name": "look", "args": args}}])), ""),
        ("", last, ""),
    ]
}

#[cfg(feature = "bedrock")]
fn converse_events() -> Vec<Event> {
    let delta = |index: u64, delta: Value, text| {
        ("contentBlockDelta", json!({"contentBlockIndex": index, "delta": delta}), text)
    };
    let stop = |index: u64| ("contentBlockStop", json!({ "contentBlockIndex": index }), "");
    let input = |piece: &str| delta(1, json!({"toolUse": {"input": piece}}), "");
    let begun = json!({"toolUse": {"toolUseId": "a", "name": "look"}});
    vec![
        ("messageStart", json!({"role": "assistant"}), ""),
        delta(0, json!({"text": "Hel"}), "Hel"),
        delta(0, json!({"text": "lo"}), "lo"),
        stop(0),
        ("contentBlockStart", json!({"contentBlockIndex": 1, "start": begun}), ""),
        input(ARGUMENTS[0]),
        input(ARGUMENTS[1]),
        input(ARGUMENTS[2]),
        stop(1),
        ("messageStop", json!({"stopReason": "tool_use"}), ""),
        ("metadata", json!({"usage": {"inputTokens": 3, "outputTokens": 5, "totalTokens": 8}}), ""),
    ]
}

impl Stream {
    fn bytes(&self, events: &[Event]) -> Vec<u8> {
        events.iter().flat_map(|event| (self.written)(event)).collect()
    }

    /// What is read; a failure has been looked at by `read_as`.
    fn read(&self, bytes: &[u8]) -> Result<ModelReply, Failure> {
        read_as(&*self.format, self.kind, &[bytes])
    }

    /// No more is in a reply than in the events that came: their text, and the call as it was written, or as one that cannot run.
    fn is_sound(&self, fault: &str, events: &[Event]) {
        let Ok(reply) = self.read(&self.bytes(events)) else { return };
        let came: String = events.iter().map(|(_, _, text)| *text).collect();
        let at = format!("{} {fault}: {reply:?}", self.name);
        assert!(reply.text == came || reply.text == "Hello", "{at}");
        assert!(reply.calls.len() <= 2, "{at}");
        for call in &reply.calls {
            let object = serde_json::from_str::<Value>(&call.call.arguments).ok().filter(Value::is_object);
            assert!(object.is_none_or(|found| found == json!({"item": 42})), "{at}");
        }
    }
}

#[test]
fn an_answer_that_comes_whole_is_read_in_every_dialect() {
    for stream in streams() {
        let reply = stream.read(&stream.bytes(&stream.events)).unwrap();
        let calls: Vec<_> = reply.calls.iter().map(|call| call.call.name.as_str()).collect();
        assert_eq!((reply.text.as_str(), calls), ("Hello", vec!["look"]), "{}", stream.name);
    }
}

#[test]
fn no_cut_is_taken_for_an_end() {
    for stream in streams() {
        let whole = stream.bytes(&stream.events);
        let reply = stream.read(&whole).unwrap();
        let before_end = stream.bytes(&stream.events[..stream.end]).len();
        for cut in 0..whole.len() {
            match stream.read(&whole[..cut]) {
                Ok(early) => {
                    assert!(
                        cut > before_end,
                        "{}: {cut} bytes of {} are an answer",
                        stream.name,
                        whole.len()
                    );
                    assert_eq!(
                        (&early.text, &early.calls),
                        (&reply.text, &reply.calls),
                        "{}: {cut}",
                        stream.name
                    );
                }
                Err(failure) => assert!(!failure.message.is_empty(), "{}: {cut}", stream.name),
            }
        }
    }
}

#[test]
fn events_that_are_lost_repeated_or_exchanged_make_nothing_up() {
    for stream in streams() {
        for at in 0..stream.events.len() {
            let mut lost = stream.events.clone();
            lost.remove(at);
            stream.is_sound(&format!("without event {at}"), &lost);
            let mut repeated = stream.events.clone();
            repeated.insert(at, stream.events[at].clone());
            stream.is_sound(&format!("event {at} twice"), &repeated);
            for other in at + 1..stream.events.len() {
                let mut exchanged = stream.events.clone();
                exchanged.swap(at, other);
                stream.is_sound(&format!("events {at} and {other} exchanged"), &exchanged);
            }
        }
        let mut endless = stream.events.clone();
        endless.truncate(stream.end);
        assert!(stream.read(&stream.bytes(&endless)).is_err(), "{}", stream.name);
    }
}

#[test]
fn a_value_of_another_type_never_panics_and_makes_nothing_up() {
    for stream in streams() {
        for at in 0..stream.events.len() {
            for place in places(&stream.events[at].1, "") {
                for other in [Value::Null, json!(true), json!(-7), json!([]), json!({}), json!(1e300)] {
                    let mut events = stream.events.clone();
                    *events[at].1.pointer_mut(&place).unwrap() = other;
                    let Ok(reply) = stream.read(&stream.bytes(&events)) else { continue };
                    let said = "Hello".starts_with(&reply.text) || reply.text == "lo";
                    assert!(said && reply.calls.len() <= 1, "{} event {at}, {place}: {reply:?}", stream.name);
                }
            }
        }
    }
}

#[test]
fn a_list_is_read_for_no_object() {
    let fields: Vec<Value> = [json!("INJECTED"), json!(0), json!([]), Value::Null, json!({})].into();
    for stream in streams() {
        for at in 0..stream.events.len() {
            let all = places(&stream.events[at].1, "").into_iter().chain([String::new()]);
            for place in all {
                let mut events = stream.events.clone();
                let value = events[at].1.pointer_mut(&place).unwrap();
                let Value::Object(object) = &*value else { continue };
                let own: Vec<Value> = object.values().cloned().collect();
                for list in [own, fields.clone(), fields.iter().rev().cloned().collect(), Vec::new()] {
                    *events[at].1.pointer_mut(&place).unwrap() = list.into();
                    let Ok(reply) = stream.read(&stream.bytes(&events)) else { continue };
                    let whole = stream.read(&stream.bytes(&stream.events)).unwrap();
                    // What nothing reads may have any type, and the tokens may be unknown.
                    let same = (&reply.text, &reply.calls, &reply.finish);
                    assert_eq!(
                        same,
                        (&whole.text, &whole.calls, &whole.finish),
                        "{} {at} {place}",
                        stream.name
                    );
                }
            }
        }
    }
}

/// Where values stand in a value.
fn places(value: &Value, at: &str) -> Vec<String> {
    let inner: Vec<(String, &Value)> = match value {
        Value::Object(fields) => fields.iter().map(|(name, value)| (format!("{at}/{name}"), value)).collect(),
        Value::Array(items) => {
            items.iter().enumerate().map(|(index, value)| (format!("{at}/{index}"), value)).collect()
        }
        _ => Vec::new(),
    };
    inner.into_iter().flat_map(|(at, value)| [vec![at.clone()], places(value, &at)].concat()).collect()
}

#[test]
fn a_call_that_was_stopped_before_its_arguments_is_none() {
    for stream in streams().into_iter().filter(|stream| stream.name != "responses") {
        let read = |events: &[Event]| stream.read(&stream.bytes(events)).unwrap();
        let calls = |reply: &ModelReply| -> Vec<String> {
            reply.calls.iter().map(|call| call.call.arguments.clone()).collect()
        };
        let mut empty = stream.events.clone();
        for event in &mut empty {
            without_arguments(&mut event.1);
        }
        assert_eq!(calls(&read(&empty)), ["{}"], "{}", stream.name);
        let stopped = |mut events: Vec<Event>| {
            let (_, data, _) = &mut events[stream.end];
            *data = stopped_at_limit(data);
            read(&events)
        };
        let reply = stopped(empty);
        assert_eq!((reply.text.as_str(), &reply.finish), ("Hello", &FinishReason::Length), "{}", stream.name);
        assert!(reply.calls.is_empty(), "{}: {reply:?}", stream.name);
        // One that is whole stays.
        assert_eq!(calls(&stopped(stream.events.clone())).len(), 1, "{}", stream.name);
    }
}

#[test]
fn the_limit_counts_where_another_reason_stands_beside_it() {
    for stream in streams().into_iter().filter(|stream| stream.name != "responses") {
        let mut limit = stream.events[stream.end].clone();
        limit.1 = stopped_at_limit(&limit.1);
        for behind in [0, 1] {
            let mut events = stream.events.clone();
            events.insert(stream.end + behind, limit.clone());
            let reply = stream.read(&stream.bytes(&events)).unwrap();
            assert_eq!(
                (reply.text.as_str(), reply.finish),
                ("Hello", FinishReason::Length),
                "{}",
                stream.name
            );
        }
    }
}

/// The last event of an answer that was stopped at its limit.
fn stopped_at_limit(end: &Value) -> Value {
    let mut text = end.to_string();
    for (end, stop) in [("tool_calls", "length"), ("tool_use", "max_tokens"), ("STOP", "MAX_TOKENS")] {
        text = text.replace(&format!("\"{end}\""), &format!("\"{stop}\""));
    }
    serde_json::from_str(&text).unwrap()
}

/// As llama.cpp writes it where the window is full.
#[test]
fn an_error_in_a_field_of_the_stream_has_its_class() {
    let stream = &streams()[0];
    let mut bytes = stream.bytes(&stream.events[..2]);
    let error = r#"{"code":500,"message":"Context size has been exceeded.","type":"server_error"}"#;
    bytes.extend_from_slice(format!("error: {error}\n\n").as_bytes());
    let failure = stream.read(&bytes).unwrap_err();
    let class = failure.classified(&crate::policy::Policy::builtin()).class;
    assert_eq!(class, crate::policy::ErrorClass::ContextOverflow, "{failure:?}");
}

/// Empties all arguments, in pieces and whole.
fn without_arguments(value: &mut Value) {
    match value {
        Value::String(text) if ARGUMENTS.contains(&text.as_str()) => text.clear(),
        Value::Object(fields) if fields.contains_key("item") => fields.clear(),
        Value::Object(fields) => fields.values_mut().for_each(without_arguments),
        Value::Array(items) => items.iter_mut().for_each(without_arguments),
        _ => {}
    }
}

#[cfg(feature = "bedrock")]
#[test]
fn a_frame_that_is_cut_makes_the_answer_a_cut_one() {
    let stream = streams().pop().unwrap();
    let (whole, all) = (stream.bytes(&stream.events[..=stream.end]), stream.bytes(&stream.events));
    assert!(stream.read(&whole).is_ok() && stream.read(&all).is_ok());
    for cut in whole.len() + 1..all.len() {
        let failure = stream.read(&all[..cut]).unwrap_err();
        assert_eq!(failure.message, "the stream of the answer ends in the middle of a frame", "{cut}");
    }
}

#[test]
fn an_event_that_is_too_large_is_no_answer() {
    for stream in streams() {
        let large = "x".repeat(9 << 20);
        for at in 0..stream.end {
            let mut events = stream.events.clone();
            events[at].1["padding"] = large.clone().into();
            assert!(stream.read(&stream.bytes(&events)).is_err(), "{} event {at}", stream.name);
        }
    }
}
