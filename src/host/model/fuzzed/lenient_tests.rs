//! Streams of servers that write less than `OpenAI`, or otherwise, and what is certain in them.

use serde_json::{Value, json};

use super::{WireFormat, chat as chat_format, gemini, messages, read_as, responses};
use crate::engine::{Failure, FinishReason, ModelReply};
use crate::policy::{ErrorClass, Policy};

/// What is to become of a stream or a body.
#[derive(Debug, PartialEq)]
enum Outcome {
    /// The text, the calls as `name arguments`, and why the model stopped.
    Reply(String, Vec<String>, FinishReason),
    Refused(ErrorClass),
}

fn outcome(read: Result<ModelReply, Failure>) -> Outcome {
    match read {
        Ok(reply) => {
            let calls = reply.calls.iter().map(|call| format!("{} {}", call.call.name, call.call.arguments));
            Outcome::Reply(reply.text, calls.collect(), reply.finish)
        }
        Err(failure) => {
            assert!(!failure.message.is_empty());
            Outcome::Refused(failure.classified(&Policy::builtin()).class)
        }
    }
}

fn said(text: &str) -> Outcome {
    Outcome::Reply(text.into(), vec![], FinishReason::Stop)
}

fn called(text: &str, calls: &[&str]) -> Outcome {
    Outcome::Reply(text.into(), calls.iter().map(|&call| call.into()).collect(), FinishReason::ToolCalls)
}

fn cut(text: &str, calls: &[&str]) -> Outcome {
    Outcome::Reply(text.into(), calls.iter().map(|&call| call.into()).collect(), FinishReason::Length)
}

const WRONG: Outcome = Outcome::Refused(ErrorClass::ModelError);
const CUT: Outcome = Outcome::Refused(ErrorClass::NetworkError);

fn streamed(events: &[Value]) -> Result<ModelReply, Failure> {
    let mut bytes = String::new();
    for event in events {
        let data = event.as_str().map_or_else(|| event.to_string(), str::to_owned);
        bytes += &["data: ", &data, "\n\n: keep-alive\n\n"].concat();
    }
    read_as(&responses(), "text/event-stream", &[bytes.as_bytes()])
}

#[track_caller]
fn becomes(expected: &Outcome, events: &[Value]) {
    assert_eq!(outcome(streamed(events)), *expected, "{events:#?}");
}

fn with(mut event: Value, more: &Value) -> Value {
    for (field, value) in more.as_object().unwrap() {
        event[field] = value.clone();
    }
    event
}

fn added(item: &Value, place: &Value) -> Value {
    with(json!({"type": "response.output_item.added", "item": item}), place)
}

fn ended(item: &Value, place: &Value) -> Value {
    with(json!({"type": "response.output_item.done", "item": item}), place)
}

fn delta(text: &str, place: &Value) -> Value {
    with(json!({"type": "response.output_text.delta", "delta": text}), place)
}

fn piece(arguments: &str, place: &Value) -> Value {
    with(json!({"type": "response.function_call_arguments.delta", "delta": arguments}), place)
}

fn arguments(whole: &str, place: &Value) -> Value {
    with(json!({"type": "response.function_call_arguments.done", "arguments": whole}), place)
}

fn message(id: &str, text: &str) -> Value {
    json!({"type": "message", "id": id, "role": "assistant", "status": "completed",
        "content": [{"type": "output_text", "text": text, "annotations": []}]})
}

fn call(id: &str, arguments: &str) -> Value {
    json!({"type": "function_call", "call_id": id, "name": "look", "arguments": arguments, "status": "completed"})
}

fn reasoning() -> Value {
    json!({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "c2VhbGVk"})
}

fn completed(output: &Value) -> Value {
    json!({"type": "response.completed", "response": {"status": "completed", "output": output}})
}

fn incomplete(output: &Value) -> Value {
    let details = json!({"reason": "max_output_tokens"});
    json!({"type": "response.incomplete", "response": {"status": "incomplete", "incomplete_details": details, "output": output}})
}

fn at(index: u64) -> Value {
    json!({ "output_index": index })
}

/// A message and a call, with this in each event of theirs.
fn both(message_at: &Value, call_at: &Value, last: &Value) -> Vec<Value> {
    vec![
        json!({"type": "response.created", "response": {"status": "in_progress"}}),
        added(&message("msg_1", ""), message_at),
        delta("Hel", message_at),
        delta("lo", message_at),
        ended(&message("msg_1", "Hello"), message_at),
        added(&call("a", ""), call_at),
        piece("{\"x\"", call_at),
        piece(": 1}", call_at),
        ended(&call("a", "{\"x\": 1}"), call_at),
        completed(last),
    ]
}

#[test]
fn an_item_is_found_by_what_its_events_say_of_it() {
    let expected = called("Hello", &["look {\"x\": 1}"]);
    let whole = json!([message("msg_1", "Hello"), call("a", "{\"x\": 1}")]);
    let ids = (json!({"item_id": "msg_1"}), json!({"item_id": "fc_1"}));
    for (first, second) in [
        (at(0), at(1)),
        (at(0), at(0)),
        (at(3), at(7)),
        (json!({}), json!({})),
        (json!({"output_index": null}), json!({"output_index": null})),
        ids,
        (json!({"output_index": 0, "obfuscation": "xyz"}), json!({"output_index": 1, "obfuscation": ""})),
        (json!({"sequence_number": -1}), json!({"sequence_number": -1})),
        (json!({"output_index": 0, "content_index": 0, "logprobs": []}), json!({"output_index": 1})),
    ] {
        // With the items in the last event, and without.
        for last in [whole.clone(), json!([]), Value::Null] {
            becomes(&expected, &both(&first, &second, &last));
        }
    }
}

#[test]
fn events_of_such_servers_that_are_lost_repeated_or_out_of_order_make_no_other_reply() {
    let whole = json!([message("msg_1", "Hello"), call("a", "{\"x\": 1}")]);
    let expected = called("Hello", &["look {\"x\": 1}"]);
    let same_or_refused = |events: &[Value]| {
        let got = outcome(streamed(events));
        assert!(got == expected || matches!(got, Outcome::Refused(_)), "{got:?} {events:#?}");
    };
    for (first, second) in [(at(0), at(1)), (at(0), at(0)), (json!({}), json!({}))] {
        let events = both(&first, &second, &whole);
        for from in 0..events.len() {
            let mut lost = events.clone();
            let event = lost.remove(from);
            same_or_refused(&lost);
            for to in 0..events.len() {
                let (mut moved, mut repeated) = (lost.clone(), events.clone());
                moved.insert(to, event.clone());
                repeated.insert(to, event.clone());
                same_or_refused(&moved);
                same_or_refused(&repeated);
            }
        }
        // Without items in the last event, each end of an item still counts once.
        let events = both(&first, &second, &json!([]));
        for from in 0..events.len() - 1 {
            let mut repeated = events.clone();
            repeated.insert(from, events[from].clone());
            same_or_refused(&repeated);
        }
    }
}

#[test]
fn an_item_may_have_another_id_in_each_event() {
    let id = |id: &str| json!({"output_index": 0, "item_id": id});
    let events = [
        added(&message("msg_a", ""), &at(0)),
        delta("Hel", &id("msg_b")),
        delta("lo", &id("msg_c")),
        ended(&message("msg_d", "Hello"), &at(0)),
        completed(&json!([message("msg_e", "Hello")])),
    ];
    becomes(&said("Hello"), &events);
}

/// As llama.cpp writes it: no index, and the ends of all items at the end.
#[test]
fn all_items_may_end_at_the_end() {
    let text = json!({"item_id": "msg_1"});
    let (first, second) = (json!({"item_id": "fc_a"}), json!({"item_id": "fc_b"}));
    let begun = |id: &str| with(call(id, ""), &json!({"id": id}));
    let (a, b) = (call("fc_a", "{\"x\":1}"), call("fc_b", "{}"));
    let thought = json!({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "",
        "content": [{"type": "reasoning_text", "text": "hm"}]});
    let events = [
        added(&json!({"type": "reasoning", "id": "rs_1", "summary": []}), &json!({})),
        json!({"type": "response.reasoning_text.delta", "delta": "hm", "item_id": "rs_1"}),
        added(&message("msg_1", ""), &json!({})),
        json!({"type": "response.content_part.added", "item_id": "msg_1", "part": {"type": "output_text", "text": ""}}),
        delta("Hello", &text),
        added(&begun("fc_a"), &json!({})),
        piece("{\"x\":", &first),
        piece("1}", &first),
        added(&begun("fc_b"), &json!({})),
        piece("{}", &second),
        ended(&thought, &json!({})),
        json!({"type": "response.output_text.done", "item_id": "msg_1", "text": "Hello"}),
        ended(&message("msg_1", "Hello"), &json!({})),
        ended(&a, &json!({})),
        ended(&b, &json!({})),
        completed(&json!([thought, message("msg_1", "Hello"), a, b])),
    ];
    becomes(&called("Hello", &["look {\"x\":1}", "look {}"]), &events);
}

#[test]
fn what_is_left_out_is_in_another_event() {
    let whole = json!([reasoning(), message("msg_1", "Hello"), call("a", "{}")]);
    let expected = called("Hello", &["look {}"]);
    // Items that come only whole.
    for last in [whole.clone(), json!([])] {
        becomes(
            &expected,
            &[
                ended(&reasoning(), &at(0)),
                ended(&message("msg_1", "Hello"), &at(1)),
                ended(&call("a", "{}"), &at(2)),
                completed(&last),
            ],
        );
    }
    // Nothing but the last event, and texts of an item that never began.
    becomes(&expected, &[completed(&whole)]);
    becomes(&expected, &[delta("Hel", &at(1)), delta("lo", &at(1)), completed(&whole)]);
    // Items that begin and do not end.
    becomes(
        &expected,
        &[
            added(&message("msg_1", ""), &at(1)),
            delta("Hello", &at(1)),
            added(&call("a", ""), &at(2)),
            arguments("{}", &at(2)),
            completed(&whole),
        ],
    );
    // Arguments only at the end, and pieces of parts that say nothing.
    becomes(&expected, &[added(&call("a", ""), &at(2)), arguments("{}", &at(2)), completed(&whole)]);
    becomes(
        &said("Hello"),
        &[
            added(&message("msg_1", ""), &at(0)),
            delta("Hello", &json!({"output_index": 0, "content_index": 1})),
            ended(&message("msg_1", "Hello"), &at(0)),
            completed(&json!([])),
        ],
    );
    // Reasoning need not be in the last event, nor streamed.
    becomes(
        &said("Hello"),
        &[
            ended(&reasoning(), &at(0)),
            ended(&message("msg_1", "Hello"), &at(1)),
            completed(&json!([message("msg_1", "Hello")])),
        ],
    );
    let end = json!({"type": "response.done", "response": {"status": "completed", "output": whole}});
    becomes(&expected, &[end, json!("[DONE]")]);
    becomes(
        &said("Hello"),
        &[
            json!({"type": "response.output_item.added", "output_index": 0, "item": null}),
            ended(&message("msg_1", "Hello"), &at(1)),
            json!({"type": "response.completed", "response": {"output": [message("msg_1", "Hello")], "usage": null}}),
        ],
    );
}

#[test]
fn the_last_event_may_say_the_same_in_other_words() {
    for last in [
        json!([message("msg_9", "Hello"), call("other", "{\"x\":1}")]),
        json!([reasoning(), message("msg_1", "Hello"), call("a", "{\"x\": 1}")]),
        json!([{"type": "message", "content": "Hello"}, call("a", "{\"x\": 1}")]),
        json!([{"type": "message", "content": [{"type": "text", "text": "Hello"}]}, with(call("a", ""), &json!({"arguments": {"x": 1}}))]),
        json!([message("msg_1", "Hel"), message("msg_2", "lo"), call("a", "{\"x\": 1}")]),
    ] {
        let read = streamed(&both(&at(0), &at(1), &last)).unwrap();
        assert_eq!((read.text.as_str(), read.calls.len()), ("Hello", 1), "{last}");
        let arguments: Value = serde_json::from_str(&read.calls[0].call.arguments).unwrap();
        assert_eq!(arguments, json!({"x": 1}), "{last}");
    }
}

#[test]
fn what_contradicts_itself_or_is_not_whole_is_refused() {
    let hello = message("msg_1", "Hello");
    let begun = || vec![added(&message("msg_1", ""), &at(0)), delta("Hello", &at(0))];
    let after = |more: &[Value]| begun().into_iter().chain(more.iter().cloned()).collect::<Vec<_>>();
    let end = || ended(&hello, &at(0));
    let cases: Vec<(Outcome, Vec<Value>)> = vec![
        (CUT, after(&[end()])),
        (CUT, after(&[end(), json!("[DONE]")])),
        (WRONG, after(&[completed(&json!([]))])),
        (WRONG, after(&[end(), end(), completed(&json!([hello]))])),
        (WRONG, after(&[end(), delta("!", &at(0)), completed(&json!([hello]))])),
        (WRONG, after(&[end(), delta("!", &json!({})), completed(&json!([]))])),
        (WRONG, after(&[added(&message("msg_1", ""), &at(0)), end(), completed(&json!([]))])),
        (WRONG, after(&[ended(&message("msg_1", "Hallo"), &at(0)), completed(&json!([]))])),
        (WRONG, after(&[end(), completed(&json!([message("msg_1", "Hello!")]))])),
        (WRONG, after(&[end(), completed(&json!([message("msg_1", "")]))])),
        (WRONG, after(&[end(), completed(&json!([reasoning()]))])),
        (WRONG, after(&[completed(&json!([message("msg_1", "Help")]))])),
        (WRONG, after(&[delta("x", &json!({"output_index": 0, "content_index": u64::MAX})), end()])),
        (WRONG, vec![added(&call("a", ""), &at(0)), piece("{\"x\"", &at(0)), completed(&json!([]))]),
        (WRONG, vec![added(&call("a", ""), &at(0)), arguments("{}", &at(0)), completed(&json!([]))]),
        (
            WRONG,
            vec![ended(&call("a", "{}"), &at(0)), ended(&call("a", "{}"), &at(0)), completed(&json!([]))],
        ),
        (
            WRONG,
            vec![
                ended(&call("a", "{}"), &json!({})),
                ended(&call("a", "{}"), &json!({})),
                completed(&json!([])),
            ],
        ),
        (WRONG, vec![ended(&call("a", "{}"), &at(0)), completed(&json!([call("a", "{\"x\":1}")]))]),
        (
            WRONG,
            vec![
                ended(&call("a", "{}"), &at(0)),
                completed(&json!([with(call("a", "{}"), &json!({"name": "pay"}))])),
            ],
        ),
        (
            WRONG,
            vec![
                added(&call("a", ""), &at(0)),
                ended(&with(call("a", "{}"), &json!({"name": "pay"})), &at(0)),
                completed(&json!([])),
            ],
        ),
        (WRONG, vec![completed(&json!([{"type": 7}]))]),
        (WRONG, vec![completed(&json!([{"type": "message", "content": 7}]))]),
        (WRONG, vec![completed(&json!([{"type": "message", "content": [7]}]))]),
        (
            WRONG,
            vec![completed(&json!([{"type": "message", "content": [{"type": "output_text", "text": 7}]}]))],
        ),
        (
            WRONG,
            vec![
                json!({"type": "response.completed", "response": {"status": "in_progress", "output": [hello]}}),
            ],
        ),
        (
            WRONG,
            vec![
                json!({"type": "response.incomplete", "response": {"status": "completed", "output": [hello]}}),
            ],
        ),
        (
            WRONG,
            vec![json!({"type": "response.completed", "response": {"status": "failed", "output": [hello]}})],
        ),
        (WRONG, vec![json!({"type": "response.cancelled", "response": {"status": "cancelled"}})]),
        (WRONG, vec![json!({"type": "response.completed", "response": null})]),
    ];
    for (expected, events) in cases {
        becomes(&expected, &events);
    }
}

#[test]
fn a_last_event_that_comes_too_early_ends_nothing() {
    let number = |event: Value, number: u64| with(event, &json!({"sequence_number": number}));
    let events = [
        number(json!({"type": "response.created"}), 0),
        number(ended(&message("msg_1", "Hello"), &at(0)), 1),
        number(completed(&json!([])), 3),
    ];
    becomes(&WRONG, &events);
}

#[test]
fn a_response_that_was_stopped_is_cut_and_runs_no_half_of_a_call() {
    let half = json!([with(message("msg_1", "Half"), &json!({"status": "incomplete"}))]);
    let text = [added(&message("msg_1", ""), &at(0)), delta("Half", &at(0))];
    for last in [half, json!([message("msg_1", "Half")]), json!([]), Value::Null] {
        becomes(&cut("Half", &[]), &[text[0].clone(), text[1].clone(), incomplete(&last)]);
    }
    // vLLM ends a response so that was stopped.
    let mut vllm = incomplete(&json!([message("msg_1", "Half")]));
    vllm["type"] = json!("response.completed");
    becomes(&cut("Half", &[]), &[text[0].clone(), text[1].clone(), vllm]);

    let stopped = |arguments: &str| with(call("b", arguments), &json!({"status": "incomplete"}));
    let whole = call("a", "{\"x\": 1}");
    for (half, left) in [
        (stopped(""), vec!["look {\"x\": 1}"]),
        (call("b", ""), vec!["look {\"x\": 1}"]),
        (stopped("{}"), vec!["look {\"x\": 1}"]),
        // No JSON is never run, and its sender learns of it.
        (call("b", "{\"y"), vec!["look {\"x\": 1}", "look {\"y"]),
    ] {
        let output = json!([whole, half]);
        becomes(&cut("", &left), &[incomplete(&output)]);
        let body = json!({"status": "incomplete", "output": output}).to_string();
        let read = read_as(&responses(), "application/json", &[body.as_bytes()]);
        assert_eq!(outcome(read), cut("", &left));
    }
    for last in [json!([]), json!([whole]), json!([whole, stopped("")])] {
        let events = [ended(&whole, &at(0)), added(&call("b", ""), &at(1)), incomplete(&last)];
        becomes(&cut("", &["look {\"x\": 1}"]), &events);
    }
}

#[test]
fn an_error_is_found_in_any_event() {
    let error = json!({"code": "rate_limit_exceeded", "message": "Rate limit reached"});
    for event in [
        json!({"type": "error", "code": "rate_limit_exceeded", "message": "Rate limit reached", "param": null}),
        json!({"type": "error", "error": error}),
        json!({"type": "response.error", "error": error}),
        json!({"type": "response.failed", "response": {"status": "failed", "error": error}}),
        json!({"type": "response.completed", "response": {"status": "failed", "error": error, "output": []}}),
        json!({"error": error}),
    ] {
        becomes(&Outcome::Refused(ErrorClass::RateLimit), &[delta("x", &at(0)), event]);
    }
    becomes(
        &said("Hello"),
        &[
            json!({"type": "response.queued", "response": {"status": "queued", "error": null}, "error": null}),
            json!({"type": "ping"}),
            json!({"type": "response.output_text.annotation.added", "annotation": {"url": "u"}}),
            completed(&json!([message("msg_1", "Hello")])),
        ],
    );
}

#[test]
fn the_shape_of_a_whole_body_is_what_counts() {
    let read =
        |body: &Value| outcome(read_as(&responses(), "application/json", &[body.to_string().as_bytes()]));
    let body = |output: Value| json!({"status": "completed", "error": null, "output": output});
    assert_eq!(read(&body(json!([{"type": "message", "content": "Hi"}]))), said("Hi"));
    assert_eq!(
        read(&body(json!([{"type": "message", "content": [{"type": "text", "text": "Hi"}]}]))),
        said("Hi")
    );
    let object = with(call("a", ""), &json!({"arguments": {"x": 1}}));
    assert_eq!(read(&body(json!([object]))), called("", &["look {\"x\":1}"]));
    let silent = with(call("a", ""), &json!({"arguments": null}));
    assert_eq!(read(&body(json!([silent]))), called("", &["look {}"]));
    let open = json!({"type": "reasoning", "status": "in_progress", "summary": []});
    assert_eq!(read(&body(json!([open, message("msg_1", "Hi")]))), said("Hi"));
    for wrong in [
        json!(7),
        json!({}),
        json!([7]),
        json!([{}]),
        json!([{"type": "message", "content": {}}]),
        Value::Null,
    ] {
        assert_eq!(read(&body(wrong.clone())), WRONG, "{wrong}");
    }
    for status in ["queued", "in_progress", "cancelled", "failed"] {
        assert_eq!(read(&json!({"status": status, "output": [message("msg_1", "Hi")]})), WRONG, "{status}");
    }
}

/// A text of two events in every format, and what ends it.
fn split_texts(first: &str, second: &str) -> Vec<(&'static str, Result<ModelReply, Failure>)> {
    let events =
        |events: &[String]| events.iter().map(|event| ["data: ", event, "\n\n"].concat()).collect::<String>();
    let of = |pieces: [&str; 2], before: &str, after: &str, begin: &str, end: &str| {
        let texts = pieces.map(|piece| format!("{before}{piece}{after}"));
        let all = [vec![begin.to_owned()], texts.into(), vec![end.to_owned()]].concat();
        events(&all.into_iter().filter(|event| !event.is_empty()).collect::<Vec<_>>())
    };
    let pieces = [first, second];
    let chat = of(
        pieces,
        r#"{"choices":[{"index":0,"delta":{"content":""#,
        r#""}}]}"#,
        "",
        r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#,
    );
    let blocks = of(
        pieces,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":""#,
        r#""}}"#,
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#,
        r#"{"type":"content_block_stop","index":0}"#,
    );
    let start = r#"{"type":"message_start","message":{"role":"assistant","content":[],"usage":{"input_tokens":3,"output_tokens":0}}}"#;
    let stop = r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":2}}"#;
    let blocks =
        events(&[start.into()]) + &blocks + &events(&[stop.into(), r#"{"type":"message_stop"}"#.into()]);
    let chunks = of(
        pieces,
        r#"{"candidates":[{"index":0,"content":{"role":"model","parts":[{"text":""#,
        r#""}]}}]}"#,
        "",
        r#"{"candidates":[{"index":0,"finishReason":"STOP"}]}"#,
    );
    let kind = "text/event-stream";
    let read = |format: &dyn WireFormat, stream: &str| read_as(format, kind, &[stream.as_bytes()]);
    vec![
        ("chat", read(&chat_format(), &chat)),
        ("messages", read(&messages(), &blocks)),
        ("gemini", read(&gemini(), &chunks)),
        ("responses", streamed_texts(pieces)),
        #[cfg(feature = "bedrock")]
        ("converse", framed_texts(pieces)),
    ]
}

/// The items at the end repeat the text.
fn streamed_texts(pieces: [&str; 2]) -> Result<ModelReply, Failure> {
    let whole = pieces.concat();
    let message = |text: &str| message("msg_1", "TEXT").to_string().replace("TEXT", text);
    let of = |kind: &str, more: &str| format!(r#"{{"type":"response.{kind}","output_index":0,{more}}}"#);
    let deltas = pieces.map(|piece| of("output_text.delta", &format!(r#""delta":"{piece}""#)));
    let all = [
        of("output_item.added", &format!(r#""item":{}"#, message(""))),
        deltas.join("\n\ndata: "),
        of("output_item.done", &format!(r#""item":{}"#, message(&whole))),
        of("completed", &format!(r#""response":{{"status":"completed","output":[{}]}}"#, message(&whole))),
    ];
    let stream: String = all.iter().map(|event| ["data: ", event, "\n\n"].concat()).collect();
    read_as(&responses(), "text/event-stream", &[stream.as_bytes()])
}

#[cfg(feature = "bedrock")]
fn framed_texts(pieces: [&str; 2]) -> Result<ModelReply, Failure> {
    use crate::host::model::frames::tests::of_event;
    let mut stream = of_event("messageStart", r#"{"role":"assistant"}"#);
    for piece in pieces {
        let delta = format!(r#"{{"contentBlockIndex":0,"delta":{{"text":"{piece}"}}}}"#);
        stream.extend(of_event("contentBlockDelta", &delta));
    }
    stream.extend(of_event("contentBlockStop", r#"{"contentBlockIndex":0}"#));
    stream.extend(of_event("messageStop", r#"{"stopReason":"end_turn"}"#));
    stream.extend(of_event("metadata", r#"{"usage":{"inputTokens":1,"outputTokens":2,"totalTokens":3}}"#));
    read_as(&super::converse(), "application/vnd.amazon.eventstream", &[&stream])
}

#[test]
fn a_character_that_is_cut_in_two_is_whole_in_every_format() {
    for (format, reply) in split_texts(r"Hi \ud83d", r"\ude00!") {
        assert_eq!(outcome(reply), said("Hi \u{1f600}!"), "{format}");
    }
    // A half alone stays one, and nothing is lost behind it.
    for (format, reply) in split_texts(r"Hi \ud83d", r" \ude00!") {
        assert_eq!(outcome(reply), said("Hi \u{fffd} \u{fffd}!"), "{format}");
    }
}
