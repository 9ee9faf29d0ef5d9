//! Responses, as clients speak them.

use serde_json::{Value, json};

use super::{Chat, Responses, events, fitted, read, reply, written};
use crate::engine::{FinishReason, ModelReply};
use crate::host::model::config::Provider;

pub(super) fn request() -> Value {
    json!({
        "model": "asked", "instructions": "Be brief.", "max_output_tokens": 90, "temperature": 1.5, "top_p": 0.5,
        "parallel_tool_calls": false, "tool_choice": {"type": "function", "name": "look"}, "store": true,
        "include": ["reasoning.encrypted_content"], "metadata": {"a": "b"}, "prompt_cache_key": "k", "truncation": "disabled",
        "reasoning": {"effort": "low", "summary": "auto"}, "stream_options": {"include_obfuscation": true},
        "text": {"verbosity": "low", "format": {"type": "json_schema", "name": "n", "strict": true, "schema": {"type": "object"}}},
        "tools": [{"type": "function", "name": "look", "description": "Looks.", "strict": true, "parameters": {"type": "object"}}],
        "input": [
            {"role": "developer", "content": "Be kind."},
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "go"}]},
            {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "secret"},
            {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "phase": "commentary", "content": [
                {"type": "output_text", "text": "I look.", "annotations": [], "logprobs": []},
            ]},
            {"type": "function_call", "id": "fc_1", "call_id": "call:1", "name": "look", "arguments": "{\"a\":1}", "status": "completed"},
            {"type": "function_call", "call_id": "call:2", "name": "look", "arguments": ""},
            {"type": "function_call_output", "call_id": "call:1", "output": "one"},
            {"type": "function_call_output", "call_id": "call:2", "output": [{"type": "input_text", "text": "two"}]},
        ],
    })
}

#[test]
fn a_response_is_asked_of_a_model_of_anthropic() {
    let (body, left_out) = fitted(Responses, &request(), Provider::ANTHROPIC);
    let calls = &body["messages"][1]["content"];
    let ids = [calls[1]["id"].as_str().unwrap(), calls[2]["id"].as_str().unwrap()];
    assert_eq!(
        body,
        json!({
            "model": "m", "max_tokens": 90, "system": "Be brief.\n\nBe kind.",
            "messages": [
                {"role": "user", "content": [{"type": "text", "text": "go"}]},
                {"role": "assistant", "content": [
                    {"type": "text", "text": "I look."},
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
            "temperature": 1.0, "top_p": 0.5,
            "output_config": {
                "format": {"type": "json_schema", "schema": {"type": "object", "properties": {}, "additionalProperties": false}},
                "effort": "low",
            },
        })
    );
    let named = [
        "include",
        "input.phase",
        "input.reasoning",
        "metadata",
        "prompt_cache_key",
        "reasoning.summary",
        "store",
        "text.format.schema.additionalProperties",
        "text.verbosity",
        "tools.strict",
        "temperature",
    ];
    assert_eq!(left_out, named);
}

#[test]
fn how_much_a_model_thinks_is_said_in_the_words_of_each_dialect() {
    let (body, left_out) = fitted(Responses, &request(), Provider::OPENAI);
    assert_eq!(
        (&body["reasoning_effort"], &body["messages"][0]["content"]),
        (&json!("low"), &json!("Be brief."))
    );
    assert_eq!(body["response_format"]["json_schema"]["name"], "n");
    assert!(!left_out.contains(&"reasoning.effort".to_owned()), "{left_out:?}");
    let chat = json!({"messages": [{"role": "user", "content": "hi"}], "reasoning_effort": "high"});
    assert_eq!(fitted(Chat, &chat, Provider::RESPONSES).0["reasoning"], json!({"effort": "high"}));
    assert_eq!(fitted(Chat, &chat, Provider::ANTHROPIC).0["output_config"], json!({"effort": "high"}));
    let level = "/generationConfig/thinkingConfig/thinkingLevel";
    assert_eq!(fitted(Chat, &chat, Provider::GEMINI).0.pointer(level), Some(&json!("HIGH")));
    // A word that the other dialect does not have is left out.
    for (word, provider) in
        [("none", Provider::ANTHROPIC), ("max", Provider::GEMINI), ("often", Provider::RESPONSES)]
    {
        let chat = json!({"messages": [{"role": "user", "content": "hi"}], "reasoning_effort": word});
        let (body, left_out) = fitted(Chat, &chat, provider);
        assert_eq!(left_out, ["reasoning_effort"], "{word}");
        assert!(!body.to_string().contains(word), "{body}");
    }
}

#[test]
fn results_stand_behind_their_calls_whatever_the_user_says_meanwhile() {
    let call = |id: &str| json!({"type": "function_call", "call_id": id, "name": "look", "arguments": "{}"});
    let result = |id: &str| json!({"type": "function_call_output", "call_id": id, "output": id});
    let user = json!({"role": "user", "content": "go"});
    let input = json!({"input": [user, call("a"), call("b"), result("a"), user, result("b")]});
    let (body, _) = fitted(Responses, &input, Provider::OPENAI);
    let roles = body["messages"].as_array().unwrap().iter().map(|message| message["role"].as_str().unwrap());
    assert_eq!(roles.collect::<Vec<&str>>(), ["user", "assistant", "tool", "tool", "user"]);
}

#[test]
fn a_function_of_a_namespace_has_one_name_for_the_model_and_both_for_the_client() {
    let look = json!({"type": "function", "name": "look", "parameters": {"type": "object"}});
    let request = json!({
        "tools": [{"type": "namespace", "name": "eyes", "description": "Eyes.", "tools": [look]}, look],
        "input": [
            {"role": "user", "content": "go"},
            {"type": "function_call", "call_id": "a", "namespace": "eyes", "name": "look", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "a", "output": "x"},
        ],
    });
    let (body, left_out) = fitted(Responses, &request, Provider::OPENAI);
    let names = ["/tools/0", "/tools/1", "/messages/1/tool_calls/0"];
    let names = names.map(|at| body.pointer(at).unwrap()["function"]["name"].as_str().unwrap());
    assert_eq!(
        (names, left_out),
        (["eyes__look", "look", "eyes__look"], vec!["tools.description".to_owned()])
    );
    let mut reply = reply(FinishReason::ToolCalls);
    reply.calls[0].call.name = "eyes__look".into();
    let streamed = written(Responses, &request, true, &[], reply);
    let output = events(&streamed).pop().unwrap()["response"]["output"].clone();
    assert_eq!((&output[0]["namespace"], &output[0]["name"]), (&json!("eyes"), &json!("look")));
    assert_eq!((output[1].get("namespace"), &output[1]["name"]), (None, &json!("look")));
    let inner = json!({"input": "hi", "tools": [{"type": "namespace", "name": "eyes", "tools": [{"type": "custom"}]}]});
    assert!(read(Responses, &inner, false).unwrap_err().starts_with("`tools[0].tools[0].type` "));
}

#[test]
fn an_input_may_be_a_text() {
    let (body, left_out) =
        fitted(Responses, &json!({"input": "hi", "store": false, "background": false}), Provider::OPENAI);
    assert_eq!(body["messages"], json!([{"role": "user", "content": "hi"}]));
    assert!(left_out.is_empty(), "{left_out:?}");
}

#[test]
fn what_only_the_server_knows_is_refused_by_its_place() {
    let item = |item: Value| json!({"input": [{"role": "user", "content": "hi"}, item]});
    for (body, field) in [
        (json!({"input": "hi", "previous_response_id": "resp_1"}), "`previous_response_id` "),
        (json!({"input": "hi", "conversation": "conv_1"}), "`conversation` "),
        (json!({"input": "hi", "prompt": {"id": "p"}}), "`prompt` "),
        (json!({"input": "hi", "background": true}), "`background` "),
        (json!({"input": "hi", "tools": [{"type": "web_search"}]}), "`tools[0].type` "),
        (json!({"input": "hi", "tool_choice": {"type": "allowed_tools"}}), "`tool_choice` "),
        (json!({"input": "hi", "text": {"format": {"type": "grammar"}}}), "`text.format.type` "),
        (item(json!({"type": "item_reference", "id": "msg_1"})), "`input[1].type` "),
        (item(json!({"type": "web_search_call", "id": "ws_1"})), "`input[1].type` "),
        (item(json!({"type": "function_call_output", "output": "x"})), "`input[1].call_id` "),
        (
            item(
                json!({"type": "function_call_output", "call_id": "a", "output": [{"type": "input_image"}]}),
            ),
            "`input[1].output[0].image_url` ",
        ),
        (
            item(json!({"role": "user", "content": [{"type": "input_file"}]})),
            "`input[1].content[0].file_data` ",
        ),
        (item(json!({"role": "critic", "content": "x"})), "`input[1].role` "),
        (item(json!({"role": "assistant", "content": "I"})), "`input` "),
        (json!({"input": 1}), "`input` "),
        (json!({}), "`input` "),
    ] {
        let error = read(Responses, &body, false).unwrap_err();
        assert!(error.starts_with(field), "{error}");
    }
}

#[test]
fn a_reply_is_a_response() {
    let body = written(Responses, &request(), false, &[], reply(FinishReason::ToolCalls));
    let body: Value = serde_json::from_str(&body).unwrap();
    let ids = ["call_id", "id"].map(|field| body["output"][2][field].as_str().unwrap());
    assert!(!ids[0].contains(['.', ':']));
    let call = |id: &str, call: &str| json!({"id": id, "type": "function_call", "status": "completed", "call_id": call, "name": "look", "arguments": "{\"a\":1}"});
    let part = json!({"type": "output_text", "text": "I look.", "annotations": [], "logprobs": []});
    assert_eq!(
        body,
        json!({
            "id": "resp_1", "object": "response", "created_at": 7, "status": "completed", "background": false, "error": null,
            "incomplete_details": null, "instructions": "Be brief.", "max_output_tokens": 90, "model": "asked",
            "output": [
                {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": [part]},
                call("fc_1_0", "toolu_1"),
                call(ids[1], ids[0]),
            ],
            "parallel_tool_calls": false, "previous_response_id": null, "reasoning": {"effort": "low", "summary": "auto"},
            "store": false, "temperature": 1.5, "text": request()["text"], "tool_choice": request()["tool_choice"],
            "tools": request()["tools"], "top_p": 0.5, "truncation": "disabled", "metadata": {"a": "b"},
            "usage": {
                "input_tokens": 10, "output_tokens": 5, "total_tokens": 15,
                "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 1},
                "output_tokens_details": {"reasoning_tokens": 2},
            },
        })
    );
}

#[test]
fn a_response_that_the_model_did_not_finish_is_incomplete_with_the_reason() {
    for (finish, reason) in [
        (FinishReason::Stop, None),
        (FinishReason::Length, Some("max_output_tokens")),
        (FinishReason::ContextWindow, Some("max_output_tokens")),
        (FinishReason::ContentFilter, Some("content_filter")),
        (FinishReason::Other("compaction".into()), Some("compaction")),
    ] {
        let reply = ModelReply { calls: Vec::new(), ..reply(finish) };
        let whole: Value =
            serde_json::from_str(&written(Responses, &request(), false, &[], reply.clone())).unwrap();
        let status = if reason.is_some() { "incomplete" } else { "completed" };
        assert_eq!((&whole["status"], &whole["output"][0]["status"]), (&json!(status), &json!(status)));
        assert_eq!(whole.pointer("/incomplete_details/reason"), reason.map(|reason| json!(reason)).as_ref());
        let streamed = written(Responses, &request(), true, &["I look."], reply);
        let last = events(&streamed).pop().unwrap();
        assert_eq!((&last["type"], &last["response"]), (&json!(format!("response.{status}")), &whole));
    }
}

#[test]
fn the_events_of_a_streamed_response_are_numbered_and_each_item_is_whole() {
    let written = written(Responses, &request(), true, &["I ", "", "look."], reply(FinishReason::ToolCalls));
    let events = events(&written);
    let item = |kinds: &[&str], index: usize| {
        kinds.iter().map(|kind| format!("response.{kind} {index}")).collect::<Vec<String>>()
    };
    let message = [
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
    ];
    let call = [
        "output_item.added",
        "function_call_arguments.delta",
        "function_call_arguments.done",
        "output_item.done",
    ];
    let expected = [
        vec!["response.created null".to_owned(), "response.in_progress null".to_owned()],
        item(&message, 0),
        item(&call, 1),
        item(&call, 2),
        vec!["response.completed null".to_owned()],
    ];
    let kind = |event: &Value| format!("{} {}", event["type"].as_str().unwrap(), event["output_index"]);
    assert_eq!(events.iter().map(kind).collect::<Vec<String>>(), expected.concat());
    for (number, event) in events.iter().enumerate() {
        assert_eq!(event["sequence_number"], number);
    }
    let named: Vec<&str> = written.lines().filter_map(|line| line.strip_prefix("event: ")).collect();
    assert_eq!(named, events.iter().map(|event| event["type"].as_str().unwrap()).collect::<Vec<&str>>());
    let output = events.last().unwrap()["response"]["output"].as_array().unwrap();
    let done = events.iter().filter(|event| event["type"] == "response.output_item.done");
    assert_eq!(
        done.map(|event| &event["item"]).collect::<Vec<&Value>>(),
        output.iter().collect::<Vec<&Value>>()
    );
    assert_eq!((&events[6]["text"], &events[7]["part"]["text"]), (&json!("I look."), &json!("I look.")));
    let added = &events[9]["item"];
    assert_eq!((&added["arguments"], &added["id"]), (&json!(""), &events[10]["item_id"]));
    assert_eq!(
        (&events[0]["response"]["output"], &events[0]["response"]["id"]),
        (&json!([]), &json!("resp_1"))
    );
}
