//! Answers of every provider, as a client of every other dialect reads them.

use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use serde_json::{Value, json};

use super::events::RelayedEvents;
use super::mask::AnswerMask;
use super::verdict::fault_of;
use super::{ConvertedRequest, RelayedModel, SentBody};
use crate::engine::{Failure, FinishReason, ModelReply};
use crate::host::model::config::{ModelConfig, Provider};
use crate::host::model::front::GatewayDialect::{self, Chat, Gemini, Messages, Responses};
use crate::host::model::front::{FrontCall, ReplyHead};
use crate::host::model::fuzzed::read_as;
use crate::policy::ErrorClass;
use crate::session::Usage;

const DIALECTS: [(GatewayDialect, &Provider); 4] = [
    (Chat, Provider::OPENAI),
    (Messages, Provider::ANTHROPIC),
    (Responses, Provider::RESPONSES),
    (Gemini, Provider::GEMINI),
];

/// A streamed answer of a provider.
struct ProviderStream {
    provider: &'static Provider,
    kind: &'static str,
    bytes: Vec<u8>,
}

/// What the model says, besides its text.
#[derive(Clone, Copy)]
enum Said {
    /// Nothing; a text comes after a thought, and the tokens after the end.
    Thought,
    /// It says no.
    Refusal,
    /// The text is cut at the most tokens of a reply.
    Cut,
    /// It has said nothing at all.
    Silence,
    /// It has thought, and said nothing.
    ThoughtAlone,
}

/// A request of a client of that dialect.
pub(super) fn front(dialect: GatewayDialect) -> FrontCall {
    let body = match dialect {
        Chat => {
            r#"{"messages":[{"role":"user","content":"hi"}],"stream":true,"stream_options":{"include_usage":true}}"#
        }
        Messages => r#"{"messages":[{"role":"user","content":"hi"}]}"#,
        Responses => r#"{"input":"hi"}"#,
        Gemini => r#"{"contents":[{"parts":[{"text":"hi"}]}]}"#,
    };
    let head = ReplyHead { model: "m".into(), id: "1".into(), created: 7 };
    FrontCall::read(dialect, body.as_bytes(), true, head).unwrap()
}

/// A request for a model of that provider.
pub(super) fn converting<'a>(front: &'a FrontCall, provider: &'static Provider) -> ConvertedRequest<'a> {
    let format = (provider.format)(ModelConfig::new(provider, "m"));
    ConvertedRequest {
        body: SentBody::default(),
        front,
        format,
        left_out: Vec::new(),
        opened: false,
        instructs: false,
        sent: Vec::new(),
        repairs: false,
    }
}

fn events(provider: &'static Provider, events: &[Value]) -> ProviderStream {
    let event = |event: &Value| match event["type"].as_str() {
        Some(name) => format!("event: {name}\ndata: {event}\n\n"),
        None => format!("data: {event}\n\n"),
    };
    let mut bytes = events.iter().map(event).collect::<String>();
    if provider.name() == "openai" {
        bytes += "data: [DONE]\n\n";
    }
    ProviderStream { provider, kind: "text/event-stream", bytes: bytes.into_bytes() }
}

fn of_openai(said: Said) -> ProviderStream {
    let chunk = |delta: Value| json!({"choices": [{"index": 0, "delta": delta, "finish_reason": null}]});
    let end = |reason: &str| json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]});
    let (thought, text) = (chunk(json!({"reasoning_content": "hm"})), chunk(json!({"content": "hello"})));
    let usage = json!({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2}});
    let all = match said {
        Said::Thought => vec![thought, text, end("stop"), usage],
        Said::Refusal => vec![text, end("content_filter"), usage],
        Said::Cut => vec![text, end("length"), usage],
        Said::Silence => vec![end("stop"), usage],
        Said::ThoughtAlone => vec![thought, end("stop"), usage],
    };
    events(Provider::OPENAI, &all)
}

fn of_anthropic(said: Said) -> ProviderStream {
    let begun = json!({"type": "message_start", "message": {"content": [], "usage": {"input_tokens": 3, "output_tokens": 0}}});
    let block = |index: u32, block: Value, deltas: &[Value]| {
        let start = json!({"type": "content_block_start", "index": index, "content_block": block});
        let delta = |delta: &Value| json!({"type": "content_block_delta", "index": index, "delta": delta});
        let stop = json!({"type": "content_block_stop", "index": index});
        let all: Vec<Value> = [start].into_iter().chain(deltas.iter().map(delta)).chain([stop]).collect();
        all
    };
    let thought = block(
        0,
        json!({"type": "thinking", "thinking": "", "signature": ""}),
        &[
            json!({"type": "thinking_delta", "thinking": "hm"}),
            json!({"type": "signature_delta", "signature": "c2ln"}),
        ],
    );
    let text = |index| {
        block(index, json!({"type": "text", "text": ""}), &[json!({"type": "text_delta", "text": "hello"})])
    };
    let (content, reason) = match said {
        Said::Thought => ([thought, text(1)].concat(), "end_turn"),
        Said::Refusal => (text(0), "refusal"),
        Said::Cut => (text(0), "max_tokens"),
        Said::Silence => (Vec::new(), "end_turn"),
        Said::ThoughtAlone => (thought, "end_turn"),
    };
    let end =
        json!({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 2}});
    let all: Vec<Value> =
        [begun].into_iter().chain(content).chain([end, json!({"type": "message_stop"})]).collect();
    events(Provider::ANTHROPIC, &all)
}

fn of_responses(said: Said) -> ProviderStream {
    let thought = json!({"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "hm"}], "encrypted_content": "c2ln"});
    let message = |part: Value| json!({"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [part]});
    let text = message(json!({"type": "output_text", "text": "hello", "annotations": []}));
    let refusal = message(json!({"type": "refusal", "refusal": "hello"}));
    let (items, status, details) = match said {
        Said::Thought => (vec![thought, text], "completed", Value::Null),
        Said::Refusal => (vec![refusal], "completed", Value::Null),
        Said::Cut => (vec![text], "incomplete", json!({"reason": "max_output_tokens"})),
        Said::Silence => (Vec::new(), "completed", Value::Null),
        Said::ThoughtAlone => (vec![thought], "completed", Value::Null),
    };
    let mut all =
        vec![json!({"type": "response.created", "response": {"status": "in_progress", "output": []}})];
    for (at, item) in items.iter().enumerate() {
        all.push(json!({"type": "response.output_item.added", "output_index": at, "item": item}));
        all.push(json!({"type": "response.output_item.done", "output_index": at, "item": item}));
    }
    let usage = json!({"input_tokens": 3, "output_tokens": 2, "total_tokens": 5});
    let response = json!({"status": status, "incomplete_details": details, "error": null, "output": items, "usage": usage});
    all.push(json!({"type": format!("response.{status}"), "response": response}));
    events(Provider::RESPONSES, &all)
}

fn of_gemini(said: Said) -> ProviderStream {
    // A second candidate that nobody has asked for is ignored.
    let piece = |part: Value| {
        json!({"candidates": [
            {"index": 0, "content": {"role": "model", "parts": [part]}},
            {"index": 1, "content": {"role": "model", "parts": [{"text": "another"}]}},
        ]})
    };
    let end = |reason: &str| json!({"candidates": [{"index": 0, "finishReason": reason}, {"index": 1, "finishReason": "STOP"}]});
    let thought = piece(json!({"text": "hm", "thought": true}));
    let text = piece(json!({"text": "hello", "thoughtSignature": "c2ln"}));
    let usage =
        json!({"usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": 2, "totalTokenCount": 5}});
    let all = match said {
        Said::Thought => vec![thought, text, end("STOP"), usage],
        Said::Refusal => vec![text, end("SAFETY"), usage],
        Said::Cut => vec![text, end("MAX_TOKENS"), usage],
        Said::Silence => vec![end("STOP"), usage],
        Said::ThoughtAlone => vec![thought, end("STOP"), usage],
    };
    events(Provider::GEMINI, &all)
}

#[cfg(feature = "bedrock")]
fn of_bedrock(said: Said) -> ProviderStream {
    use crate::host::model::frames::tests::of_event;
    let delta = |index: u32, delta: Value| {
        let event = json!({"contentBlockIndex": index, "delta": delta}).to_string();
        let stop = json!({ "contentBlockIndex": index }).to_string();
        [of_event("contentBlockDelta", &event), of_event("contentBlockStop", &stop)].concat()
    };
    let reasoning = |field: &str, text: &str| {
        let event = json!({"contentBlockIndex": 0, "delta": {"reasoningContent": {field: text}}}).to_string();
        of_event("contentBlockDelta", &event)
    };
    let stop = of_event("contentBlockStop", r#"{"contentBlockIndex":0}"#);
    let thought = [reasoning("text", "hm"), reasoning("signature", "c2ln"), stop].concat();
    let (content, reason) = match said {
        Said::Thought => ([thought, delta(1, json!({"text": "hello"}))].concat(), "end_turn"),
        Said::Refusal => (delta(0, json!({"text": "hello"})), "content_filtered"),
        Said::Cut => (delta(0, json!({"text": "hello"})), "max_tokens"),
        Said::Silence => (Vec::new(), "end_turn"),
        Said::ThoughtAlone => (thought, "end_turn"),
    };
    let bytes = [
        of_event("messageStart", r#"{"role":"assistant"}"#),
        content,
        of_event("messageStop", &json!({ "stopReason": reason }).to_string()),
        of_event("metadata", r#"{"usage":{"inputTokens":3,"outputTokens":2,"totalTokens":5}}"#),
    ];
    let kind = "application/vnd.amazon.eventstream";
    ProviderStream { provider: Provider::BEDROCK, kind, bytes: bytes.concat() }
}

/// The answers of all providers.
fn all(said: Said) -> Vec<ProviderStream> {
    let streams = [of_openai(said), of_anthropic(said), of_responses(said), of_gemini(said)];
    #[cfg(feature = "bedrock")]
    let streams = streams.into_iter().chain([of_bedrock(said)]);
    streams.into_iter().collect()
}

/// What the gateway makes of an answer, and what goes out to a client of that dialect.
fn converted(dialect: GatewayDialect, stream: &ProviderStream) -> (ModelReply, String) {
    let headers: HeaderMap = [(CONTENT_TYPE, HeaderValue::from_static(stream.kind))].into_iter().collect();
    let front = front(dialect);
    let converted = converting(&front, stream.provider);
    let mask = AnswerMask::default();
    let mut events = RelayedEvents::new(converted.format.begin(), Some(&converted), &mask, 1).of(&headers);
    events.push(&stream.bytes, &headers).unwrap();
    let reply = events.finish(&headers).unwrap();
    (reply, String::from_utf8(events.held_back().to_vec()).unwrap())
}

/// What a client reads, by the reader that speaks to providers of its dialect.
fn each_read(said: Said, check: impl Fn(&ModelReply, &str)) {
    for (dialect, own) in DIALECTS {
        for stream in all(said).into_iter().filter(|stream| stream.provider.name() != own.name()) {
            let (_, out) = converted(dialect, &stream);
            let format = (own.format)(ModelConfig::new(own, "m"));
            let read = read_as(&*format, "text/event-stream", &[out.as_bytes()]);
            let read = read.unwrap_or_else(|failure| {
                panic!("{} for {dialect:?}: {failure:?} {out}", stream.provider.name())
            });
            check(&read, &format!("{} for {dialect:?}: {out}", stream.provider.name()));
        }
    }
}

#[test]
fn a_text_after_a_thought_comes_with_its_tokens_and_without_what_the_model_thought() {
    each_read(Said::Thought, |read, told| {
        assert_eq!((read.text.as_str(), &read.finish), ("hello", &FinishReason::Stop), "{told}");
        assert_eq!(read.usage, Some(Usage { input: 3, output: 2, ..Usage::default() }), "{told}");
        assert!(read.extra.is_empty() && !told.contains("hm") && !told.contains("c2ln"), "{told}");
    });
}

#[test]
fn a_refusal_is_one_and_an_answer_that_was_cut_is_cut() {
    each_read(Said::Refusal, |read, told| {
        assert_eq!((read.text.as_str(), &read.finish), ("hello", &FinishReason::ContentFilter), "{told}");
    });
    each_read(Said::Cut, |read, told| {
        assert_eq!((read.text.as_str(), &read.finish), ("hello", &FinishReason::Length), "{told}");
        assert_eq!(read.usage.map(Usage::total), Some(5), "{told}");
    });
}

#[test]
fn an_answer_without_a_word_is_a_failure_whoever_gives_it() {
    for (said, class) in
        [(Said::Silence, ErrorClass::EmptyResponse), (Said::ThoughtAlone, ErrorClass::ReasoningOnly)]
    {
        for (dialect, own) in DIALECTS {
            for stream in all(said).into_iter().filter(|stream| stream.provider.name() != own.name()) {
                let fault = fault_of(&converted(dialect, &stream).0);
                let found = fault.and_then(|failure| failure.class);
                assert_eq!(found, Some(class), "{} for {dialect:?}", stream.provider.name());
            }
        }
    }
}

/// Two calls whose pieces come by turns, with pieces that say nothing; of chat completions another choice comes between.
fn by_turns() -> [ProviderStream; 4] {
    let calls = [("a", 0, "{\"n\":1}"), ("b", 1, "{\"n\":2}")];
    let halves = |said: &str| [said[..4].to_owned(), String::new(), said[4..].to_owned()];
    let pieces: Vec<(usize, String)> =
        (0..3).flat_map(|half| calls.map(|(_, at, said)| (at, halves(said)[half].clone()))).collect();
    let chunk = |index: u64, delta: Value| json!({"choices": [{"index": index, "delta": delta, "finish_reason": null}]});
    let openai = calls
        .map(|(id, at, _)| chunk(0, json!({"tool_calls": [{"index": at, "id": id, "function": {"name": "look", "arguments": ""}}]})))
        .into_iter()
        .chain([chunk(0, json!({})), json!({"choices": [{"index": 1, "delta": {"content": "other"}, "finish_reason": "stop"}]})])
        .chain(pieces.iter().map(|(at, said)| chunk(0, json!({"tool_calls": [{"index": at, "function": {"arguments": said}}]}))))
        .chain([json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]})])
        .chain([json!({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2}})]);
    let item = |id: &str, said: &str| json!({"type": "function_call", "id": format!("fc_{id}"), "call_id": id, "name": "look", "arguments": said});
    let responses = calls
        .map(|(id, at, _)| json!({"type": "response.output_item.added", "output_index": at, "item": item(id, "")}))
        .into_iter()
        .chain(pieces.iter().map(|(at, said)| {
            json!({"type": "response.function_call_arguments.delta", "item_id": format!("fc_{}", calls[*at].0), "output_index": at, "delta": said})
        }))
        .chain(calls.map(|(id, at, said)| json!({"type": "response.output_item.done", "output_index": at, "item": item(id, said)})))
        .chain([json!({"type": "response.completed", "response": {"status": "completed",
            "output": calls.map(|(id, _, said)| item(id, said)), "usage": {"input_tokens": 3, "output_tokens": 2}}})]);
    let begun = json!({"type": "message_start", "message": {"role": "assistant", "content": [], "usage": {"input_tokens": 3, "output_tokens": 0}}});
    let anthropic = [begun]
        .into_iter()
        .chain(calls.map(|(id, at, _)| json!({"type": "content_block_start", "index": at, "content_block": {"type": "tool_use", "id": id, "name": "look", "input": {}}})))
        .chain(pieces.iter().map(|(at, said)| {
            json!({"type": "content_block_delta", "index": at, "delta": {"type": "input_json_delta", "partial_json": said}})
        }))
        .chain(calls.map(|(_, at, _)| json!({"type": "content_block_stop", "index": at})))
        .chain([json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 2}}), json!({"type": "message_stop"})]);
    let part = |(id, _, said): (&str, usize, &str)| {
        let args: Value = serde_json::from_str(said).unwrap();
        json!({"candidates": [{"content": {"parts": [{"functionCall": {"id": id, "name": "look", "args": args}}]}}]})
    };
    let gemini = calls
        .map(part)
        .into_iter()
        .chain([json!({"candidates": [{"content": {"parts": []}, "finishReason": "STOP"}],
        "usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": 2}})]);
    [
        events(Provider::OPENAI, &openai.collect::<Vec<_>>()),
        events(Provider::RESPONSES, &responses.collect::<Vec<_>>()),
        events(Provider::ANTHROPIC, &anthropic.collect::<Vec<_>>()),
        events(Provider::GEMINI, &gemini.collect::<Vec<_>>()),
    ]
}

#[test]
fn calls_that_come_by_turns_are_whole_and_in_their_order_for_every_client() {
    for (dialect, own) in DIALECTS {
        for stream in by_turns().into_iter().filter(|stream| stream.provider.name() != own.name()) {
            let (_, out) = converted(dialect, &stream);
            let format = (own.format)(ModelConfig::new(own, "m"));
            let read = read_as(&*format, "text/event-stream", &[out.as_bytes()]).unwrap();
            let told = format!("{} for {dialect:?}: {out}", stream.provider.name());
            let calls: Vec<(&str, &str)> =
                read.calls.iter().map(|proposed| (&*proposed.call.id, &*proposed.call.arguments)).collect();
            assert_eq!(calls, [("a", "{\"n\":1}"), ("b", "{\"n\":2}")], "{told}");
            assert_eq!((read.text.as_str(), read.usage.map(Usage::total)), ("", Some(5)), "{told}");
        }
    }
}

#[tokio::test]
async fn a_demand_that_was_refused_is_left_out_of_what_is_converted() {
    let tool = json!({"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}});
    let body = json!({"messages": [{"role": "user", "content": "hi"}], "tools": [tool],
        "tool_choice": "required", "parallel_tool_calls": false});
    let head = ReplyHead { model: "m".into(), id: "1".into(), created: 7 };
    let front = FrontCall::read(Chat, body.to_string().as_bytes(), false, head).unwrap();
    let message = "tool_choice forces tool use is not compatible with this model.".to_owned();
    let refusal = Failure { status: Some(400), message, ..Failure::default() };
    for (provider, place, left) in [
        (
            Provider::ANTHROPIC,
            "/tool_choice",
            Some(json!({"type": "auto", "disable_parallel_tool_use": true})),
        ),
        #[cfg(feature = "bedrock")]
        (
            Provider::BEDROCK,
            "/additionalModelRequestFields/tool_choice",
            Some(json!({"type": "auto", "disable_parallel_tool_use": true})),
        ),
        (Provider::OPENAI, "/tool_choice", None),
        (Provider::RESPONSES, "/tool_choice", None),
        (Provider::GEMINI, "/toolConfig", None),
    ] {
        let config = ModelConfig { api_key: Some("key".into()), ..ModelConfig::new(provider, "claude") };
        let model = RelayedModel::new(config).unwrap();
        let choice = |converted: &ConvertedRequest<'_>| {
            let body: Value = serde_json::from_slice(&converted.body.clone().whole()).unwrap();
            body.pointer(place).cloned()
        };
        let first = model.convert(&front, false).unwrap();
        assert!(choice(&first).is_some_and(|choice| Some(choice) != left), "{provider:?}");
        let again = model.rewritten(&first, &refusal).unwrap();
        assert_eq!(choice(&again), left, "{provider:?}");
        let is_said =
            |converted: &ConvertedRequest<'_>| converted.left_out.contains(&"tool_choice".to_owned());
        assert!(!is_said(&first) && is_said(&again), "{provider:?}");
        assert!(model.rewritten(&again, &refusal).is_none(), "{provider:?}: it is refused for ever");
        assert_eq!(choice(&model.convert(&front, false).unwrap()), left, "{provider:?}: later ones know it");
    }
}
