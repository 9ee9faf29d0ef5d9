//! Bodies of errors, read into facts.
//!
//! Providers write errors nested (`{"error": {…}}`), flat, as a text, in an array, as plain text or as a page of
//! HTML; they wrap the cause of an error, and routers put what the provider itself said into a text that is JSON
//! again. All are read; which class of error it is, the policy's table decides.

use serde_json::{Map, Value};

use super::details::Details;
use super::plain::plain;
use super::{BodyFacts, Failure, window};

/// How often an error may stand inside another one.
const DEEPEST: usize = 6;
/// The longest text inside a body that is looked at as JSON.
const LONGEST_JSON: usize = 64 << 10;

/// Where the error itself stands in what is around it, in the order of looking.
const INSIDE: &[&str] =
    &["error", "response", "errors", "lastError", "cause", "responseBody", "body", "data"];
/// Where an error says what it is about.
const DETAILS: &[&str] = &["details", "metadata", "innererror", "inner_error"];

impl Failure {
    /// What the body of an answer with an error status says. Anything is taken: what cannot be read is the message.
    pub fn from_body(body: &[u8]) -> Self {
        match serde_json::from_slice::<Value>(body) {
            Ok(json) => Self::from_json(&json),
            Err(_) => Found::of_text(plain(&String::from_utf8_lossy(body))).failure(Vec::new()),
        }
    }

    /// What a body, or the data of an event, says as JSON.
    pub fn from_json(body: &Value) -> Self {
        let mut reading = Reading::default();
        let found = reading.value(body, 0).unwrap_or_else(|| Found::of_text(body.to_string()));
        found.failure(reading.details.words)
    }

    /// The failure inside an answer whose status says that all is well, if there is one: `body` is the whole body or
    /// the data of one event.
    pub fn inside_success(body: &Value) -> Option<Self> {
        is_error(body).then(|| Self::from_json(body))
    }
}

/// What one object says.
#[derive(Clone, Default)]
struct Found {
    status: Option<u16>,
    code: Option<String>,
    kind: Option<String>,
    param: Option<String>,
    message: String,
    provider: Option<String>,
    limit: Option<u64>,
    size: Option<u64>,
}

impl Found {
    fn of_text(message: String) -> Self {
        Self { message, ..Self::default() }
    }

    fn failure(self, details: Vec<String>) -> Failure {
        let Self { status, code, kind, param, message, provider, limit, size } = self;
        let told = window::read(&message);
        let facts = BodyFacts { param, details, provider, limit: limit.or(told.0), size: size.or(told.1) };
        let facts = (facts != BodyFacts::default()).then(|| Box::new(facts));
        Failure { status, code, kind, message, facts, ..Failure::default() }
    }
}

/// Whether a body says that it is an error, whatever its status.
fn is_error(body: &Value) -> bool {
    match body {
        Value::Array(items) => {
            items.iter().any(|item| item.get("error").is_some_and(|error| !is_blank(error)))
        }
        Value::Object(fields) => {
            let says = |key: &str, word: &str| fields.get(key).is_some_and(|value| value == word);
            let failed = || {
                let response = fields.get("response");
                response.and_then(|response| response.get("error")).is_some_and(|error| !is_blank(error))
            };
            fields.get("error").is_some_and(|error| !is_blank(error))
                || says("object", "error")
                || says("type", "error")
                || failed()
                || odd(fields).is_some()
        }
        _ => false,
    }
}

fn is_blank(value: &Value) -> bool {
    matches!(value, Value::Null | Value::Bool(false))
}

/// An error whose key is its text: `{"error parsing tool call": "..."}`.
fn odd(fields: &Map<String, Value>) -> Option<(&str, &str)> {
    let (key, value) = fields.iter().next().filter(|_| fields.len() == 1)?;
    Some((key.as_str(), value.as_str()?)).filter(|(key, _)| key.starts_with("error "))
}

/// What is found on the way in.
#[derive(Default)]
struct Reading {
    details: Details,
}

impl Reading {
    fn value(&mut self, value: &Value, depth: usize) -> Option<Found> {
        if depth > DEEPEST {
            return value.as_str().map(|text| Found::of_text(text.to_owned()));
        }
        let deeper = depth.saturating_add(1);
        match value {
            Value::Array(items) => {
                let told = items.iter().find(|item| is_error(item)).or_else(|| items.first())?;
                self.value(told, deeper)
            }
            Value::String(text) => match embedded(text) {
                Some(json) => self.value(&json, deeper),
                None => Some(Found::of_text(text.clone())),
            },
            Value::Object(fields) => Some(self.object(fields, deeper)),
            Value::Null | Value::Bool(_) | Value::Number(_) => None,
        }
    }

    fn object(&mut self, fields: &Map<String, Value>, depth: usize) -> Found {
        if let Some((key, text)) = odd(fields) {
            return Found::of_text(format!("{key}: {text}"));
        }
        for key in DETAILS {
            if let Some(details) = fields.get(*key) {
                self.detail(details);
            }
        }
        let mut own = own(fields);
        if let Some(json) = embedded(&own.message) {
            own.message.clear();
            return self.value(&json, depth).map_or(own.clone(), |inner| around(own, inner, false));
        }
        let inside = INSIDE.iter().find_map(|key| {
            let value = fields.get(*key).filter(|value| !is_blank(value))?;
            // A list of plain values, and a body that is no error, tell nothing.
            let told = *key == "error" || value.is_object() || value.is_array() || is_json(value);
            self.value(value, depth).filter(|_| told)
        });
        let raw = fields.get("metadata").and_then(|metadata| metadata.get("raw"));
        let upstream = raw.filter(|raw| !is_empty(raw)).and_then(|raw| self.value(raw, depth));
        match (inside, upstream) {
            (Some(inner), _) => around(own, inner, fields.contains_key("error")),
            (None, Some(upstream)) => around(own, upstream, false),
            (None, None) => own,
        }
    }

    fn detail(&mut self, details: &Value) {
        match details {
            Value::Object(fields) => {
                // What the provider itself said is an error of its own; its name is no detail.
                for (key, value) in fields {
                    if !matches!(key.as_str(), "raw" | "provider_name" | "headers") {
                        self.details.take(value);
                    }
                }
            }
            Value::Array(_) | Value::String(_) => self.details.take(details),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
}

/// What an object says by itself.
fn own(fields: &Map<String, Value>) -> Found {
    let code = word(fields, &["code"]);
    let mut message =
        text(fields, &["message", "Message", "detail", "error_message", "error_description", "msg"]);
    if message.is_empty() {
        let rest =
            ["errors", "detail"].iter().find_map(|key| fields.get(*key).filter(|rest| rest.is_array()));
        message = rest.map(Value::to_string).unwrap_or_default();
    }
    let status = ["status", "statusCode", "status_code", "raw_status_code", "code"]
        .iter()
        .find_map(|key| status(fields.get(*key)?));
    // `type: error` only says that this is an error; `object` never says more.
    let kind = ["type", "status", "__type"].iter().map(|key| text(fields, &[key]));
    let kind = kind.into_iter().find(|kind| !kind.is_empty() && kind != "error");
    let provider = fields.get("metadata").and_then(|metadata| metadata.get("provider_name"));
    Found {
        status,
        code,
        kind: kind.filter(|kind| !is_event(kind)),
        param: Some(text(fields, &["param"])).filter(|param| !param.is_empty()),
        message,
        provider: provider.and_then(Value::as_str).map(str::to_owned),
        limit: fields.get("n_ctx").and_then(Value::as_u64),
        size: fields.get("n_prompt_tokens").and_then(Value::as_u64),
    }
}

/// Whether the type is that of an event, `response.failed`, and not of an error.
fn is_event(kind: &str) -> bool {
    kind.starts_with("response.")
}

/// An error in what is around it. The inner one tells more exactly what happened; what it leaves open, the outer
/// one tells.
fn around(outer: Found, inner: Found, wrapper: bool) -> Found {
    let same = outer.message.is_empty() || outer.message == inner.message;
    let message = match (same, inner.message.is_empty()) {
        (true, _) => inner.message,
        (false, true) => outer.message,
        // `{"error": "denied", "message": "no such project"}`: what is around explains what is inside.
        (false, false) if wrapper => format!("{}: {}", inner.message, outer.message),
        (false, false) => format!("{}: {}", outer.message, inner.message),
    };
    let numeric = |code: &Option<String>| code.as_ref().is_some_and(|code| code.parse::<u16>().is_ok());
    let code = if numeric(&inner.code) && outer.code.is_some() && !numeric(&outer.code) {
        outer.code
    } else {
        inner.code.or(outer.code)
    };
    Found {
        status: outer.status.or(inner.status),
        code,
        kind: inner.kind.or(outer.kind),
        param: inner.param.or(outer.param),
        message,
        provider: inner.provider.or(outer.provider),
        limit: inner.limit.or(outer.limit),
        size: inner.size.or(outer.size),
    }
}

/// JSON inside a text, if it is one that may hold an error.
fn embedded(text: &str) -> Option<Value> {
    let text = text.trim();
    let looks = text.len() <= LONGEST_JSON && (text.starts_with('{') || text.starts_with('['));
    let json = looks.then(|| serde_json::from_str::<Value>(text).ok()).flatten();
    json.filter(|json| match json {
        Value::Array(items) => items.iter().any(is_error),
        Value::Object(fields) => !fields.is_empty(),
        _ => false,
    })
}

fn is_json(value: &Value) -> bool {
    value.as_str().is_some_and(|text| embedded(text).is_some())
}

fn is_empty(value: &Value) -> bool {
    is_blank(value) || value.as_str().is_some_and(str::is_empty)
}

/// An HTTP status that is an error's, written as a number or as digits.
fn status(value: &Value) -> Option<u16> {
    let number = match value {
        Value::Number(number) => u16::try_from(number.as_u64()?).ok()?,
        Value::String(text) if text.len() == 3 && text.bytes().all(|b| b.is_ascii_digit()) => {
            text.parse().ok()?
        }
        _ => return None,
    };
    (400..600).contains(&number).then_some(number)
}

/// The first of `keys` that holds a text or a number.
fn word(fields: &Map<String, Value>, keys: &[&str]) -> Option<String> {
    keys.iter().find_map(|key| match fields.get(*key)? {
        Value::String(text) if !text.is_empty() => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    })
}

/// The first of `keys` that holds a text.
fn text(fields: &Map<String, Value>, keys: &[&str]) -> String {
    let found = keys.iter().find_map(|key| fields.get(*key)?.as_str().filter(|text| !text.is_empty()));
    found.unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests;
