//! `on_uncertain_effect:`, distinguished by its kind and replaced whole.

use std::sync::Arc;

use indexmap::IndexMap;
use schemars::{Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

use super::text::{CelText, variables};
use crate::policy::decode::{Decode, NodeReader, union};
use crate::policy::layer_value::plain_leaf;
use crate::policy::{AfterEffect, EffectVerification};
use crate::text::yaml::YamlNode;

variables! {
    /// What is known of a call that may have had side effects.
    Doubtful = ["args", "tool"], "args.id";
    /// What is known once the other tool has answered.
    Verified = ["args", "tool", "result"], "result.status == 'sent'";
}

union! {
    /// What is done about a run that failed and may have had side effects, where another attempt would follow if it did no harm. Replaced whole.
    enum AfterEffectRule by kind {
        /// The model is informed, and there is no other attempt.
        Tell = "tell" {},
        /// A person is asked whether it may run again. If nobody answers it may not.
        Ask = "ask" {},
        /// A tool that only reads is run first, and an expression says whether the run acted. If it did, the model is informed; if it did not, there is another attempt; if that cannot be found out, the model is informed.
        Verify = "verify" {
            /// The tool that is run; its `effect` must be `read_only`.
            /// Checks: W0239.
            /// Example: `outbox`
            tool: String,
            /// Its arguments, each an expression over `args` and `tool`.
            /// Example: `{"to": "args.to"}`
            arguments: IndexMap<String, CelText<Doubtful>> = IndexMap::new(),
            /// Whether the run acted.
            /// Example: `result.count > 0`
            acted: CelText<Verified>,
        },
    }
}

impl Decode for AfterEffect {
    const NAME: Option<&'static str> = AfterEffectRule::NAME;

    fn decode(node: &YamlNode, reader: &mut NodeReader<'_>) -> Option<Self> {
        Some(match AfterEffectRule::decode(node, reader)? {
            AfterEffectRule::Tell {} => Self::Tell,
            AfterEffectRule::Ask {} => Self::Ask,
            AfterEffectRule::Verify { tool, arguments, acted } => {
                Self::Verify(Arc::new(EffectVerification {
                    tool,
                    arguments: arguments.into_iter().map(|(name, value)| (name, value.expr)).collect(),
                    acted: acted.expr,
                }))
            }
        })
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        AfterEffectRule::schema(generator)
    }
}

plain_leaf! {
    AfterEffect => |value| match value {
        AfterEffect::Tell => json!({"kind": "tell"}),
        AfterEffect::Ask => json!({"kind": "ask"}),
        AfterEffect::Verify(check) => {
            let each = check.arguments.iter();
            let arguments: Map<String, Value> =
                each.map(|(name, value)| (name.clone(), value.as_str().into())).collect();
            json!({
                "kind": "verify", "tool": check.tool, "arguments": arguments, "acted": check.acted.as_str(),
            })
        }
    };
}
