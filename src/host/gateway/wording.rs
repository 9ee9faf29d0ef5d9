//! How each dialect says that something went wrong.

use bytes::Bytes;
use serde_json::{Value, json};

use super::error::GatewayError;
use crate::host::model::front::{GatewayDialect, on_one_line};

impl GatewayDialect {
    /// The body of an error.
    pub(crate) fn error(self, error: &GatewayError) -> Bytes {
        let body = match self {
            Self::Chat | Self::Responses => json!({ "error": openai(error) }),
            Self::Messages => json!({ "type": "error", "error": anthropic(error) }),
            Self::Gemini => json!({ "error": google(error) }),
        };
        body.to_string().into()
    }

    /// The event by which a stream that has begun says so. `events` were sent before it.
    pub(crate) fn error_event(self, error: &GatewayError, events: u64) -> Bytes {
        let text = match self {
            Self::Chat => format!("data: {}\n\n", on_one_line(&json!({ "error": openai(error) }))),
            Self::Gemini => format!("data: {}\n\n", on_one_line(&json!({ "error": google(error) }))),
            Self::Messages => {
                let event = json!({ "type": "error", "error": anthropic(error) });
                format!("event: error\ndata: {}\n\n", on_one_line(&event))
            }
            Self::Responses => {
                let event = json!({
                    "type": "error", "code": error.code, "message": error.message, "param": null,
                    "sequence_number": events,
                });
                format!("event: error\ndata: {}\n\n", on_one_line(&event))
            }
        };
        text.into()
    }
}

/// As the SDKs of `OpenAI` read it.
fn openai(error: &GatewayError) -> Value {
    let kind = match error.status.as_u16() {
        401 => "authentication_error",
        403 => "permission_error",
        429 => "rate_limit_error",
        400..=499 => "invalid_request_error",
        _ => "server_error",
    };
    json!({ "message": error.message, "type": kind, "param": null, "code": error.code })
}

/// The types that Anthropic documents, by status.
fn anthropic(error: &GatewayError) -> Value {
    let kind = match error.status.as_u16() {
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        400..=499 => "invalid_request_error",
        503 | 529 => "overloaded_error",
        504 => "timeout_error",
        _ => "api_error",
    };
    json!({ "type": kind, "message": error.message })
}

/// The names of `google.rpc.Code`, by status.
fn google(error: &GatewayError) -> Value {
    let name = match error.status.as_u16() {
        401 => "UNAUTHENTICATED",
        403 => "PERMISSION_DENIED",
        404 => "NOT_FOUND",
        429 => "RESOURCE_EXHAUSTED",
        499 => "CANCELLED",
        400..=499 => "INVALID_ARGUMENT",
        502 | 503 => "UNAVAILABLE",
        504 => "DEADLINE_EXCEEDED",
        _ => "INTERNAL",
    };
    json!({ "code": error.status.as_u16(), "message": error.message, "status": name })
}
