//! The body of a request, which is bounded in size and in time.

use core::time::Duration;

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;

/// The bytes of a body; `None`: there are more than `most`, or they do not come within that time. The rest of one that is too
/// large is read as well: a client that is still sending may lose the answer when the connection closes (RFC 9112, section 9.6).
pub(in crate::cli) async fn read_body(body: Body, most: usize, within: Duration) -> Option<Bytes> {
    let reading = async {
        let (mut whole, mut fits) = (BytesMut::new(), true);
        let mut pieces = body.into_data_stream();
        while let Some(piece) = pieces.next().await {
            let piece = piece.ok()?;
            fits = fits && whole.len().saturating_add(piece.len()) <= most;
            if fits {
                whole.extend_from_slice(&piece);
            } else {
                whole = BytesMut::new();
            }
        }
        fits.then(|| whole.freeze())
    };
    tokio::time::timeout(within, reading).await.ok().flatten()
}
