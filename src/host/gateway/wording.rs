//! How each dialect says that something went wrong: in the words of the provider if it speaks the dialect, and otherwise in those that
//! the dialect has for the class of the failure. Programs look for them: `openai` of `LangChain` and Codex for the `code`, and Claude Code
//! for the message of a prompt that is too long (musistudio/claude-code-router#1799).

use bytes::Bytes;
use serde_json::{Value, json};

use super::error::GatewayError;
use crate::engine::Failure;
use crate::host::model::front::{GatewayDialect, on_one_line};
use crate::policy::ErrorClass;

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
                let said = openai(error);
                let event = json!({
                    "type": "error", "code": said["code"], "message": said["message"], "param": said["param"],
                    "sequence_number": events,
                });
                format!("event: error\ndata: {}\n\n", on_one_line(&event))
            }
        };
        text.into()
    }
}

/// How an answer ended, which is no code or type of an error: `finish_reason: error`, `status: failed`.
const ENDINGS: [&str; 6] = ["cancelled", "error", "failed", "in_progress", "incomplete", "queued"];

/// The word of a provider for an error. A number is a status, as `OpenRouter`, vLLM and Google write it: no program looks for it.
fn own_word(word: Option<&str>) -> Option<&str> {
    word.filter(|word| !ENDINGS.contains(word) && word.parse::<i64>().is_err())
}

/// As the SDKs of `OpenAI` read it.
fn openai(error: &GatewayError) -> Value {
    let own = error.own();
    let kind = match error.status.as_u16() {
        _ if error.class == Some(ErrorClass::QuotaExceeded) => "insufficient_quota",
        401 => "authentication_error",
        403 => "permission_error",
        429 => "rate_limit_error",
        400..=499 => "invalid_request_error",
        _ => "server_error",
    };
    let kind = own.and_then(|said| own_word(said.kind.as_deref())).unwrap_or(kind);
    let param = own.and_then(|said| said.facts.as_ref()?.param.as_deref());
    let code = own.and_then(|said| own_word(said.code.as_deref()));
    let code = code.or_else(|| word(error, |words| words.openai)).unwrap_or(error.code);
    json!({ "message": error.message, "type": kind, "param": param, "code": code })
}

/// What the APIs call a failure: the `code` of `OpenAI`'s, the `type` of Anthropic's and the name of `google.rpc.Code`. An empty one: the
/// class has no word, and the status alone decides.
struct ClassWords {
    openai: &'static str,
    anthropic: &'static str,
    google: &'static str,
}

impl ClassWords {
    const fn of(class: ErrorClass) -> Self {
        let (openai, anthropic, google) = match class {
            ErrorClass::AuthError => ("invalid_api_key", "authentication_error", "UNAUTHENTICATED"),
            ErrorClass::PermissionDenied => ("", "permission_error", "PERMISSION_DENIED"),
            ErrorClass::NotFound => ("model_not_found", "not_found_error", "NOT_FOUND"),
            ErrorClass::RateLimit => ("rate_limit_exceeded", "rate_limit_error", "RESOURCE_EXHAUSTED"),
            ErrorClass::QuotaExceeded => ("insufficient_quota", "", "RESOURCE_EXHAUSTED"),
            ErrorClass::Overloaded => ("server_is_overloaded", "overloaded_error", "UNAVAILABLE"),
            ErrorClass::Timeout => ("server_error", "timeout_error", "DEADLINE_EXCEEDED"),
            ErrorClass::ContextOverflow => {
                ("context_length_exceeded", "invalid_request_error", "INVALID_ARGUMENT")
            }
            ErrorClass::InvalidRequest => ("", "invalid_request_error", "INVALID_ARGUMENT"),
            ErrorClass::ContentFilter => ("content_filter", "", ""),
            ErrorClass::ModelError
            | ErrorClass::NetworkError
            | ErrorClass::EmptyResponse
            | ErrorClass::ReasoningOnly
            | ErrorClass::MalformedToolCall => ("server_error", "", ""),
            ErrorClass::Cancelled
            | ErrorClass::CircuitOpen
            | ErrorClass::ExecutionError
            | ErrorClass::InvalidArgs
            | ErrorClass::InvalidOutput
            | ErrorClass::OrphanToolCall
            | ErrorClass::ReducerError
            | ErrorClass::RepeatedCall
            | ErrorClass::TextOnly
            | ErrorClass::ToolNotFound
            | ErrorClass::ToolUnavailable
            | ErrorClass::TruncatedOutput => ("", "", ""),
        };
        Self { openai, anthropic, google }
    }
}

/// The word for the class of an error, if there is one.
fn word(error: &GatewayError, of: fn(ClassWords) -> &'static str) -> Option<&'static str> {
    error.class.map(|class| of(ClassWords::of(class))).filter(|word| !word.is_empty())
}

/// The types that Anthropic documents, by class and by status.
fn anthropic(error: &GatewayError) -> Value {
    let of_status = match error.status.as_u16() {
        401 => "authentication_error",
        402 => "billing_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        503 | 529 => "overloaded_error",
        504 => "timeout_error",
        400..=499 => "invalid_request_error",
        _ => "api_error",
    };
    let kind = word(error, |words| words.anthropic).filter(|_| error.status != 413).unwrap_or(of_status);
    let kind = error.own().and_then(|said| said.kind.as_deref()).unwrap_or(kind);
    let too_long = too_long(error);
    json!({ "type": kind, "message": too_long.as_deref().unwrap_or(&error.message) })
}

/// A prompt that is too long, as Claude Code finds it in a message: it makes the conversation smaller then.
fn too_long(error: &GatewayError) -> Option<String> {
    const TOO_LONG: &str = "prompt is too long";
    let is_said = || error.own().is_some() || error.message.to_lowercase().contains(TOO_LONG);
    if error.class != Some(ErrorClass::ContextOverflow) || is_said() {
        return None;
    }
    let counted =
        |failure: &Failure| failure.size().zip(failure.limit()).filter(|(size, limit)| size > limit);
    Some(match error.said.as_ref().and_then(|said| counted(&said.failure)) {
        Some((size, limit)) => format!("{TOO_LONG}: {size} tokens > {limit} maximum. {}", error.message),
        None => format!("{TOO_LONG}: {}", error.message),
    })
}

/// The names of `google.rpc.Code`, by class and by status.
fn google(error: &GatewayError) -> Value {
    let of_status = match error.status.as_u16() {
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
    let name = word(error, |words| words.google).unwrap_or(of_status);
    let name = error.own().and_then(|said| said.kind.as_deref()).unwrap_or(name);
    json!({ "code": error.status.as_u16(), "message": error.message, "status": name })
}

#[cfg(test)]
mod tests {
    use super::GatewayDialect::{Chat, Gemini, Messages, Responses};
    use super::*;

    fn body(dialect: GatewayDialect, error: &GatewayError) -> Value {
        serde_json::from_slice::<Value>(&dialect.error(error)).unwrap()["error"].take()
    }

    fn words(error: &GatewayError) -> [String; 3] {
        let word = |dialect, field: &str| body(dialect, error)[field].as_str().unwrap().to_owned();
        assert_eq!(word(Chat, "code"), word(Responses, "code"));
        [word(Chat, "code"), word(Messages, "type"), word(Gemini, "status")]
    }

    #[test]
    fn a_class_is_said_in_the_words_of_each_dialect() {
        for (class, status, expected) in [
            (
                ErrorClass::ContextOverflow,
                400,
                ["context_length_exceeded", "invalid_request_error", "INVALID_ARGUMENT"],
            ),
            (
                ErrorClass::QuotaExceeded,
                429,
                ["insufficient_quota", "rate_limit_error", "RESOURCE_EXHAUSTED"],
            ),
            (ErrorClass::QuotaExceeded, 402, ["insufficient_quota", "billing_error", "RESOURCE_EXHAUSTED"]),
            (ErrorClass::RateLimit, 429, ["rate_limit_exceeded", "rate_limit_error", "RESOURCE_EXHAUSTED"]),
            // Gemini refuses a key with 400.
            (ErrorClass::AuthError, 400, ["invalid_api_key", "authentication_error", "UNAUTHENTICATED"]),
            (ErrorClass::NotFound, 404, ["model_not_found", "not_found_error", "NOT_FOUND"]),
            (ErrorClass::Overloaded, 529, ["server_is_overloaded", "overloaded_error", "UNAVAILABLE"]),
            (ErrorClass::ContentFilter, 400, ["content_filter", "invalid_request_error", "INVALID_ARGUMENT"]),
            (ErrorClass::NetworkError, 502, ["server_error", "api_error", "UNAVAILABLE"]),
            (ErrorClass::Timeout, 504, ["server_error", "timeout_error", "DEADLINE_EXCEEDED"]),
            (
                ErrorClass::InvalidRequest,
                400,
                ["invalid_request", "invalid_request_error", "INVALID_ARGUMENT"],
            ),
        ] {
            assert_eq!(words(&GatewayError::of(class, Some(status), "no")), expected, "{class} {status}");
        }
        // What the gateway itself refuses keeps its own codes.
        let refused = GatewayError::bad_request("no");
        assert_eq!(words(&refused), ["invalid_request", "invalid_request_error", "INVALID_ARGUMENT"]);
    }

    #[test]
    fn neither_a_status_nor_how_an_answer_ended_is_a_code() {
        for word in ["429", "failed"] {
            let failure = Failure { code: Some(word.into()), kind: Some(word.into()), ..Failure::default() };
            let error = GatewayError::of(ErrorClass::RateLimit, Some(429), "no").said(failure, true);
            let body = body(Chat, &error);
            assert_eq!(
                (&body["code"], &body["type"]),
                (&json!("rate_limit_exceeded"), &json!("rate_limit_error"))
            );
        }
    }

    #[test]
    fn who_speaks_the_dialect_keeps_its_words() {
        let param =
            Some(Box::new(crate::engine::BodyFacts { param: Some("input".into()), ..Default::default() }));
        let failure = Failure {
            code: Some("organization_spend_limit_exceeded".into()),
            kind: Some("requests".into()),
            facts: param,
            ..Failure::default()
        };
        let of = |is_own| {
            GatewayError::of(ErrorClass::QuotaExceeded, Some(429), "no").said(failure.clone(), is_own)
        };
        let own = json!({"message": "no", "type": "requests", "param": "input", "code": "organization_spend_limit_exceeded"});
        assert_eq!((body(Chat, &of(true)), body(Responses, &of(true))), (own.clone(), own));
        let other = json!({"message": "no", "type": "insufficient_quota", "param": null, "code": "insufficient_quota"});
        assert_eq!(body(Chat, &of(false)), other);
        let event = Responses.error_event(&of(true), 3);
        let data = event.strip_prefix(b"event: error\ndata: ").unwrap();
        let event: Value = serde_json::from_slice(data).unwrap();
        let code = "organization_spend_limit_exceeded";
        assert_eq!(
            event,
            json!({"type": "error", "message": "no", "param": "input", "code": code, "sequence_number": 3})
        );
    }

    #[test]
    fn claude_code_reads_that_a_prompt_is_too_long() {
        let failure = Failure::from_json(&json!({"error": {
            "message": "This model's maximum context length is 100 tokens. However, your messages resulted in 200 tokens.",
        }}));
        let of = |message: &str| GatewayError::of(ErrorClass::ContextOverflow, Some(400), message);
        let message = |error: &GatewayError| body(Messages, error)["message"].as_str().unwrap().to_owned();
        let counted = message(&of("It is large.").said(failure.clone(), false));
        assert_eq!(counted, "prompt is too long: 200 tokens > 100 maximum. It is large.");
        assert_eq!(message(&of("It is large.")), "prompt is too long: It is large.");
        let own = "input length and `max_tokens` exceed context limit: 179413 + 32768 > 200000";
        assert_eq!(message(&of(own).said(failure, true)), own);
        let said = "Prompt is too long: 3 > 2";
        assert_eq!(message(&of(said)), said);
    }
}
