//! From where clients may come: a page in a browser is no client of this machine.

use std::net::{IpAddr, SocketAddr};

use axum::http::HeaderMap;
use axum::http::header::{HOST, ORIGIN};

use super::text;

/// From where clients may come.
#[derive(Clone, Copy, Debug)]
pub(in crate::cli) struct OriginRules {
    is_loopback: bool,
}

impl OriginRules {
    /// The rules for a server at that address.
    pub(in crate::cli) const fn new(address: SocketAddr) -> Self {
        Self { is_loopback: address.ip().is_loopback() }
    }

    /// Whether only this machine is served.
    pub(in crate::cli) const fn is_loopback(self) -> bool {
        self.is_loopback
    }

    /// Refuses a request of elsewhere, in words.
    pub(in crate::cli) fn check(self, headers: &HeaderMap) -> Result<(), &'static str> {
        let host = text(headers, &HOST);
        // Clients of HTTP/1.0 name none, and browsers always do: who comes without one and without a page is no browser.
        if !headers.contains_key(HOST) && !headers.contains_key(ORIGIN) {
            return Ok(());
        }
        // A page in a browser whose name leads here sends its own (DNS rebinding).
        if self.is_loopback && !is_local(host) {
            return Err("the `Host` names another machine");
        }
        let Some(origin) = headers.get(ORIGIN) else { return Ok(()) };
        let origin = origin.to_str().ok().and_then(|origin| origin.split_once("://")).map(|(_, host)| host);
        let may = origin.is_some_and(|origin| origin == host || (self.is_loopback && is_local(origin)));
        if may { Ok(()) } else { Err("pages of that `Origin` may not use it") }
    }
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
