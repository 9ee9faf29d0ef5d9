//! What one event of a stream holds, before any format makes something of it.

use reqwest::header::HeaderMap;
use serde_json::Value;

use super::unread::not_json;
use crate::engine::Failure;
use crate::host::model::failure;
use crate::host::model::sse::SseEvent;

/// The data of the last event of a stream of chat completions; some routers send it in other formats too.
pub(super) const DONE: &str = "[DONE]";

/// The data of an event; `None`: it has none.
///
/// # Errors
/// It is an error, by its name or by what it holds, or no JSON.
pub(super) fn data(event: &SseEvent, headers: &HeaderMap) -> Result<Option<Value>, Failure> {
    let data = event.data.trim();
    if data.is_empty() {
        return Ok(None);
    }
    let failed = event.name == "error";
    let value = match serde_json::from_str::<Value>(data) {
        Ok(value) => value,
        // Some proxies name an event `error` and write plain text into it.
        Err(_) if failed => Value::String(data.to_owned()),
        Err(error) => return Err(not_json(&error, data.as_bytes())),
    };
    if failed {
        return Err(failure::event(&value, headers));
    }
    match failure::inside_success(&value, headers) {
        Some(failure) => Err(failure),
        None => Ok(Some(value)),
    }
}
