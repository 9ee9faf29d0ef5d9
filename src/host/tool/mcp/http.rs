//! HTTP under a conversation with a server, as the transport of `rmcp` asks for it (the specification's "Streamable HTTP").
//!
//! The client that `rmcp` brings along decodes an answer as a whole, so that one tool nested too deep loses all tools of its
//! server, and it decides which version of `reqwest` a program has. Here answers are read as over standard output.

use std::collections::HashMap;
use std::sync::Arc;

use futures_util::stream::BoxStream;
use reqwest::header::{
    ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, LOCATION, RETRY_AFTER, WWW_AUTHENTICATE,
};
use reqwest::{Client, Method, RequestBuilder, Response, StatusCode, Url};
use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, ErrorData, JsonRpcMessage, RequestId, ServerJsonRpcMessage,
};
use rmcp::transport::common::http_header::{HEADER_LAST_EVENT_ID, HEADER_SESSION_ID};
use rmcp::transport::streamable_http_client::{
    AuthRequiredError, HttpStatusError, InsufficientScopeError, SseError, StreamableHttpClient,
    StreamableHttpError, StreamableHttpPostResponse,
};
use sse_stream::Sse;

use super::answer::{UndecodableAnswer, readable};
use super::events;

/// The most bytes of an answer.
pub(super) const MAX_ANSWER: usize = 16 * 1024 * 1024;
/// The most bytes of a refusal, and how many of them are shown.
const MAX_REFUSAL: usize = 64 * 1024;
const MAX_SHOWN: usize = 256;
/// How often a request is sent on to another address of the server.
const MOST_FOLLOWED: u32 = 3;
const EVENTS: &str = "text/event-stream";
const JSON: &str = "application/json";
const BOTH: HeaderValue = HeaderValue::from_static("text/event-stream, application/json");

/// What can go wrong.
pub(super) type HttpError = StreamableHttpError<reqwest::Error>;

/// The way to a server.
#[derive(Clone)]
pub(super) struct HttpClient {
    pub(super) client: Client,
    pub(super) undecodable: UndecodableAnswer,
}

/// Whose request it is, and what it says.
#[derive(Clone, Default)]
pub(super) struct RequestSender {
    pub(super) session: Option<Arc<str>>,
    pub(super) token: Option<String>,
    pub(super) headers: HashMap<HeaderName, HeaderValue>,
}

/// A message as it is posted.
pub(super) struct PostedMessage {
    pub(super) body: Vec<u8>,
    /// The id, if it is a request.
    pub(super) asked: Option<RequestId>,
    /// It asks which versions there are, before anything else.
    pub(super) discovers: bool,
}

/// What a message that was posted is answered with, and the session that begins.
pub(super) enum HttpAnswer {
    Accepted,
    /// A message, as it can be decoded.
    Message(Vec<u8>, Option<String>),
    Events(BoxStream<'static, Result<Sse, SseError>>, Option<String>),
}

impl StreamableHttpClient for HttpClient {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        token: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, HttpError> {
        let sender = RequestSender { session, token, headers };
        self.post_typed(&uri, &message, sender, MAX_ANSWER).await
    }

    async fn post_message_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        token: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
        largest: usize,
    ) -> Result<StreamableHttpPostResponse, HttpError> {
        self.post_typed(&uri, &message, RequestSender { session, token, headers }, largest).await
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session: Arc<str>,
        token: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), HttpError> {
        self.delete(&uri, RequestSender { session: Some(session), token, headers }).await
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        token: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, HttpError> {
        self.listen(&uri, last_event, RequestSender { session, token, headers }, MAX_ANSWER).await
    }

    async fn get_stream_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        token: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
        largest: usize,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, HttpError> {
        self.listen(&uri, last_event, RequestSender { session, token, headers }, largest).await
    }
}

impl HttpClient {
    fn request(&self, method: Method, uri: &str, sender: RequestSender) -> Result<RequestBuilder, HttpError> {
        let mut request = self.client.request(method, uri);
        if let Some(token) = sender.token {
            request = request.bearer_auth(token);
        }
        if let Some(name) = sender.headers.keys().find(|name| is_reserved(name)) {
            return Err(StreamableHttpError::ReservedHeaderConflict(name.to_string()));
        }
        // They replace what is there already: the URL may hold a key, too.
        request = request.headers(sender.headers.into_iter().collect());
        Ok(match sender.session {
            Some(session) => request.header(HEADER_SESSION_ID, session.as_ref()),
            None => request,
        })
    }

    async fn post_typed(
        &self,
        uri: &str,
        message: &ClientJsonRpcMessage,
        sender: RequestSender,
        largest: usize,
    ) -> Result<StreamableHttpPostResponse, HttpError> {
        let asked = id_of(message).cloned();
        let (awaited, discovers) = (asked.is_some(), begins(message));
        let body = serde_json::to_vec(message)?;
        let posted = PostedMessage { body, asked, discovers };
        Ok(match self.post(uri, posted, sender, largest).await? {
            HttpAnswer::Accepted => StreamableHttpPostResponse::Accepted,
            HttpAnswer::Events(events, session) => StreamableHttpPostResponse::Sse(events, session),
            HttpAnswer::Message(body, session) => match serde_json::from_slice(&body) {
                Ok(message) => StreamableHttpPostResponse::Json(message, session),
                Err(_) if !awaited => StreamableHttpPostResponse::Accepted,
                Err(_) => return Err(no_message(&body)),
            },
        })
    }

    /// Sends a request. Follows the server to another address of its own, such as `/mcp/` in the place of `/mcp`: the key and the
    /// call go to nobody else.
    async fn send(
        &self,
        uri: &str,
        made: impl Fn(&str) -> Result<RequestBuilder, HttpError>,
    ) -> Result<Response, HttpError> {
        let (mut at, mut followed) = (uri.to_owned(), 0);
        loop {
            let response = sent(made(&at)?).await?;
            let same =
                matches!(response.status(), StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT);
            let own = led_to(&response).filter(|next| same && next.origin() == response.url().origin());
            match own {
                Some(next) if followed < MOST_FOLLOWED => (at, followed) = (next.into(), followed + 1),
                _ => return Ok(response),
            }
        }
    }

    /// Posts a message.
    pub(super) async fn post(
        &self,
        uri: &str,
        PostedMessage { body, asked, discovers }: PostedMessage,
        sender: RequestSender,
        largest: usize,
    ) -> Result<HttpAnswer, HttpError> {
        let in_session = sender.session.is_some();
        let request = |uri: &str| {
            let request = self.request(Method::POST, uri, sender.clone())?;
            Ok(request.header(ACCEPT, BOTH).header(CONTENT_TYPE, JSON).body(body.clone()))
        };
        let response = self.send(uri, request).await?;
        let status = response.status();
        if matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) {
            return Ok(HttpAnswer::Accepted);
        }
        if status == StatusCode::NOT_FOUND && in_session {
            return Err(StreamableHttpError::SessionExpired);
        }
        let session = text_of(response.headers(), HEADER_SESSION_ID);
        if !status.is_success() {
            return self.refusal((asked.as_ref(), discovers), response, in_session, session).await;
        }
        // Some servers answer what needs no answer with an empty 200 in the place of a 202.
        if asked.is_none() && response.content_length() == Some(0) {
            return Ok(HttpAnswer::Accepted);
        }
        if is_of(&response, EVENTS) {
            return Ok(HttpAnswer::Events(events::read(response, largest, asked, self.undecodable), session));
        }
        if !is_of(&response, JSON) {
            return Err(other_type(&response));
        }
        let body = whole(response, MAX_ANSWER).await?;
        match readable(&body, asked.as_ref(), self.undecodable) {
            Some(message) => Ok(HttpAnswer::Message(message, session)),
            None if asked.is_none() => Ok(HttpAnswer::Accepted),
            None => Err(no_message(&body)),
        }
    }

    /// What a status that is no success means. Some servers send an error of the protocol with it.
    async fn refusal(
        &self,
        (asked, discovers): (Option<&RequestId>, bool),
        response: Response,
        in_session: bool,
        session: Option<String>,
    ) -> Result<HttpAnswer, HttpError> {
        let (status, json) = (response.status(), is_of(&response, JSON));
        if let Some(elsewhere) = led_to(&response).filter(|_| status.is_redirection()) {
            let why = format!(
                "HTTP {status} to {}; write that address, as no other server is followed to",
                shown_address(elsewhere)
            );
            return Err(unusable(&why));
        }
        let overloaded = overloaded(status, response.headers());
        let body = match overloaded {
            Some(error) if !json || status == StatusCode::TOO_MANY_REQUESTS => return Err(error.into()),
            _ => whole(response, MAX_REFUSAL).await.unwrap_or_default(),
        };
        let said = readable(&body, asked, self.undecodable);
        let decoded = said.as_deref().and_then(|said| serde_json::from_slice(said).ok());
        let error = decoded.and_then(|message: ServerJsonRpcMessage| match message {
            JsonRpcMessage::Error(error) => Some(error),
            _ => None,
        });
        let refused = matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
        if let Some(id) = asked.filter(|_| discovers && status.is_client_error() && !refused && !in_session) {
            // A server of an older version, or what comes before it. The transport only believes an answer with its id.
            let error = error.map_or_else(
                || ErrorData::invalid_request(format!("HTTP {status}: {}", shown(&body)), None),
                |said| said.error,
            );
            let answer = ServerJsonRpcMessage::error(error, Some(id.clone()));
            return Ok(HttpAnswer::Message(serde_json::to_vec(&answer)?, None));
        }
        match (said.filter(|_| error.is_some() && json && !refused), overloaded) {
            (Some(said), _) => Ok(HttpAnswer::Message(said, session)),
            (None, Some(overloaded)) => Err(overloaded.into()),
            (None, None) => Err(unusable(&format!("HTTP {status}: {}", shown(&body)))),
        }
    }

    /// Ends a session. A server need not support it.
    pub(super) async fn delete(&self, uri: &str, sender: RequestSender) -> Result<(), HttpError> {
        let response = self.send(uri, |uri| self.request(Method::DELETE, uri, sender.clone())).await?;
        if response.status() == StatusCode::METHOD_NOT_ALLOWED {
            return Ok(());
        }
        response.error_for_status().map(drop).map_err(client_error)
    }

    /// The messages of a server that belong to no request.
    pub(super) async fn listen(
        &self,
        uri: &str,
        last_event: Option<String>,
        sender: RequestSender,
        largest: usize,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, HttpError> {
        let request = |uri: &str| {
            let request = self.request(Method::GET, uri, sender.clone())?.header(ACCEPT, BOTH);
            Ok(match &last_event {
                Some(last) => request.header(HEADER_LAST_EVENT_ID, last),
                None => request,
            })
        };
        let response = self.send(uri, request).await?;
        let status = response.status();
        if status == StatusCode::METHOD_NOT_ALLOWED {
            return Err(StreamableHttpError::ServerDoesNotSupportSse);
        }
        if let Some(error) = overloaded(status, response.headers()) {
            return Err(error.into());
        }
        let response = response.error_for_status().map_err(client_error)?;
        if !is_of(&response, EVENTS) && !is_of(&response, JSON) {
            return Err(other_type(&response));
        }
        Ok(events::read(response, largest, None, self.undecodable))
    }
}

/// An error of the client, without what may be secret in the address.
fn client_error(mut error: reqwest::Error) -> HttpError {
    if let Some(url) = error.url_mut() {
        url.set_query(None);
        // An address with a host takes both.
        let _ = url.set_password(None);
        let _ = url.set_username("");
    }
    StreamableHttpError::Client(error)
}

fn no_message(body: &[u8]) -> HttpError {
    unusable(&format!("it is no message: {}", shown(body)))
}

/// The answer, unless it says that the server wants to know who asks.
async fn sent(request: RequestBuilder) -> Result<Response, HttpError> {
    let response = request.send().await.map_err(client_error)?;
    let Some(challenge) = response.headers().get(WWW_AUTHENTICATE) else { return Ok(response) };
    let challenge = String::from_utf8_lossy(challenge.as_bytes()).into_owned();
    match response.status() {
        StatusCode::UNAUTHORIZED => Err(StreamableHttpError::AuthRequired(AuthRequiredError::new(challenge))),
        StatusCode::FORBIDDEN => {
            // Nobody here asks for more rights, so which are missing is for people to read.
            Err(StreamableHttpError::InsufficientScope(InsufficientScopeError::new(challenge, None)))
        }
        _ => Ok(response),
    }
}

/// Where an answer leads.
fn led_to(response: &Response) -> Option<Url> {
    response.url().join(&text_of(response.headers(), LOCATION.as_str())?).ok()
}

/// An address without what may be secret in it.
fn shown_address(mut address: Url) -> Url {
    address.set_query(None);
    // An address with a host takes both.
    let _ = address.set_username("").and_then(|()| address.set_password(None));
    address
}

/// The body, if it is no larger.
async fn whole(mut response: Response, most: usize) -> Result<Vec<u8>, HttpError> {
    let mut body = Vec::new();
    while let Some(bytes) = response.chunk().await.map_err(client_error)? {
        if body.len() + bytes.len() > most {
            return Err(StreamableHttpError::ResponseBodyTooLarge { max_size: most });
        }
        body.extend_from_slice(&bytes);
    }
    Ok(body)
}

fn overloaded(status: StatusCode, headers: &HeaderMap) -> Option<HttpStatusError> {
    (status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error())
        .then(|| HttpStatusError::new(status.as_u16(), text_of(headers, RETRY_AFTER.as_str())))
}

/// What the transport writes itself. The version it hands on among the headers.
fn is_reserved(name: &HeaderName) -> bool {
    [ACCEPT.as_str(), HEADER_SESSION_ID, HEADER_LAST_EVENT_ID]
        .iter()
        .any(|reserved| name.as_str().eq_ignore_ascii_case(reserved))
}

fn id_of(message: &ClientJsonRpcMessage) -> Option<&RequestId> {
    match message {
        JsonRpcMessage::Request(request) => Some(&request.id),
        _ => None,
    }
}

/// Whether the conversation begins with this question.
fn begins(message: &ClientJsonRpcMessage) -> bool {
    matches!(message, JsonRpcMessage::Request(request) if matches!(request.request, ClientRequest::DiscoverRequest(_)))
}

fn text_of(headers: &HeaderMap, name: &str) -> Option<String> {
    headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
}

fn is_of(response: &Response, kind: &str) -> bool {
    let written = response.headers().get(CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
    written.get(..kind.len()).is_some_and(|start| start.eq_ignore_ascii_case(kind.as_bytes()))
}

fn other_type(response: &Response) -> HttpError {
    StreamableHttpError::UnexpectedContentType(text_of(response.headers(), CONTENT_TYPE.as_str()))
}

fn unusable(why: &str) -> HttpError {
    StreamableHttpError::UnexpectedServerResponse(why.to_owned().into())
}

fn shown(body: &[u8]) -> String {
    let start = body.get(..MAX_SHOWN).unwrap_or(body);
    String::from_utf8_lossy(start).into_owned()
}
