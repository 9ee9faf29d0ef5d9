//! Connections that the server can break off, as a machine does that goes down.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

/// A listener whose connections can be broken off.
pub(super) struct BreakableListener {
    listener: TcpListener,
    /// Breaks all connections.
    all: CancellationToken,
}

/// A connection, broken when its token fires.
pub(super) struct BreakableConnection {
    stream: TcpStream,
    token: CancellationToken,
    broken: Pin<Box<WaitForCancellationFutureOwned>>,
}

/// What breaks the connection a request came on.
#[derive(Clone)]
pub(super) struct ConnectionBreaker(pub(super) CancellationToken);

impl BreakableListener {
    pub(super) fn new(listener: TcpListener, all: CancellationToken) -> Self {
        Self { listener, all }
    }
}

impl Listener for BreakableListener {
    type Io = BreakableConnection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (BreakableConnection, SocketAddr) {
        let (stream, from) = Listener::accept(&mut self.listener).await;
        // Without this every second small answer waits for a delayed acknowledgement, 40 ms.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "TCP_NODELAY cannot be set");
        }
        let token = self.all.child_token();
        let broken = Box::pin(token.clone().cancelled_owned());
        (BreakableConnection { stream, token, broken }, from)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

impl Connected<IncomingStream<'_, BreakableListener>> for ConnectionBreaker {
    fn connect_info(stream: IncomingStream<'_, BreakableListener>) -> Self {
        Self(stream.io().token.clone())
    }
}

impl BreakableConnection {
    /// The stream, unless it is broken; whoever waits on it continues when it breaks.
    fn whole(self: Pin<&mut Self>, cx: &mut Context<'_>) -> io::Result<Pin<&mut TcpStream>> {
        let this = self.get_mut();
        match this.broken.as_mut().poll(cx) {
            Poll::Ready(()) => Err(io::ErrorKind::ConnectionReset.into()),
            Poll::Pending => Ok(Pin::new(&mut this.stream)),
        }
    }
}

impl AsyncRead for BreakableConnection {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.whole(cx)?.poll_read(cx, buf)
    }
}

impl AsyncWrite for BreakableConnection {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.whole(cx)?.poll_write(cx, buf)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.whole(cx)?.poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.whole(cx)?.poll_shutdown(cx)
    }
}
