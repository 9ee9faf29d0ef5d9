//! Parses times: the three forms of HTTP dates, and RFC 3339.

use super::length::{SECOND, decimal};
use crate::time::Instant;

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];

/// `Sun, 06 Nov 1994 08:49:37 GMT`, `Sunday, 06-Nov-94 08:49:37 GMT`, `Sun Nov  6 08:49:37 1994`.
pub(super) fn http(text: &str) -> Option<Instant> {
    // A recipient must accept all three forms (RFC 9110 5.6.7). They differ in word order and separators.
    let words: Vec<&str> = text.split([' ', ',', '-']).filter(|word| !word.is_empty()).take(7).collect();
    let ([_, day, month, year, time, "GMT"] | [_, month, day, time, year]) = words.as_slice() else {
        return None;
    };
    let month = MONTHS.iter().position(|name| month.eq_ignore_ascii_case(name))?;
    let year = match (year.len(), digits(year)?) {
        (4, year) => year,
        // RFC 850 has two digits. Times before 1970 cannot be represented here, so 70 is the first year of the 1900s.
        (2, year @ 70..) => year.checked_add(1900)?,
        (2, year) => year.checked_add(2000)?,
        _ => return None,
    };
    let days = days(year, u64::try_from(month).ok()?.checked_add(1)?, digits(day)?)?;
    instant(days, clock(time)?, 0)
}

/// `2026-11-21T23:40:19Z`, with decimals or not, and with another offset or not.
pub(super) fn rfc3339(text: &str) -> Option<Instant> {
    // RFC 3339 5.6 allows a lower-case `t`, and a space for readability.
    let (date, time) = text.split_once(['T', 't', ' '])?;
    let mut parts = date.split('-');
    let (year, month, day) = (parts.next()?, parts.next()?, parts.next()?);
    if year.len() != 4 || month.len() != 2 || day.len() != 2 || parts.next().is_some() {
        return None;
    }
    let days = days(digits(year)?, digits(month)?, digits(day)?)?;
    let zone = time.find(['Z', 'z', '+', '-'])?;
    let (time, zone) = time.split_at_checked(zone)?;
    let (time, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let nanos = decimal(&format!("0.{fraction}"), SECOND)?.0;
    let seconds = clock(time)?;
    let whole = days.checked_mul(86_400)?.checked_add(seconds)?;
    let whole = match zone.split_at_checked(1)? {
        ("Z" | "z", "") => whole,
        ("+", offset) => whole.saturating_sub(minutes(offset)?.checked_mul(60)?),
        ("-", offset) => whole.checked_add(minutes(offset)?.checked_mul(60)?)?,
        _ => return None,
    };
    instant(0, whole, nanos)
}

fn instant(days: u64, seconds: u64, nanos: u64) -> Option<Instant> {
    let seconds = days.checked_mul(86_400)?.checked_add(seconds)?;
    Some(Instant(seconds.saturating_mul(SECOND).saturating_add(nanos)))
}

/// `08:49:37` in seconds.
fn clock(text: &str) -> Option<u64> {
    let (hours, rest) = text.split_once(':')?;
    let (minutes, seconds) = rest.split_once(':')?;
    let of = |text: &str, most: u64| digits(text).filter(|value| text.len() == 2 && *value <= most);
    // A leap second (`60` in RFC 3339 5.6) does not exist in Unix time: it becomes the second before.
    let (hours, minutes, seconds) = (of(hours, 23)?, of(minutes, 59)?, of(seconds, 60)?.min(59));
    hours.checked_mul(3600)?.checked_add(minutes.checked_mul(60)?)?.checked_add(seconds)
}

/// `01:30` in minutes.
fn minutes(text: &str) -> Option<u64> {
    let (hours, minutes) = text.split_once(':')?;
    let of = |text: &str, most: u64| digits(text).filter(|value| text.len() == 2 && *value <= most);
    of(hours, 23)?.checked_mul(60)?.checked_add(of(minutes, 59)?)
}

/// The days since 1970; `None`: the day does not exist, or is before 1970.
fn days(year: u64, month: u64, day: u64) -> Option<u64> {
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let lengths = [31, if leap { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let before = usize::try_from(month.checked_sub(1)?).ok()?;
    if !(1970..=9999).contains(&year) || day == 0 || day > *lengths.get(before)? {
        return None;
    }
    let last = year.checked_sub(1)?;
    // 477 leap years before 1970 are subtracted.
    let leaps = (last / 4).checked_sub(last / 100)?.checked_add(last / 400)?.checked_sub(477)?;
    let years = year.checked_sub(1970)?.checked_mul(365)?.checked_add(leaps)?;
    let months = lengths.iter().take(before).sum::<u64>();
    years.checked_add(months)?.checked_add(day)?.checked_sub(1)
}

fn digits(text: &str) -> Option<u64> {
    // Four digits cannot overflow the computation, and no field of a date has more.
    let plain = !text.is_empty() && text.len() <= 4 && text.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_no_time_is_none() {
        for text in
            ["", "today", "Sun, 31 Feb 2026 00:00:00 GMT", "Sun, 06 Nov 1994 24:00:00 GMT", "06 Nov 1994"]
        {
            assert_eq!(http(text), None, "{text}");
        }
        for text in ["", "2026-11-21", "2026-13-01T00:00:00Z", "2026-02-29T00:00:00Z", "2026-01-01T00:00:00"]
        {
            assert_eq!(rfc3339(text), None, "{text}");
        }
    }

    #[test]
    fn an_offset_counts() {
        let utc = rfc3339("2026-11-21T23:40:19.5Z");
        assert_eq!(rfc3339("2026-11-22T01:10:19.500+01:30"), utc);
        assert_eq!(rfc3339("2026-11-21T22:40:19.5-01:00"), utc);
        assert_eq!(utc.unwrap().to_rfc3339(), "2026-11-21T23:40:19.500Z");
    }

    proptest! {
        #[test]
        fn every_second_is_read_as_it_was_written(seconds in 0_u64..10_000_000_000) {
            let at = Instant(seconds * SECOND);
            prop_assert_eq!(rfc3339(&at.to_rfc3339()), Some(at));
        }

        #[test]
        fn every_http_date_is_read_as_it_was_written(seconds in 0_u64..10_000_000_000) {
            let at = std::time::UNIX_EPOCH + std::time::Duration::from_secs(seconds);
            prop_assert_eq!(http(&httpdate::fmt_http_date(at)), Some(Instant(seconds * SECOND)));
        }

        #[test]
        fn any_text_is_a_time_or_none(text in "[ -~é]{0,40}") {
            http(&text);
            rfc3339(&text);
        }
    }
}
