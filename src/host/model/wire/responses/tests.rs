//! Streams as servers send them, and in every way in which they are none.

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::engine::FinishReason;
use crate::host::model::fuzzed::{read_as, responses};
use crate::host::model::sse::SseEvent;
use crate::host::model::wire::StreamProgress;
use crate::policy::{ErrorClass, Policy};
use crate::session::{ToolCall, Usage};

/// What a model does, by its items.
fn whole(items: &[Value]) -> Value {
    let usage = json!({
        "input_tokens": 50, "input_tokens_details": {"cached_tokens": 30}, "output_tokens": 20,
        "output_tokens_details": {"reasoning_tokens": 12}, "total_tokens": 70,
    });
    json!({"id": "resp_1", "object": "response", "status": "completed", "error": null, "output": items, "usage": usage})
}

fn message(text: &str) -> Value {
    let part = json!({"type": "output_text", "text": text, "annotations": []});
    json!({"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [part]})
}

fn call(id: &str, arguments: &str) -> Value {
    json!({"type": "function_call", "id": format!("fc_{id}"), "call_id": id, "name": "look", "arguments": arguments, "status": "completed"})
}

fn reasoning() -> Value {
    let summary = json!([{"type": "summary_text", "text": "hm"}]);
    json!({"type": "reasoning", "id": "rs_1", "summary": summary, "encrypted_content": "c2VhbGVk"})
}

fn rich() -> Vec<Value> {
    vec![reasoning(), message("Let me look. 🦊"), call("call_1", r#"{"item": 42}"#), call("call_2", "{}")]
}

/// The events of these items, with texts in pieces of so many characters.
fn events(items: &[Value], piece: usize) -> Vec<Value> {
    let mut events =
        vec![json!({"type": "response.created", "response": {"status": "in_progress", "output": []}})];
    for (at, item) in items.iter().enumerate() {
        let mut begun = item.clone();
        let (kind, part, field) = match item["type"].as_str() {
            Some("message") => {
                begun["content"] = json!([]);
                let part = &item["content"][0];
                let kind = part["type"].as_str().unwrap();
                let field = if kind == "refusal" { "refusal" } else { "text" };
                (if kind == "refusal" { "refusal" } else { "output_text" }, part, field)
            }
            Some("function_call") => {
                begun["arguments"] = json!("");
                ("function_call_arguments", item, "arguments")
            }
            _ => ("reasoning_summary_text", &item["summary"][0], "text"),
        };
        events.push(json!({"type": "response.output_item.added", "output_index": at, "item": begun}));
        let text: Vec<char> = part[field].as_str().unwrap_or_default().chars().collect();
        for more in text.chunks(piece) {
            let more: String = more.iter().collect();
            events.push(json!({"type": format!("response.{kind}.delta"), "output_index": at, "content_index": 0, "delta": more}));
        }
        events.push(json!({"type": format!("response.{kind}.done"), "output_index": at, "content_index": 0, field: part[field]}));
        events.push(json!({"type": "response.output_item.done", "output_index": at, "item": item}));
    }
    events.push(json!({"type": "response.completed", "response": whole(items)}));
    for (number, event) in events.iter_mut().enumerate() {
        event["sequence_number"] = json!(number);
    }
    events
}

fn without_numbers(events: &[Value]) -> Vec<Value> {
    let mut events = events.to_vec();
    for event in &mut events {
        event.as_object_mut().unwrap().shift_remove("sequence_number");
    }
    events
}

fn bytes(events: &[Value]) -> Vec<u8> {
    let event =
        |event: &Value| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap_or("x"));
    events.iter().map(event).collect::<String>().into_bytes()
}

fn streamed(events: &[Value]) -> Result<ModelReply, Failure> {
    read_as(&responses(), "text/event-stream", &[&bytes(events)])
}

fn read(body: &Value) -> Result<ModelReply, Failure> {
    read_as(&responses(), "application/json", &[body.to_string().as_bytes()])
}

fn class(failure: &Failure) -> ErrorClass {
    failure.classified(&Policy::builtin()).class
}

#[test]
fn a_response_is_the_same_whole_and_streamed() {
    let call = |id: &str, arguments: &str| {
        ToolCall { id: id.into(), name: "look".into(), arguments: arguments.into() }.into()
    };
    let kept = json!({"issuer": "host main", "items": [
        reasoning(),
        {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
            "content": [{"chars": 14, "type": "output_text", "annotations": []}]},
        {"type": "function_call", "id": "fc_call_1", "call_id": "call_1", "status": "completed"},
        {"type": "function_call", "id": "fc_call_2", "call_id": "call_2", "status": "completed"},
    ]});
    let expected = ModelReply {
        text: "Let me look. 🦊".into(),
        calls: vec![call("call_1", r#"{"item": 42}"#), call("call_2", "{}")],
        finish: FinishReason::ToolCalls,
        usage: Some(Usage { input: 50, output: 20, cache_read: 30, cache_write: 0, reasoning: 12 }),
        extra: [("output_responses".to_owned(), kept)].into_iter().collect(),
        ..ModelReply::default()
    };
    assert_eq!(read(&whole(&rich())).unwrap(), expected);
    for piece in [1, 5, 99] {
        let events = events(&rich(), piece);
        assert_eq!(streamed(&events).unwrap(), expected);
        assert_eq!(streamed(&without_numbers(&events)).unwrap(), expected);
    }
}

#[test]
fn a_stream_may_be_cut_into_packets_anywhere() {
    let events = events(&rich(), 5);
    let (bytes, expected) = (bytes(&events), streamed(&events).unwrap());
    for at in 0..=bytes.len() {
        let (first, second) = bytes.split_at(at);
        let reply = read_as(&responses(), "text/event-stream", &[first, second]);
        assert_eq!(reply.as_ref(), Ok(&expected), "{at}");
    }
}

#[test]
fn a_stream_that_ends_before_its_last_event_is_cut() {
    let events = events(&rich(), 5);
    let done = b"data: [DONE]\n\n".as_slice();
    for end in 0..events.len() {
        let mut bytes = bytes(&events[..end]);
        let failure = read_as(&responses(), "text/event-stream", &[&bytes]).unwrap_err();
        assert_eq!(failure.class, Some(ErrorClass::NetworkError), "{end} {failure:?}");
        bytes.extend(done);
        let failure = read_as(&responses(), "text/event-stream", &[&bytes]).unwrap_err();
        assert_eq!(failure.class, Some(ErrorClass::NetworkError), "{end} {failure:?}");
    }
}

/// Whatever is done to the events, what comes of it is the same reply or a failure with a class, and no other reply.
fn same_or_failure(changed: &[Value], expected: &ModelReply) -> bool {
    match streamed(changed) {
        Ok(reply) => {
            assert_eq!(reply, *expected, "{changed:?}");
            true
        }
        Err(failure) => {
            assert!(!failure.message.is_empty(), "{failure:?}");
            false
        }
    }
}

#[test]
fn events_that_are_lost_repeated_or_out_of_order_make_no_other_reply() {
    let numbered = events(&rich(), 5);
    let expected = streamed(&numbered).unwrap();
    let mut survived = 0;
    for events in [numbered.clone(), without_numbers(&numbered)] {
        for at in 0..events.len() {
            let mut lost = events.clone();
            lost.remove(at);
            same_or_failure(&lost, &expected);
            let mut repeated = events.clone();
            repeated.insert(at, events[at].clone());
            survived += u32::from(same_or_failure(&repeated, &expected));
            for to in 0..events.len() {
                let mut moved = events.clone();
                let event = moved.remove(at);
                moved.insert(to, event);
                same_or_failure(&moved, &expected);
            }
        }
    }
    // Without numbers: what only says that something begins, texts of reasoning, and all that comes after the last event.
    assert!(survived < 14, "{survived}");
}

#[test]
fn fields_of_a_wrong_type_make_no_other_reply() {
    let events = events(&rich(), 5);
    let expected = streamed(&events).unwrap();
    let wrong = [json!(null), json!(-1), json!("x"), json!([7]), json!({"a": 1}), json!(true), json!(1e300)];
    for at in 0..events.len() {
        for field in events[at].as_object().unwrap().keys() {
            for value in &wrong {
                let mut changed = events.clone();
                changed[at][field] = value.clone();
                same_or_failure(&changed, &expected);
            }
        }
    }
    for wrong in [
        "7",
        "[]",
        "null",
        "{}",
        "\"x\"",
        "{\"type\":7}",
        "nonsense",
        "{\"type\":\"response.output_text.delta\"",
    ] {
        let bytes = format!("data: {wrong}\n\n");
        let failure = read_as(&responses(), "text/event-stream", &[bytes.as_bytes()]).unwrap_err();
        assert!(!failure.message.is_empty(), "{wrong}");
    }
    let mut far = events;
    far[6]["output_index"] = json!(u64::MAX);
    assert_eq!(class(&streamed(&far).unwrap_err()), ErrorClass::ModelError);
}

#[test]
fn an_end_that_contradicts_the_stream_is_a_failure() {
    let events = events(&rich(), 5);
    let last = events.len() - 1;
    let contradictions: [fn(&mut Value); 5] = [
        |end| drop(end["output"].as_array_mut().unwrap().remove(1)),
        |end| end["output"][1] = message("Something else."),
        |end| end["output"][2]["arguments"] = json!("{}"),
        |end| end["output"][2]["name"] = json!("pay"),
        |end| end["status"] = json!("in_progress"),
    ];
    for (at, contradict) in contradictions.into_iter().enumerate() {
        let mut changed = events.clone();
        contradict(&mut changed[last]["response"]);
        let failure = streamed(&changed).unwrap_err();
        assert_eq!(failure.class, Some(ErrorClass::ModelError), "{at}");
        assert!(
            failure.message.starts_with("the stream of the answer contradicts itself"),
            "{at} {failure:?}"
        );
    }
    // A server that leaves the items out of its last event has said them before.
    let mut without = events.clone();
    without[last]["response"].as_object_mut().unwrap().remove("output");
    assert_eq!(streamed(&without), streamed(&events));
    without[last]["response"]["output"] = json!([]);
    assert_eq!(streamed(&without), streamed(&events));
    let nothing = json!({"type": "response.completed", "response": {"status": "completed"}});
    assert_eq!(streamed(&[nothing]).unwrap_err().message, "the answer holds no output");
}

#[test]
fn a_completed_response_with_an_unfinished_item_is_a_failure() {
    let mut unfinished = whole(&rich());
    unfinished["output"][2]["status"] = json!("in_progress");
    let failure = read(&unfinished).unwrap_err();
    let says = "the answer is `completed`, but output item 2 (`function_call`) is `in_progress`";
    assert_eq!((failure.class, failure.message.as_str()), (Some(ErrorClass::ModelError), says));
    let mut events = events(&rich(), 5);
    let is_end = |event: &Value| event["type"] == "response.output_item.done" && event["output_index"] == 3;
    events.retain(|event| !is_end(event));
    // Its end may be in the last event alone.
    assert!(streamed(&events).is_ok());
    let last = events.len() - 1;
    events[last]["response"]["output"] = json!([]);
    let says = "the stream of the answer is `completed`, but output item 3 has not ended";
    assert_eq!(streamed(&without_numbers(&events)).unwrap_err().message, says);
}

#[test]
fn a_response_says_why_it_ended() {
    let refusal = json!({"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [
        {"type": "refusal", "refusal": "I cannot do that."},
    ]});
    let reply = streamed(&events(&[refusal], 4)).unwrap();
    assert_eq!((reply.text.as_str(), reply.finish), ("I cannot do that.", FinishReason::ContentFilter));
    assert_eq!(
        reply.extra["output_responses"]["items"][0]["content"],
        json!([{"chars": 17, "type": "refusal"}])
    );
    for (reason, finish) in [
        (json!("max_output_tokens"), FinishReason::Length),
        (json!("content_filter"), FinishReason::ContentFilter),
        (json!("steered"), FinishReason::Length),
        (json!("max_messages"), FinishReason::Length),
        (Value::Null, FinishReason::Length),
    ] {
        let mut item = message("Half");
        item["status"] = json!("incomplete");
        let mut events = events(&[item], 2);
        let last = events.len() - 1;
        events[last]["type"] = json!("response.incomplete");
        events[last]["response"]["status"] = json!("incomplete");
        events[last]["response"]["incomplete_details"] = json!({ "reason": reason });
        let reply = streamed(&events).unwrap();
        assert_eq!((reply.text.as_str(), &reply.finish), ("Half", &finish));
        assert_eq!(read(&events[last]["response"]).unwrap(), reply);
        // The last item need not have an end of its own, but its text has to begin with what came.
        events.remove(last - 1);
        assert_eq!(streamed(&events).unwrap(), reply);
        events[last - 1]["response"]["output"] = json!([message("Have")]);
        assert!(streamed(&events).is_err());
    }
}

#[test]
fn an_answer_with_as_many_tokens_as_it_may_have_was_cut() {
    let format = |most| ResponsesFormat { max_tokens: most, ..responses() };
    let body = whole(&[message("x")]).to_string();
    let finish = |most| read_as(&format(most), "application/json", &[body.as_bytes()]).unwrap().finish;
    assert_eq!(
        (finish(None), finish(Some(21)), finish(Some(20))),
        (FinishReason::Stop, FinishReason::Stop, FinishReason::Length)
    );
    // The server says itself how many it may have: a budget may have lowered them.
    let mut lowered = whole(&[message("x")]);
    lowered["max_output_tokens"] = 20.into();
    let read = read_as(&format(Some(500)), "application/json", &[lowered.to_string().as_bytes()]);
    assert_eq!(read.unwrap().finish, FinishReason::Length);
}

#[test]
fn a_status_that_is_no_end_is_no_answer() {
    for status in ["in_progress", "queued", "cancelled", "failed"] {
        let mut response = whole(&rich());
        response["status"] = json!(status);
        let failure = read(&response).unwrap_err();
        assert_eq!(failure.message, format!("the model stopped with `{status}` before the answer was whole"));
        assert_eq!(class(&failure), ErrorClass::ModelError);
    }
    let mut silent = whole(&rich());
    silent["status"] = Value::Null;
    assert_eq!(class(&read(&silent).unwrap_err()), ErrorClass::NetworkError);
    assert_eq!(read(&json!({"status": "completed"})).unwrap_err().message, "the answer holds no output");
    let failed = json!({"type": "response.failed", "response": {"status": "failed", "error": null}});
    assert_eq!(class(&streamed(&[failed]).unwrap_err()), ErrorClass::ModelError);
}

#[test]
fn errors_have_their_class_in_every_form() {
    for (code, message, expected) in [
        ("rate_limit_exceeded", "Rate limit reached", ErrorClass::RateLimit),
        ("server_error", "The server had an error", ErrorClass::ModelError),
        ("insufficient_quota", "You exceeded your current quota", ErrorClass::QuotaExceeded),
        (
            "context_length_exceeded",
            "Your input exceeds the context window of this model.",
            ErrorClass::ContextOverflow,
        ),
        ("bio_policy", "This request was stopped", ErrorClass::ContentFilter),
        (
            "invalid_encrypted_content",
            "The encrypted content could not be verified",
            ErrorClass::InvalidRequest,
        ),
    ] {
        let error = json!({"code": code, "message": message});
        let flat =
            json!({"type": "error", "code": code, "message": message, "param": null, "sequence_number": 1});
        let nested = json!({"type": "error", "error": error, "sequence_number": 1});
        let failed = json!({"type": "response.failed", "response": {"status": "failed", "error": error, "output": []}});
        for event in [flat, nested, failed] {
            let failure = streamed(&[events(&rich(), 5)[0].clone(), event.clone()]).unwrap_err();
            assert_eq!((failure.code.as_deref(), failure.message.as_str()), (Some(code), message), "{event}");
            assert_eq!(class(&failure), expected, "{event}");
        }
        let failure = read(&json!({"status": "failed", "error": error, "output": []})).unwrap_err();
        assert_eq!(class(&failure), expected);
    }
}

#[test]
fn items_of_unknown_types_are_kept_and_unknown_events_passed_over() {
    let search =
        json!({"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"query": "lamps"}});
    let mut events = events(&[message("x")], 5);
    let last = events.len() - 1;
    events[last]["response"]["output"].as_array_mut().unwrap().push(search.clone());
    for event in [
        json!({"type": "response.output_item.added", "output_index": 1, "item": {"type": "web_search_call", "id": "ws_1"}}),
        json!({"type": "response.web_search_call.searching", "output_index": 1, "item_id": "ws_1"}),
        json!({"type": "keepalive"}),
        json!({"type": "response.something.new", "delta": {"of": "another type"}, "text": 7}),
        json!({"type": "response.output_item.done", "output_index": 1, "item": search}),
    ] {
        let at = events.len() - 1;
        events.insert(at, event);
    }
    let reply = streamed(&without_numbers(&events)).unwrap();
    assert_eq!((reply.text.as_str(), reply.finish), ("x", FinishReason::Stop));
    assert_eq!(reply.extra["output_responses"]["items"][1], search);
}

#[test]
fn calls_have_ids_of_their_own_whatever_was_sent() {
    let mut nameless = call("", "");
    nameless.as_object_mut().unwrap().remove("name");
    let twice = [call("a", "{}"), call("a", "{}"), nameless];
    let reply = streamed(&events(&twice, 5)).unwrap();
    let calls: Vec<_> = reply
        .calls
        .iter()
        .map(|proposal| (proposal.call.id.as_str(), proposal.call.arguments.as_str()))
        .collect();
    assert_eq!(calls, [("a", "{}"), ("call_2", "{}"), ("call_3", "{}")]);
}

#[test]
fn what_has_come_is_counted_in_characters() {
    let mut items = ReplyItems::of("host main", false, None);
    let events = events(&rich(), 99);
    let mut counts = Vec::new();
    for event in &events {
        let event = SseEvent { name: String::new(), data: event.to_string() };
        items.take(&event, &HeaderMap::new()).unwrap();
        counts.push(items.tally().received);
    }
    assert_eq!(items.tally().fresh, "Let me look. 🦊");
    counts.dedup();
    assert_eq!(counts, [0, 2, 16, 20, 32, 36, 38]);
    assert!(items.tally().kept > 100);
}

#[test]
fn a_refusal_of_reasoning_is_learned_once() {
    let failure = |code: Option<&str>, message: &str| Failure {
        code: code.map(str::to_owned),
        message: message.into(),
        ..Failure::default()
    };
    for refusal in [
        failure(Some("invalid_encrypted_content"), "The encrypted content could not be verified."),
        failure(None, "Item 'rs_1' of type 'reasoning' was provided without its required following item."),
        failure(
            None,
            "Item 'msg_1' of type 'message' was provided without its required 'reasoning' item: 'rs_1'.",
        ),
    ] {
        let format = responses();
        let note = "`main` refused the request, which is sent again without the reasoning of earlier replies";
        assert_eq!(format.learn(&refusal).as_deref(), Some(note));
        assert_eq!(format.learn(&refusal), None);
    }
    assert_eq!(responses().learn(&failure(Some("invalid_prompt"), "Invalid prompt.")), None);
}

#[test]
fn an_answer_with_more_tokens_than_its_limit_is_not_cut_there() {
    for (most, finish) in [(20, FinishReason::Length), (16, FinishReason::Stop), (30, FinishReason::Stop)] {
        let mut body = whole(&[message("hello")]);
        body["max_output_tokens"] = most.into();
        assert_eq!(read(&body).unwrap().finish, finish, "{most}");
    }
}

#[test]
fn a_timeout_of_the_server_is_no_limit() {
    for (reason, is_answer) in [("max_output_tokens", true), ("steered", true), ("server_timeout", false)] {
        let mut body = whole(&[message("hello")]);
        body["status"] = "incomplete".into();
        body["incomplete_details"] = json!({ "reason": reason });
        assert_eq!(read(&body).is_ok(), is_answer, "{reason}");
    }
}

#[test]
fn a_call_that_code_has_made_is_under_way() {
    let made = |arguments: &str, caller: bool| {
        let mut made = call("call_1", arguments);
        made["status"] = "in_progress".into();
        if caller {
            made["caller"] = json!({"type": "program", "caller_id": "call_prog"});
        }
        read(&whole(&[made]))
    };
    assert_eq!(made(r#"{"item": 42}"#, true).unwrap().calls.len(), 1);
    assert!(made(r#"{"item": 42}"#, false).is_err());
    assert!(made(r#"{"item": "#, true).is_err());
}

#[test]
fn an_answer_may_be_an_image_alone() {
    let image =
        json!({"type": "image_generation_call", "id": "ig_1", "status": "completed", "result": "AAAA"});
    assert_eq!(read(&whole(&[image])).unwrap().text, "[an image]");
}

#[test]
fn a_call_that_becomes_something_else_is_none_of_the_clients() {
    let search = json!({"type": "search_results", "queries": ["a"], "results": []});
    let begun = json!({"type": "function_call", "id": "fc_1", "call_id": "c", "name": "search_web", "arguments": "{}", "status": "completed"});
    let events = [
        json!({"type": "response.output_item.added", "output_index": 0, "item": begun}),
        json!({"type": "response.output_item.done", "output_index": 0, "item": search}),
        json!({"type": "response.output_item.done", "output_index": 1, "item": message("Found.")}),
        json!({"type": "response.completed", "response": whole(&[search, message("Found.")])}),
    ];
    let reply = streamed(&events).unwrap();
    assert_eq!((reply.text.as_str(), reply.calls.len()), ("Found.", 0));
    // A call of which arguments came is one.
    let more = json!({"type": "response.function_call_arguments.delta", "output_index": 0, "delta": "{}"});
    assert!(streamed(&[&events[..1], &[more], &events[1..]].concat()).is_err());
}

proptest! {
    #[test]
    fn a_prefix_of_a_stream_is_no_answer_and_its_text_the_beginning_of_the_answer(
        text in "[a-zäö \"\\\\{}🦊]{0,40}",
        arguments in prop::collection::vec("[a-z{}\":]{0,20}", 0..3),
        piece in 1_usize..9,
        end in any::<prop::sample::Index>(),
    ) {
        let calls = arguments.iter().enumerate().map(|(at, arguments)| call(&format!("call_{at}"), arguments));
        let items: Vec<Value> = [reasoning(), message(&text)].into_iter().chain(calls).collect();
        let events = events(&items, piece);
        let reply = streamed(&events).unwrap();
        prop_assert_eq!(&reply, &read(&whole(&items)).unwrap());
        prop_assert_eq!(&reply.text, &text);
        let mut decoder = ReplyItems::of("host main", false, None);
        let end = end.index(events.len());
        let mut shown = String::new();
        for event in &events[..end] {
            let event = SseEvent { name: String::new(), data: event.to_string() };
            prop_assert_eq!(decoder.take(&event, &HeaderMap::new()).unwrap(), StreamProgress::More);
            shown.push_str(&std::mem::take(&mut decoder.tally_mut().fresh));
            prop_assert!(!decoder.is_whole());
        }
        prop_assert!(text.starts_with(&shown));
        prop_assert!(Box::new(decoder).reply(&[]).is_err());
    }
}
