//! What both dialects of `OpenAI` write alike.

use serde_json::Value;

use super::fields::{Fields, Unconvertible};
use super::request::{AnswerForm, FrontChoice, FrontRequest};

/// Other kinds of tools run at the provider, or take no JSON.
pub(super) fn is_function(fields: &mut Fields) -> Result<(), Unconvertible> {
    match fields.text("type")?.as_deref() {
        None | Some("function") => Ok(()),
        Some(_) => Err(Unconvertible::new(fields.path("type"))),
    }
}

/// A function that can be called, in its namespace if it has one.
pub(super) fn tool(
    request: &mut FrontRequest,
    mut function: Fields,
    namespace: Option<&str>,
) -> Result<(), Unconvertible> {
    let (name, description) = (function.required("name")?, function.text("description")?);
    let name = request.qualified(namespace, name);
    // What is not strict anyway loses nothing.
    if function.take("strict") == Some(Value::Bool(true)) {
        let sent = request.names.sent(name.clone());
        request.strict.insert(sent);
    }
    request.tool(name, description, function.take("parameters"));
    function.leave_out(&mut request.left_out);
    Ok(())
}

/// Whether a tool must be called. `name`: where one that is chosen has its name.
pub(super) fn choice(
    request: &mut FrontRequest,
    choice: Option<&Value>,
    name: &str,
) -> Result<FrontChoice, Unconvertible> {
    if let Some(allowed) = choice
        && allowed.pointer("/type") == Some(&Value::from("allowed_tools"))
    {
        return allowed_tools(request, allowed, name);
    }
    match choice.map(|choice| choice.as_str().ok_or(choice)) {
        None | Some(Ok("auto")) => Ok(FrontChoice::Auto),
        Some(Ok("none")) => Ok(FrontChoice::Never),
        Some(Ok("required")) => Ok(FrontChoice::Required),
        Some(Err(named)) if named.pointer("/type").is_some_and(is_named) => {
            let name = named.pointer(name).and_then(Value::as_str);
            let name = name.ok_or_else(|| Unconvertible::malformed("tool_choice", "names no tool"))?;
            Ok(FrontChoice::Tool(request.names.sent(name.to_owned())))
        }
        Some(_) => Err(Unconvertible::new("tool_choice")),
    }
}

/// A choice among some of the tools: no other is declared then. Chat completions have them in a field of their own.
fn allowed_tools(
    request: &mut FrontRequest,
    choice: &Value,
    name: &str,
) -> Result<FrontChoice, Unconvertible> {
    let unknown = || Unconvertible::new("tool_choice");
    let allowed = choice.get("allowed_tools").unwrap_or(choice);
    let tools = allowed.get("tools").and_then(Value::as_array).ok_or_else(unknown)?;
    let named = |tool: &Value| {
        let name = tool.pointer(name).filter(|_| tool.pointer("/type").is_some_and(is_named))?;
        name.as_str().map(str::to_owned)
    };
    let named: Option<Vec<String>> = tools.iter().map(named).collect();
    request.allow(named.ok_or_else(unknown)?, "tool_choice")?;
    match allowed.get("mode").and_then(Value::as_str) {
        Some("auto") => Ok(FrontChoice::Auto),
        Some("required") => Ok(FrontChoice::Required),
        _ => Err(unknown()),
    }
}

/// Whether a choice of that type is one of a tool by its name.
fn is_named(kind: &Value) -> bool {
    kind == "function" || kind == "custom"
}

/// A schema of the answer. Where it is missing, any JSON is meant: "The schema for the response format" may be left out
/// (`response_format_json_schema.py` of `OpenAI`'s SDK).
pub(super) fn schema(request: &mut FrontRequest, mut schema: Fields) -> Result<AnswerForm, Unconvertible> {
    let (name, strict) = (schema.required("name")?, schema.take("strict"));
    let form = match schema.take("schema") {
        Some(schema) => {
            AnswerForm::Schema { name, schema, strict: strict.and_then(|strict| strict.as_bool()) }
        }
        None => AnswerForm::Json,
    };
    schema.leave_out(&mut request.left_out);
    Ok(form)
}
