//! The HTTP client under the models: one attempt a call, nothing done behind the policy's back.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use reqwest::header::HeaderValue;
use reqwest::{Client, Url};
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::BuilderVerifierExt;

use super::ConfigError;
use crate::time::Nanos;

/// How long a connection may take as long as nobody says otherwise.
const CONNECT: Option<Nanos> = Some(Nanos::from_secs(10));

/// Who asks.
pub(super) const USER_AGENT: HeaderValue =
    HeaderValue::from_static(concat!("unfazed/", env!("CARGO_PKG_VERSION")));

/// Clients for one server: no retries, no redirects, no process-wide TLS settings needed. Only a request that was never
/// written, because a kept connection turned out to be closed, goes out on another one.
pub(in crate::host) struct HttpClients {
    tls: ClientConfig,
    /// Whether the server is on this machine.
    here: bool,
    latest: LatestClient<Client>,
}

/// The client for the time that a connection may take. That seldom changes, and with it go the open connections.
pub(super) struct LatestClient<C>(Mutex<(Option<Nanos>, C)>);

impl<C: Clone> LatestClient<C> {
    /// The first one, which gives up connecting after [`CONNECT`].
    pub(super) fn first<E>(build: impl FnOnce(Option<Nanos>) -> Result<C, E>) -> Result<Self, E> {
        Ok(Self(Mutex::new((CONNECT, build(CONNECT)?))))
    }

    /// The one that gives up connecting after that time.
    pub(super) fn connecting_within<E>(
        &self,
        limit: Option<Nanos>,
        build: impl FnOnce(Option<Nanos>) -> Result<C, E>,
    ) -> Result<C, E> {
        let mut latest = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if latest.0 != limit {
            *latest = (limit, build(limit)?);
        }
        Ok(latest.1.clone())
    }
}

impl HttpClients {
    /// For the server at `url`.
    pub(in crate::host) fn new(url: &Url) -> Result<Self, ConfigError> {
        let (tls, here) = (tls(url)?, is_loopback(url));
        let latest = LatestClient::first(|limit| build(tls.clone(), here, limit))?;
        Ok(Self { tls, here, latest })
    }

    /// The client that gives up connecting after that time.
    pub(in crate::host) fn connecting_within(&self, limit: Option<Nanos>) -> Result<Client, ConfigError> {
        self.latest.connecting_within(limit, |limit| build(self.tls.clone(), self.here, limit))
    }
}

fn build(tls: ClientConfig, here: bool, connect: Option<Nanos>) -> Result<Client, ConfigError> {
    let mut builder = Client::builder()
        .use_preconfigured_tls(tls)
        // The policy alone decides about retries. Hidden ones multiply with its own: the SDKs of OpenAI and
        // Anthropic make two.
        .retry(reqwest::retry::never())
        // A redirect would send the key and the conversation to an address that nobody configured.
        .redirect(reqwest::redirect::Policy::none())
        // `body` decodes. Another crate of the program may switch these features of `reqwest` on.
        .no_gzip()
        .no_brotli()
        .no_zstd()
        .no_deflate()
        .tcp_nodelay(true)
        .user_agent(USER_AGENT);
    if let Some(limit) = connect {
        builder = builder.connect_timeout(limit.to_std());
    }
    if here {
        // A proxy from the environment cannot reach the addresses of this machine.
        builder = builder.no_proxy();
    }
    builder.build().map_err(|error| ConfigError::Client(error.into()))
}

/// How a server at `url` is secured.
pub(super) fn tls(url: &Url) -> Result<ClientConfig, ConfigError> {
    let tls = |error: rustls::Error| ConfigError::Tls(error.into());
    let builder = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(tls)?;
    let builder = if url.scheme() == "https" {
        builder.with_platform_verifier().map_err(tls)?
    } else {
        // Without TLS no certificates are needed, and a bare container has none.
        builder.with_root_certificates(RootCertStore::empty())
    };
    let mut config = builder.with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

/// Whether a server at `url` is on this machine.
pub(super) fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_addresses_are_known() {
        for (url, expected) in [
            ("http://127.0.0.1:80", true),
            ("http://127.8.0.1", true),
            ("http://[::1]:1", true),
            ("http://localhost/v1", true),
            ("http://10.0.0.1", false),
            ("https://localhost.example.org", false),
        ] {
            assert_eq!(is_loopback(&url.parse().unwrap()), expected, "{url}");
        }
    }
}
