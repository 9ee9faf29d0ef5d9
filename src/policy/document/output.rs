//! `output:`, the final report.

use std::sync::Arc;

use schemars::SchemaGenerator;
use serde_json::Value;

use super::retry::{LimitsRule, RetryPolicy};
use super::text::TemplateText;
use super::tool::{CheckList, Refused, Reported};
use crate::policy::decode::{Decode, NodeReader};
use crate::policy::document::layer::layer;
use crate::policy::form::{Block, Effective, Form};
use crate::policy::layer_value::LayerValue;
use crate::policy::{OnExhausted, written_schema};
use crate::text::Schema;
use crate::text::yaml::{YamlData, YamlNode};

/// The final report: the tool it is delivered by, what it must look like, and what happens when it does not.
#[derive(Clone, Debug, Block)]
pub struct OutputPolicy<F: Form = Effective> {
    /// The name of the tool the report is delivered by.
    /// Example: `final_report`
    pub tool: F::Of<String>,
    /// What the model is shown the tool is for.
    /// Example: `Delivers the final report. Call it once, when the work is done.`
    pub description: F::Of<String>,
    /// JSON Schema of the report. Replaced whole.
    /// Example: `{"type": "object", "properties": {"answer": {"type": "string"}}, "required": ["answer"]}`
    pub schema: F::Of<OutputSchema>,
    /// Checks beyond the schema. Replaced whole.
    #[key(looser = Less)]
    pub validate: F::Of<CheckList<Reported>>,
    /// What is decided when attempts are exhausted.
    pub on_exhausted: F::Of<OnExhausted>,
    /// Corrections of a report that was refused.
    pub retry: F::In<RetryPolicy<F>>,
    /// The message to the model.
    pub messages: F::In<OutputMessages<F>>,
}

layer! {
    /// The final report: the tool it is delivered by, what it must look like, and what happens when it does not.
    pub(crate) struct OutputLayer of OutputPolicy {
        /// Limits that no layer can loosen.
        limits: Option<LimitsRule> = None,
    }
}

/// What the model learns about a report that was refused.
#[derive(Clone, Debug, Block)]
pub struct OutputMessages<F: Form = Effective> {
    /// The report was refused.
    /// Example: `The report was refused: {{ problems }}. Deliver it again.`
    pub invalid: F::Of<TemplateText<Refused>>,
}

/// A JSON Schema, compiled.
#[derive(Clone, Debug)]
pub struct OutputSchema(pub(crate) Arc<Schema>);

impl Decode for OutputSchema {
    fn decode(node: &YamlNode, reader: &mut NodeReader<'_>) -> Option<Self> {
        let (YamlData::Map(_) | YamlData::Bool(_)) = node.data else {
            return reader.wrong_type(node, "a JSON Schema (a mapping)");
        };
        // A plain `no` among the values of an `enum` would be `false` to other readers of the same schema.
        if reader.has_ambiguous(node) {
            return None;
        }
        written_schema::compile(node, reader).map(|schema| Self(Arc::new(schema)))
    }

    fn schema(_: &mut SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "anyOf": [{"type": "object"}, {"type": "boolean"}],
            "x-checks": ["P0109"],
        })
    }
}

impl PartialEq for OutputSchema {
    fn eq(&self, other: &Self) -> bool {
        self.0.json() == other.0.json()
    }
}

impl LayerValue for OutputSchema {
    type Value = Arc<Schema>;

    fn over(&self, _: Option<&Arc<Schema>>) -> Arc<Schema> {
        Arc::clone(&self.0)
    }

    fn show(&self) -> Value {
        self.0.json().clone()
    }

    fn show_value(value: &Arc<Schema>) -> Value {
        value.json().clone()
    }
}
