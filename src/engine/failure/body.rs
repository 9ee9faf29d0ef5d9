//! Bodies of errors, read into facts.
//!
//! Providers write errors nested (`{"error": {…}}`), flat, as a text, in an array, as plain text or as a page of
//! HTML; they wrap the cause of an error, and routers put what the provider itself said into a text that is JSON
//! again. All are read; which class of error it is, the policy's table decides.

use serde_json::Value;

use super::details::Details;
use super::inside::Inside;
use super::json::{Json, Node, Shape};
use super::plain::plain;
use super::{BodyFacts, Failure, window};

/// How often an error may stand inside another one.
const DEEPEST: usize = 6;

/// Where the error itself stands in what is around it, in the order of looking.
const INSIDE: &[&str] =
    &["error", "response", "errors", "lastError", "cause", "responseBody", "body", "data", "base_resp"];
/// What only answers have, and events of a stream.
const ANSWERS: &[&str] = &["choices", "content", "type", "delta", "usage"];
/// Where an error says what it is about.
const DETAILS: &[&str] = &["details", "metadata", "innererror", "inner_error"];
/// What is no error though it may look like one: what was asked for, given back, and what stands elsewhere.
const NO_ERRORS: &[&str] =
    &["input", "ctx", "request", "headers", "usage", "choices", "message", "content", "messages"];
/// What an object has that is an error under another name.
const TELLS: &[&str] = &["message", "error", "code", "body", "responseBody"];

impl Failure {
    /// What the body of an answer with an error status says. Anything is taken: what cannot be read is the message.
    pub fn from_body(body: &[u8]) -> Self {
        Self::from_read(body, Json::read(body).as_ref())
    }

    /// What a body, or the data of an event, says as JSON.
    pub fn from_json(body: &Value) -> Self {
        Self::from_node(body)
    }

    /// As [`Self::from_body`], for a body that has been read as JSON, if it is some.
    pub(in crate::engine) fn from_read(body: &[u8], json: Option<&Json<'_>>) -> Self {
        let text = || match core::str::from_utf8(body) {
            Ok(body) => plain(body),
            Err(_) => plain(&String::from_utf8_lossy(body)),
        };
        match json {
            Some(json) => Self::from_node(json),
            None => Self::from_node(&Json::Text(text().into())),
        }
    }

    fn from_node(body: &impl Node) -> Self {
        let mut reading = Reading::default();
        let found = reading.value(body, 0).unwrap_or_else(|| Found::of_text(body.written()));
        found.failure(reading.details.words)
    }

    /// The failure inside an answer whose status says that all is well, if there is one: `body` is the whole body or
    /// the data of one event.
    pub fn inside_success(body: &Value) -> Option<Self> {
        let failed = is_error(body) || failed_choice(body).is_some() || is_no_answer(body);
        failed.then(|| Self::from_json(body))
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
pub(super) fn is_error(body: &impl Node) -> bool {
    match body.shape() {
        Shape::List(items) => items.iter().any(has_error),
        Shape::Object => {
            let says = |key: &str| body.get(key).and_then(Node::text) == Some("error");
            has_error(body)
                || says("object")
                || says("type")
                || body.get("response").is_some_and(has_error)
                || body.get("base_resp").is_some_and(refused)
                || odd(body).is_some()
        }
        _ => false,
    }
}

fn has_error(value: &impl Node) -> bool {
    value.get("error").is_some_and(|error| !error.is_blank())
}

/// Whether `MiniMax` says that it failed: beside an answer the number is 0.
fn refused(base: &impl Node) -> bool {
    base.get("status_code").and_then(count).is_some_and(|number| number != 0)
}

/// The choice that failed: routers put the error beside the part of the answer that came.
fn failed_choice<N: Node>(body: &N) -> Option<&N> {
    match body.get("choices")?.shape() {
        Shape::List(items) => items.iter().find(|choice| has_error(*choice)),
        _ => None,
    }
}

/// Whether an object has nothing of an answer, and what only errors have.
fn is_no_answer(body: &impl Node) -> bool {
    if ANSWERS.iter().any(|key| body.get(key).is_some()) {
        return false;
    }
    let refused = body.get("success").is_some_and(|value| matches!(value.shape(), Shape::Bool(false)));
    let says = |key: &str| {
        body.get(key).is_some_and(|value| match value.shape() {
            Shape::Text(text) => !text.is_empty(),
            Shape::List(items) => !items.is_empty(),
            _ => false,
        })
    };
    // Some servers say `{"code": 0, "msg": "success"}` beside what they answer.
    let numbered = ["code", "error_code", "errcode"].iter().filter_map(|key| count(body.get(key)?));
    let failed = || numbered.clone().any(|number| !matches!(number, 0 | 200));
    let texts = ["error_msg", "errmsg", "msg"];
    refused
        || ["message", "detail", "errors"].iter().any(|key| says(key))
        || (texts.iter().any(|key| says(key)) && failed())
}

/// An error whose key is its text: `{"error parsing tool call": "..."}`.
fn odd(object: &impl Node) -> Option<(&str, &str)> {
    let mut fields = object.fields();
    let (key, value) = fields.next().filter(|(key, _)| key.starts_with("error "))?;
    let text = value.text()?;
    fields.next().is_none().then_some((key, text))
}

/// What is found on the way in.
#[derive(Default)]
struct Reading {
    details: Details,
}

impl Reading {
    fn value(&mut self, value: &impl Node, depth: usize) -> Option<Found> {
        if depth > DEEPEST {
            return value.text().map(|text| Found::of_text(text.to_owned()));
        }
        let deeper = depth.saturating_add(1);
        match value.shape() {
            Shape::List(items) => {
                let told = items.iter().find(|item| is_error(*item)).or_else(|| items.first())?;
                self.value(told, deeper)
            }
            Shape::Text(text) => match Inside::find(text) {
                Some(inside) => self.inside(inside, Found::default(), deeper),
                None => Some(Found::of_text(text.to_owned())),
            },
            Shape::Object => match failed_choice(value).filter(|_| !is_error(value)) {
                Some(choice) => self.value(choice, deeper),
                None => Some(self.object(value, deeper)),
            },
            Shape::Null | Shape::Bool(_) | Shape::Number(_) => None,
        }
    }

    fn object(&mut self, object: &impl Node, depth: usize) -> Found {
        if let Some((key, text)) = odd(object) {
            return Found::of_text(format!("{key}: {text}"));
        }
        for key in DETAILS {
            if let Some(details) = object.get(key) {
                self.detail(details);
            }
        }
        let mut own = own(object);
        let message = core::mem::take(&mut own.message);
        if let Some(inside) = Inside::find(&message) {
            let said = self.inside(inside, own.clone(), depth);
            return said.unwrap_or(own);
        }
        own.message = message;
        let inside = INSIDE.iter().find_map(|key| {
            let value = object.get(key).filter(|value| !value.is_blank())?;
            // A list of plain values, and a body that is no error, tell nothing.
            let told = *key == "error"
                || matches!(value.shape(), Shape::Object | Shape::List(_))
                || value.text().is_some_and(|text| Inside::find(text).is_some());
            self.value(value, depth).filter(|_| told)
        });
        let inside = inside.or_else(|| self.elsewhere(object, depth));
        let raw = object.get("metadata").and_then(|metadata| metadata.get("raw"));
        let upstream = raw.filter(|raw| !is_empty(*raw)).and_then(|raw| self.value(raw, depth));
        match (inside, upstream) {
            (Some(inner), _) => around(own, inner, object.get("error").is_some()),
            (None, Some(upstream)) => around(own, upstream, false),
            (None, None) => own,
        }
    }

    /// What a field says that holds an error under a name of its own: `external_model_error`, `param`.
    fn elsewhere(&mut self, object: &impl Node, depth: usize) -> Option<Found> {
        let names_error = |value: &_| has_any(value, TELLS);
        let known = |key: &str| [INSIDE, DETAILS, NO_ERRORS].iter().any(|keys| keys.contains(&key));
        let mut fields = object.fields();
        let (_, error) = fields.find(|(key, value)| !known(key) && names_error(*value))?;
        self.value(error, depth)
    }

    /// What an error inside a text says, with the words around it.
    fn inside(
        &mut self,
        Inside { before, json, after }: Inside<'_>,
        own: Found,
        depth: usize,
    ) -> Option<Found> {
        let mut inner = self.value(&json, depth)?;
        if !after.is_empty() {
            let apart = if inner.message.is_empty() { "" } else { " " };
            inner.message = format!("{}{apart}{after}", inner.message);
        }
        Some(around(Found { message: before.to_owned(), ..own }, inner, false))
    }

    fn detail(&mut self, details: &impl Node) {
        match details.shape() {
            Shape::Object => {
                // What the provider itself said is an error of its own; its name is no detail.
                for (key, value) in details.fields() {
                    if !matches!(key, "raw" | "provider_name" | "headers") {
                        self.details.take(value);
                    }
                }
            }
            Shape::List(_) | Shape::Text(_) => self.details.take(details),
            Shape::Null | Shape::Bool(_) | Shape::Number(_) => {}
        }
    }
}

/// What an object says by itself.
fn own(object: &impl Node) -> Found {
    let mut message = text(
        object,
        &[
            "message",
            "Message",
            "detail",
            "error_message",
            "error_description",
            "msg",
            "error_msg",
            "errmsg",
            "status_msg",
        ],
    );
    if message.is_empty() {
        let rest = ["errors", "detail"].iter().find_map(|key| object.get(key).filter(|rest| is_list(*rest)));
        message = rest.map(listed).unwrap_or_default();
    }
    let status = ["status", "statusCode", "status_code", "raw_status_code", "code"]
        .iter()
        .find_map(|key| status(object.get(key)?));
    // `type: error` only says that this is an error; `object` never says more.
    let kind = ["type", "status", "__type", "error_type"].iter().map(|key| text(object, &[key]));
    let kind = kind.into_iter().find(|kind| !kind.is_empty() && kind != "error");
    let provider = object.get("metadata").and_then(|metadata| metadata.get("provider_name"));
    // MiniMax numbers its errors beside a text of its own; elsewhere the same numbers mean something else.
    let minimax = object.get("status_msg").and(object.get("status_code"));
    let named = ["code", "error_code", "errcode"].iter().find_map(|key| object.get(key).and_then(word));
    Found {
        status,
        code: minimax.and_then(word).or(named),
        kind: kind.filter(|kind| !is_event(kind)),
        param: Some(text(object, &["param"])).filter(|param| !param.is_empty()),
        message,
        provider: provider.and_then(Node::text).or(minimax.map(|_| "minimax")).map(str::to_owned),
        limit: object.get("n_ctx").and_then(count),
        size: object.get("n_prompt_tokens").and_then(count),
    }
}

/// A list of what is wrong, written. What pydantic quotes of the request is left out: it may speak of anything.
fn listed(list: &impl Node) -> String {
    let Shape::List(items) = list.shape() else { return list.written() };
    if !items.iter().any(|item| item.get("msg").is_some() && item.get("input").is_some()) {
        return list.written();
    }
    let told = |item| {
        let of = |key: &str| Node::get(item, key).map(Node::written).unwrap_or_default();
        format!("{} {}: {}", of("type"), of("loc"), of("msg"))
    };
    items.iter().map(told).collect::<Vec<_>>().join("; ")
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

fn has_any(value: &impl Node, keys: &[&str]) -> bool {
    matches!(value.shape(), Shape::Object) && keys.iter().any(|key| value.get(key).is_some())
}

fn is_list(value: &impl Node) -> bool {
    matches!(value.shape(), Shape::List(_))
}

fn is_empty(value: &impl Node) -> bool {
    value.is_blank() || value.text().is_some_and(str::is_empty)
}

/// An HTTP status that is an error's, written as a number or as digits.
fn status(value: &impl Node) -> Option<u16> {
    let number = match value.shape() {
        Shape::Number(number) => u16::try_from(number.as_u64()?).ok()?,
        Shape::Text(text) if text.len() == 3 && text.bytes().all(|b| b.is_ascii_digit()) => {
            text.parse().ok()?
        }
        _ => return None,
    };
    (400..600).contains(&number).then_some(number)
}

fn count(value: &impl Node) -> Option<u64> {
    match value.shape() {
        Shape::Number(number) => number.as_u64(),
        _ => None,
    }
}

/// A text or a number.
fn word(value: &impl Node) -> Option<String> {
    match value.shape() {
        Shape::Text(text) if !text.is_empty() => Some(text.to_owned()),
        Shape::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// The first of `keys` that holds a text.
fn text(object: &impl Node, keys: &[&str]) -> String {
    let found = keys.iter().find_map(|key| object.get(key)?.text().filter(|text| !text.is_empty()));
    found.unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests;
