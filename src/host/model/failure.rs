//! Failures of a model call as facts: what the status, the headers and the body say, and nothing made of it.

use std::error::Error;
use std::io;

use reqwest::StatusCode;
use reqwest::header::HeaderMap;
use serde_json::Value;

use crate::engine::{Failure, ProviderLimit, ReplyHeaders};
use crate::host::{Clock, without_number};
use crate::policy::ErrorClass;

/// The failure a response with an error status stands for.
pub(crate) fn from_status(status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Failure {
    let mut failure = Failure::from_answer(status.as_u16(), &told(headers), body, || Clock::system().now());
    // A proxy may answer with a status alone.
    if failure.message.is_empty() {
        failure.message = reason(status);
    }
    // The body of a redirect is a page for people, so the message names where it leads.
    if let Some(location) = headers.get(reqwest::header::LOCATION).filter(|_| status.is_redirection()) {
        let (reason, location) = (reason(status), String::from_utf8_lossy(location.as_bytes()));
        failure.message = format!("{reason} to {location}; redirects are not followed, correct the base_url");
    }
    failure
}

/// The failure inside a response whose status says that all is well, if there is one: `value` is the whole body
/// or the data of one event.
pub(crate) fn inside_success(value: &Value, headers: &HeaderMap) -> Option<Failure> {
    Failure::inside_success(value).map(|failure| completed(failure, value, headers))
}

/// The failure an event named `error` stands for.
pub(crate) fn event(value: &Value, headers: &HeaderMap) -> Failure {
    completed(Failure::from_json(value), value, headers)
}

fn completed(failure: Failure, body: &Value, headers: &HeaderMap) -> Failure {
    let mut failure = failure.with_hint(&told(headers), Some(body), || Clock::system().now());
    if failure.message.is_empty() {
        "the answer is an error without a message".clone_into(&mut failure.message);
    }
    failure
}

/// The limits that the headers of an answer state.
pub(crate) fn stated_limits(headers: &HeaderMap) -> Vec<ProviderLimit> {
    // Most answers state none, and to copy their headers takes longer than to see that.
    if !headers.keys().any(|name| name.as_str().contains("limit")) {
        return Vec::new();
    }
    told(headers).limits(|| Clock::system().now())
}

/// The headers as the interpreter's readers take them.
fn told(headers: &HeaderMap) -> ReplyHeaders {
    ReplyHeaders::new(headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())))
}

/// An answer that cannot be read.
pub(crate) fn unreadable(what: impl Into<String>) -> Failure {
    Failure::of(ErrorClass::ModelError, what)
}

/// An answer that stops before its end.
pub(crate) fn cut_off(what: impl Into<String>) -> Failure {
    Failure::of(ErrorClass::NetworkError, what)
}

fn reason(status: StatusCode) -> String {
    let name = status.canonical_reason().unwrap_or_default();
    format!("HTTP {} {name}", status.as_u16()).trim_end().to_owned()
}

/// The innermost cause of an error: what the system said, without the layers around it.
pub(super) fn cause(error: &(dyn Error + 'static)) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    untrusted(innermost).unwrap_or_else(|| without_number(&innermost.to_string()).to_owned())
}

/// Why the certificate of a server is refused, in words: rustls shows most reasons by their names in Rust, such as
/// `Other(OtherError(CaUsedAsEndEntity))`.
fn untrusted(error: &(dyn Error + 'static)) -> Option<String> {
    let inner = error.downcast_ref::<io::Error>()?.get_ref()?;
    let rustls::Error::InvalidCertificate(reason) = inner.downcast_ref()? else { return None };
    let reason = reason.to_string();
    let reason = if reason.contains(' ') { reason } else { in_words(&reason) };
    Some(format!("its certificate cannot be trusted: {reason}"))
}

/// The innermost name, word by word.
fn in_words(name: &str) -> String {
    let name = name.trim_end_matches(')');
    let name = name.rsplit_once('(').map_or(name, |(_, inner)| inner);
    let mut words = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !words.is_empty() {
            words.push(' ');
        }
        words.extend(letter.to_lowercase());
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::WaitHint;
    use crate::time::Nanos;
    use serde_json::json;

    fn read(status: u16, body: &str) -> Failure {
        from_status(StatusCode::from_u16(status).unwrap(), &HeaderMap::new(), body.as_bytes())
    }

    #[test]
    fn what_a_body_leaves_out_the_status_and_the_headers_tell() {
        assert_eq!(read(500, "").message, "HTTP 500 Internal Server Error");
        assert_eq!(read(500, r#"{"error":{"code":"x"}}"#).message, "HTTP 500 Internal Server Error");
        let kind = "com.amazon#ThrottlingException:http://internal.amazon.com/";
        let headers = [("x-amzn-errortype".parse().unwrap(), kind.parse().unwrap())].into_iter().collect();
        let failure = from_status(StatusCode::TOO_MANY_REQUESTS, &headers, br#"{"message":"slow"}"#);
        assert_eq!((failure.kind.as_deref(), failure.status), (Some("ThrottlingException"), Some(429)));
    }

    #[test]
    fn the_message_of_aws_may_stand_in_a_header() {
        let headers = [("x-amzn-errormessage".parse().unwrap(), "Too many requests".parse().unwrap())]
            .into_iter()
            .collect();
        let of = |body: &[u8]| from_status(StatusCode::TOO_MANY_REQUESTS, &headers, body).message;
        assert_eq!((of(b"{}"), of(br#"{"message":"slow"}"#)), ("Too many requests".into(), "slow".into()));
    }

    #[test]
    fn why_a_certificate_is_refused_is_said_in_words() {
        use rustls::{CertificateError, OtherError};
        #[derive(Debug)]
        struct CaUsedAsEndEntity;
        impl std::fmt::Display for CaUsedAsEndEntity {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a CA")
            }
        }
        impl Error for CaUsedAsEndEntity {}
        let of = |reason| cause(&io::Error::other(rustls::Error::InvalidCertificate(reason)));
        let other = CertificateError::Other(OtherError(std::sync::Arc::new(CaUsedAsEndEntity)));
        for (reason, words) in
            [(CertificateError::UnknownIssuer, "unknown issuer"), (other, "ca used as end entity")]
        {
            assert_eq!(of(reason), format!("its certificate cannot be trusted: {words}"));
        }
    }

    #[test]
    fn a_redirect_says_where_to() {
        let headers =
            [(reqwest::header::LOCATION, "https://elsewhere/v1".parse().unwrap())].into_iter().collect();
        for body in ["", "<html><title>Found</title><a href='https://elsewhere/v1'>here</a></html>"] {
            let failure = from_status(StatusCode::FOUND, &headers, body.as_bytes());
            assert_eq!(
                failure.message,
                "HTTP 302 Found to https://elsewhere/v1; redirects are not followed, correct the base_url"
            );
        }
    }

    #[test]
    fn the_hint_comes_with_the_failure() {
        let headers = [(reqwest::header::RETRY_AFTER, "2".parse().unwrap())].into_iter().collect();
        let failure = from_status(StatusCode::TOO_MANY_REQUESTS, &headers, b"{}");
        assert_eq!(failure.retry_after, WaitHint::Wait(Nanos::from_secs(2)));
    }

    #[test]
    fn an_error_inside_a_success_is_found() {
        let found = |value: Value| inside_success(&value, &HeaderMap::new());
        let quota = found(json!({"error": {"code": "insufficient_quota", "message": "no money"}})).unwrap();
        assert_eq!((quota.class, quota.code.as_deref()), (None, Some("insufficient_quota")));
        let status = found(json!({"error": {"code": 429, "message": "slow down"}})).unwrap();
        assert_eq!(status.status, Some(429));
        let vague = found(json!({"error": "something"})).unwrap();
        assert_eq!((vague.class, &*vague.message), (None, "something"));
        assert!(found(json!({"object": "error", "message": "m"})).is_some());
        assert!(found(json!([{"error": {"message": "m"}}])).is_some());
        assert_eq!(found(json!({"choices": [], "error": null})), None);
    }
}
