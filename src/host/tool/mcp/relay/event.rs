//! What comes over a connection.

use std::sync::{Arc, Mutex};

use crate::host::ToolError;

/// What comes from the server.
pub(super) enum LinkEvent {
    Line(String),
    /// The request of that number has no answer, and will have none.
    Lost(u64, ToolError),
}

/// Why a server is not reached any more, once that is known.
pub(super) type EndReason = Arc<Mutex<Option<String>>>;
