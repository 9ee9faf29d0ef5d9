//! Reads facts from the bodies of error responses.
//!
//! Providers write errors nested (`{"error": {…}}`), flat, as a string, in an array, as plain text or as an HTML
//! page. They wrap the cause of an error, and routers put the upstream's error into a string that is JSON again. All
//! forms are read; the policy's error table determines the class.

use serde_json::Value;

use super::details::ErrorDetails;
use super::inside::EmbeddedError;
use super::json::{JsonNode, LazyJson, NodeShape};
use super::plain::plain;
use super::signs::{failed_choice, is_error, is_no_answer, odd};
use super::{BodyFacts, Failure, window};

/// The maximum number of errors nested in each other.
// ai-agent unwraps four levels; without a limit, quotes within quotes would determine the stack depth.
const DEEPEST: usize = 6;

/// The fields of an envelope that may contain the error, in search order.
// SDKs wrap errors in `lastError`, `cause`, `errors` and `responseBody`; the others come from providers and routers.
const INSIDE: &[&str] =
    &["error", "response", "errors", "lastError", "cause", "responseBody", "body", "data", "base_resp"];
/// The fields with details of an error.
const DETAILS: &[&str] = &["details", "metadata", "innererror", "inner_error"];
/// Fields that may look like an error but are not one: the repeated request, and fields that are read elsewhere.
// Servers repeat the request: an "error" in it is the user's text, not the failure.
const NO_ERRORS: &[&str] =
    &["input", "ctx", "request", "headers", "usage", "choices", "message", "content", "messages"];
/// The fields that show that an object under another name is an error.
const TELLS: &[&str] = &["message", "error", "code", "body", "responseBody"];

impl Failure {
    /// Reads the body of a response with an error status. A body that cannot be read becomes the message.
    pub fn from_body(body: &[u8]) -> Self {
        Self::from_read(body, LazyJson::read(body).as_ref())
    }

    /// Reads a JSON body, or the JSON data of a stream event.
    pub fn from_json(body: &Value) -> Self {
        Self::from_node(body)
    }

    /// Like [`Self::from_body`], for a body already read; `json` is `None` if it is not JSON.
    pub(in crate::engine) fn from_read(body: &[u8], json: Option<&LazyJson<'_>>) -> Self {
        let text = || match core::str::from_utf8(body) {
            Ok(body) => plain(body),
            Err(_) => plain(&String::from_utf8_lossy(body)),
        };
        match json {
            Some(json) => Self::from_node(json),
            None => Self::from_node(&LazyJson::Text(text().into())),
        }
    }

    fn from_node(body: &impl JsonNode) -> Self {
        let mut reading = BodyReading::default();
        // A body without known fields is shown as it is: some text is better for people than none.
        let found = reading.value(body, 0).unwrap_or_else(|| FoundFacts::of_text(body.written()));
        found.failure(reading.details.words)
    }

    /// The failure inside a response with a success status, if there is one: `body` is the whole body or the data of
    /// one event.
    pub fn inside_success(body: &Value) -> Option<Self> {
        let failed = is_error(body) || failed_choice(body).is_some() || is_no_answer(body);
        failed.then(|| Self::from_json(body))
    }
}

/// The facts read from one object.
#[derive(Clone, Default)]
struct FoundFacts {
    status: Option<u16>,
    code: Option<String>,
    kind: Option<String>,
    param: Option<String>,
    message: String,
    provider: Option<String>,
    limit: Option<u64>,
    size: Option<u64>,
}

impl FoundFacts {
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

/// The facts collected during the descent.
#[derive(Default)]
struct BodyReading {
    details: ErrorDetails,
}

impl BodyReading {
    fn value(&mut self, value: &impl JsonNode, depth: usize) -> Option<FoundFacts> {
        // No router nests this deep, so the text only looks like an error.
        if depth > DEEPEST {
            return value.text().map(|text| FoundFacts::of_text(text.to_owned()));
        }
        let deeper = depth.saturating_add(1);
        match value.shape() {
            NodeShape::List(items) => {
                // Of several items the first marked as an error is read: a list may contain warnings as well.
                let told = items.iter().find(|item| is_error(*item)).or_else(|| items.first())?;
                self.value(told, deeper)
            }
            NodeShape::Text(text) => match EmbeddedError::find(text) {
                Some(inside) => self.inside(inside, FoundFacts::default(), deeper),
                None => Some(FoundFacts::of_text(text.to_owned())),
            },
            NodeShape::Object => match failed_choice(value).filter(|_| !is_error(value)) {
                Some(choice) => self.value(choice, deeper),
                None => Some(self.object(value, deeper)),
            },
            NodeShape::Null | NodeShape::Bool(_) | NodeShape::Number(_) => None,
        }
    }

    fn object(&mut self, object: &impl JsonNode, depth: usize) -> FoundFacts {
        // The key names the failure, the value its subject: both belong to the message.
        if let Some((key, text)) = odd(object) {
            return FoundFacts::of_text(format!("{key}: {text}"));
        }
        for key in DETAILS {
            if let Some(details) = object.get(key) {
                self.detail(details);
            }
        }
        let mut own = own(object);
        let message = core::mem::take(&mut own.message);
        // LiteLLM and SDKs put the provider's JSON into their own message. The tables describe the inner error.
        if let Some(inside) = EmbeddedError::find(&message) {
            let said = self.inside(inside, own.clone(), depth);
            return said.unwrap_or(own);
        }
        own.message = message;
        let inside = INSIDE.iter().find_map(|key| {
            let value = object.get(key).filter(|value| !value.is_blank())?;
            // Lists of plain values, and bodies without an error, say nothing about this error.
            let told = *key == "error"
                || matches!(value.shape(), NodeShape::Object | NodeShape::List(_))
                || value.text().is_some_and(|text| EmbeddedError::find(text).is_some());
            self.value(value, depth).filter(|_| told)
        });
        let inside = inside.or_else(|| self.elsewhere(object, depth));
        // OpenRouter: `metadata.raw` contains the upstream's body as a string.
        let raw = object.get("metadata").and_then(|metadata| metadata.get("raw"));
        let upstream = raw.filter(|raw| !is_empty(*raw)).and_then(|raw| self.value(raw, depth));
        match (inside, upstream) {
            // The outer object is a summary, the inner one is the cause; the inner code decides.
            (Some(inner), _) => around(own, inner, object.get("error").is_some()),
            (None, Some(upstream)) => around(own, upstream, false),
            (None, None) => own,
        }
    }

    /// The facts of a field that contains an error under a provider's own name: `external_model_error`, `param`.
    fn elsewhere(&mut self, object: &impl JsonNode, depth: usize) -> Option<FoundFacts> {
        let names_error = |value: &_| has_any(value, TELLS);
        let known = |key: &str| [INSIDE, DETAILS, NO_ERRORS].iter().any(|keys| keys.contains(&key));
        let mut fields = object.fields();
        let (_, error) = fields.find(|(key, value)| !known(key) && names_error(*value))?;
        self.value(error, depth)
    }

    /// The facts of an error inside a string, with the words around it.
    fn inside(
        &mut self,
        EmbeddedError { before, json, after }: EmbeddedError<'_>,
        own: FoundFacts,
        depth: usize,
    ) -> Option<FoundFacts> {
        let mut inner = self.value(&json, depth)?;
        if !after.is_empty() {
            let apart = if inner.message.is_empty() { "" } else { " " };
            inner.message = format!("{}{apart}{after}", inner.message);
        }
        Some(around(FoundFacts { message: before.to_owned(), ..own }, inner, false))
    }

    fn detail(&mut self, details: &impl JsonNode) {
        match details.shape() {
            NodeShape::Object => {
                // The upstream's error is read as a separate error, and the provider's name has its own field;
                // neither is a detail.
                for (key, value) in details.fields() {
                    if !matches!(key, "raw" | "provider_name" | "headers") {
                        self.details.take(value);
                    }
                }
            }
            NodeShape::List(_) | NodeShape::Text(_) => self.details.take(details),
            NodeShape::Null | NodeShape::Bool(_) | NodeShape::Number(_) => {}
        }
    }
}

/// The facts of an object without the objects inside it.
fn own(object: &impl JsonNode) -> FoundFacts {
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
        // Mistral has FastAPI's list inside of the message.
        let within = || object.get("message").and_then(listed_in);
        message = listed_in(object).or_else(within).unwrap_or_default();
    }
    // The order matters: `code` is a status with some servers and a word with others.
    let status = ["status", "statusCode", "status_code", "raw_status_code", "code"]
        .iter()
        .find_map(|key| status(object.get(key)?));
    // `type: error` only repeats that this is an error, and `object` never adds a fact.
    let kind = ["type", "status", "__type", "error_type"].iter().map(|key| text(object, &[key]));
    let kind = kind.into_iter().find(|kind| !kind.is_empty() && kind != "error");
    let provider = object.get("metadata").and_then(|metadata| metadata.get("provider_name"));
    // MiniMax puts its error number next to its own text field; the same numbers have other meanings elsewhere.
    let minimax = object.get("status_msg").and(object.get("status_code"));
    let named = ["code", "error_code", "errcode"].iter().find_map(|key| object.get(key).and_then(word));
    FoundFacts {
        status,
        code: minimax.and_then(word).or(named),
        // `response.failed` is the type of the event (OpenAI Responses), not of the error.
        kind: kind.filter(|kind| !is_event(kind)),
        param: Some(text(object, &["param"])).filter(|param| !param.is_empty()),
        message,
        provider: provider.and_then(JsonNode::text).or(minimax.map(|_| "minimax")).map(str::to_owned),
        limit: object.get("n_ctx").and_then(JsonNode::count),
        size: object.get("n_prompt_tokens").and_then(JsonNode::count),
    }
}

/// The errors that an object lists, as text.
fn listed_in(object: &impl JsonNode) -> Option<String> {
    ["errors", "detail"].iter().find_map(|key| object.get(key).filter(|rest| is_list(*rest)).map(listed))
}

/// A list of errors as text. Parts of the request that pydantic quotes are left out, as they may contain any words.
fn listed(list: &impl JsonNode) -> String {
    let NodeShape::List(items) = list.shape() else { return list.written() };
    // FastAPI servers such as vLLM send pydantic errors, which quote the request. Words of the request would be
    // classified.
    if !items.iter().any(|item| item.get("msg").is_some() && item.get("input").is_some()) {
        return list.written();
    }
    let told = |item| {
        let of = |key: &str| JsonNode::get(item, key).map(JsonNode::written).unwrap_or_default();
        format!("{} {}: {}", of("type"), of("loc"), of("msg"))
    };
    items.iter().map(told).collect::<Vec<_>>().join("; ")
}

/// Whether the type is that of an event, `response.failed`, and not of an error.
fn is_event(kind: &str) -> bool {
    kind.starts_with("response.")
}

/// Merges an outer error with the error inside it. The inner facts are more exact; the outer ones fill the gaps.
fn around(outer: FoundFacts, inner: FoundFacts, wrapper: bool) -> FoundFacts {
    let same = outer.message.is_empty() || outer.message == inner.message;
    let message = match (same, inner.message.is_empty()) {
        (true, _) => inner.message,
        (false, true) => outer.message,
        // `{"error": "denied", "message": "no such project"}`: the outer text explains the inner one.
        (false, false) if wrapper => format!("{}: {}", inner.message, outer.message),
        (false, false) => format!("{}: {}", outer.message, inner.message),
    };
    let numeric = |code: &Option<String>| code.as_ref().is_some_and(|code| code.parse::<u16>().is_ok());
    // The number of a router says less than the provider's word, so the word is kept.
    let code = if numeric(&inner.code) && outer.code.is_some() && !numeric(&outer.code) {
        outer.code
    } else {
        inner.code.or(outer.code)
    };
    FoundFacts {
        // The outer status comes from the server itself; the inner one may come from another hop.
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

fn has_any(value: &impl JsonNode, keys: &[&str]) -> bool {
    matches!(value.shape(), NodeShape::Object) && keys.iter().any(|key| value.get(key).is_some())
}

fn is_list(value: &impl JsonNode) -> bool {
    matches!(value.shape(), NodeShape::List(_))
}

fn is_empty(value: &impl JsonNode) -> bool {
    value.is_blank() || value.text().is_some_and(str::is_empty)
}

/// An HTTP error status, written as a number or as digits.
fn status(value: &impl JsonNode) -> Option<u16> {
    let number = match value.shape() {
        NodeShape::Number(number) => u16::try_from(number.as_u64()?).ok()?,
        NodeShape::Text(text) if text.len() == 3 && text.bytes().all(|b| b.is_ascii_digit()) => {
            text.parse().ok()?
        }
        _ => return None,
    };
    // Numbers outside this range are counts or the server's own codes.
    (400..600).contains(&number).then_some(number)
}

/// A text or a number.
fn word(value: &impl JsonNode) -> Option<String> {
    match value.shape() {
        NodeShape::Text(text) if !text.is_empty() => Some(text.to_owned()),
        NodeShape::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// The first of `keys` that holds a text.
fn text(object: &impl JsonNode, keys: &[&str]) -> String {
    let found = keys.iter().find_map(|key| object.get(key)?.text().filter(|text| !text.is_empty()));
    found.unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests;
