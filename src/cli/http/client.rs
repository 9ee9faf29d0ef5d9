//! The socket of a client: one that reads nothing is let go, and one that has sent all it has to send still gets its answer.

use core::future::poll_fn;
use core::pin::Pin;
use core::sync::atomic::{AtomicU8, Ordering};
use core::task::{Context, Poll, ready};
use core::time::Duration;
use std::io::{self, ErrorKind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::http::Version;
use axum::http::header::EXPECT;
use axum::http::request::Parts;
use bytes::Bytes;
use futures_util::FutureExt;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use rustls::ProtocolVersion;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf, Ready};
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio::time::{Interval, MissedTickBehavior, Sleep};
use tokio_rustls::server::TlsStream;
use tokio_util::task::task_tracker::TaskTrackerToken;

/// How long a client may take nothing of what is sent to it. Else one that does not read keeps an upstream call for ever.
pub(super) const TAKEN_WITHIN: Duration = Duration::from_secs(60);
/// What asks a client that sends no more whether it still listens: each client of HTTP/1.1 reads past it (RFC 9110, section 15.2), and
/// the system of one that has gone refuses it.
const PROBE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";
/// How often it is looked at whether a client has gone.
const LOOK: Duration = Duration::from_millis(35);
/// So much behind a request may fill what the system takes for it: then that of the client cannot say that it has gone.
const MUCH: usize = 16 << 10;
/// How long the rest of a body is read that nobody takes, and how much of it.
pub(super) const REST_WITHIN: Duration = Duration::from_secs(5);
const MOST_REST: usize = 256 << 20;
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

    /// Whether a client that says that it sends no more takes no answer either.
    fn ends_both_ways(&self) -> bool {
        false
    }
}

/// How far the request of a connection is.
#[derive(Clone, Debug, Default)]
pub(super) struct RequestPhase {
    phase: Arc<AtomicU8>,
    /// Held while the end of an answer is written.
    written: Arc<Mutex<Option<TaskTrackerToken>>>,
}

/// No request.
const IDLE: u8 = 0;
/// The body is being read.
const BODY: u8 = 1;
/// The answer is being made.
const WAITS: u8 = 2;
/// The same, for a client that sends no more.
const HALF: u8 = 3;
/// The answer goes out, or is made for a client of HTTP/1.0: who closes then has gone.
const ANSWERS: u8 = 4;
/// The answer goes out to a client that sends no more.
const HALF_ANSWERS: u8 = 5;

/// A connection that may be half closed by its client. A client that has gone and one that only sends no more look the same, so
/// the latter is asked until its answer begins: at once, and then a byte at a time, so that it has not much to read past.
pub(super) struct HalfStream<S> {
    stream: S,
    phase: RequestPhase,
    look: Option<Interval>,
    delays: u8,
    /// How much of a probe is out.
    asked: usize,
}

/// The body of a request, which says when it has been read. What nobody takes of it is read on for a while: a client that is still
/// sending may lose the answer when the connection closes (RFC 9112, section 9.6).
pub(super) struct PhasedBody {
    /// `None`: it has been read.
    body: Option<Incoming>,
    phase: RequestPhase,
    /// What comes after it.
    then: u8,
    /// Whether the client sends it once it is asked for (`Expect: 100-continue`).
    is_expected: bool,
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

    // RFC 5246, section 7.2.1. Since TLS 1.3 each direction ends by itself (RFC 8446, section 6.1).
    fn ends_both_ways(&self) -> bool {
        self.get_ref().1.protocol_version() == Some(ProtocolVersion::TLSv1_2)
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
    pub(super) fn begin(&self, head: &Parts, body: Incoming) -> PhasedBody {
        let then = if head.version == Version::HTTP_11 { WAITS } else { ANSWERS };
        self.phase.store(if body.is_end_stream() { then } else { BODY }, Ordering::Relaxed);
        let is_expected = head.headers.contains_key(EXPECT);
        PhasedBody { body: Some(body), phase: self.clone(), then, is_expected }
    }

    /// The answer of a request that `token` tracks.
    pub(super) fn answer<B>(&self, body: B, token: TaskTrackerToken) -> TrackedBody<B> {
        self.change(WAITS, ANSWERS);
        self.change(HALF, HALF_ANSWERS);
        TrackedBody { body, phase: self.clone(), token: Some(token) }
    }

    /// Whether the client sends no more.
    pub(super) fn is_half_closed(&self) -> bool {
        matches!(self.now(), HALF | HALF_ANSWERS)
    }

    fn is(&self, phase: u8) -> bool {
        self.now() == phase
    }

    fn now(&self) -> u8 {
        self.phase.load(Ordering::Relaxed)
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
        Self { stream, phase, look: None, delays: 0, asked: 0 }
    }

    /// Whether the client may still listen, which has sent all. It is asked.
    fn may_listen(&mut self, cx: &mut Context<'_>) -> bool {
        let asked = self.phase.is(WAITS)
            && matches!(self.poll_ask(cx, PROBE.len()), Poll::Ready(Ok(())))
            && self.asked == 0;
        if asked {
            self.phase.change(WAITS, HALF);
        }
        asked
    }

    /// Sends so many bytes of the probe, or those up to its end.
    fn poll_ask(&mut self, cx: &mut Context<'_>, most: usize) -> Poll<io::Result<()>> {
        let rest = PROBE.get(self.asked..).unwrap_or_default();
        let sent = ready!(Pin::new(&mut self.stream).poll_write(cx, rest.get(..most).unwrap_or(rest)))?;
        self.asked = self.asked.saturating_add(sent);
        if self.asked >= PROBE.len() {
            self.asked = 0;
        }
        match Pin::new(&mut self.stream).poll_flush(cx) {
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            _ => Poll::Ready(Ok(())),
        }
    }

    /// Ends a probe that has begun: the answer comes behind it.
    fn poll_asked(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.asked > 0 {
            ready!(self.poll_ask(cx, PROBE.len()))?;
        }
        Poll::Ready(Ok(()))
    }

    /// Waits until the client has gone: its system has refused the probe, or what was sent since. One that had read all before it
    /// closed says nothing, so it is asked again.
    fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            ready!(self.poll_look(cx));
            if self.stream.socket().peer_addr().is_err() {
                return Poll::Ready(Err(ErrorKind::ConnectionReset.into()));
            }
            if self.phase.is(HALF)
                && let Poll::Ready(Err(error)) = self.poll_ask(cx, 1)
            {
                return Poll::Ready(Err(error));
            }
        }
    }

    fn poll_look(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let look = self.look.get_or_insert_with(|| {
            let mut look = tokio::time::interval(LOOK);
            // Nobody looks between requests, and what was missed then is not made up for.
            look.set_missed_tick_behavior(MissedTickBehavior::Delay);
            look
        });
        look.poll_tick(cx).map(drop)
    }

    /// Fails if the client has gone whose request is in flight. hyper looks only as long as nothing lies behind the request: the line
    /// break of an old client (RFC 9112, section 2.2), or the next request.
    fn look_behind(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        match self.phase.now() {
            IDLE | BODY => return Ok(()),
            WAITS | ANSWERS => {
                if !self.has_ended_behind(cx)? {
                    return Ok(());
                }
                if !self.may_listen(cx) {
                    return Err(ErrorKind::ConnectionReset.into());
                }
            }
            _ => {}
        }
        // Whoever was asked just now is looked at from now on.
        match self.poll_gone(cx) {
            Poll::Ready(gone) => gone,
            Poll::Pending => Ok(()),
        }
    }

    /// Whether the client sends no more than what has come.
    fn has_ended_behind(&mut self, cx: &mut Context<'_>) -> io::Result<bool> {
        let mut byte = [0];
        match self.stream.socket().poll_peek(cx, &mut ReadBuf::new(&mut byte)) {
            Poll::Pending => return Ok(false),
            Poll::Ready(Ok(0)) => return Ok(true),
            Poll::Ready(peeked) => peeked.map(drop)?,
        }
        // It is ready as long as nobody takes what lies there.
        let ready = self.stream.socket().ready(Interest::READABLE).now_or_never().transpose()?;
        let has_ended = ready.is_some_and(Ready::is_read_closed);
        while !has_ended && self.poll_look(cx).is_ready() {
            // It is asked a byte at a time, like one that sends no more.
            if self.phase.is(WAITS)
                && self.has_much_behind(cx)
                && let Poll::Ready(Err(error)) = self.poll_ask(cx, 1)
            {
                return Err(error);
            }
        }
        Ok(has_ended)
    }

    fn has_much_behind(&self, cx: &mut Context<'_>) -> bool {
        let mut behind = vec![0; MUCH];
        let peeked = self.stream.socket().poll_peek(cx, &mut ReadBuf::new(&mut behind));
        matches!(peeked, Poll::Ready(Ok(MUCH)))
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
        let says_so = read.is_ok() && buf.filled().len() == before;
        // Of TLS, whose client has closed without a word.
        let has_ended = says_so || read.as_ref().is_err_and(|error| error.kind() == ErrorKind::UnexpectedEof);
        if !has_ended {
            return Poll::Ready(read);
        }
        // The end came with the rest of the body, which is taken in the next turn of this task.
        if this.phase.is(BODY) && this.delays < MOST_DELAYS {
            this.delays = this.delays.saturating_add(1);
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let has_gone = says_so && this.stream.ends_both_ways();
        if !has_gone && this.may_listen(cx) { this.poll_gone(cx) } else { Poll::Ready(read) }
    }
}

impl<S: AsyncRead + AsyncWrite + OverSocket + Unpin> AsyncWrite for HalfStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        ready!(self.poll_asked(cx))?;
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_asked(cx))?;
        Pin::new(&mut self.stream).poll_write_vectored(cx, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.stream).poll_flush(cx))?;
        // hyper flushes once nothing waits to be written, and whenever it is polled.
        if self.phase.written().take().is_some() {
            self.phase.change(ANSWERS, IDLE);
        }
        Poll::Ready(self.look_behind(cx))
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
        let this = &mut *self;
        let Some(body) = &mut this.body else { return Poll::Ready(None) };
        this.is_expected = false;
        let frame = ready!(Pin::new(&mut *body).poll_frame(cx));
        if !matches!(frame, Some(Ok(_))) || body.is_end_stream() {
            this.body = None;
        }
        if this.body.is_none() && !matches!(frame, Some(Err(_))) {
            this.phase.change(BODY, this.then);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Incoming::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(|| SizeHint::with_exact(0), Incoming::size_hint)
    }
}

impl Drop for PhasedBody {
    fn drop(&mut self) {
        let Some(rest) = self.body.take().filter(|body| !self.is_expected && !body.is_end_stream()) else {
            return;
        };
        // Meanwhile the answer goes out.
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(async move { tokio::time::timeout(REST_WITHIN, read_on(rest)).await });
        }
    }
}

/// Reads what comes of a body, to no end.
async fn read_on(mut rest: Incoming) {
    let mut most = MOST_REST;
    while let Some(Ok(piece)) = poll_fn(|cx| Pin::new(&mut rest).poll_frame(cx)).await {
        let Some(left) = most.checked_sub(piece.data_ref().map_or(0, Bytes::len)) else { return };
        most = left;
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

#[cfg(test)]
mod tests;
