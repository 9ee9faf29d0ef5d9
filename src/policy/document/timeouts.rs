//! `timeouts:` of a model: how long each step of one call may take.

use super::lasting::NonZeroTime;

use crate::policy::TimeBound;
use crate::policy::form::{Block, Effective, Form};

/// How long each step of one model call may take. The whole call may take as long as `retry.attempt_timeout` says.
/// Example: `{"first_token": "2m", "idle": "30s"}`
#[derive(Clone, Debug, Block)]
pub struct ModelTimeouts<F: Form = Effective> {
    /// Until there is a connection.
    /// Checks: W0226.
    /// Example: `5s`
    #[key(looser = More)]
    pub connect: F::Of<NonZeroTime<TimeBound>>,
    /// Of an answer that is streamed: from the start of the call until the first piece of text, of reasoning or of a
    /// tool call. What only keeps the connection alive does not count.
    /// Checks: W0226.
    /// Example: `2m`
    #[key(looser = More)]
    pub first_token: F::Of<NonZeroTime<TimeBound>>,
    /// From then on, and in an answer that is not streamed from its first byte on: how long nothing at all may come.
    /// Checks: W0226.
    /// Example: `30s`
    #[key(looser = More)]
    pub idle: F::Of<NonZeroTime<TimeBound>>,
}
