//! Who may use the relay over HTTP.

use std::net::{IpAddr, SocketAddr};

use axum::http::header::{AUTHORIZATION, HOST, ORIGIN, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::Response;
use secrecy::{ExposeSecret, SecretString};

use super::refusal;

/// Who may.
pub(in crate::cli::mcp) struct AccessRules {
    is_loopback: bool,
    key: Option<SecretString>,
}

impl AccessRules {
    /// The rules for an address; `None`: beyond this machine it takes a key.
    pub(in crate::cli::mcp) fn new(address: SocketAddr, key: Option<SecretString>) -> Option<Self> {
        let is_loopback = address.ip().is_loopback();
        let key = key.map(|key| SecretString::from(key.expose_secret().trim()));
        (is_loopback || key.is_some()).then_some(Self { is_loopback, key })
    }

    /// Refuses a request that may not be.
    pub(super) fn check(&self, headers: &HeaderMap) -> Result<(), Response> {
        let host = text(headers, &HOST);
        // A page in a browser whose name leads here sends its own (DNS rebinding).
        if self.is_loopback && !is_local(host) {
            return Err(refusal(StatusCode::FORBIDDEN, "the `Host` names another machine"));
        }
        if let Some(origin) = headers.get(ORIGIN) {
            let origin =
                origin.to_str().ok().and_then(|origin| origin.split_once("://")).map(|(_, host)| host);
            let may = origin.is_some_and(|origin| origin == host || (self.is_loopback && is_local(origin)));
            if !may {
                return Err(refusal(StatusCode::FORBIDDEN, "pages of that `Origin` may not use it"));
            }
        }
        let Some(key) = &self.key else { return Ok(()) };
        let given = text(headers, &AUTHORIZATION).split_once(' ');
        let given =
            given.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer")).map(|(_, key)| key.trim());
        if given.is_some_and(|given| same(given.as_bytes(), key.expose_secret().as_bytes())) {
            return Ok(());
        }
        let mut refused =
            refusal(StatusCode::UNAUTHORIZED, "it takes the key, as `Authorization: Bearer KEY`");
        refused.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        Err(refused)
    }
}

fn text<'h>(headers: &'h HeaderMap, name: &HeaderName) -> &'h str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

/// Whether a host, with a port or without, is this machine.
fn is_local(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let address = name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    name.eq_ignore_ascii_case("localhost") || address.is_ok_and(|address| address.is_loopback())
}

/// Whether two texts are the same, in a time that does not say how much of them is.
fn same(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len() && one.iter().zip(other).fold(0, |differ, (a, b)| differ | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
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
