//! What readers and writers make of requests and replies.

mod begun;
mod custom;
mod fields;
mod forms;
mod gemini;
mod media;
mod providers;
mod refused;
mod responses;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::GatewayDialect::{self, Chat, Gemini, Messages, Responses};
use super::{FrontCall, LEFT_OUT, ReplyHead};
use crate::engine::{FinishReason, ModelReply, ProposedCall};
use crate::host::model::config::{ModelConfig, Provider};
use crate::host::model::refusals::ServerRefusals;
use crate::session::{Message, ToolCall, Usage};

fn read(dialect: GatewayDialect, body: &Value, stream: bool) -> Result<FrontCall, String> {
    let head = ReplyHead { model: "asked".into(), id: "1".into(), created: 7 };
    let read = FrontCall::read(dialect, body.to_string().as_bytes(), stream, head);
    read.map_err(|error| error.to_string())
}

/// The request as a model of that provider gets it, and what it does not get.
fn fitted(dialect: GatewayDialect, body: &Value, provider: &'static Provider) -> (Value, Vec<String>) {
    let call = read(dialect, body, false).unwrap();
    let fitted = call.fitted(&ModelConfig::new(provider, "m"), &ServerRefusals::default()).unwrap();
    (serde_json::from_slice(&fitted.body).unwrap(), fitted.left_out)
}

fn chat_request() -> Value {
    json!({
        "model": "asked", "max_completion_tokens": 90, "temperature": 1.5, "top_p": 0.5, "stop": "END", "seed": 4,
        "parallel_tool_calls": false, "tool_choice": {"type": "function", "function": {"name": "look"}},
        "response_format": {"type": "json_schema", "json_schema": {"name": "n", "strict": true, "schema": {"type": "object"}}},
        "tools": [{"type": "function", "function": {"name": "look", "description": "Looks.", "strict": true,
            "parameters": {"type": "object"}}}],
        "messages": [
            {"role": "developer", "content": "Be brief."},
            {"role": "user", "content": [{"type": "text", "text": "go"}], "name": "x"},
            {"role": "assistant", "content": null, "reasoning_content": "hm", "tool_calls": [
                {"id": "call:1", "type": "function", "function": {"name": "look", "arguments": "{\"a\":1}"}},
                {"id": "call:2", "type": "function", "function": {"name": "look", "arguments": ""}},
            ]},
            {"role": "tool", "tool_call_id": "call:1", "content": "one"},
            {"role": "tool", "tool_call_id": "call:2", "content": "two"},
        ],
    })
}

#[test]
fn a_chat_is_a_request_of_messages() {
    let (body, left_out) = fitted(Chat, &chat_request(), Provider::ANTHROPIC);
    let calls = &body["messages"][1]["content"];
    let ids = [calls[0]["id"].as_str().unwrap(), calls[1]["id"].as_str().unwrap()];
    assert!(!ids[0].contains(':') && ids[0] != ids[1]);
    assert_eq!(
        body,
        json!({
            "model": "m", "max_tokens": 90, "system": "Be brief.",
            "messages": [
                {"role": "user", "content": [{"type": "text", "text": "go"}]},
                {"role": "assistant", "content": [
                    {"type": "tool_use", "id": ids[0], "name": "look", "input": {"a": 1}},
                    {"type": "tool_use", "id": ids[1], "name": "look", "input": {}},
                ]},
                {"role": "user", "content": [
                    {"type": "tool_result", "tool_use_id": ids[0], "content": "one"},
                    {"type": "tool_result", "tool_use_id": ids[1], "content": "two"},
                ]},
            ],
            "tools": [{"name": "look", "description": "Looks.", "input_schema": {"type": "object"}}],
            "tool_choice": {"type": "tool", "name": "look", "disable_parallel_tool_use": true},
            "temperature": 1.0, "top_p": 0.5, "stop_sequences": ["END"],
            "output_config": {"format": {"type": "json_schema", "schema": {"type": "object", "properties": {}, "additionalProperties": false}}},
        })
    );
    let named = [
        "messages.name",
        "messages.reasoning_content",
        "response_format.json_schema.schema.additionalProperties",
        "seed",
        "tools.function.strict",
        "temperature",
    ];
    assert_eq!(left_out, named);
}

#[test]
fn options_have_the_names_of_each_dialect() {
    let (body, left_out) = fitted(Chat, &chat_request(), Provider::RESPONSES);
    assert_eq!(
        body["text"]["format"],
        json!({"type": "json_schema", "name": "n", "schema": {"type": "object"}, "strict": true})
    );
    assert_eq!((&body["max_output_tokens"], &body["parallel_tool_calls"]), (&json!(90), &json!(false)));
    assert_eq!(left_out.last().unwrap(), "stop");
    let (body, left_out) = fitted(Chat, &chat_request(), Provider::GEMINI);
    assert_eq!(
        body["generationConfig"],
        json!({
            "topP": 0.5, "stopSequences": ["END"], "responseMimeType": "application/json",
            "responseJsonSchema": {"type": "object"}, "temperature": 1.5, "maxOutputTokens": 90, "seed": 4,
        })
    );
    assert_eq!(left_out.last().unwrap(), "parallel_tool_calls");
    let mut never = chat_request();
    never["tool_choice"] = "none".into();
    assert_eq!(fitted(Chat, &never, Provider::ANTHROPIC).0["tool_choice"], json!({"type": "none"}));
    assert_eq!(fitted(Chat, &never, Provider::RESPONSES).0["tool_choice"], "none");
    let mode = "/toolConfig/functionCallingConfig/mode";
    assert_eq!(fitted(Chat, &never, Provider::GEMINI).0.pointer(mode), Some(&json!("NONE")));
    let bare = json!({"messages": [{"role": "user", "content": "hi"}]});
    assert_eq!(fitted(Chat, &bare, Provider::ANTHROPIC).0["max_tokens"], ModelConfig::MAX_TOKENS);
}

#[test]
#[cfg(feature = "bedrock")]
fn a_dialect_that_no_client_speaks_has_names_of_its_own() {
    let (body, left_out) = fitted(Chat, &chat_request(), Provider::BEDROCK);
    let inference = json!({"maxTokens": 90, "temperature": 1.0, "topP": 0.5, "stopSequences": ["END"]});
    assert_eq!(body["inferenceConfig"], inference);
    let schema =
        json!({"name": "n", "schema": r#"{"type":"object","properties":{},"additionalProperties":false}"#});
    let format = json!({"type": "json_schema", "structure": {"jsonSchema": schema}});
    assert_eq!(body["outputConfig"], json!({ "textFormat": format }));
    assert_eq!(body["toolConfig"]["toolChoice"], json!({"tool": {"name": "look"}}));
    assert!(left_out.contains(&"temperature".to_owned()));
    assert!(left_out.contains(&"parallel_tool_calls".to_owned()));
    // A history of calls needs its tools; without one they are not declared.
    let mut never = chat_request();
    never["tool_choice"] = "none".into();
    let declared = fitted(Chat, &never, Provider::BEDROCK).0["toolConfig"]["tools"].take();
    assert_eq!(declared.as_array().unwrap().len(), 1);
    let tools = never["tools"].take();
    let never =
        json!({"messages": [{"role": "user", "content": "hi"}], "tools": tools, "tool_choice": "none"});
    assert_eq!(fitted(Chat, &never, Provider::BEDROCK).0.get("toolConfig"), None);
}

/// Requests whose only result is that of a tool that failed with these words.
fn failed(words: &str) -> [(GatewayDialect, Value); 2] {
    let messages = json!({"messages": [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "look", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "is_error": true, "content": words}]},
    ]});
    let contents = json!({"contents": [
        {"role": "user", "parts": [{"text": "go"}]},
        {"role": "model", "parts": [{"functionCall": {"id": "a", "name": "look", "args": {}}}]},
        {"role": "user", "parts": [{"functionResponse": {"id": "a", "name": "look", "response": {"error": words}}}]},
    ]});
    [(Messages, messages), (Gemini, contents)]
}

#[test]
fn a_tool_that_failed_has_failed_in_every_dialect() {
    let plain = [
        (Provider::OPENAI, "/messages/2/content", json!("The tool failed: no such file")),
        (Provider::RESPONSES, "/input/2/output", json!("The tool failed: no such file")),
        (Provider::ANTHROPIC, "/messages/2/content/0/is_error", json!(true)),
        (Provider::ANTHROPIC, "/messages/2/content/0/content", json!("no such file")),
        (Provider::GEMINI, "/contents/2/parts/0/functionResponse/response", json!({"error": "no such file"})),
        #[cfg(feature = "bedrock")]
        (Provider::BEDROCK, "/messages/2/content/0/toolResult/status", json!("error")),
    ];
    for (dialect, request) in failed("no such file") {
        for (provider, place, said) in &plain {
            let (body, _) = fitted(dialect, &request, provider);
            assert_eq!(body.pointer(place), Some(said), "{dialect:?} {body}");
        }
    }
    for (dialect, request) in failed("") {
        for (provider, place) in
            [(Provider::OPENAI, "/messages/2/content"), (Provider::RESPONSES, "/input/2/output")]
        {
            let (body, _) = fitted(dialect, &request, provider);
            assert_eq!(body.pointer(place), Some(&json!("The tool failed and does not say why.")), "{body}");
        }
    }
}

fn messages_request() -> Value {
    json!({
        "model": "asked", "max_tokens": 90, "thinking": {"type": "enabled", "budget_tokens": 2000},
        "metadata": {"user_id": "u"}, "stop_sequences": ["END"], "top_k": 4,
        "tool_choice": {"type": "any", "disable_parallel_tool_use": true},
        "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
        "tools": [{"name": "look", "input_schema": {"type": "object"}, "cache_control": {"type": "ephemeral"}}],
        "messages": [
            {"role": "user", "content": "go"},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "hm", "signature": "secret"},
                {"type": "text", "text": "I look."},
                {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"a": 1}},
            ]},
            {"role": "user", "content": [
                {"type": "text", "text": "Be quick."},
                {"type": "tool_result", "tool_use_id": "toolu_1", "is_error": true, "content": [{"type": "text", "text": "no"}]},
            ]},
        ],
    })
}

#[test]
fn messages_are_a_request_of_a_chat() {
    let (body, left_out) = fitted(Messages, &messages_request(), Provider::OPENAI);
    let call =
        json!({"id": "toolu_1", "type": "function", "function": {"name": "look", "arguments": "{\"a\":1}"}});
    assert_eq!(
        body["messages"],
        json!([
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "go"},
            {"role": "assistant", "content": "I look.", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "toolu_1", "content": "The tool failed: no"},
            {"role": "user", "content": "Be quick."},
        ])
    );
    assert_eq!((&body["tool_choice"], &body["parallel_tool_calls"]), (&json!("required"), &json!(false)));
    assert_eq!(body["stop"], json!(["END"]));
    assert!(!body.to_string().contains("secret"), "{body}");
    assert_eq!(body["user"], "u");
    let named =
        ["messages.content.thinking", "system.cache_control", "thinking", "tools.cache_control", "top_k"];
    assert_eq!(left_out, named);
    let (_, left_out) = fitted(Messages, &messages_request(), Provider::RESPONSES);
    assert_eq!(left_out.last().unwrap(), "stop_sequences");
}

#[test]
fn each_result_is_right_behind_its_call() {
    let told = |body: &Value| {
        let told = |message: &Value| match message["tool_calls"].as_array() {
            Some(calls) => {
                format!("call {}", calls.iter().map(|call| call["id"].as_str().unwrap()).collect::<String>())
            }
            None => message["tool_call_id"]
                .as_str()
                .or(message["content"].as_str())
                .unwrap_or_default()
                .to_owned(),
        };
        body["messages"].as_array().unwrap().iter().map(told).collect::<Vec<String>>()
    };
    // Turns of one role that follow each other are one.
    let turn = |id: &str| json!({"role": "assistant", "content": [{"type": "tool_use", "id": id, "name": "look", "input": {}}]});
    let result = |id: &str| json!({"type": "tool_result", "tool_use_id": id, "content": "r"});
    let turns = json!({"max_tokens": 9, "messages": [
        {"role": "user", "content": "q"}, turn("a"), turn("b"), {"role": "user", "content": [result("a"), result("b")]},
        {"role": "user", "content": "more"},
    ]});
    let (body, _) = fitted(Messages, &turns, Provider::OPENAI);
    assert_eq!(told(&body), ["q", "call a", "a", "call b", "b", "more"]);
    // That a later call has none yet is mended elsewhere, and begins no message.
    let open = json!({"max_tokens": 9, "messages": [
        {"role": "user", "content": "q"}, turn("a"), turn("b"), {"role": "user", "content": [result("a")]},
    ]});
    let open = read(Messages, &open, false).unwrap();
    assert!(matches!(open.conversation().last(), Some(Message::Assistant { .. })));
    // The results of Responses may be anywhere, and models that count anew in each reply use an id again.
    let call = |id: &str| json!({"type": "function_call", "call_id": id, "name": "look", "arguments": "{}"});
    let output = |id: &str| json!({"type": "function_call_output", "call_id": id, "output": "r"});
    let user = json!({"role": "user", "content": "q"});
    for (items, expected) in [
        (
            vec![
                user.clone(),
                call("a"),
                user.clone(),
                call("b"),
                output("b"),
                user.clone(),
                output("a"),
                user.clone(),
            ],
            vec!["q", "call a", "a", "q", "call b", "b", "q", "q"],
        ),
        (
            vec![user.clone(), call("a"), output("a"), user.clone(), call("a"), output("a"), user.clone()],
            vec!["q", "call a", "a", "q", "call a", "a", "q"],
        ),
    ] {
        let (body, _) = fitted(Responses, &json!({ "input": items }), Provider::OPENAI);
        assert_eq!(
            told(&body).iter().map(|said| said.split('_').next().unwrap()).collect::<Vec<_>>(),
            expected
        );
    }
}

#[test]
fn no_reader_cuts_an_event() {
    let text = "a\u{85}b\u{2028}c\u{2029}d";
    for dialect in [Chat, Messages, Responses, Gemini] {
        let body = match dialect {
            Chat => chat_request(),
            Messages => messages_request(),
            Responses => json!({"input": "hi"}),
            Gemini => json!({"contents": [{"parts": [{"text": "hi"}]}]}),
        };
        let mut writer = read(dialect, &body, true).unwrap().writer();
        let mut said = reply(FinishReason::Stop);
        said.text = text.to_owned();
        said.calls[0].call.arguments = json!({ "a": text }).to_string();
        let stream = writer.text(text) + &writer.end(&said);
        assert!(!stream.contains(['\u{85}', '\u{2028}', '\u{2029}']), "{dialect:?} {stream}");
        assert!(events(&stream).iter().any(|event| event.to_string().contains(text)), "{dialect:?} {stream}");
    }
}

#[test]
fn what_would_change_the_meaning_is_refused_by_its_place() {
    let user = |content: Value| json!([{"role": "user", "content": content}]);
    let hi = user(json!("hi"));
    for (dialect, body, field) in [
        (
            Chat,
            json!({"messages": user(json!([{"type": "image_url"}]))}),
            "`messages[0].content[0].image_url` ",
        ),
        (Chat, json!({"messages": hi, "n": 2}), "`n` "),
        (Chat, json!({"messages": hi, "tools": [{"type": "custom"}]}), "`tools[0].type` "),
        (Chat, json!({"messages": hi, "audio": {}}), "`audio` "),
        (Chat, json!({"messages": hi, "tool_choice": {"type": "allowed_tools"}}), "`tool_choice` "),
        (
            Chat,
            json!({"messages": hi, "tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": []}}}),
            "`tool_choice` names no tool that is declared",
        ),
        (Chat, json!({"messages": [{"role": "assistant", "content": "I"}]}), "`messages` "),
        (Chat, json!({"messages": 1}), "`messages` "),
        (Chat, json!({"messages": []}), "`messages` "),
        (
            Messages,
            json!({"messages": user(json!([{"type": "document"}]))}),
            "`messages[0].content[0].source` ",
        ),
        (Messages, json!({"messages": hi, "tools": [{"type": "web_search_20250305"}]}), "`tools[0].type` "),
        (Messages, json!({"messages": hi, "mcp_servers": [{}]}), "`mcp_servers` "),
        (
            Messages,
            json!({"messages": user(json!([{"type": "tool_result", "tool_use_id": "a", "content": [{"type": "image"}]}]))}),
            "`messages[0].content[0].content[0].source` ",
        ),
    ] {
        let error = read(dialect, &body, false).unwrap_err();
        assert!(error.starts_with(field), "{error}");
    }
}

#[test]
fn names_that_clients_choose_make_no_header_of_their_own() {
    let body = json!({"messages": [{"role": "user", "content": "hi"}], "a,b\r\nx: ": 1, "é": 1});
    let call = read(Chat, &body, true).unwrap();
    let fitted =
        call.fitted(&ModelConfig::new(Provider::ANTHROPIC, "m"), &ServerRefusals::default()).unwrap();
    let headers = call.headers(reqwest::header::HeaderMap::new(), &fitted.left_out);
    assert_eq!(headers[LEFT_OUT], "_, a_b__x__");
    assert_eq!(headers["content-type"], "text/event-stream");
    let many: serde_json::Map<String, Value> = (0..999)
        .map(|number| (format!("f{number}"), json!(1)))
        .chain([("messages".into(), body["messages"].clone())])
        .collect();
    let call = read(Chat, &Value::Object(many), false).unwrap();
    assert_eq!(
        call.fitted(&ModelConfig::new(Provider::ANTHROPIC, "m"), &ServerRefusals::default())
            .unwrap()
            .left_out
            .len(),
        32
    );
}

fn reply(finish: FinishReason) -> ModelReply {
    let call = |id: &str, name: &str| ProposedCall {
        call: ToolCall { id: id.into(), name: name.into(), arguments: "{\"a\":1}".into() },
        policy: None,
        opaque: false,
    };
    ModelReply {
        text: "I look.".into(),
        calls: vec![call("toolu_1", "look"), call("functions.look:2", "look")],
        finish,
        usage: Some(Usage { input: 10, output: 5, cache_read: 4, cache_write: 1, reasoning: 2 }),
        ..ModelReply::default()
    }
}

/// What a client gets of a reply that comes in those pieces.
fn written(
    dialect: GatewayDialect,
    request: &Value,
    stream: bool,
    pieces: &[&str],
    reply: ModelReply,
) -> String {
    let call = read(dialect, request, stream).unwrap();
    let mut writer = call.writer();
    let mut written: String = pieces.iter().map(|piece| writer.text(piece)).collect();
    written += &writer.end(&call.settled(reply));
    written
}

/// The data of the events.
fn events(written: &str) -> Vec<Value> {
    let data = written.lines().filter_map(|line| line.strip_prefix("data: "));
    data.map(|data| serde_json::from_str(data).unwrap_or_else(|_| json!(data))).collect()
}

#[test]
fn a_reply_is_a_chat_completion() {
    let body: Value =
        serde_json::from_str(&written(Chat, &chat_request(), false, &[], reply(FinishReason::ToolCalls)))
            .unwrap();
    let message = &body["choices"][0]["message"];
    assert_eq!(message["tool_calls"][0]["function"], json!({"name": "look", "arguments": "{\"a\":1}"}));
    // Another model may get it byte by byte.
    assert!(!message["tool_calls"][1]["id"].as_str().unwrap().contains(['.', ':']));
    assert_eq!(
        (&message["content"], &body["choices"][0]["finish_reason"]),
        (&json!("I look."), &json!("tool_calls"))
    );
    assert_eq!(
        body["usage"],
        json!({
            "prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15,
            "prompt_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 1},
            "completion_tokens_details": {"reasoning_tokens": 2},
        })
    );
    assert_eq!(
        (&body["model"], &body["id"], &body["created"]),
        (&json!("asked"), &json!("chatcmpl-1"), &json!(7))
    );
}

#[test]
fn a_streamed_chat_completion_has_its_chunks_in_order() {
    let mut request = chat_request();
    request["stream_options"] = json!({"include_usage": true});
    let written = written(Chat, &request, true, &["I ", "", "look."], reply(FinishReason::ToolCalls));
    let events = events(&written);
    let deltas: Vec<Value> =
        events.iter().filter_map(|event| event.pointer("/choices/0/delta").cloned()).collect();
    let text: String = deltas.iter().filter_map(|delta| delta["content"].as_str()).collect();
    assert_eq!((deltas[0]["role"].as_str(), &*text), (Some("assistant"), "I look."));
    let calls: Vec<&Value> = deltas.iter().filter_map(|delta| delta.pointer("/tool_calls/0")).collect();
    assert_eq!((calls[0]["index"].as_u64(), calls[1]["index"].as_u64()), (Some(0), Some(1)));
    let tail: Vec<Value> = events.iter().rev().take(3).cloned().collect();
    assert_eq!(tail[0], json!("[DONE]"));
    assert_eq!((&tail[1]["choices"], &tail[1]["usage"]["total_tokens"]), (&json!([]), &json!(15)));
    assert_eq!(
        (&tail[2]["choices"][0]["finish_reason"], &tail[2]["usage"]),
        (&json!("tool_calls"), &Value::Null)
    );
    request["stream_options"] = Value::Null;
    let silent = self::written(Chat, &request, true, &[], reply(FinishReason::Stop));
    assert!(!silent.contains("usage"), "{silent}");
}

#[test]
fn a_reply_is_a_message() {
    let body: Value = serde_json::from_str(&written(
        Messages,
        &messages_request(),
        false,
        &[],
        reply(FinishReason::ToolCalls),
    ))
    .unwrap();
    assert_eq!(body["content"][0], json!({"type": "text", "text": "I look."}));
    assert_eq!(
        body["content"][1],
        json!({"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"a": 1}})
    );
    assert_eq!((&body["stop_reason"], &body["model"]), (&json!("tool_use"), &json!("asked")));
    assert_eq!(
        body["usage"],
        json!({"input_tokens": 5, "cache_creation_input_tokens": 1, "cache_read_input_tokens": 4, "output_tokens": 5,
            "output_tokens_details": {"thinking_tokens": 2}})
    );
}

#[test]
fn the_blocks_of_a_streamed_message_follow_each_other() {
    let written =
        written(Messages, &messages_request(), true, &["I ", "look."], reply(FinishReason::ToolCalls));
    let kinds: Vec<String> = events(&written)
        .iter()
        .map(|event| format!("{} {}", event["type"].as_str().unwrap(), event["index"]))
        .collect();
    assert_eq!(
        kinds,
        [
            "message_start null",
            "content_block_start 0",
            "content_block_delta 0",
            "content_block_delta 0",
            "content_block_stop 0",
            "content_block_start 1",
            "content_block_delta 1",
            "content_block_stop 1",
            "content_block_start 2",
            "content_block_delta 2",
            "content_block_stop 2",
            "message_delta null",
            "message_stop null",
        ]
    );
    let events = events(&written);
    assert_eq!(events[6]["delta"], json!({"type": "input_json_delta", "partial_json": "{\"a\":1}"}));
    assert_eq!(
        (&events[11]["delta"]["stop_reason"], &events[11]["usage"]["input_tokens"]),
        (&json!("tool_use"), &json!(5))
    );
}

#[test]
fn a_word_that_nobody_knows_is_never_an_end() {
    for (finish, chat, message) in [
        (FinishReason::Stop, "stop", "end_turn"),
        (FinishReason::Length, "length", "max_tokens"),
        (FinishReason::ContextWindow, "length", "model_context_window_exceeded"),
        (FinishReason::ContentFilter, "content_filter", "refusal"),
        (FinishReason::Other("compaction".into()), "compaction", "compaction"),
    ] {
        let reply = ModelReply { calls: Vec::new(), ..reply(finish) };
        let of = |dialect, request: Value, pointer| {
            let written = written(dialect, &request, false, &[], reply.clone());
            serde_json::from_str::<Value>(&written).unwrap().pointer(pointer).cloned()
        };
        assert_eq!(of(Chat, chat_request(), "/choices/0/finish_reason"), Some(json!(chat)));
        assert_eq!(of(Messages, messages_request(), "/stop_reason"), Some(json!(message)));
    }
}

#[test]
fn a_long_name_of_a_tool_is_the_clients_again_in_the_reply() {
    let name = "mcp__server__".repeat(9);
    let mut request = messages_request();
    request["tools"][0]["name"] = json!(name);
    let (body, _) = fitted(Messages, &request, Provider::OPENAI);
    let sent = body["tools"][0]["function"]["name"].as_str().unwrap().to_owned();
    assert!(sent.len() <= 64, "{sent}");
    let mut reply = reply(FinishReason::ToolCalls);
    reply.calls[0].call.name = sent;
    let written: Value = serde_json::from_str(&written(Messages, &request, false, &[], reply)).unwrap();
    assert_eq!(written["content"][1]["name"], json!(name));
}

/// Words of the dialects, as values and as names of fields.
const WORDS: [&str; 13] = [
    "text",
    "user",
    "assistant",
    "tool",
    "tool_use",
    "tool_result",
    "function",
    "json_schema",
    "message",
    "input_text",
    "function_call",
    "function_call_output",
    "",
];
const KEYS: [&str; 20] = [
    "role",
    "content",
    "type",
    "text",
    "tool_calls",
    "function",
    "name",
    "arguments",
    "id",
    "json_schema",
    "input",
    "tool_use_id",
    "call_id",
    "output",
    "parts",
    "functionCall",
    "functionResponse",
    "response",
    "properties",
    "nullable",
];
/// Places in the requests above.
const PLACES: [&str; 24] = [
    "",
    "/messages",
    "/messages/0",
    "/messages/1/content",
    "/messages/2/content/1",
    "/messages/2/tool_calls/0",
    "/tools",
    "/tools/0",
    "/tool_choice",
    "/response_format",
    "/system/0",
    "/input",
    "/input/0",
    "/input/3/content",
    "/input/4",
    "/input/7/output/0",
    "/text/format",
    "/reasoning",
    "/contents/0",
    "/contents/1/parts/1",
    "/contents/2/parts",
    "/tools/0/functionDeclarations/0/parameters",
    "/toolConfig/functionCallingConfig",
    "/generationConfig/responseSchema",
];

/// Some JSON, with the words of the dialects in it.
fn hostile() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        prop::sample::select(&WORDS[..]).prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 48, 5, |inner| {
        let field = (prop::sample::select(&KEYS[..]), inner.clone());
        let object = prop::collection::vec(field, 0..6).prop_map(|fields| {
            Value::Object(fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
        });
        prop_oneof![prop::collection::vec(inner, 0..4).prop_map(Value::from), object]
    })
}

proptest! {
    #[test]
    fn whatever_is_asked_is_read_or_refused(value in hostile(), place in prop::sample::select(&PLACES[..])) {
        let requests = [
            (Chat, chat_request()),
            (Messages, messages_request()),
            (Responses, responses::request()),
            (Gemini, gemini::request()),
        ];
        for (dialect, mut body) in requests {
            if let Some(at) = body.pointer_mut(place) {
                *at = value.clone();
            }
            let Ok(call) = read(dialect, &body, true) else { continue };
            for provider in Provider::SPOKEN_BY_CLIENTS {
                let fitted = call.fitted(&ModelConfig::new(provider, "m"), &ServerRefusals::default()).unwrap();
                prop_assert!(serde_json::from_slice::<Value>(&fitted.body).unwrap().is_object());
            }
        }
    }
}
