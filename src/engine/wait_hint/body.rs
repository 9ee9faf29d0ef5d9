//! What the fields of a body say about waiting.

use super::super::failure::json::{Node, Shape};
use super::length::{MILLISECOND, SECOND, decimal, duration};
use super::{Headers, Said};
use crate::time::Nanos;

/// The most values that are looked at, and how deep.
const MOST_VALUES: usize = 1024;
const DEEPEST: usize = 10;

/// Takes what the fields say. Some routers put the headers of the provider into the body; they are handed back.
pub(super) fn waits(body: &impl Node, said: &mut Said) -> Headers {
    let mut walk = Walk { said, headers: Vec::new(), seen: 0 };
    walk.value(body, 0);
    Headers::new(walk.headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())))
}

struct Walk<'s> {
    said: &'s mut Said,
    headers: Vec<(String, String)>,
    seen: usize,
}

impl Walk<'_> {
    fn value(&mut self, value: &impl Node, depth: usize) {
        self.seen = self.seen.saturating_add(1);
        if depth > DEEPEST || self.seen > MOST_VALUES {
            return;
        }
        let deeper = depth.saturating_add(1);
        match value.shape() {
            Shape::List(items) => items.iter().for_each(|item| self.value(item, deeper)),
            Shape::Object => {
                value.fields().for_each(|(name, value)| self.field(name, value));
                value.fields().for_each(|(_, value)| self.value(value, deeper));
            }
            Shape::Text(_) | Shape::Number(_) | Shape::Bool(_) | Shape::Null => {}
        }
    }

    fn field(&mut self, name: &str, value: &impl Node) {
        match (name, value.shape()) {
            ("retryDelay" | "retry_delay", Shape::Null) => {}
            ("retryDelay" | "retry_delay", _) => {
                let written = value.written();
                self.said.take(name, &written, delay(value), "a duration, or `seconds` and `nanos`");
            }
            ("retry_after" | "retryAfter" | "retry_after_seconds", Shape::Text(text)) => {
                self.seconds(name, text);
            }
            ("retry_after" | "retryAfter" | "retry_after_seconds", Shape::Number(number)) => {
                self.seconds(name, &number.to_string());
            }
            ("retry_after_ms" | "retryAfterMs", Shape::Number(number)) => {
                let written = number.to_string();
                let read = decimal(&written, MILLISECOND);
                self.said.take(name, &written, read, "a number of milliseconds");
            }
            // How long Hugging Face still loads the model.
            ("estimated_time", Shape::Number(number)) => self.seconds(name, &number.to_string()),
            ("headers", Shape::Object) => {
                let texts = value.fields().filter_map(|(name, value)| match value.shape() {
                    Shape::Text(text) => Some((name.to_ascii_lowercase(), text.to_owned())),
                    Shape::Number(number) => Some((name.to_ascii_lowercase(), number.to_string())),
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

/// Google's form of a duration: `58s`, or `{seconds, nanos}`, where numbers may be texts.
fn delay(value: &impl Node) -> Option<Nanos> {
    match value.shape() {
        Shape::Text(text) => duration(text),
        Shape::Object if value.get("seconds").is_some() || value.get("nanos").is_some() => {
            let part = |key: &str, unit: u64| match value.get(key).map(Node::shape) {
                None | Some(Shape::Null) => Some(Nanos::ZERO),
                Some(Shape::Text(text)) => decimal(text, unit),
                Some(Shape::Number(number)) => decimal(&number.to_string(), unit),
                Some(_) => None,
            };
            Some(part("seconds", SECOND)?.saturating_add(part("nanos", 1)?))
        }
        _ => None,
    }
}
