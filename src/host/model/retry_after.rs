//! What a response says about waiting: `retry-after-ms`, and `retry-after` as seconds or as a date.

use std::time::{Duration, SystemTime};

use reqwest::header::{DATE, HeaderMap, RETRY_AFTER};

use crate::engine::Hint;
use crate::time::Nanos;

/// Headers that give milliseconds. They are finer than `retry-after` and go first.
const MILLISECONDS: [&str; 2] = ["retry-after-ms", "x-ms-retry-after-ms"];

/// Reads the hint. `now` is asked only for a date in a response that does not say when it was made.
pub(crate) fn hint(headers: &HeaderMap, now: impl FnOnce() -> SystemTime) -> Hint {
    let mut ignored = Hint::None;
    for name in MILLISECONDS {
        let Some(value) = headers.get(name) else { continue };
        match value.to_str().ok().and_then(|text| number(text.trim(), 1000.0)) {
            Some(wait) => return Hint::Wait(wait),
            None => ignored = unusable(name, value.as_bytes(), "a number of milliseconds"),
        }
    }
    let Some(value) = headers.get(RETRY_AFTER) else { return ignored };
    let text = value.to_str().unwrap_or_default().trim();
    if let Some(wait) = number(text, 1.0) {
        return Hint::Wait(wait);
    }
    if let Ok(date) = httpdate::parse_http_date(text) {
        // The server's own clock, so that a wrong clock here does not matter.
        let sent = headers.get(DATE).and_then(|date| date.to_str().ok());
        let sent = sent.and_then(|date| httpdate::parse_http_date(date).ok()).unwrap_or_else(now);
        return Hint::Wait(Nanos::from_std(date.duration_since(sent).unwrap_or(Duration::ZERO)));
    }
    unusable(RETRY_AFTER.as_str(), value.as_bytes(), "a number of seconds or an HTTP date")
}

/// A plain decimal number, not negative; `per_second` of its units make a second. Too large a number is the
/// longest wait there is: the policy has its own bound.
fn number(text: &str, per_second: f64) -> Option<Nanos> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
        return None;
    }
    let secs = text.parse::<f64>().ok()? / per_second;
    Some(Duration::try_from_secs_f64(secs).map_or(Nanos::MAX, Nanos::from_std))
}

fn unusable(name: &str, value: &[u8], expected: &str) -> Hint {
    let text: String = String::from_utf8_lossy(value).chars().take(60).collect();
    Hint::Ignored(format!("{name}: `{text}` is not {expected}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use reqwest::header::{HeaderName, HeaderValue};

    const SENT: &str = "Fri, 20 Nov 2026 10:00:00 GMT";

    fn read(headers: &[(&str, &str)]) -> Hint {
        let headers = headers
            .iter()
            .map(|(name, value)| (name.parse::<HeaderName>().unwrap(), HeaderValue::from_str(value).unwrap()))
            .collect();
        hint(&headers, || httpdate::parse_http_date("Fri, 20 Nov 2026 11:00:00 GMT").unwrap())
    }

    fn wait(millis: u64) -> Hint {
        Hint::Wait(Nanos::from_millis(millis))
    }

    #[test]
    fn what_each_header_says() {
        let table: &[(&[(&str, &str)], Hint)] = &[
            (&[], Hint::None),
            (&[("retry-after", "1")], wait(1000)),
            (&[("retry-after", " 20 ")], wait(20_000)),
            (&[("retry-after", "0")], wait(0)),
            (&[("retry-after", "1.5")], wait(1500)),
            (&[("retry-after", "86400")], wait(86_400_000)),
            (&[("retry-after", "99999999999999999999999999")], Hint::Wait(Nanos::MAX)),
            (&[("retry-after-ms", "250")], wait(250)),
            (&[("retry-after-ms", "0.5")], Hint::Wait(Nanos(500_000))),
            (&[("x-ms-retry-after-ms", "70"), ("retry-after", "1")], wait(70)),
            (&[("retry-after-ms", "1200"), ("retry-after", "2")], wait(1200)),
            (&[("retry-after-ms", "soon"), ("retry-after", "2")], wait(2000)),
            (&[("retry-after", "Fri, 20 Nov 2026 10:00:30 GMT"), ("date", SENT)], wait(30_000)),
            (&[("retry-after", "Friday, 20-Nov-26 10:00:30 GMT"), ("date", SENT)], wait(30_000)),
            (&[("retry-after", "Fri Nov 20 10:00:30 2026"), ("date", SENT)], wait(30_000)),
            (&[("retry-after", "Fri, 20 Nov 2026 09:00:00 GMT"), ("date", SENT)], wait(0)),
            (&[("retry-after", "Fri, 20 Nov 2026 11:00:05 GMT")], wait(5000)),
            (&[("retry-after", "Fri, 20 Nov 2026 11:00:05 GMT"), ("date", "today")], wait(5000)),
        ];
        for (headers, expected) in table {
            assert_eq!(&read(headers), expected, "{headers:?}");
        }
    }

    #[test]
    fn what_cannot_be_used_is_said_so() {
        let unusable = ["soon", "-1", "1e3", "inf", "NaN", "", "1.2.3", "1h", "2026-11-20T10:00:30Z"];
        for value in unusable {
            let reason = format!("retry-after: `{value}` is not a number of seconds or an HTTP date");
            assert_eq!(read(&[("retry-after", value)]), Hint::Ignored(reason));
        }
        let reason = "retry-after-ms: `-5` is not a number of milliseconds";
        assert_eq!(read(&[("retry-after-ms", "-5")]), Hint::Ignored(reason.into()));
    }
}
