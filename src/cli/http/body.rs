//! The body of a request, which is bounded in size and in time.

use core::time::Duration;

use axum::body::Body;
use axum::http::StatusCode;
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;

/// Why a body is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cli) enum BodyRefusal {
    /// It has too many bytes.
    TooLarge,
    /// It did not come in time.
    Late,
    /// It broke off, or its chunks are none.
    Broken,
}

impl BodyRefusal {
    /// The status that says so (RFC 9110, section 15.5).
    pub(in crate::cli) const fn status(self) -> StatusCode {
        match self {
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Late => StatusCode::REQUEST_TIMEOUT,
            Self::Broken => StatusCode::BAD_REQUEST,
        }
    }
}

/// The bytes of a body. The rest of one that is too large is read as well: a client that is still sending may lose the answer when
/// the connection closes (RFC 9112, section 9.6).
///
/// # Errors
/// There are more than `most`, they do not come within that time, or they cannot be read.
pub(in crate::cli) async fn read_body(
    body: Body,
    most: usize,
    within: Duration,
) -> Result<Bytes, BodyRefusal> {
    let reading = async {
        let (mut whole, mut fits) = (BytesMut::new(), true);
        let mut pieces = body.into_data_stream();
        while let Some(piece) = pieces.next().await {
            let piece = piece.map_err(|_| BodyRefusal::Broken)?;
            fits = fits && whole.len().saturating_add(piece.len()) <= most;
            if fits {
                whole.extend_from_slice(&piece);
            } else {
                whole = BytesMut::new();
            }
        }
        if fits { Ok(whole.freeze()) } else { Err(BodyRefusal::TooLarge) }
    };
    tokio::time::timeout(within, reading).await.unwrap_or(Err(BodyRefusal::Late))
}

#[cfg(test)]
mod tests {
    use std::io;

    use futures_util::stream;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_body_that_is_not_taken_says_why() {
        let read = |body| read_body(body, 2, Duration::from_secs(60));
        assert_eq!(read(Body::from("ab")).await, Ok(Bytes::from_static(b"ab")));
        assert_eq!(read(Body::from("abc")).await, Err(BodyRefusal::TooLarge));
        let late = Body::from_stream(stream::pending::<io::Result<Bytes>>());
        assert_eq!(read(late).await, Err(BodyRefusal::Late));
        let broken = Body::from_stream(stream::iter([Err::<Bytes, _>(io::Error::other("cut"))]));
        assert_eq!(read(broken).await, Err(BodyRefusal::Broken));
    }
}
