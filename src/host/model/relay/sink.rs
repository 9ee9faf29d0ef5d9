//! Where the pieces of a streamed answer go.

use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use tokio::sync::{mpsc, oneshot};

use super::AnswerHead;
use crate::engine::Failure;
use crate::policy::ErrorClass;

/// Where the pieces of a streamed answer go. One piece waits at most: a client that reads slowly slows the model's server
/// down.
pub(in crate::host) struct AnswerSink {
    /// Whoever waits for the beginning; `None`: it has begun.
    head: Mutex<Option<oneshot::Sender<AnswerHead>>>,
    pieces: mpsc::Sender<Bytes>,
}

impl AnswerSink {
    /// The sink, its beginning, and its pieces.
    pub(in crate::host) fn new() -> (Self, oneshot::Receiver<AnswerHead>, mpsc::Receiver<Bytes>) {
        let (head, begun) = oneshot::channel();
        let (pieces, read) = mpsc::channel(1);
        (Self { head: Mutex::new(Some(head)), pieces }, begun, read)
    }

    /// Whether the client has some of an answer.
    pub(in crate::host) fn has_begun(&self) -> bool {
        self.head.lock().unwrap_or_else(PoisonError::into_inner).is_none()
    }

    /// The content begins.
    pub(super) fn begin(&self, head: AnswerHead) {
        let waiting = self.head.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(waiting) = waiting {
            // A client that has gone does not wait.
            let _ = waiting.send(head);
        }
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
