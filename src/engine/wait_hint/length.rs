//! Parses durations: decimal numbers with a unit, and forms such as `6m0s`. Exact, without floats; fractions of a
//! nanosecond are rounded up, so that no attempt is too early.

use crate::time::Nanos;

/// Units in nanoseconds.
pub(super) const MILLISECOND: u64 = 1_000_000;
pub(super) const SECOND: u64 = 1_000_000_000;
pub(super) const MINUTE: u64 = 60 * SECOND;
pub(super) const HOUR: u64 = 60 * MINUTE;
pub(super) const DAY: u64 = 24 * HOUR;

/// A decimal number without a sign, in this unit. Too large a number becomes the longest duration; the policy has its
/// own limit.
pub(super) fn decimal(text: &str, unit: u64) -> Option<Nanos> {
    let (whole, fraction) = match text.split_once('.') {
        Some((_, "")) => return None,
        Some(parts) => parts,
        None => (text, ""),
    };
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    // RFC 9110 10.2.3 allows ASCII digits only. A sign makes the value invalid, not negative: elsewhere `-3` was read
    // as a year (mastra#23779).
    if whole.is_empty() || !digits(whole) || !digits(fraction) {
        return None;
    }
    let unit = u128::from(unit);
    let whole = number(whole).saturating_mul(unit);
    // Twenty digits are finer than a nanosecond in every unit; more could only change the rounding, and might
    // overflow.
    let kept = fraction.get(..fraction.len().min(20)).unwrap_or_default();
    let scale = 10_u128.saturating_pow(u32::try_from(kept.len()).unwrap_or(u32::MAX));
    // Rounded up, like every delay: an attempt a nanosecond too early is refused again.
    let part = number(kept).saturating_mul(unit).div_ceil(scale);
    Some(Nanos(u64::try_from(whole.saturating_add(part)).unwrap_or(u64::MAX)))
}

/// The number written in digits; saturates.
fn number(digits: &str) -> u128 {
    digits.bytes().fold(0, |value: u128, byte| {
        value.saturating_mul(10).saturating_add(byte.saturating_sub(b'0').into())
    })
}

/// A duration in Go's notation: `6m0s`, `28ms`, `114h18m0s`, `1.5s`.
pub(super) fn duration(text: &str) -> Option<Nanos> {
    let mut rest = text;
    let mut sum = None;
    while !rest.is_empty() {
        // OpenAI and Groq use Go's notation for resets: `6m0s`, `28ms`, `2m59.56s`.
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, after) = rest.split_at_checked(end)?;
        let end = after.find(|c: char| c.is_ascii_digit()).unwrap_or(after.len());
        let (unit, after) = after.split_at_checked(end)?;
        let part = decimal(number, short_unit(unit)?)?;
        sum = Some(sum.unwrap_or(Nanos::ZERO).saturating_add(part));
        rest = after;
    }
    sum
}

fn short_unit(unit: &str) -> Option<u64> {
    Some(match unit {
        "d" => DAY,
        "h" => HOUR,
        "m" => MINUTE,
        "s" => SECOND,
        "ms" => MILLISECOND,
        "us" | "µs" | "μs" => 1000,
        "ns" => 1,
        _ => return None,
    })
}

/// A unit as a word, in lower case.
pub(super) fn long_unit(unit: &str) -> Option<u64> {
    Some(match unit.strip_suffix('s').unwrap_or(unit) {
        "day" => DAY,
        "hour" => HOUR,
        "minute" | "min" => MINUTE,
        "second" | "sec" => SECOND,
        "millisecond" => MILLISECOND,
        _ => return short_unit(unit),
    })
}
