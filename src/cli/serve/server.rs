//! What clients find at the addresses of the gateway.

use core::time::Duration;
use std::convert::Infallible;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use axum::Router;
use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, RawQuery, Request, State};
use axum::http::header::{ALLOW, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get, post};
use futures_util::StreamExt;
use serde_json::{Value, json};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use super::access::AccessRules;
use super::page;
use crate::cli::http::{BodyRefusal, BodyRoom, HeldRoom, MOST_HELD, check_head, close_refused, read_body};
use crate::host::MetricsSnapshot;
use crate::host::gateway::{
    Gateway, GatewayAnswer, GatewayBody, GatewayDialect, GatewayEndpoint, GatewayError, GatewayRequest,
    PathCall, RequestBody,
};
use crate::policy::Selector;

/// The most bytes of a request.
const MOST_BODY: usize = 32 << 20;
/// How long a request may take to come.
const BODY_WITHIN: Duration = Duration::from_secs(60);
/// The most requests at once: the interpreter takes a few more.
const MOST_IN_FLIGHT: usize = 1000;
/// How long clients wait that are turned away, in seconds.
const COME_BACK: u16 = 1;
const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8";

/// What a browser asks its user for.
const PASSWORD: &str = "Basic realm=\"unfazed serve: the password is a key with admin: true\"";

/// The gateway as a server.
pub(super) struct GatewayServer {
    gateway: Arc<Gateway>,
    access: RwLock<AccessRules>,
    in_flight: Arc<Semaphore>,
    room: BodyRoom,
    stop: CancellationToken,
}

impl GatewayServer {
    /// A server that turns new requests away once `stop` has fired.
    pub(super) fn new(gateway: Arc<Gateway>, access: AccessRules, stop: CancellationToken) -> Self {
        let in_flight = Arc::new(Semaphore::new(MOST_IN_FLIGHT));
        Self { gateway, access: RwLock::new(access), in_flight, room: BodyRoom::new(MOST_HELD), stop }
    }

    /// What is counted.
    pub(super) fn metrics(&self) -> MetricsSnapshot {
        self.gateway.metrics()
    }

    /// Takes other keys for the requests that come from now on. Says whether they need none any more.
    pub(super) fn set_access(&self, access: AccessRules) -> bool {
        let mut held = self.access.write().unwrap_or_else(PoisonError::into_inner);
        let needs = access.has_keys();
        core::mem::replace(&mut *held, access).has_keys() && !needs
    }

    /// Who may.
    fn access(&self) -> RwLockReadGuard<'_, AccessRules> {
        self.access.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Its addresses.
    pub(super) fn router(self: Arc<Self>) -> Router {
        let relays = GatewayEndpoint::FIXED.into_iter().fold(Router::new(), |router, endpoint| {
            let relay = move |server, request| relay(endpoint, None, server, request);
            router.route(endpoint.path, post(relay))
        });
        // Google's SDKs name either version.
        let calls = ["/v1/models/{call}", "/v1beta/models/{call}"];
        let relays =
            calls.into_iter().fold(relays, |router, path| router.route(path, post(call).get(model_named)));
        relays
            .route("/v1beta/models", get(models))
            .route("/v1/models", get(models))
            .route("/healthz", get(health))
            .route("/metrics", get(metrics))
            .route("/", get(page))
            .route("/status.json", get(status))
            .method_not_allowed_fallback(no_method)
            .fallback(any(elsewhere))
            .layer(axum::middleware::from_fn(checked))
            .layer(axum::middleware::map_response(close_refused))
            .with_state(self)
    }

    /// Relays a request that has not come through the router.
    pub(super) async fn relay(self: Arc<Self>, endpoint: GatewayEndpoint, request: Request) -> Response {
        match refused(&request) {
            Some(refused) => refused,
            None => relay(endpoint, None, State(self), request).await,
        }
    }

    /// Answers a request.
    async fn answer(
        &self,
        endpoint: GatewayEndpoint,
        call: Option<PathCall>,
        headers: &HeaderMap,
        body: Body,
    ) -> Result<Response, GatewayError> {
        // Nothing is read of whoever may not.
        let client = self.access().client(headers)?;
        let permit = self.admit()?;
        let (body, held) = tokio::select! {
            body = read_body(body, MOST_BODY, BODY_WITHIN, &self.room) => body.map_err(not_taken)?,
            () = self.gateway.cut().cancelled() => return Err(GatewayError::shutting_down()),
        };
        let body = RequestBody::read(body, call)?;
        if let Some(chooser) = body.chooser().filter(|_| client.is_limited()) {
            return Err(GatewayError::bad_request(format!(
                "`{chooser}` has the server choose another model, and this key may use some routes alone; leave it out"
            )));
        }
        // As it can be shown: it is what a stranger wrote.
        let model: String = body.model().chars().take(64).flat_map(char::escape_debug).collect();
        let may = |route: &str| client.may(route);
        let request = GatewayRequest { endpoint, client: &client.name, body, headers, may: &may };
        let answer = self.gateway.answer(request).await;
        tracing::info!(
            client = client.name,
            model,
            dialect = endpoint.dialect.name(),
            path = endpoint.path,
            status = answer.status.as_u16(),
            "request relayed"
        );
        Ok(response(answer, Some((permit, held))))
    }

    /// The names that the client may ask for. A pattern is no such name.
    fn route_names(&self, headers: &HeaderMap) -> Result<Vec<&str>, GatewayError> {
        let client = self.access().client(headers)?;
        let names = self.gateway.routes().names(move |route| client.may(route));
        Ok(names.filter(|name| name.is_exact()).map(Selector::as_str).collect())
    }

    /// Lets one more request in.
    fn admit(&self) -> Result<OwnedSemaphorePermit, GatewayError> {
        if self.stop.is_cancelled() {
            return Err(GatewayError::shutting_down());
        }
        Arc::clone(&self.in_flight).try_acquire_owned().map_err(|_| {
            let message = "there are too many requests in flight";
            GatewayError::new(StatusCode::SERVICE_UNAVAILABLE, "overloaded", message)
        })
    }

    /// Ends the requests in flight, and says how many there are: each is answered that the gateway shuts down.
    pub(super) fn cut_off(&self) -> usize {
        let in_flight = MOST_IN_FLIGHT.saturating_sub(self.in_flight.available_permits());
        self.gateway.cut().cancel();
        in_flight
    }
}

/// A request of Gemini's clients.
async fn call(
    server: State<Arc<GatewayServer>>,
    named: Result<Path<String>, PathRejection>,
    RawQuery(query): RawQuery,
    request: Request,
) -> Response {
    let call = named.map_err(|_| no_text());
    match call.and_then(|Path(named)| GatewayEndpoint::of_call(&named, query.as_deref())) {
        Ok((endpoint, call)) => relay(endpoint, Some(call), server, request).await,
        // Whoever may not use it learns nothing else.
        Err(error) => match server.access().client(request.headers()) {
            Ok(_) => refusal(GatewayDialect::Gemini, &error),
            Err(error) => refusal(GatewayDialect::Gemini, &error),
        },
    }
}

async fn relay(
    endpoint: GatewayEndpoint,
    call: Option<PathCall>,
    State(server): State<Arc<GatewayServer>>,
    request: Request,
) -> Response {
    let (head, body) = request.into_parts();
    let answered = server.answer(endpoint, call, &head.headers, body).await;
    answered.unwrap_or_else(|error| {
        server.gateway.turned_away();
        refusal(endpoint.dialect, &error)
    })
}

/// A request whose body is not taken.
fn not_taken(refused: BodyRefusal) -> GatewayError {
    let (most, within) = (MOST_BODY >> 20, BODY_WITHIN.as_secs());
    let (code, message) = match refused {
        BodyRefusal::TooLarge => ("request_too_large", format!("a request has at most {most} MiB")),
        BodyRefusal::Late => ("request_timeout", format!("a request comes within {within} s")),
        BodyRefusal::NoRoom => {
            ("overloaded", "the requests in flight leave no room for the body of this one".to_owned())
        }
        BodyRefusal::Broken => {
            ("invalid_request", "the body breaks off, or its chunks cannot be read".to_owned())
        }
    };
    GatewayError::new(refused.status(), code, message)
}

/// The route of that name, as one of the list.
async fn model_named(
    State(server): State<Arc<GatewayServer>>,
    named: Result<Path<String>, PathRejection>,
    uri: Uri,
    headers: HeaderMap,
) -> Response {
    let (dialect, client) = (dialect_at(&uri, &headers), server.access().client(&headers));
    let client = match client {
        Ok(client) => client,
        Err(error) => return refusal(dialect, &error),
    };
    let Ok(Path(name)) = named else { return refusal(dialect, &no_text()) };
    if server.gateway.routes().find(&name, |route| client.may(route)).is_none() {
        let shown: String = name.chars().take(64).collect();
        let message = format!("no route is named `{shown}`; /v1/models has those that there are");
        return refusal(dialect, &GatewayError::new(StatusCode::NOT_FOUND, "model_not_found", message));
    }
    let is_google = dialect == GatewayDialect::Gemini;
    axum::Json(if is_google { google_model(&name) } else { model(&name) }).into_response()
}

/// An address that is no text.
fn no_text() -> GatewayError {
    GatewayError::bad_request("the address is not UTF-8 text")
}

/// The dialect of who asks there for what all have.
fn dialect_at(uri: &Uri, headers: &HeaderMap) -> GatewayDialect {
    if uri.path().starts_with("/v1beta") { GatewayDialect::Gemini } else { dialect_of(headers) }
}

/// Refuses requests that may be read in another way by whatever stands before the gateway.
async fn checked(request: Request, next: Next) -> Response {
    match refused(&request) {
        Some(refused) => refused,
        None => next.run(request).await,
    }
}

/// The refusal of a request that may be read in another way elsewhere.
fn refused(request: &Request) -> Option<Response> {
    let (status, message) = check_head(request).err()?;
    let error = GatewayError::new(status, "invalid_request", message);
    Some(refusal(dialect_at(request.uri(), request.headers()), &error))
}

/// The routes that the client may use. SDKs of `OpenAI` and of Anthropic find their fields in the same list.
async fn models(State(server): State<Arc<GatewayServer>>, uri: Uri, headers: HeaderMap) -> Response {
    let dialect = dialect_at(&uri, &headers);
    let is_google = dialect == GatewayDialect::Gemini;
    let names = match server.route_names(&headers) {
        Ok(names) => names,
        Err(error) => return refusal(dialect, &error),
    };
    let list = if is_google {
        json!({ "models": names.iter().map(|name| google_model(name)).collect::<Vec<Value>>() })
    } else {
        let listed: Vec<Value> = names.iter().map(|name| model(name)).collect();
        json!({
            "object": "list", "data": listed, "has_more": false, "first_id": names.first(), "last_id": names.last(),
        })
    };
    axum::Json(list).into_response()
}

fn google_model(name: &str) -> Value {
    json!({
        "name": format!("models/{name}"), "displayName": name,
        "supportedGenerationMethods": ["generateContent", "countTokens"],
    })
}

fn model(name: &str) -> Value {
    json!({
        "id": name, "object": "model", "type": "model", "display_name": name, "owned_by": "unfazed",
        "created": 0, "created_at": "1970-01-01T00:00:00Z",
    })
}

async fn health(State(server): State<Arc<GatewayServer>>, headers: HeaderMap) -> Response {
    if let Err(error) = server.access().origin(&headers) {
        return refusal(GatewayDialect::Chat, &error);
    }
    if server.stop.is_cancelled() {
        return (StatusCode::SERVICE_UNAVAILABLE, "shutting down\n").into_response();
    }
    "ok\n".into_response()
}

async fn metrics(State(server): State<Arc<GatewayServer>>, headers: HeaderMap) -> Response {
    match server.access().metrics(&headers) {
        Ok(()) => ([(CONTENT_TYPE, PROMETHEUS)], server.metrics().to_prometheus()).into_response(),
        Err(error) => refusal(GatewayDialect::Chat, &error),
    }
}

async fn page(State(server): State<Arc<GatewayServer>>, headers: HeaderMap) -> Response {
    match server.access().status(&headers) {
        Ok(()) => page::page(),
        Err(error) => page_refused(&error),
    }
}

async fn status(State(server): State<Arc<GatewayServer>>, headers: HeaderMap) -> Response {
    match server.access().status(&headers) {
        Ok(()) => page::private(axum::Json(server.gateway.status()).into_response()),
        Err(error) => page_refused(&error),
    }
}

/// A refusal after which a browser asks its user for a key.
fn page_refused(error: &GatewayError) -> Response {
    let mut refused = refusal(GatewayDialect::Chat, error);
    if error.status == StatusCode::UNAUTHORIZED {
        refused.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static(PASSWORD));
    }
    page::private(refused)
}

async fn elsewhere(State(server): State<Arc<GatewayServer>>, headers: HeaderMap, uri: Uri) -> Response {
    if let Err(error) = server.access().client(&headers) {
        return refusal(dialect_at(&uri, &headers), &error);
    }
    let path: String = uri.path().chars().take(64).collect();
    let message = format!(
        "nothing is served at {path}; requests go to /v1/chat/completions, /v1/messages, /v1/responses or /v1beta/models/"
    );
    let error = GatewayError::new(StatusCode::NOT_FOUND, "not_found", message);
    refusal(dialect_at(&uri, &headers), &error)
}

/// An address that takes other methods. Whoever may not use it learns nothing else.
async fn no_method(State(server): State<Arc<GatewayServer>>, headers: HeaderMap, uri: Uri) -> Response {
    let relayed = GatewayEndpoint::FIXED.into_iter().find(|endpoint| endpoint.path == uri.path());
    let dialect = relayed.map_or_else(|| dialect_at(&uri, &headers), |endpoint| endpoint.dialect);
    if let Err(error) = server.access().client(&headers) {
        return refusal(dialect, &error);
    }
    let is_call = uri.path().contains("/models/");
    let methods = if relayed.is_some() {
        "POST"
    } else if is_call {
        "GET,HEAD,POST"
    } else {
        "GET,HEAD"
    };
    let path: String = uri.path().chars().take(64).collect();
    let message = format!("{path} is asked by other methods: {methods}");
    let error = GatewayError::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", message);
    let mut refused = refusal(dialect, &error);
    refused.headers_mut().insert(ALLOW, HeaderValue::from_static(methods));
    refused
}

/// The dialect of who asks for what all have: the SDKs of Anthropic say their version, those of Google who they are.
fn dialect_of(headers: &HeaderMap) -> GatewayDialect {
    if headers.contains_key("anthropic-version") {
        GatewayDialect::Messages
    } else if headers.contains_key("x-goog-api-client") || headers.contains_key("x-goog-api-key") {
        GatewayDialect::Gemini
    } else {
        GatewayDialect::Chat
    }
}

/// A refusal in the words of the dialect.
fn refusal(dialect: GatewayDialect, error: &GatewayError) -> Response {
    let mut refused = response(GatewayAnswer::refused(dialect, error), None);
    match error.status {
        StatusCode::UNAUTHORIZED => {
            refused.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        StatusCode::SERVICE_UNAVAILABLE => {
            refused.headers_mut().insert(RETRY_AFTER, HeaderValue::from(COME_BACK));
        }
        _ => {}
    }
    refused
}

/// An answer. Its request is in flight as long as its body.
fn response(answer: GatewayAnswer, permit: Option<(OwnedSemaphorePermit, HeldRoom)>) -> Response {
    let GatewayAnswer { status, headers, body } = answer;
    let body = match body {
        GatewayBody::Whole(bytes) => Body::from(bytes),
        GatewayBody::Stream(pieces) => Body::from_stream(pieces.map(move |piece| {
            let _ = &permit;
            Ok::<_, Infallible>(piece)
        })),
    };
    let mut response = Response::new(body);
    (*response.status_mut(), *response.headers_mut()) = (status, headers);
    response
}
