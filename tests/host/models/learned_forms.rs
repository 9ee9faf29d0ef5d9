//! Servers that take a conversation only in their own form: what they refuse is written otherwise, and a run continues.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use serde_json::{Map, Value, json};
use tokio::task::JoinHandle;

use unfazed::engine::{Failure, ModelReply, ToolChoice, ToolSpec};
use unfazed::host::{HttpModel, Model, ModelConfig, ModelRequest, Provider};
use unfazed::session::{Message, ToolCall};

use super::{LONG, request};

/// What a server says of a request that it refuses.
pub(super) trait Refusal: Fn(&Value) -> Option<(u16, Value)> + Clone + Send + Sync + 'static {}

impl<R: Fn(&Value) -> Option<(u16, Value)> + Clone + Send + Sync + 'static> Refusal for R {}

/// The requests that a server got.
type Seen = Arc<Mutex<Vec<Value>>>;

/// A server that refuses what `refusal` says and answers all else so, with its address and the requests it gets.
async fn served(refusal: impl Refusal, answer: Value) -> (String, JoinHandle<()>, Seen) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base_url = format!("http://{}", listener.local_addr().unwrap());
    let seen = Seen::default();
    let requests = Arc::clone(&seen);
    let router = Router::new().fallback(move |body: Bytes| async move {
        let body: Value = serde_json::from_slice(&body).unwrap();
        let refused = refusal(&body);
        requests.lock().unwrap().push(body);
        let (status, body) = refused.unwrap_or((200, answer));
        (StatusCode::from_u16(status).unwrap(), body.to_string()).into_response()
    });
    let serving = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    (base_url, serving, seen)
}

/// What comes of so many calls at a server that refuses what `refusal` says, and the requests it got.
async fn asked(
    refusal: impl Refusal,
    config: ModelConfig,
    calls: usize,
) -> (Vec<Result<ModelReply, Failure>>, Vec<Value>) {
    asked_of(refusal, answer_of("openai"), config, calls).await
}

/// The same, with another answer.
pub(super) async fn asked_of(
    refusal: impl Refusal,
    answer: Value,
    config: ModelConfig,
    calls: usize,
) -> (Vec<Result<ModelReply, Failure>>, Vec<Value>) {
    let messages = conversation();
    called(refusal, answer, config, &vec![request(&messages, LONG); calls]).await
}

/// The same, where each request demands a call.
async fn demanded_of(
    refusal: impl Refusal,
    answer: Value,
    config: ModelConfig,
    calls: usize,
) -> (Vec<Result<ModelReply, Failure>>, Vec<Value>) {
    let tool = ToolSpec {
        name: "look".into(),
        description: "Looks.".into(),
        parameters: json!({"type": "object"}),
        effect: None,
    };
    let messages = conversation();
    let demand =
        ModelRequest { tools: vec![&tool], tool_choice: ToolChoice::Required, ..request(&messages, LONG) };
    called(refusal, answer, config, &vec![demand; calls]).await
}

async fn called(
    refusal: impl Refusal,
    answer: Value,
    config: ModelConfig,
    requests: &[ModelRequest<'_>],
) -> (Vec<Result<ModelReply, Failure>>, Vec<Value>) {
    let (base_url, serving, seen) = served(refusal, answer).await;
    let model = HttpModel::new(ModelConfig { base_url, ..config }).unwrap();
    let mut results = Vec::new();
    for request in requests {
        results.push(model.call(request.clone()).await);
    }
    serving.abort();
    let seen = seen.lock().unwrap().clone();
    (results, seen)
}

/// What each reply notes.
fn notes(results: &[Result<ModelReply, Failure>]) -> Vec<&[String]> {
    results.iter().map(|result| &*result.as_ref().unwrap().notes).collect()
}

/// A conversation that carries everything that servers refuse.
fn conversation() -> Vec<Message> {
    let call = |id: &str, arguments: &str| ToolCall {
        id: id.into(),
        name: "look".into(),
        arguments: arguments.into(),
    };
    let result = |id: &str| Message::Tool {
        call: id.into(),
        tool: "look".into(),
        text: "seen".into(),
        error: false,
        handle: None,
    };
    let assistant =
        |calls: Vec<ToolCall>| Message::Assistant { text: String::new(), calls, extra: Map::new() };
    vec![
        Message::System { text: "be brief".into() },
        Message::user("go"),
        assistant(vec![call("call_1", "{\"text\": [[[,,"), call("", "[1]"), call(&"x".repeat(90), "7")]),
        result(""),
        result("call_1"),
        result(&"x".repeat(90)),
        assistant(vec![]),
        Message::user("and?"),
        assistant(vec![call("call_1", "{}"), call("functions.look:0", "null")]),
        result("call_1"),
        result("functions.look:0"),
    ]
}

/// What every server checks: pairs, ids, arguments.
fn poisoned(body: &Value) -> Option<(u16, Value)> {
    let refused = |message: String| {
        Some((400, json!({"error": {"message": message, "type": "invalid_request_error"}})))
    };
    let (mut ids, mut due) = (Vec::new(), Vec::new());
    for message in body["messages"].as_array().unwrap() {
        if message["role"] == "tool" {
            let id = message["tool_call_id"].as_str().unwrap_or_default().to_owned();
            if due.is_empty() || due.remove(0) != id {
                return refused(format!("messages with role 'tool' must answer a call: {id}"));
            }
            continue;
        }
        if !due.is_empty() {
            return refused(format!("tool_call_ids did not have response messages: {due:?}"));
        }
        if message["role"] == "assistant" && message["content"] == "" && message["tool_calls"].is_null() {
            return refused("the message with role 'assistant' must not be empty".into());
        }
        for call in message["tool_calls"].as_array().into_iter().flatten() {
            let arguments = call["function"]["arguments"].as_str().unwrap_or_default();
            if !serde_json::from_str::<Value>(arguments).is_ok_and(|value| value.is_object()) {
                return refused(format!("Failed to parse tool call arguments as JSON: {arguments}"));
            }
            let id = call["id"].as_str().unwrap_or_default().to_owned();
            if id.is_empty() || ids.contains(&id) {
                return refused(format!("tool call ids must be unique: {id}"));
            }
            ids.push(id.clone());
            due.push(id);
        }
    }
    None
}

/// The same, of Mistral's template.
fn mistrals(body: &Value) -> Option<(u16, Value)> {
    let ids = body["messages"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|message| message["tool_calls"].as_array().cloned().unwrap_or_default());
    let bad = ids
        .map(|call| call["id"].as_str().unwrap().to_owned())
        .find(|id| id.len() != 9 || !id.chars().all(|c| c.is_ascii_alphanumeric()));
    let message =
        bad.map(|id| format!("Tool call id was {id} but must be a-z, A-Z, 0-9, with a length of 9."));
    let refused = message.map(|message| {
        (400, json!({"object": "error", "message": message, "type": "invalid_function_call", "code": "3280"}))
    });
    refused.or_else(|| poisoned(body))
}

fn openais(body: &Value) -> Option<(u16, Value)> {
    let unsupported = |param: &str, message: &str| {
        Some((
            400,
            json!({"error": {"message": message, "type": "invalid_request_error", "param": param, "code": "unsupported_parameter"}}),
        ))
    };
    if body.get("max_tokens").is_some() {
        let says = "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.";
        return unsupported("max_tokens", says);
    }
    if body.get("temperature").is_some() {
        let says = "Unsupported value: 'temperature' does not support 0.5 with this model. Only the default (1) value is supported.";
        return unsupported("temperature", says);
    }
    None
}

fn named(model: &str) -> ModelConfig {
    ModelConfig::new(Provider::OPENAI, model)
}

#[tokio::test]
async fn a_poisoned_conversation_goes_out_as_every_server_takes_it() {
    let (results, seen) = asked(poisoned, named("m"), 2).await;
    assert!(results.iter().all(Result::is_ok), "{results:?}");
    assert_eq!(seen.len(), 2);
    // The same in every turn.
    assert_eq!(seen[0]["messages"], seen[1]["messages"]);
    let first = &seen[0]["messages"][2]["tool_calls"][0]["function"]["arguments"];
    assert_eq!(first, &json!({"INVALID_JSON": "{\"text\": [[[,,"}).to_string());
}

#[tokio::test]
async fn ids_have_the_form_of_the_model_and_are_learned_where_it_is_not_known() {
    let (results, seen) = asked(mistrals, named("mistralai/Mistral-Small-3.2"), 1).await;
    assert!(results[0].is_ok(), "{results:?}");
    assert_eq!(seen.len(), 1);
    let (results, seen) = asked(mistrals, named("my-finetune"), 2).await;
    assert!(results.iter().all(Result::is_ok), "{results:?}");
    assert_eq!(seen.len(), 3, "it is learned once");
    let notes: Vec<usize> = results.iter().map(|result| result.as_ref().unwrap().notes.len()).collect();
    assert_eq!(notes, [1, 0]);
}

#[tokio::test]
async fn an_option_that_is_refused_is_learned_and_the_request_sent_again_with_a_note() {
    let config = ModelConfig { max_tokens: Some(100), temperature: Some(0.5), ..named("my-deployment") };
    let (results, seen) = asked(openais, config, 2).await;
    assert_eq!(seen.len(), 4);
    let last = seen.last().unwrap();
    assert_eq!(
        (&last["max_completion_tokens"], last.get("max_tokens"), last.get("temperature")),
        (&json!(100), None, None)
    );
    let notes = &results[0].as_ref().unwrap().notes;
    assert_eq!(
        notes,
        &[
            "`my-deployment` refused the request, which is sent again with `max_completion_tokens` for `max_tokens`",
            "`my-deployment` refused the request, which is sent again without `temperature`",
        ]
    );
    assert!(results[1].as_ref().unwrap().notes.is_empty());
    // A model that is known needs no lesson.
    let (_, seen) = asked(openais, ModelConfig { max_tokens: Some(100), ..named("gpt-5.6") }, 1).await;
    assert_eq!(seen.len(), 1);
}

#[tokio::test]
async fn a_server_that_refuses_whatever_it_is_sent_is_asked_a_bounded_number_of_times() {
    let refuses = |_: &Value| {
        let says = "Unsupported parameter: 'max_tokens' and 'temperature' and 'stream_options'";
        Some((400, json!({"error": {"message": says}})))
    };
    let config = ModelConfig { max_tokens: Some(100), temperature: Some(0.5), stream: true, ..named("m") };
    let (results, seen) = asked(refuses, config, 3).await;
    assert!(results.iter().all(Result::is_err));
    assert!(seen.len() <= 3 + 3, "{}", seen.len());
}

const EACH_DIALECT: [&Provider; 6] = [
    Provider::OPENAI,
    Provider::AZURE,
    Provider::ANTHROPIC,
    Provider::RESPONSES,
    Provider::GEMINI,
    Provider::BEDROCK,
];

/// An answer of each API.
fn answer_of(api: &str) -> Value {
    match api {
        "anthropic" => {
            json!({"type": "message", "content": [{"type": "text", "text": "fine"}], "stop_reason": "end_turn"})
        }
        "responses" => json!({"object": "response", "status": "completed", "output": [
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "fine"}]},
        ]}),
        "gemini" => {
            json!({"candidates": [{"content": {"parts": [{"text": "fine"}]}, "finishReason": "STOP"}]})
        }
        "bedrock" => {
            json!({"output": {"message": {"role": "assistant", "content": [{"text": "fine"}]}}, "stopReason": "end_turn"})
        }
        _ => json!({"choices": [{"message": {"content": "fine"}, "finish_reason": "stop"}]}),
    }
}

/// What a model refuses: how it is asked, what is sent, where the option is that it refuses, in which words, and what of the mapping
/// around it is left.
type RefusedOption = (&'static Provider, Value, &'static str, Value, Value);

/// An error of `OpenAI`'s form.
fn said(message: &str, param: Option<&str>) -> Value {
    json!({"error": {"message": message, "type": "invalid_request_error", "param": param, "code": null}})
}

/// Options in the dialects of `OpenAI`.
fn refused_by_openais() -> Vec<RefusedOption> {
    let (openai, azure, responses) = (Provider::OPENAI, Provider::AZURE, Provider::RESPONSES);
    let unsupported = |name: &str| {
        said(&format!("Unsupported parameter: '{name}' is not supported with this model."), Some(name))
    };
    let forbidden = json!([{"type": "extra_forbidden", "loc": ["body", "stop"], "msg": "Extra inputs are not permitted"}]);
    let older = json!({"detail": [{"loc": ["body", "stop"], "msg": "extra fields not permitted", "type": "value_error.extra"}]});
    let in_python = "[{'type': 'extra_forbidden', 'loc': ('body', 'stop'), 'msg': 'Extra inputs are not permitted', 'input': ['x']}]";
    let relayed = json!({"error": {
        "message": "Model grok-4 does not support parameter stop.", "type": "upstream_error", "param": "400",
        "code": "bad_response_status_code",
    }});
    let xai = |name: &str| json!({"code": "invalid-argument", "error": format!("Model grok-4 does not support parameter {name}.")});
    let stop = || json!({"stop": ["x"], "seed": 1});
    let seed = || json!({"seed": 1});
    vec![
        (openai, stop(), "/stop", unsupported("stop"), seed()),
        (openai, stop(), "/stop", said("stop is not supported with this model", None), seed()),
        (openai, stop(), "/stop", said("Unrecognized request argument supplied: stop", None), seed()),
        (openai, stop(), "/stop", said("'stop' is not currently supported", None), seed()),
        (openai, stop(), "/stop", json!({"detail": forbidden}), seed()),
        (openai, stop(), "/stop", older, seed()),
        (openai, stop(), "/stop", json!({"object": "error", "message": in_python, "code": 400}), seed()),
        (openai, stop(), "/stop", relayed, seed()),
        (openai, json!({"presence_penalty": 1}), "/presence_penalty", xai("presencePenalty"), json!({})),
        (openai, json!({"frequency_penalty": 1}), "/frequency_penalty", xai("frequencyPenalty"), json!({})),
        (openai, json!({"reasoning_effort": "low"}), "/reasoning_effort", xai("reasoningEffort"), json!({})),
        (
            azure,
            json!({"parallel_tool_calls": true}),
            "/parallel_tool_calls",
            unsupported("parallel_tool_calls"),
            json!({}),
        ),
        (
            responses,
            json!({"reasoning": {"effort": "low", "summary": "auto"}}),
            "/reasoning/effort",
            unsupported("reasoning.effort"),
            json!({"reasoning": {"summary": "auto"}}),
        ),
        (
            responses,
            json!({"top_p": 0.5}),
            "/top_p",
            json!({"detail": "Unsupported parameter: top_p"}),
            json!({}),
        ),
    ]
}

/// Two options that exclude each other.
const BOTH: &str = "`temperature` and `top_p` cannot both be specified for this model. Please use only one.";

/// Options of Anthropic's.
fn refused_by_anthropic() -> Vec<RefusedOption> {
    let anthropic = Provider::ANTHROPIC;
    let ant =
        |says: &str| json!({"type": "error", "error": {"type": "invalid_request_error", "message": says}});
    let budget = || json!({"type": "enabled", "budget_tokens": 2000});
    vec![
        (
            anthropic,
            json!({"temperature": 0.5, "top_k": 3}),
            "/temperature",
            ant("`temperature` is deprecated for this model."),
            json!({"top_k": 3}),
        ),
        (
            anthropic,
            json!({"temperature": 0.5, "top_p": 0.5}),
            "/top_p",
            ant(BOTH),
            json!({"temperature": 0.5}),
        ),
        (
            anthropic,
            json!({"output_config": {"effort": "low"}}),
            "/output_config",
            ant("This model does not support the effort parameter."),
            json!({}),
        ),
        (
            anthropic,
            json!({"thinking": budget()}),
            "/thinking",
            ant("thinking: Extra inputs are not permitted"),
            json!({}),
        ),
        (
            anthropic,
            json!({"thinking": budget()}),
            "/thinking",
            ant(
                "\"thinking.type.enabled\" is not supported for this model. Use \"thinking.type.adaptive\" and \"output_config.effort\" to control thinking behavior.",
            ),
            json!({}),
        ),
    ]
}

/// Options of Gemini's.
fn refused_by_gemini() -> Vec<RefusedOption> {
    let gemini = Provider::GEMINI;
    let goo = |says: &str| json!({"error": {"code": 400, "message": says, "status": "INVALID_ARGUMENT"}});
    let generation = |options: Value| json!({"generationConfig": options});
    vec![
        (
            gemini,
            generation(json!({"presencePenalty": 1, "seed": 1})),
            "/generationConfig/presencePenalty",
            goo("Penalty is not enabled for this model"),
            generation(json!({"seed": 1})),
        ),
        (
            gemini,
            generation(json!({"responseLogprobs": true})),
            "/generationConfig/responseLogprobs",
            goo("Logprobs is not enabled for this model"),
            json!({}),
        ),
        (
            gemini,
            generation(json!({"candidateCount": 1})),
            "/generationConfig/candidateCount",
            goo("Multiple candidates is not enabled for this model"),
            json!({}),
        ),
        (
            gemini,
            generation(json!({"thinkingConfig": {"thinkingBudget": 100}})),
            "/generationConfig/thinkingConfig",
            goo("Thinking is not enabled for models/gemini-2.0-flash"),
            json!({}),
        ),
        (
            gemini,
            generation(json!({"seed": 1, "topK": 2})),
            "/generationConfig/seed",
            goo(
                "Invalid JSON payload received. Unknown name \"seed\" at 'generation_config': Cannot find field.",
            ),
            generation(json!({"topK": 2})),
        ),
    ]
}

/// Options of Bedrock's.
fn refused_by_bedrock() -> Vec<RefusedOption> {
    let bedrock = Provider::BEDROCK;
    let aws = |says: &str| json!({"message": format!("The model returned the following errors: {says}")});
    let further = |options: Value| json!({"additionalModelRequestFields": options});
    let budget = || json!({"type": "enabled", "budget_tokens": 2000});
    vec![
        (
            bedrock,
            json!({"inferenceConfig": {"topP": 0.5, "temperature": 0.5}}),
            "/inferenceConfig/topP",
            aws(BOTH),
            json!({"inferenceConfig": {"temperature": 0.5}}),
        ),
        (
            bedrock,
            further(json!({"thinking": budget()})),
            "/additionalModelRequestFields",
            aws("thinking: Extra inputs are not permitted"),
            json!({}),
        ),
        (
            bedrock,
            further(json!({"top_k": 3})),
            "/additionalModelRequestFields",
            aws(
                "Malformed input request: #: extraneous key [top_k] is not permitted, please reformat your input and try again.",
            ),
            json!({}),
        ),
        (
            bedrock,
            json!({"outputConfig": {"effort": "low"}}),
            "/outputConfig",
            aws("This model does not support the effort parameter."),
            json!({}),
        ),
        (
            bedrock,
            json!({"serviceTier": {"type": "flex"}}),
            "/serviceTier",
            aws("The provided ServiceTier value \"flex\" is not supported for this model."),
            json!({}),
        ),
    ]
}

#[tokio::test]
async fn an_option_that_a_model_refuses_is_dropped_once_and_remembered_in_every_dialect() {
    let refused =
        [refused_by_openais(), refused_by_anthropic(), refused_by_gemini(), refused_by_bedrock()].concat();
    for (provider, extra, place, refusal, left) in refused {
        let config = ModelConfig {
            extra: extra.as_object().cloned().unwrap(),
            api_key: Some("key".into()),
            ..ModelConfig::new(provider, "m")
        };
        let words = refusal.to_string();
        let answer = move |body: &Value| body.pointer(place).map(|_| (400, refusal.clone()));
        let (results, seen) = asked_of(answer, answer_of(provider.name()), config, 2).await;
        let notes = notes(&results);
        let note = "`m` refused the request, which is sent again without `";
        let again = notes[0].iter().filter(|told| told.starts_with(note)).count();
        assert_eq!((again, notes[1].len()), (1, 0), "{words}: {notes:?}");
        assert_eq!(seen.len(), 3, "{words}");
        for name in extra.as_object().unwrap().keys() {
            assert_eq!(seen[2].get(name), left.get(name), "{words}");
        }
    }
}

/// Refuses a demand for a call in the words of each API, as models that choose themselves do.
fn no_demand(body: &Value) -> Option<(u16, Value)> {
    let places = ["/tool_choice", "/toolConfig/toolChoice", "/toolConfig/functionCallingConfig"];
    let is_set = places.iter().any(|place| body.pointer(place).is_some());
    let says = "tool_choice forces tool use is not compatible with this model.";
    is_set.then(|| (400, json!({"error": {"message": says}, "message": says})))
}

#[tokio::test]
async fn a_call_is_demanded_only_once_of_a_model_that_chooses_itself_in_every_dialect() {
    for provider in EACH_DIALECT {
        let config = ModelConfig { api_key: Some("key".into()), ..ModelConfig::new(provider, "m") };
        let (results, seen) = demanded_of(no_demand, answer_of(provider.name()), config, 2).await;
        let notes = notes(&results);
        assert!(notes[0].len() == 1 && notes[1].is_empty(), "{}: {notes:?}", provider.name());
        assert_eq!(seen.len(), 3, "{}", provider.name());
    }
}

/// Refuses the first thinking that it is sent back.
fn no_first_thought(body: &Value) -> Option<(u16, Value)> {
    let says = "messages.1.content.0: Invalid `signature` in `thinking` block. The block is bound to a different conversation.";
    body.to_string().contains("SIG1").then(|| (400, json!({"error": {"message": says}})))
}

#[tokio::test]
async fn only_the_thinking_that_was_refused_is_left_out() {
    let extra = json!({"thinking": {"type": "adaptive"}}).as_object().cloned().unwrap();
    let answer = json!({"type": "message", "stop_reason": "end_turn", "content": [
        {"type": "thinking", "thinking": "hm", "signature": "SIG2"}, {"type": "text", "text": "fine"},
    ]});
    let (base_url, serving, seen) = served(no_first_thought, answer).await;
    let config = ModelConfig {
        base_url,
        extra,
        api_key: Some("key".into()),
        ..ModelConfig::new(Provider::ANTHROPIC, "m")
    };
    let model = HttpModel::new(config).unwrap();
    let mut messages = vec![Message::user("go")];
    let first = model.call(request(&messages, LONG)).await.unwrap();
    let mut refused = first.extra.clone();
    refused["thinking_anthropic"]["items"][0]["signature"] = "SIG1".into();
    messages.push(Message::Assistant { text: first.text, calls: Vec::new(), extra: refused });
    messages.push(Message::user("and?"));
    let second = model.call(request(&messages, LONG)).await.unwrap();
    assert_eq!(
        second.notes,
        ["`m` refused the request, which is sent again without the thinking of earlier replies"]
    );
    messages.push(Message::Assistant { text: second.text, calls: Vec::new(), extra: second.extra });
    messages.push(Message::user("and now?"));
    model.call(request(&messages, LONG)).await.unwrap();
    serving.abort();
    let last = seen.lock().unwrap().last().cloned().unwrap();
    let sent = last.to_string();
    assert!(sent.contains("SIG2") && !sent.contains("SIG1"), "{last}");
    assert_eq!(last["thinking"], json!({"type": "adaptive"}));
}

/// Refuses instructions in a role of their own, as templates of Gemma do.
fn no_system(body: &Value) -> Option<(u16, Value)> {
    let is_system = |message: &Value| message["role"] == "system";
    let mut lists = [&body["messages"], &body["input"]].into_iter().filter_map(Value::as_array).flatten();
    let is_set =
        body.get("system").is_some() || body.get("systemInstruction").is_some() || lists.any(is_system);
    let says = "System role not supported";
    is_set.then(|| (400, json!({"error": {"message": says}, "message": says})))
}

#[tokio::test]
async fn instructions_are_said_by_the_user_where_a_model_has_no_role_for_them_in_every_dialect() {
    for provider in EACH_DIALECT {
        let config = ModelConfig { api_key: Some("key".into()), ..ModelConfig::new(provider, "m") };
        let (results, seen) = asked_of(no_system, answer_of(provider.name()), config, 2).await;
        let notes = notes(&results);
        assert!(notes[0][0].ends_with("the instructions in what the user says"), "{}", provider.name());
        assert!(notes[1].is_empty(), "{}: {notes:?}", provider.name());
        assert_eq!(seen.len(), 3, "{}", provider.name());
        assert!(seen[2].to_string().contains(r"be brief\n\ngo"), "{}: {}", provider.name(), seen[2]);
    }
}

#[tokio::test]
async fn an_error_that_repeats_the_words_of_a_client_teaches_nothing() {
    let refuses = |body: &Value| {
        let said = body.to_string().contains("and?").then_some("and?")?;
        let says = format!("Unsupported content in messages[6]: temperature is not supported, {said}");
        Some((400, json!({"error": {"message": says, "param": "messages[6].content"}})))
    };
    let config = ModelConfig { temperature: Some(0.5), ..named("m") };
    let (results, seen) = asked(refuses, config, 1).await;
    assert!(results[0].is_err());
    assert_eq!(seen.len(), 1);
}
