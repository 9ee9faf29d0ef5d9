//! Requests of the chat-completions format.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::message::{ChatContent, ChatMessage};
use super::parts::with_reasoning;
use super::reply::SIGNED;
use super::server::{ChatServer, MaxTokens, ReasoningRule};
use crate::engine::{ToolChoice, ToolSpec};
use crate::host::model::wire::extras::{REASONING_PARTS, SIGNER};
use crate::host::model::wire::sendable::sendable;
use crate::host::model::wire::{add_extra, lenient};
use crate::host::port::ModelRequest;
use crate::session::Message;

/// The field in which reasoning comes and goes back.
const REASONING: &str = "reasoning_content";

/// One request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ChatRequest {
    pub(crate) model: String,
    pub(crate) messages: Vec<ChatMessage>,
    #[serde(default, deserialize_with = "lenient::or_default", skip_serializing_if = "Vec::is_empty")]
    pub(crate) tools: Vec<ChatTool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) tool_choice: Option<Value>,
    #[serde(default, deserialize_with = "lenient::or_default", skip_serializing_if = "std::ops::Not::not")]
    pub(crate) stream: bool,
    /// Sampling parameters and all other fields.
    #[serde(flatten)]
    pub(crate) extra: Map<String, Value>,
}

/// A tool as it is declared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ChatTool {
    #[serde(rename = "type")]
    kind: String,
    function: ChatFunction,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct ChatFunction {
    name: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    description: String,
    #[serde(default)]
    parameters: Value,
}

/// What is the same for every request to a model.
#[derive(Clone, Debug, Default)]
pub(crate) struct SamplingOptions {
    pub(crate) stream: bool,
    pub(crate) temperature: Option<f64>,
    pub(crate) max_tokens: Option<u32>,
    /// Fields to add; null leaves a field out.
    pub(crate) extra: Map<String, Value>,
}

impl SamplingOptions {
    /// Whether requests have that option, which the agent writes.
    pub(crate) fn sends(&self, option: &str) -> bool {
        match option {
            "max_tokens" => self.max_tokens.is_some(),
            "temperature" => self.temperature.is_some() || self.extra.contains_key(option),
            "stream_options" => self.stream,
            _ => false,
        }
    }
}

impl ChatRequest {
    /// The request for a model of that name.
    pub(crate) fn new(
        model: &str,
        request: &ModelRequest<'_>,
        sampling: &SamplingOptions,
        server: &ChatServer,
        issuer: &str,
    ) -> Self {
        let tools: Vec<_> = request.tools.iter().map(|spec| ChatTool::from(*spec)).collect();
        let tool_choice = match &request.tool_choice {
            // Refused by servers where there is no tool.
            _ if tools.is_empty() => None,
            _ if !server.forced_calls.are_taken(&sampling.extra) => None,
            ToolChoice::Auto => None,
            ToolChoice::Required => Some(json!("required")),
            ToolChoice::Tool(name) => Some(json!({"type": "function", "function": {"name": name}})),
        };
        Self {
            model: model.to_owned(),
            messages: messages(request, server, issuer),
            tools,
            tool_choice,
            stream: sampling.stream,
            extra: options(sampling, server, request.max_output),
        }
    }
}

/// Everything but the conversation and the tools.
fn options(sampling: &SamplingOptions, server: &ChatServer, most: Option<u64>) -> Map<String, Value> {
    let mut options = Map::new();
    if sampling.stream {
        // Without it a stream ends without any usage.
        options.insert("stream_options".to_owned(), json!({"include_usage": true}));
    }
    if let Some(temperature) = sampling.temperature {
        options.insert("temperature".to_owned(), json!(temperature));
    }
    // A policy that writes one of the two fields as an option has chosen it, and servers refuse a request with both.
    let fields = [MaxTokens::Old, MaxTokens::New].map(MaxTokens::field);
    let written = |field: &&str| sampling.extra.get(*field).is_some_and(|value| !value.is_null());
    if let Some(max_tokens) = sampling.max_tokens.filter(|_| !fields.iter().any(written)) {
        options.insert(server.max_tokens.field().to_owned(), json!(max_tokens));
    }
    add_extra(&mut options, &sampling.extra);
    for (refused, option) in
        [(server.refuses.temperature, "temperature"), (server.refuses.stream_options, "stream_options")]
    {
        if refused {
            options.shift_remove(option);
        }
    }
    if let Some(most) = most {
        lower(&mut options, server.max_tokens, most);
    }
    options
}

/// A reply of this request has no more than so many tokens, by the field that says so already, or the one the server takes.
fn lower(options: &mut Map<String, Value>, usual: MaxTokens, most: u64) {
    let said = [MaxTokens::Old, MaxTokens::New].into_iter().find(|field| options.contains_key(field.field()));
    let value = options.entry(said.unwrap_or(usual).field()).or_insert(Value::Null);
    *value = value.as_u64().map_or(most, |said| said.min(most)).into();
}

/// The conversation as the server takes it. Guidance after the result of a tool becomes a part of that result, where it
/// must; a reply that says nothing is left out, since Mistral, Cohere, Databricks and Moonshot refuse one, and what users say
/// on both sides of it is joined.
fn messages(request: &ModelRequest<'_>, server: &ChatServer, issuer: &str) -> Vec<ChatMessage> {
    let conversation = sendable(request.messages, server.call_ids, &request.tools);
    let mut messages: Vec<ChatMessage> = Vec::with_capacity(conversation.len());
    let mut left_out = false;
    for message in &conversation {
        let last = messages.last_mut();
        let follows = |role: &str| last.as_ref().is_some_and(|last| last.role.as_deref() == Some(role));
        match &**message {
            Message::Assistant { text, calls, .. } if calls.is_empty() && text.trim().is_empty() => {
                left_out = true;
                continue;
            }
            Message::User { text, guidance: Some(_) } if server.guidance_in_results && follows("tool") => {
                join(last, text);
            }
            Message::User { text, .. } if left_out && follows("user") => join(last, text),
            Message::System { text } if server.system_first && last.is_some() && !follows("system") => {
                messages.push(ChatMessage::from(&Message::user(text.clone())));
            }
            message => messages.push(without_foreign(ChatMessage::from(message), message, issuer)),
        }
        left_out = false;
    }
    for message in &mut messages {
        keep_what_is_taken(message, server);
    }
    let thinks = match server.reasoning {
        ReasoningRule::AsItCame => false,
        ReasoningRule::IfAny => messages.iter().any(|message| message.extra.contains_key(REASONING)),
        ReasoningRule::Always => true,
    };
    for message in messages.iter_mut().filter(|message| thinks && !message.tool_calls.is_empty()) {
        // A model that did not think made these calls. DeepSeek wants an empty field then (`pydantic-ai`,
        // `deepseek.py`).
        message.extra.entry(REASONING).or_insert_with(|| json!(""));
    }
    messages
}

fn join(last: Option<&mut ChatMessage>, text: &str) {
    if let Some(last) = last {
        let said = last.content.take().map(ChatContent::into_text).unwrap_or_default();
        last.content = Some(ChatContent::Text(format!("{said}\n\n{text}")));
    }
}

/// Leaves out what another model signed, and puts its own reasoning back among the parts where it was.
fn without_foreign(mut sent: ChatMessage, message: &Message, issuer: &str) -> ChatMessage {
    let Message::Assistant { extra, .. } = message else { return sent };
    if extra.get(SIGNER).is_some_and(|signer| signer != issuer) {
        sent.extra.retain(|field, _| !SIGNED.contains(&field.as_str()));
        sent.tool_calls.iter_mut().for_each(|call| call.extra.clear());
    } else if let Some(Value::Array(parts)) = extra.get(REASONING_PARTS) {
        sent.content = Some(with_reasoning(sent.content, parts.clone()));
    }
    sent
}

/// Leaves out what other servers sent with a message, where this one refuses it.
fn keep_what_is_taken(message: &mut ChatMessage, server: &ChatServer) {
    let Some(taken) = server.takes_back else { return };
    message.extra.retain(|field, _| taken.contains(&field.as_str()));
    // Signatures of Gemini are among it, which no other server can check.
    for call in &mut message.tool_calls {
        call.extra.clear();
    }
}

impl From<&ToolSpec> for ChatTool {
    fn from(spec: &ToolSpec) -> Self {
        Self {
            kind: "function".to_owned(),
            function: ChatFunction {
                name: spec.name.clone(),
                description: spec.description.clone(),
                parameters: spec.parameters.clone(),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::ToolForm;
    use crate::host::model::fuzzed;

    fn written(tools: Vec<&ToolSpec>, tool_choice: ToolChoice, sampling: &SamplingOptions) -> Value {
        written_with(None, tools, tool_choice, sampling)
    }

    fn written_with(
        max_output: Option<u64>,
        tools: Vec<&ToolSpec>,
        tool_choice: ToolChoice,
        sampling: &SamplingOptions,
    ) -> Value {
        let messages = [Message::user("hello")];
        let request = ModelRequest { max_output, ..request(&messages, tools, tool_choice) };
        serde_json::to_value(ChatRequest::new("m", &request, sampling, &ChatServer::default(), "here"))
            .unwrap()
    }

    fn sent(conversation: &[Message], server: &ChatServer) -> Vec<ChatMessage> {
        messages(&request(conversation, vec![], ToolChoice::Auto), server, "here")
    }

    fn request<'a>(
        messages: &'a [Message],
        tools: Vec<&'a ToolSpec>,
        tool_choice: ToolChoice,
    ) -> ModelRequest<'a> {
        ModelRequest { tools, tool_choice, ..fuzzed::request(messages) }
    }

    fn tool() -> ToolSpec {
        ToolSpec {
            name: "look".into(),
            description: "Looks.".into(),
            parameters: json!({"type": "object"}),
            effect: None,
        }
    }

    #[test]
    fn a_plain_request_has_two_fields() {
        let plain = written(vec![], ToolChoice::Required, &SamplingOptions::default());
        assert_eq!(plain, json!({"model": "m", "messages": [{"role": "user", "content": "hello"}]}));
    }

    #[test]
    fn tools_are_counted_as_they_are_written() {
        for spec in [tool(), ToolSpec { description: String::new(), ..tool() }] {
            let written = serde_json::to_string(&ChatTool::from(&spec)).unwrap();
            assert_eq!(ToolForm::Chat.declare(&spec).to_string(), written);
        }
    }

    #[test]
    fn tools_and_the_choice_among_them() {
        let with = |choice| written(vec![&tool()], choice, &SamplingOptions::default());
        let function = json!({"name": "look", "description": "Looks.", "parameters": {"type": "object"}});
        assert_eq!(with(ToolChoice::Auto)["tools"], json!([{"type": "function", "function": function}]));
        assert_eq!(with(ToolChoice::Auto)["tool_choice"], Value::Null);
        assert_eq!(with(ToolChoice::Required)["tool_choice"], json!("required"));
        let named = json!({"type": "function", "function": {"name": "look"}});
        assert_eq!(with(ToolChoice::Tool("look".into()))["tool_choice"], named);
    }

    #[test]
    fn extra_fields_replace_and_null_leaves_out() {
        let Value::Object(extra) =
            json!({"max_tokens": null, "max_completion_tokens": 9, "stream_options": null, "top_p": 0.5})
        else {
            unreachable!()
        };
        let sampling = SamplingOptions { stream: true, temperature: Some(0.0), max_tokens: Some(5), extra };
        let Value::Object(mut request) = written(vec![], ToolChoice::Auto, &sampling) else { unreachable!() };
        request.shift_remove("messages");
        assert_eq!(
            Value::Object(request),
            json!({"model": "m", "stream": true, "temperature": 0.0, "max_completion_tokens": 9, "top_p": 0.5})
        );
    }

    #[test]
    fn a_budget_lowers_what_a_reply_may_have_and_never_raises_it() {
        let of = |sampling: &SamplingOptions, most| {
            let Value::Object(mut request) = written_with(Some(most), vec![], ToolChoice::Auto, sampling)
            else {
                unreachable!()
            };
            (request.shift_remove("max_tokens"), request.shift_remove("max_completion_tokens"))
        };
        let own = SamplingOptions { max_tokens: Some(50), ..SamplingOptions::default() };
        assert_eq!(of(&own, 20), (Some(json!(20)), None));
        assert_eq!(of(&own, 80), (Some(json!(50)), None));
        assert_eq!(of(&SamplingOptions::default(), 20), (Some(json!(20)), None));
        let mut options = Map::new();
        lower(&mut options, MaxTokens::New, 20);
        assert_eq!(Value::Object(options), json!({"max_completion_tokens": 20}));
        let extra = json!({"max_completion_tokens": 9}).as_object().cloned().unwrap();
        assert_eq!(of(&SamplingOptions { extra, ..SamplingOptions::default() }, 5), (None, Some(json!(5))));
    }

    #[test]
    fn guidance_after_a_result_goes_into_it_where_it_must() {
        let result = Message::Tool {
            call: "c".into(),
            tool: "t".into(),
            text: "12".into(),
            error: false,
            handle: None,
        };
        let guidance = Message::User { text: "Report now.".into(), guidance: Some("final_turn".into()) };
        let conversation = [Message::user("go"), result, guidance, Message::user("and then?")];
        let contents = |strict| -> Vec<String> {
            let server = ChatServer { guidance_in_results: strict, ..ChatServer::default() };
            let all = sent(&conversation, &server).into_iter();
            all.map(|message| message.content.map(ChatContent::into_text).unwrap_or_default()).collect()
        };
        assert_eq!(contents(true), ["go", "12\n\nReport now.", "and then?"]);
        assert_eq!(contents(false), ["go", "12", "Report now.", "and then?"]);
    }

    fn assistant(text: &str, ids: &[&str], extra: &Value) -> Message {
        let call = |id: &&str| crate::session::ToolCall {
            id: (*id).into(),
            name: "t".into(),
            arguments: "{".into(),
        };
        let extra = extra.as_object().cloned().unwrap_or_default();
        Message::Assistant { text: text.into(), calls: ids.iter().map(call).collect(), extra }
    }

    fn tool_result(call: &str) -> Message {
        Message::Tool { call: call.into(), tool: "t".into(), text: "12".into(), error: false, handle: None }
    }

    #[test]
    fn arguments_and_ids_go_out_as_the_server_takes_them() {
        let conversation = [assistant("", &["call_abc"], &json!({})), tool_result("call_abc")];
        for (host, model) in [("localhost", "m"), ("api.mistral.ai", "m"), ("localhost", "mistral-small")] {
            let sent = sent(&conversation, &ChatServer::of(host, model));
            let call = &sent[0].tool_calls[0];
            assert_eq!(call.function.arguments.as_deref(), Some(r#"{"INVALID_JSON":"{"}"#));
            assert_eq!(call.id, sent[1].tool_call_id);
            let nine = call.id.as_ref().unwrap().len() == 9;
            assert_eq!(nine, host != "localhost" || model != "m");
        }
    }

    #[test]
    fn a_reply_that_says_nothing_is_not_sent() {
        let conversation = [
            Message::user("a"),
            assistant(" \n", &[], &json!({"reasoning_content": "hm"})),
            Message::user("b"),
            Message::user("c"),
            assistant("\n", &["x"], &json!({})),
            tool_result("x"),
        ];
        let sent = serde_json::to_value(sent(&conversation, &ChatServer::default())).unwrap();
        assert_eq!(sent[0], json!({"role": "user", "content": "a\n\nb"}));
        assert_eq!(sent[1], json!({"role": "user", "content": "c"}));
        assert_eq!((&sent[2]["role"], &sent[2]["content"]), (&json!("assistant"), &Value::Null));
    }

    #[test]
    fn what_a_system_says_later_is_said_by_a_user_where_it_must() {
        let system = |text: &str| Message::System { text: text.into() };
        let conversation = [system("a"), system("b"), Message::user("go"), system("c")];
        let roles = |host: &str| -> Vec<String> {
            let sent = sent(&conversation, &ChatServer::of(host, "m"));
            sent.into_iter().filter_map(|message| message.role).collect()
        };
        assert_eq!(roles("api.cloudflare.com"), ["system", "system", "user", "user"]);
        assert_eq!(roles("api.openai.com"), ["system", "system", "user", "system"]);
    }

    #[test]
    fn what_other_servers_sent_with_a_message_does_not_go_where_it_is_refused() {
        let extra =
            json!({"reasoning_content": "hm", "refusal": "no", "tool_calls": {"x": {"extra_content": 1}}});
        let conversation = [assistant("", &["x"], &extra), tool_result("x")];
        let fields = |host: &str| {
            let sent = serde_json::to_value(&sent(&conversation, &ChatServer::of(host, "m"))[0]).unwrap();
            let of_call = sent["tool_calls"][0].get("extra_content").is_some();
            (sent.get("reasoning_content").is_some(), sent.get("refusal").is_some(), of_call)
        };
        assert_eq!(fields("localhost"), (true, true, true));
        assert_eq!(fields("api.openai.com"), (false, true, false));
        assert_eq!(fields("api.groq.com"), (false, false, false));
        assert_eq!(fields("api.mistral.ai"), (false, false, false));
    }

    #[test]
    fn a_model_that_thinks_gets_reasoning_with_every_call() {
        let plain = [assistant("", &["x"], &json!({})), tool_result("x")];
        let thought = assistant("", &["y"], &json!({"reasoning_content": "hm"}));
        let mixed = [plain[0].clone(), plain[1].clone(), thought, tool_result("y")];
        let of = |host: &str, model: &str, conversation: &[Message]| {
            sent(conversation, &ChatServer::of(host, model))[0].extra.get(REASONING).cloned()
        };
        assert_eq!(of("api.deepseek.com", "deepseek-chat", &plain), None);
        assert_eq!(of("api.deepseek.com", "deepseek-reasoner", &plain), Some(json!("")));
        assert_eq!(of("api.moonshot.ai", "kimi-k2.6", &mixed), Some(json!("")));
        assert_eq!(of("localhost", "m", &mixed), None);
    }

    #[test]
    fn the_most_tokens_go_by_the_name_that_the_server_knows_and_never_by_both() {
        let with = |server: ChatServer, extra: Value| {
            let extra = extra.as_object().cloned().unwrap_or_default();
            let sampling = SamplingOptions { max_tokens: Some(5), extra, ..SamplingOptions::default() };
            Value::Object(options(&sampling, &server, None))
        };
        assert_eq!(with(ChatServer::default(), json!({})), json!({"max_tokens": 5}));
        assert_eq!(
            with(ChatServer::of("api.openai.com", "gpt-5"), json!({})),
            json!({"max_completion_tokens": 5})
        );
        for extra in [json!({"max_tokens": 9}), json!({"max_completion_tokens": 9})] {
            assert_eq!(with(ChatServer::of("api.openai.com", "gpt-5"), extra.clone()), extra);
        }
    }
}
