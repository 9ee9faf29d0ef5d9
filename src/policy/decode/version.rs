//! The version of a format that has had one so far.

use schemars::{Schema, SchemaGenerator, json_schema};

use super::{Decode, NodeReader};
use crate::text::yaml::{YamlData, YamlNode};
use crate::text::{Code, Diagnostic};

/// The only version there is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct VersionOne;

impl Decode for VersionOne {
    fn decode(node: &YamlNode, reader: &mut NodeReader<'_>) -> Option<Self> {
        if let YamlData::Text(_) = &node.data {
            return reader.wrong_type(node, "a version number (1)");
        }
        if let YamlData::Number(number) = &node.data
            && number.is_f64()
        {
            return reader.wrong_type(node, "a version number (1)");
        }
        match u64::decode(node, reader)? {
            1 => Some(Self),
            other => {
                let message = format!("version {other} of the format is not known");
                reader.report(
                    Diagnostic::error(Code::BAD_VALUE, node.span, message).help("write `version: 1`"),
                );
                None
            }
        }
    }

    fn stand_in(_: &YamlNode) -> Option<Self> {
        Some(Self)
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"const": 1})
    }
}
