//! TLS for clients: the handshake, and a certificate that is renewed while they are served.

use core::fmt;
use core::time::Duration;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::SystemTime;

use rustls::ServerConfig;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::client::ClientSocket;
use crate::cli::exit::CommandFailure;
use crate::cli::look::look_again;
use crate::cli::out;
use crate::host::server_certificate::{CertificateWatch, ServerCertificate, provider};

/// How long a handshake may take.
const HANDSHAKE_WITHIN: Duration = Duration::from_secs(10);
/// What a server of HTTP/1.1 is called in a handshake (RFC 7301); it speaks nothing else.
const HTTP: &[u8] = b"http/1.1";
/// The most of a request that is read which came without TLS.
const MOST_PLAIN: usize = 4 << 10;
/// What such a client gets, which would not understand an alert of TLS.
const PLAIN: &str = "HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain; charset=utf-8\r\n\
     connection: close\r\ncontent-length: 51\r\n\r\nThis address speaks TLS: write https:// before it.\n";

/// What the connections of a server are secured with.
pub(in crate::cli) struct TlsServer {
    acceptor: TlsAcceptor,
    current: Arc<CurrentCertificate>,
}

/// The certificate of the handshakes to come. It does not show its key.
struct CurrentCertificate(RwLock<Arc<CertifiedKey>>);

impl TlsServer {
    fn new(certificate: ServerCertificate) -> Result<Self, rustls::Error> {
        let current = Arc::new(CurrentCertificate(RwLock::new(certificate.certified)));
        let mut config = ServerConfig::builder_with_provider(Arc::new(provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_cert_resolver(Arc::<CurrentCertificate>::clone(&current));
        config.alpn_protocols = vec![HTTP.to_vec()];
        Ok(Self { acceptor: TlsAcceptor::from(Arc::new(config)), current })
    }

    /// Takes renewed certificates for new connections, as long as it is polled. Those that cannot be used change nothing.
    async fn renew(self: Arc<Self>, watch: CertificateWatch) {
        let take = |found| match found {
            Ok(certificate) => {
                self.current.set(certificate);
                out::say("note: the certificate is read again; new connections get it\n");
            }
            Err(error) => out::say(&format!("warning: the certificate before stays: {error}\n")),
        };
        look_again(watch, CertificateWatch::poll, take).await;
    }

    /// Secures a connection; `None`: its client speaks no TLS, or not in time.
    pub(super) async fn secure(&self, stream: TcpStream) -> Option<TlsStream<ClientSocket>> {
        let securing = async {
            let mut first = [0];
            stream.peek(&mut first).await.ok()?;
            // The name of a method. A handshake begins with 22.
            if first.iter().all(u8::is_ascii_uppercase) {
                refuse_plain(stream).await;
                return None;
            }
            self.acceptor.accept(ClientSocket::new(stream)).await.ok()
        };
        tokio::time::timeout(HANDSHAKE_WITHIN, securing).await.ok().flatten()
    }
}

/// What secures the connections of a server, and what renews its certificate. One that has expired is served: there is no better
/// one.
///
/// # Errors
/// There is no TLS with it.
pub(in crate::cli) fn secured(
    (watch, certificate): (CertificateWatch, ServerCertificate),
) -> Result<(Arc<TlsServer>, JoinHandle<()>), CommandFailure> {
    if let Err(error) = certificate.valid(SystemTime::now()) {
        out::say(&format!("warning: {error}; clients refuse it\n"));
    }
    let tls = TlsServer::new(certificate).map_err(|error| CommandFailure::Report(error.to_string()))?;
    let tls = Arc::new(tls);
    let renewing = tokio::spawn(Arc::clone(&tls).renew(watch));
    Ok((tls, renewing))
}

/// Answers a request that came without TLS, in its own words.
async fn refuse_plain(mut stream: TcpStream) {
    // What was not read would have the system reset the connection, and the answer with it.
    let _ = stream.read(&mut [0; MOST_PLAIN]).await;
    let _ = stream.write_all(PLAIN.as_bytes()).await;
    let _ = stream.shutdown().await;
}

impl CurrentCertificate {
    fn set(&self, certificate: ServerCertificate) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = certificate.certified;
    }
}

impl ResolvesServerCert for CurrentCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner)))
    }
}

impl fmt::Debug for CurrentCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CurrentCertificate").finish_non_exhaustive()
    }
}

#[cfg(test)]
impl TlsServer {
    /// One with a certificate of the tests.
    pub(super) fn of_tests() -> Arc<Self> {
        use crate::host::server_certificate::CertificateFiles;
        let made = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/serve/certificates");
        let files = CertificateFiles { certificate: made.join("first.pem"), key: made.join("first.key") };
        Arc::new(Self::new(files.read().ok().unwrap()).ok().unwrap())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_shows_no_key_and_its_words_have_their_length() {
        let current = &TlsServer::of_tests().current;
        assert_eq!(format!("{current:?}"), "CurrentCertificate { .. }");
        let (head, body) = PLAIN.split_once("\r\n\r\n").unwrap();
        assert!(head.ends_with(&format!("content-length: {}", body.len())), "{head}");
    }
}
