//! What went wrong with a call, in the classes of the policy, and with the beginning of a conversation.
//!
//! Servers have two ways to say that there is no such tool, or that arguments are wrong: an error of the protocol, and
//! a result that is an error and whose text quotes one. Both mean that nothing was done.

use std::time::Duration;

use rmcp::ServiceError;
use rmcp::model::{ErrorCode, ErrorData};
use rmcp::service::ClientInitializeError;

use super::http::HttpError;
use crate::ErrorCause;
use crate::engine::EffectState;
use crate::host::{ToolError, without_number};
use crate::policy::ErrorClass;
use crate::text::excerpt;

/// Why there is no connection, or no list of tools.
#[derive(Clone, Default)]
pub(super) struct LinkError {
    pub(super) why: String,
    pub(super) source: Option<ErrorCause>,
}

impl LinkError {
    pub(super) fn of(why: String, error: impl Into<ErrorCause>) -> Self {
        Self { why, source: Some(error.into()) }
    }
}

impl From<String> for LinkError {
    fn from(why: String) -> Self {
        Self { why, source: None }
    }
}

/// How the servers written with the official kits begin a text that quotes an error of the protocol.
const QUOTED: &str = "MCP error ";

/// An answer that ended before it was whole.
pub(super) const CUT_OFF: &str = "the server closed the connection before it answered";

/// A result that says it is an error.
pub(super) fn of_result(text: &str) -> ToolError {
    let said = if text.trim().is_empty() { "the tool failed and did not say why" } else { text };
    let plain = unquoted(text);
    if names_no_tool(plain) {
        not_found(said)
    } else if refuses_arguments(plain) {
        ToolError::invalid_args(said)
    } else if fails_a_model(plain) {
        // The arguments' model most likely, but a tool may check others while it works.
        ToolError::invalid_args(said).effect(EffectState::Started)
    } else {
        ToolError::failed(said)
    }
}

/// Why a server and its client did not come to terms; `None` if the connection did not hold until then.
pub(super) fn of_handshake(error: &ClientInitializeError) -> Option<String> {
    use ClientInitializeError::{
        ConnectionClosed, JsonRpcError, LegacyFallbackFailed, NoCompatibleProtocolVersion, TransportError,
    };
    Some(match error {
        ConnectionClosed(_) | TransportError { .. } => return None,
        LegacyFallbackFailed { fallback, .. } => return of_handshake(fallback),
        JsonRpcError(error) => format!("it refuses to begin: {} ({})", error.message, error.code.0),
        NoCompatibleProtocolVersion { server_supported, .. } => {
            let versions: Vec<_> = server_supported.iter().map(ToString::to_string).collect();
            format!("it speaks no version of the protocol that is known here, but {}", versions.join(", "))
        }
        _ => "its first answer is none of the protocol".to_owned(),
    })
}

/// Why the connection to a server that is no process of ours did not hold.
pub(super) fn of_connection(error: &ClientInitializeError) -> String {
    match error {
        ClientInitializeError::TransportError { error, .. } => lost(&*error.error),
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => of_connection(fallback),
        _ => "the server closed the connection".to_owned(),
    }
}

/// A call that brought no result. `why` tells how the connection ended, if it did, and what the server wrote in addition to its
/// answer, if that cannot be used.
pub(super) fn of_service(error: &ServiceError, why: &str) -> ToolError {
    match error {
        ServiceError::McpError(error) => of_protocol(error),
        ServiceError::TransportSend(error) => of_transport(&*error.error),
        ServiceError::TransportClosed | ServiceError::Cancelled { .. } => ToolError::network(why),
        other => ToolError::failed(format!("the server's answer cannot be used: {other}{why}"))
            .effect(EffectState::Unknown),
    }
}

/// An error of the protocol. Its code alone says nothing of how far the call came: the official kits answer with the code of
/// whatever a running tool met, such as -32600 where it asked a client that cannot be asked.
pub(super) fn of_protocol(error: &ErrorData) -> ToolError {
    let mut said = format!("{} ({})", error.message, error.code.0);
    if let Some(data) = error.data.as_ref().filter(|data| !data.is_null()) {
        said = format!("{said}: {}", excerpt(&data.to_string(), MOST_DATA));
    }
    let plain = unquoted(&error.message);
    match error.code {
        ErrorCode::METHOD_NOT_FOUND => not_found(&said),
        ErrorCode::INVALID_PARAMS if names_no_tool(plain) => not_found(&said),
        ErrorCode::INVALID_PARAMS if refuses_arguments(plain) => ToolError::invalid_args(said),
        _ => ToolError::failed(said).effect(EffectState::Unknown),
    }
}

/// The most bytes of the data of an error that are shown.
const MOST_DATA: usize = 2048;

/// A text without the code that it quotes.
fn unquoted(text: &str) -> &str {
    text.strip_prefix(QUOTED).and_then(|rest| rest.split_once(": ")).map_or(text, |(_, plain)| plain)
}

/// A request that could not be sent, or whose answer did not come.
pub(super) fn of_transport(error: &(dyn std::error::Error + Send + Sync + 'static)) -> ToolError {
    match error.downcast_ref::<HttpError>() {
        Some(HttpError::Client(failed)) if failed.is_connect() => {
            ToolError::network(lost(error)).effect(EffectState::NotStarted)
        }
        Some(HttpError::AuthRequired(_) | HttpError::InsufficientScope(_)) => {
            ToolError::new(ErrorClass::PermissionDenied, lost(error)).effect(EffectState::NotStarted)
        }
        Some(HttpError::HttpStatus(answer)) if answer.status == 429 => {
            let error =
                ToolError::new(ErrorClass::RateLimit, "the server answered HTTP 429: too many requests");
            let wait = answer.retry_after.as_ref().and_then(|wait| wait.trim().parse().ok());
            let error = error.effect(EffectState::NotStarted);
            wait.map_or_else(
                || error.clone(),
                |seconds| error.clone().retry_after(Duration::from_secs(seconds)),
            )
        }
        _ => ToolError::network(lost(error)),
    }
}

/// Why nothing can be sent, or no answer comes.
fn lost(error: &(dyn std::error::Error + Send + Sync + 'static)) -> String {
    match error.downcast_ref::<HttpError>() {
        Some(HttpError::Client(error)) if error.is_body() || error.is_decode() => CUT_OFF.to_owned(),
        Some(HttpError::Client(error)) => format!("the server cannot be reached: {}", cause(error)),
        Some(HttpError::AuthRequired(_) | HttpError::InsufficientScope(_)) => {
            format!("the server wants a key, or another one: {}", cause(error))
        }
        Some(HttpError::UnexpectedServerResponse(said)) => {
            let said = said.split(", got ").next().unwrap_or_default();
            format!("the server's answer cannot be used: {}", said.trim_end_matches([':', ' ']))
        }
        Some(HttpError::UnexpectedContentType(kind)) => {
            let kind = kind.as_deref().unwrap_or("something that has no type");
            format!("the server answered with {kind}, which is no answer of the protocol")
        }
        _ => format!("the connection to the server failed: {}", cause(error)),
    }
}

fn not_found(said: &str) -> ToolError {
    ToolError::new(ErrorClass::ToolNotFound, said).effect(EffectState::NotStarted)
}

/// `Tool dig not found`, `Unknown tool: dig`: the whole first line, for a tool may say such things of its own.
fn names_no_tool(text: &str) -> bool {
    let line = first_line(text);
    let words: Vec<&str> = line.split_whitespace().collect();
    matches!(words[..], ["tool", _, "not", "found"] | ["unknown", "tool" | "tool:", _])
        || matches!(words[..], ["tool", "not", "found:", _])
}

fn refuses_arguments(text: &str) -> bool {
    let line = first_line(text);
    // The kits in TypeScript, Python and Rust.
    ["input validation error", "invalid arguments for tool", "failed to deserialize parameters"]
        .iter()
        .any(|beginning| line.starts_with(beginning))
}

/// What pydantic says, with which most servers in Python check arguments.
fn fails_a_model(text: &str) -> bool {
    let line = first_line(text);
    let line = line.split_once(": ").map_or(line.as_str(), |(before, rest)| {
        if before.starts_with("error executing tool") { rest } else { line.as_str() }
    });
    let words: Vec<&str> = line.split_whitespace().collect();
    matches!(words[..], [count, "validation", "error" | "errors", "for", ..] if count.parse::<u32>().is_ok())
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// The error and what lies below it.
pub(super) fn cause(error: &(dyn std::error::Error + 'static)) -> String {
    let mut texts = vec![without_number(&error.to_string()).to_owned()];
    let mut below = error.source();
    while let Some(error) = below {
        let text = without_number(&error.to_string()).to_owned();
        if !texts.iter().any(|said| said.contains(&text)) {
            texts.push(text);
        }
        below = error.source();
    }
    texts.join(": ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::ToolOutcome;
    use crate::host::tool::test_support::failure;

    fn class(error: ToolError) -> (ErrorClass, EffectState) {
        let (class, effect, _) = failure(ToolOutcome::from(error));
        (class, effect)
    }

    #[test]
    fn both_ways_to_say_unknown_tool_are_understood() {
        let not_found = (ErrorClass::ToolNotFound, EffectState::NotStarted);
        for text in ["MCP error -32602: Tool dig not found", "Unknown tool: dig"] {
            assert_eq!(class(of_result(text)), not_found, "{text}");
        }
        for message in ["Unknown tool: dig", "Tool dig not found", "unknown tool 'dig'"] {
            let error = ErrorData::new(ErrorCode::INVALID_PARAMS, message, None);
            assert_eq!(class(of_service(&ServiceError::McpError(error), "")), not_found, "{message}");
        }
    }

    #[test]
    fn both_ways_to_refuse_arguments_are_understood() {
        let invalid = (ErrorClass::InvalidArgs, EffectState::NotStarted);
        let begun = (ErrorClass::InvalidArgs, EffectState::Started);
        for (text, expected) in [
            ("MCP error -32602: Input validation error: Invalid arguments for tool echo: [...]", invalid),
            ("Input validation error: 'x' is a required property", invalid),
            ("1 validation error for GetTimeInput\ntimezone\n  Field required", begun),
            ("Error executing tool add: 2 validation errors for addArguments", begun),
        ] {
            assert_eq!(class(of_result(text)), expected, "{text}");
        }
        for message in [
            "failed to deserialize parameters: missing field `text`",
            "MCP error -32602: Invalid arguments for tool echo: [...]",
        ] {
            let error = ErrorData::new(ErrorCode::INVALID_PARAMS, message, None);
            assert_eq!(class(of_service(&ServiceError::McpError(error), "")), invalid, "{message}");
        }
    }

    #[test]
    fn an_error_whose_text_refuses_nothing_may_come_from_a_tool_that_has_acted() {
        for (code, message) in [
            (ErrorCode::INVALID_REQUEST, "there is no back-channel to the client"),
            (ErrorCode::PARSE_ERROR, "Parse error"),
            (ErrorCode::INVALID_PARAMS, "the receipt has no name"),
        ] {
            let said = class(of_protocol(&ErrorData::new(code, message, None)));
            assert_eq!(said, (ErrorClass::ExecutionError, EffectState::Unknown), "{message}");
        }
        let said = class(of_result("MCP error -32602: the receipt has no name"));
        assert_eq!(said, (ErrorClass::ExecutionError, EffectState::Started));
    }

    #[test]
    fn a_tool_that_failed_may_have_acted() {
        let failed = (ErrorClass::ExecutionError, EffectState::Started);
        for text in
            ["ENOENT: no such file", "the build tool make was not found", "", "MCP error -32603: boom"]
        {
            assert_eq!(class(of_result(text)), failed, "{text}");
        }
        let error = ErrorData::new(ErrorCode::INTERNAL_ERROR, "boom", None);
        let said = class(of_service(&ServiceError::McpError(error), ""));
        assert_eq!(said, (ErrorClass::ExecutionError, EffectState::Unknown));
        let closed = class(of_service(&ServiceError::TransportClosed, "it was killed"));
        assert_eq!(closed, (ErrorClass::NetworkError, EffectState::Unknown));
    }
}
