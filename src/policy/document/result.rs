//! `result:` of a tool: how much of a result a model is shown, and what becomes of the rest.

use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::json;

use super::text::{TemplateText, variables};
use crate::policy::SizeCap;
use crate::policy::decode::{Decode, NodeReader, choice};
use crate::policy::form::{Block, Effective, Form};
use crate::policy::layer_value::plain_leaf;
use crate::text::yaml::{YamlData, YamlNode};
use crate::text::{Code, Diagnostic};

variables! {
    /// What is known of a result that is too large.
    Cut = ["tool", "shown", "total", "unit"];
    /// What is known of one that is kept.
    Kept = ["tool", "shown", "total", "unit", "handle", "reader"];
}

/// How much of a result a model is shown, in which form, and what becomes of the rest.
/// Example: `{"max": "6000 chars", "keep": "head"}`
#[derive(Clone, Debug, Block)]
pub struct ResultPolicy<F: Form = Effective> {
    /// The most of a result that a model is shown, what is said about the rest included.
    /// Checks: W0234, W0235.
    /// Example: `12 KiB`
    pub max: F::Of<SizeCap>,
    /// Which part is shown of a text that is larger.
    pub keep: F::Of<KeptPart>,
    /// The most lines about errors that are shown of the part that is not.
    /// Example: `10`
    #[key(looser = Neither)]
    pub error_lines: F::Of<u32>,
    /// Whether so much of a list or a mapping is shown as is JSON again.
    /// Example: `false`
    #[key(looser = Neither)]
    pub json: F::Of<bool>,
    /// What becomes of the rest.
    /// Checks: W0234.
    pub overflow: F::Of<OverMax>,
    /// The name of the tool by which a model reads the rest of a result that is kept.
    /// Example: `read_more`
    pub reader: F::Of<String>,
    /// The form in which a model is shown it.
    pub form: F::Of<ResultForm>,
    /// What a model learns in the place of the rest.
    /// Example: `[... {{ shown }} of {{ total }} {{ unit }}]`
    pub notice: F::Of<TemplateText<Cut>>,
    /// What a model learns in the place of the rest, if that is kept.
    /// Example: `[... {{ shown }} of {{ total }} {{ unit }}; {{ reader }} reads the rest of {{ handle }}]`
    pub kept_notice: F::Of<TemplateText<Kept>>,
}

choice! {
    /// Which part is shown of a result that is too large.
    #[derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum KeptPart {
        /// Its beginning.
        Head = "head",
        /// Its end.
        Tail = "tail",
        /// Both.
        Both = "both",
    }
}

choice! {
    /// What becomes of the part of a result that is not shown.
    #[derive(serde::Serialize)]
    #[serde(rename_all = "snake_case")]
    pub enum OverMax {
        /// The model never sees it.
        Cut = "cut",
        /// The host keeps the whole result, and the model may read it by and by.
        Spill = "spill",
    }
}

choice! {
    /// The form in which a model is shown a result.
    #[derive(serde::Serialize)]
    #[serde(rename_all = "snake_case")]
    pub enum ResultForm {
        /// What the tool answered; a failure in the words of `messages`.
        Text = "text",
        /// What the tool answered; a failure as JSON: `error` and `error_type`.
        Json = "json",
        /// The whole result as JSON: `ok`, `data` or `error` and `error_type`, and what is known of the run.
        Full = "full",
    }
}

impl Decode for SizeCap {
    const NAME: Option<&'static str> = Some("Cap");

    fn decode(node: &YamlNode, reader: &mut NodeReader<'_>) -> Option<Self> {
        let YamlData::Text(text) = &node.data else {
            return reader.wrong_type(node, "a size such as `6000 chars`, or `unlimited`");
        };
        Self::parse(text).or_else(|| {
            let message = format!("invalid size `{text}`");
            let help = "write a whole number and `chars`, `bytes`, `KiB`, `MiB` or `tokens`, or `unlimited`";
            reader.report(Diagnostic::error(Code::WRONG_TYPE, node.span, message).help(help));
            None
        })
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "pattern": r"^\s*([0-9]+\s*(chars?|bytes?|B|KiB|MiB|tokens?)|unlimited)\s*$",
            "description": "A size, or `unlimited`. Units: chars, bytes, KiB, MiB, tokens. Example: `6000 chars`",
        })
    }
}

plain_leaf! {
    SizeCap => |value| json!(value.to_string());
    KeptPart => |value| json!(value);
    OverMax => |value| json!(value);
    ResultForm => |value| json!(value);
    u32 => |value| json!(value), ordered;
}
