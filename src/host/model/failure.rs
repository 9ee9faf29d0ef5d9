//! Failures of a model call as facts: what the status, the headers and the body say, and nothing made of it.
//!
//! Providers write errors nested (`{"error": {…}}`), flat, as a text, in an array, as plain text or as a page of
//! HTML. All are read; which class of error it is, the policy's table decides.

use reqwest::StatusCode;
use reqwest::header::HeaderMap;
use serde_json::{Map, Value};

use super::retry_after;
use crate::engine::{Failure, Hint};
use crate::policy::ErrorClass;

/// The most characters of a message that are kept.
const MAX_MESSAGE: usize = 2000;

/// The failure a response with an error status stands for.
pub(crate) fn from_status(status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Failure {
    let mut failure = match serde_json::from_slice::<Value>(body) {
        Ok(json) => from_json(&json).unwrap_or_else(|| of_message(json.to_string())),
        Err(_) => of_message(plain(&String::from_utf8_lossy(body))),
    };
    failure.class = None;
    failure.status = Some(status.as_u16());
    if failure.message.is_empty() {
        failure.message = reason(status);
        if let Some(location) = headers.get(reqwest::header::LOCATION).filter(|_| status.is_redirection()) {
            let location = String::from_utf8_lossy(location.as_bytes());
            failure.message = format!(
                "{} to {location}; redirects are not followed, correct the base_url",
                failure.message
            );
        }
    }
    failure.retry_after = hint(headers);
    failure
}

/// The failure inside a response whose status says that all is well, if there is one: `value` is the whole body
/// or the data of one event. Its class is left open if a code or a type tells more.
pub(crate) fn inside_success(value: &Value, headers: &HeaderMap) -> Option<Failure> {
    let flat = || value.get("object").is_some_and(|object| object == "error");
    let named = || value.get("type").is_some_and(|kind| kind == "error");
    let nested = value.get("error").is_some_and(|error| !error.is_null());
    let listed = value.as_array().is_some_and(|list| list.iter().any(|item| item.get("error").is_some()));
    if nested || listed || flat() || named() { Some(event(value, headers)) } else { None }
}

/// The failure an event named `error` stands for.
pub(crate) fn event(value: &Value, headers: &HeaderMap) -> Failure {
    let mut failure = from_json(value).unwrap_or_else(|| of_message(value.to_string()));
    if failure.code.is_none() && failure.kind.is_none() {
        failure.class = Some(ErrorClass::ModelError);
    }
    if failure.message.is_empty() {
        "the answer is an error without a message".clone_into(&mut failure.message);
    }
    failure.retry_after = hint(headers);
    failure
}

/// An answer that cannot be read.
pub(crate) fn unreadable(what: impl Into<String>) -> Failure {
    Failure::of(ErrorClass::ModelError, what)
}

/// An answer that stops before its end.
pub(crate) fn cut_off(what: impl Into<String>) -> Failure {
    Failure::of(ErrorClass::NetworkError, what)
}

/// Text as messages hold it: no control characters, bounded, blank space at the ends gone.
pub(crate) fn presentable(text: &str) -> String {
    let mut chars = text.chars().map(|c| if c.is_control() && c != '\n' { ' ' } else { c });
    let mut short: String = chars.by_ref().skip_while(|c| c.is_whitespace()).take(MAX_MESSAGE).collect();
    if chars.any(|c| !c.is_whitespace()) {
        short.pop();
        short.push('…');
    }
    short.truncate(short.trim_end().len());
    short
}

/// What a body that is no JSON says: the text itself; of a page of HTML the title, or what is left without tags.
pub(crate) fn plain(body: &str) -> String {
    let body = body.trim();
    if !body.starts_with('<') {
        return body.to_owned();
    }
    let title = body.find("<title>").and_then(|at| {
        let rest = body.get(at + "<title>".len()..)?;
        rest.get(..rest.find('<')?)
    });
    let text = title.map_or_else(|| without_tags(body), str::to_owned);
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn from_json(value: &Value) -> Option<Failure> {
    match value {
        Value::Array(list) => list.iter().find_map(from_json),
        Value::String(text) => Some(of_message(text.clone())),
        Value::Object(object) => Some(from_object(object)),
        _ => None,
    }
}

fn from_object(object: &Map<String, Value>) -> Failure {
    let inner = match object.get("error") {
        Some(Value::Object(inner)) => inner,
        Some(Value::String(text)) => {
            let more = word(object, &["message", "error_description"]);
            let message = more.map_or_else(|| text.clone(), |more| format!("{text}: {more}"));
            return Failure { code: word(object, &["code"]), message, ..Failure::default() };
        }
        _ => object,
    };
    let code = word(inner, &["code"]);
    let embedded =
        code.as_deref().and_then(|code| code.parse().ok()).filter(|code| (400..600).contains(code));
    let mut message = word(inner, &["message", "detail", "error_message", "msg"]).unwrap_or_default();
    if message.is_empty() {
        let rest = ["errors", "detail"].iter().find_map(|key| inner.get(*key));
        message = rest.map(Value::to_string).unwrap_or_default();
    }
    // A router in between keeps what the provider itself said here.
    let raw = inner.get("metadata").and_then(|metadata| metadata.get("raw")).and_then(Value::as_str);
    if let Some(raw) = raw.filter(|raw| !raw.is_empty()) {
        message = format!("{message}: {raw}");
    }
    // `object: error, type: error` only says that this is an error.
    let kind = word(inner, &["type", "status"]).filter(|kind| kind != "error");
    Failure { status: embedded, code, kind, message, ..Failure::default() }
}

/// The first of `keys` that holds a text or a number.
fn word(object: &Map<String, Value>, keys: &[&str]) -> Option<String> {
    keys.iter().find_map(|key| match object.get(*key)? {
        Value::String(text) if !text.is_empty() => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    })
}

fn without_tags(html: &str) -> String {
    let mut inside = false;
    html.chars()
        .filter_map(|c| match c {
            '<' => {
                inside = true;
                Some(' ')
            }
            '>' => {
                inside = false;
                None
            }
            c => (!inside).then_some(c),
        })
        .collect()
}

fn reason(status: StatusCode) -> String {
    let name = status.canonical_reason().unwrap_or_default();
    format!("HTTP {} {name}", status.as_u16()).trim_end().to_owned()
}

fn of_message(message: String) -> Failure {
    Failure { message, ..Failure::default() }
}

fn hint(headers: &HeaderMap) -> Hint {
    retry_after::hint(headers, std::time::SystemTime::now)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Nanos;
    use serde_json::json;

    fn read(status: u16, body: &str) -> Failure {
        from_status(StatusCode::from_u16(status).unwrap(), &HeaderMap::new(), body.as_bytes())
    }

    fn facts(failure: &Failure) -> (Option<&str>, Option<&str>, &str) {
        (failure.code.as_deref(), failure.kind.as_deref(), &failure.message)
    }

    #[test]
    fn every_shape_of_an_error_body() {
        type Row = (&'static str, Option<&'static str>, Option<&'static str>, &'static str);
        let table: &[Row] = &[
            (
                r#"{"error":{"message":"slow down","type":"tokens","param":null,"code":"rate_limit_exceeded"}}"#,
                Some("rate_limit_exceeded"),
                Some("tokens"),
                "slow down",
            ),
            (
                r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"},"request_id":"r"}"#,
                None,
                Some("overloaded_error"),
                "Overloaded",
            ),
            (
                r#"{"object":"error","message":"Unauthorized","type":"invalid_request_error","code":3230}"#,
                Some("3230"),
                Some("invalid_request_error"),
                "Unauthorized",
            ),
            (r#"{"error":"model 'x' not found"}"#, None, None, "model 'x' not found"),
            (r#"{"error":"denied","message":"no such project"}"#, None, None, "denied: no such project"),
            (
                r#"[{"error":{"code":429,"message":"Resource exhausted","status":"RESOURCE_EXHAUSTED"}}]"#,
                Some("429"),
                Some("RESOURCE_EXHAUSTED"),
                "Resource exhausted",
            ),
            (
                r#"{"error":{"code":502,"message":"Provider returned error","metadata":{"raw":"out of memory"}}}"#,
                Some("502"),
                None,
                "Provider returned error: out of memory",
            ),
            (r#"{"message":"Too many tokens"}"#, None, None, "Too many tokens"),
            (r#"{"detail":"Not Found"}"#, None, None, "Not Found"),
            (r#"{"detail":[{"msg":"field required"}]}"#, None, None, r#"[{"msg":"field required"}]"#),
            (r#""just text""#, None, None, "just text"),
            ("upstream connect error\n", None, None, "upstream connect error"),
            (
                "<html><head><title>502 Bad\n Gateway</title></head><body>nginx</body></html>",
                None,
                None,
                "502 Bad Gateway",
            ),
            ("<h1>Service <b>down</b></h1>", None, None, "Service down"),
            ("", None, None, "HTTP 500 Internal Server Error"),
            (r#"{"error":{"code":"x"}}"#, Some("x"), None, "HTTP 500 Internal Server Error"),
            ("42", None, None, "42"),
        ];
        for (body, code, kind, message) in table {
            let failure = read(500, body);
            assert_eq!(facts(&failure), (*code, *kind, *message), "{body}");
            assert_eq!((failure.status, failure.class), (Some(500), None), "{body}");
        }
    }

    #[test]
    fn a_redirect_says_where_to() {
        let headers =
            [(reqwest::header::LOCATION, "https://elsewhere/v1".parse().unwrap())].into_iter().collect();
        let failure = from_status(StatusCode::FOUND, &headers, b"");
        assert_eq!(
            failure.message,
            "HTTP 302 Found to https://elsewhere/v1; redirects are not followed, correct the base_url"
        );
    }

    #[test]
    fn the_hint_comes_with_the_failure() {
        let headers = [(reqwest::header::RETRY_AFTER, "2".parse().unwrap())].into_iter().collect();
        let failure = from_status(StatusCode::TOO_MANY_REQUESTS, &headers, b"{}");
        assert_eq!(failure.retry_after, Hint::Wait(Nanos::from_secs(2)));
    }

    #[test]
    fn an_error_inside_a_success_is_found() {
        let found = |value: Value| inside_success(&value, &HeaderMap::new());
        let quota = found(json!({"error": {"code": "insufficient_quota", "message": "no money"}})).unwrap();
        assert_eq!((quota.class, quota.code.as_deref()), (None, Some("insufficient_quota")));
        let status = found(json!({"error": {"code": 429, "message": "slow down"}})).unwrap();
        assert_eq!(status.status, Some(429));
        let vague = found(json!({"error": "something"})).unwrap();
        assert_eq!(vague.class, Some(ErrorClass::ModelError));
        assert!(found(json!({"object": "error", "message": "m"})).is_some());
        assert!(found(json!([{"error": {"message": "m"}}])).is_some());
        assert_eq!(found(json!({"choices": [], "error": null})), None);
    }

    #[test]
    fn a_long_message_is_cut_between_characters() {
        let cut = presentable(&"é".repeat(3000));
        assert_eq!(cut.chars().count(), MAX_MESSAGE);
        assert!(cut.ends_with("é…"));
        assert_eq!(presentable(&"é".repeat(2000)), "é".repeat(2000));
    }

    #[test]
    fn control_characters_do_not_reach_a_terminal() {
        assert_eq!(presentable("\u{1b}[31mred\u{7}\n"), "[31mred");
    }
}
