//! From a request of chat completions to the neutral form.

use serde_json::Value;

use crate::host::model::front::fields::{Fields, Unconvertible};
use crate::host::model::front::request::{AnswerForm, FieldNames, FrontRequest};
use crate::host::model::front::shared::SharedOptions;
use crate::host::model::front::{GatewayDialect, media, openai};
use crate::session::ToolCall;

const NAMES: FieldNames = FieldNames {
    choice: "tool_choice",
    conversation: "messages",
    stop: "stop",
    one_call: "parallel_tool_calls",
    temperature: "temperature",
    top_p: "top_p",
    max_tokens: "max_tokens",
    form: "response_format",
    schema: "response_format.json_schema.schema",
    strict: "tools.function.strict",
};
/// What asks for something that only the servers of this dialect do.
const REFUSED: [&str; 4] = ["audio", "functions", "function_call", "web_search_options"];

/// Reads a body.
pub(in crate::host::model::front) fn read(body: &[u8]) -> Result<FrontRequest, Unconvertible> {
    let mut fields = Fields::of_body(body)?;
    let mut request = FrontRequest::with(NAMES);
    fields.refuse(&REFUSED)?;
    request.shared = SharedOptions::of(GatewayDialect::Chat, &mut fields);
    // Where it goes, and how it comes back.
    let _ = (fields.take("model"), fields.take("stream"));
    if fields.number("n")?.is_some_and(|n| n > 1.0) {
        return Err(Unconvertible::new("n"));
    }
    for message in fields.objects("messages")? {
        read_message(&mut request, message)?;
    }
    for tool in fields.objects("tools")? {
        read_tool(&mut request, tool)?;
    }
    request.choice = openai::choice(&mut request, fields.take("tool_choice").as_ref(), "/function/name")?;
    request.one_call = fields.take("parallel_tool_calls") == Some(Value::Bool(false));
    read_options(&mut request, &mut fields)?;
    fields.leave_out(&mut request.left_out);
    request.checked()
}

fn read_options(request: &mut FrontRequest, fields: &mut Fields) -> Result<(), Unconvertible> {
    let (old, new) = (fields.tokens("max_tokens")?, fields.tokens("max_completion_tokens")?);
    request.max_tokens = new.or(old);
    if new.is_some() {
        request.field_names.max_tokens = "max_completion_tokens";
    }
    request.temperature = fields.number("temperature")?;
    request.top_p = fields.number("top_p")?;
    request.stop = match fields.take("stop") {
        None => Vec::new(),
        Some(Value::String(stop)) => vec![stop],
        Some(stops) => serde_json::from_value(stops)
            .map_err(|_| Unconvertible::malformed("stop", "is neither a text nor a list of texts"))?,
    };
    if let Some(mut options) = fields.object("stream_options")? {
        request.counts = options.take("include_usage") == Some(Value::Bool(true));
        let _ = options.take("include_obfuscation");
        options.leave_out(&mut request.left_out);
    }
    if let Some(mut format) = fields.object("response_format")? {
        request.form = form(request, &mut format)?;
    }
    Ok(())
}

fn form(request: &mut FrontRequest, format: &mut Fields) -> Result<AnswerForm, Unconvertible> {
    match format.required("type")?.as_str() {
        "text" => Ok(AnswerForm::Text),
        "json_object" => Ok(AnswerForm::Json),
        "json_schema" => {
            let missing = Unconvertible::malformed(format.path("json_schema"), "is missing");
            openai::schema(request, format.object("json_schema")?.ok_or(missing)?)
        }
        _ => Err(Unconvertible::new(format.path("type"))),
    }
}

fn read_message(request: &mut FrontRequest, mut message: Fields) -> Result<(), Unconvertible> {
    let role = message.required("role")?;
    if role == "assistant" {
        return read_assistant(request, message);
    }
    let parts = message.parts("content")?;
    let texts = if role == "user" { request.shown(parts, media::chat)? } else { request.texts(parts)? };
    match role.as_str() {
        "system" | "developer" => request.system(&texts),
        "user" => request.user(&texts),
        "tool" => {
            let call = message.required("tool_call_id")?;
            request.result(call, &texts, false);
        }
        _ => return Err(Unconvertible::new(message.path("role"))),
    }
    message.leave_out(&mut request.left_out);
    Ok(())
}

fn read_assistant(request: &mut FrontRequest, mut message: Fields) -> Result<(), Unconvertible> {
    message.refuse(&["audio", "function_call"])?;
    let mut text = String::new();
    for mut part in message.parts("content")? {
        let said = match part.required("type")?.as_str() {
            "text" => part.required("text")?,
            "refusal" => part.required("refusal")?,
            _ => return Err(Unconvertible::new(part.path("type"))),
        };
        text.push_str(&said);
        part.leave_out(&mut request.left_out);
    }
    if text.is_empty() {
        text = message.text("refusal")?.unwrap_or_default();
    }
    let calls = message.objects("tool_calls")?;
    let calls: Result<Vec<ToolCall>, _> = calls.into_iter().map(|call| read_call(request, call)).collect();
    request.assistant(text, calls?);
    message.leave_out(&mut request.left_out);
    Ok(())
}

fn read_call(request: &mut FrontRequest, mut call: Fields) -> Result<ToolCall, Unconvertible> {
    openai::is_function(&mut call)?;
    let missing = Unconvertible::malformed(call.path("function"), "is missing");
    let mut function = call.object("function")?.ok_or(missing)?;
    let (id, name) = (call.required("id")?, function.required("name")?);
    let arguments = function.text("arguments")?.unwrap_or_default();
    let _ = call.take("index");
    function.leave_out(&mut request.left_out);
    call.leave_out(&mut request.left_out);
    Ok(request.call(id, name, arguments))
}

fn read_tool(request: &mut FrontRequest, mut tool: Fields) -> Result<(), Unconvertible> {
    openai::is_function(&mut tool)?;
    let missing = Unconvertible::malformed(tool.path("function"), "is missing");
    openai::tool(request, tool.object("function")?.ok_or(missing)?, None)?;
    tool.leave_out(&mut request.left_out);
    Ok(())
}
