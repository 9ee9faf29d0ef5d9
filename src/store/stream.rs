//! Records that are read while others are made of them.

use futures_util::stream::{BoxStream, poll_fn};
use tokio::sync::mpsc;

use super::StoreError;
use crate::engine::Record;

/// So many records are read ahead.
const READ_AHEAD: usize = 64;

/// The records of a session, one after the other.
pub type RecordStream = BoxStream<'static, Result<Record, StoreError>>;

/// The records that an iterator reads. It may block: it runs on a thread for such work, a few records ahead of its reader.
/// Must be called within a tokio runtime.
pub fn record_stream(
    records: impl Iterator<Item = Result<Record, StoreError>> + Send + 'static,
) -> RecordStream {
    let (sender, mut receiver) = mpsc::channel(READ_AHEAD);
    tokio::task::spawn_blocking(move || {
        for record in records {
            // The reader of the stream is gone.
            if sender.blocking_send(record).is_err() {
                return;
            }
        }
    });
    Box::pin(poll_fn(move |cx| receiver.poll_recv(cx)))
}
