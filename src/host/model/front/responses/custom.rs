//! Tools that take a text (`type: custom`): for other models they are functions whose only argument is that text.

use serde_json::{Value, json};

use crate::host::model::front::fields::{Fields, Unconvertible};
use crate::host::model::front::request::FrontRequest;

/// The only argument.
const INPUT: &str = "input";

/// Reads a tool. A grammar of its text is shown to the model, but nothing holds the model to it.
pub(super) fn read_tool(request: &mut FrontRequest, mut tool: Fields) -> Result<(), Unconvertible> {
    let _ = tool.take("type");
    let (name, description) = (tool.required("name")?, tool.text("description")?);
    let mut input = json!({"type": "string"});
    if let Some(mut format) = tool.object("format")? {
        match format.required("type")?.as_str() {
            "text" => {}
            "grammar" => {
                let (syntax, definition) = (format.required("syntax")?, format.required("definition")?);
                input["description"] = format!("A text of this grammar ({syntax}):\n{definition}").into();
                request.left_out.add(&format.path("type"));
            }
            _ => return Err(Unconvertible::new(format.path("type"))),
        }
        format.leave_out(&mut request.left_out);
    }
    let parameters = json!({
        "type": "object", "properties": {INPUT: input}, "required": [INPUT], "additionalProperties": false,
    });
    request.customs.insert(name.clone());
    request.tool(name, description, Some(parameters));
    tool.leave_out(&mut request.left_out);
    Ok(())
}

/// The arguments that a text is.
pub(super) fn arguments(input: &str) -> String {
    json!({INPUT: input}).to_string()
}

/// The text that arguments are; of a model that wrote others, all of them.
pub(super) fn input(arguments: &str) -> String {
    let read: Value = serde_json::from_str(arguments).unwrap_or_default();
    read.get(INPUT).and_then(Value::as_str).unwrap_or(arguments).to_owned()
}
