//! The HTTP client under the models: one attempt a call, nothing done behind the policy's back.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use reqwest::{Client, Url};
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::BuilderVerifierExt;

use super::ConfigError;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// A client for `url`: no retries, no redirects, no process-wide TLS settings needed.
pub(super) fn client(url: &Url) -> Result<Client, ConfigError> {
    let mut builder = Client::builder()
        .tls_backend_preconfigured(tls(url)?)
        .retry(reqwest::retry::never())
        .redirect(reqwest::redirect::Policy::none())
        .tcp_nodelay(true)
        .connect_timeout(CONNECT_TIMEOUT)
        .user_agent(concat!("unfazed/", env!("CARGO_PKG_VERSION")));
    if is_loopback(url) {
        // A proxy of the environment cannot reach this machine's own addresses.
        builder = builder.no_proxy();
    }
    builder.build().map_err(|error| ConfigError::Client(super::openai::cause(&error)))
}

fn tls(url: &Url) -> Result<ClientConfig, ConfigError> {
    let tls = |error: rustls::Error| ConfigError::Tls(error.to_string());
    let builder = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(tls)?;
    let builder = if url.scheme() == "https" {
        builder.with_platform_verifier().map_err(tls)?
    } else {
        // Without TLS no certificates are needed; a bare container has none.
        builder.with_root_certificates(RootCertStore::empty())
    };
    let mut config = builder.with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

fn is_loopback(url: &Url) -> bool {
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
