//! One request, as the server of each provider takes it.

use serde_json::{Value, json};

use super::{Responses, read};
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
