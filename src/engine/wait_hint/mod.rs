//! What an answer says about waiting: in its headers, in the fields of its body, and in the text of its message.
//!
//! | source | where | form |
//! |---|---|---|
//! | header | `retry-after-ms`, `x-ms-retry-after-ms` | milliseconds, with decimals or not |
//! | header | `retry-after` | seconds, with decimals or not; an HTTP date; a duration (`1m30s`) |
//! | body | `retryDelay` | `58s`, or `{seconds, nanos}` |
//! | body | `retry_after` | seconds |
//! | body | the message | `try again in 2s`, `retry in 58.2s`, `retry after 86400 seconds`, `in 1 minute and 30 seconds` |
//! | reset | `x-ratelimit-reset*`, `ratelimit-reset` | a duration (`6m0s`); seconds; the time in seconds or milliseconds since 1970, or as RFC 3339 |
//! | reset | `anthropic-*-reset` | RFC 3339 |
//! | reset | `RateLimit` | `"name";r=0;t=30`, or `limit=100, remaining=0, reset=30` of earlier drafts |
//!
//! A reset is when a limit is whole again, not when the next request is taken (`OpenAI`, Anthropic): it counts only where
//! nothing remains, and, if the policy does not say otherwise, only where no wait is asked for in so many words. Headers
//! that a router put into the body count as well. Times are held against the `Date` of the answer, so that a wrong
//! clock here does not matter. Of all that one source says the longest wait counts; `retry-after` is left out where a
//! header says the same in milliseconds.

mod body;
mod date;
mod headers;
mod length;
mod rate_limit;
mod text;

use core::cell::LazyCell;

use serde_json::Value;

use super::failure::json::{JsonNode, LazyJson};
use super::failure::{Failure, PartialHint, WaitHint, WaitHints};
use crate::policy::WaitSource;
use crate::time::{Instant, Nanos};
pub use headers::ReplyHeaders;

/// Headers that give milliseconds. They are finer than `retry-after`, and say the same.
// openai-python reads `retry-after-ms` first; `x-ms-retry-after-ms` is what Azure sends.
const MILLISECONDS: [&str; 2] = ["retry-after-ms", "x-ms-retry-after-ms"];
/// The status that says that a limit is reached, so that a limit that does not say what remains may be meant.
// RFC 6585, section 4.
const LIMITED: u16 = 429;

impl Failure {
    /// The failure an answer with an error status stands for. `now` is asked for only where a time is given and the
    /// answer does not say when it was made.
    pub fn from_answer(
        status: u16,
        headers: &ReplyHeaders,
        body: &[u8],
        now: impl FnOnce() -> Instant,
    ) -> Self {
        let json = LazyJson::read(body);
        let mut failure = Self::from_read(body, json.as_ref());
        failure.status = Some(status);
        // Bedrock names the class of an error in a header, and only there.
        failure.kind = failure.kind.or_else(|| headers.error_type());
        failure.hinted(headers, json.as_ref(), now)
    }

    /// The failure with what the answer says about waiting. `body` is the answer as JSON, if it is some.
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
        // held against that one.
        let sent = LazyCell::new(|| headers.get("date").and_then(date::http).unwrap_or_else(now));
        let limited = self.status == Some(LIMITED);
        let mut said = StatedHints::default();
        let mut advice = headers.get(SHOULD_RETRY).and_then(advised);
        retry_after(headers, &sent, &mut said);
        resets(headers, limited, &sent, &mut said);
        said.source = WaitSource::Body;
        if let Some(body) = body {
            let inside = body::waits(body, &mut said);
            // A router speaks for itself in its own headers; what the provider told the router comes second.
            advice = advice.or_else(|| inside.get(SHOULD_RETRY).and_then(advised));
            retry_after(&inside, &sent, &mut said);
            resets(&inside, limited, &sent, &mut said);
        }
        // OpenAI, Groq, Azure and Gemini say the wait in the message, some of them nowhere else ("Please try again in
        // 4.77s").
        text::wait(&self.message, &mut said);
        self.should_retry = advice;
        self.waits = (said.waits.body.or(said.waits.reset).is_some()).then(|| Box::new(said.waits));
        self.retry_after = said.hint();
        self
    }
}

/// Whether a retry can help; the SDKs of `OpenAI` and Anthropic obey it before they look at the status.
const SHOULD_RETRY: &str = "x-should-retry";

fn advised(value: &str) -> Option<bool> {
    // openai-python compares with these two words; anything else leaves the decision to the status.
    match value {
        "true" => Some(true),
        "false" => Some(false),
        _ => None,
    }
}

/// What an answer says about waiting, as it is found.
struct StatedHints {
    /// What is being read.
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
        // Waiting too long costs some time, asking too early costs an attempt: of several lengths the longest counts.
        *longest = (*longest).max(Some(wait));
    }

    fn unusable(&mut self, name: &str, value: &str, expected: &str) {
        // The value comes from outside and is shown to people, so it is cut.
        let value: String = value.chars().take(60).collect();
        self.unusable.get_or_insert_with(|| format!("{name}: `{value}` is not {expected}"));
    }

    /// Takes what was read, or says that it could not be.
    fn take(&mut self, name: &str, value: &str, read: Option<Nanos>, expected: &str) {
        match read {
            Some(wait) => self.wait(wait),
            None => self.unusable(name, value, expected),
        }
    }

    /// The hint by the default order of the sources.
    fn hint(self) -> WaitHint {
        let WaitHints { header, body, reset } = self.waits;
        // `Retry-After` is about this request. A reset says when the limit is whole again (Anthropic), long after a
        // call may pass.
        match (header.or(body).or(reset), self.unusable) {
            (Some(wait), None) => WaitHint::Wait(wait),
            (Some(wait), Some(ignored)) => WaitHint::Partly(Box::new(PartialHint { wait, ignored })),
            (None, Some(reason)) => WaitHint::Ignored(reason),
            (None, None) => WaitHint::None,
        }
    }
}

/// The time until `then`, since the answer was sent.
type SentDelay<'a> = dyn core::ops::Deref<Target = Instant> + 'a;

fn retry_after(headers: &ReplyHeaders, sent: &SentDelay<'_>, said: &mut StatedHints) {
    let mut finer = false;
    for value in MILLISECONDS.iter().flat_map(|name| headers.all(name).map(move |value| (*name, value))) {
        let (name, value) = value;
        let read = longest(value, |value| length::decimal(value, length::MILLISECOND));
        finer |= read.is_some();
        said.take(name, value, read, "a number of milliseconds");
    }
    // The seconds repeat the same wait, rounded.
    if finer {
        return;
    }
    for value in headers.all("retry-after") {
        // RFC 9110 10.2.3 knows whole seconds and an HTTP date. Servers also send fractions and durations, and the
        // intent is clear.
        let in_words =
            |value: &str| length::decimal(value, length::SECOND).or_else(|| length::duration(value));
        let read = longest(value, in_words).or_else(|| Some(date::http(value)?.since(**sent)));
        said.take("retry-after", value, read, "a number of seconds or an HTTP date");
    }
}

/// The longest wait of a value that may be a list: a proxy joins the headers of the same name.
fn longest(value: &str, read: impl Fn(&str) -> Option<Nanos>) -> Option<Nanos> {
    value
        .split(',')
        .map(|part| read(part.trim()))
        .try_fold(Nanos::ZERO, |longest, wait| Some(longest.max(wait?)))
}

/// The ends of limits that are reached.
fn resets(headers: &ReplyHeaders, limited: bool, sent: &SentDelay<'_>, said: &mut StatedHints) {
    let source = core::mem::replace(&mut said.source, WaitSource::Reset);
    for (name, value) in headers.iter() {
        let (remaining, known) = if let Some((family, rest)) = family(name) {
            (headers.get(&format!("{family}-remaining{rest}")), limited)
        // Anthropic says what remains of each of its limits; a reset that says nothing of it is not known to be the
        // cause.
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
        // Answers list all limits, those that are not reached, too: Groq's requests are counted by the day, and its
        // reset is hours away.
        if remaining.map_or(known, nothing_left) {
            said.take(name, value, reset(value, **sent), "a duration, a number or a time");
        }
    }
    said.source = source;
}

/// The family of a header that says when a limit ends, and what it is a limit of: `x-ratelimit`, `-tokens`.
fn family(name: &str) -> Option<(&'static str, &str)> {
    ["x-ratelimit", "ratelimit", "x-rate-limit"]
        .into_iter()
        .find_map(|family| Some((family, name.strip_prefix(family)?.strip_prefix("-reset")?)))
}

/// Whether a limit is used up, or overdrawn.
fn nothing_left(remaining: &str) -> bool {
    match remaining.strip_prefix('-') {
        Some(owed) => length::decimal(owed, length::SECOND).is_some(),
        None => length::decimal(remaining, length::SECOND) == Some(Nanos::ZERO),
    }
}

/// When a limit ends: a number below a thousand million is seconds from now, one above it a time.
fn reset(value: &str, sent: Instant) -> Option<Nanos> {
    // So many seconds are 31 years, which no limit lasts. Some servers send the time as seconds since 1970 under the
    // same name.
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
