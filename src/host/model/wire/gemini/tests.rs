//! Streams as Gemini sends them, and in every way in which they are none.

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::engine::FinishReason;
use crate::host::model::fuzzed::{gemini, read_as};
use crate::host::model::sse::SseEvent;
use crate::policy::{ErrorClass, Policy};
use crate::session::{ToolCall, Usage};

/// One chunk with these parts.
fn chunk(parts: &Value) -> Value {
    let content = json!({"role": "model", "parts": parts});
    json!({"candidates": [{"index": 0, "content": content}], "modelVersion": "m", "responseId": "r"})
}

/// The last one.
fn last(parts: &Value, reason: &str) -> Value {
    let mut chunk = chunk(parts);
    chunk["candidates"][0]["finishReason"] = reason.into();
    chunk["usageMetadata"] = json!({
        "promptTokenCount": 50, "cachedContentTokenCount": 30, "candidatesTokenCount": 8, "thoughtsTokenCount": 12,
        "toolUsePromptTokenCount": 5, "totalTokenCount": 75,
    });
    chunk
}

fn call(id: Option<&str>, item: u64) -> Value {
    let mut call = json!({"name": "look", "args": {"item": item}});
    if let Some(id) = id {
        call["id"] = id.into();
    }
    json!({ "functionCall": call })
}

fn signed_call() -> Value {
    let mut part = call(None, 42);
    part["thoughtSignature"] = "c2ln".into();
    part
}

/// The same answer in chunks.
fn rich() -> Vec<Value> {
    let early = json!({"promptTokenCount": 50, "totalTokenCount": 50});
    let mut first = chunk(&json!([{"text": "h", "thought": true}]));
    first["usageMetadata"] = early;
    vec![
        first,
        chunk(&json!([{"text": "m", "thought": true}])),
        chunk(&json!([{"text": "Let me "}])),
        chunk(&json!([{"text": "look. 🦊"}])),
        chunk(&json!([signed_call()])),
        chunk(&json!([call(Some("b"), 7)])),
        last(&json!([{"text": ""}]), "STOP"),
    ]
}

fn bytes(chunks: &[Value]) -> Vec<u8> {
    let events: Vec<String> = chunks.iter().map(|chunk| format!("data: {chunk}\r\n\r\n")).collect();
    events.concat().into_bytes()
}

fn streamed(chunks: &[Value]) -> Result<ModelReply, Failure> {
    read_as(&gemini(), "text/event-stream", &[&bytes(chunks)])
}

fn read(body: &Value) -> Result<ModelReply, Failure> {
    read_as(&gemini(), "application/json", &[body.to_string().as_bytes()])
}

fn class(failure: &Failure) -> ErrorClass {
    failure.classified(&Policy::builtin()).class
}

#[test]
fn an_answer_is_the_same_whole_streamed_and_as_a_list() {
    let call_of = |id: &str, item: u64| {
        let arguments = json!({"item": item}).to_string();
        ToolCall { id: id.into(), name: "look".into(), arguments }.into()
    };
    let kept = json!({"issuer": "host main", "items": [
        {"text": "hm", "thought": true},
        {"chars": 14},
        {"functionCall": {}, "thoughtSignature": "c2ln", "call": "call_1"},
        {"functionCall": {"id": "b"}, "call": "b"},
    ]});
    let expected = ModelReply {
        text: "Let me look. 🦊".into(),
        calls: vec![call_of("call_1", 42), call_of("b", 7)],
        finish: FinishReason::ToolCalls,
        usage: Some(Usage { input: 55, output: 20, cache_read: 30, cache_write: 0, reasoning: 12 }),
        extra: [("thinking_gemini".to_owned(), kept)].into_iter().collect(),
        ..ModelReply::default()
    };
    let parts = json!([
        {"text": "hm", "thought": true}, {"text": "Let me look. 🦊"}, signed_call(), call(Some("b"), 7),
    ]);
    assert_eq!(read(&last(&parts, "STOP")).unwrap(), expected);
    assert_eq!(streamed(&rich()).unwrap(), expected);
    assert_eq!(read(&Value::Array(rich())).unwrap(), expected);
}

#[test]
fn a_made_id_is_none_that_the_conversation_has() {
    let calls = vec![ToolCall { id: "call_2".into(), name: "look".into(), arguments: "{}".into() }];
    let before = [Message::Assistant { text: String::new(), calls, extra: Map::new() }];
    let body = last(&json!([call(None, 1), call(None, 1), call(Some("call_2"), 1)]), "STOP").to_string();
    let reply = gemini().read(body.as_bytes(), &HeaderMap::new(), &before).unwrap();
    let ids: Vec<_> = reply.calls.iter().map(|proposal| proposal.call.id.as_str()).collect();
    assert_eq!(ids, ["call_3", "call_4", "call_5"]);
}

#[test]
fn the_answer_does_not_depend_on_how_its_bytes_arrive_and_no_cut_is_taken_for_an_end() {
    let bytes = bytes(&rich());
    let expected = streamed(&rich()).unwrap();
    // The last chunk is the only one with a reason: before it ends, nothing is whole.
    let whole = bytes.len() - "\r\n\r\n".len();
    for at in 0..bytes.len() {
        let (before, after) = bytes.split_at(at);
        let split = read_as(&gemini(), "text/event-stream", &[before, after]).unwrap();
        assert_eq!(split, expected, "split at {at}");
        let cut = read_as(&gemini(), "text/event-stream", &[before]);
        match cut {
            Ok(reply) => assert!(at >= whole && reply == expected, "cut at {at}: {reply:?}"),
            Err(failure) => assert_eq!(class(&failure), ErrorClass::NetworkError, "cut at {at}: {failure:?}"),
        }
    }
    let body = Value::Array(rich()).to_string();
    for at in 0..body.len() {
        let cut = read_as(&gemini(), "application/json", &[&body.as_bytes()[..at]]);
        assert!(cut.is_err(), "cut at {at}");
    }
}

#[test]
fn a_stream_without_a_reason_is_cut() {
    let mut chunks = rich();
    chunks.pop();
    for end in ["", "data: [DONE]\n\n"] {
        let mut bytes = bytes(&chunks);
        bytes.extend_from_slice(end.as_bytes());
        let failure = read_as(&gemini(), "text/event-stream", &[&bytes]).unwrap_err();
        assert_eq!(failure.message, "the stream of the answer ends in the middle");
        assert_eq!(class(&failure), ErrorClass::NetworkError);
    }
    for reason in [Value::Null, json!(""), json!("FINISH_REASON_UNSPECIFIED"), json!({}), json!([]), json!(7)]
    {
        let mut body = last(&json!([{"text": "x"}]), "STOP");
        body["candidates"][0]["finishReason"] = reason;
        let failure = read(&body).unwrap_err();
        assert_eq!(failure.message, "the answer has no `finishReason`, so it may be cut");
        assert!(streamed(&[body]).is_err());
    }
}

#[test]
fn a_chunk_in_a_wrong_place_is_no_answer() {
    let said = |chunks: &[Value]| streamed(chunks).unwrap_err();
    for at in 2..6 {
        let mut moved = rich();
        let end = moved.pop().unwrap();
        moved.insert(at, end);
        let failure = said(&moved);
        assert_eq!(failure.message, "the stream of the answer ends in the middle");
        assert_eq!(class(&failure), ErrorClass::NetworkError);
    }
    let mut twice = rich();
    twice.insert(5, twice[5].clone());
    assert_eq!(said(&twice).message, "the stream of the answer has a function call twice");
    let mut repeated = rich();
    repeated.push(repeated[6].clone());
    assert_eq!(streamed(&repeated), streamed(&rich()));
}

#[test]
fn the_last_end_counts_and_what_follows_an_end_opens_the_answer_again() {
    let (code, ran) = (
        json!({"executableCode": {"language": "PYTHON", "code": "print(1)"}}),
        json!({"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1\n"}}),
    );
    let rounds = [
        chunk(&json!([{"text": "hm", "thought": true}, code])),
        last(&json!([ran]), "STOP"),
        chunk(&json!([{"text": "It is 1."}])),
        last(&json!([{"text": "", "thoughtSignature": "c2ln"}]), "STOP"),
    ];
    assert_eq!(streamed(&rounds).unwrap().text, "It is 1.");
    assert_eq!(read(&Value::Array(rounds.to_vec())).unwrap().text, "It is 1.");
    for end in 1..rounds.len() {
        for failure in [streamed(&rounds[..end]), read(&Value::Array(rounds[..end].to_vec()))] {
            assert_eq!(class(&failure.unwrap_err()), ErrorClass::NetworkError, "{end}");
        }
    }
    // A text before the code is not the answer.
    let said_before = [chunk(&json!([{"text": "Let me see: "}])), last(&json!([code]), "STOP")];
    for failure in [streamed(&said_before), read(&Value::Array(said_before.to_vec()))] {
        assert_eq!(class(&failure.unwrap_err()), ErrorClass::NetworkError);
    }
    let whole = [&said_before[..], &[last(&json!([ran, {"text": "1."}]), "STOP")]].concat();
    assert_eq!(streamed(&whole).unwrap().text, "Let me see: 1.");
    let empty_first =
        [last(&json!([]), "STOP"), chunk(&json!([{"text": "x"}])), last(&json!([]), "MAX_TOKENS")];
    let reply = streamed(&empty_first).unwrap();
    assert_eq!((reply.text.as_str(), reply.finish), ("x", FinishReason::Length));
    assert!(streamed(&empty_first[..2]).is_err());
    let at_each = [last(&json!([{"text": "x"}]), "STOP"), last(&json!([{"text": "y"}]), "STOP")];
    assert_eq!(streamed(&at_each).unwrap().text, "xy");
}

#[test]
fn what_is_of_another_type_is_no_answer() {
    let wrong = [json!(7), json!("x"), json!([1]), json!(true)];
    for value in &wrong {
        let mut bodies = vec![json!({"candidates": value}), json!({"candidates": [value]})];
        let candidate =
            |content: Value| json!({"candidates": [{"content": content, "finishReason": "STOP"}]});
        bodies.push(candidate(value.clone()));
        bodies.push(candidate(json!({"parts": value})));
        bodies.push(candidate(json!({"parts": [value]})));
        bodies.push(candidate(json!({"parts": [{"functionCall": value}]})));
        if !value.is_string() {
            bodies.push(candidate(json!({"parts": [{"text": value}]})));
            bodies.push(candidate(json!({"parts": [{"functionCall": {"name": "look", "args": value}}]})));
            bodies.push(candidate(json!({"parts": [{"functionCall": {"name": value}}]})));
        }
        bodies.push(json!([value]));
        for body in bodies {
            for read in [read(&body), streamed(std::slice::from_ref(&body))] {
                let failure = read.expect_err(&body.to_string());
                let found = class(&failure);
                assert!(
                    matches!(found, ErrorClass::ModelError | ErrorClass::NetworkError),
                    "{body}: {failure:?}"
                );
            }
        }
    }
    let pieces = json!([{"functionCall": {"name": "look", "willContinue": true}}]);
    let failure = streamed(&[last(&pieces, "STOP")]).unwrap_err();
    assert!(failure.message.ends_with("leave out `streamFunctionCallArguments`"), "{}", failure.message);
    assert_eq!(read(&json!({"candidates": []})).unwrap_err().message, "the answer holds no candidates");
}

#[test]
fn an_answer_may_be_images_alone() {
    let part = |mime: &str| json!({"inlineData": {"mimeType": mime, "data": "AAAA"}});
    for (parts, text) in [
        (json!([part("image/png")]), "[an image]"),
        (json!([part("image/png"), {"text": "Look."}]), "Look."),
        (json!([part("audio/pcm")]), ""),
    ] {
        assert_eq!(read(&last(&parts, "STOP")).unwrap().text, text);
        assert_eq!(streamed(&[last(&parts, "STOP")]).unwrap().text, text);
    }
}

#[test]
fn each_end_has_its_meaning() {
    let text = json!([{"text": "x"}]);
    for (reason, finish) in [
        ("STOP", FinishReason::Stop),
        ("MAX_TOKENS", FinishReason::Length),
        ("CONTINUATION", FinishReason::Length),
        ("SAFETY", FinishReason::ContentFilter),
        ("MODEL_ARMOR", FinishReason::ContentFilter),
        ("OTHER", FinishReason::Other("OTHER".into())),
        ("NEW_WORD", FinishReason::Other("NEW_WORD".into())),
    ] {
        assert_eq!(read(&last(&text, reason)).unwrap().finish, finish, "{reason}");
        assert_eq!(streamed(&[last(&text, reason)]).unwrap().finish, finish, "{reason}");
    }
    for (reason, expected) in [
        ("MALFORMED_FUNCTION_CALL", ErrorClass::MalformedToolCall),
        ("UNEXPECTED_TOOL_CALL", ErrorClass::MalformedToolCall),
        ("MALFORMED_RESPONSE", ErrorClass::ModelError),
        ("NO_IMAGE", ErrorClass::ModelError),
        ("IMAGE_OTHER", ErrorClass::ModelError),
        ("TOO_MANY_TOOL_CALLS", ErrorClass::ModelError),
        ("MISSING_THOUGHT_SIGNATURE", ErrorClass::InvalidRequest),
    ] {
        let mut body = last(&json!([]), reason);
        body["candidates"][0]["finishMessage"] = "print(look())".into();
        let failure = read(&body).unwrap_err();
        assert_eq!(class(&failure), expected, "{reason}");
        assert!(
            failure.message.ends_with("before the answer was whole: print(look())"),
            "{}",
            failure.message
        );
    }
}

#[test]
fn a_blocked_prompt_is_a_refusal_of_the_filter() {
    let blocked = json!({"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}, "usageMetadata": {"promptTokenCount": 5}});
    for read in [read(&blocked), streamed(std::slice::from_ref(&blocked))] {
        let failure = read.unwrap_err();
        assert_eq!(failure.message, "the provider blocked the prompt with `PROHIBITED_CONTENT`");
        assert_eq!(class(&failure), ErrorClass::ContentFilter);
    }
    let fine = json!({"promptFeedback": {"safetyRatings": []}});
    assert_eq!(streamed(&[fine, last(&json!([{"text": "x"}]), "STOP")]).unwrap().text, "x");
}

#[test]
fn an_error_in_a_stream_is_left_to_the_table() {
    let error =
        json!({"error": {"code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE"}});
    for data in [error.clone(), json!([error])] {
        let failure = streamed(&[rich()[2].clone(), data]).unwrap_err();
        assert_eq!((failure.status, class(&failure)), (Some(503), ErrorClass::Overloaded), "{failure:?}");
    }
}

#[test]
fn of_several_candidates_the_first_counts() {
    let mut body = last(&json!([{"text": "x"}]), "STOP");
    let mut other = last(&json!([{"text": "y"}]), "MAX_TOKENS")["candidates"][0].clone();
    other["index"] = 1.into();
    body["candidates"].as_array_mut().unwrap().insert(0, other);
    let reply = read(&body).unwrap();
    assert_eq!((reply.text.as_str(), reply.finish), ("x", FinishReason::Stop));
}

#[test]
fn what_has_come_is_counted_in_characters() {
    let mut parts = ReplyParts::of("host main");
    let mut counts = Vec::new();
    for chunk in rich() {
        let event = SseEvent { name: String::new(), data: chunk.to_string() };
        parts.take(&event, &HeaderMap::new()).unwrap();
        counts.push(parts.tally().received);
    }
    assert_eq!(counts, [1, 2, 9, 16, 31, 45, 45]);
    assert_eq!(parts.tally().fresh, "Let me look. 🦊");
    assert!(parts.tally().kept > 100);
}

proptest! {
    #[test]
    fn a_text_in_any_pieces_is_the_same_text(pieces in prop::collection::vec("[a-zäö \"\\\\{}🦊]{0,9}", 0..9)) {
        let mut chunks: Vec<Value> = pieces.iter().map(|piece| chunk(&json!([{"text": piece}]))).collect();
        chunks.push(last(&json!([]), "STOP"));
        let reply = streamed(&chunks).unwrap();
        prop_assert_eq!(&reply.text, &pieces.concat());
        prop_assert!(reply.extra.is_empty());
        for end in 0..pieces.len() {
            prop_assert!(streamed(&chunks[..end]).is_err());
        }
    }
}

#[test]
fn the_output_is_what_the_total_has_besides_the_prompt() {
    for (tokens, output, reasoning) in [
        (json!({"promptTokenCount": 50, "totalTokenCount": 75}), 25, 0),
        (json!({"promptTokenCount": 50, "toolUsePromptTokenCount": 5, "totalTokenCount": 75}), 20, 0),
        (json!({"promptTokenCount": 50, "thoughtsTokenCount": 12, "totalTokenCount": 75}), 25, 12),
        (json!({"promptTokenCount": 50, "candidatesTokenCount": 8, "totalTokenCount": 75}), 8, 0),
        (json!({"totalTokenCount": 75}), 0, 0),
        (json!({"promptTokenCount": 90, "totalTokenCount": 75}), 0, 0),
    ] {
        let mut body = last(&json!([{"text": "x"}]), "STOP");
        body["usageMetadata"] = tokens.clone();
        let body = body.to_string();
        let reply = stream::read_body(body.as_bytes(), &HeaderMap::new(), &[], "host main").unwrap();
        let usage = reply.usage.unwrap();
        assert_eq!((usage.output, usage.reasoning), (output, reasoning), "{tokens}");
    }
}
