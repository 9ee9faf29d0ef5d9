//! What an answer says beside its message, in every dialect, whole and streamed; and that none of it is sent.

use reqwest::header::HeaderMap;
use serde_json::json;

use super::*;
use crate::engine::ModelReply;
use crate::host::model::fuzzed::{chat, gemini, messages, request, responses};
use crate::host::model::sse::SseEvent;
use crate::host::model::wire::WireFormat;
use crate::host::model::wire::anthropic::MessagesFormat;
use crate::host::model::wire::kept::entries_weight;
use crate::session::Message;

/// An answer in one dialect: its body, its events, and what is kept of it.
struct Said {
    format: Box<dyn WireFormat>,
    body: Value,
    events: Vec<(&'static str, Value)>,
    kept: Value,
}

fn map(fields: Value) -> Map<String, Value> {
    let Value::Object(fields) = fields else { panic!("{fields}") };
    fields
}

/// A value with these fields too.
fn with(mut value: Value, more: &Value) -> Value {
    let all = value.as_object_mut().unwrap();
    all.extend(map(more.clone()));
    value
}

fn read(format: &dyn WireFormat, body: &Value) -> ModelReply {
    format.read(body.to_string().as_bytes(), &HeaderMap::new(), &[]).unwrap()
}

fn streamed(format: &dyn WireFormat, events: &[(&str, Value)]) -> ModelReply {
    let mut stream = format.begin();
    for (name, data) in events {
        let event = SseEvent { name: (*name).to_owned(), data: data.to_string() };
        stream.take(&event, &HeaderMap::new()).unwrap();
    }
    stream.reply(&[]).unwrap()
}

fn in_chat() -> Said {
    let call = |function: Value| json!([{"index": 0, "id": "a", "type": "function", "function": function}]);
    let strict = json!({"name": "look", "arguments": "{}", "strict": "beside"});
    let filter = json!({"hate": {"filtered": false, "severity": "beside"}});
    let found = json!([{"url": "beside"}]);
    let likely = |tokens: &[&str]| json!({"content": tokens, "refusal": null});
    let head =
        json!({"id": "c", "created": 1, "model": "m", "system_fingerprint": "f", "provider": "beside"});
    let message = json!({"role": "assistant", "content": "x", "tool_calls": call(strict.clone())});
    let choice = json!({
        "index": 0, "message": message, "finish_reason": "tool_calls", "native_finish_reason": "beside",
        "logprobs": likely(&["beside", "beside 2"]), "content_filter_results": filter, "stop_reason": null,
    });
    let top = json!({
        "citations": ["beside"], "search_results": found, "prompt_filter_results": [filter], "service_tier": "flex",
        "x_groq": {"id": "beside"},
    });
    let piece = |delta: Value, more: &Value| json!([with(json!({"index": 0, "delta": delta}), more)]);
    let events = vec![
        with(head.clone(), &json!({"choices": [], "prompt_filter_results": [filter]})),
        with(
            head.clone(),
            &json!({
                "choices": piece(json!({"content": "x"}), &json!({"logprobs": likely(&["beside"]), "content_filter_results": {}})),
                "citations": ["earlier"],
            }),
        ),
        // Nothing but what every server sends.
        json!({
            "object": "chat.completion.chunk", "service_tier": "flex", "obfuscation": "padding",
            "choices": piece(json!({"tool_calls": call(strict)}), &json!({"logprobs": null})),
        }),
        json!({
            "object": "chat.completion.chunk",
            "choices": piece(json!({}), &json!({"logprobs": likely(&["beside 2"]), "content_filter_results": filter})),
        }),
        with(
            head.clone(),
            &json!({
                "choices": piece(json!({}), &json!({"finish_reason": "tool_calls", "native_finish_reason": "beside"})),
                "citations": ["beside"], "search_results": found, "x_groq": {"id": "beside"},
            }),
        ),
    ];
    Said {
        format: Box::new(chat()),
        body: with(with(head, &top), &json!({"object": "chat.completion", "choices": [choice]})),
        events: events.into_iter().map(|event| ("", event)).collect(),
        kept: with(
            top,
            &json!({
                "provider": "beside", "native_finish_reason": "beside", "logprobs": likely(&["beside", "beside 2"]),
                "content_filter_results": filter, "tool_calls": {"a": {"function": {"strict": "beside"}}},
            }),
        ),
    }
}

fn in_messages() -> Said {
    let text = json!({"type": "text", "text": "x"});
    let kept = json!({
        "stop_sequence": "beside", "container": {"id": "container_1", "expires_at": "beside"},
        "context_management": {"applied_edits": ["beside"]},
    });
    let head =
        json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "stop_details": null});
    let stop = |field: &str| kept[field].clone();
    let (sequence, container, edits) = (stop("stop_sequence"), stop("container"), stop("context_management"));
    let delta = json!({"stop_reason": "stop_sequence", "stop_sequence": sequence, "container": container});
    let start = with(head.clone(), &json!({"content": [], "container": null, "context_management": null}));
    let body = with(with(head, &kept), &json!({"content": [text], "stop_reason": "stop_sequence"}));
    Said {
        format: Box::new(messages()),
        body,
        events: vec![
            ("message_start", json!({"type": "message_start", "message": start})),
            (
                "content_block_start",
                json!({"type": "content_block_start", "index": 0, "content_block": text}),
            ),
            ("content_block_stop", json!({"type": "content_block_stop", "index": 0})),
            ("message_delta", json!({"type": "message_delta", "delta": delta, "context_management": edits})),
            ("message_stop", json!({"type": "message_stop"})),
        ],
        kept,
    }
}

fn in_responses() -> Said {
    let item = |status: &str, content: Value| json!({"type": "message", "id": "msg_1", "status": status, "content": content});
    let whole = item("completed", json!([{"type": "output_text", "text": "x", "annotations": []}]));
    let kept = json!({"service_tier": "flex", "content_filters": [{"blocked": "beside"}]});
    let body = json!({
        "id": "resp_1", "object": "response", "status": "completed", "error": null, "output": [whole], "model": "m",
        "instructions": "be brief", "tools": [{"type": "function"}], "temperature": 1, "text": {"format": {}},
    });
    let body = with(body, &kept);
    let place = |kind: &str, item: Value| json!({"type": kind, "output_index": 0, "item": item});
    Said {
        format: Box::new(responses()),
        events: vec![
            ("", place("response.output_item.added", item("in_progress", json!([])))),
            ("", place("response.output_item.done", whole)),
            ("", json!({"type": "response.completed", "response": body})),
        ],
        body,
        kept,
    }
}

fn in_gemini() -> Said {
    let found = json!(["beside"]);
    let kept = json!({
        "groundingMetadata": {"webSearchQueries": found, "groundingChunks": found},
        "citationMetadata": {"citations": ["beside", "beside 2"]}, "urlContextMetadata": {"urlMetadata": found},
        "safetyRatings": found, "avgLogprobs": -0.5, "logprobsResult": {"chosenCandidates": ["beside", "beside 2"]},
    });
    let candidate = |text: &str, more: &Value| {
        with(json!({"index": 0, "content": {"role": "model", "parts": [{"text": text}]}}), more)
    };
    let feedback = json!({"safetyRatings": found});
    let head = json!({"modelVersion": "m", "responseId": "r", "createTime": "now"});
    let end = json!({"finishReason": "STOP"});
    let first = json!({
        "groundingMetadata": {"webSearchQueries": found, "groundingChunks": ["earlier"]}, "safetyRatings": ["earlier"],
        "citationMetadata": {"citations": ["beside"]}, "logprobsResult": {"chosenCandidates": ["beside"]},
    });
    let mut second = with(kept.clone(), &end);
    second["groundingMetadata"] = json!({"groundingChunks": found});
    second["citationMetadata"] = json!({"citations": ["beside 2"]});
    second["logprobsResult"] = json!({"chosenCandidates": ["beside 2"]});
    let whole =
        json!({"candidates": [candidate("x", &with(kept.clone(), &end))], "promptFeedback": feedback});
    Said {
        format: Box::new(gemini()),
        body: with(head.clone(), &whole),
        events: vec![
            (
                "",
                with(
                    head.clone(),
                    &json!({"candidates": [candidate("x", &first)], "promptFeedback": feedback}),
                ),
            ),
            ("", with(head, &json!({"candidates": [candidate("", &second)]}))),
        ],
        kept: with(kept, &json!({ "promptFeedback": feedback })),
    }
}

#[cfg(feature = "bedrock")]
fn in_converse() -> Said {
    let more = json!({"additionalModelResponseFields": {"stop_sequence": "beside"}});
    let about = json!({
        "metrics": {"latencyMs": 7}, "trace": {"guardrail": {"modelOutput": ["beside"]}},
        "performanceConfig": {"latency": "optimized"},
    });
    let message = json!({"role": "assistant", "content": [{"text": "x"}]});
    let usage = json!({"inputTokens": 1, "outputTokens": 1});
    let body = json!({"output": {"message": message}, "stopReason": "end_turn", "usage": usage});
    Said {
        format: Box::new(crate::host::model::fuzzed::converse()),
        body: with(with(body, &more), &about),
        events: vec![
            ("messageStart", json!({"role": "assistant", "p": "abc"})),
            ("contentBlockDelta", json!({"contentBlockIndex": 0, "delta": {"text": "x"}, "p": "abc"})),
            ("contentBlockStop", json!({"contentBlockIndex": 0, "p": "abc"})),
            ("messageStop", with(json!({"stopReason": "end_turn", "p": "abc"}), &more)),
            ("metadata", with(json!({"usage": usage, "p": "abc"}), &about)),
        ],
        kept: with(more, &about),
    }
}

fn all() -> Vec<Said> {
    vec![
        in_chat(),
        in_messages(),
        in_responses(),
        in_gemini(),
        #[cfg(feature = "bedrock")]
        in_converse(),
    ]
}

#[test]
fn what_stands_above_the_message_is_kept_whole_and_streamed() {
    for Said { format, body, events, kept } in all() {
        for reply in [read(&*format, &body), streamed(&*format, &events)] {
            assert_eq!(reply.text, "x", "{body}");
            assert_eq!(reply.extra[ANSWER_FIELDS], json!({"issuer": "host main", "fields": kept}), "{body}");
        }
    }
}

#[test]
fn nothing_of_it_is_sent_to_anybody() {
    for Said { format, body, events, .. } in all() {
        for reply in [read(&*format, &body), streamed(&*format, &events)] {
            let calls = reply.calls.into_iter().map(|proposal| proposal.call).collect();
            let reply = Message::Assistant { text: reply.text, calls, extra: reply.extra };
            let conversation = [Message::user("go"), reply, Message::user("on")];
            for Said { format: other, .. } in all() {
                let sent = String::from_utf8(other.write(&request(&conversation)).unwrap()).unwrap();
                assert!(!sent.contains("beside") && !sent.contains(ANSWER_FIELDS), "{sent}");
                assert_eq!(other.left_out(&conversation), Vec::<String>::new());
            }
        }
    }
}

#[test]
fn a_container_goes_back_to_who_has_it() {
    let Said { format, body, .. } = in_messages();
    let said =
        |reply: ModelReply| Message::Assistant { text: reply.text, calls: Vec::new(), extra: reply.extra };
    let later = json!({"content": [{"type": "text", "text": "y"}], "stop_reason": "end_turn"});
    let conversation = [
        Message::user("go"),
        said(read(&*format, &body)),
        Message::user("on"),
        said(read(&*format, &later)),
        Message::user("on"),
    ];
    let sent = |format: MessagesFormat| -> Value {
        serde_json::from_slice(&format.write(&request(&conversation)).unwrap()).unwrap()
    };
    assert_eq!(sent(messages())["container"], "container_1");
    assert_eq!(sent(MessagesFormat { issuer: "elsewhere main".into(), ..messages() }).get("container"), None);
    // The agent has the last word.
    let skills = json!([{"type": "anthropic", "skill_id": "pptx"}]);
    for (written, expected) in [
        (json!("other"), json!("other")),
        (json!({"id": "other"}), json!({"id": "other"})),
        (json!({ "skills": skills }), json!({"skills": skills, "id": "container_1"})),
        (Value::Null, Value::Null),
    ] {
        let extra = map(json!({ "container": written }));
        assert_eq!(sent(MessagesFormat { extra, ..messages() })["container"], expected, "{written}");
    }
}

#[test]
fn lists_that_come_in_pieces_grow_and_all_else_is_replaced() {
    let mut fields = AnswerFields::default();
    let mut first =
        json!({"logprobs": {"content": [1], "refusal": null}, "citations": ["a", "b"], "id": "x"});
    let kept = fields.take(&mut first, &["id"], 0);
    assert_eq!((kept, first), (entries_weight(&fields.0), json!({"id": "x"})));
    let second = json!({"logprobs": {"content": [2]}, "citations": ["c"], "token_ids": [7], "none": null, "empty": {}});
    let kept = fields.add(map(second), kept);
    let kept = fields.add(map(json!({"token_ids": [8], "citations": []})), kept);
    let kept = fields.take_word("service_tier", Some("flex"), kept);
    let kept = fields.take_word("service_tier", Some("default"), kept);
    let expected = json!({
        "logprobs": {"content": [1, 2], "refusal": null}, "citations": ["c"], "token_ids": [7, 8], "service_tier": "default",
    });
    assert_eq!(Value::Object(fields.0.clone()), expected);
    assert_eq!(kept, entries_weight(&fields.0));
    // A long answer is not too large for what is said of its tokens.
    fields.add(map(json!({"token_ids": [9], "citations": ["d"]})), MOST);
    assert_eq!((&fields.0["token_ids"], &fields.0["citations"]), (&json!([7, 8]), &json!(["d"])));
}

#[test]
fn what_a_stream_keeps_of_it_counts() {
    let long = "beside".repeat(100);
    for (format, name, data) in [
        (Box::new(chat()) as Box<dyn WireFormat>, "", json!({"choices": [], "citations": [long]})),
        (Box::new(messages()), "message_start", json!({"message": {"container": {"id": long}}})),
        (Box::new(gemini()), "", json!({"candidates": [], "promptFeedback": {"safetyRatings": [long]}})),
        #[cfg(feature = "bedrock")]
        (Box::new(crate::host::model::fuzzed::converse()), "metadata", json!({"trace": {"said": long}})),
    ] {
        let mut stream = format.begin();
        let event = SseEvent { name: name.to_owned(), data: data.to_string() };
        stream.take(&event, &HeaderMap::new()).unwrap();
        assert!(stream.tally().kept > long.len(), "{data}");
    }
}
