//! The socket of a client: one that reads nothing is let go, and one that has sent all it has to send still gets its answer.

use core::pin::Pin;
use core::sync::atomic::{AtomicU8, Ordering};
use core::task::{Context, Poll, ready};
use core::time::Duration;
use std::io::{self, ErrorKind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::http::Version;
use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Interval, Sleep};
use tokio_rustls::server::TlsStream;
use tokio_util::task::task_tracker::TaskTrackerToken;

/// How long a client may take nothing of what is sent to it. Else one that does not read keeps an upstream call for ever.
pub(super) const TAKEN_WITHIN: Duration = Duration::from_secs(60);
/// What asks a client that sends no more whether it still listens: each client of HTTP/1.1 reads past it (RFC 9110, section 15.2), and
/// the system of one that has gone refuses it.
const PROBE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";
/// How often it is looked at whether the probe was refused.
const LOOK: Duration = Duration::from_millis(25);
/// So often an end is read again while the body of the request, which has come, has not been taken yet.
const MOST_DELAYS: u8 = 4;

/// A socket that fails once a write has waited too long.
pub(in crate::cli) struct ClientSocket {
    stream: TcpStream,
    /// When the write that waits has waited too long.
    due: Option<Pin<Box<Sleep>>>,
}

/// What has a socket below it.
pub(super) trait OverSocket {
    /// The socket.
    fn socket(&self) -> &TcpStream;
}

/// How far the request of a connection is.
#[derive(Clone, Debug, Default)]
pub(super) struct RequestPhase {
    phase: Arc<AtomicU8>,
    /// Held while the end of an answer is written.
    written: Arc<Mutex<Option<TaskTrackerToken>>>,
}

/// No request, or an answer that has begun: who closes then has gone.
const QUIET: u8 = 0;
/// The body is being read.
const BODY: u8 = 1;
/// The answer is being made.
const WAITS: u8 = 2;
/// The same, for a client that sends no more.
const HALF: u8 = 3;

/// A connection that may be half closed by its client. A client that has gone and one that only sends no more look the same, so
/// the latter is asked, once, before its answer begins.
pub(super) struct HalfStream<S> {
    stream: S,
    phase: RequestPhase,
    look: Option<Interval>,
    delays: u8,
}

/// The body of a request, which says when it has been read.
pub(super) struct PhasedBody {
    body: Incoming,
    phase: RequestPhase,
}

/// The body of an answer. Its request is in flight until the last of it is written.
pub(super) struct TrackedBody<B> {
    body: B,
    phase: RequestPhase,
    token: Option<TaskTrackerToken>,
}

impl ClientSocket {
    pub(super) const fn new(stream: TcpStream) -> Self {
        Self { stream, due: None }
    }

    /// Fails if a write has waited too long.
    fn written<T>(&mut self, cx: &mut Context<'_>, polled: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            self.due = None;
            return polled;
        }
        let due = self.due.get_or_insert_with(|| Box::pin(tokio::time::sleep(TAKEN_WITHIN)));
        ready!(due.as_mut().poll(cx));
        Poll::Ready(Err(ErrorKind::TimedOut.into()))
    }
}

impl OverSocket for ClientSocket {
    fn socket(&self) -> &TcpStream {
        &self.stream
    }
}

impl<S: OverSocket> OverSocket for TlsStream<S> {
    fn socket(&self) -> &TcpStream {
        self.get_ref().0.socket()
    }
}

impl AsyncRead for ClientSocket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for ClientSocket {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.written(cx, polled)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(cx, pieces);
        self.written(cx, polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

impl RequestPhase {
    /// A request has come. Before HTTP/1.1 there is nothing that asks its client, and proxies that speak HTTP/1.0 close the connection
    /// of a client that has gone.
    pub(super) fn begin(&self, version: Version, body: Incoming) -> PhasedBody {
        let first = match version {
            Version::HTTP_11 if body.is_end_stream() => WAITS,
            Version::HTTP_11 => BODY,
            _ => QUIET,
        };
        self.phase.store(first, Ordering::Relaxed);
        PhasedBody { body, phase: self.clone() }
    }

    /// The answer of a request that `token` tracks.
    pub(super) fn answer<B>(&self, body: B, token: TaskTrackerToken) -> TrackedBody<B> {
        TrackedBody { body, phase: self.clone(), token: Some(token) }
    }

    /// Whether the client sends no more.
    pub(super) fn is_half_closed(&self) -> bool {
        self.is(HALF)
    }

    fn is(&self, phase: u8) -> bool {
        self.phase.load(Ordering::Relaxed) == phase
    }

    fn written(&self) -> MutexGuard<'_, Option<TaskTrackerToken>> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, from: u8, to: u8) {
        let _ = self.phase.compare_exchange(from, to, Ordering::Relaxed, Ordering::Relaxed);
    }
}

impl<S: AsyncRead + AsyncWrite + OverSocket + Unpin> HalfStream<S> {
    pub(super) const fn new(stream: S, phase: RequestPhase) -> Self {
        Self { stream, phase, look: None, delays: 0 }
    }

    /// Whether the client may still listen, which has sent all. It is asked.
    fn may_listen(&mut self, cx: &mut Context<'_>) -> bool {
        let asked = self.phase.is(WAITS)
            && matches!(Pin::new(&mut self.stream).poll_write(cx, PROBE), Poll::Ready(Ok(sent)) if sent == PROBE.len())
            && !matches!(Pin::new(&mut self.stream).poll_flush(cx), Poll::Ready(Err(_)));
        if asked {
            self.phase.change(WAITS, HALF);
        }
        asked
    }

    /// Waits until the client has gone: its system has refused the probe, or what was sent since.
    fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let look = self.look.get_or_insert_with(|| tokio::time::interval(LOOK));
        loop {
            ready!(look.poll_tick(cx));
            if self.stream.socket().peer_addr().is_err() {
                return Poll::Ready(Err(ErrorKind::ConnectionReset.into()));
            }
        }
    }
}

impl<S: AsyncRead + AsyncWrite + OverSocket + Unpin> AsyncRead for HalfStream<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.phase.is_half_closed() {
            return this.poll_gone(cx);
        }
        let before = buf.filled().len();
        let read = ready!(Pin::new(&mut this.stream).poll_read(cx, buf));
        let has_ended = match &read {
            Ok(()) => buf.filled().len() == before,
            // Of TLS, whose client has closed without a word.
            Err(error) => error.kind() == ErrorKind::UnexpectedEof,
        };
        if !has_ended {
            return Poll::Ready(read);
        }
        // The end came with the rest of the body, which is taken in the next turn of this task.
        if this.phase.is(BODY) && this.delays < MOST_DELAYS {
            this.delays = this.delays.saturating_add(1);
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        if this.may_listen(cx) { this.poll_gone(cx) } else { Poll::Ready(read) }
    }
}

impl<S: AsyncRead + AsyncWrite + OverSocket + Unpin> AsyncWrite for HalfStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.phase.change(WAITS, QUIET);
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.phase.change(WAITS, QUIET);
        Pin::new(&mut self.stream).poll_write_vectored(cx, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = ready!(Pin::new(&mut self.stream).poll_flush(cx));
        // hyper flushes once nothing waits to be written.
        drop(self.phase.written().take());
        Poll::Ready(flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

impl Body for PhasedBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        if frame.is_none() || self.body.is_end_stream() {
            self.phase.change(BODY, WAITS);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl<B: Body + Unpin> Body for TrackedBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl<B> Drop for TrackedBody<B> {
    fn drop(&mut self) {
        *self.phase.written() = self.token.take();
    }
}
