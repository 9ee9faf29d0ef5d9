//! Server delays in the fields of a body.

use super::super::failure::json::{JsonNode, NodeShape};
use super::length::{MILLISECOND, SECOND, decimal, duration};
use super::{ReplyHeaders, StatedHints};
use crate::time::Nanos;

/// The maximum number of values visited, and the maximum depth.
// The body is untrusted: without a limit, a reply of many megabytes would be searched to its end.
const MOST_VALUES: usize = 1024;
const DEEPEST: usize = 10;

/// Reads the server delays of the fields. Returns provider headers that some routers put into the body.
pub(super) fn waits(body: &impl JsonNode, said: &mut StatedHints) -> ReplyHeaders {
    let mut walk = BodyWalk { said, headers: Vec::new(), seen: 0 };
    walk.value(body, 0);
    ReplyHeaders::new(walk.headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())))
}

struct BodyWalk<'s> {
    said: &'s mut StatedHints,
    headers: Vec<(String, String)>,
    seen: usize,
}

impl BodyWalk<'_> {
    fn value(&mut self, value: &impl JsonNode, depth: usize) {
        self.seen = self.seen.saturating_add(1);
        // Beyond the limits the delay is lost, never the failure: the backoff decides without it.
        if depth > DEEPEST || self.seen > MOST_VALUES {
            return;
        }
        let deeper = depth.saturating_add(1);
        match value.shape() {
            NodeShape::List(items) => items.iter().for_each(|item| self.value(item, deeper)),
            NodeShape::Object => {
                value.fields().for_each(|(name, value)| self.field(name, value));
                value.fields().for_each(|(_, value)| self.value(value, deeper));
            }
            NodeShape::Text(_) | NodeShape::Number(_) | NodeShape::Bool(_) | NodeShape::Null => {}
        }
    }

    fn field(&mut self, name: &str, value: &impl JsonNode) {
        match (name, value.shape()) {
            // `google.rpc.RetryInfo`, as Gemini and Vertex send it in `error.details`.
            ("retryDelay" | "retry_delay", NodeShape::Null) => {}
            ("retryDelay" | "retry_delay", _) => {
                let written = value.written();
                self.said.take(name, &written, delay(value), "a duration, or `seconds` and `nanos`");
            }
            // Names found in bodies of providers by ai-agent; both spellings are in use.
            ("retry_after" | "retryAfter" | "retry_after_seconds", NodeShape::Text(text)) => {
                self.seconds(name, text);
            }
            // `estimated_time` are Hugging Face's seconds until a model is loaded, `resets_in_seconds` OpenAI's until a plan has usage
            // again (earendil-works/pi#4172).
            (
                "retry_after" | "retryAfter" | "retry_after_seconds" | "estimated_time" | "resets_in_seconds",
                NodeShape::Number(number),
            ) => self.seconds(name, &number.to_string()),
            ("retry_after_ms" | "retryAfterMs", NodeShape::Number(number)) => {
                let written = number.to_string();
                let read = decimal(&written, MILLISECOND);
                self.said.take(name, &written, read, "a number of milliseconds");
            }
            // OpenRouter passes the headers of the provider on in `error.metadata.headers`.
            ("headers", NodeShape::Object) => {
                let texts = value.fields().filter_map(|(name, value)| match value.shape() {
                    NodeShape::Text(text) => Some((name.to_ascii_lowercase(), text.to_owned())),
                    NodeShape::Number(number) => Some((name.to_ascii_lowercase(), number.to_string())),
                    _ => None,
                });
                self.headers.extend(texts);
            }
            _ => {}
        }
    }

    fn seconds(&mut self, name: &str, text: &str) {
        let read = decimal(text, SECOND).or_else(|| duration(text));
        self.said.take(name, text, read, "a number of seconds");
    }
}

/// Google's form of a duration: `58s`, or `{seconds, nanos}`, where numbers may be strings.
fn delay(value: &impl JsonNode) -> Option<Nanos> {
    match value.shape() {
        NodeShape::Text(text) => duration(text),
        // ProtoJSON writes 64-bit integers as strings, so `seconds` may be one. A part that is zero may be missing.
        NodeShape::Object if value.get("seconds").is_some() || value.get("nanos").is_some() => {
            let part = |key: &str, unit: u64| match value.get(key).map(JsonNode::shape) {
                None | Some(NodeShape::Null) => Some(Nanos::ZERO),
                Some(NodeShape::Text(text)) => decimal(text, unit),
                Some(NodeShape::Number(number)) => decimal(&number.to_string(), unit),
                Some(_) => None,
            };
            Some(part("seconds", SECOND)?.saturating_add(part("nanos", 1)?))
        }
        _ => None,
    }
}
