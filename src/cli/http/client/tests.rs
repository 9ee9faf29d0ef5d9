//! Clients that go away, as the service sees it: what answers them is dropped.

use core::time::Duration;
use std::path::Path;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::http::StatusCode;
use axum::routing::post;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{Receiver, channel};
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsConnector;
use tokio_util::sync::CancellationToken;

use super::super::TlsServer;
use super::super::connections::serve;
use super::*;

/// More than any of it takes.
const PATIENCE: Duration = Duration::from_secs(20);
const ASK: &str = "POST /whole HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n{}";
const ASK_STREAM: &str = "POST /stream HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n{}";

/// A server whose answers never end.
struct Endless {
    client: TcpStream,
    /// One for each answer that is being made.
    begun: Receiver<()>,
    dropped: CancellationToken,
    _stop: tokio_util::sync::DropGuard,
}

async fn endless(tls: Option<Arc<TlsServer>>) -> Endless {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, stop, dropped) =
        (listener.local_addr().unwrap(), CancellationToken::new(), CancellationToken::new());
    let (begins, begun) = channel(9);
    let (of_whole, of_stream) = ((dropped.clone(), begins.clone()), (dropped.clone(), begins));
    let whole = move |_: Bytes| {
        let (dropped, begins) = of_whole.clone();
        async move {
            let _guard = dropped.drop_guard();
            begins.send(()).await.unwrap();
            core::future::pending::<()>().await;
        }
    };
    let stream = move |_: Bytes| {
        let (dropped, begins) = of_stream.clone();
        async move {
            let guard = dropped.drop_guard();
            let pieces = futures_util::stream::once(async move {
                begins.send(()).await.unwrap();
                let _guard = guard;
                core::future::pending::<io::Result<Bytes>>().await
            });
            Body::from_stream(pieces)
        }
    };
    let router = Router::new().route("/whole", post(whole)).route("/stream", post(stream));
    tokio::spawn(serve(listener, tls, router, stop.clone(), Duration::ZERO));
    let client = TcpStream::connect(address).await.unwrap();
    Endless { client, begun, dropped, _stop: stop.drop_guard() }
}

impl Endless {
    async fn wait_until_begun(&mut self) {
        timeout(PATIENCE, self.begun.recv()).await.unwrap().unwrap();
    }
}

/// Waits until the answer is dropped.
async fn noticed(dropped: &CancellationToken, name: &str) {
    assert!(timeout(PATIENCE, dropped.cancelled()).await.is_ok(), "{name}");
}

#[tokio::test]
async fn one_that_goes_away_is_noticed_whatever_lies_behind_its_request() {
    for ask in [ASK, ASK_STREAM] {
        for behind in ["", "\r\n", "GET / HT", ASK] {
            for resets in [false, true] {
                let mut open = endless(None).await;
                open.client.write_all(format!("{ask}{behind}").as_bytes()).await.unwrap();
                open.wait_until_begun().await;
                // Later bytes lie in the socket, the first ones in what was read of it.
                open.client.write_all(if behind.is_empty() { b"" } else { b"\r\n" }).await.unwrap();
                if resets {
                    end_by_reset(&open.client);
                }
                assert!(!open.dropped.is_cancelled());
                drop(open.client);
                noticed(&open.dropped, &format!("{ask:?} {behind:?} {resets}")).await;
            }
        }
    }
}

#[tokio::test]
async fn one_that_goes_away_is_noticed_behind_more_than_its_socket_holds() {
    let mut open = endless(None).await;
    open.client.write_all(ASK.as_bytes()).await.unwrap();
    open.wait_until_begun().await;
    // Until no system takes more: its end cannot come either.
    let (much, late) = (vec![b'x'; 64 << 10], Duration::from_millis(200));
    while timeout(late, open.client.write(&much)).await.is_ok_and(|sent| sent.is_ok()) {}
    assert!(!open.dropped.is_cancelled());
    drop(open.client);
    noticed(&open.dropped, "much behind").await;
}

/// Has the end of a connection reset it.
#[allow(deprecated, reason = "with a time of zero the end does not wait")]
fn end_by_reset(client: &TcpStream) {
    client.set_linger(Some(Duration::ZERO)).unwrap();
}

#[tokio::test]
async fn one_that_is_half_closed_and_reads_is_noticed_when_it_goes_away() {
    let mut open = endless(None).await;
    open.client.write_all(ASK.as_bytes()).await.unwrap();
    open.wait_until_begun().await;
    open.client.shutdown().await.unwrap();
    let mut probes = [0; PROBE.len() * 2];
    open.client.read_exact(&mut probes).await.unwrap();
    assert_eq!(probes, *[PROBE, PROBE].concat());
    // It has read all there is, so its end is no reset.
    let began = Instant::now();
    while open.client.try_read(&mut probes).is_ok() {}
    drop(open.client);
    noticed(&open.dropped, "half closed").await;
    assert!(began.elapsed() < PATIENCE / 2, "{:?}", began.elapsed());
}

async fn secured(version: &'static SupportedProtocolVersion) -> (Endless, TlsConnector) {
    let made = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/serve/certificates/first.pem");
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(made).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_protocol_versions(&[version]).unwrap();
    let config = config.with_root_certificates(roots).with_no_client_auth();
    (endless(Some(TlsServer::of_tests())).await, TlsConnector::from(Arc::new(config)))
}

#[tokio::test]
async fn one_that_says_in_tls_that_it_sends_no_more_is_noticed_when_it_goes_away() {
    for (version, stays) in [(&rustls::version::TLS13, false), (&rustls::version::TLS12, true)] {
        let (Endless { client, mut begun, dropped, _stop }, connector) = secured(version).await;
        let mut client = connector.connect("127.0.0.1".try_into().unwrap(), client).await.unwrap();
        client.write_all(ASK.as_bytes()).await.unwrap();
        timeout(PATIENCE, begun.recv()).await.unwrap().unwrap();
        // Without the end of the connection.
        let (socket, tls) = client.get_mut();
        tls.send_close_notify();
        let mut said = Vec::new();
        tls.write_tls(&mut said).unwrap();
        socket.write_all(&said).await.unwrap();
        if stays {
            // TLS 1.2 ends both ways at once.
            noticed(&dropped, "1.2").await;
            continue;
        }
        let mut probes = [0; PROBE.len() * 2];
        client.read_exact(&mut probes).await.unwrap();
        assert_eq!(probes, *[PROBE, PROBE].concat());
        drop(client);
        noticed(&dropped, "1.3").await;
    }
}

/// A server that refuses at once, and reads nothing.
async fn refusing() -> (TcpStream, tokio_util::sync::DropGuard) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, stop) = (listener.local_addr().unwrap(), CancellationToken::new());
    let router = Router::new().route("/", post(|| async { StatusCode::UNAUTHORIZED }));
    let router = router.layer(axum::middleware::map_response(super::super::close_refused));
    tokio::spawn(serve(listener, None, router, stop.clone(), Duration::ZERO));
    (TcpStream::connect(address).await.unwrap(), stop.drop_guard())
}

#[tokio::test]
async fn one_that_sends_all_first_gets_the_answer_too() {
    let (mut client, _stop) = refusing().await;
    let body = vec![b' '; 32 << 20];
    let head = format!("POST / HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n", body.len());
    client.write_all(head.as_bytes()).await.unwrap();
    client.write_all(&body).await.unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 401 ") && answer.contains("connection: close"), "{answer}");
}

#[tokio::test(start_paused = true)]
async fn the_rest_of_a_body_is_not_waited_for_long() {
    for (lines, most) in [("", REST_WITHIN), ("expect: 100-continue\r\n", Duration::ZERO)] {
        let (mut client, _stop) = refusing().await;
        let head = format!("POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n{lines}\r\n");
        let began = Instant::now();
        client.write_all(head.as_bytes()).await.unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 401 "), "{answer}");
        let took = began.elapsed();
        assert!(took >= most && took < most + Duration::from_secs(1), "{took:?} {lines}");
    }
}
