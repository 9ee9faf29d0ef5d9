//! TLS to the database: the certificate must be good for its name, by the certificates the system trusts.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use futures_util::future::BoxFuture;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use rustls_platform_verifier::BuilderVerifierExt;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};

/// What connections are secured with: made when the first one is, and the same for all.
#[derive(Clone, Default)]
pub(super) struct TlsSetup {
    config: Arc<OnceLock<Arc<ClientConfig>>>,
}

/// How one connection is secured.
pub(super) struct SecureConnect {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

/// A connection that is secured.
pub(super) struct SecuredStream<S>(tokio_rustls::client::TlsStream<S>);

impl TlsSetup {
    fn config(&self) -> Result<Arc<ClientConfig>, rustls::Error> {
        if let Some(config) = self.config.get() {
            return Ok(Arc::clone(config));
        }
        // The provider is for this connection only: the default of the process belongs to the embedding program.
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
        let config = Arc::new(builder.with_platform_verifier()?.with_no_client_auth());
        Ok(Arc::clone(self.config.get_or_init(|| config)))
    }
}

impl<S> MakeTlsConnect<S> for TlsSetup
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    type Stream = SecuredStream<S>;
    type TlsConnect = SecureConnect;
    type Error = io::Error;

    fn make_tls_connect(&mut self, domain: &str) -> io::Result<SecureConnect> {
        let config = self.config().map_err(io::Error::other)?;
        let name = ServerName::try_from(domain.to_owned()).map_err(io::Error::other)?;
        Ok(SecureConnect { config, name })
    }
}

impl<S> TlsConnect<S> for SecureConnect
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    type Stream = SecuredStream<S>;
    type Error = io::Error;
    type Future = BoxFuture<'static, io::Result<SecuredStream<S>>>;

    fn connect(self, stream: S) -> Self::Future {
        let connector = tokio_rustls::TlsConnector::from(self.config);
        Box::pin(async move { connector.connect(self.name, stream).await.map(SecuredStream) })
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> TlsStream for SecuredStream<S> {
    fn channel_binding(&self) -> ChannelBinding {
        // The driver then uses SCRAM-SHA-256 without channel binding.
        ChannelBinding::none()
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for SecuredStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, into)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for SecuredStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}
