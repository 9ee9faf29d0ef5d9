//! What the fields of a body say about waiting.

use serde_json::{Map, Value};

use super::length::{SECOND, decimal, duration};
use super::{Headers, Said};
use crate::time::Nanos;

/// The most values that are looked at, and how deep.
const MOST_VALUES: usize = 1024;
const DEEPEST: usize = 10;

/// Takes what the fields say. Some routers put the headers of the provider into the body; they are handed back.
pub(super) fn waits(body: &Value, said: &mut Said) -> Headers {
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
    fn value(&mut self, value: &Value, depth: usize) {
        self.seen = self.seen.saturating_add(1);
        if depth > DEEPEST || self.seen > MOST_VALUES {
            return;
        }
        let deeper = depth.saturating_add(1);
        match value {
            Value::Array(items) => items.iter().for_each(|item| self.value(item, deeper)),
            Value::Object(fields) => {
                self.fields(fields);
                fields.values().for_each(|value| self.value(value, deeper));
            }
            Value::String(_) | Value::Number(_) | Value::Bool(_) | Value::Null => {}
        }
    }

    fn fields(&mut self, fields: &Map<String, Value>) {
        for (name, value) in fields {
            match (name.as_str(), value) {
                ("retryDelay" | "retry_delay", Value::Null) => {}
                ("retryDelay" | "retry_delay", value) => {
                    self.said.take(
                        name,
                        &value.to_string(),
                        delay(value),
                        "a duration, or `seconds` and `nanos`",
                    );
                }
                (
                    "retry_after" | "retryAfter" | "retry_after_seconds",
                    Value::Number(_) | Value::String(_),
                ) => {
                    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                    let read = decimal(&text, SECOND).or_else(|| duration(&text));
                    self.said.take(name, &text, read, "a number of seconds");
                }
                ("headers", Value::Object(headers)) => {
                    let texts = headers.iter().filter_map(|(name, value)| match value {
                        Value::String(text) => Some((name.to_ascii_lowercase(), text.clone())),
                        Value::Number(number) => Some((name.to_ascii_lowercase(), number.to_string())),
                        _ => None,
                    });
                    self.headers.extend(texts);
                }
                _ => {}
            }
        }
    }
}

/// Google's form of a duration: `58s`, or `{seconds, nanos}`, where numbers may be texts.
fn delay(value: &Value) -> Option<Nanos> {
    match value {
        Value::String(text) => duration(text),
        Value::Object(fields) if fields.contains_key("seconds") || fields.contains_key("nanos") => {
            let part = |key: &str, unit: u64| match fields.get(key) {
                None | Some(Value::Null) => Some(Nanos::ZERO),
                Some(Value::String(text)) => decimal(text, unit),
                Some(Value::Number(number)) => decimal(&number.to_string(), unit),
                Some(_) => None,
            };
            Some(part("seconds", SECOND)?.saturating_add(part("nanos", 1)?))
        }
        _ => None,
    }
}
