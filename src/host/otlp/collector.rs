//! The collector: what is exported is sent to it once, and it costs nothing when it is away.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use reqwest::header::{CONTENT_TYPE, RETRY_AFTER};
use reqwest::{Response, StatusCode};
use tokio::time::Instant;

use super::settings::{OtlpError, SignalSettings};
use crate::host::model::client::HttpClients;
use crate::time::Nanos;

/// How long a connection may take.
const CONNECT: Nanos = Nanos::from_secs(2);
/// How long a collector is left alone that is away.
const PAUSE: Duration = Duration::from_secs(30);
/// The longest wait that a collector is given which asks for one.
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// What is said of a collector that takes too long.
pub(super) const LATE: &str = "no answer in time";

/// Where one kind of telemetry is sent.
pub(super) struct Collector {
    to: SignalSettings,
    clients: HttpClients,
    reach: Arc<CollectorReach>,
    /// Until then nothing is sent.
    paused: Mutex<Option<Instant>>,
    /// Whether it was said that the collector has no address for this signal.
    is_refused: AtomicBool,
}

crate::debug_parts!(|this: Collector| to: &this.to);

/// What is known of the collector, whatever it is sent.
#[derive(Debug, Default)]
pub(super) struct CollectorReach {
    /// Whether it was said that it is away.
    said: AtomicBool,
    /// The most that the end waits for it; not yet: none.
    last: Mutex<Option<Duration>>,
}

/// Something was not delivered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(super) struct Undelivered(String);

impl CollectorReach {
    /// The end has come: what is sent now may take so long.
    pub(super) fn end(&self, within: Duration) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(within);
    }

    /// It does not take what it is sent: that is logged, once as long as it lasts.
    pub(super) fn is_away(&self, error: &str) {
        if !self.said.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                error,
                "telemetry cannot be exported; what the collector does not take is dropped"
            );
        }
    }

    fn last(&self) -> Option<Duration> {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Collector {
    pub(super) fn new(to: SignalSettings, reach: Arc<CollectorReach>) -> Result<Self, OtlpError> {
        let clients = HttpClients::new(&to.url).map_err(|error| OtlpError::Client(error.to_string()))?;
        Ok(Self { to, clients, reach, paused: Mutex::default(), is_refused: AtomicBool::new(false) })
    }

    /// Sends a message of OTLP. One that a busy collector refuses is sent once more, if there is time.
    ///
    /// # Errors
    /// It was not delivered, and will not be.
    pub(super) async fn send(&self, message: Vec<u8>) -> Result<(), Undelivered> {
        if self.is_paused() {
            return Err(Undelivered("the collector is away".to_owned()));
        }
        let mut answer = self.post(message.clone()).await;
        if let Ok(response) = &answer
            && let Some(wait) = wait(response)
            && self.reach.last().is_none()
        {
            tokio::time::sleep(wait).await;
            answer = self.post(message).await;
        }
        match answer {
            Ok(response) if response.status().is_success() => {
                self.is_back();
                Ok(())
            }
            Ok(response) if is_elsewhere(response.status()) => Err(self.refuses(response.status())),
            Ok(response) => Err(self.is_away(format!("HTTP status {}", response.status().as_u16()))),
            Err(error) => Err(self.is_away(error)),
        }
    }

    async fn post(&self, message: Vec<u8>) -> Result<Response, String> {
        let client = self.clients.connecting_within(Some(CONNECT)).map_err(|error| error.to_string())?;
        let timeout = self.reach.last().map_or(self.to.timeout, |last| last.min(self.to.timeout));
        let request = client.post(self.to.url.clone()).headers(self.to.headers.clone());
        let request = request.header(CONTENT_TYPE, "application/x-protobuf").body(message).timeout(timeout);
        request.send().await.map_err(|error| reason(&error))
    }

    /// What comes last is tried in any case.
    fn is_paused(&self) -> bool {
        let paused = *self.paused.lock().unwrap_or_else(PoisonError::into_inner);
        self.reach.last().is_none() && paused.is_some_and(|until| Instant::now() < until)
    }

    fn is_back(&self) {
        *self.paused.lock().unwrap_or_else(PoisonError::into_inner) = None;
        if self.reach.said.swap(false, Ordering::Relaxed) {
            tracing::info!("the collector of telemetry takes it again");
        }
    }

    /// Some take traces alone, Arize Phoenix and Jaeger among them: said once, whatever becomes of the other signal.
    fn refuses(&self, status: StatusCode) -> Undelivered {
        let (path, status) = (self.to.url.path(), status.as_u16());
        self.pause();
        if !self.is_refused.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                path,
                status,
                without = format!("{}=none", self.to.exporter),
                "the collector takes nothing at this address; what is sent there is dropped"
            );
        }
        Undelivered(format!("HTTP status {status}"))
    }

    fn is_away(&self, error: String) -> Undelivered {
        self.pause();
        self.reach.is_away(&error);
        Undelivered(error)
    }

    fn pause(&self) {
        *self.paused.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now().checked_add(PAUSE);
    }
}

/// Whether nothing takes what is sent to that address.
fn is_elsewhere(status: StatusCode) -> bool {
    [StatusCode::NOT_FOUND, StatusCode::METHOD_NOT_ALLOWED, StatusCode::NOT_IMPLEMENTED].contains(&status)
}

/// How long a busy collector wants to be left alone; `None`: it does not take the message.
fn wait(response: &Response) -> Option<Duration> {
    let busy = [
        StatusCode::TOO_MANY_REQUESTS,
        StatusCode::BAD_GATEWAY,
        StatusCode::SERVICE_UNAVAILABLE,
        StatusCode::GATEWAY_TIMEOUT,
    ];
    if !busy.contains(&response.status()) {
        return None;
    }
    let asked = response.headers().get(RETRY_AFTER).and_then(|after| after.to_str().ok()?.parse().ok());
    Some(Duration::from_secs(asked.unwrap_or(1)).min(LONGEST_WAIT))
}

/// What went wrong, without the address, which may have a key.
fn reason(error: &reqwest::Error) -> String {
    if error.is_timeout() {
        return LATE.to_owned();
    }
    if error.is_connect() {
        return "no connection".to_owned();
    }
    "the connection broke off".to_owned()
}
