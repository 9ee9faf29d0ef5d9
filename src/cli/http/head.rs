//! What the head of every request must be: what stands before the server may read it otherwise, and let in what it would not.

use axum::extract::Request;
use axum::http::header::{CONTENT_ENCODING, HOST, ORIGIN, TRANSFER_ENCODING};
use axum::http::{HeaderMap, HeaderName, StatusCode, Version};

use super::connections::MOST_HEADER_BYTES;
use super::text;

/// Why a head is refused: the status, and words.
pub(in crate::cli) type HeadFault = (StatusCode, &'static str);

/// Refuses a head that says twice where the request goes or where it comes from (RFC 9112, section 3.2), or that can be read in
/// two ways.
///
/// # Errors
/// The first fault.
pub(in crate::cli) fn check_head(request: &Request) -> Result<(), HeadFault> {
    let headers = request.headers();
    // The connection refuses what its buffer cannot hold, which is more.
    let lines = headers.iter().map(|(name, value)| name.as_str().len() + value.len() + ": \r\n".len());
    if lines.sum::<usize>() > MOST_HEADER_BYTES {
        return Err((StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, "the headers have more than 64 KiB"));
    }
    let bad = |why| Err((StatusCode::BAD_REQUEST, why));
    if [HOST, ORIGIN].iter().any(|name| headers.get_all(name).iter().nth(1).is_some()) {
        return bad("`Host` and `Origin` come once at most");
    }
    // One of HTTP/1.0 need not say it (RFC 9112, section 3.2).
    if request.version() > Version::HTTP_10 && !headers.contains_key(HOST) {
        return bad("`Host` is missing, which every request of HTTP 1.1 has");
    }
    // The address of a request takes precedence over its `Host` (RFC 9112, section 3.2.2), by which it is let in.
    let host = text(headers, &HOST);
    if request.uri().authority().is_some_and(|named| !named.as_str().eq_ignore_ascii_case(host)) {
        return bad("the address of the request and its `Host` are not the same");
    }
    // Of several codings the connection takes off the last alone.
    let is_listed = headers.get_all(TRANSFER_ENCODING).iter().nth(1).is_some();
    if is_listed || !is_only(headers, &TRANSFER_ENCODING, "chunked") {
        return bad("`Transfer-Encoding` is `chunked` alone");
    }
    // What is compressed is no JSON.
    if !is_only(headers, &CONTENT_ENCODING, "identity") {
        let why = "bodies are not taken compressed; send it without `Content-Encoding`";
        return Err((StatusCode::UNSUPPORTED_MEDIA_TYPE, why));
    }
    Ok(())
}

/// Whether all values of a header are that one, or there are none.
fn is_only(headers: &HeaderMap, name: &HeaderName, known: &str) -> bool {
    headers.get_all(name).iter().all(|value| value.as_bytes().eq_ignore_ascii_case(known.as_bytes()))
}
