//! What a request declares: the tools that its model may call, and the form of the answer.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::host::gateway::request::RequestBody;
use crate::host::model::front::{GatewayDialect, gemini_schema};

/// The fields that say of the form of the answer, in one dialect or another.
const FORMS: [&str; 6] =
    ["response_format", "text", "output_config", "output_format", "generationConfig", "generation_config"];

/// The tools of a request.
#[derive(Default)]
pub(super) struct DeclaredTools {
    /// Each with the schema of its arguments, if it has one.
    pub(super) tools: BTreeMap<String, Option<Value>>,
    /// Whether there may be others.
    pub(super) open: bool,
}

/// The value of a field of the body; `None`: it is not there, or twice.
fn value(body: &RequestBody, field: &str) -> Option<Value> {
    serde_json::from_slice(body.bytes().get(body.field(field)?)?).ok()
}

/// Whether a request has tools, and whether it may say of the form of its answer.
pub(super) fn declares(body: &RequestBody) -> (bool, bool) {
    (body.field("tools").is_some(), FORMS.iter().any(|field| body.field(field).is_some()))
}

/// What the tools are read from: as they stand in the body, and whether there are others besides.
pub(super) fn text_of_tools(body: &RequestBody) -> (Vec<u8>, bool) {
    let tools = body.field("tools").and_then(|at| body.bytes().get(at)).unwrap_or_default();
    (tools.to_vec(), body.field("functions").is_some())
}

/// What the form of the answer is read from: its fields as they stand in the body.
pub(super) fn text_of_form(body: &RequestBody) -> Vec<u8> {
    let mut text = Vec::new();
    for field in FORMS {
        // No JSON has a zero byte.
        text.extend(body.field(field).and_then(|at| body.bytes().get(at)).unwrap_or_default());
        text.push(0);
    }
    text
}

/// The tools; `None`: there are none, or they cannot be read.
pub(super) fn tools(dialect: GatewayDialect, body: &RequestBody) -> Option<DeclaredTools> {
    let Value::Array(list) = value(body, "tools")? else { return None };
    let mut declared = DeclaredTools { open: body.field("functions").is_some(), ..DeclaredTools::default() };
    for tool in list {
        match dialect {
            GatewayDialect::Chat => declared.chat(tool),
            GatewayDialect::Messages => declared.messages(tool),
            GatewayDialect::Responses => declared.responses(tool, None),
            GatewayDialect::Gemini => declared.gemini(tool),
        }
    }
    (!declared.tools.is_empty()).then_some(declared)
}

/// The schema of the answer; `None`: any text will do.
pub(super) fn form(dialect: GatewayDialect, body: &RequestBody) -> Option<Value> {
    match dialect {
        GatewayDialect::Chat => {
            let mut format = value(body, "response_format")?;
            match format.get("type")?.as_str()? {
                "json_object" => Some(json!({"type": "object"})),
                "json_schema" => format.pointer_mut("/json_schema/schema").map(Value::take),
                _ => None,
            }
        }
        GatewayDialect::Responses => {
            let mut text = value(body, "text")?;
            let format = text.get_mut("format")?;
            match format.get("type")?.as_str()? {
                "json_object" => Some(json!({"type": "object"})),
                "json_schema" => format.get_mut("schema").map(Value::take),
                _ => None,
            }
        }
        GatewayDialect::Messages => {
            let config =
                value(body, "output_config").and_then(|mut config| config.get_mut("format").map(Value::take));
            let mut format = config.or_else(|| value(body, "output_format"))?;
            (format.get("type")? == "json_schema").then(|| format.get_mut("schema").map(Value::take))?
        }
        GatewayDialect::Gemini => {
            let mut config = value(body, "generationConfig").or_else(|| value(body, "generation_config"))?;
            let mut take = |names: [&str; 2]| {
                let name =
                    names.into_iter().find(|name| config.get(name).is_some_and(|said| !said.is_null()))?;
                config.get_mut(name).map(Value::take)
            };
            if let Some(schema) = take(["responseJsonSchema", "response_json_schema"]) {
                return Some(schema);
            }
            if let Some(schema) = take(["responseSchema", "response_schema"]) {
                return Some(gemini_schema(schema));
            }
            // Any JSON.
            (take(["responseMimeType", "response_mime_type"])? == "application/json").then(|| json!({}))
        }
    }
}

impl DeclaredTools {
    fn add(&mut self, name: Option<&str>, schema: Option<Value>) {
        let Some(name) = name else {
            self.open = true;
            return;
        };
        let schema = schema.filter(|schema| !schema.is_null());
        match self.tools.get_mut(name) {
            // Which of two is meant cannot be known.
            Some(known) => *known = known.take().filter(|known| Some(known) == schema.as_ref()),
            None => drop(self.tools.insert(name.to_owned(), schema)),
        }
    }

    fn chat(&mut self, mut tool: Value) {
        match tool.get("type").and_then(Value::as_str) {
            None | Some("function") => {
                let schema = tool.pointer_mut("/function/parameters").map(Value::take);
                self.add(text(&tool, "/function/name"), schema);
            }
            Some("custom") => self.add(text(&tool, "/custom/name"), None),
            Some(_) => self.open = true,
        }
    }

    fn messages(&mut self, mut tool: Value) {
        // Those of other types are known to the provider, which has their schemas.
        let is_own = tool.get("type").is_none_or(|kind| kind.is_null() || kind == "custom");
        let schema = tool.get_mut("input_schema").map(Value::take).filter(|_| is_own);
        self.add(text(&tool, "/name"), schema);
    }

    fn responses(&mut self, mut tool: Value, namespace: Option<&str>) {
        match tool.get("type").and_then(Value::as_str) {
            Some("function") => {
                let schema = tool.get_mut("parameters").map(Value::take);
                let name = text(&tool, "/name");
                if let (Some(namespace), Some(name)) = (namespace, name) {
                    // By the one or the other name, with and without conversion.
                    self.add(Some(&format!("{namespace}__{name}")), schema.clone());
                }
                self.add(name, schema);
            }
            Some("custom") => self.add(text(&tool, "/name"), None),
            Some("namespace") if namespace.is_none() => {
                let name = text(&tool, "/name").unwrap_or_default().to_owned();
                let Some(Value::Array(tools)) = tool.get_mut("tools").map(Value::take) else { return };
                for tool in tools {
                    self.responses(tool, Some(&name));
                }
            }
            _ => self.open = true,
        }
    }

    /// What has no declarations runs at the provider.
    fn gemini(&mut self, mut tool: Value) {
        for list in ["functionDeclarations", "function_declarations"] {
            let Some(Value::Array(functions)) = tool.get_mut(list).map(Value::take) else { continue };
            for mut function in functions {
                let mut take =
                    |name: &str| function.get_mut(name).map(Value::take).filter(|said| !said.is_null());
                let json = take("parametersJsonSchema").or_else(|| take("parameters_json_schema"));
                let schema = json.or_else(|| take("parameters").map(gemini_schema));
                self.add(text(&function, "/name"), schema);
            }
        }
    }
}

fn text<'v>(value: &'v Value, pointer: &str) -> Option<&'v str> {
    value.pointer(pointer)?.as_str()
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn body(fields: &Value) -> RequestBody {
        let mut fields = fields.clone();
        fields["model"] = "m".into();
        RequestBody::read(Bytes::from(fields.to_string()), None).unwrap()
    }

    #[test]
    fn tools_are_known_in_every_dialect() {
        let schema = json!({"type": "object"});
        for (dialect, tools, open) in [
            (
                GatewayDialect::Chat,
                json!([{"type": "function", "function": {"name": "a", "parameters": schema}}, {"type": "custom", "custom": {"name": "b"}}]),
                false,
            ),
            (
                GatewayDialect::Messages,
                json!([{"name": "a", "input_schema": schema}, {"type": "bash_20250124", "name": "b"}]),
                false,
            ),
            (
                GatewayDialect::Responses,
                json!([{"type": "function", "name": "a", "parameters": schema}, {"type": "custom", "name": "b"}, {"type": "web_search"}]),
                true,
            ),
            (
                GatewayDialect::Gemini,
                json!([{"functionDeclarations": [{"name": "a", "parameters": {"type": "OBJECT"}}]}, {"function_declarations": [{"name": "b"}]}]),
                false,
            ),
        ] {
            let declared = super::tools(dialect, &body(&json!({ "tools": tools }))).unwrap();
            let expected = [("a".to_owned(), Some(schema.clone())), ("b".to_owned(), None)];
            assert_eq!((declared.tools, declared.open), (expected.into(), open), "{dialect:?}");
        }
        let twice = json!([{"name": "a", "input_schema": schema}, {"name": "a", "input_schema": {}}]);
        let declared = tools(GatewayDialect::Messages, &body(&json!({ "tools": twice }))).unwrap();
        assert_eq!(declared.tools, [("a".to_owned(), None)].into(), "either may be meant");
        let nested =
            json!([{"type": "namespace", "name": "n", "tools": [{"type": "function", "name": "a"}]}]);
        let declared = tools(GatewayDialect::Responses, &body(&json!({ "tools": nested }))).unwrap();
        assert_eq!(declared.tools, [("n__a".to_owned(), None), ("a".to_owned(), None)].into());
    }

    #[test]
    fn the_form_of_the_answer_is_known_in_every_dialect() {
        let schema = json!({"type": "array"});
        let object = Some(json!({"type": "object"}));
        for (dialect, fields, expected) in [
            (
                GatewayDialect::Chat,
                json!({"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}}),
                Some(schema.clone()),
            ),
            (GatewayDialect::Chat, json!({"response_format": {"type": "json_object"}}), object.clone()),
            (GatewayDialect::Chat, json!({"response_format": {"type": "text"}}), None),
            (
                GatewayDialect::Responses,
                json!({"text": {"format": {"type": "json_schema", "name": "x", "schema": schema}}}),
                Some(schema.clone()),
            ),
            (GatewayDialect::Responses, json!({"text": {"format": {"type": "json_object"}}}), object),
            (GatewayDialect::Responses, json!({"text": {"verbosity": "low"}}), None),
            (
                GatewayDialect::Messages,
                json!({"output_config": {"format": {"type": "json_schema", "schema": schema}}}),
                Some(schema.clone()),
            ),
            (GatewayDialect::Messages, json!({"output_config": {"effort": "low"}}), None),
            (
                GatewayDialect::Messages,
                json!({"output_format": {"type": "json_schema", "schema": schema}}),
                Some(schema.clone()),
            ),
            (
                GatewayDialect::Gemini,
                json!({"generationConfig": {"responseSchema": {"type": "ARRAY"}}}),
                Some(schema.clone()),
            ),
            (
                GatewayDialect::Gemini,
                json!({"generation_config": {"response_json_schema": schema}}),
                Some(schema),
            ),
            (
                GatewayDialect::Gemini,
                json!({"generationConfig": {"responseMimeType": "application/json"}}),
                Some(json!({})),
            ),
            (GatewayDialect::Gemini, json!({"generationConfig": {"topK": 1}}), None),
        ] {
            assert_eq!(form(dialect, &body(&fields)), expected, "{fields}");
        }
    }
}
