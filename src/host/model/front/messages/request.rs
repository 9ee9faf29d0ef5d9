//! From a request of Anthropic's messages to the neutral form.

use serde_json::Value;

use crate::host::model::front::fields::{Fields, Unconvertible};
use crate::host::model::front::request::{AnswerForm, FieldNames, FrontChoice, FrontRequest};
use crate::host::model::front::shared::SharedOptions;
use crate::host::model::front::{GatewayDialect, media};

/// What asks for something that only Anthropic's servers do.
const REFUSED: [&str; 2] = ["mcp_servers", "container"];
const NAMES: FieldNames = FieldNames {
    choice: "tool_choice",
    conversation: "messages",
    stop: "stop_sequences",
    one_call: "tool_choice.disable_parallel_tool_use",
    temperature: "temperature",
    top_p: "top_p",
    max_tokens: "max_tokens",
    form: "output_config.format",
    schema: "output_config.format.schema",
    // Its schemas are others than those of `OpenAI`, which alone has it too.
    strict: "",
};

/// Reads a body.
pub(in crate::host::model::front) fn read(body: &[u8]) -> Result<FrontRequest, Unconvertible> {
    let mut fields = Fields::of_body(body)?;
    let mut request = FrontRequest::with(NAMES);
    fields.refuse(&REFUSED)?;
    request.shared = SharedOptions::of(GatewayDialect::Messages, &mut fields);
    // Where it goes, and how it comes back.
    let _ = (fields.take("model"), fields.take("stream"));
    let parts = fields.parts("system")?;
    let system = request.texts(parts)?;
    request.system(&system);
    for message in fields.objects("messages")? {
        read_message(&mut request, message)?;
    }
    for tool in fields.objects("tools")? {
        read_tool(&mut request, tool)?;
    }
    if let Some(choice) = fields.object("tool_choice")? {
        read_choice(&mut request, choice)?;
    }
    read_options(&mut request, &mut fields)?;
    fields.leave_out(&mut request.left_out);
    request.checked()
}

fn read_options(request: &mut FrontRequest, fields: &mut Fields) -> Result<(), Unconvertible> {
    request.max_tokens = fields.tokens("max_tokens")?;
    request.temperature = fields.number("temperature")?;
    request.top_p = fields.number("top_p")?;
    let stops = fields.take("stop_sequences").map(serde_json::from_value).transpose();
    let stops = stops.map_err(|_| Unconvertible::malformed("stop_sequences", "is not a list of texts"))?;
    request.stop = stops.unwrap_or_default();
    let mut format = fields.object("output_format")?;
    if let Some(mut config) = fields.object("output_config")? {
        format = config.object("format")?.or(format);
        config.leave_out(&mut request.left_out);
    }
    if let Some(mut format) = format {
        if format.required("type")? != "json_schema" {
            return Err(Unconvertible::new(format.path("type")));
        }
        request.form = format.take("schema").map_or(AnswerForm::Json, AnswerForm::of_schema);
        format.leave_out(&mut request.left_out);
    }
    Ok(())
}

fn read_message(request: &mut FrontRequest, mut message: Fields) -> Result<(), Unconvertible> {
    let role = message.required("role")?;
    let parts = message.parts("content")?;
    match role.as_str() {
        "user" => read_user(request, parts)?,
        "assistant" => read_assistant(request, parts)?,
        "system" => {
            let texts = request.texts(parts)?;
            request.system(&texts);
        }
        _ => return Err(Unconvertible::new(message.path("role"))),
    }
    message.leave_out(&mut request.left_out);
    Ok(())
}

/// The results of tools come first, as other dialects want them right behind the calls.
fn read_user(request: &mut FrontRequest, blocks: Vec<Fields>) -> Result<(), Unconvertible> {
    let mut said = Vec::new();
    for mut block in blocks {
        if !block.is("type", "tool_result") {
            said.extend(request.shown(vec![block], media::messages)?);
            continue;
        }
        let (_, call) = (block.take("type"), block.required("tool_use_id")?);
        let parts = block.parts("content")?;
        let texts = request.shown(parts, media::messages)?;
        let error = block.take("is_error") == Some(Value::Bool(true));
        request.result(call, &texts, error);
        request.cached.take(&mut block);
        block.leave_out(&mut request.left_out);
    }
    request.user(&said);
    Ok(())
}

fn read_assistant(request: &mut FrontRequest, blocks: Vec<Fields>) -> Result<(), Unconvertible> {
    let (mut said, mut calls) = (String::new(), Vec::new());
    for mut block in blocks {
        match block.required("type")?.as_str() {
            "text" => said.push_str(&block.required("text")?),
            "tool_use" => {
                let (id, name) = (block.required("id")?, block.required("name")?);
                let input = block.take("input").map_or_else(|| "{}".to_owned(), |input| input.to_string());
                calls.push(request.call(id, name, input));
            }
            // Signed by who issued it, who alone can read it.
            kind @ ("thinking" | "redacted_thinking") => {
                request.left_out.add(&format!("messages.content.{kind}"));
                continue;
            }
            _ => return Err(Unconvertible::new(block.path("type"))),
        }
        request.cached.take(&mut block);
        block.leave_out(&mut request.left_out);
    }
    request.assistant(said, calls);
    Ok(())
}

fn read_tool(request: &mut FrontRequest, mut tool: Fields) -> Result<(), Unconvertible> {
    // All others run at the provider, or have no schema.
    if tool.text("type")?.is_some_and(|kind| kind != "custom") {
        return Err(Unconvertible::new(tool.path("type")));
    }
    let (name, description) = (tool.required("name")?, tool.text("description")?);
    request.tool(name, description, tool.take("input_schema"));
    request.cached.take(&mut tool);
    tool.leave_out(&mut request.left_out);
    Ok(())
}

fn read_choice(request: &mut FrontRequest, mut choice: Fields) -> Result<(), Unconvertible> {
    request.one_call = choice.take("disable_parallel_tool_use") == Some(Value::Bool(true));
    request.choice = match choice.required("type")?.as_str() {
        "auto" => FrontChoice::Auto,
        "none" => FrontChoice::Never,
        "any" => FrontChoice::Required,
        "tool" => FrontChoice::Tool(request.names.sent(choice.required("name")?)),
        _ => return Err(Unconvertible::new(choice.path("type"))),
    };
    choice.leave_out(&mut request.left_out);
    Ok(())
}
