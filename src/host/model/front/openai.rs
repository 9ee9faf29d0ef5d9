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
    request.tool(name, description, function.take("parameters"));
    // What is not strict anyway loses nothing.
    if function.take("strict") == Some(Value::Bool(true)) {
        request.left_out.add(&function.path("strict"));
    }
    function.leave_out(&mut request.left_out);
    Ok(())
}

/// Whether a tool must be called. `name`: where one that is chosen has its name.
pub(super) fn choice(
    request: &mut FrontRequest,
    choice: Option<&Value>,
    name: &str,
) -> Result<FrontChoice, Unconvertible> {
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

/// Whether a choice of that type is one of a tool by its name.
fn is_named(kind: &Value) -> bool {
    kind == "function" || kind == "custom"
}

/// A schema of the answer.
pub(super) fn schema(request: &mut FrontRequest, mut schema: Fields) -> Result<AnswerForm, Unconvertible> {
    let form = AnswerForm::Schema {
        name: schema.required("name")?,
        strict: schema.take("strict").and_then(|strict| strict.as_bool()),
        schema: schema.take("schema").unwrap_or_default(),
    };
    schema.leave_out(&mut request.left_out);
    Ok(form)
}
