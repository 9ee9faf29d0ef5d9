//! One request, as the server of each provider takes it.

use serde_json::{Value, json};

use super::{Chat, Messages, Responses, read};
use crate::host::model::config::{ModelConfig, Provider};
use crate::host::model::refusals::ServerRefusals;
use crate::host::model::wire::chat::known_hosts;

/// What servers take in different forms: who says what, a call that is demanded, no parallel ones, the most tokens, ids, an image, a
/// mark for the cache.
fn request() -> Value {
    let image = "data:image/png;base64,iVBORw0KGgo=";
    json!({
        "model": "asked", "max_output_tokens": 90, "parallel_tool_calls": false, "tool_choice": "required",
        "prompt_cache_key": "k", "temperature": 0.5,
        "tools": [{"type": "function", "name": "look", "parameters": {"type": "object"}}],
        "input": [
            {"role": "developer", "content": "Be kind."},
            {"role": "user", "content": [{"type": "input_text", "text": "go"}, {"type": "input_image", "image_url": image}]},
            {"type": "function_call", "call_id": "call_with:a.long|id", "name": "look", "arguments": "{\"a\":1}"},
            {"type": "function_call_output", "call_id": "call_with:a.long|id", "output": "one"},
            {"role": "developer", "content": "Be brief now."},
        ],
    })
}

/// The model that is asked there.
fn model_at(host: &str) -> &'static str {
    match host {
        "deepseek.com" => "deepseek-v4-flash",
        "moonshot.ai" | "moonshot.cn" | "kimi.com" => "kimi-k2.6",
        "aliyuncs.com" => "qwen3-235b-a22b-thinking-2507",
        "openai.com" | "openai.azure.com" => "gpt-5",
        "openrouter.ai" => "mistralai/mistral-large",
        _ => "m",
    }
}

fn snapshot(name: &str, config: &ModelConfig) {
    let call = read(Responses, &request(), true).unwrap();
    let fitted = call.fitted(config, &ServerRefusals::default()).unwrap();
    let body: Value = serde_json::from_slice(&fitted.body).unwrap();
    let body = serde_json::to_string_pretty(&body).unwrap();
    insta::with_settings!({prepend_module_to_snapshot => false, snapshot_path => "snapshots"}, {
        insta::assert_snapshot!(name, format!("{body}\nleft out: {}", fitted.left_out.join(", ")));
    });
}

#[test]
fn every_server_gets_the_request_that_it_takes() {
    for host in known_hosts().chain(["localhost"]) {
        let base_url = format!("https://api.{host}/v1");
        let config = ModelConfig { base_url, ..ModelConfig::new(Provider::OPENAI, model_at(host)) };
        snapshot(host, &config);
    }
}

#[test]
fn every_other_dialect_gets_the_request_that_it_takes() {
    for provider in [Provider::ANTHROPIC, Provider::RESPONSES, Provider::GEMINI, Provider::AZURE] {
        snapshot(provider.name(), &ModelConfig::new(provider, "m"));
    }
    #[cfg(feature = "bedrock")]
    snapshot("bedrock", &ModelConfig::new(Provider::BEDROCK, "anthropic.claude-opus-4-8"));
}

#[cfg(feature = "bedrock")]
#[test]
fn marks_for_the_cache_are_bedrocks_where_its_model_has_one() {
    let mark = json!({"type": "ephemeral"});
    let text = |said: &str| json!([{"type": "text", "text": said, "cache_control": mark}]);
    let request = json!({
        "model": "asked", "max_tokens": 9, "system": text("Be kind."),
        "tools": [{"name": "look", "input_schema": {"type": "object"}, "cache_control": mark}],
        "messages": [{"role": "user", "content": text("go")}, {"role": "assistant", "content": "so"},
            {"role": "user", "content": "more"}],
    });
    let call = read(Messages, &request, true).unwrap();
    let of = |model: &str| {
        let fitted =
            call.fitted(&ModelConfig::new(Provider::BEDROCK, model), &ServerRefusals::default()).unwrap();
        let body: Value = serde_json::from_slice(&fitted.body).unwrap();
        let point = json!({"cachePoint": {"type": "default"}});
        let places = ["/toolConfig/tools/1", "/system/1", "/messages/2/content/1"];
        let marked = places.iter().filter(|place| body.pointer(place) == Some(&point)).count();
        assert_eq!(body.to_string().matches("cachePoint").count(), marked);
        (marked, fitted.left_out.join(", "))
    };
    let all = "messages.content.cache_control, system.cache_control, tools.cache_control".to_owned();
    assert_eq!(of("eu.anthropic.claude-opus-4-8-v1:0"), (3, String::new()));
    assert_eq!(of("anthropic.claude-3-haiku-20240307-v1:0"), (0, all.clone()));
    assert_eq!(of("amazon.nova-pro-v1:0"), (0, all));
}

#[test]
#[cfg(feature = "bedrock")]
fn claude_behind_bedrock_is_limited_to_one_call_by_its_own_field() {
    let of = |model: &str, choice: Value| {
        let request = json!({
            "model": "asked", "messages": [{"role": "user", "content": "go"}], "parallel_tool_calls": false,
            "tools": [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}],
            "tool_choice": choice,
        });
        let call = read(Chat, &request, true).unwrap();
        let fitted =
            call.fitted(&ModelConfig::new(Provider::BEDROCK, model), &ServerRefusals::default()).unwrap();
        let body: Value = serde_json::from_slice(&fitted.body).unwrap();
        let written = ["/additionalModelRequestFields/tool_choice", "/toolConfig/toolChoice"]
            .map(|place| body.pointer(place).cloned().unwrap_or_default());
        (written, fitted.left_out.join(", "))
    };
    let one = |mut choice: Value| {
        choice["disable_parallel_tool_use"] = true.into();
        [choice, Value::Null]
    };
    let look = json!({"type": "function", "function": {"name": "look"}});
    let claude = "eu.anthropic.claude-opus-4-8-v1:0";
    assert_eq!(of(claude, json!("auto")), (one(json!({"type": "auto"})), String::new()));
    assert_eq!(of(claude, json!("required")), (one(json!({"type": "any"})), String::new()));
    assert_eq!(of(claude, look), (one(json!({"type": "tool", "name": "look"})), String::new()));
    assert_eq!(of(claude, json!("none")), ([Value::Null, Value::Null], String::new()));
    for other in ["anthropic.claude-3-7-sonnet-20250219-v1:0", "amazon.nova-pro-v1:0"] {
        let forced = [Value::Null, json!({"any": {}})];
        assert_eq!(of(other, json!("required")), (forced, "parallel_tool_calls".to_owned()));
    }
}
