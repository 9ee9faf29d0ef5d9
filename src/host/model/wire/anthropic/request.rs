//! Requests of the messages format.

use serde_json::{Map, Value, json};

use super::blocks::{begins_thinking, messages};
use super::{ClaudeFamily, MessagesFormat};
use crate::context::ToolForm;
use crate::engine::ToolChoice;
use crate::host::model::wire::add_extra;
use crate::host::model::wire::sendable::called;
use crate::host::model::wire::turns::system;
use crate::host::port::ModelRequest;
use crate::session::Message;

/// The body of one request.
pub(super) fn body(format: &MessagesFormat, request: &ModelRequest<'_>) -> Value {
    let mut body = Map::new();
    let mut write = |field: &str, value: Value| drop(body.insert(field.to_owned(), value));
    write("model", json!(format.model));
    // The API requires it.
    write("max_tokens", json!(format.max_tokens));
    if let Some(system) = system(request.messages) {
        write("system", json!(system));
    }
    write("messages", messages(format, request.messages).into());
    let (tools, choice) = tools(format, request);
    if !tools.is_empty() {
        write("tools", tools.into());
    }
    if let Some(choice) = choice {
        write("tool_choice", choice);
    }
    if format.stream {
        write("stream", json!(true));
    }
    if let Some(temperature) = format.temperature {
        write("temperature", json!(temperature));
    }
    add_extra(&mut body, &format.extra);
    if cannot_think(format, request.messages) {
        body.insert("thinking".to_owned(), json!({"type": "disabled"}));
    }
    if let Some(most) = request.max_output {
        lower(&mut body, most);
    }
    Value::Object(body)
}

/// The least tokens that thinking may have; they are fewer than those of the whole reply.
const LEAST_THINKING: u64 = 1024;

/// The reply has no more than so many tokens, its thinking among them.
fn lower(body: &mut Map<String, Value>, most: u64) {
    let said = body.get("max_tokens").and_then(Value::as_u64);
    let most = said.map_or(most, |said| said.min(most));
    body.insert("max_tokens".to_owned(), most.into());
    let Some(thinking) = body.get_mut("thinking").and_then(Value::as_object_mut) else { return };
    // `budget_tokens` is at least 1024 and less than `max_tokens` (`thinking_config_enabled_param.py` of Anthropic's
    // SDK).
    let Some(budget) = thinking.get("budget_tokens").and_then(Value::as_u64) else { return };
    if most <= LEAST_THINKING {
        body.shift_remove("thinking");
    } else if budget >= most {
        // Half of it, so that something is left for the answer.
        thinking.insert("budget_tokens".to_owned(), (most / 2).max(LEAST_THINKING).into());
    }
}

/// The tools, and whether one must be called.
fn tools(format: &MessagesFormat, request: &ModelRequest<'_>) -> (Vec<Value>, Option<Value>) {
    let tools: Vec<Value> = request.tools.iter().map(|spec| ToolForm::Messages.declare(spec)).collect();
    if tools.is_empty() {
        // A conversation with tool calls in it is refused if no tool is declared.
        let tool = |name| json!({"name": name, "input_schema": {"type": "object"}});
        let called: Vec<Value> = called(request.messages).into_iter().map(tool).collect();
        // `none` keeps the tools declared and forbids calls.
        let choice = (!called.is_empty()).then(|| json!({"type": "none"}));
        return (called, choice);
    }
    let choice = match &request.tool_choice {
        ToolChoice::Auto => None,
        // A model that thinks cannot be forced; the request would be refused.
        ToolChoice::Required | ToolChoice::Tool(_)
            if thinks(&format.extra) || !ClaudeFamily::of(&format.model).forced_calls =>
        {
            None
        }
        ToolChoice::Required => Some(json!({"type": "any"})),
        ToolChoice::Tool(name) => Some(json!({"type": "tool", "name": name})),
    };
    (tools, choice)
}

/// Whether the model is asked to think and cannot: "When `thinking` is enabled, a final `assistant` message must start with a
/// thinking block (preceeding the lastmost set of `tool_use` and `tool_result` blocks)", which another model has not written.
pub(super) fn cannot_think(format: &MessagesFormat, conversation: &[Message]) -> bool {
    let kind = format.extra.get("thinking").and_then(|thinking| thinking.get("type")?.as_str());
    // What is `adaptive` need not begin with a block.
    let must = kind == Some("enabled");
    let last = conversation.iter().rev().find_map(|message| match message {
        Message::Assistant { calls, extra, .. } => Some((calls, extra)),
        Message::System { .. } | Message::User { .. } | Message::Tool { .. } => None,
    });
    must && last.is_some_and(|(calls, extra)| !calls.is_empty() && !begins_thinking(format, extra))
}

/// Whether the model is asked to think.
fn thinks(extra: &Map<String, Value>) -> bool {
    let kind = extra.get("thinking").and_then(|thinking| thinking.get("type")?.as_str());
    kind.is_some_and(|kind| kind != "disabled")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::ToolSpec;
    use crate::host::model::fuzzed::{messages as main_format, request};
    use crate::host::model::wire::WireFormat;
    use crate::session::ToolCall;

    fn written(tools: Vec<&ToolSpec>, tool_choice: ToolChoice, extra: &Value, messages: &[Message]) -> Value {
        let request = ModelRequest { tools, tool_choice, ..request(messages) };
        let format = MessagesFormat {
            model: "m".into(),
            max_tokens: 100,
            stream: true,
            temperature: Some(0.5),
            extra: extra.as_object().cloned().unwrap_or_default(),
            ..main_format()
        };
        body(&format, &request)
    }

    fn tool() -> ToolSpec {
        ToolSpec { name: "look".into(), description: "Looks.".into(), parameters: json!({}), effect: None }
    }

    #[test]
    fn a_request_has_the_fields_of_the_api() {
        let messages = [Message::System { text: "Be brief.".into() }, Message::user("go")];
        let extra = json!({"temperature": null, "top_k": 5});
        assert_eq!(
            written(vec![&tool()], ToolChoice::Auto, &extra, &messages),
            json!({
                "model": "m", "max_tokens": 100, "system": "Be brief.",
                "messages": [{"role": "user", "content": [{"type": "text", "text": "go"}]}],
                "tools": [{"name": "look", "description": "Looks.", "input_schema": {"type": "object"}}],
                "stream": true, "top_k": 5,
            })
        );
    }

    #[test]
    fn a_budget_lowers_the_reply_and_its_thinking() {
        let of = |extra: Value, most| {
            let mut body = extra.as_object().cloned().unwrap();
            lower(&mut body, most);
            Value::Object(body)
        };
        let thinking = |most: u64, budget: u64| json!({"max_tokens": most, "thinking": {"type": "enabled", "budget_tokens": budget}});
        assert_eq!(of(json!({"max_tokens": 100}), 50), json!({"max_tokens": 50}));
        assert_eq!(of(json!({"max_tokens": 100}), 500), json!({"max_tokens": 100}));
        assert_eq!(of(thinking(9000, 2000), 5000), thinking(5000, 2000));
        assert_eq!(of(thinking(9000, 8000), 5000), thinking(5000, 2500));
        assert_eq!(of(thinking(9000, 8000), 1024), json!({"max_tokens": 1024}));
    }

    #[test]
    fn each_choice_among_the_tools() {
        let choice = |choice, extra: Value| {
            written(vec![&tool()], choice, &extra, &[Message::user("go")])["tool_choice"].clone()
        };
        assert_eq!(choice(ToolChoice::Auto, Value::Null), Value::Null);
        assert_eq!(choice(ToolChoice::Required, Value::Null), json!({"type": "any"}));
        let named = ToolChoice::Tool("look".into());
        assert_eq!(choice(named.clone(), Value::Null), json!({"type": "tool", "name": "look"}));
        let off = json!({"thinking": {"type": "disabled"}});
        assert_eq!(choice(named.clone(), off), json!({"type": "tool", "name": "look"}));
        let on = json!({"thinking": {"type": "enabled", "budget_tokens": 2000}});
        assert_eq!(choice(named.clone(), on), Value::Null);
        let (tool, messages) = (tool(), [Message::user("go")]);
        let asked = ModelRequest { tools: vec![&tool], tool_choice: named, ..request(&messages) };
        let format = MessagesFormat { model: "claude-opus-5-5".into(), ..main_format() };
        assert_eq!(body(&format, &asked).get("tool_choice"), None);
    }

    #[test]
    fn tools_that_were_called_are_declared_even_where_none_may_be() {
        let call = ToolCall { id: "a".into(), name: "look".into(), arguments: "{}".into() };
        let messages = [
            Message::user("go"),
            Message::Assistant { text: String::new(), calls: vec![call.clone(), call], extra: Map::new() },
            Message::Tool {
                call: "a".into(),
                tool: "look".into(),
                text: "x".into(),
                error: false,
                handle: None,
            },
        ];
        let request = written(vec![], ToolChoice::Auto, &Value::Null, &messages);
        assert_eq!(request["tools"], json!([{"name": "look", "input_schema": {"type": "object"}}]));
        assert_eq!(request["tool_choice"], json!({"type": "none"}));
        let request = written(vec![], ToolChoice::Auto, &Value::Null, &messages[..1]);
        assert_eq!((request.get("tools"), request.get("tool_choice")), (None, None));
    }

    #[test]
    fn a_model_thinks_only_where_its_last_calls_began_with_thinking() {
        let extra = json!({"thinking": {"type": "enabled", "budget_tokens": 2000}});
        let said = |issuer: &str, kind: &str| {
            let items = json!([{"type": kind, "data": "eHg="}, {"type": "tool_use", "id": "a"}]);
            let kept = json!({"thinking_anthropic": {"issuer": issuer, "items": items}});
            let call = ToolCall { id: "a".into(), name: "look".into(), arguments: "{}".into() };
            let extra = kept.as_object().cloned().unwrap();
            vec![Message::user("go"), Message::Assistant { text: String::new(), calls: vec![call], extra }]
        };
        let thinking = |extra: &Value, messages: &[Message]| {
            written(vec![], ToolChoice::Auto, extra, messages)["thinking"].clone()
        };
        let disabled = json!({"type": "disabled"});
        assert_eq!(thinking(&extra, &said("host main", "redacted_thinking")), extra["thinking"]);
        assert_eq!(thinking(&extra, &said("elsewhere", "redacted_thinking")), disabled);
        assert_eq!(thinking(&extra, &said("host main", "text")), disabled);
        assert_eq!(thinking(&extra, &[Message::user("go")]), extra["thinking"]);
        let adaptive = json!({"thinking": {"type": "adaptive"}});
        assert_eq!(thinking(&adaptive, &said("elsewhere", "thinking")), adaptive["thinking"]);
        let format = MessagesFormat { extra: extra.as_object().cloned().unwrap(), ..main_format() };
        let notes = |messages: &[Message]| format.left_out(messages);
        assert_eq!(notes(&said("host main", "thinking")), Vec::<String>::new());
        assert_eq!(
            notes(&said("elsewhere", "thinking")),
            [
                "`main` is not sent the reasoning that came with earlier replies of other models",
                "`main` is asked without `thinking`: the last calls in the conversation came without any of its own",
            ]
        );
    }
}
