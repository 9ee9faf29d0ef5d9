//! Reads the limits that a provider states in the headers of an answer: how much is allowed in which time, and how much
//! of it is left.
//!
//! | headers | from | time |
//! |---|---|---|
//! | `x-ratelimit-{limit,remaining,reset}-{requests,tokens}` | `OpenAI`, Groq, Azure | computed from the reset; Azure: `x-ratelimit-renewalperiod-*` |
//! | `x-ratelimit-{limit,remaining,reset}-{requests-day,tokens-minute}`, `…-req-minute` | Cerebras, Mistral | in the name |
//! | `anthropic-ratelimit-{requests,tokens}-{limit,remaining,reset}` | Anthropic | computed from the reset |
//! | `x-ratelimit-{limit,remaining,reset}` | `OpenRouter`, others | computed from the reset; counts requests |
//! | `RateLimit-Policy`, `RateLimit` | draft-ietf-httpapi-ratelimit-headers | `w` |

use super::length::{DAY, HOUR, MINUTE, SECOND, decimal};
use super::{ReplyHeaders, date, reset};
use crate::engine::provider_limit::{LimitUnit, ProviderLimit};
use crate::time::{Instant, Nanos};

/// The most limits that are kept of an answer: the interpreter writes them down.
const MOST: usize = 8;
/// The times that providers count in.
const USUAL: [u64; 5] = [SECOND, 10 * SECOND, MINUTE, HOUR, DAY];

impl ReplyHeaders {
    /// The limits that the headers state. `now` is called only if they contain a time but no `Date`.
    pub fn limits(&self, now: impl FnOnce() -> Instant) -> Vec<ProviderLimit> {
        let sent = core::cell::LazyCell::new(|| self.get("date").and_then(date::http).unwrap_or_else(now));
        let named = self.iter().filter_map(|(name, value)| {
            let (named, is_anthropic) = named(name)?;
            let other = |what: &str| {
                let name = match (is_anthropic, named) {
                    (true, named) => format!("anthropic-ratelimit-{named}-{what}"),
                    (false, "") => format!("x-ratelimit-{what}"),
                    (false, named) => format!("x-ratelimit-{what}-{named}"),
                };
                self.get(&name)
            };
            let (unit, told) = unit_and_period(named)?;
            let renewal = || decimal(other("renewalperiod")?, SECOND);
            let reset = other("reset").and_then(|value| reset(value, *sent));
            let of = StatedLimit { unit, limit: whole(value)?, per: told.or_else(renewal), reset };
            of.left(whole(other("remaining")?)?)
        });
        named.chain(self.drafted()).take(MOST).collect()
    }

    /// The limits in the headers of the IETF's draft. A quota has its amount and time in one field, and what is left in the
    /// other, under the same name.
    fn drafted(&self) -> impl Iterator<Item = ProviderLimit> {
        let quotas = self.all("ratelimit-policy").flat_map(|value| value.split(','));
        quotas.filter_map(|quota| {
            let per = decimal(parameter(quota, "w")?, SECOND)?;
            let unit = match parameter(quota, "qu").unwrap_or("\"requests\"").trim_matches('"') {
                "requests" => LimitUnit::Requests,
                "tokens" => LimitUnit::Tokens,
                _ => return None,
            };
            let name = quota.split(';').next()?.trim();
            let mut states = self.all("ratelimit").flat_map(|value| value.split(','));
            let state = states.find(|state| state.split(';').next().is_some_and(|own| own.trim() == name))?;
            let reset = parameter(state, "t").and_then(|value| decimal(value, SECOND));
            let of = StatedLimit { unit, limit: whole(parameter(quota, "q")?)?, per: Some(per), reset };
            of.left(whole(parameter(state, "r")?)?)
        })
    }
}

/// A limit, as its headers state it.
struct StatedLimit {
    unit: LimitUnit,
    limit: u64,
    per: Option<Nanos>,
    reset: Option<Nanos>,
}

impl StatedLimit {
    /// The limit of which so much is left; `None`: the numbers make no sense (Azure sends -1 and 0 for what it does not
    /// know).
    fn left(self, remaining: u64) -> Option<ProviderLimit> {
        let Self { unit, limit, per, reset } = self;
        if limit == 0 || remaining > limit {
            return None;
        }
        let refill = || reset.and_then(|reset| refill_time(limit, remaining, reset));
        let per = per.filter(|per| !per.is_zero()).or_else(refill);
        Some(ProviderLimit { unit, limit, remaining, per, reset })
    }
}

/// The part of a header's name that says which limit it is, and whether it is Anthropic's.
fn named(name: &str) -> Option<(&str, bool)> {
    if let Some(named) = name.strip_prefix("anthropic-ratelimit-") {
        return Some((named.strip_suffix("-limit")?, true));
    }
    let rest = name.strip_prefix("x-ratelimit-limit")?;
    if rest.is_empty() { Some((rest, false)) } else { Some((rest.strip_prefix('-')?, false)) }
}

/// What the name of a limit says: `requests`, `req-minute`, `tokens-day`. Without a name, requests are counted.
fn unit_and_period(named: &str) -> Option<(LimitUnit, Option<Nanos>)> {
    let (unit, period) = named.split_once('-').unwrap_or((named, ""));
    let unit = match unit {
        "" | "requests" | "req" => LimitUnit::Requests,
        "tokens" => LimitUnit::Tokens,
        _ => return None,
    };
    let period = match period {
        "" => None,
        "second" => Some(SECOND),
        "minute" => Some(MINUTE),
        "hour" => Some(HOUR),
        "day" => Some(DAY),
        _ => return None,
    };
    Some((unit, period.map(Nanos)))
}

/// The period of a limit that refills evenly, of which `reset` says when it is full again.
// 5000 requests with 4999 left and full in 12 ms are those of a minute: OpenAI's are.
fn refill_time(limit: u64, remaining: u64, reset: Nanos) -> Option<Nanos> {
    let used = u128::from(limit.saturating_sub(remaining));
    let per = u128::from(limit).saturating_mul(reset.0.into()).checked_div(used)?;
    // The counts are rounded, so the result is near a usual time, or says nothing.
    let is_near = |usual: &u64| per.abs_diff(u128::from(*usual)) <= u128::from(usual.div_ceil(4));
    USUAL.into_iter().find(is_near).map(Nanos)
}

/// A whole number; larger ones saturate.
fn whole(value: &str) -> Option<u64> {
    let value = value.trim();
    let is_number = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| value.parse().unwrap_or(u64::MAX))
}

/// A parameter of a structured field (RFC 9651).
fn parameter<'v>(item: &'v str, name: &str) -> Option<&'v str> {
    item.split(';').skip(1).find_map(|part| {
        let (key, value) = part.split_once('=')?;
        (key.trim() == name).then_some(value.trim())
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(headers: &[(&str, &str)]) -> Vec<String> {
        let headers = ReplyHeaders::new(headers.iter().map(|(name, value)| (*name, value.as_bytes())));
        let limits = headers.limits(|| Instant(Nanos::from_secs(1_764_000_000).0));
        limits
            .iter()
            .map(|limit| {
                let unit = match limit.unit {
                    LimitUnit::Requests => "requests",
                    LimitUnit::Tokens => "tokens",
                };
                let per = limit.per.map_or("?".to_owned(), |per| per.to_string());
                format!("{} of {} {unit} per {per}", limit.remaining, limit.limit)
            })
            .collect()
    }

    #[test]
    fn the_headers_of_providers_are_read() {
        let openai = [
            ("x-ratelimit-limit-requests", "5000"),
            ("x-ratelimit-remaining-requests", "4999"),
            ("x-ratelimit-reset-requests", "12ms"),
            ("x-ratelimit-limit-tokens", "160000"),
            ("x-ratelimit-remaining-tokens", "159976"),
            ("x-ratelimit-reset-tokens", "9ms"),
        ];
        assert_eq!(read(&openai), ["4999 of 5000 requests per 1m", "159976 of 160000 tokens per 1m"]);
        let groq = [
            ("x-ratelimit-limit-requests", "14400"),
            ("x-ratelimit-remaining-requests", "14370"),
            ("x-ratelimit-reset-requests", "2m59.56s"),
        ];
        assert_eq!(read(&groq), ["14370 of 14400 requests per 24h"]);
        let azure = [
            ("x-ratelimit-limit-tokens", "5000"),
            ("x-ratelimit-remaining-tokens", "0"),
            ("x-ratelimit-renewalperiod-tokens", "60"),
        ];
        assert_eq!(read(&azure), ["0 of 5000 tokens per 1m"]);
        let anthropic = [
            ("anthropic-ratelimit-requests-limit", "50"),
            ("anthropic-ratelimit-requests-remaining", "0"),
            ("anthropic-ratelimit-requests-reset", "2025-11-24T16:01:00Z"),
            ("anthropic-ratelimit-input-tokens-limit", "40000"),
            ("anthropic-ratelimit-input-tokens-remaining", "40000"),
        ];
        assert_eq!(read(&anthropic), ["0 of 50 requests per 1m"]);
        let named = [
            ("x-ratelimit-limit-req-minute", "6"),
            ("x-ratelimit-remaining-req-minute", "5"),
            ("x-ratelimit-limit-tokens-day", "1000000"),
            ("x-ratelimit-remaining-tokens-day", "7"),
        ];
        assert_eq!(read(&named), ["5 of 6 requests per 1m", "7 of 1000000 tokens per 24h"]);
        let draft = [
            (
                "ratelimit-policy",
                r#""burst";q=100;w=60,"daily";q=1000;w=86400;qu="tokens","x";q=1;w=1;qu="bytes""#,
            ),
            ("ratelimit", r#""daily";r=700;t=9000, "burst";r=50;t=30"#),
        ];
        assert_eq!(read(&draft), ["50 of 100 requests per 1m", "700 of 1000 tokens per 24h"]);
    }

    #[test]
    fn what_makes_no_sense_is_no_limit() {
        for (limit, remaining) in
            [("0", "0"), ("-1", "0"), ("5", "6"), ("5", ""), ("1e400", "1"), ("5", "-1")]
        {
            let headers = [("x-ratelimit-limit-tokens", limit), ("x-ratelimit-remaining-tokens", remaining)];
            assert!(read(&headers).is_empty(), "{headers:?}");
        }
        // The times of a documentation, which are those of no limit.
        let odd = [
            ("x-ratelimit-limit-tokens", "150000"),
            ("x-ratelimit-remaining-tokens", "149984"),
            ("x-ratelimit-reset-tokens", "6m0s"),
        ];
        assert_eq!(read(&odd), ["149984 of 150000 tokens per ?"]);
    }

    proptest! {
        /// Whatever the headers say, it is read without a panic, and what is left is at most what is allowed.
        #[test]
        fn any_header_can_be_read(
            headers in prop::collection::vec((
                "(x-ratelimit-(limit|remaining|reset)(-(requests|tokens|req)(-(day|minute))?)?|ratelimit(-policy)?)",
                "([0-9]{0,25}|[0-9.]{1,6}(ms|s|m|d)|\"a\"(;[qwrt]=[0-9]{1,22}){0,4}|\\PC{0,9})",
            ), 0..12),
        ) {
            let headers = ReplyHeaders::new(headers.iter().map(|(name, value)| (&**name, value.as_bytes())));
            for limit in headers.limits(|| Instant(u64::MAX)) {
                prop_assert!(limit.limit > 0 && limit.remaining <= limit.limit);
            }
        }
    }
}
