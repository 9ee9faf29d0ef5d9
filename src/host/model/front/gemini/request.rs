//! From a request of `generateContent` to the neutral form.

use super::contents::ReadContents;
use super::schema::json_schema;
use super::{object, objects};
use crate::host::model::front::GatewayDialect;
use crate::host::model::front::fields::{Fields, Unconvertible};
use crate::host::model::front::request::{AnswerForm, FieldNames, FrontChoice, FrontRequest};
use crate::host::model::front::shared::SharedOptions;

const NAMES: FieldNames = FieldNames {
    choice: "toolConfig.functionCallingConfig",
    conversation: "contents",
    stop: "generationConfig.stopSequences",
    temperature: "generationConfig.temperature",
    top_p: "generationConfig.topP",
    max_tokens: "generationConfig.maxOutputTokens",
    form: "generationConfig.responseMimeType",
    schema: "generationConfig.responseSchema",
    // The dialect has neither.
    one_call: "",
    strict: "",
};

/// Reads a body. The address has the model, and whether the answer is streamed.
pub(in crate::host::model::front) fn read(body: &[u8]) -> Result<FrontRequest, Unconvertible> {
    let mut fields = Fields::of_body(body)?.in_camel_case();
    let mut request = FrontRequest::with(NAMES);
    // Parts of the conversation that only the server has.
    fields.refuse(&["cachedContent", "continuationToken"])?;
    request.shared = SharedOptions::of(GatewayDialect::Gemini, &mut fields);
    let _ = fields.take("model");
    if let Some(mut system) = object(&mut fields, "systemInstruction")? {
        read_system(&mut request, &mut system)?;
    }
    let mut contents = ReadContents::new(&mut request);
    for content in objects(&mut fields, "contents")? {
        contents.read(content)?;
    }
    for tool in objects(&mut fields, "tools")? {
        read_tool(&mut request, tool)?;
    }
    if let Some(mut config) = object(&mut fields, "toolConfig")? {
        if let Some(calling) = object(&mut config, "functionCallingConfig")? {
            read_choice(&mut request, calling)?;
        }
        config.leave_out(&mut request.left_out);
    }
    if let Some(config) = object(&mut fields, "generationConfig")? {
        read_options(&mut request, config)?;
    }
    fields.leave_out(&mut request.left_out);
    request.checked()
}

fn read_system(request: &mut FrontRequest, system: &mut Fields) -> Result<(), Unconvertible> {
    let mut texts = Vec::new();
    for mut part in objects(system, "parts")? {
        let text = part.text("text")?;
        texts.push(text.ok_or_else(|| part.unconvertible())?);
        part.leave_out(&mut request.left_out);
    }
    request.system(&texts);
    Ok(())
}

/// All but functions run at the provider.
fn read_tool(request: &mut FrontRequest, mut tool: Fields) -> Result<(), Unconvertible> {
    for mut function in objects(&mut tool, "functionDeclarations")? {
        let (name, description) = (function.required("name")?, function.text("description")?);
        let parameters = function.take("parameters").map(json_schema);
        request.tool(name, description, function.take("parametersJsonSchema").or(parameters));
        function.leave_out(&mut request.left_out);
    }
    if tool.is_empty() { Ok(()) } else { Err(tool.unconvertible()) }
}

fn read_choice(request: &mut FrontRequest, mut calling: Fields) -> Result<(), Unconvertible> {
    let mode = calling.text("mode")?.unwrap_or_default();
    let named = texts(&mut calling, "allowedFunctionNames")?;
    request.choice = match (&*mode, &*named) {
        ("NONE", _) => FrontChoice::Never,
        ("ANY", [name]) => FrontChoice::Tool(request.names.sent(name.clone())),
        ("ANY", _) => FrontChoice::Required,
        ("" | "VALIDATED", _) | ("AUTO" | "MODE_UNSPECIFIED", []) => FrontChoice::Auto,
        _ => return Err(Unconvertible::new(calling.path("mode"))),
    };
    if matches!(&*mode, "ANY" | "VALIDATED") && !named.is_empty() {
        request.allow(named, &calling.path("allowedFunctionNames"))?;
    }
    if mode == "VALIDATED" {
        request.left_out.add(&calling.path("mode"));
    }
    calling.leave_out(&mut request.left_out);
    Ok(())
}

fn read_options(request: &mut FrontRequest, mut config: Fields) -> Result<(), Unconvertible> {
    config.refuse(&["responseFormat"])?;
    if config.number("candidateCount")?.is_some_and(|count| count > 1.0) {
        return Err(Unconvertible::new(config.path("candidateCount")));
    }
    let modalities = texts(&mut config, "responseModalities")?;
    if modalities.iter().any(|modality| modality != "TEXT") {
        return Err(Unconvertible::new(config.path("responseModalities")));
    }
    request.max_tokens = config.tokens("maxOutputTokens")?;
    request.temperature = config.number("temperature")?;
    request.top_p = config.number("topP")?;
    request.stop = texts(&mut config, "stopSequences")?;
    request.form = form(&mut config)?;
    config.leave_out(&mut request.left_out);
    Ok(())
}

fn form(config: &mut Fields) -> Result<AnswerForm, Unconvertible> {
    let schema = config.take("responseSchema").map(json_schema);
    let schema = config.take("responseJsonSchema").or(schema);
    match (config.text("responseMimeType")?.as_deref(), schema) {
        (None | Some("text/plain"), None) => Ok(AnswerForm::Text),
        (Some("application/json"), None) => Ok(AnswerForm::Json),
        (None | Some("application/json"), Some(schema)) => Ok(AnswerForm::of_schema(schema)),
        _ => Err(Unconvertible::new(config.path("responseMimeType"))),
    }
}

/// A list of texts.
fn texts(fields: &mut Fields, name: &str) -> Result<Vec<String>, Unconvertible> {
    let texts = fields.take(name).map(serde_json::from_value::<Vec<String>>).transpose();
    let texts = texts.map_err(|_| Unconvertible::malformed(fields.path(name), "is not a list of texts"))?;
    Ok(texts.unwrap_or_default())
}
