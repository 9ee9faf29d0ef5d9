//! What a client gets instead of an answer of a model.

use reqwest::StatusCode;

use crate::policy::ErrorClass;

/// Why a request has no answer of a model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub(crate) struct GatewayError {
    pub(crate) status: StatusCode,
    /// What programs know it by: a class of failures, or what the gateway itself refuses.
    pub(crate) code: &'static str,
    pub(crate) message: String,
}

impl GatewayError {
    pub(crate) fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into() }
    }

    /// The request is not one.
    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid_request", message)
    }

    /// The gateway ends before the answer does.
    pub(crate) fn shutting_down() -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "shutting_down", "the gateway shuts down")
    }

    /// A failure of that class. `status`: what the server said, if it said anything.
    pub(crate) fn of(class: ErrorClass, status: Option<u16>, message: impl Into<String>) -> Self {
        let said = status.and_then(|status| StatusCode::from_u16(status).ok());
        // What is no error there, or leads elsewhere, is one of the server behind the gateway.
        let said = said.filter(|status| status.is_client_error() || status.is_server_error());
        let status = said.unwrap_or(match class {
            ErrorClass::Timeout => StatusCode::GATEWAY_TIMEOUT,
            ErrorClass::RateLimit | ErrorClass::QuotaExceeded => StatusCode::TOO_MANY_REQUESTS,
            ErrorClass::ContentFilter | ErrorClass::ContextOverflow | ErrorClass::InvalidRequest => {
                StatusCode::BAD_REQUEST
            }
            ErrorClass::Overloaded | ErrorClass::Cancelled => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::BAD_GATEWAY,
        });
        Self::new(status, class.name(), message)
    }
}
