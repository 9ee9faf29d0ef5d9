//! `timeouts:` of a model: how long each step of one call may take.

use super::lasting::Lasting;
use crate::policy::merge::layer;
use crate::policy::{Bound, ModelTimeouts};

layer! {
    /// How long each step of one model call may take. The whole call may take as long as `retry.attempt_timeout` says.
    /// Example: `{"first_token": "2m", "idle": "30s"}`
    pub(crate) struct TimeoutsLayer => MergedTimeouts {
        leaves {
            /// Until there is a connection.
            /// Example: `5s`
            connect: Lasting<Bound>,
            /// Of an answer that is streamed: from the start of the call until the first piece of text, of reasoning or of a
            /// tool call. What only keeps the connection alive does not count.
            /// Example: `2m`
            first_token: Lasting<Bound>,
            /// From then on, and in an answer that is not streamed from its first byte on: how long nothing at all may come.
            /// Example: `30s`
            idle: Lasting<Bound>,
        }
    }
}

impl MergedTimeouts {
    /// The plain values; `None` if the layers leave one open, which the built-in default does not.
    pub(crate) fn policy(&self) -> Option<ModelTimeouts> {
        Some(ModelTimeouts {
            connect: self.connect.setting()?,
            first_token: self.first_token.setting()?,
            idle: self.idle.setting()?,
        })
    }
}
