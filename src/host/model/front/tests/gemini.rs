//! `generateContent` of Gemini, as clients speak it.

use serde_json::{Value, json};

use super::{Gemini, events, fitted, read, reply, written};
use crate::engine::{FinishReason, ModelReply};
use crate::host::model::config::Provider;
use crate::host::model::wire::gemini::STAND_IN;

pub(super) fn request() -> Value {
    json!({
        "systemInstruction": {"role": "user", "parts": [{"text": "Be brief."}]}, "safetySettings": [{"category": "x"}],
        "generationConfig": {
            "maxOutputTokens": 90, "temperature": 1.5, "topP": 0.5, "topK": 4, "stopSequences": ["END"], "candidateCount": 1,
            "responseMimeType": "application/json", "responseSchema": {"type": "OBJECT"}, "thinkingConfig": {"thinkingBudget": 0},
        },
        "toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["look"]}},
        "tools": [{"functionDeclarations": [{
            "name": "look", "description": "Looks.", "parameters": {"type": "OBJECT", "properties": {"item": {"type": "STRING"}}},
        }]}],
        "contents": [
            {"role": "user", "parts": [{"text": "go"}]},
            {"role": "model", "parts": [
                {"text": "hm", "thought": true},
                {"text": "I look."},
                {"functionCall": {"name": "look", "args": {"item": "a"}}, "thoughtSignature": "c2VjcmV0"},
                {"functionCall": {"id": "call:b", "name": "look", "args": {"item": "b"}}},
                {"functionCall": {"name": "rest"}},
            ]},
            {"role": "user", "parts": [
                {"text": "Be quick."},
                {"functionResponse": {"name": "rest", "response": {"error": "no"}}},
                {"functionResponse": {"id": "call:b", "name": "look", "response": {"output": "two"}}},
                {"functionResponse": {"name": "look", "response": {"result": {"one": 1}}}},
            ]},
        ],
    })
}

#[test]
fn contents_are_a_request_of_a_chat() {
    let (body, left_out) = fitted(Gemini, &request(), Provider::OPENAI);
    let calls = &body["messages"][2]["tool_calls"];
    let ids = [0, 1, 2].map(|at: usize| calls[at]["id"].as_str().unwrap());
    assert_eq!((ids[0], ids[2]), ("call_1", "call_3"));
    assert_eq!(
        body["messages"],
        json!([
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "go"},
            {"role": "assistant", "content": "I look.", "tool_calls": [
                {"id": ids[0], "type": "function", "function": {"name": "look", "arguments": "{\"item\":\"a\"}"}},
                {"id": ids[1], "type": "function", "function": {"name": "look", "arguments": "{\"item\":\"b\"}"}},
                {"id": ids[2], "type": "function", "function": {"name": "rest", "arguments": "{}"}},
            ]},
            {"role": "tool", "tool_call_id": ids[0], "content": "{\"one\":1}"},
            {"role": "tool", "tool_call_id": ids[1], "content": "two"},
            {"role": "tool", "tool_call_id": ids[2], "content": "The tool failed: no"},
            {"role": "user", "content": "Be quick."},
        ])
    );
    let function = &body["tools"][0]["function"];
    assert_eq!(function["parameters"], json!({"type": "object", "properties": {"item": {"type": "string"}}}));
    assert_eq!(body["tool_choice"], json!({"type": "function", "function": {"name": "look"}}));
    assert_eq!((&body["top_p"], &body["stop"]), (&json!(0.5), &json!(["END"])));
    let schema = json!({"name": "answer", "schema": {"type": "object"}});
    assert_eq!(body["response_format"], json!({"type": "json_schema", "json_schema": schema}));
    assert!(!body.to_string().contains("c2VjcmV0"), "{body}");
    let named = [
        "contents.parts.thought",
        "contents.parts.thoughtSignature",
        "generationConfig.thinkingConfig",
        "generationConfig.topK",
        "safetySettings",
    ];
    assert_eq!(left_out, named);
}

#[test]
fn a_result_that_failed_is_an_error_of_a_model_of_anthropic() {
    let (body, left_out) = fitted(Gemini, &request(), Provider::ANTHROPIC);
    let results = body["messages"][2]["content"].as_array().unwrap();
    let errors: Vec<bool> = results.iter().map(|result| result["is_error"] == true).collect();
    assert_eq!(errors, [false, false, true, false]);
    assert_eq!(left_out.last().unwrap(), "generationConfig.temperature");
    let (_, left_out) = fitted(Gemini, &request(), Provider::RESPONSES);
    assert_eq!(left_out.last().unwrap(), "generationConfig.stopSequences");
}

#[test]
fn names_of_fields_may_be_in_snake_case_and_one_object_may_stand_for_a_list() {
    let (body, _) = fitted(
        Gemini,
        &json!({
            "system_instruction": {"parts": {"text": "Be brief."}}, "contents": {"parts": {"text": "hi"}},
            "generation_config": {"max_output_tokens": 9, "response_mime_type": "text/plain"},
            "tools": {"function_declarations": [{"name": "look", "parameters_json_schema": {"type": "object"}}]},
            "tool_config": {"function_calling_config": {"mode": "NONE"}},
        }),
        Provider::ANTHROPIC,
    );
    assert_eq!((&body["system"], &body["max_tokens"]), (&json!("Be brief."), &json!(9)));
    assert_eq!(body["messages"], json!([{"role": "user", "content": [{"type": "text", "text": "hi"}]}]));
    assert_eq!((&body["tools"][0]["name"], &body["tool_choice"]), (&json!("look"), &json!({"type": "none"})));
}

#[test]
fn what_only_gemini_can_do_is_refused_by_its_place() {
    let with = |field: &str, value: Value| {
        let mut body = json!({"contents": [{"parts": [{"text": "hi"}]}]});
        body[field] = value;
        body
    };
    let part = |part: Value| json!({"contents": [{"parts": [part]}]});
    let calling = |config: Value| with("toolConfig", json!({"functionCallingConfig": config}));
    let option = |field: &str, value: Value| with("generationConfig", json!({field: value}));
    for (body, field) in [
        (part(json!({"inlineData": {"data": ""}})), "`contents[0].parts[0].inlineData.mimeType` "),
        (part(json!({"text": "x", "functionResponse": {"name": "x"}})), "`contents[0].parts[0]` "),
        (part(json!({"functionCall": {"name": "look"}})), "`contents[0].parts[0].functionCall` "),
        (
            part(json!({"functionResponse": {"name": "look", "parts": [{"inlineData": {}}]}})),
            "`contents[0].parts[0].functionResponse.parts[0].inlineData.mimeType` ",
        ),
        (with("cachedContent", json!("cachedContents/1")), "`cachedContent` "),
        (with("tools", json!([{"googleSearch": {}}])), "`tools[0].googleSearch` "),
        (calling(json!({"mode": "SOMETIMES"})), "`toolConfig.functionCallingConfig.mode` "),
        (
            calling(json!({"mode": "ANY", "allowedFunctionNames": ["a", "b"]})),
            "`toolConfig.functionCallingConfig.allowedFunctionNames` ",
        ),
        (option("candidateCount", json!(2)), "`generationConfig.candidateCount` "),
        (option("responseModalities", json!(["AUDIO"])), "`generationConfig.responseModalities` "),
        (option("responseMimeType", json!("text/x.enum")), "`generationConfig.responseMimeType` "),
        (json!({"contents": [{"role": "critic", "parts": [{"text": "x"}]}]}), "`contents[0].role` "),
        (json!({"contents": [{"role": "model", "parts": [{"text": "I"}]}]}), "`contents` "),
        (json!({}), "`contents` "),
    ] {
        let error = read(Gemini, &body, false).unwrap_err();
        assert!(error.starts_with(field), "{error}");
    }
}

#[test]
fn a_reply_is_an_answer_of_gemini() {
    let body = written(Gemini, &request(), false, &[], reply(FinishReason::ToolCalls));
    let body: Value = serde_json::from_str(&body).unwrap();
    let id = body.pointer("/candidates/0/content/parts/2/functionCall/id").unwrap();
    let parts = json!([
        {"text": "I look."},
        {"functionCall": {"id": "toolu_1", "name": "look", "args": {"a": 1}}, "thoughtSignature": STAND_IN},
        {"functionCall": {"id": id, "name": "look", "args": {"a": 1}}},
    ]);
    assert_eq!(
        body,
        json!({
            "candidates": [{"content": {"role": "model", "parts": parts}, "index": 0, "finishReason": "STOP"}],
            "modelVersion": "asked", "responseId": "1",
            "usageMetadata": {
                "promptTokenCount": 10, "cachedContentTokenCount": 4, "candidatesTokenCount": 3, "thoughtsTokenCount": 2,
                "totalTokenCount": 15,
            },
        })
    );
}

#[test]
fn the_next_turn_may_be_geminis_or_anothers() {
    let body: Value =
        serde_json::from_str(&written(Gemini, &request(), false, &[], reply(FinishReason::ToolCalls)))
            .unwrap();
    let result =
        |id: &Value| json!({"functionResponse": {"id": id, "name": "look", "response": {"output": "x"}}});
    let content = body["candidates"][0]["content"].clone();
    let results = [1, 2].map(|at: usize| result(&content["parts"][at]["functionCall"]["id"]));
    let next = json!({"contents": [{"role": "user", "parts": [{"text": "go"}]}, content, {"role": "user", "parts": results}]});
    let (body, left_out) = fitted(Gemini, &next, Provider::ANTHROPIC);
    assert_eq!((body["messages"].as_array().unwrap().len(), left_out), (3, Vec::new()));
    assert!(!body.to_string().contains(STAND_IN), "{body}");
}

#[test]
fn only_the_last_piece_of_a_streamed_answer_says_why_it_ended() {
    let written = written(Gemini, &request(), true, &["I ", "", "look."], reply(FinishReason::ToolCalls));
    let pieces = events(&written);
    let texts =
        pieces.iter().filter_map(|piece| piece.pointer("/candidates/0/content/parts/0/text")?.as_str());
    assert_eq!(texts.collect::<Vec<&str>>(), ["I ", "look."]);
    let ends: Vec<Option<&Value>> =
        pieces.iter().map(|piece| piece.pointer("/candidates/0/finishReason")).collect();
    assert_eq!(ends, [None, None, Some(&json!("STOP"))]);
    assert_eq!(pieces[2]["candidates"][0]["content"]["parts"][1]["functionCall"]["args"], json!({"a": 1}));
    assert_eq!(pieces[2]["usageMetadata"]["totalTokenCount"], 15);
}

#[test]
fn a_word_that_gemini_does_not_know_is_no_end() {
    for (finish, word) in [
        (FinishReason::Stop, "STOP"),
        (FinishReason::Length, "MAX_TOKENS"),
        (FinishReason::ContentFilter, "SAFETY"),
        (FinishReason::Other("compaction".into()), "compaction"),
    ] {
        let reply = ModelReply { calls: Vec::new(), ..reply(finish) };
        let whole: Value = serde_json::from_str(&written(Gemini, &request(), false, &[], reply)).unwrap();
        assert_eq!(whole["candidates"][0]["finishReason"], word);
    }
}
