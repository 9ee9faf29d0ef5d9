//! `output:`, the final report.

use std::sync::Arc;

use schemars::SchemaGenerator;
use serde_json::Value;

use super::retry::{LimitsRule, MergedRetry, RetryLayer};
use super::text::Text;
use super::tool::{Checks, Refused, Reported, validators};
use crate::policy::decode::{Decode, Reader};
use crate::policy::merge::{Leaf, layer};
use crate::policy::yaml::{Data, Node};
use crate::policy::{OnExhausted, OutputPolicy, Schema, written_schema};

layer! {
    /// The final report: the tool it is delivered by, what it must look like, and what happens when it does not.
    pub(crate) struct OutputLayer => MergedOutput {
        leaves {
            /// The name of the tool the report is delivered by.
            /// Example: `final_report`
            tool: String,
            /// What the model is told the tool is for.
            /// Example: `Delivers the final report. Call it once, when the work is done.`
            description: String,
            /// JSON Schema of the report. Replaced whole.
            /// Example: `{"type": "object", "properties": {"answer": {"type": "string"}}, "required": ["answer"]}`
            schema: OutputSchema,
            /// Checks beyond the schema. Replaced whole.
            validate: Checks<Reported>,
            /// What is decided when attempts are exhausted.
            on_exhausted: OnExhausted,
        }
        blocks {
            /// Corrections of a report that was refused.
            retry: RetryLayer => MergedRetry,
            /// What the model is told.
            messages: OutputMessagesLayer => MergedOutputMessages,
        }
        rest {
            /// Limits that no layer can loosen.
            limits: Option<LimitsRule> = None,
        }
    }
}

layer! {
    /// What the model is told about a report that was refused.
    pub(crate) struct OutputMessagesLayer => MergedOutputMessages {
        leaves {
            /// The report was refused.
            /// Example: `The report was refused: {{ problems }}. Deliver it again.`
            invalid: Text<Refused>,
        }
    }
}

/// A JSON Schema, compiled.
#[derive(Clone, Debug)]
pub(crate) struct OutputSchema(pub(crate) Arc<Schema>);

impl Decode for OutputSchema {
    fn decode(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        let (Data::Map(_) | Data::Bool(_)) = node.data else {
            return reader.wrong_type(node, "a JSON Schema (a mapping)");
        };
        if reader.has_ambiguous(node) {
            return None;
        }
        written_schema::compile(node, reader).map(|schema| Self(Arc::new(schema)))
    }

    fn schema(_: &mut SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "anyOf": [{"type": "object"}, {"type": "boolean"}],
        })
    }
}

impl PartialEq for OutputSchema {
    fn eq(&self, other: &Self) -> bool {
        self.0.json() == other.0.json()
    }
}

impl Leaf for OutputSchema {
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

impl MergedOutput {
    /// The plain values; `None` if the layers leave one open, which the built-in default does not.
    pub(crate) fn policy(&self) -> Option<OutputPolicy> {
        Some(OutputPolicy {
            tool: self.tool.setting()?,
            description: self.description.setting()?,
            schema: self.schema.setting()?,
            validators: validators(&self.validate)?,
            retry: self.retry.policy()?,
            on_exhausted: self.on_exhausted.setting()?,
            invalid_message: self.messages.invalid.setting()?,
        })
    }
}
