//! Requests to models, sent by the client under reqwest where no proxy is in between. For each request reqwest itself reads the address
//! twice and copies the headers twice, for redirects and cookies that nobody wants here: an eighth of all that a gateway does for one
//! (`docs/performance.md`).

use core::future::poll_fn;
use core::pin::Pin;
use core::task::{Context, Poll};
use std::error::Error;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use hyper_rustls::{HttpsConnector, MaybeHttpsStream};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::{self, Client};
use hyper_util::client::proxy::matcher::Matcher;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use reqwest::header::{HeaderMap, USER_AGENT};
use reqwest::{Body, Method, Response, ResponseBuilderExt, Url};
use rustls::ClientConfig;
use tokio::net::TcpStream;
use tokio::time::Instant;
use tower_service::Service;

use super::ConfigError;
use super::client::{self, HttpClients, LatestClient, is_loopback};
use super::failure::cause;
use crate::time::Nanos;

/// How long a connection without a request is kept, as reqwest has it.
const IDLE: Duration = Duration::from_secs(90);
/// How often a silent connection is asked for a sign, and how many may be missing before it counts as broken, as reqwest has them.
const PROBES: (Duration, u32) = (Duration::from_secs(15), 3);

/// How long a connection waits for a file that this process may open, and how often it tries.
const FILE_WITHIN: Duration = Duration::from_secs(10);
const FILE_PAUSE: Duration = Duration::from_millis(50);
/// `ENFILE` and `EMFILE`, which are the same wherever Unix is.
const NO_FILE: [i32; 2] = [23, 24];

/// The way to the server of one model: no retries, no redirects. Only a request that was never written, because a kept connection
/// turned out to be closed, goes out on another one.
pub(super) enum ModelClients {
    Direct(DirectClients),
    /// The environment names a proxy for it.
    Proxied(HttpClients),
}

/// Clients for a server that is reached without a proxy.
pub(super) struct DirectClients {
    tls: Arc<ClientConfig>,
    latest: LatestClient<DirectClient>,
}

type DirectClient = Client<TimedConnector, Body>;
type BoxError = Box<dyn Error + Send + Sync>;
type ServerStream = MaybeHttpsStream<TokioIo<TcpStream>>;

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum SendError {
    /// The client cannot be used.
    Client(ConfigError),
    /// There was no connection in time.
    NoTime,
    /// There is no connection, for that reason.
    NoConnection(String),
    /// It broke, for that reason.
    Broken(String),
}

/// Connects and secures within a time.
#[derive(Clone)]
struct TimedConnector {
    connector: HttpsConnector<HttpConnector>,
    limit: Option<Nanos>,
}

/// There was no connection in time.
#[derive(Debug, thiserror::Error)]
#[error("the time to connect is over")]
struct ConnectTimeout;

impl ModelClients {
    /// For the server at `url`.
    pub(super) fn new(url: &Url) -> Result<Self, ConfigError> {
        let is_direct = is_loopback(url)
            || url.as_str().parse().is_ok_and(|uri| Matcher::from_system().intercept(&uri).is_none());
        if !is_direct {
            return HttpClients::new(url).map(Self::Proxied);
        }
        let tls = Arc::new(client::tls(url)?);
        let latest = LatestClient::first(|limit| Ok(build(&tls, limit)))?;
        Ok(Self::Direct(DirectClients { tls, latest }))
    }

    /// Sends a request, and waits for the head of the answer. `connect`: the longest that connecting may take.
    ///
    /// # Errors
    /// There is no connection, or it breaks before there is an answer.
    pub(super) async fn post(
        &self,
        address: &Url,
        headers: HeaderMap,
        body: Body,
        connect: Option<Nanos>,
    ) -> Result<Response, SendError> {
        match self {
            Self::Direct(clients) => clients.post(address, headers, body, connect).await,
            Self::Proxied(clients) => {
                let client = clients.connecting_within(connect).map_err(SendError::Client)?;
                // The builder of reqwest would copy the headers one by one, and look for a password in the address, which has none.
                let mut request = reqwest::Request::new(Method::POST, address.clone());
                (*request.headers_mut(), *request.body_mut()) = (headers, Some(body));
                client.execute(request).await.map_err(SendError::from)
            }
        }
    }
}

impl DirectClients {
    async fn post(
        &self,
        address: &Url,
        mut headers: HeaderMap,
        body: Body,
        connect: Option<Nanos>,
    ) -> Result<Response, SendError> {
        let client = self.latest.connecting_within(connect, |limit| Ok(build(&self.tls, limit)));
        let client = client.map_err(SendError::Client)?;
        headers.entry(USER_AGENT).or_insert(client::USER_AGENT);
        let mut request = ::http::Request::new(body);
        *request.method_mut() = Method::POST;
        *request.uri_mut() =
            address.as_str().parse().map_err(|error| SendError::NoConnection(cause(&error)))?;
        *request.headers_mut() = headers;
        let (head, body) = client.request(request).await?.into_parts();
        let mut answer =
            ::http::Response::builder().status(head.status).version(head.version).url(address.clone());
        if let Some(headers) = answer.headers_mut() {
            *headers = head.headers;
        }
        let answer = answer.body(Body::wrap(body)).map_err(|error| SendError::Broken(cause(&error)))?;
        Ok(answer.into())
    }
}

fn build(tls: &Arc<ClientConfig>, limit: Option<Nanos>) -> DirectClient {
    let (every, most) = PROBES;
    let mut http = HttpConnector::new();
    http.enforce_http(false);
    http.set_nodelay(true);
    http.set_keepalive(Some(every));
    http.set_keepalive_interval(Some(every));
    http.set_keepalive_retries(Some(most));
    let connector = TimedConnector { connector: (http, Arc::clone(tls)).into(), limit };
    Client::builder(TokioExecutor::new())
        .timer(TokioTimer::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(IDLE)
        .build(connector)
}

impl Service<::http::Uri> for TimedConnector {
    type Response = ServerStream;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<ServerStream, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.connector.poll_ready(context)
    }

    fn call(&mut self, uri: ::http::Uri) -> Self::Future {
        let connecting = Box::pin(connect(self.connector.clone(), uri));
        match self.limit {
            None => connecting,
            Some(limit) => Box::pin(async move {
                let timed = tokio::time::timeout(limit.to_std(), connecting).await;
                timed.unwrap_or_else(|_| Err(ConnectTimeout.into()))
            }),
        }
    }
}

/// Connects as soon as this process may open one more file: that there are none is no failure of the server, for which its breaker would
/// open.
async fn connect(
    mut connector: HttpsConnector<HttpConnector>,
    uri: ::http::Uri,
) -> Result<ServerStream, BoxError> {
    let until = Instant::now() + FILE_WITHIN;
    loop {
        poll_fn(|context| connector.poll_ready(context)).await?;
        match connector.call(uri.clone()).await {
            Err(error) if has_no_file(&*error) && Instant::now() < until => {
                tokio::time::sleep(FILE_PAUSE).await;
            }
            connected => return connected,
        }
    }
}

/// Whether this process, or the whole system, has no file left.
fn has_no_file(error: &(dyn Error + 'static)) -> bool {
    let mut of = Some(error);
    while let Some(error) = of {
        let code = error.downcast_ref::<io::Error>().and_then(io::Error::raw_os_error);
        if code.is_some_and(|code| NO_FILE.contains(&code)) {
            return true;
        }
        of = error.source();
    }
    false
}

impl From<reqwest::Error> for SendError {
    fn from(error: reqwest::Error) -> Self {
        // The client has no other timeout than that of connecting.
        if error.is_timeout() {
            Self::NoTime
        } else if error.is_connect() {
            Self::NoConnection(cause(&error))
        } else {
            Self::Broken(cause(&error))
        }
    }
}

impl From<legacy::Error> for SendError {
    fn from(error: legacy::Error) -> Self {
        let mut of: Option<&(dyn Error + 'static)> = Some(&error);
        while let Some(error) = of {
            if error.is::<ConnectTimeout>() {
                return Self::NoTime;
            }
            of = error.source();
        }
        if error.is_connect() { Self::NoConnection(cause(&error)) } else { Self::Broken(cause(&error)) }
    }
}
