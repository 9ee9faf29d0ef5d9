//! The body of a request, which is bounded in size and in time.

use core::time::Duration;

use axum::body::{Body, HttpBody};
use axum::http::StatusCode;
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;

/// How long the rest of a body is read that is too large.
const REST_WITHIN: Duration = Duration::from_secs(5);

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

/// The bytes of a body. One that is too large is refused as soon as that is known, and read on for a while: a client that is still
/// sending may lose the answer when the connection closes (RFC 9112, section 9.6).
///
/// # Errors
/// There are more than `most`, they do not come within that time, or they cannot be read.
pub(in crate::cli) async fn read_body(
    body: Body,
    most: usize,
    within: Duration,
) -> Result<Bytes, BodyRefusal> {
    let announced = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    let mut pieces = body.into_data_stream();
    let reading = async {
        let mut whole = BytesMut::new();
        if announced > most {
            return Err(BodyRefusal::TooLarge);
        }
        while let Some(piece) = pieces.next().await {
            let piece = piece.map_err(|_| BodyRefusal::Broken)?;
            if whole.len().saturating_add(piece.len()) > most {
                return Err(BodyRefusal::TooLarge);
            }
            whole.extend_from_slice(&piece);
        }
        Ok(whole.freeze())
    };
    let read = tokio::time::timeout(within, reading).await.unwrap_or(Err(BodyRefusal::Late));
    if read == Err(BodyRefusal::TooLarge) {
        let rest = async move { while let Some(Ok(_)) = pieces.next().await {} };
        // Meanwhile the answer goes out.
        tokio::spawn(tokio::time::timeout(REST_WITHIN, rest));
    }
    read
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
    /// What a client sends without end, and whether anybody reads it.
    fn endless() -> (Body, std::sync::Arc<()>) {
        let held = std::sync::Arc::new(());
        let reads = std::sync::Arc::clone(&held);
        let pieces = stream::repeat_with(move || {
            let _ = &reads;
            Ok::<_, io::Error>(Bytes::from_static(b"abc"))
        });
        (
            Body::from_stream(pieces.then(|piece| async {
                tokio::time::sleep(Duration::from_millis(1)).await;
                piece
            })),
            held,
        )
    }

    #[tokio::test(start_paused = true)]
    async fn one_without_end_is_refused_at_once_and_not_read_for_long() {
        let (body, held) = endless();
        let began = tokio::time::Instant::now();
        assert_eq!(read_body(body, 5, Duration::from_secs(60)).await, Err(BodyRefusal::TooLarge));
        assert!(began.elapsed() < Duration::from_millis(5), "{:?}", began.elapsed());
        tokio::time::sleep(REST_WITHIN / 2).await;
        assert_eq!(std::sync::Arc::strong_count(&held), 2, "the rest is read");
        tokio::time::sleep(REST_WITHIN).await;
        assert_eq!(std::sync::Arc::strong_count(&held), 1, "and not for ever");
    }
}
