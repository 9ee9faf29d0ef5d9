//! What a refusal of a converted request teaches of those that follow.

use serde_json::{Value, json};

use super::{Chat, GatewayDialect, Gemini, Messages, read};
use crate::engine::Failure;
use crate::host::model::config::{ModelConfig, Provider};
use crate::host::model::refusals::{RefusedRequest, ServerRefusals};

/// The request with those fields more, as it is sent, and what is left out of it.
fn sent(
    (dialect, more): (GatewayDialect, &Value),
    provider: &'static Provider,
    refusals: &ServerRefusals,
    refusal: Option<&str>,
) -> (Value, Vec<String>, Option<String>) {
    let mut ask = match dialect {
        Gemini => json!({"contents": [{"parts": [{"text": "Some JSON."}]}]}),
        _ => json!({"messages": [{"role": "user", "content": "Some JSON."}]}),
    };
    ask.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap_or_default());
    let call = read(dialect, &ask, false).unwrap();
    let fitted = call.fitted(&ModelConfig::new(provider, "m"), refusals).unwrap();
    let refused = RefusedRequest {
        body: &fitted.body,
        format: &*fitted.format,
        options: &fitted.sent,
        instructs: fitted.instructs,
    };
    let failure =
        |message: &str| Failure { status: Some(400), message: message.into(), ..Failure::default() };
    let note = refusal.and_then(|message| refusals.learn("m", &refused, &failure(message)));
    (serde_json::from_slice(&fitted.body).unwrap(), fitted.left_out, note)
}

#[test]
fn an_option_that_is_refused_is_left_out_and_named() {
    let form = json!({"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "string"}}}});
    let tool = json!([{"name": "look", "input_schema": {"type": "object"}}]);
    let one_call = json!({"tools": tool, "tool_choice": {"type": "auto", "disable_parallel_tool_use": true}});
    let gemini = json!({"generationConfig": {"responseMimeType": "application/json", "responseSchema": {"type": "STRING"}}});
    for (dialect, more, provider, message, place, named) in [
        (
            Chat,
            json!({"temperature": 0.5, "top_p": 0.9}),
            Provider::ANTHROPIC,
            "`temperature` and `top_p` cannot both be specified for this model. Please use only one.",
            "/top_p",
            "top_p",
        ),
        (
            Chat,
            json!({"top_p": 0.9}),
            Provider::ANTHROPIC,
            "`top_p` is deprecated for this model.",
            "/top_p",
            "top_p",
        ),
        (
            Messages,
            json!({"top_p": 0.9}),
            Provider::OPENAI,
            "Unsupported parameter: 'top_p' is not supported with this model.",
            "/top_p",
            "top_p",
        ),
        (
            Messages,
            json!({"stop_sequences": ["X"]}),
            Provider::OPENAI,
            "Unsupported parameter: 'stop' is not supported with this model.",
            "/stop",
            "stop_sequences",
        ),
        (
            Messages,
            one_call,
            Provider::OPENAI,
            "Unsupported parameter: 'parallel_tool_calls' is not supported with this model.",
            "/parallel_tool_calls",
            "tool_choice.disable_parallel_tool_use",
        ),
        (
            Gemini,
            gemini,
            Provider::OPENAI,
            "This response_format type is unavailable now",
            "/response_format",
            "generationConfig.responseMimeType",
        ),
        (
            Chat,
            form.clone(),
            Provider::ANTHROPIC,
            "output_config.format: Extra inputs are not permitted",
            "/output_config",
            "response_format",
        ),
        (
            Chat,
            form.clone(),
            Provider::ANTHROPIC,
            "'claude-3-haiku-20240307' does not support output format.",
            "/output_config",
            "response_format",
        ),
        (
            Chat,
            form,
            Provider::GEMINI,
            "JSON mode is not enabled for models/gemma-3-27b-it",
            "/generationConfig/responseJsonSchema",
            "response_format",
        ),
    ] {
        let refusals = ServerRefusals::default();
        let (body, left_out, note) = sent((dialect, &more), provider, &refusals, Some(message));
        assert!(body.pointer(place).is_some() && left_out.is_empty(), "{message} {body} {left_out:?}");
        assert!(note.is_some(), "{message}");
        let (body, left_out, note) = sent((dialect, &more), provider, &refusals, Some(message));
        assert_eq!((body.pointer(place), left_out), (None, vec![named.to_owned()]), "{message}");
        assert_eq!(note, None, "nothing is left to be refused");
    }
}

#[test]
fn what_is_refused_beside_something_else_is_sent_alone() {
    let refusals = ServerRefusals::default();
    let both = json!({"temperature": 0.5, "top_p": 0.9});
    let message = "`temperature` and `top_p` cannot both be specified for this model.";
    assert!(sent((Chat, &both), Provider::ANTHROPIC, &refusals, Some(message)).2.is_some());
    let (body, left_out, _) = sent((Chat, &json!({"top_p": 0.9})), Provider::ANTHROPIC, &refusals, None);
    assert_eq!((&body["top_p"], left_out), (&json!(0.9), Vec::new()));
    let refusals = ServerRefusals::default();
    let form = |form: Value| json!({"response_format": form});
    let schema =
        form(json!({"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "string"}}}));
    let message =
        "Invalid parameter: 'response_format' of type 'json_schema' is not supported with this model.";
    let asks = |more: &Value, refusal| sent((Messages, more), Provider::OPENAI, &refusals, refusal);
    let of_schema =
        json!({"output_config": {"format": {"type": "json_schema", "schema": {"type": "string"}}}});
    assert!(asks(&of_schema, Some(message)).2.is_some());
    assert_eq!(asks(&of_schema, None).1, ["output_config.format"]);
    let any = json!({"output_config": {"format": {"type": "json_schema"}}});
    assert_eq!(asks(&any, None).0["response_format"], json!({"type": "json_object"}));
    // A schema that is refused says nothing of others.
    let refusals = ServerRefusals::default();
    for message in [
        "output_config.format.schema: For 'integer' type, property 'minimum' is not supported",
        "Invalid schema for response_format 'n': In context=(), 'oneOf' is not permitted.",
        "The image format is not supported",
    ] {
        assert_eq!(sent((Chat, &schema), Provider::ANTHROPIC, &refusals, Some(message)).2, None, "{message}");
    }
}

#[test]
fn no_more_tokens_are_asked_for_than_a_refusal_names() {
    for (dialect, more, provider, message, place, (most, named)) in [
        (
            Messages,
            json!({"max_tokens": 32000}),
            Provider::OPENAI,
            "max_tokens is too large: 32000. This model supports at most 16384 completion tokens, whereas you provided 32000.",
            "/max_completion_tokens",
            (16384, "max_tokens"),
        ),
        (
            Chat,
            json!({"max_completion_tokens": 99999}),
            Provider::ANTHROPIC,
            "max_tokens: 99999 > 8192, which is the maximum allowed number of output tokens for claude-x",
            "/max_tokens",
            (8192, "max_completion_tokens"),
        ),
        (
            Gemini,
            json!({"generationConfig": {"maxOutputTokens": 99999}}),
            Provider::RESPONSES,
            "Invalid 'max_output_tokens': integer above maximum value. Expected a value <= 16384, but got 99999 instead.",
            "/max_output_tokens",
            (16384, "generationConfig.maxOutputTokens"),
        ),
    ] {
        let refusals = ServerRefusals::default();
        assert!(sent((dialect, &more), provider, &refusals, Some(message)).2.is_some(), "{message}");
        let (body, left_out, note) = sent((dialect, &more), provider, &refusals, Some(message));
        assert_eq!(body.pointer(place), Some(&json!(most)));
        assert_eq!((left_out, note), (vec![named.to_owned()], None));
    }
    // What the client does not say cannot be left out.
    let refusals = ServerRefusals::default();
    let message =
        "max_tokens: 8192 > 4096, which is the maximum allowed number of output tokens for claude-x";
    assert!(sent((Chat, &json!({})), Provider::ANTHROPIC, &refusals, Some(message)).2.is_some());
    let (body, left_out, _) = sent((Chat, &json!({})), Provider::ANTHROPIC, &refusals, None);
    assert_eq!((&body["max_tokens"], left_out), (&json!(4096), Vec::new()));
}
