//! Durations as people write them: `500ms`, `1.5s`, `1m30s`.

use super::did_you_mean::closest;
use super::excerpt::excerpt;
use crate::time::Nanos;

/// Beyond any wait or deadline a policy can mean.
const LONGEST: Nanos = Nanos::from_secs(366 * 24 * 60 * 60);
/// No duration in range needs more characters to be written.
const LONGEST_TEXT: usize = 64;
/// What may be between numbers and units.
const BLANKS: [char; 4] = [' ', '\t', '\r', '\n'];
/// The units: their names, how many nanoseconds they are, and how many decimals every number of them may have without
/// becoming a part of a nanosecond. Months and years have no fixed length, and `5M` is a slip for `5m`.
const SPANS: [(&[&str], u64, usize); 8] = [
    (&["ns", "nsec", "nanos"], 1, 0),
    (&["us", "µs", "usec"], 1_000, 3),
    (&["ms", "msec", "millis"], 1_000_000, 6),
    (&["s", "sec", "secs", "second", "seconds"], 1_000_000_000, 9),
    (&["m", "min", "mins", "minute", "minutes"], 60_000_000_000, 9),
    (&["h", "hr", "hrs", "hour", "hours"], 3_600_000_000_000, 9),
    (&["d", "day", "days"], 86_400_000_000_000, 9),
    (&["w", "wk", "wks", "week", "weeks"], 604_800_000_000_000, 9),
];
/// The units offered to a person; the reader knows their long names too.
const UNITS: [&str; 18] = [
    "ms", "s", "m", "h", "d", "w", "us", "ns", "sec", "min", "hours", "hour", "minutes", "minute", "seconds",
    "second", "days", "weeks",
];

/// Why a text is not a duration, and what to write.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub(crate) struct DurationError {
    /// What is wrong.
    pub(crate) message: String,
    /// What to write instead.
    pub(crate) help: Option<String>,
}

/// The duration `text` means. A number needs a unit, and 366 days are the most.
///
/// # Errors
/// If `text` is not a duration in that range; the error says what to write.
pub(crate) fn parse_duration(text: &str) -> Result<Nanos, DurationError> {
    let whole = text;
    let text = text.trim_matches(BLANKS);
    if text.is_empty() {
        return Err(error("a duration is missing".to_owned(), "write one such as `500ms`, `30s` or `1m30s`"));
    }
    if text.starts_with('-') {
        return Err(error(
            format!("`{}` is negative", excerpt(text, 40)),
            "a duration is zero or more, such as `0s`",
        ));
    }
    // Before anything is read: a text of megabytes would otherwise be summed up number by number.
    if whole.chars().nth(LONGEST_TEXT).is_some() {
        return Err(malformed(text));
    }
    let mut rest = text;
    let mut sum = Nanos::ZERO;
    while !rest.is_empty() {
        let (number, after) = rest.split_at(end_of(rest, |c| c.is_ascii_digit() || c == '.'));
        let after = after.trim_start_matches(BLANKS);
        let (unit, after) = after.split_at(end_of(after, char::is_alphabetic));
        if number.is_empty() || (unit.is_empty() && !after.is_empty()) {
            return Err(malformed(text));
        }
        sum = sum.saturating_add(span(text, number, unit)?);
        rest = after.trim_start_matches(BLANKS);
    }
    if sum > LONGEST {
        return Err(too_long(text));
    }
    Ok(sum)
}

/// One number with its unit.
fn span(text: &str, number: &str, unit: &str) -> Result<Nanos, DurationError> {
    // `1m30` means the next smaller unit to most people, but is never taken for it: a wrong unit is a thousandfold
    // wait.
    if unit.is_empty() {
        let last = text.strip_suffix(number).unwrap_or_default().trim_end();
        let next = match last.chars().next_back() {
            Some('d') => "h",
            Some('h') => "m",
            _ if last.ends_with('m') || last.is_empty() => "s",
            _ => "ms",
        };
        let what = if last.is_empty() { text } else { number };
        return Err(error(
            if last.is_empty() {
                format!("`{what}` has no unit")
            } else {
                format!("`{what}` in `{text}` has no unit")
            },
            &match next {
                "s" if last.is_empty() => format!("write a unit: `{text}s` or `{text}ms`"),
                _ => format!("write a unit: `{text}{next}`"),
            },
        ));
    }
    let Some((_, length, decimals)) = SPANS.iter().find(|(names, ..)| names.contains(&unit)) else {
        let help = closest(unit, UNITS).map_or_else(
            || "the units are `ms`, `s`, `m`, `h` and `d`".to_owned(),
            |unit| format!("did you mean `{number}{unit}`?"),
        );
        return Err(error(format!("`{unit}` is not a unit of time"), &help));
    };
    let (whole, part) = number.split_once('.').map_or((number, None), |(whole, part)| (whole, Some(part)));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(whole) || !part.is_none_or(is_number) {
        return Err(malformed(text));
    }
    let part = part.unwrap_or_default();
    // Rounding would make the same text a different delay on another machine or in another version.
    if part.len() > *decimals {
        return Err(error(
            format!("`{text}` cannot be kept exactly"),
            "write fewer decimals, or a smaller unit; a nanosecond is the least",
        ));
    }
    exact(whole, part, *length).ok_or_else(|| too_long(text))
}

/// So many of a unit, which is `length` nanoseconds; `None`: more than can be counted.
fn exact(whole: &str, part: &str, length: u64) -> Option<Nanos> {
    let mut nanos = whole.parse::<u64>().ok()?.checked_mul(length)?;
    // Every decimal that a unit may have is a whole number of nanoseconds.
    let mut place = length;
    for digit in part.bytes() {
        place = place.checked_div(10)?;
        nanos = nanos.checked_add(u64::from(digit.checked_sub(b'0')?).checked_mul(place)?)?;
    }
    Some(Nanos(nanos))
}

/// The JSON Schema of the texts that [`parse_duration`] takes, but for the most that they may mean.
pub(crate) fn duration_schema() -> serde_json::Map<String, serde_json::Value> {
    let unit = |(names, _, decimals): &(&[&str], u64, usize)| {
        // The longest name first, for those who take the first that fits.
        let mut names = names.to_vec();
        names.sort_by_key(|name| core::cmp::Reverse(name.len()));
        let part = if *decimals == 0 { String::new() } else { format!(r"(\.[0-9]{{1,{decimals}}})?") };
        format!("{part}[ \\t\\r\\n]*({})", names.join("|"))
    };
    let units: Vec<String> = SPANS.iter().map(unit).collect();
    let pattern = format!(r"^[ \t\r\n]*([0-9]+({})[ \t\r\n]*)+$", units.join("|"));
    let schema = [("type", "string".into()), ("pattern", pattern.into()), ("maxLength", LONGEST_TEXT.into())];
    schema.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

/// Where the leading run of characters that `belongs` accepts ends.
fn end_of(text: &str, belongs: impl Fn(char) -> bool) -> usize {
    text.find(|c| !belongs(c)).unwrap_or(text.len())
}

fn too_long(text: &str) -> DurationError {
    error(format!("`{}` is too long", excerpt(text, 40)), "the longest duration is `366d`")
}

fn malformed(text: &str) -> DurationError {
    error(format!("`{}` is not a duration", excerpt(text, 40)), "write one such as `500ms`, `30s` or `1m30s`")
}

fn error(message: String, help: &str) -> DurationError {
    DurationError { message, help: Some(help.to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn refused(text: &str) -> String {
        let error = parse_duration(text).unwrap_err();
        format!("{}; {}", error.message, error.help.unwrap())
    }

    #[test]
    fn every_usual_form_is_read() {
        for (text, nanos) in [
            ("0s", 0),
            ("1ns", 1),
            ("20us", 20_000),
            ("500ms", 500_000_000),
            ("1.5s", 1_500_000_000),
            ("1m30s", 90_000_000_000),
            ("1h 30m", 5_400_000_000_000),
            ("2 minutes", 120_000_000_000),
            ("366d", 31_622_400_000_000_000),
            (" 1w ", 604_800_000_000_000),
        ] {
            assert_eq!(parse_duration(text), Ok(Nanos(nanos)), "{text}");
        }
    }

    #[test]
    fn a_bare_number_wants_a_unit() {
        assert_eq!(refused("5"), "`5` has no unit; write a unit: `5s` or `5ms`");
        assert_eq!(refused("1.5"), "`1.5` has no unit; write a unit: `1.5s` or `1.5ms`");
        assert_eq!(refused("1h30"), "`30` in `1h30` has no unit; write a unit: `1h30m`");
        assert_eq!(refused("2m 30"), "`30` in `2m 30` has no unit; write a unit: `2m 30s`");
    }

    #[test]
    fn negative_and_empty_are_refused() {
        assert_eq!(refused("-1s"), "`-1s` is negative; a duration is zero or more, such as `0s`");
        assert_eq!(refused("  "), "a duration is missing; write one such as `500ms`, `30s` or `1m30s`");
    }

    #[test]
    fn more_than_366_days_is_refused() {
        for text in ["367d", "99999999999999999999s", "99999999999999w", "18446744073709551615s1000ms"] {
            assert!(
                refused(text).ends_with("is too long; the longest duration is `366d`"),
                "{}",
                refused(text)
            );
        }
    }

    #[test]
    fn an_unknown_unit_is_named_with_the_one_meant() {
        assert_eq!(refused("5sek"), "`sek` is not a unit of time; did you mean `5sec`?");
        assert_eq!(refused("5M"), "`M` is not a unit of time; did you mean `5m`?");
        assert_eq!(
            refused("1 month"),
            "`month` is not a unit of time; the units are `ms`, `s`, `m`, `h` and `d`"
        );
        assert_eq!(refused("5MS"), "`MS` is not a unit of time; did you mean `5ms`?");
        assert_eq!(
            refused("5 bananas"),
            "`bananas` is not a unit of time; the units are `ms`, `s`, `m`, `h` and `d`"
        );
    }

    #[test]
    fn decimals_are_kept_exactly() {
        for (text, nanos) in [
            ("0.123h", 442_800_000_000),
            ("1.5us", 1_500),
            ("0.000000001s", 1),
            ("1.00032d", 86_427_648_000_000),
        ] {
            assert_eq!(parse_duration(text), Ok(Nanos(nanos)), "{text}");
        }
        assert!(refused("0.5ns").starts_with("`0.5ns` cannot be kept exactly"));
        assert!(refused("0.0000000001s").starts_with("`0.0000000001s` cannot be kept exactly"));
    }

    #[test]
    fn what_is_no_duration_is_refused() {
        for text in [
            "soon",
            "5 parsecs",
            ".5s",
            "1 0s",
            "1s2",
            "1..5s",
            "1.s",
            "0.5ns",
            "+1s",
            "1s,2s",
            "∞",
            &"1s".repeat(50_000),
        ] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_shown_is_read_back(nanos in 0..=LONGEST.0, unit in prop::sample::select(vec![1, 1_000, 1_000_000, 1_000_000_000, 60_000_000_000])) {
            for nanos in [nanos, nanos % 1_000_000_000, nanos % 1_000_000, nanos / unit * unit] {
                prop_assert_eq!(parse_duration(&Nanos(nanos).to_string()), Ok(Nanos(nanos)));
            }
        }

        /// What editors take is what is read, but for the most that it may mean.
        #[test]
        fn the_pattern_takes_what_is_read(
            text in r"[ \t]{0,2}([0-9]{1,3}(\.[0-9]{0,11})?[ \n]{0,2}(ns|nanos|us|µs|μs|ms|millis|s|secs?|seconds|mins?|minute|m|h|hrs|d|days?|wk|w|weeks|M|months|y|yr|S|parsecs?|µ|x|)[ ]{0,2}){0,4}|[-+ .0-9smhd]{0,9}|.{0,12}|( 1s){10,40}",
        ) {
            let schema = serde_json::Value::Object(duration_schema());
            let validator = jsonschema::validator_for(&schema).unwrap();
            let read = parse_duration(&text);
            let too_long = read.as_ref().is_err_and(|error| error.message.ends_with("is too long"));
            prop_assert!(too_long || read.is_ok() == validator.is_valid(&text.clone().into()), "{:?}: {:?}", text, read);
        }

        #[test]
        fn no_text_panics(text in "[-0-9. smhdµ∞]{0,40}|.{0,80}") {
            let _ = parse_duration(&text);
        }
    }
}
