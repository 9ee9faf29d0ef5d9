//! Why an agent file makes no gateway.

use super::error::AgentFileError;
use crate::host::gateway::GatewayPolicyError;

/// Why there is no gateway.
#[derive(Debug, thiserror::Error)]
pub(crate) enum GatewayFileError {
    /// Its policy cannot be used for a gateway.
    #[error(transparent)]
    Policy(#[from] GatewayPolicyError),
    /// A model or a key cannot be used.
    #[error(transparent)]
    File(#[from] AgentFileError),
    /// The file cannot be read again.
    #[error("cannot read {path}: {}", crate::host::file_error(source))]
    Unread {
        /// The file.
        path: String,
        /// Why.
        source: std::io::Error,
    },
}
