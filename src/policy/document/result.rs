//! `result:` of a tool: how much of a result a model is shown, and what becomes of the rest.

use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::json;

use super::text::{Text, variables};
use crate::policy::decode::{Decode, Reader, choice_of};
use crate::policy::merge::{layer, plain_leaf};
use crate::policy::yaml::{Data, Node};
use crate::policy::{Cap, Code, Diagnostic, Keep, OverMax, ResultForm, ResultPolicy};

variables! {
    /// What is known of a result that is too large.
    Cut = ["tool", "shown", "total", "unit"];
    /// What is known of one that is kept.
    Kept = ["tool", "shown", "total", "unit", "handle", "reader"];
}

layer! {
    /// How much of a result a model is shown, in which form, and what becomes of the rest.
    /// Example: `{"max": "6000 chars", "keep": "head"}`
    pub(crate) struct ResultLayer => MergedResult {
        leaves {
            /// The most of a result that a model is shown, what is said about the rest included.
            /// Example: `12 KiB`
            max: Cap,
            /// Which part is shown of a text that is larger.
            keep: Keep,
            /// The most lines about errors that are shown of the part that is not.
            /// Example: `10`
            error_lines: u32,
            /// Whether so much of a list or a mapping is shown as is JSON again.
            /// Example: `false`
            json: bool,
            /// What becomes of the rest.
            over: OverMax,
            /// The name of the tool by which a model reads the rest of a result that is kept.
            /// Example: `read_more`
            reader: String,
            /// The form in which a model is shown it.
            form: ResultForm,
            /// What a model is told in the place of the rest.
            /// Example: `[... {{ shown }} of {{ total }} {{ unit }}]`
            notice: Text<Cut>,
            /// What a model is told in the place of the rest, if that is kept.
            /// Example: `[... {{ shown }} of {{ total }} {{ unit }}; {{ reader }} reads the rest of {{ handle }}]`
            kept_notice: Text<Kept>,
        }
    }
}

impl MergedResult {
    /// The plain values; `None` if the layers leave one open, which the built-in default does not.
    pub(crate) fn policy(&self) -> Option<ResultPolicy> {
        Some(ResultPolicy {
            max: self.max.setting()?,
            keep: self.keep.setting()?,
            error_lines: self.error_lines.setting()?,
            json: self.json.setting()?,
            over: self.over.setting()?,
            reader: self.reader.setting()?,
            form: self.form.setting()?,
            notice: self.notice.setting()?,
            kept_notice: self.kept_notice.setting()?,
        })
    }
}

choice_of! {
    /// Which part is shown of a result that is too large.
    Keep {
        /// Its beginning.
        Head = "head",
        /// Its end.
        Tail = "tail",
        /// Both.
        Both = "both",
    }
}

choice_of! {
    /// What becomes of the part of a result that is not shown.
    OverMax {
        /// The model never sees it.
        Cut = "cut",
        /// The host keeps the whole result, and the model may read it by and by.
        Spill = "spill",
    }
}

choice_of! {
    /// The form in which a model is shown a result.
    ResultForm {
        /// What the tool answered; a failure in the words of `messages`.
        Text = "text",
        /// What the tool answered; a failure as JSON: `error` and `error_type`.
        Json = "json",
        /// The whole result as JSON: `ok`, `data` or `error` and `error_type`, and what is known of the run.
        Full = "full",
    }
}

impl Decode for Cap {
    const NAME: Option<&'static str> = Some("Cap");

    fn decode(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        let Data::Text(text) = &node.data else {
            return reader.wrong_type(node, "a size such as `6000 chars`, or `unlimited`");
        };
        Self::parse(text).or_else(|| {
            let message = format!("`{text}` is no size");
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
    Cap => |value| json!(value.to_string()),
    Keep => |value| json!(value),
    OverMax => |value| json!(value),
    ResultForm => |value| json!(value),
    u32 => |value| json!(value),
}
