//! Where clients send requests, and what these ask of a model.

use crate::host::gateway_dialect::GatewayDialect;
use crate::host::model::relay::RelayKind;

/// An address of the gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GatewayEndpoint {
    /// How its clients speak.
    pub(crate) dialect: GatewayDialect,
    pub(super) kind: RelayKind,
    pub(crate) path: &'static str,
}

impl GatewayEndpoint {
    /// All of them.
    pub(crate) const ALL: [Self; 6] = [
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

    /// Where answers are asked for in a dialect.
    pub(crate) fn of_answers(dialect: GatewayDialect) -> &'static str {
        let all = Self::ALL.iter().filter(|endpoint| endpoint.kind == RelayKind::Answer);
        all.into_iter().find(|endpoint| endpoint.dialect == dialect).map_or("/", |endpoint| endpoint.path)
    }
}
