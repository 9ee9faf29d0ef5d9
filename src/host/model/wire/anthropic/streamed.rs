//! The blocks of a streamed message, each put together piece by piece.

use serde_json::{Map, Value};

use super::reply::misshapen;
use crate::engine::Failure;
use crate::host::model::wire::chars;
use crate::host::model::wire::kept::weight;

/// A block that is being put together.
#[derive(Debug)]
pub(super) struct StreamedBlock {
    fields: Map<String, Value>,
    /// The input of a tool call, which comes as pieces of JSON.
    input: String,
    /// Whether more of it may come.
    pub(super) open: bool,
}

impl StreamedBlock {
    /// One that begins with these fields.
    pub(super) const fn of(fields: Map<String, Value>) -> Self {
        Self { fields, input: String::new(), open: true }
    }

    /// Takes a field of the next piece, which makes `kept` larger: how many characters it has, if it is something that the model
    /// writes.
    ///
    /// # Errors
    /// It is of another type, or of another kind of block: to pass over it would make another reply of it.
    pub(super) fn add(
        &mut self,
        field: &str,
        value: Value,
        kept: &mut usize,
    ) -> Result<Option<u64>, Failure> {
        match (field, value) {
            ("text" | "thinking" | "partial_json" | "signature", value) if !value.is_string() => {
                return Err(misshapen(&format!("`{field}` of a piece is not a string")));
            }
            ("text" | "thinking" | "partial_json", _) if self.is_other_than(field) => {
                return Err(misshapen(&format!("a block has a piece of another kind, `{field}`")));
            }
            // A summary that stands for what came before comes in pieces of no kind of its own, and goes back as it came
            // (anthropics/anthropic-sdk-python#1830).
            ("text" | "thinking" | "content", Value::String(more))
                if field != "content" || self.is_compaction() =>
            {
                let grown = chars(&more);
                *kept += more.len();
                match self.fields.get_mut(field) {
                    Some(Value::String(text)) => text.push_str(&more),
                    _ => drop(self.fields.insert(field.to_owned(), Value::String(more))),
                }
                return Ok(Some(grown));
            }
            ("partial_json", Value::String(more)) => {
                *kept += more.len();
                self.input.push_str(&more);
                return Ok(Some(chars(&more)));
            }
            // A signature comes in one piece, and two joined ones would be refused.
            ("signature", signature) => {
                let old = self.fields.get(field).map_or(0, weight);
                *kept = (*kept + weight(&signature)).saturating_sub(old);
                self.fields.insert(field.to_owned(), signature);
            }
            ("encrypted_content", sealed) if self.is_compaction() => {
                *kept += weight(&sealed);
                self.fields.insert(field.to_owned(), sealed);
            }
            ("citation", citation) => {
                *kept += weight(&citation);
                match self.fields.get_mut("citations") {
                    Some(Value::Array(citations)) => citations.push(citation),
                    _ => drop(self.fields.insert("citations".to_owned(), Value::Array(vec![citation]))),
                }
            }
            _ => {}
        }
        Ok(None)
    }

    fn is_compaction(&self) -> bool {
        self.fields.get("type").is_some_and(|kind| kind == "compaction")
    }

    /// Whether a piece with that field belongs to another kind of block. What a block of an unknown kind has is unknown.
    fn is_other_than(&self, field: &str) -> bool {
        match self.fields.get("type").and_then(Value::as_str) {
            Some("text") => field != "text",
            Some("thinking") => field != "thinking",
            Some("tool_use") => field != "partial_json",
            _ => false,
        }
    }

    /// The block as it is in an answer that is not streamed; input that is broken stays a text.
    pub(super) fn whole(self) -> Map<String, Value> {
        let Self { mut fields, input, .. } = self;
        if !input.is_empty() {
            // Only the model's own calls may be broken; all else is the server's.
            let is_call = fields.get("type").is_some_and(|kind| kind == "tool_use");
            let read = if is_call { None } else { serde_json::from_str(&input).ok() };
            fields.insert("input".to_owned(), read.unwrap_or(Value::String(input)));
        }
        fields
    }
}

/// Whether a block is a text that says nothing: some servers write one where the message begins, and begin it again.
pub(super) fn is_blank(block: &Map<String, Value>) -> bool {
    block.get("text").is_some_and(|text| text == "")
}
