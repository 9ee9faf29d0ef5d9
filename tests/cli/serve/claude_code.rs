//! Requests as Claude Code sends them: blocks with marks for a cache, fields of betas, thoughts of earlier turns.

use serde_json::{Value, json};

use super::{Gateway, Reply, Upstream, one, said};

/// The address has a query, which stays here.
const PATH: &str = "/v1/messages?beta=true";
const HEADERS: [(&str, &str); 6] = [
    ("anthropic-version", "2023-06-01"),
    ("anthropic-beta", "claude-code-20250219,interleaved-thinking-2025-05-14,context-management-2025-06-27"),
    ("anthropic-dangerous-direct-browser-access", "true"),
    ("x-app", "cli"),
    ("user-agent", "claude-cli/2.1.0 (external, cli)"),
    ("x-stainless-lang", "js"),
];

/// The second turn of a session.
fn request() -> Value {
    let mark = json!({"type": "ephemeral"});
    let schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object", "additionalProperties": false,
        "properties": {"command": {"type": "string", "description": "The command"}, "timeout": {"type": "number"}},
        "required": ["command"],
    });
    json!({
        "model": "main", "max_tokens": 32000, "stream": false,
        "system": [
            {"type": "text", "text": "x-anthropic-billing-header: cc_version=2.1.0; cc_entrypoint=cli;"},
            {"type": "text", "text": "You are Claude Code, Anthropic's official CLI for Claude.", "cache_control": mark},
        ],
        "tools": [{"name": "Bash", "description": "Runs a command.", "input_schema": schema, "eager_input_streaming": true}],
        "messages": [
            {"role": "user", "content": [
                {"type": "text", "text": "<system-reminder>\nAs you answer, know this.\n</system-reminder>\n"},
                {"type": "text", "text": "what is here?"},
            ]},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "I list it.", "signature": "c2ln"},
                {"type": "text", "text": "I look."},
                {"type": "tool_use", "id": "toolu_01", "name": "Bash", "input": {"command": "ls"}, "caller": {"type": "direct"}},
            ]},
            {"role": "user", "content": [
                {"tool_use_id": "toolu_01", "type": "tool_result", "content": "README.md", "is_error": false},
                {"type": "text", "text": "and then?", "cache_control": mark},
            ]},
        ],
        "metadata": {"user_id": "user_1_account__session_2"}, "thinking": {"type": "adaptive"},
        "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
        "output_config": {"effort": "medium"},
    })
}

#[tokio::test]
async fn they_pass_byte_by_byte_to_anthropic() {
    let message = r#"{"id":"m","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"x"}],"stop_reason":"end_turn","usage":{"input_tokens":3,"output_tokens":2}}"#;
    let upstream = Upstream::start([Reply::json(200, "", message)]);
    let got = Gateway::start(&one("anthropic", &upstream)).post(PATH, &HEADERS, request().to_string()).await;
    assert_eq!((got.status, got.body.as_str()), (200, message), "{got:?}");
    assert_eq!(upstream.bodies()[0], request().to_string().replace("\"main\"", "\"real-main\""));
    let seen = upstream.seen().remove(0);
    for (name, value) in
        HEADERS.into_iter().filter(|(name, _)| *name != "anthropic-dangerous-direct-browser-access")
    {
        assert!(seen.contains(&format!("{name}: {value}\r\n")), "{name}: {seen}");
    }
}

#[tokio::test]
async fn they_reach_a_model_of_openai_with_all_that_it_can_understand() {
    let upstream = Upstream::start([Reply::json(200, "", &said("hello"))]);
    let got = Gateway::start(&one("openai", &upstream)).post(PATH, &HEADERS, request().to_string()).await;
    assert_eq!((got.status, &got.json()["content"][0]["text"]), (200, &json!("hello")), "{got:?}");
    let sent: Value = serde_json::from_str(&upstream.bodies()[0]).unwrap();
    let roles: Vec<&str> =
        sent["messages"].as_array().unwrap().iter().filter_map(|message| message["role"].as_str()).collect();
    assert_eq!(roles, ["system", "user", "assistant", "tool", "user"]);
    assert_eq!(sent["messages"][2]["content"], "I look.");
    assert_eq!(sent["messages"][2]["tool_calls"][0]["function"]["arguments"], r#"{"command":"ls"}"#);
    assert_eq!(sent["messages"][4]["content"], "and then?");
    assert_eq!(sent["tools"][0]["function"]["parameters"], request()["tools"][0]["input_schema"]);
    let left_out = got.header("x-unfazed-left-out");
    for field in ["thinking", "context_management", "messages.content.thinking", "system.cache_control"] {
        assert!(left_out.split(", ").any(|named| named == field), "{field}: {left_out}");
    }
}
