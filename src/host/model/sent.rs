//! The body of a request as it is sent: its pieces, one after the other, of which none is copied.

use core::convert::Infallible;
use core::pin::Pin;
use core::task::{Context, Poll};
use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};
use hyper::body::{Body, Frame, SizeHint};

/// The body of a request.
#[derive(Clone, Debug, Default)]
pub(in crate::host) struct SentBody(VecDeque<Bytes>);

impl SentBody {
    /// A body of these pieces.
    pub(in crate::host) fn of(pieces: impl IntoIterator<Item = Bytes>) -> Self {
        // hyper takes an empty piece for the end of what it writes.
        Self(pieces.into_iter().filter(|piece| !piece.is_empty()).collect())
    }

    /// All of it in one piece.
    pub(in crate::host) fn whole(mut self) -> Bytes {
        if self.0.len() <= 1 {
            return self.0.pop_front().unwrap_or_default();
        }
        let mut whole = BytesMut::with_capacity(self.len());
        self.0.iter().for_each(|piece| whole.extend_from_slice(piece));
        whole.freeze()
    }

    fn len(&self) -> usize {
        self.0.iter().map(Bytes::len).fold(0, usize::saturating_add)
    }
}

impl<B: Into<Bytes>> From<B> for SentBody {
    fn from(body: B) -> Self {
        Self::of([body.into()])
    }
}

impl From<SentBody> for reqwest::Body {
    fn from(mut body: SentBody) -> Self {
        if body.0.len() <= 1 {
            return body.0.pop_front().unwrap_or_default().into();
        }
        Self::wrap(body)
    }
}

impl Body for SentBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.pop_front().map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_empty()
    }

    /// Exact, so that the headers say the length and no server has to read chunks.
    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(u64::try_from(self.len()).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn pieces_are_sent_as_one_body_of_known_length() {
        let (listener, piece) =
            (tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap(), Bytes::from("ab"));
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let sent = SentBody::of([piece.clone(), Bytes::new(), Bytes::from("cd"), piece]);
        assert_eq!(sent.clone().whole(), "abcdab");
        let asking = tokio::spawn(reqwest::Client::new().post(url).body(reqwest::Body::from(sent)).send());
        let (stream, _) = listener.accept().await.unwrap();
        let mut read = Vec::new();
        while !read.ends_with(b"abcdab") {
            stream.readable().await.unwrap();
            let _ = stream.try_read_buf(&mut read);
        }
        let read = String::from_utf8(read).unwrap().to_lowercase();
        assert!(read.contains("content-length: 6\r\n") && !read.contains("chunked"), "{read}");
        asking.abort();
    }
}
