//! The connections of clients that are not trusted: how many there are, how long their headers may take, and when they end.

use core::convert::Infallible;
use core::time::Duration;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;

use axum::body::Body;
use axum::http::header::CONNECTION;
use axum::http::{HeaderValue, Request};
use axum::response::Response;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};
use tower_service::Service;

use super::TlsServer;
use super::client::{ClientSocket, HalfStream, OverSocket, RequestPhase};
use super::descriptors::most_connections;
use super::own_notices::rerun_at_once;
use super::peers::PeerCounts;

/// The most of them that one other machine has; further ones are closed. A proxy may have the thousand requests in flight.
const MOST_OF_PEER: usize = 1024;
/// How long the headers of a request may take, and how long a connection is kept that has none.
const HEADERS_WITHIN: Duration = Duration::from_secs(30);
/// The most headers of a request; more of them are refused with status 431.
const MOST_HEADERS: usize = 100;
/// The most bytes of a request's headers.
pub(super) const MOST_HEADER_BYTES: usize = 64 << 10;
/// How many bytes wait for a client that reads slowly. By itself the system keeps some megabytes for each, and says that there is room
/// again only once a third of them is free: who reads slowly would seem to take nothing.
const SEND_BUFFER: u32 = 256 << 10;
/// How many clients wait to be let in.
const BACKLOG: u32 = 1024;
/// How long nobody is let in when the system lets nobody in: it has no more files, for one.
const PAUSE: Duration = Duration::from_millis(50);

/// How far away the next end of a time limit is at most.
const TICK: Duration = Duration::from_secs(1);

/// What answers the requests of clients, such as a router of axum. It is always ready.
pub(in crate::cli) trait RequestService:
    Service<Request<Body>, Response = Response, Error = Infallible, Future: Send> + Clone + Send + 'static
{
}

impl<S> RequestService for S where
    S: Service<Request<Body>, Response = Response, Error = Infallible, Future: Send> + Clone + Send + 'static
{
}

/// Takes an address.
///
/// # Errors
/// The system refuses it.
pub(super) fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // As `TcpListener::bind` does it: a process that starts again gets its address at once.
    #[cfg(unix)]
    socket.set_reuseaddr(true)?;
    // The sockets of clients have it from the one that they come in by.
    socket.set_send_buffer_size(SEND_BUFFER)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Serves clients until `stop` fires, and then those whose requests are in flight for at most `drain`. New ones are let in meanwhile: the
/// service tells them that they are too late. A connection without a request is not waited for. With `tls` clients are secured; their
/// handshakes count as connections.
pub(in crate::cli) async fn serve(
    listener: TcpListener,
    tls: Option<Arc<TlsServer>>,
    service: impl RequestService,
    stop: CancellationToken,
    drain: Duration,
) {
    // Further ones wait until one ends.
    let (open, permits) = (TaskTracker::new(), Arc::new(Semaphore::new(most_connections())));
    let peers = PeerCounts::new(MOST_OF_PEER);
    let in_flight = TaskTracker::new();
    let leave = CancellationToken::new();
    let accepting = async {
        loop {
            // Nobody closes the semaphore.
            let Ok(permit) = Arc::clone(&permits).acquire_owned().await else { return };
            let Ok((stream, peer)) = listener.accept().await else {
                tokio::time::sleep(PAUSE).await;
                continue;
            };
            let Some(counted) = peers.admit(peer.ip()) else { continue };
            let (tls, service, stop, leave) = (tls.clone(), service.clone(), stop.clone(), leave.clone());
            let in_flight = in_flight.clone();
            open.spawn(rerun_at_once(async move {
                tokio::select! {
                    // First, so that an idle connection that is kept is closed in its own words.
                    biased;
                    () = connection(stream, tls, service, stop, in_flight) => {}
                    () = leave.cancelled() => {}
                }
                drop((permit, counted));
            }));
        }
    };
    let mut accepting = pin!(accepting);
    let ticking = AbortOnDropHandle::new(tokio::spawn(tick()));
    tokio::select! {
        () = &mut accepting => {}
        () = stop.cancelled() => {}
    }
    in_flight.close();
    tokio::select! {
        () = in_flight.wait() => {}
        () = tokio::time::sleep(drain) => {}
        () = accepting => {}
    }
    leave.cancel();
    open.close();
    open.wait().await;
    drop(ticking);
}

/// Ends a time limit again and again. tokio calls the thread that waits for the system whenever a limit begins that ends before all others,
/// as one does with each request that has none beside it.
async fn tick() {
    let mut tick = tokio::time::interval(TICK);
    loop {
        tick.tick().await;
    }
}

/// Serves one client.
async fn connection(
    stream: TcpStream,
    tls: Option<Arc<TlsServer>>,
    service: impl RequestService,
    stop: CancellationToken,
    in_flight: TaskTracker,
) {
    // Without it small answers wait for the acknowledgement of what came before them: 40 ms on a kept connection.
    let _ = stream.set_nodelay(true);
    let Some(tls) = tls else { return requests(ClientSocket::new(stream), service, stop, in_flight).await };
    // What goes wrong in a handshake concerns the client alone.
    let Some(stream) = tls.secure(stream).await else { return };
    // Its state is large, and connections without TLS need none of it.
    Box::pin(requests(stream, service, stop, in_flight)).await;
}

/// Serves the requests of one client. After `stop` the one in flight is the last.
async fn requests<S>(stream: S, service: impl RequestService, stop: CancellationToken, in_flight: TaskTracker)
where
    S: AsyncRead + AsyncWrite + OverSocket + Unpin,
{
    let phase = RequestPhase::default();
    let stream = HalfStream::new(stream, phase.clone());
    let service = service_fn(move |request: Request<Incoming>| {
        let (phase, token) = (phase.clone(), in_flight.token());
        let (head, body) = request.into_parts();
        let body = phase.begin(&head, body);
        let answering = service.clone().call(Request::from_parts(head, Body::new(body)));
        async move {
            let mut answer = answering.await?;
            if phase.is_half_closed() {
                answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            }
            Ok::<_, Infallible>(answer.map(|body| phase.answer(body, token)))
        }
    });
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

    use axum::Router;
    use axum::body::Bytes;
    use axum::routing::get;
    use futures_util::StreamExt;

    use super::super::client::TAKEN_WITHIN;
    use super::*;

    /// Serves a stream without an end. The token fires once the stream is dropped.
    fn endless() -> (TcpStream, CancellationToken, CancellationToken) {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);
        let listener = listen(address).unwrap();
        let (stop, dropped) = (CancellationToken::new(), CancellationToken::new());
        let of_stream = dropped.clone();
        let stream = move || {
            let guard = of_stream.clone().drop_guard();
            let pieces = futures_util::stream::repeat_with(move || {
                let _ = &guard;
                Ok::<_, io::Error>(Bytes::from_static(&[b'x'; 4096]))
            });
            async move { Body::from_stream(pieces.then(async |piece| piece)) }
        };
        let router = Router::new().route("/", get(stream));
        tokio::spawn(serve(listener, None, router, stop.clone(), Duration::ZERO));
        let client = std::net::TcpStream::connect(address).unwrap();
        client.set_nonblocking(true).unwrap();
        (TcpStream::from_std(client).unwrap(), dropped, stop)
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_never_reads_is_let_go() {
        let (mut client, dropped, stop) = endless();
        let begun = Instant::now();
        client.write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
        dropped.cancelled().await;
        let took = begun.elapsed();
        assert!(took >= TAKEN_WITHIN && took < TAKEN_WITHIN * 2, "{took:?}");
        stop.cancel();
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_reads_slowly_is_served() {
        let (mut client, dropped, stop) = endless();
        client.write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
        let mut piece = vec![0; 1 << 20];
        for _ in 0..10 {
            tokio::time::sleep(TAKEN_WITHIN / 2).await;
            client.read_exact(&mut piece).await.unwrap();
        }
        assert!(!dropped.is_cancelled());
        stop.cancel();
    }

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

    /// The time that the stop takes, with a connection on which that was sent.
    async fn stopped_in(sent: &[u8], tls: Option<Arc<TlsServer>>, is_late: bool) -> Duration {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, stop) = (listener.local_addr().unwrap(), CancellationToken::new());
        let in_time = CancellationToken::new();
        let ends = in_time.clone();
        // One that is in flight meanwhile, and ends when the test says so.
        let held = move || {
            let ends = ends.clone();
            async move { ends.cancelled().await }
        };
        let is_plain = tls.is_none();
        let router = Router::new().route("/", get(|| async { "ok" })).route("/held", get(held));
        let serving = tokio::spawn(serve(listener, tls, router, stop.clone(), Duration::from_secs(600)));
        let mut first = TcpStream::connect(address).await.unwrap();
        if is_late && is_plain {
            first.write_all(b"GET /held HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
            tokio::time::sleep(Duration::from_millis(1)).await;
            stop.cancel();
        }
        let mut client = TcpStream::connect(address).await.unwrap();
        client.write_all(sent).await.unwrap();
        tokio::time::sleep(Duration::from_millis(1)).await;
        let begun = Instant::now();
        stop.cancel();
        in_time.cancel();
        serving.await.unwrap();
        let took = begun.elapsed();
        assert!(
            client
                .read_to_end(&mut Vec::new())
                .await
                .is_ok_and(|read| sent.starts_with(b"GET /") || read == 0)
        );
        took
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_without_a_request_does_not_hold_up_the_stop() {
        let kept = &b"GET / HTTP/1.1\r\nhost: x\r\n\r\nGET / HTT"[..];
        let plain = [b"", &b"POST / HTTP/1.1\r\nhost: loc"[..], kept];
        for (sent, is_late) in plain.into_iter().flat_map(|sent| [(sent, false), (sent, true)]) {
            let took = stopped_in(sent, None, is_late).await;
            assert!(took < Duration::from_secs(1), "{took:?} {is_late} {}", String::from_utf8_lossy(sent));
        }
        for sent in [b"", &b"\x16\x03\x01\x02\x00\x01"[..]] {
            let took = stopped_in(sent, Some(TlsServer::of_tests()), false).await;
            assert!(took < Duration::from_secs(1), "{took:?} {sent:?}");
        }
    }

    #[tokio::test]
    async fn an_answer_that_is_still_written_holds_up_the_stop() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, stop) = (listener.local_addr().unwrap(), CancellationToken::new());
        let most = 32 << 20;
        let router = Router::new().route("/", get(move || async move { vec![b'x'; most] }));
        let serving = tokio::spawn(serve(listener, None, router, stop.clone(), Duration::from_secs(600)));
        let mut client = TcpStream::connect(address).await.unwrap();
        client.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
        client.read_exact(&mut [0; 1024]).await.unwrap();
        stop.cancel();
        let mut rest = Vec::new();
        client.read_to_end(&mut rest).await.unwrap();
        assert!(rest.len() > most - 1024, "{}", rest.len());
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
