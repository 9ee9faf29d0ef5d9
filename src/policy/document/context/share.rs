//! Shares of a window: a part of it, or so many tokens.

use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

use crate::policy::decode::{Decode, Reader};
use crate::policy::document::fraction::Fraction;
use crate::policy::merge::{Leaf, plain_leaf};
use crate::policy::yaml::{Data, Node};
use crate::policy::{Cap, Code, Diagnostic, Share, Unit};

/// A share that is not nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room(pub(crate) Share);

impl Decode for Share {
    const NAME: Option<&'static str> = Some("Share");

    fn decode(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        match &node.data {
            Data::Number(_) => Fraction::decode(node, reader).map(|part| Self::Part(part.0)),
            Data::Text(text) => match Cap::parse(text).and_then(Cap::size) {
                Some(size) if size.unit == Unit::Tokens => Some(Self::Tokens(size.count)),
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

impl Decode for Room {
    const NAME: Option<&'static str> = Some("Room");

    fn decode(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        match Share::decode(node, reader)? {
            Share::Tokens(0) => reader.out_of_range(node, "must be at least 1 token"),
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

impl Leaf for Room {
    type Value = Share;

    fn over(&self, _: Option<&Share>) -> Share {
        self.0
    }

    fn show(&self) -> Value {
        self.0.show()
    }

    fn show_value(value: &Share) -> Value {
        value.show()
    }
}

plain_leaf! {
    Share => |share| match share {
        Share::Part(ppm) => Fraction(*ppm).show(),
        Share::Tokens(tokens) => json!(format!("{tokens} tokens")),
    };
}
