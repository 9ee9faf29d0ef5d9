//! The body of a request, which is bounded in size and in time.

use core::time::Duration;
use std::sync::Arc;

use axum::body::{Body, HttpBody};
use axum::http::StatusCode;
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// How many bytes of bodies are held at once: each is in memory several times until its answer has ended.
pub(in crate::cli) const MOST_HELD: usize = 256 << 20;
/// How long a body waits for room.
const ROOM_WITHIN: Duration = Duration::from_secs(5);

/// Why a body is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cli) enum BodyRefusal {
    /// It has too many bytes.
    TooLarge,
    /// It did not come in time.
    Late,
    /// It broke off, or its chunks are none.
    Broken,
    /// There is no room for it beside those of other requests.
    NoRoom,
}

/// The room for the bodies of all requests.
#[derive(Clone)]
pub(in crate::cli) struct BodyRoom(Arc<Semaphore>);

/// The room that a body takes, until this is dropped.
pub(in crate::cli) type HeldRoom = OwnedSemaphorePermit;

impl BodyRoom {
    /// Room for so many bytes.
    pub(in crate::cli) fn new(most: usize) -> Self {
        Self(Arc::new(Semaphore::new(most)))
    }

    /// Waits for room for so many bytes more.
    async fn take(&self, bytes: usize) -> Result<HeldRoom, BodyRefusal> {
        let bytes = u32::try_from(bytes).map_err(|_| BodyRefusal::TooLarge)?;
        let taken = Arc::clone(&self.0).acquire_many_owned(bytes);
        let taken = tokio::time::timeout(ROOM_WITHIN, taken).await;
        // Nobody closes the semaphore.
        taken.ok().and_then(Result::ok).ok_or(BodyRefusal::NoRoom)
    }
}

impl BodyRefusal {
    /// The status that says so (RFC 9110, section 15.5).
    pub(in crate::cli) const fn status(self) -> StatusCode {
        match self {
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Late => StatusCode::REQUEST_TIMEOUT,
            Self::Broken => StatusCode::BAD_REQUEST,
            Self::NoRoom => StatusCode::SERVICE_UNAVAILABLE,
        }
    }
}

/// The bytes of a body, and the room that they take. A body that is too large is refused as soon as that is known. Room is taken for
/// what has come, so that who announces much and sends little holds up nobody.
///
/// # Errors
/// There are more than `most`, they do not come within that time, they cannot be read, or there is no room for them.
pub(in crate::cli) async fn read_body(
    body: Body,
    most: usize,
    within: Duration,
    room: &BodyRoom,
) -> Result<(Bytes, HeldRoom), BodyRefusal> {
    let announced = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    let mut pieces = body.into_data_stream();
    let reading = async {
        if announced > most {
            return Err(BodyRefusal::TooLarge);
        }
        let mut whole = BytesMut::new();
        let mut held = room.take(0).await?;
        while let Some(piece) = pieces.next().await {
            let piece = piece.map_err(|_| BodyRefusal::Broken)?;
            if whole.len().saturating_add(piece.len()) > most {
                return Err(BodyRefusal::TooLarge);
            }
            held.merge(room.take(piece.len()).await?);
            whole.extend_from_slice(&piece);
        }
        Ok((whole.freeze(), held))
    };
    tokio::time::timeout(within, reading).await.unwrap_or(Err(BodyRefusal::Late))
}

#[cfg(test)]
mod tests {
    use std::io;

    use futures_util::stream;

    use super::*;

    async fn read(body: Body, most: usize, room: &BodyRoom) -> Result<(Bytes, HeldRoom), BodyRefusal> {
        read_body(body, most, Duration::from_secs(60), room).await
    }

    #[tokio::test(start_paused = true)]
    async fn bodies_have_room_for_so_many_bytes_together() {
        let room = BodyRoom::new(5);
        // What is announced takes none.
        let announced = Body::from_stream(stream::pending::<io::Result<Bytes>>());
        let late = tokio::spawn({
            let room = room.clone();
            async move { read(announced, 5, &room).await.map(drop) }
        });
        let (_, first) = read(Body::from("abc"), 5, &room).await.unwrap();
        let (_, second) = read(Body::from("ab"), 5, &room).await.unwrap();
        let began = tokio::time::Instant::now();
        assert_eq!(read(Body::from("a"), 5, &room).await.map(drop), Err(BodyRefusal::NoRoom));
        assert_eq!(began.elapsed(), ROOM_WITHIN);
        // One that waits gets the room that is made.
        let waits = tokio::spawn({
            let room = room.clone();
            async move { read(Body::from("abc"), 5, &room).await.map(|(bytes, _)| bytes) }
        });
        tokio::time::sleep(ROOM_WITHIN / 2).await;
        drop(first);
        assert_eq!(waits.await.unwrap().unwrap(), "abc");
        drop(second);
        assert_eq!(late.await.unwrap(), Err(BodyRefusal::Late));
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_is_not_taken_says_why() {
        let read = async |body| read(body, 2, &BodyRoom::new(9)).await.map(|(bytes, _)| bytes);
        assert_eq!(read(Body::from("ab")).await, Ok(Bytes::from_static(b"ab")));
        assert_eq!(read(Body::from("abc")).await, Err(BodyRefusal::TooLarge));
        let late = Body::from_stream(stream::pending::<io::Result<Bytes>>());
        assert_eq!(read(late).await, Err(BodyRefusal::Late));
        let broken = Body::from_stream(stream::iter([Err::<Bytes, _>(io::Error::other("cut"))]));
        assert_eq!(read(broken).await, Err(BodyRefusal::Broken));
    }

    #[tokio::test(start_paused = true)]
    async fn one_without_end_is_refused_at_once() {
        let endless = stream::repeat_with(|| Ok::<_, io::Error>(Bytes::from_static(b"abc")));
        let began = tokio::time::Instant::now();
        let refused = read(Body::from_stream(endless), 5, &BodyRoom::new(9)).await;
        assert_eq!((refused.map(drop), began.elapsed()), (Err(BodyRefusal::TooLarge), Duration::ZERO));
    }
}
