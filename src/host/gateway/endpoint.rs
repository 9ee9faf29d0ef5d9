//! Where clients send requests, and what these ask of a model.

use reqwest::StatusCode;

use super::error::GatewayError;
use crate::host::model::front::GatewayDialect;
use crate::host::model::relay::RelayKind;

/// What an address of the gateway is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GatewayEndpoint {
    /// How its clients speak.
    pub(crate) dialect: GatewayDialect,
    pub(super) kind: RelayKind,
    /// The address, or the beginning of it.
    pub(crate) path: &'static str,
}

/// What Gemini's clients say in the address of a request, and others in its body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PathCall {
    pub(super) model: String,
    pub(super) stream: bool,
}

impl GatewayEndpoint {
    /// The addresses of requests that name the model in their body.
    pub(crate) const FIXED: [Self; 6] = [
        Self { dialect: GatewayDialect::Chat, kind: RelayKind::Answer, path: "/v1/chat/completions" },
        Self { dialect: GatewayDialect::Messages, kind: RelayKind::Answer, path: "/v1/messages" },
        Self { dialect: GatewayDialect::Responses, kind: RelayKind::Answer, path: "/v1/responses" },
        Self { dialect: GatewayDialect::Chat, kind: RelayKind::Embeddings, path: "/v1/embeddings" },
        Self {
            dialect: GatewayDialect::Messages,
            kind: RelayKind::TokenCount,
            path: "/v1/messages/count_tokens",
        },
        Self {
            dialect: GatewayDialect::Responses,
            kind: RelayKind::TokenCount,
            path: "/v1/responses/input_tokens",
        },
    ];
    /// Gemini's, which has the model and the method behind it.
    pub(crate) const GEMINI: Self =
        Self { dialect: GatewayDialect::Gemini, kind: RelayKind::Answer, path: "/v1beta/models" };

    /// Where answers are asked for in a dialect.
    pub(crate) fn of_answers(dialect: GatewayDialect) -> &'static str {
        let known = Self::FIXED.iter().find(|endpoint| endpoint.dialect == dialect);
        known.map_or(Self::GEMINI.path, |endpoint| endpoint.path)
    }

    /// What a request to `MODEL:METHOD` asks for. `query` is that of the address.
    ///
    /// # Errors
    /// The method is not served, or a stream is wanted in another form than as events.
    pub(crate) fn of_call(call: &str, query: Option<&str>) -> Result<(Self, PathCall), GatewayError> {
        let (model, method) = call.rsplit_once(':').unwrap_or((call, ""));
        let (kind, stream) = match method {
            "generateContent" => (RelayKind::Answer, false),
            "streamGenerateContent" => (RelayKind::Answer, true),
            "countTokens" => (RelayKind::TokenCount, false),
            _ => {
                let message =
                    "requests go to MODEL:generateContent, :streamGenerateContent?alt=sse or :countTokens";
                return Err(GatewayError::new(StatusCode::NOT_FOUND, "not_found", message));
            }
        };
        if stream && !query.unwrap_or_default().split('&').any(|pair| pair == "alt=sse") {
            return Err(GatewayError::bad_request(
                "a stream is one of events: add `?alt=sse` to the address",
            ));
        }
        Ok((Self { kind, ..Self::GEMINI }, PathCall { model: model.to_owned(), stream }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_model_and_the_method_are_in_the_address() {
        let read =
            |call, query| GatewayEndpoint::of_call(call, query).map(|(endpoint, call)| (endpoint.kind, call));
        let call = |stream| PathCall { model: "gemini-2.5-flash".into(), stream };
        assert_eq!(read("gemini-2.5-flash:generateContent", None).unwrap(), (RelayKind::Answer, call(false)));
        let stream = "gemini-2.5-flash:streamGenerateContent";
        assert_eq!(read(stream, Some("key=x&alt=sse")).unwrap(), (RelayKind::Answer, call(true)));
        assert_eq!(read(stream, None).unwrap_err().status, StatusCode::BAD_REQUEST);
        assert_eq!(read("gemini-2.5-flash:countTokens", None).unwrap(), (RelayKind::TokenCount, call(false)));
        for other in ["gemini-2.5-flash", "x:embedContent", ""] {
            assert_eq!(read(other, None).unwrap_err().status, StatusCode::NOT_FOUND, "{other}");
        }
    }
}
