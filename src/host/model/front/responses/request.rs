//! From a request of Responses to the neutral form.

use serde_json::Value;

use super::custom;
use crate::host::model::front::fields::{Fields, Unconvertible};
use crate::host::model::front::request::{AnswerForm, FieldNames, FrontRequest};
use crate::host::model::front::shared::SharedOptions;
use crate::host::model::front::{GatewayDialect, media, openai};

const NAMES: FieldNames = FieldNames {
    choice: "tool_choice",
    conversation: "input",
    // The dialect has none.
    stop: "stop",
    one_call: "parallel_tool_calls",
    temperature: "temperature",
    top_p: "top_p",
    max_tokens: "max_output_tokens",
    form: "text.format",
    schema: "text.format.schema",
    strict: "tools.strict",
};
/// What only the server knows that is asked for.
const REFUSED: [&str; 3] = ["previous_response_id", "conversation", "prompt"];
/// What a response repeats of its request (`response.py` of `OpenAI`'s SDK).
const REPEATED: [&str; 10] = [
    "instructions",
    "max_output_tokens",
    "metadata",
    "parallel_tool_calls",
    "reasoning",
    "temperature",
    "text",
    "tool_choice",
    "tools",
    "top_p",
];

/// Reads a body.
pub(in crate::host::model::front) fn read(body: &[u8]) -> Result<FrontRequest, Unconvertible> {
    let mut fields = Fields::of_body(body)?;
    let mut request = FrontRequest::with(NAMES);
    fields.refuse(&REFUSED)?;
    request.repeated = fields.copies(&REPEATED);
    request.shared = SharedOptions::of(GatewayDialect::Responses, &mut fields);
    // Where it goes, and how it comes back.
    let _ = (fields.take("model"), fields.take("stream"), fields.take("stream_options"));
    request.system(fields.text("instructions")?.as_slice());
    read_input(&mut request, &mut fields)?;
    for tool in fields.objects("tools")? {
        read_tool(&mut request, tool)?;
    }
    request.choice = openai::choice(&mut request, fields.take("tool_choice").as_ref(), "/name")?;
    request.one_call = fields.take("parallel_tool_calls") == Some(Value::Bool(false));
    read_options(&mut request, &mut fields)?;
    fields.leave_out(&mut request.left_out);
    request.checked()
}

fn read_tool(request: &mut FrontRequest, mut tool: Fields) -> Result<(), Unconvertible> {
    if tool.is("type", "namespace") {
        let namespace = tool.required("name")?;
        for mut function in tool.objects("tools")? {
            openai::is_function(&mut function)?;
            openai::tool(request, function, Some(&namespace))?;
        }
        let _ = tool.take("type");
        tool.leave_out(&mut request.left_out);
        return Ok(());
    }
    if tool.is("type", "custom") {
        return custom::read_tool(request, tool);
    }
    openai::is_function(&mut tool)?;
    openai::tool(request, tool, None)
}

fn read_options(request: &mut FrontRequest, fields: &mut Fields) -> Result<(), Unconvertible> {
    request.max_tokens = fields.tokens("max_output_tokens")?;
    request.temperature = fields.number("temperature")?;
    request.top_p = fields.number("top_p")?;
    if let Some(reasoning) = fields.object("reasoning")? {
        reasoning.leave_out(&mut request.left_out);
    }
    if let Some(mut text) = fields.object("text")? {
        if let Some(mut format) = text.object("format")? {
            request.form = match format.required("type")?.as_str() {
                "text" => AnswerForm::Text,
                "json_object" => AnswerForm::Json,
                "json_schema" => openai::schema(request, format)?,
                _ => return Err(Unconvertible::new(format.path("type"))),
            };
        }
        text.leave_out(&mut request.left_out);
    }
    read_keeping(request, fields)
}

/// What the server is to keep. Nothing is kept here, so whoever relies on it learns that.
fn read_keeping(request: &mut FrontRequest, fields: &mut Fields) -> Result<(), Unconvertible> {
    // The answer to such a request is asked for later, by its id.
    if fields.take("background") == Some(Value::Bool(true)) {
        return Err(Unconvertible::new("background"));
    }
    for (field, nothing) in [("store", Value::Bool(false)), ("truncation", "disabled".into())] {
        if fields.take(field).is_some_and(|said| said != nothing) {
            request.left_out.add(field);
        }
    }
    Ok(())
}

fn read_input(request: &mut FrontRequest, fields: &mut Fields) -> Result<(), Unconvertible> {
    match fields.take("input") {
        Some(Value::String(text)) => request.user(&[text]),
        None => {}
        Some(items) => {
            for item in Fields::list("input", items)? {
                read_item(request, item)?;
            }
        }
    }
    Ok(())
}

fn read_item(request: &mut FrontRequest, mut item: Fields) -> Result<(), Unconvertible> {
    match item.text("type")?.as_deref() {
        None | Some("message") => read_message(request, &mut item)?,
        Some("function_call") => {
            let (id, name) = (item.required("call_id")?, item.required("name")?);
            let name = request.qualified(item.text("namespace")?.as_deref(), name);
            let arguments = item.text("arguments")?.unwrap_or_default();
            let call = request.call(id, name, arguments);
            request.continued("", Some(call));
        }
        Some("custom_tool_call") => {
            let (id, name) = (item.required("call_id")?, item.required("name")?);
            let arguments = custom::arguments(&item.text("input")?.unwrap_or_default());
            let call = request.call(id, name, arguments);
            request.continued("", Some(call));
        }
        Some("function_call_output" | "custom_tool_call_output") => {
            let call = item.required("call_id")?;
            let parts = item.parts("output")?;
            let texts = request.shown(parts, media::responses)?;
            request.result(call, &texts, false);
        }
        // Sealed by who issued it, who alone can read it.
        Some("reasoning") => {
            request.left_out.add("input.reasoning");
            return Ok(());
        }
        // One that the server keeps, or of a tool that runs there.
        Some(_) => return Err(Unconvertible::new(item.path("type"))),
    }
    // By its id the server knows an item again. No other has it.
    let _ = (item.take("id"), item.take("status"));
    item.leave_out(&mut request.left_out);
    Ok(())
}

fn read_message(request: &mut FrontRequest, message: &mut Fields) -> Result<(), Unconvertible> {
    let role = message.required("role")?;
    let parts = message.parts("content")?;
    let texts = if role == "user" { request.shown(parts, media::responses)? } else { said(request, parts)? };
    match role.as_str() {
        "system" | "developer" => request.system(&texts),
        "user" => request.user(&texts),
        "assistant" => request.continued(&texts.concat(), None),
        _ => return Err(Unconvertible::new(message.path("role"))),
    }
    Ok(())
}

/// The texts of parts that are nothing else.
fn said(request: &mut FrontRequest, parts: Vec<Fields>) -> Result<Vec<String>, Unconvertible> {
    let mut texts = Vec::with_capacity(parts.len());
    for mut part in parts {
        texts.push(match part.required("type")?.as_str() {
            "input_text" | "output_text" | "text" => part.required("text")?,
            "refusal" => part.required("refusal")?,
            _ => return Err(Unconvertible::new(part.path("type"))),
        });
        part.leave_out(&mut request.left_out);
    }
    Ok(texts)
}
