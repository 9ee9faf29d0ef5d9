//! The connections of clients that are not trusted: how many there are, how long their headers may take, and when they end.

use core::time::Duration;
use std::pin::pin;
use std::sync::Arc;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::TlsServer;

/// The most connections at once; further ones wait until one ends.
const MOST_CONNECTIONS: usize = 2048;
/// How long the headers of a request may take, and how long a connection is kept that has none.
const HEADERS_WITHIN: Duration = Duration::from_secs(30);
/// The most headers of a request; more of them are refused with status 431.
const MOST_HEADERS: usize = 100;
/// The most bytes of a request's headers.
const MOST_HEADER_BYTES: usize = 64 << 10;
/// How long nobody is let in when the system lets nobody in: it has no more files, for one.
const PAUSE: Duration = Duration::from_millis(50);

/// Serves clients until `stop` fires, and then those who are being served for at most `drain`. New ones are let in meanwhile: the
/// router tells them that they are too late. With `tls` they are secured; their handshakes count as connections.
pub(in crate::cli) async fn serve(
    listener: TcpListener,
    tls: Option<Arc<TlsServer>>,
    router: Router,
    stop: CancellationToken,
    drain: Duration,
) {
    let (open, permits) = (TaskTracker::new(), Arc::new(Semaphore::new(MOST_CONNECTIONS)));
    let leave = CancellationToken::new();
    let accepting = async {
        loop {
            // Nobody closes the semaphore.
            let Ok(permit) = Arc::clone(&permits).acquire_owned().await else { return };
            let Ok((stream, _)) = listener.accept().await else {
                tokio::time::sleep(PAUSE).await;
                continue;
            };
            let (tls, router, stop, leave) = (tls.clone(), router.clone(), stop.clone(), leave.clone());
            open.spawn(async move {
                tokio::select! {
                    () = connection(stream, tls, router, stop) => {}
                    () = leave.cancelled() => {}
                }
                drop(permit);
            });
        }
    };
    let mut accepting = pin!(accepting);
    tokio::select! {
        () = &mut accepting => {}
        () = stop.cancelled() => {}
    }
    open.close();
    tokio::select! {
        () = open.wait() => {}
        () = tokio::time::sleep(drain) => {}
        () = accepting => {}
    }
    leave.cancel();
}

/// Serves one client.
async fn connection(stream: TcpStream, tls: Option<Arc<TlsServer>>, router: Router, stop: CancellationToken) {
    // Without it small answers wait for the acknowledgement of what came before them: 40 ms on a kept connection.
    let _ = stream.set_nodelay(true);
    let Some(tls) = tls else { return requests(stream, router, stop).await };
    // What goes wrong in a handshake concerns the client alone.
    let Some(stream) = tls.secure(stream).await else { return };
    // Its state is large, and connections without TLS need none of it.
    Box::pin(requests(stream, router, stop)).await;
}

/// Serves the requests of one client. After `stop` the one in flight is the last.
async fn requests<S>(stream: S, router: Router, stop: CancellationToken)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let service = TowerToHyperService::new(router);
    // One that comes late is answered once: told to end at once, hyper would close it without a word.
    let is_late = stop.is_cancelled();
    let serving = http1::Builder::new()
        .timer(TokioTimer::new())
        .keep_alive(!is_late)
        .header_read_timeout(HEADERS_WITHIN)
        .max_headers(MOST_HEADERS)
        .max_buf_size(MOST_HEADER_BYTES)
        .serve_connection(TokioIo::new(stream), service);
    let mut serving = pin!(serving);
    // What goes wrong on a connection concerns the client alone.
    tokio::select! {
        _ = &mut serving => return,
        () = stop.cancelled(), if !is_late => serving.as_mut().graceful_shutdown(),
    }
    let _ = serving.await;
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn headers_that_do_not_come_in_time_end_their_connection() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, stop) = (listener.local_addr().unwrap(), CancellationToken::new());
        let serving = tokio::spawn(serve(listener, None, Router::new(), stop.clone(), Duration::ZERO));
        let mut client = TcpStream::connect(address).await.unwrap();
        let begun = Instant::now();
        client.write_all(b"POST / HTTP/1.1\r\nhost: loc").await.unwrap();
        let mut answer = Vec::new();
        client.read_to_end(&mut answer).await.unwrap();
        let took = begun.elapsed();
        assert!(
            took >= HEADERS_WITHIN && took < HEADERS_WITHIN * 2,
            "{took:?} {}",
            String::from_utf8_lossy(&answer)
        );
        stop.cancel();
        serving.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn handshakes_that_do_not_end_in_time_end_their_connection() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, stop) = (listener.local_addr().unwrap(), CancellationToken::new());
        let tls = Some(TlsServer::of_tests());
        let serving = tokio::spawn(serve(listener, tls, Router::new(), stop.clone(), Duration::ZERO));
        // The beginning of a record, and nothing at all.
        for begun in [&b"\x16\x03\x01\x02\x00\x01"[..], b""] {
            let mut client = TcpStream::connect(address).await.unwrap();
            let since = Instant::now();
            client.write_all(begun).await.unwrap();
            assert_eq!(client.read_to_end(&mut Vec::new()).await.unwrap_or_default(), 0);
            assert_eq!(since.elapsed().as_secs(), 10);
        }
        stop.cancel();
        serving.await.unwrap();
    }
}
