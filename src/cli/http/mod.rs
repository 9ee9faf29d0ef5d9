//! What the commands that serve clients over HTTP have in common: who may reach them, and how much a request may be.

mod body;
mod client;
mod connections;
mod descriptors;
mod head;
mod origin;
mod own_notices;
mod peers;
mod tls;

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};

use axum::http::header::{AUTHORIZATION, CONNECTION};
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::response::Response;
use tokio::net::TcpListener;

pub(in crate::cli) use self::body::{BodyRefusal, BodyRoom, HeldRoom, MOST_HELD, read_body};
pub(in crate::cli) use self::connections::serve;
pub(in crate::cli) use self::descriptors::raise_open_files;
pub(in crate::cli) use self::head::check_head;
pub(in crate::cli) use self::origin::OriginRules;
pub(in crate::cli) use self::tls::{TlsServer, secured};
use super::exit::CommandFailure;
use crate::host::file_error;

/// What addresses of a server begin with.
pub(in crate::cli) const fn scheme(is_secured: bool) -> &'static str {
    if is_secured { "https" } else { "http" }
}

/// The address that an option says, by number or by the name of this machine.
pub(in crate::cli) fn address(text: &str) -> Result<SocketAddr, String> {
    let text = text.trim();
    let found = text.to_socket_addrs().ok().and_then(|mut found| {
        let first = found.next()?;
        // A name may have addresses of both kinds; more clients reach that of version 4.
        Some(if first.is_ipv4() { first } else { found.find(SocketAddr::is_ipv4).unwrap_or(first) })
    });
    found.ok_or_else(|| "write an address and a port, such as 127.0.0.1:8787 or localhost:8787".to_owned())
}

/// Takes an address. Port 0 is any free one. `option` is the one that says it.
pub(in crate::cli) fn bind(option: &str, address: SocketAddr) -> Result<TcpListener, CommandFailure> {
    let refused = |error: io::Error| {
        let why = file_error(&error);
        CommandFailure::Usage(format!("{option}: clients cannot be served at {address}: {why}"))
    };
    connections::listen(address).map_err(refused)
}

/// A header as text; empty if there is none.
pub(in crate::cli) fn text<'h>(headers: &'h HeaderMap, name: &HeaderName) -> &'h str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

/// The key that a client sends as `Authorization: Bearer KEY`.
pub(in crate::cli) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, key) = text(headers, &AUTHORIZATION).split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| key.trim())
}

/// A request that was refused may not have been read to its end, and its connection closes then. A client that was not warned
/// loses the next request on it (RFC 9112, section 9.6).
pub(in crate::cli) async fn close_refused(mut response: Response) -> Response {
    if response.status().is_client_error() {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response
}
