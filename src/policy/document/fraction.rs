//! Fractions, kept exactly.

use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::Value;

use crate::policy::decode::{Decode, NodeReader};
use crate::text::yaml::{YamlData, YamlNode};
use crate::text::{Code, Diagnostic, parse_ppm};

/// A fraction above 0 and at most 1, in parts per million.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OpenFraction(pub(crate) u32);

impl OpenFraction {
    /// As it is written.
    pub(crate) fn show(self) -> Value {
        shown(self.0.into(), 1_000_000)
    }
}

impl Decode for OpenFraction {
    fn decode(node: &YamlNode, reader: &mut NodeReader<'_>) -> Option<Self> {
        let YamlData::Number(_) = node.data else {
            return reader.wrong_type(node, "a number above 0 and at most 1");
        };
        match parse_ppm(reader.text(node.span)) {
            Ok(ppm) => Some(Self(ppm)),
            Err(error) => {
                let problem = Diagnostic::error(Code::OUT_OF_RANGE, node.span, error.message);
                reader.report(problem.help_if(error.help));
                None
            }
        }
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "number", "exclusiveMinimum": 0, "maximum": 1, "examples": [0.2]})
    }
}

/// Shown, never computed with: both parts are far below 2^53.
#[expect(clippy::cast_precision_loss, clippy::float_arithmetic, reason = "shown, never computed with")]
pub(crate) fn shown(num: u64, den: u64) -> Value {
    (num as f64 / den as f64).into()
}
