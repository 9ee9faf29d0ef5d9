//! JSON Schemas as documents hold them: every mistake is told at its place.

use schemars::SchemaGenerator;
use serde_json::Value;

use super::decode::{Decode, Reader};
use super::yaml::{Data, Node};
use super::{Code, Diagnostic, Schema, SchemaError};

/// A JSON Schema of the arguments of a tool, as it is written. Whoever reads it asks the findings for errors.
#[derive(Clone, Debug, PartialEq)]
pub struct WrittenSchema(pub Value);

impl Decode for WrittenSchema {
    fn decode(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        let json = Value::decode(node, reader)?;
        // What is wrong has been told, and the rest of the document is looked at.
        let _ = compile(node, reader);
        Some(Self(json))
    }

    fn schema(generator: &mut SchemaGenerator) -> schemars::Schema {
        Value::schema(generator)
    }
}

/// Compiles a schema, or tells what is wrong with it, at most ten times.
pub(crate) fn compile(node: &Node, reader: &mut Reader<'_>) -> Option<Schema> {
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
fn find<'n>(node: &'n Node, pointer: &str) -> Option<&'n Node> {
    pointer.split('/').skip(1).try_fold(node, |node, step| match &node.data {
        Data::Map(_) => node.get(&step.replace("~1", "/").replace("~0", "~")),
        Data::List(items) => items.get(step.parse::<usize>().ok()?),
        _ => None,
    })
}
