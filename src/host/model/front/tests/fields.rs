//! Every field of a request that the SDKs know, and what becomes of it in each other dialect: a field that is lost without a word
//! is found here.

use serde_json::{Map, Value, json};

use super::{Chat, GatewayDialect, Gemini, Messages, Responses, read};
use crate::host::model::config::{ModelConfig, Provider};
use crate::host::model::refusals::ServerRefusals;

/// A field, a value that says something, and what becomes of it for a model of chat completions, messages, Responses, Gemini and
/// Converse: `c`: carried, `n`: named as left out, `r`: refused, `-`: passed over, for a reason that is given; a blank: its own.
type FieldRow = (&'static str, &'static str, &'static str, &'static str);

/// `CompletionCreateParamsBase` of openai 3.57.0.
const CHAT: &[FieldRow] = &[
    ("messages", r#"[{"role":"user","content":"other"}]"#, " cccc", ""),
    ("model", r#""m""#, " ----", "which model it is, the route says"),
    ("stream", "true", " ----", "the gateway asks for what the client wants"),
    ("stream_options.include_usage", "true", " ----", "a stream is asked for its tokens in any case"),
    ("stream_options.include_obfuscation", "true", " ----", "padding of that stream alone"),
    ("audio", r#"{"voice":"x"}"#, " rrrr", ""),
    ("frequency_penalty", "0.5", " nncn", ""),
    ("function_call", r#""auto""#, " rrrr", ""),
    ("functions", r#"[{"name":"f"}]"#, " rrrr", ""),
    ("logit_bias", r#"{"1":2}"#, " nnnn", ""),
    ("logprobs", "true", " nnnn", ""),
    ("max_completion_tokens", "9", " cccc", ""),
    ("max_tokens", "9", " cccc", ""),
    ("metadata", r#"{"a":"b"}"#, " ncnn", ""),
    ("modalities", r#"["text"]"#, " nnnn", ""),
    ("moderation", r#"{"model":"x"}"#, " nnnn", ""),
    ("n", "1", " ----", "one is what there is in any case"),
    ("parallel_tool_calls", "false", " ccnn", ""),
    ("prediction", r#"{"type":"content","content":"x"}"#, " nnnn", ""),
    ("presence_penalty", "0.5", " nncn", ""),
    ("prompt_cache_key", r#""k""#, " ncnn", ""),
    ("prompt_cache_options", r#"{"mode":"explicit"}"#, " nnnn", ""),
    ("prompt_cache_retention", r#""24h""#, " ncnn", ""),
    ("reasoning_effort", r#""low""#, " cccn", ""),
    (
        "response_format",
        r#"{"type":"json_schema","json_schema":{"name":"n","schema":{"type":"object","properties":{"a":{"type":"string"}}}}}"#,
        " cccc",
        "",
    ),
    ("safety_identifier", r#""s""#, " ncnn", ""),
    ("seed", "4", " nncn", ""),
    ("service_tier", r#""flex""#, " ncnn", ""),
    ("stop", r#"["END"]"#, " cncc", ""),
    ("store", "true", " nnnn", ""),
    ("temperature", "0.5", " cccc", ""),
    ("tool_choice", r#""required""#, " cccc", ""),
    (
        "tool_choice",
        r#"{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[{"type":"function","function":{"name":"look"}}]}}"#,
        " cccc",
        "",
    ),
    ("tools", r#"[{"type":"function","function":{"name":"f"}}]"#, " cccc", ""),
    ("tools", r#"[{"type":"function","function":{"name":"f","strict":true}}]"#, " ncnn", ""),
    ("top_logprobs", "2", " nnnn", ""),
    ("top_p", "0.5", " cccc", ""),
    ("user", r#""u1""#, " ccnn", ""),
    ("verbosity", r#""low""#, " ncnn", ""),
    ("web_search_options", r#"{"search_context_size":"low"}"#, " rrrr", ""),
];

/// `MessageCreateParamsBase` of anthropic 2.14.0, and what earlier versions of its API take.
const MESSAGES: &[FieldRow] = &[
    ("max_tokens", "9", "c ccc", ""),
    ("messages", r#"[{"role":"user","content":"other"}]"#, "c ccc", ""),
    ("model", r#""m""#, "- ---", "which model it is, the route says"),
    ("stream", "true", "- ---", "the gateway asks for what the client wants"),
    ("cache_control", r#"{"type":"ephemeral"}"#, "n nnn", ""),
    ("container", r#""c""#, "r rrr", ""),
    ("mcp_servers", r#"[{"name":"x"}]"#, "r rrr", ""),
    ("diagnostics", r#"{"a":1}"#, "n nnn", ""),
    ("inference_geo", r#""us""#, "n nnn", ""),
    ("metadata.user_id", r#""u1""#, "c cnn", ""),
    ("output_config.effort", r#""low""#, "c ccn", ""),
    (
        "output_config.format",
        r#"{"type":"json_schema","schema":{"type":"object","properties":{"a":{"type":"string"}}}}"#,
        "c ccc",
        "",
    ),
    ("service_tier", r#""auto""#, "n nnn", ""),
    ("speed", r#""fast""#, "n nnn", ""),
    ("stop_sequences", r#"["END"]"#, "c ncc", ""),
    ("system", r#""Be brief.""#, "c ccc", ""),
    ("thinking", r#"{"type":"enabled","budget_tokens":2000}"#, "n nnn", ""),
    ("tool_choice", r#"{"type":"any"}"#, "c ccc", ""),
    ("tool_choice.disable_parallel_tool_use", "true", "c cnn", ""),
    ("tools", r#"[{"name":"f","input_schema":{"type":"object"}}]"#, "c ccc", ""),
    ("tools", r#"[{"name":"f","input_schema":{"type":"object"},"strict":true}]"#, "n nnn", ""),
    (
        "tools",
        r#"[{"name":"f","input_schema":{"type":"object"},"cache_control":{"type":"ephemeral"}}]"#,
        "n nnn",
        "",
    ),
    ("user_profile_id", r#""p""#, "n nnn", ""),
    ("workspace_id", r#""w""#, "n nnn", ""),
    ("temperature", "0.5", "c ccc", ""),
    ("top_k", "4", "n ncn", ""),
    ("top_p", "0.5", "c ccc", ""),
];

/// `ResponseCreateParamsBase` of openai 3.57.0.
const RESPONSES: &[FieldRow] = &[
    ("access_programs", r#"{"cyber":"x"}"#, "nn nn", ""),
    ("background", "true", "rr rr", ""),
    ("background_options", r#"{"completion_window":"x"}"#, "nn nn", ""),
    ("context_management", r#"[{"type":"compaction"}]"#, "nn nn", ""),
    ("conversation", r#""c""#, "rr rr", ""),
    ("image", r#"{"context_compression":"x"}"#, "nn nn", ""),
    ("include", r#"["reasoning.encrypted_content"]"#, "nn nn", ""),
    ("input", r#""other""#, "cc cc", ""),
    ("instructions", r#""Be brief.""#, "cc cc", ""),
    ("max_output_tokens", "9", "cc cc", ""),
    ("max_tool_calls", "2", "nn nn", ""),
    ("metadata", r#"{"a":"b"}"#, "nn nn", ""),
    ("model", r#""m""#, "-- --", "which model it is, the route says"),
    ("moderation", r#"{"model":"x"}"#, "nn nn", ""),
    ("parallel_tool_calls", "false", "cc nn", ""),
    ("previous_response_id", r#""r""#, "rr rr", ""),
    ("prompt", r#"{"id":"p"}"#, "rr rr", ""),
    ("prompt_cache_key", r#""k""#, "cn nn", ""),
    ("prompt_cache_options", r#"{"mode":"explicit"}"#, "nn nn", ""),
    ("prompt_cache_retention", r#""24h""#, "cn nn", ""),
    ("reasoning.effort", r#""low""#, "cc cn", ""),
    ("reasoning.summary", r#""auto""#, "nn nn", ""),
    ("reasoning.context", r#""x""#, "nn nn", ""),
    ("reasoning.mode", r#""x""#, "nn nn", ""),
    ("safety_identifier", r#""s""#, "cn nn", ""),
    ("service_tier", r#""flex""#, "cn nn", ""),
    ("store", "true", "nn nn", ""),
    ("stream", "true", "-- --", "the gateway asks for what the client wants"),
    ("stream_options", r#"{"include_obfuscation":true}"#, "-- --", "padding of that stream alone"),
    ("temperature", "0.5", "cc cc", ""),
    (
        "text.format",
        r#"{"type":"json_schema","name":"n","schema":{"type":"object","properties":{"a":{"type":"string"}}}}"#,
        "cc cc",
        "",
    ),
    ("text.verbosity", r#""low""#, "cn nn", ""),
    ("tool_choice", r#""required""#, "cc cc", ""),
    (
        "tool_choice",
        r#"{"type":"allowed_tools","mode":"required","tools":[{"type":"function","name":"look"}]}"#,
        "cc cc",
        "",
    ),
    ("tools", r#"[{"type":"function","name":"f"}]"#, "cc cc", ""),
    ("tools", r#"[{"type":"function","name":"f","strict":true}]"#, "cn nn", ""),
    ("top_logprobs", "2", "nn nn", ""),
    ("top_p", "0.5", "cc cc", ""),
    ("truncation", r#""auto""#, "nn nn", ""),
    ("user", r#""u1""#, "cc nn", ""),
];

/// What `_GenerateContentConfig_to_mldev` and its like write of `GenerateContentConfig` of google-genai 3.6.1, and
/// `GenerationConfig`.
const GEMINI: &[FieldRow] = &[
    ("contents", r#"[{"role":"user","parts":[{"text":"other"}]}]"#, "ccc c", ""),
    ("systemInstruction", r#"{"parts":[{"text":"Be brief."}]}"#, "ccc c", ""),
    ("tools", r#"[{"functionDeclarations":[{"name":"f"}]}]"#, "ccc c", ""),
    ("tools", r#"[{"functionDeclarations":[{"name":"f","behavior":"BLOCKING"}]}]"#, "nnn n", ""),
    ("tools", r#"[{"googleSearch":{"x":1}}]"#, "rrr r", ""),
    ("toolConfig.functionCallingConfig", r#"{"mode":"ANY"}"#, "ccc c", ""),
    (
        "toolConfig.functionCallingConfig",
        r#"{"mode":"ANY","allowedFunctionNames":["look","wait"]}"#,
        "ccc c",
        "",
    ),
    (
        "toolConfig.functionCallingConfig",
        r#"{"mode":"AUTO","streamFunctionCallArguments":true}"#,
        "nnn n",
        "",
    ),
    ("toolConfig.retrievalConfig", r#"{"languageCode":"en"}"#, "nnn n", ""),
    ("toolConfig.includeServerSideToolInvocations", "true", "nnn n", ""),
    ("cachedContent", r#""c""#, "rrr r", ""),
    ("labels", r#"{"a":"b"}"#, "nnn n", ""),
    ("modelArmorConfig", r#"{"a":"b"}"#, "nnn n", ""),
    ("safetySettings", r#"[{"category":"x"}]"#, "nnn n", ""),
    ("serviceTier", r#""flex""#, "nnn n", ""),
    ("store", "true", "nnn n", ""),
    ("continuationToken", r#""t""#, "rrr r", ""),
    ("generationConfig.audioTimestamp", "true", "nnn n", ""),
    ("generationConfig.audioTranscriptionConfig", r#"{"a":1}"#, "nnn n", ""),
    ("generationConfig.candidateCount", "1", "--- -", "one is what there is in any case"),
    ("generationConfig.enableAffectiveDialog", "true", "nnn n", ""),
    ("generationConfig.enableEnhancedCivicAnswers", "true", "nnn n", ""),
    ("generationConfig.frequencyPenalty", "0.5", "cnn n", ""),
    ("generationConfig.imageConfig", r#"{"aspectRatio":"1:1"}"#, "nnn n", ""),
    ("generationConfig.logprobs", "2", "nnn n", ""),
    ("generationConfig.maxOutputTokens", "9", "ccc c", ""),
    ("generationConfig.mediaResolution", r#""LOW""#, "nnn n", ""),
    ("generationConfig.modelSelectionConfig", r#"{"a":1}"#, "nnn n", ""),
    ("generationConfig.presencePenalty", "0.5", "cnn n", ""),
    ("generationConfig.responseFormat", r#"{"a":1}"#, "rrr r", ""),
    ("generationConfig.responseJsonSchema", r#"{"type":"string"}"#, "ccc c", ""),
    ("generationConfig.responseLogprobs", "true", "nnn n", ""),
    ("generationConfig.responseMimeType", r#""application/json""#, "cnc n", ""),
    ("generationConfig.responseModalities", r#"["TEXT"]"#, "--- -", "a text is what there is in any case"),
    ("generationConfig.responseModalities", r#"["AUDIO"]"#, "rrr r", ""),
    ("generationConfig.responseSchema", r#"{"type":"STRING"}"#, "ccc c", ""),
    ("generationConfig.routingConfig", r#"{"a":1}"#, "nnn n", ""),
    ("generationConfig.seed", "4", "cnn n", ""),
    ("generationConfig.speechConfig", r#"{"a":1}"#, "nnn n", ""),
    ("generationConfig.stopSequences", r#"["END"]"#, "ccn c", ""),
    ("generationConfig.temperature", "0.5", "ccc c", ""),
    ("generationConfig.thinkingConfig.includeThoughts", "true", "nnn n", ""),
    ("generationConfig.thinkingConfig.thinkingBudget", "99", "nnn n", ""),
    ("generationConfig.thinkingConfig.thinkingLevel", r#""LOW""#, "ccc n", ""),
    ("generationConfig.topK", "4", "ncn n", ""),
    ("generationConfig.topP", "0.5", "ccc c", ""),
    ("generationConfig.translationConfig", r#"{"a":1}"#, "nnn n", ""),
];

/// A request with two tools, in that dialect.
fn plain(dialect: GatewayDialect) -> Value {
    let said = json!([{"role": "user", "content": "go"}]);
    let names = ["look", "wait"];
    match dialect {
        Chat => {
            let tools = names.map(|name| json!({"type": "function", "function": {"name": name}}));
            json!({"model": "m", "messages": said, "tools": tools})
        }
        Messages => {
            let tools = names.map(|name| json!({"name": name, "input_schema": {"type": "object"}}));
            json!({"model": "m", "max_tokens": 50, "messages": said, "tools": tools})
        }
        Responses => {
            let tools = names.map(|name| json!({"type": "function", "name": name}));
            json!({"model": "m", "input": said, "tools": tools})
        }
        Gemini => {
            let tools = names.map(|name| json!({"name": name}));
            json!({"contents": [{"role": "user", "parts": [{"text": "go"}]}], "tools": [{"functionDeclarations": tools}]})
        }
    }
}

/// The request with a field more.
fn with(mut request: Value, path: &str, value: &str) -> Value {
    let mut at = &mut request;
    for name in path.split('.') {
        at = at.as_object_mut().unwrap().entry(name).or_insert_with(|| Value::Object(Map::new()));
    }
    *at = serde_json::from_str(value).unwrap();
    if path.starts_with("tool_choice.") {
        at = &mut request["tool_choice"];
        at["type"] = "auto".into();
    }
    request
}

/// What becomes of a field for models of that provider.
fn fate(dialect: GatewayDialect, (path, value): (&str, &str), provider: &'static Provider) -> char {
    let fitted = |request: &Value| {
        let call = read(dialect, request, false).ok()?;
        let fitted = call.fitted(&ModelConfig::new(provider, "m"), &ServerRefusals::default()).unwrap();
        Some((serde_json::from_slice::<Value>(&fitted.body).unwrap(), fitted.left_out))
    };
    let (before, _) = fitted(&plain(dialect)).unwrap();
    let Some((after, left_out)) = fitted(&with(plain(dialect), path, value)) else { return 'r' };
    let within = |named: &String| named.starts_with(path) || path.starts_with(&**named);
    if left_out.iter().any(within) {
        return 'n';
    }
    assert!(left_out.is_empty(), "{path}: {left_out:?}");
    if before == after { '-' } else { 'c' }
}

#[test]
fn a_user_goes_only_where_such_a_one_is_taken() {
    let long = "u".repeat(65);
    for (user, provider, is_taken) in [
        ("u1", Provider::ANTHROPIC, true),
        ("a@b.example", Provider::ANTHROPIC, false),
        ("+1 555 0100", Provider::ANTHROPIC, false),
        (&*long, Provider::ANTHROPIC, true),
        (&*long, Provider::RESPONSES, false),
        ("a@b.example", Provider::RESPONSES, true),
    ] {
        let request = with(plain(Chat), "user", &json!(user).to_string());
        let call = read(Chat, &request, false).unwrap();
        let fitted = call.fitted(&ModelConfig::new(provider, "m"), &ServerRefusals::default()).unwrap();
        let body = String::from_utf8(fitted.body).unwrap();
        assert_eq!((body.contains(user), fitted.left_out.is_empty()), (is_taken, is_taken), "{body}");
    }
}

#[test]
fn tools_that_may_not_be_called_are_not_declared() {
    let chat = r#"{"type":"allowed_tools","allowed_tools":{"mode":"required","tools":[{"type":"function","function":{"name":"look"}}]}}"#;
    let responses =
        r#"{"type":"allowed_tools","mode":"required","tools":[{"type":"function","name":"look"}]}"#;
    let gemini = r#"{"mode":"ANY","allowedFunctionNames":["look","gone"]}"#;
    for (dialect, path, value) in [
        (Chat, "tool_choice", chat),
        (Responses, "tool_choice", responses),
        (Gemini, "toolConfig.functionCallingConfig", gemini),
    ] {
        let call = read(dialect, &with(plain(dialect), path, value), false).unwrap();
        let fitted =
            call.fitted(&ModelConfig::new(Provider::ANTHROPIC, "m"), &ServerRefusals::default()).unwrap();
        let body: Value = serde_json::from_slice(&fitted.body).unwrap();
        assert_eq!((body["tools"].as_array().unwrap().len(), &body["tools"][0]["name"]), (1, &json!("look")));
        assert_eq!(body["tool_choice"], json!({"type": "any"}), "{dialect:?}");
    }
}

#[test]
fn no_field_of_a_request_is_lost_without_a_word() {
    let own = [Some(Chat), Some(Messages), Some(Responses), Some(Gemini), None];
    let providers = [
        Some(Provider::OPENAI),
        Some(Provider::ANTHROPIC),
        Some(Provider::RESPONSES),
        Some(Provider::GEMINI),
        #[cfg(feature = "bedrock")]
        Some(Provider::BEDROCK),
        #[cfg(not(feature = "bedrock"))]
        None,
    ];
    let mut wrong = Vec::new();
    for (dialect, rows) in [(Chat, CHAT), (Messages, MESSAGES), (Responses, RESPONSES), (Gemini, GEMINI)] {
        for (path, value, expected, reason) in rows {
            for ((provider, own), expected) in providers.iter().zip(own).zip(expected.chars()) {
                let Some(provider) = provider.filter(|_| own != Some(dialect)) else { continue };
                let found = fate(dialect, (path, value), provider);
                if found != expected || (found == '-') == reason.is_empty() {
                    wrong.push(format!(
                        "{dialect:?} {path} {value} -> {}: {found}, not {expected}",
                        provider.name()
                    ));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
