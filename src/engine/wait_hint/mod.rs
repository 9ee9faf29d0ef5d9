//! Reads server delays from a response: its headers, the fields of its body, and its message.
//!
//! | source | where | form |
//! |---|---|---|
//! | header | `retry-after-ms`, `x-ms-retry-after-ms` | milliseconds, with decimals or not |
//! | header | `retry-after` | seconds, with decimals or not; an HTTP date; a duration (`1m30s`) |
//! | body | `retryDelay` | `58s`, or `{seconds, nanos}` |
//! | body | `retry_after`, `resets_in_seconds` | seconds |
//! | body | the message | `try again in 2s`, `retry in 58.2s`, `retry after 86400 seconds`, `in 1 minute and 30 seconds` |
//! | reset | `x-ratelimit-reset*`, `ratelimit-reset`, `ratelimitbysize-reset` | `6m0s`; seconds; the time in (milli)seconds since 1970, or as RFC 3339 |
//! | reset | `anthropic-*-reset` | RFC 3339 |
//! | reset | `RateLimit` | `"name";r=0;t=30`, or `limit=100, remaining=0, reset=30` of earlier drafts |
//!
//! A reset is the time when a limit is whole again, not when the next request is accepted (`OpenAI`, Anthropic): it
//! counts only if nothing remains, and, unless the policy says otherwise, only if the response has no explicit delay.
//! Headers that a router put into the body count as well. Times are compared with the `Date` of the response, so that
//! a wrong local clock does not matter. The longest delay of one source counts; `retry-after` is ignored if a header
//! has the same delay in milliseconds.

mod body;
mod date;
mod headers;
mod length;
mod limits;
mod rate_limit;
mod text;

use core::cell::LazyCell;

use serde_json::Value;

use super::failure::json::{JsonNode, LazyJson};
use super::failure::{Failure, PartialHint, WaitHint, WaitHints};
use crate::policy::WaitSource;
use crate::time::{Instant, Nanos};
pub use headers::ReplyHeaders;

/// Headers in milliseconds. They are finer than `retry-after`, with the same meaning.
// openai-python reads `retry-after-ms` first; Azure sends `x-ms-retry-after-ms`.
const MILLISECONDS: [&str; 2] = ["retry-after-ms", "x-ms-retry-after-ms"];
/// The status for a reached limit: with it, a limit without a remaining amount may be the cause.
// RFC 6585, section 4.
const LIMITED: u16 = 429;

impl Failure {
    /// The failure of a response with an error status. `now` is called only if the response contains a time but no
    /// `Date`.
    pub fn from_answer(
        status: u16,
        headers: &ReplyHeaders,
        body: &[u8],
        now: impl FnOnce() -> Instant,
    ) -> Self {
        let json = LazyJson::read(body);
        let mut failure = Self::from_read(body, json.as_ref());
        failure.status = Some(status);
        // Bedrock names the error class in a header only, and proxies of its protocol the message too.
        failure.kind = failure.kind.or_else(|| headers.error_type());
        if failure.message.is_empty() {
            headers.get("x-amzn-errormessage").unwrap_or_default().clone_into(&mut failure.message);
        }
        failure.hinted(headers, json.as_ref(), now)
    }

    /// Adds the server delays of a response to the failure. `body` is the response as JSON, if it is JSON.
    #[must_use]
    pub fn with_hint(
        self,
        headers: &ReplyHeaders,
        body: Option<&Value>,
        now: impl FnOnce() -> Instant,
    ) -> Self {
        self.hinted(headers, body, now)
    }

    fn hinted(
        mut self,
        headers: &ReplyHeaders,
        body: Option<&impl JsonNode>,
        now: impl FnOnce() -> Instant,
    ) -> Self {
        // The server's clock may be minutes off. Its times agree with its own `Date` (RFC 9110 6.6.1), so they are
        // compared with that.
        let sent = LazyCell::new(|| headers.get("date").and_then(date::http).unwrap_or_else(now));
        let limited = self.status == Some(LIMITED);
        let mut said = StatedHints::default();
        let mut advice = headers.get(SHOULD_RETRY).and_then(advised);
        retry_after(headers, &sent, &mut said);
        resets(headers, limited, &sent, &mut said);
        said.source = WaitSource::Body;
        if let Some(body) = body {
            let inside = body::waits(body, &mut said);
            // The headers of the router itself come first; those of the provider inside the body come second.
            advice = advice.or_else(|| inside.get(SHOULD_RETRY).and_then(advised));
            retry_after(&inside, &sent, &mut said);
            resets(&inside, limited, &sent, &mut said);
        }
        // OpenAI, Groq, Azure and Gemini put the delay into the message, some of them only there ("Please try again
        // in 4.77s").
        text::wait(&self.message, &mut said);
        self.should_retry = advice;
        self.limits = headers.limits(|| *sent);
        self.waits = (said.waits.body.or(said.waits.reset).is_some()).then(|| Box::new(said.waits));
        self.retry_after = said.hint();
        self
    }
}

/// Whether a retry can help; the SDKs of `OpenAI` and Anthropic obey this header before the status.
const SHOULD_RETRY: &str = "x-should-retry";

fn advised(value: &str) -> Option<bool> {
    // openai-python compares with these two words; for other values the status decides.
    match value {
        "true" => Some(true),
        "false" => Some(false),
        _ => None,
    }
}

/// The server delays found in a response.
struct StatedHints {
    /// The source being read.
    source: WaitSource,
    waits: WaitHints,
    unusable: Option<String>,
}

impl Default for StatedHints {
    fn default() -> Self {
        Self { source: WaitSource::Header, waits: WaitHints::default(), unusable: None }
    }
}

impl StatedHints {
    fn wait(&mut self, wait: Nanos) {
        let longest = match self.source {
            WaitSource::Reset => &mut self.waits.reset,
            WaitSource::Body => &mut self.waits.body,
            WaitSource::Header | WaitSource::ShouldRetry | WaitSource::Row => &mut self.waits.header,
        };
        // Waiting too long costs time, a too early attempt costs an attempt: of several delays the longest counts.
        *longest = (*longest).max(Some(wait));
    }

    fn unusable(&mut self, name: &str, value: &str, expected: &str) {
        // The value is untrusted and shown to people, so it is cut.
        let value: String = value.chars().take(60).collect();
        self.unusable.get_or_insert_with(|| format!("{name}: `{value}` is not {expected}"));
    }

    /// Records a parsed delay, or that it cannot be used.
    fn take(&mut self, name: &str, value: &str, read: Option<Nanos>, expected: &str) {
        match read {
            Some(wait) => self.wait(wait),
            None => self.unusable(name, value, expected),
        }
    }

    /// The delay by the default order of the sources.
    fn hint(self) -> WaitHint {
        let WaitHints { header, body, reset } = self.waits;
        // `Retry-After` is about this request. A reset is the time when the limit is whole again (Anthropic), long
        // after a call is accepted.
        match (header.or(body).or(reset), self.unusable) {
            (Some(wait), None) => WaitHint::Wait(wait),
            (Some(wait), Some(ignored)) => WaitHint::Partly(Box::new(PartialHint { wait, ignored })),
            (None, Some(reason)) => WaitHint::Ignored(reason),
            (None, None) => WaitHint::None,
        }
    }
}

/// The time at which the response was sent, computed when needed.
type SentDelay<'a> = dyn core::ops::Deref<Target = Instant> + 'a;

fn retry_after(headers: &ReplyHeaders, sent: &SentDelay<'_>, said: &mut StatedHints) {
    let mut finer = false;
    for value in MILLISECONDS.iter().flat_map(|name| headers.all(name).map(move |value| (*name, value))) {
        let (name, value) = value;
        let read = longest(value, |value| length::decimal(value, length::MILLISECOND));
        finer |= read.is_some();
        said.take(name, value, read, "a number of milliseconds");
    }
    // The seconds repeat the same delay, rounded.
    if finer {
        return;
    }
    for value in headers.all("retry-after") {
        // RFC 9110 10.2.3 allows whole seconds and an HTTP date. Servers also send fractions and durations, and the
        // meaning is clear.
        let in_words =
            |value: &str| length::decimal(value, length::SECOND).or_else(|| length::duration(value));
        let read = longest(value, in_words).or_else(|| Some(date::http(value)?.since(**sent)));
        said.take("retry-after", value, read, "a number of seconds or an HTTP date");
    }
}

/// The longest delay of a value that may be a list: proxies join headers with the same name.
fn longest(value: &str, read: impl Fn(&str) -> Option<Nanos>) -> Option<Nanos> {
    value
        .split(',')
        .map(|part| read(part.trim()))
        .try_fold(Nanos::ZERO, |longest, wait| Some(longest.max(wait?)))
}

/// Reads the resets of reached limits.
fn resets(headers: &ReplyHeaders, limited: bool, sent: &SentDelay<'_>, said: &mut StatedHints) {
    let source = core::mem::replace(&mut said.source, WaitSource::Reset);
    for (name, value) in headers.iter() {
        let (remaining, known) = if let Some((family, rest)) = family(name) {
            (headers.get(&format!("{family}-remaining{rest}")), limited)
        // Anthropic sends the remaining amount of each limit; a reset without it is not known to be the cause.
        } else if let Some(limit) = name.strip_suffix("-reset").filter(|name| name.starts_with("anthropic-"))
        {
            (headers.get(&format!("{limit}-remaining")), false)
        } else {
            if name == "ratelimit" {
                rate_limit::resets(value, limited).for_each(|(value, read)| {
                    said.take(name, value, read, "a number of seconds");
                });
            }
            continue;
        };
        // Responses list all limits, including those not reached: Groq counts requests per day, and that reset is
        // hours away.
        if remaining.map_or(known, nothing_left) {
            said.take(name, value, reset(value, **sent), "a duration, a number or a time");
        }
    }
    said.source = source;
}

/// The family of a reset header, and the name of its limit: `x-ratelimit`, `-tokens`.
fn family(name: &str) -> Option<(&'static str, &str)> {
    // Mistral counts tokens in headers of its own: `ratelimitbysize-reset`, `ratelimitbysize-remaining`.
    ["x-ratelimit", "ratelimit", "x-rate-limit", "ratelimitbysize"]
        .into_iter()
        .find_map(|family| Some((family, name.strip_prefix(family)?.strip_prefix("-reset")?)))
}

/// Whether a limit is used up, or exceeded.
fn nothing_left(remaining: &str) -> bool {
    match remaining.strip_prefix('-') {
        Some(owed) => length::decimal(owed, length::SECOND).is_some(),
        None => length::decimal(remaining, length::SECOND) == Some(Nanos::ZERO),
    }
}

/// The time until a reset: a number below 1,000,000,000 is in seconds from now, a larger one is a Unix time.
fn reset(value: &str, sent: Instant) -> Option<Nanos> {
    // This number of seconds is 31 years, longer than any limit. Some servers send Unix time under the same name.
    const A_TIME: Nanos = Nanos::from_secs(1_000_000_000);
    if let Some(seconds) = length::decimal(value, length::SECOND) {
        let digits = value.bytes().take_while(u8::is_ascii_digit).count();
        return Some(match digits {
            // Thirteen digits of seconds would be 30,000 years from now: these are milliseconds since 1970, as
            // OpenRouter sends them.
            13.. => Instant(length::decimal(value, length::MILLISECOND)?.0).since(sent),
            _ if seconds >= A_TIME => Instant(seconds.0).since(sent),
            _ => seconds,
        });
    }
    length::duration(value).or_else(|| Some(date::rfc3339(value)?.since(sent)))
}

#[cfg(test)]
mod tests;
