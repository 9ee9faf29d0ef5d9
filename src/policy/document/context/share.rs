//! Shares of a window: a part of it, or so many tokens.

use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

use crate::policy::decode::{Decode, NodeReader};
use crate::policy::document::fraction::OpenFraction;
use crate::policy::layer_value::{LayerValue, plain_leaf};
use crate::policy::{ContextShare, SizeCap, SizeUnit};
use crate::text::yaml::{YamlData, YamlNode};
use crate::text::{Code, Diagnostic};

/// A share that is not nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NonZeroShare(pub(crate) ContextShare);

impl Decode for ContextShare {
    const NAME: Option<&'static str> = Some("Share");

    fn decode(node: &YamlNode, reader: &mut NodeReader<'_>) -> Option<Self> {
        match &node.data {
            YamlData::Number(_) => OpenFraction::decode(node, reader).map(|part| Self::Part(part.0)),
            YamlData::Text(text) => match SizeCap::parse(text).and_then(SizeCap::size) {
                // Windows are counted in tokens, so characters and bytes would need a guess.
                Some(size) if size.unit == SizeUnit::Tokens => Some(Self::Tokens(size.count)),
                _ => {
                    let message = format!("`{text}` is no number of tokens");
                    let help = "write such as `5000 tokens`, or a part such as `0.1`";
                    reader.report(Diagnostic::error(Code::WRONG_TYPE, node.span, message).help(help));
                    None
                }
            },
            _ => reader.wrong_type(node, "a part such as `0.1`, or a number of tokens such as `5000 tokens`"),
        }
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        schema(r"^\s*[0-9]+\s*tokens?\s*$")
    }
}

impl Decode for NonZeroShare {
    const NAME: Option<&'static str> = Some("Room");

    fn decode(node: &YamlNode, reader: &mut NodeReader<'_>) -> Option<Self> {
        match ContextShare::decode(node, reader)? {
            ContextShare::Tokens(0) => reader.out_of_range(node, "must be at least 1 token"),
            share => Some(Self(share)),
        }
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        schema(r"^\s*0*[1-9][0-9]*\s*tokens?\s*$")
    }
}

/// A part, or tokens that are written so.
fn schema(tokens: &str) -> Schema {
    json_schema!({
        "anyOf": [
            {"type": "number", "exclusiveMinimum": 0, "maximum": 1},
            {"type": "string", "pattern": tokens},
        ],
        "description": "A part above 0 and at most 1, or a number of tokens. Unit: tokens. Example: `5000 tokens`",
    })
}

impl LayerValue for NonZeroShare {
    type Value = ContextShare;

    fn over(&self, _: Option<&ContextShare>) -> ContextShare {
        self.0
    }

    fn show(&self) -> Value {
        self.0.show()
    }

    fn show_value(value: &ContextShare) -> Value {
        value.show()
    }
}

plain_leaf! {
    ContextShare => |share| match share {
        ContextShare::Part(ppm) => OpenFraction(*ppm).show(),
        ContextShare::Tokens(tokens) => json!(format!("{tokens} tokens")),
    };
}
