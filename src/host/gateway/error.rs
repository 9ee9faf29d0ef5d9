//! What a client gets instead of an answer of a model.

use reqwest::StatusCode;

use crate::engine::Failure;
use crate::policy::ErrorClass;

/// Why a request has no answer of a model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub(crate) struct GatewayError {
    pub(crate) status: StatusCode,
    /// What programs know it by: a class of failures, or what the gateway itself refuses.
    pub(crate) code: &'static str,
    pub(crate) message: String,
    /// The class, if it is a failure of a model.
    pub(super) class: Option<ErrorClass>,
    /// What the provider said of it.
    pub(super) said: Option<Box<SaidFailure>>,
}

/// What a provider said of a failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SaidFailure {
    pub(super) failure: Failure,
    /// Whether in the dialect of the client, whose words it uses then.
    pub(super) is_own: bool,
}

impl GatewayError {
    pub(crate) fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into(), class: None, said: None }
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
        Self { class: Some(class), ..Self::new(status, class.name(), message) }
    }

    /// The same with what the provider said of it; `is_own`: in the dialect of the client.
    pub(super) fn said(self, failure: Failure, is_own: bool) -> Self {
        Self { said: Some(Box::new(SaidFailure { failure, is_own })), ..self }
    }

    /// What the provider said of it in the dialect of the client.
    pub(super) fn own(&self) -> Option<&Failure> {
        self.said.as_ref().filter(|said| said.is_own).map(|said| &said.failure)
    }
}
