//! Forms of the answer in other dialects.

use serde_json::{Value, json};

use super::{Chat, GatewayDialect, Gemini, Messages, Responses, fitted, read};
use crate::host::model::config::{ModelConfig, Provider};
use crate::host::model::refusals::ServerRefusals;

/// A request for an answer of that schema, in each dialect, and where the dialect has it.
fn asks(schema: &Value) -> [(GatewayDialect, Value, &'static str); 4] {
    let said = json!([{"role": "user", "content": "go"}]);
    let named = json!({"name": "n", "schema": schema});
    let format = json!({"format": {"type": "json_schema", "name": "n", "schema": schema}});
    let config = json!({"responseMimeType": "application/json", "responseSchema": schema});
    [
        (
            Chat,
            json!({"messages": said, "response_format": {"type": "json_schema", "json_schema": named}}),
            "response_format.json_schema.schema",
        ),
        (
            Messages,
            json!({"messages": said, "output_config": {"format": {"type": "json_schema", "schema": schema}}}),
            "output_config.format.schema",
        ),
        (Responses, json!({"input": said, "text": format}), "text.format.schema"),
        (
            Gemini,
            json!({"contents": [{"parts": [{"text": "go"}]}], "generationConfig": config}),
            "generationConfig.responseSchema",
        ),
    ]
}

#[test]
fn a_schema_is_closed_for_models_that_want_it_so() {
    let open = json!({"type": "object", "properties": {"a": {"type": "integer", "minimum": 1}}});
    let shut = json!({
        "type": "object", "properties": {"a": {"type": "integer", "description": "{minimum: 1}"}},
        "additionalProperties": false,
    });
    for (dialect, ask, place) in asks(&open) {
        let lost = vec![format!("{place}.minimum")];
        if dialect != Messages {
            let (body, left_out) = fitted(dialect, &ask, Provider::ANTHROPIC);
            assert_eq!(body["output_config"]["format"], json!({"type": "json_schema", "schema": shut}));
            assert_eq!(left_out, lost);
        }
        #[cfg(feature = "bedrock")]
        {
            let (body, left_out) = fitted(dialect, &ask, Provider::BEDROCK);
            let schema = body.pointer("/outputConfig/textFormat/structure/jsonSchema/schema").unwrap();
            assert_eq!(serde_json::from_str::<Value>(schema.as_str().unwrap()).unwrap(), shut);
            assert_eq!(left_out, lost);
        }
        // Others hold a model to all of it.
        if dialect != Responses {
            let (body, left_out) = fitted(dialect, &ask, Provider::RESPONSES);
            assert_eq!((&body["text"]["format"]["schema"], left_out), (&open, Vec::new()));
        }
    }
}

#[test]
fn a_schema_that_is_missing_asks_for_any_json() {
    let chat = json!({
        "messages": [{"role": "user", "content": "Some JSON."}],
        "response_format": {"type": "json_schema", "json_schema": {"name": "n", "strict": true}},
    });
    let form = json!({"type": "json_object"});
    let (body, left_out) = fitted(Chat, &chat, Provider::RESPONSES);
    assert_eq!((&body["text"]["format"], left_out), (&form, Vec::new()));
    assert_eq!(fitted(Chat, &chat, Provider::ANTHROPIC).1, ["response_format"]);
    for (dialect, ask, _) in asks(&Value::Null) {
        if dialect != Chat {
            let (body, left_out) = fitted(dialect, &ask, Provider::OPENAI);
            assert_eq!((&body["response_format"], left_out), (&form, Vec::new()), "{dialect:?}");
        }
    }
}

#[test]
fn a_conversation_without_the_word_gets_it_where_json_is_asked_for() {
    let asked = |text: &str, system: Option<&str>, provider| {
        let mut ask = json!({
            "contents": [{"role": "user", "parts": [{"text": text}]}],
            "generationConfig": {"responseMimeType": "application/json"},
        });
        if let Some(system) = system {
            ask["systemInstruction"] = json!({"parts": [{"text": system}]});
        }
        fitted(Gemini, &ask, provider).0
    };
    let messages = |text, system| asked(text, system, Provider::OPENAI)["messages"].clone();
    let said = |role: &str, text: &str| json!({"role": role, "content": text});
    let user = said("user", "go");
    assert_eq!(messages("go", None), json!([said("system", "Answer with JSON."), user]));
    let system = said("system", "Be brief.\n\nAnswer with JSON.");
    assert_eq!(messages("go", Some("Be brief.")), json!([system, user]));
    assert_eq!(messages("Go, as Json.", None), json!([said("user", "Go, as Json.")]));
    assert_eq!(messages("go", Some("{json}")), json!([said("system", "{json}"), user]));
    assert!(asked("go", None, Provider::RESPONSES)["input"].to_string().contains("Answer with JSON."));
    // Others have no such rule.
    let ask = json!({"contents": [{"parts": [{"text": "go"}]}]});
    assert!(!fitted(Gemini, &ask, Provider::OPENAI).0.to_string().contains("JSON"));
}

#[test]
fn the_most_tokens_of_the_file_hold_for_anthropic_alone() {
    let chat = json!({"messages": [{"role": "user", "content": "go"}]});
    for (dialect, provider, place, most) in [
        (Chat, Provider::ANTHROPIC, "/max_tokens", Some(500)),
        (Chat, Provider::RESPONSES, "/max_output_tokens", None),
        (Chat, Provider::GEMINI, "/generationConfig/maxOutputTokens", None),
        (Messages, Provider::OPENAI, "/max_tokens", None),
        #[cfg(feature = "bedrock")]
        (Chat, Provider::BEDROCK, "/inferenceConfig/maxTokens", None),
    ] {
        let call = read(dialect, &chat, false).unwrap();
        let config = ModelConfig { max_tokens: Some(500), ..ModelConfig::new(provider, "m") };
        let fitted = call.fitted(&config, &ServerRefusals::default()).unwrap();
        let body: Value = serde_json::from_slice(&fitted.body).unwrap();
        assert_eq!(body.pointer(place).and_then(Value::as_u64), most, "{}", provider.name());
        assert!(fitted.left_out.is_empty());
    }
}
