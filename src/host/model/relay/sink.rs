//! Where the pieces of a streamed answer go.

use std::sync::OnceLock;

use bytes::Bytes;
use tokio::sync::mpsc;

use super::AnswerHead;
use crate::engine::Failure;
use crate::policy::ErrorClass;

/// Where the pieces of a streamed answer go. One piece waits at most: a client that reads slowly slows the model's server
/// down.
pub(in crate::host) struct AnswerSink {
    /// Its beginning, once there is one.
    head: OnceLock<AnswerHead>,
    pieces: mpsc::Sender<Bytes>,
}

impl AnswerSink {
    /// The sink, and its pieces.
    pub(in crate::host) fn new() -> (Self, mpsc::Receiver<Bytes>) {
        let (pieces, read) = mpsc::channel(1);
        (Self { head: OnceLock::new(), pieces }, read)
    }

    /// The beginning of the answer, if the client has it.
    pub(in crate::host) fn head(&self) -> Option<&AnswerHead> {
        self.head.get()
    }

    /// Whether the client has some of an answer.
    pub(in crate::host) fn has_begun(&self) -> bool {
        self.head().is_some()
    }

    /// The content begins.
    pub(super) fn begin(&self, head: AnswerHead) {
        // It begins once.
        let _ = self.head.set(head);
    }

    /// The next piece, once the client has taken the last one.
    ///
    /// # Errors
    /// The client has gone.
    pub(super) async fn piece(&self, piece: Bytes) -> Result<(), Failure> {
        if piece.is_empty() {
            return Ok(());
        }
        let sent = self.pieces.send(piece).await;
        sent.map_err(|_| Failure::of(ErrorClass::Cancelled, "the client has gone"))
    }
}
