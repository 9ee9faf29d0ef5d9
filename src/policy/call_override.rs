//! What a planner says about a single call: the highest layer of the merge.

use std::borrow::Cow;
use std::sync::Arc;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::{Value, json};

use super::Findings;
use super::decode::{Decode, NodeReader, SchemaOf};
use super::document::PlannerRule;
use crate::text::source::PLANNER;
use crate::text::yaml::YamlNode;
use crate::text::{Report, Sources, yaml};

/// A layer for one call, `{"retry": {...}, "limits": {...}}`, given at run time. It may tighten limits, never
/// loosen them.
///
/// ```
/// use unfazed::policy::CallOverride;
/// let once: CallOverride = serde_json::from_str(r#"{"retry": {"max_attempts": 1}}"#)?;
/// assert!(serde_json::from_str::<CallOverride>(r#"{"retry": {"max_atempts": 1}}"#).is_err());
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone)]
pub struct CallOverride {
    json: Value,
    pub(crate) rule: Arc<PlannerRule>,
}

impl JsonSchema for CallOverride {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "CallOverride".into()
    }

    /// An outline: the schema of policies has the fields.
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let block = |description: &str, example: Value| json!({"type": "object", "description": description, "examples": [example]});
        json_schema!({
            "type": "object",
            "properties": {
                "retry": block("Retries of this call, as under `retry:` of a policy.", json!({"max_attempts": 1})),
                "limits": block("Limits of this call, as under `limits:` of a tool.", json!({"total_delay": "10s"})),
            },
            "additionalProperties": false,
        })
    }
}

impl CallOverride {
    /// Reads it with the rules of the policy language.
    ///
    /// # Errors
    /// Every mistake in it. Places are columns of the JSON on one line.
    pub fn new(json: Value) -> Result<Self, Report> {
        let text = json.to_string();
        let mut findings = Findings::default();
        // JSON is a subset of YAML 1.2, so the planner's layer takes the same decoder and gives the same messages.
        let rule = yaml::parse(PLANNER, &text, findings.problems_mut())
            .and_then(|node| PlannerRule::decode(&node, &mut NodeReader::new(&text, &mut findings)));
        match rule {
            Some(rule) if !findings.has_errors() => Ok(Self { json, rule: Arc::new(rule) }),
            _ => Err(findings.into_report(Sources::new())),
        }
    }

    /// The JSON it was read from.
    pub const fn json(&self) -> &Value {
        &self.json
    }
}

impl Decode for CallOverride {
    fn decode(node: &YamlNode, reader: &mut NodeReader<'_>) -> Option<Self> {
        // Decoded twice: a mistake needs its place in the document, a value its place in the planner's JSON.
        PlannerRule::decode(node, reader)?;
        Self::new(node.to_json()).ok()
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        generator.subschema_for::<SchemaOf<PlannerRule>>()
    }
}

impl PartialEq for CallOverride {
    fn eq(&self, other: &Self) -> bool {
        self.json == other.json
    }
}

impl core::fmt::Debug for CallOverride {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "CallOverride({})", self.json)
    }
}

impl Serialize for CallOverride {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.json.serialize(to)
    }
}

impl<'de> Deserialize<'de> for CallOverride {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Self::new(Value::deserialize(from)?).map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn it_is_written_as_it_was_read() {
        let json = json!({"retry": {"max_attempts": 1, "backoff": {"kind": "constant", "delay": "0s"}}});
        let given: CallOverride = serde_json::from_value(json.clone()).unwrap();
        assert_eq!(serde_json::to_value(&given).unwrap(), json);
    }

    #[test]
    fn mistakes_are_told_with_their_column() {
        let told = |json: Value| CallOverride::new(json).unwrap_err().to_string();
        insta::assert_snapshot!(told(json!({"retry": {"max_atempts": 1}, "effect": "read_only"})), @r"
        (planner):1:11: error[P0101]: unknown field `max_atempts` (did you mean `max_attempts`?)
        (planner):1:28: error[P0101]: unknown field `effect`
        ");
        insta::assert_snapshot!(told(json!({"limits": {"deadline": "-5s"}})), @r"(planner):1:23: error[P0106]: `-5s` is negative");
        insta::assert_snapshot!(told(json!([1])), @"(planner):1:1: error[P0103]: expected a mapping, found a list");
    }
}
