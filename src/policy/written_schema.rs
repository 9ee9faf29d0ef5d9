//! JSON Schemas as documents hold them: every mistake is reported at its place.

use schemars::SchemaGenerator;
use serde_json::Value;

use super::decode::{Decode, NodeReader};
use crate::text::yaml::{YamlData, YamlNode};
use crate::text::{Code, Diagnostic, Schema, SchemaError};

/// A JSON Schema of the arguments of a tool, as it is written. Whoever reads it asks the findings for errors.
#[derive(Clone, Debug, PartialEq)]
pub struct WrittenSchema(pub Value);

impl Decode for WrittenSchema {
    fn decode(node: &YamlNode, reader: &mut NodeReader<'_>) -> Option<Self> {
        let json = Value::decode(node, reader)?;
        // A wrong schema is reported as a finding. Failing here as well would hide the errors in the rest of the
        // document.
        let _ = compile(node, reader);
        Some(Self(json))
    }

    fn schema(generator: &mut SchemaGenerator) -> schemars::Schema {
        Value::schema(generator)
    }
}

/// Compiles a schema, or tells what is wrong with it, at most ten times.
pub(crate) fn compile(node: &YamlNode, reader: &mut NodeReader<'_>) -> Option<Schema> {
    match Schema::compile_or_all(&node.to_json()) {
        Ok(schema) => Some(schema),
        Err(errors) => {
            for SchemaError { message, pointer, help } in errors {
                let at = pointer.as_deref().and_then(|pointer| find(node, pointer)).unwrap_or(node);
                reader.report(Diagnostic::error(Code::SCHEMA, at.span, message).help_if(help));
            }
            None
        }
    }
}

/// The part of a tree that a JSON Pointer names.
fn find<'n>(node: &'n YamlNode, pointer: &str) -> Option<&'n YamlNode> {
    pointer.split('/').skip(1).try_fold(node, |node, step| match &node.data {
        // RFC 6901, section 4: `~1` is replaced before `~0`, or `~01` would become `/`.
        YamlData::Map(_) => node.get(&step.replace("~1", "/").replace("~0", "~")),
        YamlData::List(items) => items.get(step.parse::<usize>().ok()?),
        _ => None,
    })
}
