//! One call of a model over HTTP: send the request, read what comes, within the times the policy gives. The wire format
//! says what is written and what the bytes mean.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use reqwest::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{Body, Response, Url};
use tokio::time::Instant;

use super::answer::{HttpAnswer, MOST_LOOKS, is_whole};
use super::body::{ACCEPTED, BodyError, HttpBody};
use super::config::ModelConfig;
use super::direct::{ModelClients, SendError};
use super::dropped::DroppedOptions;
use super::failure::{self, cut_off, unreadable};
use super::headers::ConfigError;
use super::renewed::{HeldKey, RenewedKey, RequestKey};
use super::system_role::{SystemRole, instructs};
use super::wire::anthropic::PausedTurn;
use super::wire::{StreamProgress, WireFormat, cut_at_limit, unquoted, without_mark};
use super::within::{self, MovingLimit, within};
#[cfg(feature = "bedrock")]
use super::{config::Auth, headers::trimmed, signer::AwsSigner};
use crate::engine::{CallTimeouts, Failure, ModelReply};
use crate::host::port::ModelRequest;
use crate::host::redact::SecretRedactor;
#[cfg(feature = "otlp")]
use crate::host::telemetry::otel;
use crate::time::Nanos;

/// The most bytes of an answer that are kept: of a stream what the model says, of a body all.
pub(super) const MAX_ANSWER: usize = 8 * MIB;
/// The most bytes of a stream on the wire, where a few hundred go with every token.
const MAX_STREAM: usize = 256 * MIB;
const MIB: usize = 1024 * 1024;
/// The most bytes of an error's body that are looked at, and the longest they are waited for: the status alone
/// tells enough.
const MAX_ERROR: usize = 64 * 1024;
const ERROR_WAIT: Duration = Duration::from_secs(5);
/// How long the tokens are waited for that a stream tells after the reason to stop, which ends the answer.
pub(super) const TAIL: Duration = Duration::from_secs(1);
/// How long the end of a stream that is done is waited for, so that the connection can be used again.
pub(super) const LAST_BYTES: Duration = Duration::from_millis(100);

/// The way to one model.
pub(super) struct ModelTransport {
    clients: ModelClients,
    endpoint: Url,
    headers: HeaderMap,
    model: String,
    stream: bool,
    redactor: SecretRedactor,
    /// What its model has refused of what the configuration asks for.
    dropped: DroppedOptions,
    system: SystemRole,
    left_out: SaidNotes,
    /// The key of each request, if it is asked for again.
    key: Option<RequestKey>,
    /// Signs each request, where no key is sent.
    #[cfg(feature = "bedrock")]
    signer: Option<AwsSigner>,
}

/// Notes, each of which is given once.
#[derive(Debug, Default)]
struct SaidNotes(Mutex<BTreeSet<String>>);

impl SaidNotes {
    /// Those that have not been given.
    fn first(&self, notes: Vec<String>) -> Vec<String> {
        let mut said = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        notes.into_iter().filter(|note| said.insert(note.clone())).collect()
    }
}

/// The body of a request: whole, or in pieces.
pub(super) trait TransportBody: Into<Body> + Send {
    /// All of it, for a signature.
    #[cfg(feature = "bedrock")]
    fn whole(self) -> Bytes;
}

impl TransportBody for Bytes {
    #[cfg(feature = "bedrock")]
    fn whole(self) -> Bytes {
        self
    }
}

#[cfg(feature = "serve")]
impl TransportBody for super::sent::SentBody {
    #[cfg(feature = "bedrock")]
    fn whole(self) -> Bytes {
        Self::whole(self)
    }
}

/// How far a call has come, for when it is ended from outside.
#[derive(Default)]
struct CallProgress {
    status: AtomicU16,
    received: AtomicU64,
}

impl ModelTransport {
    /// Sets up the connection; nothing is sent yet.
    ///
    /// # Errors
    /// An address or headers that cannot be used, no TLS, or an HTTP client that refuses its settings.
    pub(super) fn new(config: &ModelConfig) -> Result<Self, ConfigError> {
        let (endpoint, mut headers) = (config.endpoint()?, config.header_map()?);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        // JSON too: errors come as JSON even where a stream is asked for.
        let accept = if config.stream { "text/event-stream, application/json" } else { "application/json" };
        headers.entry(ACCEPT).or_insert(HeaderValue::from_static(accept));
        headers.entry(ACCEPT_ENCODING).or_insert(ACCEPTED);
        let learned = config.renewed_key.iter().map(RenewedKey::learned);
        #[cfg(feature = "bedrock")]
        let signer = signer(config);
        #[cfg(feature = "bedrock")]
        let learned = learned.chain(signer.iter().map(AwsSigner::learned));
        Ok(Self {
            clients: ModelClients::new(&endpoint)?,
            endpoint,
            headers,
            model: config.model.clone(),
            stream: config.stream,
            redactor: SecretRedactor::new(config.secrets()).learning(learned),
            dropped: DroppedOptions::default(),
            system: SystemRole::default(),
            left_out: SaidNotes::default(),
            key: config.keyed().map(RequestKey::new),
            #[cfg(feature = "bedrock")]
            signer,
        })
    }

    /// The model's name on its server.
    pub(super) fn model(&self) -> &str {
        &self.model
    }

    /// One call. A failure has neither the secrets of the connection nor those of `others`.
    pub(super) async fn call(
        &self,
        format: &dyn WireFormat,
        request: ModelRequest<'_>,
        others: Option<&SecretRedactor>,
    ) -> Result<ModelReply, Failure> {
        let (started, seen) = (Instant::now(), CallProgress::default());
        let result = within(&request, self.attempts(format, &request, &seen)).await;
        // Known even if the call was ended from outside.
        let received = seen.received.into_inner();
        let result =
            result.map_err(|failure| Failure { received, ..self.redactor().failure(failure, others) });
        tracing::debug!(
            model = self.model,
            server = self.server(),
            status = seen.status.into_inner(),
            latency_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
            ok = result.is_ok(),
            "request answered"
        );
        result
    }

    /// The request, and again as often as a refusal teaches how the server wants it.
    async fn attempts(
        &self,
        format: &dyn WireFormat,
        request: &ModelRequest<'_>,
        seen: &CallProgress,
    ) -> Result<ModelReply, Failure> {
        let (mut notes, mut turn) = (Vec::new(), PausedTurn::default());
        loop {
            let conversation = turn.behind(request.messages);
            let messages = self.system.sent(&conversation);
            // Its answer follows what was sent, and not the conversation in hand.
            let sent = ModelRequest { messages: &messages, ..request.clone() };
            let body = format
                .write(&sent)
                .map_err(|error| unreadable(format!("the request cannot be written: {error}")))?;
            let body = Bytes::from(self.dropped.left_out_of(body));
            let key = self.key().await?;
            match self.attempt(format, body.clone(), &sent, key.as_ref(), seen).await {
                Ok(reply) => {
                    let Some(reply) = turn.take(reply)? else { continue };
                    let left_out = self.left_out.first(format.left_out(request.messages));
                    return Ok(ModelReply { notes: [left_out, notes].concat(), ..reply });
                }
                Err(failure) => {
                    // A refusal of the form is no failed attempt: the request goes out again as the server wants it.
                    let refusal = unquoted(&failure, &body);
                    let note = self.system.learn(&self.model, instructs(&messages), &refusal);
                    let note = note.or_else(|| format.learn(&refusal));
                    let note = match note.or_else(|| self.dropped.learn(&self.model, &body, &refusal)) {
                        None => self.renews(key.as_ref(), &failure).await?,
                        note => note,
                    };
                    let Some(note) = note else { return Err(failure) };
                    self.says_again(&note);
                    notes.push(note);
                }
            }
        }
    }

    async fn attempt(
        &self,
        format: &dyn WireFormat,
        body: Bytes,
        request: &ModelRequest<'_>,
        key: Option<&HeldKey>,
        seen: &CallProgress,
    ) -> Result<ModelReply, Failure> {
        let started = Instant::now();
        request.traffic.sends(body.len());
        // The first token is due from the start of the call, so connecting and sending count.
        let until = self.first_token(started, request.timeouts);
        let headers = self.keyed(key, self.headers.clone());
        let sent = self.send_to(&self.endpoint, body, headers, until, request.timeouts);
        let response = sent.await?;
        seen.status.store(response.status().as_u16(), Ordering::Relaxed);
        if !response.status().is_success() {
            return Err(read_failure(response, request).await);
        }
        self.read_answer(format, response, started, request, seen).await
    }

    /// The key for a request, or the credentials that sign it, if they are asked for again.
    ///
    /// # Errors
    /// None came.
    pub(super) async fn key(&self) -> Result<Option<HeldKey>, Failure> {
        #[cfg(feature = "bedrock")]
        if let Some(signer) = &self.signer {
            return signer.current().await.map(|number| Some(HeldKey::of_credentials(number)));
        }
        match &self.key {
            Some(key) => key.current().await.map(Some),
            None => Ok(None),
        }
    }

    /// The headers with that key.
    pub(super) fn keyed(&self, held: Option<&HeldKey>, mut headers: HeaderMap) -> HeaderMap {
        if let (Some(key), Some(held)) = (&self.key, held) {
            key.set(held, &mut headers);
        }
        headers
    }

    /// What is other in a request that is sent again because its key, or who signed it, was refused; `None`: there is no other one.
    ///
    /// # Errors
    /// Another one was asked for, and none came.
    pub(super) async fn renews(
        &self,
        held: Option<&HeldKey>,
        refusal: &Failure,
    ) -> Result<Option<String>, Failure> {
        #[cfg(feature = "bedrock")]
        if let (Some(signer), Some(held)) = (&self.signer, held) {
            return signer.renews(held.number(), refusal).await;
        }
        match (&self.key, held) {
            (Some(key), Some(held)) => key.renews(held, refusal).await,
            _ => Ok(None),
        }
    }

    /// Logs what is other in a request that is sent again.
    pub(super) fn says_again(&self, note: &str) {
        let (model, server) = (&self.model, self.server());
        tracing::warn!(model, server, note, "the request is sent again in another form");
    }

    /// Sends a body to an address of the server, and waits until `until` for the head of the answer.
    ///
    /// # Errors
    /// There is no connection, or no answer in time.
    pub(super) async fn send_to(
        &self,
        address: &Url,
        body: impl TransportBody,
        headers: HeaderMap,
        until: Option<Instant>,
        timeouts: CallTimeouts,
    ) -> Result<Response, Failure> {
        #[cfg(feature = "otlp")]
        let headers = otel::carried(headers);
        let sent = async {
            let (body, headers) = self.signed(address, body, headers).await?;
            let sent = self.clients.post(address, headers, body, timeouts.connect).await;
            sent.map_err(|error| self.not_sent(error, timeouts))
        };
        match until {
            Some(until) => {
                tokio::time::timeout_at(until, sent).await.map_err(|_| within::no_first_token(timeouts))?
            }
            None => sent.await,
        }
    }

    /// The headers of a request with its signature, if the server wants one.
    #[cfg(feature = "bedrock")]
    async fn signed(
        &self,
        address: &Url,
        body: impl TransportBody,
        mut headers: HeaderMap,
    ) -> Result<(Body, HeaderMap), Failure> {
        let Some(signer) = &self.signer else { return Ok((body.into(), headers)) };
        let body = body.whole();
        signer.sign(address, &mut headers, &body).await?;
        Ok((body.into(), headers))
    }

    #[cfg(not(feature = "bedrock"))]
    #[expect(clippy::unused_async, reason = "signing asks for credentials")]
    async fn signed(
        &self,
        _: &Url,
        body: impl TransportBody,
        headers: HeaderMap,
    ) -> Result<(Body, HeaderMap), Failure> {
        Ok((body.into(), headers))
    }

    /// The headers of every request.
    pub(super) const fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// Takes the secrets of the connection out of what is reported.
    pub(super) fn redactor(&self) -> Cow<'_, SecretRedactor> {
        self.redactor.settled()
    }

    /// When the first token must be there. An answer that is not streamed has none before the last.
    fn first_token(&self, started: Instant, timeouts: CallTimeouts) -> Option<Instant> {
        let limit = timeouts.first_token.filter(|_| self.stream && !self.dropped.leaves_out_stream())?;
        started.checked_add(limit.to_std())
    }

    async fn read_answer(
        &self,
        format: &dyn WireFormat,
        response: Response,
        started: Instant,
        request: &ModelRequest<'_>,
        seen: &CallProgress,
    ) -> Result<ModelReply, Failure> {
        let timeouts = request.timeouts;
        let headers = response.headers().clone();
        let mut body = HttpBody::of(response).map_err(|error| broken(&error))?;
        let mut answer = HttpAnswer::announced_by(&headers);
        let (mut size, mut whole_since, mut limit) = (0, None, MovingLimit::default());
        loop {
            let begun = answer.has_begun();
            let until = if answer.is_whole() {
                // Counted once from the reason to stop, so a server that only keeps the line open cannot prolong it.
                whole_since.get_or_insert_with(Instant::now).checked_add(TAIL)
            } else if begun {
                timeouts.idle.and_then(|limit| Instant::now().checked_add(limit.to_std()))
            } else {
                self.first_token(started, timeouts)
            };
            let next = match until {
                Some(until) => limit.within(until, body.chunk()).await,
                None => Some(body.chunk().await),
            };
            let bytes = match next {
                Some(Ok(Some(bytes))) => bytes,
                Some(Ok(None)) => break,
                // What is missing can no longer change the answer.
                Some(Err(_)) | None if answer.is_whole() => break,
                Some(Err(error)) => return Err(broken(&error)),
                None if begun => return Err(within::stalled(timeouts)),
                None => return Err(within::no_first_token(timeouts)),
            };
            size += bytes.len();
            request.traffic.receives(bytes.len());
            let progress = answer.take(format, &bytes, &headers);
            within_bounds(size, answer.kept())?;
            seen.received.store(answer.received(), Ordering::Relaxed);
            let fresh = answer.fresh();
            if let Some(streamed) = &request.streamed {
                streamed.piece(fresh);
            }
            if progress? == StreamProgress::Done {
                let _ = tokio::time::timeout(LAST_BYTES, body.chunk()).await;
                break;
            }
            // A timeout never fires while bytes are always there, and comments without end are no first token.
            if !answer.has_begun() && until.is_some_and(|until| until <= Instant::now()) {
                return Err(within::no_first_token(timeouts));
            }
        }
        let reply = answer.reply(format, &headers, &format.sent(request.messages))?;
        let reply =
            cut_at_limit(reply, || format.write(request).ok().map(|body| self.dropped.left_out_of(body)));
        Ok(ModelReply { limits: failure::stated_limits(&headers), ..reply })
    }

    fn not_sent(&self, error: SendError, timeouts: CallTimeouts) -> Failure {
        let server = self.server();
        match error {
            SendError::Client(error) => unreadable(error.to_string()),
            SendError::NoTime => within::no_connection(&server, timeouts),
            SendError::NoConnection(cause) => cut_off(format!("cannot connect to {server}: {cause}")),
            SendError::Broken(cause) => {
                cut_off(format!("the connection to {server} broke before an answer came: {cause}"))
            }
        }
    }

    /// Host and port, for people.
    fn server(&self) -> String {
        let host = self.endpoint.host_str().unwrap_or_default();
        match self.endpoint.port() {
            Some(port) => format!("{host}:{port}"),
            None => host.to_owned(),
        }
    }

    /// What may be shown of it.
    pub(super) fn show(&self, name: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct(name)
            .field("endpoint", &self.redactor.text(self.endpoint.to_string()))
            .field("model", &self.model)
            .field("stream", &self.stream)
            .finish_non_exhaustive()
    }
}

/// Who signs the requests to a model; `None`: they have a key, or need none.
#[cfg(feature = "bedrock")]
fn signer(config: &ModelConfig) -> Option<AwsSigner> {
    let has_key = trimmed(config.api_key.as_ref()).is_some() || config.renewed_key.is_some();
    let is_signed = matches!(config.provider.auth, Auth::Aws) && !has_key;
    let region = || config.region.clone().unwrap_or_else(|| "us-east-1".to_owned());
    is_signed.then(|| AwsSigner::new(region(), config.profile.clone()))
}

/// The failure that a body is which cannot be read.
pub(super) fn broken(error: &BodyError) -> Failure {
    match error {
        BodyError::Broken(_) => cut_off(error.to_string()),
        BodyError::Undecodable(_) => unreadable(error.to_string()),
    }
}

/// Whether so many bytes of an answer may have come, and be kept.
fn within_bounds(size: usize, kept: usize) -> Result<(), Failure> {
    if kept > MAX_ANSWER {
        return Err(unreadable(format!("the answer is larger than {} MiB", MAX_ANSWER / MIB)));
    }
    if size > MAX_STREAM {
        return Err(unreadable(format!("the stream of the answer is larger than {} MiB", MAX_STREAM / MIB)));
    }
    Ok(())
}

async fn read_failure(response: Response, request: &ModelRequest<'_>) -> Failure {
    let (status, headers) = (response.status(), response.headers().clone());
    let body = error_body(response, request.timeouts.idle, |bytes| request.traffic.receives(bytes)).await;
    failure::from_status(status, &headers, without_mark(&body))
}

/// What has come of the body of an error, as far as it is looked at.
pub(super) async fn error_body(response: Response, idle: Option<Nanos>, receives: impl Fn(usize)) -> Vec<u8> {
    let mut body = Vec::new();
    let mut looks = MOST_LOOKS;
    let reading = async {
        // Where the body cannot be decoded, the status says enough.
        let Ok(mut coded) = HttpBody::of(response) else { return };
        while let Ok(Some(bytes)) = coded.chunk().await {
            receives(bytes.len());
            body.extend_from_slice(&bytes);
            if body.len() > MAX_ERROR || is_whole(&body, &mut looks) {
                break;
            }
        }
    };
    // What has come by then is enough.
    let longest = idle.map_or(ERROR_WAIT, |idle| ERROR_WAIT.min(idle.to_std()));
    let _ = tokio::time::timeout(longest, reading).await;
    body
}
