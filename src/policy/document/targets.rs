//! `turn.targets:` and what each model says about itself: in which order models are asked, and when one is passed over.

use core::num::NonZeroU64;

use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::json;

use crate::policy::decode::{Decode, NodeReader, choice};
use crate::policy::form::{Block, Effective, Form};
use crate::policy::layer_value::plain_leaf;
use crate::policy::{Advance, AttemptLimit, ContextWindow, CooldownScope, TimeBound};
use crate::text::yaml::{YamlData, YamlNode};

/// In which order the models of a turn are asked.
#[derive(Clone, Debug, Block)]
pub struct TargetsPolicy<F: Form = Effective> {
    /// When the next model is asked.
    pub fallback: F::Of<Advance>,
    /// With `fallback: rotate`: so many attempts at a model in a turn before the next one is asked. While no other
    /// one can be asked, `max_attempts` alone counts.
    /// Checks: W0261.
    /// Example: `3`
    #[key(looser = Neither)]
    pub attempts: F::Of<AttemptLimit>,
    /// With `fallback: rotate`: rather than waiting longer than this for a model, the next one is asked first.
    /// Checks: W0261.
    /// Example: `2s`
    #[key(looser = Neither)]
    pub fallback_after: F::Of<TimeBound>,
    /// What a wait holds back.
    pub wait: F::Of<TargetWait>,
}

choice! {
    /// What a wait holds back.
    #[derive(serde::Serialize)]
    #[serde(rename_all = "snake_case")]
    pub enum TargetWait {
        /// The model that asked for it; the others are asked meanwhile.
        Target = "target",
        /// The turn, and only when every model of a round is rate limited: then the longest wait of the round.
        // ai-agent, "Cycle-Level Sleep": it waits only after a rotation in which every provider was rate limited.
        Round = "round",
        /// The turn, whichever model is next.
        Turn = "turn",
    }
}

impl Decode for ContextWindow {
    const NAME: Option<&'static str> = Some("ContextWindow");

    fn decode(node: &YamlNode, reader: &mut NodeReader<'_>) -> Option<Self> {
        match &node.data {
            YamlData::Text(word) if &**word == "unknown" => Some(Self::Unknown),
            YamlData::Number(number) if number.as_i64().is_some_and(|number| number < 1) => {
                reader.out_of_range(node, "must be at least 1")
            }
            YamlData::Number(_) => u64::decode(node, reader).and_then(NonZeroU64::new).map(Self::Tokens),
            _ => reader.wrong_type(node, "a number of tokens, or `unknown`"),
        }
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "anyOf": [{"type": "integer", "minimum": 1}, {"const": "unknown"}],
            "description": "A number of tokens, or `unknown`. Unit: tokens. Example: `131072`",
        })
    }
}

impl Decode for CooldownScope {
    fn decode(node: &YamlNode, reader: &mut NodeReader<'_>) -> Option<Self> {
        let name = String::decode(node, reader)?;
        match name.trim() {
            "" => reader.out_of_range(node, "must not be empty"),
            "own" => Some(Self::Own),
            name => Some(Self::Named(name.into())),
        }
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "pattern": "\\S"})
    }
}

plain_leaf! {
    CooldownScope => |value| match value {
        CooldownScope::Own => json!("own"),
        CooldownScope::Named(name) => json!(name),
    };
    Advance => |value| json!(value);
    TargetWait => |value| json!(value);
    ContextWindow => |value| match value {
        ContextWindow::Tokens(tokens) => json!(tokens.get()),
        ContextWindow::Unknown => json!("unknown"),
    };
}
