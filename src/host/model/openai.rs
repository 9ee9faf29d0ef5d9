//! A model behind an OpenAI-compatible server.

use std::error::Error;
use std::fmt;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{Client, Response, Url};
use serde::de::IgnoredAny;

use super::config::{ConfigError, OpenAiConfig};
use super::failure::{self, cut_off, unreadable};
use super::redact::Redactor;
use super::sse::{SseEvent, SseParser};
use super::wire::{Assembly, ChatRequest, Progress, Sampling, read_body};
use super::within::within;
use crate::engine::{Failure, ModelReply};
use crate::host::port::{BoxFuture, Model, ModelRequest};
use crate::policy::ErrorClass;
use crate::session::Message;

/// The most bytes of an answer, streamed or not.
const MAX_ANSWER: usize = 8 * 1024 * 1024;
/// The most bytes of an error's body that are looked at, and the longest they are waited for: the status alone
/// tells enough.
const MAX_ERROR: usize = 64 * 1024;
const ERROR_WAIT: Duration = Duration::from_secs(5);
/// How long the end of a stream that is done is waited for, so that the connection can be used again.
const LAST_BYTES: Duration = Duration::from_millis(100);

/// A model behind an OpenAI-compatible server. One call is one HTTP request.
pub struct OpenAi {
    client: Client,
    endpoint: Url,
    headers: HeaderMap,
    model: String,
    sampling: Sampling,
    redactor: Redactor,
}

impl OpenAi {
    /// Sets up the connection; nothing is sent yet.
    ///
    /// # Errors
    /// The configuration cannot be used.
    pub fn new(config: OpenAiConfig) -> Result<Self, ConfigError> {
        config.check_extra()?;
        let endpoint = config.endpoint()?;
        let mut headers = config.header_map()?;
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let accept = if config.stream { "text/event-stream, application/json" } else { "application/json" };
        headers.entry(ACCEPT).or_insert(HeaderValue::from_static(accept));
        Ok(Self {
            client: super::client::client(&endpoint)?,
            endpoint,
            headers,
            redactor: Redactor::new(config.secrets()),
            model: config.model,
            sampling: Sampling {
                stream: config.stream,
                temperature: config.temperature,
                max_tokens: config.max_tokens,
                extra: config.extra,
            },
        })
    }

    async fn attempt(&self, request: &ModelRequest<'_>, status: &AtomicU16) -> Result<ModelReply, Failure> {
        let body = serde_json::to_vec(&ChatRequest::new(&self.model, request, &self.sampling))
            .map_err(|error| unreadable(format!("the request cannot be written: {error}")))?;
        let sent = self.client.post(self.endpoint.clone()).headers(self.headers.clone()).body(body).send();
        let response = sent.await.map_err(|error| self.not_sent(&error))?;
        status.store(response.status().as_u16(), Ordering::Relaxed);
        if !response.status().is_success() {
            return Err(read_failure(response).await);
        }
        read_answer(response, request.messages).await
    }

    fn not_sent(&self, error: &reqwest::Error) -> Failure {
        let (server, cause) = (self.server(), cause(error));
        if error.is_timeout() {
            Failure::of(ErrorClass::Timeout, format!("no connection to {server} in time: {cause}"))
        } else if error.is_connect() {
            cut_off(format!("cannot connect to {server}: {cause}"))
        } else {
            cut_off(format!("the connection to {server} broke before an answer came: {cause}"))
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
}

impl Model for OpenAi {
    fn call<'a>(&'a self, request: ModelRequest<'a>) -> BoxFuture<'a, Result<ModelReply, Failure>> {
        Box::pin(async move {
            let (started, status) = (Instant::now(), AtomicU16::new(0));
            let result = within(&request, self.attempt(&request, &status)).await;
            let result = result.map_err(|failure| self.redactor.failure(failure));
            tracing::debug!(
                model = self.model,
                server = self.server(),
                status = status.into_inner(),
                elapsed_ms = started.elapsed().as_millis(),
                ok = result.is_ok(),
                "model call"
            );
            result
        })
    }
}

impl fmt::Debug for OpenAi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { endpoint, model, sampling, .. } = self;
        f.debug_struct("OpenAi")
            .field("endpoint", &self.redactor.text(endpoint.to_string()))
            .field("model", model)
            .field("stream", &sampling.stream)
            .finish_non_exhaustive()
    }
}

/// The innermost cause of an error: what the system said, without the layers around it.
pub(super) fn cause(error: &(dyn Error + 'static)) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}

async fn read_failure(mut response: Response) -> Failure {
    let mut body = Vec::new();
    let reading = async {
        while let Ok(Some(bytes)) = response.chunk().await {
            body.extend_from_slice(&bytes);
            if body.len() > MAX_ERROR {
                break;
            }
        }
    };
    // What has come by then is enough.
    let _ = tokio::time::timeout(ERROR_WAIT, reading).await;
    failure::from_status(response.status(), response.headers(), &body)
}

async fn read_answer(mut response: Response, conversation: &[Message]) -> Result<ModelReply, Failure> {
    let headers = response.headers().clone();
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let mut answer =
        if kind.contains("event-stream") { Answer::Events(Box::default()) } else { Answer::Body(Vec::new()) };
    let mut size = 0;
    loop {
        let bytes = match response.chunk().await {
            Ok(Some(bytes)) => bytes,
            Ok(None) => break,
            Err(_) if answer.is_whole() => break,
            Err(error) => {
                return Err(cut_off(format!(
                    "the connection broke in the middle of the answer: {}",
                    cause(&error)
                )));
            }
        };
        size += bytes.len();
        if size > MAX_ANSWER {
            return Err(unreadable(format!("the answer is larger than {} MiB", MAX_ANSWER / 1024 / 1024)));
        }
        if answer.take(&bytes, &headers)? == Progress::Done {
            let _ = tokio::time::timeout(LAST_BYTES, response.chunk()).await;
            break;
        }
    }
    answer.reply(&headers, conversation)
}

/// An answer that is being read, in the form the server chose.
enum Answer {
    Body(Vec<u8>),
    Events(Box<Events>),
}

#[derive(Default)]
struct Events {
    parser: SseParser,
    assembly: Assembly,
    waiting: Vec<SseEvent>,
}

impl Answer {
    fn take(&mut self, bytes: &Bytes, headers: &HeaderMap) -> Result<Progress, Failure> {
        match self {
            Self::Body(body) => {
                body.extend_from_slice(bytes);
                Ok(Progress::More)
            }
            Self::Events(events) => events.take(bytes, headers),
        }
    }

    fn is_whole(&self) -> bool {
        matches!(self, Self::Events(events) if events.assembly.is_whole())
    }

    fn reply(self, headers: &HeaderMap, conversation: &[Message]) -> Result<ModelReply, Failure> {
        match self {
            // Some servers stream without saying so.
            Self::Body(body) if looks_like_events(&body) => {
                let mut events = Events::default();
                events.take(&body, headers)?;
                events.reply(headers, conversation)
            }
            Self::Body(body) => read_body(&body, headers, conversation),
            Self::Events(events) => events.reply(headers, conversation),
        }
    }
}

/// Whether a body that is not declared as a stream of events is one all the same.
fn looks_like_events(body: &[u8]) -> bool {
    let body = body.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(body).trim_ascii_start();
    [&b"data:"[..], b"event:", b"id:", b"retry:", b":"].iter().any(|start| body.starts_with(start))
}

impl Events {
    fn take(&mut self, bytes: &[u8], headers: &HeaderMap) -> Result<Progress, Failure> {
        let pushed = self.parser.push(bytes, &mut self.waiting);
        for event in self.waiting.drain(..) {
            if self.assembly.take(&event, headers)? == Progress::Done {
                return Ok(Progress::Done);
            }
        }
        pushed.map_err(|error| unreadable(error.to_string()))?;
        Ok(Progress::More)
    }

    fn reply(mut self, headers: &HeaderMap, conversation: &[Message]) -> Result<ModelReply, Failure> {
        if let Some(last) = self.parser.finish() {
            // Without the blank line after it, only an event that is whole in itself counts.
            if last.data.trim() == "[DONE]" || serde_json::from_str::<IgnoredAny>(&last.data).is_ok() {
                self.assembly.take(&last, headers)?;
            }
        }
        self.assembly.reply(conversation)
    }
}
