//! What a client is answered.

use bytes::Bytes;
use futures_util::stream::BoxStream;
use reqwest::StatusCode;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};

use super::error::GatewayError;
use super::progress::CallProgress;
use super::quota::KeyRefusal;
use crate::engine::DecisionReason;
use crate::host::guard::{CallError, GivenUp};
use crate::host::model::front::{GatewayDialect, left_out};
use crate::host::model::relay::{AnswerHead, RelayFailure, WholeAnswer};
use crate::policy::ErrorClass;
use crate::session::StopReason;
use crate::time::{Instant, Nanos};

const ATTEMPTS: HeaderName = HeaderName::from_static("x-unfazed-attempts");
const TARGET: HeaderName = HeaderName::from_static("x-unfazed-target");
/// What was done about the calls and results of the conversation.
const REPAIRED: HeaderName = HeaderName::from_static("x-unfazed-repaired");
/// What was taken out of the conversation, so that it fits the window of the model.
const REDUCED: HeaderName = HeaderName::from_static("x-unfazed-reduced");
const WHY: HeaderName = HeaderName::from_static("x-unfazed-why");
const CLASS: HeaderName = HeaderName::from_static("x-unfazed-class");
/// The SDKs of `OpenAI` and Anthropic obey it before anything else, and then these milliseconds.
const SHOULD_RETRY: HeaderName = HeaderName::from_static("x-should-retry");
const RETRY_AFTER_MS: HeaderName = HeaderName::from_static("retry-after-ms");
/// What Azure calls it.
const AZURE_RETRY_AFTER_MS: HeaderName = HeaderName::from_static("x-ms-retry-after-ms");
/// The longest wait that is passed on: who asks for centuries has computed it wrongly.
const LONGEST_WAIT: Nanos = Nanos::from_secs(86_400);
/// How long clients wait whom a gateway that ends turns away, in seconds.
const COME_BACK: u16 = 1;
const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// What a client is answered.
pub(crate) struct GatewayAnswer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: GatewayBody,
}

/// The body of an answer.
pub(crate) enum GatewayBody {
    Whole(Bytes),
    /// It comes piece by piece; dropped, it is cancelled.
    Stream(BoxStream<'static, Bytes>),
}

impl GatewayAnswer {
    /// A request that the gateway refuses.
    pub(crate) fn refused(dialect: GatewayDialect, error: &GatewayError) -> Self {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, JSON);
        if !error.status.is_server_error() {
            headers.insert(SHOULD_RETRY, HeaderValue::from_static("false"));
        }
        Self { status: error.status, headers, body: GatewayBody::Whole(dialect.error(error)) }
    }

    /// A request that was in flight when the gateway ended.
    pub(super) fn cut_off(dialect: GatewayDialect) -> Self {
        let mut answer = Self::refused(dialect, &GatewayError::shutting_down());
        answer.headers.insert(RETRY_AFTER, HeaderValue::from(COME_BACK));
        answer
    }

    /// A request of a client that has used what its key may.
    pub(super) fn over_limit(dialect: GatewayDialect, refusal: &KeyRefusal, now: Instant) -> Self {
        let KeyRefusal { rule, value, place, until, is_budget } = refusal;
        let wait = until.since(now);
        let code = if *is_budget { "insufficient_quota" } else { "rate_limit_exceeded" };
        let message =
            format!("the key has used its {rule}, {value} ({place}); it may ask again in {}", wait.rounded());
        let error = GatewayError::new(StatusCode::TOO_MANY_REQUESTS, code, message);
        let mut answer = Self::refused(dialect, &error);
        if !is_budget {
            // The SDK waits that long, and is served then.
            answer.headers.remove(SHOULD_RETRY);
        }
        answer.headers.extend(text(place).map(|place| (WHY, place)));
        wait_for(&mut answer.headers, wait);
        answer
    }

    /// An answer that has come as a whole.
    pub(super) fn whole(answer: WholeAnswer, progress: &CallProgress) -> Self {
        Self::begun(answer.head, GatewayBody::Whole(answer.body), progress)
    }

    /// An answer that has begun.
    pub(super) fn begun(head: AnswerHead, body: GatewayBody, progress: &CallProgress) -> Self {
        let mut headers = head.headers;
        progress.say(&mut headers);
        Self { status: head.status, headers, body }
    }

    /// A request that no model has answered.
    pub(super) fn failed(
        dialect: GatewayDialect,
        error: CallError<RelayFailure>,
        progress: &CallProgress,
    ) -> Self {
        let class = class(&error);
        let (because, wait) = match &error {
            CallError::Exhausted(given_up) => {
                (given_up.because.first().cloned(), given_up.exhausted.retry_after)
            }
            CallError::Refused(_) | CallError::Run(_) => (None, None),
        };
        let said = gateway_error(&error);
        let left_out = last(&error).and_then(|failure| left_out(&failure.left_out));
        let mut answer = if let Some(answer) = answered(error, class, said.status) {
            Self::whole(answer, progress)
        } else {
            let mut answer = Self::refused(dialect, &said);
            progress.say(&mut answer.headers);
            answer
        };
        if let Some((name, value)) = left_out {
            answer.headers.insert(name, value);
        }
        explain(&mut answer.headers, class, because.as_ref(), wait);
        answer
    }
}

/// The error of a failure after the stream has begun, or if the server said nothing that can be passed on.
pub(super) fn gateway_error(error: &CallError<RelayFailure>) -> GatewayError {
    let class = class(error);
    let given_up = match error {
        CallError::Exhausted(given_up) => given_up,
        CallError::Refused(refused) => return GatewayError::of(class, Some(503), refused.message.clone()),
        CallError::Run(error) => return GatewayError::of(class, Some(503), error.to_string()),
    };
    let last = last(error);
    let message = last.map(|last| last.failure.message.clone()).filter(|message| !message.is_empty());
    let record = || given_up.exhausted.attempts.last().map(|attempt| attempt.message.clone());
    let message = message.or_else(record).unwrap_or_else(|| given_up.message.clone());
    let error = GatewayError::of(class, last.and_then(|last| last.failure.status), message);
    match last {
        Some(last) => error.said(last.failure.clone(), last.is_own),
        None => error,
    }
}

/// The last attempt, if one has failed.
fn last(error: &CallError<RelayFailure>) -> Option<&RelayFailure> {
    match error {
        CallError::Exhausted(given_up) => given_up.last.as_ref(),
        CallError::Refused(_) | CallError::Run(_) => None,
    }
}

fn class(error: &CallError<RelayFailure>) -> ErrorClass {
    match error {
        CallError::Exhausted(given_up) => {
            let exhausted = &given_up.exhausted;
            exhausted.attempts.last().map_or_else(|| unattempted(exhausted.reason), |last| last.error_type)
        }
        CallError::Refused(refused) => refused.class,
        CallError::Run(_) => ErrorClass::Overloaded,
    }
}

/// The class of a request of which no attempt was made.
const fn unattempted(reason: StopReason) -> ErrorClass {
    match reason {
        StopReason::Pace => ErrorClass::RateLimit,
        StopReason::Deadline | StopReason::TotalDelay => ErrorClass::Timeout,
        _ => ErrorClass::NetworkError,
    }
}

/// What the server answered last, if a client can read it: its own error, or an answer that says nothing, that says of a refusal, or
/// that has a call which the client may read otherwise. An error with a status of success has `status`: clients look at it first.
fn answered(error: CallError<RelayFailure>, class: ErrorClass, status: StatusCode) -> Option<WholeAnswer> {
    let CallError::Exhausted(given_up) = error else { return None };
    let GivenUp { last, .. } = *given_up;
    let mut answer = last?.answer?;
    let said = answer.head.status;
    if said.is_client_error() || said.is_server_error() {
        let is_json = serde_json::from_slice::<serde::de::IgnoredAny>(&answer.body).is_ok();
        return (is_json && answer.body.trim_ascii_start().starts_with(b"{")).then_some(answer);
    }
    // Vectors and counts, and what stands in the place of a stream.
    let body = serde_json::from_slice::<serde_json::Value>(&answer.body).unwrap_or_default();
    let says_error = body.get("error").is_some_and(|error| !error.is_null());
    if says_error {
        answer.head.status = status;
    }
    let is_answer = matches!(
        class,
        ErrorClass::EmptyResponse
            | ErrorClass::ReasoningOnly
            | ErrorClass::ContentFilter
            | ErrorClass::MalformedToolCall
            | ErrorClass::InvalidArgs
            | ErrorClass::ToolNotFound
            | ErrorClass::InvalidOutput
    );
    (said.is_success() && (is_answer || says_error)).then_some(answer)
}

/// Says why there is no further attempt, and that the client need not make one.
fn explain(
    headers: &mut HeaderMap,
    class: ErrorClass,
    because: Option<&DecisionReason>,
    wait: Option<Nanos>,
) {
    headers.insert(SHOULD_RETRY, HeaderValue::from_static("false"));
    headers.insert(CLASS, HeaderValue::from_static(class.name()));
    // What the provider said may be no time at all, or centuries.
    for said in [RETRY_AFTER, RETRY_AFTER_MS, AZURE_RETRY_AFTER_MS] {
        headers.remove(said);
    }
    if let Some(why) = because.and_then(|because| text(&because.place.to_string())) {
        headers.insert(WHY, why);
    }
    if let Some(wait) = wait {
        wait_for(headers, wait.min(LONGEST_WAIT));
    }
}

/// Says how long to wait.
fn wait_for(headers: &mut HeaderMap, wait: Nanos) {
    let millis = wait.millis();
    headers.insert(RETRY_AFTER, HeaderValue::from(millis.div_ceil(1000)));
    headers.insert(RETRY_AFTER_MS, HeaderValue::from(millis));
}

impl CallProgress {
    /// Says how many attempts there were, at which model the last, and what was changed for it.
    fn say(&self, headers: &mut HeaderMap) {
        headers.insert(ATTEMPTS, HeaderValue::from(self.attempts()));
        if let Some(target) = text(&self.target()) {
            headers.insert(TARGET, target);
        }
        headers.extend(self.repaired().and_then(|counts| text(&counts)).map(|counts| (REPAIRED, counts)));
        if let Some((class, place)) = self.passed() {
            headers.insert(CLASS, HeaderValue::from_static(class.name()));
            headers.extend(text(&place).map(|place| (WHY, place)));
        }
        headers.extend(self.reduced().and_then(|counts| text(&counts)).map(|counts| (REDUCED, counts)));
    }
}

/// The value of a header; what no header can hold is replaced.
fn text(text: &str) -> Option<HeaderValue> {
    let plain: String =
        text.chars().map(|c| if c.is_ascii_graphic() || c == ' ' { c } else { '?' }).collect();
    Some(plain).filter(|plain| !plain.is_empty()).and_then(|plain| HeaderValue::from_str(&plain).ok())
}
