//! Tools of Responses that take a text, at models that have functions alone.

use serde_json::{Value, json};

use super::{Chat, Messages, Responses, events, fitted, read, reply, written};
use crate::engine::{FinishReason, ModelReply};
use crate::host::model::config::Provider;

fn request() -> Value {
    json!({
        "tool_choice": {"type": "custom", "name": "patch"},
        "tools": [
            {"type": "custom", "name": "patch", "description": "Patches.",
                "format": {"type": "grammar", "syntax": "lark", "definition": "start: \"a\""}},
            {"type": "custom", "name": "note", "format": {"type": "text"}},
        ],
        "input": [
            {"role": "user", "content": "go"},
            {"type": "custom_tool_call", "id": "ctc_1", "call_id": "call_1", "name": "patch", "input": "a \"b\"\n"},
            {"type": "custom_tool_call_output", "call_id": "call_1", "output": "done"},
        ],
    })
}

/// A reply whose two calls have these arguments.
fn calling(arguments: [&str; 2]) -> ModelReply {
    let mut reply = reply(FinishReason::ToolCalls);
    for (proposed, (name, arguments)) in
        reply.calls.iter_mut().zip(["patch", "look"].into_iter().zip(arguments))
    {
        (proposed.call.name, proposed.call.arguments) = (name.into(), arguments.into());
    }
    reply
}

#[test]
fn a_tool_that_takes_a_text_is_a_function_of_one_argument() {
    let (body, left_out) = fitted(Responses, &request(), Provider::ANTHROPIC);
    let input = json!({"type": "string", "description": "A text of this grammar (lark):\nstart: \"a\""});
    let schema = |input: &Value| json!({"type": "object", "properties": {"input": input}, "required": ["input"], "additionalProperties": false});
    let tools = json!([
        {"name": "patch", "description": "Patches.", "input_schema": schema(&input)},
        {"name": "note", "input_schema": schema(&json!({"type": "string"}))},
    ]);
    let mut sent = body["tools"].clone();
    for tool in sent.as_array_mut().unwrap() {
        tool.as_object_mut().unwrap().retain(|field, value| field != "description" || *value != "");
    }
    assert_eq!(sent, tools);
    assert_eq!(body["tool_choice"], json!({"type": "tool", "name": "patch"}));
    assert_eq!(body["messages"][1]["content"][0]["input"], json!({"input": "a \"b\"\n"}));
    assert_eq!(body["messages"][2]["content"][0]["content"], "done");
    // Nothing holds another model to the grammar.
    assert_eq!(left_out, ["tools.format.type"]);
}

#[test]
fn its_call_has_the_text_again_whole_and_streamed() {
    let reply = calling([r#"{"input":"a \"b\"\n"}"#, "{}"]);
    let body: Value =
        serde_json::from_str(&written(Responses, &request(), false, &[], reply.clone())).unwrap();
    let item = &body["output"][1];
    assert_eq!(
        *item,
        json!({"id": "ctc_1_0", "type": "custom_tool_call", "status": "completed", "call_id": "toolu_1",
            "name": "patch", "input": "a \"b\"\n"})
    );
    assert_eq!(body["output"][2]["type"], "function_call");
    let events = events(&written(Responses, &request(), true, &["I look."], reply));
    let of = |name: &str| events.iter().find(|event| event["type"] == name).unwrap();
    assert_eq!(of("response.custom_tool_call_input.delta")["delta"], "a \"b\"\n");
    assert_eq!(of("response.custom_tool_call_input.done")["input"], "a \"b\"\n");
    let items: Vec<&Value> =
        events.iter().filter(|event| event["type"] == "response.output_item.done").collect();
    assert_eq!(&items[1]["item"], item);
}

#[test]
fn other_arguments_than_a_text_reach_the_client_as_they_are() {
    for arguments in [r#"{"patch":"a"}"#, r#"{"input":1}"#] {
        let reply = calling([arguments, "{}"]);
        let body: Value = serde_json::from_str(&written(Responses, &request(), false, &[], reply)).unwrap();
        assert_eq!(body["output"][1]["input"], arguments);
    }
}

#[test]
fn a_form_that_is_not_known_is_refused() {
    let body =
        json!({"input": "hi", "tools": [{"type": "custom", "name": "x", "format": {"type": "music"}}]});
    let error = read(Responses, &body, false).unwrap_err();
    assert!(error.starts_with("`tools[0].format.type` "), "{error}");
}

#[test]
fn a_refusal_of_the_past_is_what_the_model_said() {
    let part = json!([{"type": "refusal", "refusal": "I cannot."}]);
    let user = |text: &str| json!({"role": "user", "content": text});
    let said = json!({"role": "assistant", "content": part});
    let turns = json!([user("go"), said, user("why?")]);
    for (dialect, field) in [(Chat, "messages"), (Responses, "input")] {
        let (body, left_out) = fitted(dialect, &json!({field: turns}), Provider::ANTHROPIC);
        assert_eq!(body["messages"][1]["content"], json!([{"type": "text", "text": "I cannot."}]));
        assert_eq!(left_out, [""; 0]);
    }
}

#[test]
fn a_refusal_is_its_text_and_the_reason_in_each_dialect() {
    let refused = || ModelReply { calls: Vec::new(), ..reply(FinishReason::ContentFilter) };
    let user = json!([{"role": "user", "content": "go"}]);
    let cases = [
        (Chat, "messages", "/choices/0/message/content", "/choices/0/finish_reason", "content_filter"),
        (Messages, "messages", "/content/0/text", "/stop_reason", "refusal"),
        (Responses, "input", "/output/0/content/0/text", "/incomplete_details/reason", "content_filter"),
    ];
    for (dialect, field, text, reason, word) in cases {
        let body = written(dialect, &json!({field: user}), false, &[], refused());
        let body: Value = serde_json::from_str(&body).unwrap();
        assert_eq!((body.pointer(text), body.pointer(reason)), (Some(&json!("I look.")), Some(&json!(word))));
    }
}
