//! Who may use the relay over HTTP.

use std::net::SocketAddr;

use axum::http::header::WWW_AUTHENTICATE;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::Response;
use secrecy::{ExposeSecret, SecretString};
use subtle::ConstantTimeEq;

use super::refusal;
use crate::cli::http::{OriginRules, bearer};

/// Who may.
pub(in crate::cli::mcp) struct AccessRules {
    origins: OriginRules,
    key: Option<SecretString>,
}

impl AccessRules {
    /// The rules for an address; `None`: beyond this machine it takes a key.
    pub(in crate::cli::mcp) fn new(address: SocketAddr, key: Option<SecretString>) -> Option<Self> {
        let origins = OriginRules::new(address);
        let key = key.map(|key| SecretString::from(key.expose_secret().trim()));
        (origins.is_loopback() || key.is_some()).then_some(Self { origins, key })
    }

    /// Refuses a request that may not be.
    pub(super) fn check(&self, headers: &HeaderMap) -> Result<(), Response> {
        self.origins.check(headers).map_err(|why| refusal(StatusCode::FORBIDDEN, why))?;
        let Some(key) = &self.key else { return Ok(()) };
        let is_key = |given: &str| bool::from(given.as_bytes().ct_eq(key.expose_secret().as_bytes()));
        if bearer(headers).is_some_and(is_key) {
            return Ok(());
        }
        let mut refused =
            refusal(StatusCode::UNAUTHORIZED, "it takes the key, as `Authorization: Bearer KEY`");
        refused.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        Err(refused)
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderName;

    use super::*;

    fn status(rules: &AccessRules, fields: &[(&'static str, &str)]) -> Option<u16> {
        let fields =
            fields.iter().map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap()));
        rules.check(&fields.collect()).err().map(|refused| refused.status().as_u16())
    }

    #[test]
    fn on_this_machine_only_hosts_and_pages_of_it_may() {
        let rules = AccessRules::new("127.0.0.1:80".parse().unwrap(), None).unwrap();
        for host in ["localhost", "LOCALHOST:8787", "127.0.0.1:1", "127.0.0.2", "[::1]:1", "[::1]"] {
            assert_eq!(status(&rules, &[("host", host)]), None, "{host}");
        }
        for host in [
            "",
            "evil.example",
            "evil.example:80",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "[::2]",
        ] {
            assert_eq!(status(&rules, &[("host", host)]), Some(403), "{host}");
        }
        let with = |origin| status(&rules, &[("host", "localhost:1"), ("origin", origin)]);
        assert_eq!(with("http://localhost:6274"), None);
        for origin in ["null", "https://evil.example", "http://localhost@evil.example", "http://localhost/x"]
        {
            assert_eq!(with(origin), Some(403), "{origin}");
        }
    }

    #[test]
    fn beyond_this_machine_it_takes_a_key() {
        let address = "0.0.0.0:80".parse().unwrap();
        assert!(AccessRules::new(address, None).is_none());
        let rules = AccessRules::new(address, Some("sesame".into())).unwrap();
        let with = |value| status(&rules, &[("host", "a.example"), ("authorization", value)]);
        assert_eq!((with("Bearer sesame"), with("bearer  sesame")), (None, None));
        for value in ["Bearer sesame2", "Bearer sesam", "Bearer Sesame", "Basic sesame", "sesame", ""] {
            assert_eq!(with(value), Some(401), "{value}");
        }
        let page =
            [("host", "a.example"), ("authorization", "Bearer sesame"), ("origin", "https://b.example")];
        assert_eq!(status(&rules, &page), Some(403));
    }
}
