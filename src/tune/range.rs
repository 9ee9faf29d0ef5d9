//! The values that a range stands for: `2..16`, `500ms..30s`, `0.1..0.5`, `rotate|exhausted`.

use crate::text::parse_duration;
use crate::time::Nanos;

/// Fractions are counted in millionths.
const MILLION: u64 = 1_000_000;
/// A range with fewer values is divided more finely.
const FEW: usize = 6;
/// No key has more values than this, or every search would be about it alone.
pub(crate) const MOST_VALUES: usize = 32;

/// Why a text is no range: the part of the text that is wrong, from and to, and what to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RangeError {
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) message: String,
    pub(crate) help: &'static str,
}

/// What the ends of a range are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RangeEnd {
    Count(u64),
    Time(Nanos),
    /// In millionths.
    Fraction(u64),
}

/// The values of a range, each as a policy writes it, in the order of the range.
pub(crate) fn values(text: &str) -> Result<Vec<String>, RangeError> {
    let parts = alternatives(text);
    if parts.len() > 1 {
        return distinct(text, &parts);
    }
    let Some(at) = text.find("..") else {
        let message = "one value is no range".to_owned();
        let help = "write `LOW..HIGH`, such as `2..16` or `500ms..30s`, or the values: `full|equal|none`";
        return Err(RangeError { from: 0, to: text.len(), message, help });
    };
    let (low, high) = (end(text, 0, at)?, end(text, at + 2, text.len())?);
    let whole = |message: String, help| RangeError { from: 0, to: text.len(), message, help };
    let steps = match (low, high) {
        (RangeEnd::Count(low), RangeEnd::Count(high)) if low < high => ladder(low, high, 1),
        (RangeEnd::Time(low), RangeEnd::Time(high)) if low < high => {
            let least = Nanos::from_millis(100).0.min(high.0);
            ladder(low.0, high.0, least)
        }
        (RangeEnd::Fraction(low), RangeEnd::Fraction(high)) if low < high => parts_of(low, high),
        // `0..0.5` is a range of fractions whose lower end has no point.
        (RangeEnd::Count(low @ 0..=1), RangeEnd::Fraction(high)) if low * MILLION < high => {
            parts_of(low * MILLION, high)
        }
        (RangeEnd::Fraction(low), RangeEnd::Count(1)) if low < MILLION => parts_of(low, MILLION),
        (low, high) if core::mem::discriminant(&low) == core::mem::discriminant(&high) => {
            return Err(whole(
                "the range ends where it begins, or before".into(),
                "write the smaller value first",
            ));
        }
        _ => {
            let help = "write both ends as durations, as whole numbers or as fractions";
            return Err(whole("the ends of the range are of different kinds".into(), help));
        }
    };
    let (first, last) = (steps.first().copied(), steps.last().copied());
    let round = |step: u64| if Some(step) == first || Some(step) == last { step } else { rounded(step) };
    let is_time = matches!(high, RangeEnd::Time(_));
    Ok(steps.into_iter().map(|step| shown(if is_time { round(step) } else { step }, high)).collect())
}

/// The parts between `|` that are in no bracket and no quotes, each with its place.
fn alternatives(text: &str) -> Vec<(usize, &str)> {
    let (mut parts, mut from, mut depth, mut quote) = (Vec::new(), 0, 0_usize, None);
    for (at, c) in text.char_indices() {
        match (c, quote) {
            (c, Some(open)) => quote = if c == open { None } else { Some(open) },
            ('"' | '\'', None) => quote = Some(c),
            ('{' | '[', None) => depth += 1,
            ('}' | ']', None) => depth = depth.saturating_sub(1),
            ('|', None) if depth == 0 => {
                parts.push((from, &text[from..at]));
                from = at + 1;
            }
            _ => {}
        }
    }
    parts.push((from, &text[from..]));
    parts
}

fn distinct(text: &str, parts: &[(usize, &str)]) -> Result<Vec<String>, RangeError> {
    let mut values: Vec<String> = Vec::new();
    for (from, part) in parts {
        let (value, to) = (part.trim(), from + part.len());
        let wrong = if value.is_empty() {
            Some("a value is missing".to_owned())
        } else {
            values.iter().any(|known| known == value).then(|| format!("`{value}` is there twice"))
        };
        if let Some(message) = wrong {
            let help = "write each value once, between `|`";
            return Err(RangeError { from: *from, to, message, help });
        }
        values.push(value.to_owned());
    }
    if values.len() > MOST_VALUES {
        let message = format!("{} values are more than {MOST_VALUES}", values.len());
        return Err(RangeError { from: 0, to: text.len(), message, help: "write fewer values" });
    }
    Ok(values)
}

fn end(text: &str, from: usize, to: usize) -> Result<RangeEnd, RangeError> {
    let written = text[from..to].trim();
    let wrong = |message: String| {
        let help = "write a whole number, a duration such as `500ms`, or a fraction such as `0.25`";
        RangeError { from, to: to.max(from + 1).min(text.len().max(from + 1)), message, help }
    };
    if written.is_empty() {
        return Err(wrong("an end of the range is missing".into()));
    }
    if let Ok(count) = written.parse::<u64>() {
        return Ok(RangeEnd::Count(count));
    }
    if let Some(fraction) = fraction(written) {
        return Ok(RangeEnd::Fraction(fraction));
    }
    parse_duration(written).map(RangeEnd::Time).map_err(|error| {
        let message = if written.starts_with(|c: char| c.is_ascii_digit() || c == '-') {
            error.to_string()
        } else {
            format!("`{written}` has no order")
        };
        wrong(message)
    })
}

/// A decimal fraction in millionths; at most 1,000.
fn fraction(text: &str) -> Option<u64> {
    let (whole, decimals) = text.split_once('.')?;
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if !digits(whole) || !digits(decimals) || whole.len() > 3 || decimals.len() > 6 {
        return None;
    }
    let millionths: u64 = format!("{decimals:0<6}").parse().ok()?;
    Some(whole.parse::<u64>().ok()? * MILLION + millionths)
}

/// Steps from `low` to `high`, each twice the one before, or half as much again where these are few. `least`: the first above
/// zero.
fn ladder(low: u64, high: u64, least: u64) -> Vec<u64> {
    let climb = |next: &dyn Fn(u64) -> u64| {
        let steps = core::iter::successors(Some(low), |step| {
            let step = *step;
            (step < high)
                .then(|| if step == 0 { least } else { next(step).max(step.saturating_add(1)) }.min(high))
        });
        steps.take(MOST_VALUES - 1).collect::<Vec<u64>>()
    };
    let mut steps = climb(&|step| step.saturating_mul(2));
    if steps.len() < FEW {
        steps = climb(&|step| step.saturating_mul(3) / 2);
    }
    // Of a range that is wider than any ladder: its upper end is tried nevertheless.
    if steps.last() != Some(&high) {
        steps.push(high);
    }
    steps
}

/// Eight equal steps, in hundredths or, where these are too coarse, in millionths.
fn parts_of(low: u64, high: u64) -> Vec<u64> {
    let round = |step: u64| if high - low >= 80_000 { (step + 5_000) / 10_000 * 10_000 } else { step };
    let mut steps: Vec<u64> = (0..=8).map(|part| low + (high - low) * part / 8).collect();
    let last = steps.len() - 1;
    steps[1..last].iter_mut().for_each(|step| *step = round(*step));
    steps.dedup();
    steps
}

/// A step as a policy writes it.
fn shown(step: u64, kind: RangeEnd) -> String {
    match kind {
        RangeEnd::Count(_) => step.to_string(),
        RangeEnd::Time(_) => Nanos(step).to_string(),
        RangeEnd::Fraction(_) => {
            let text = format!("{}.{:06}", step / MILLION, step % MILLION);
            let text = text.trim_end_matches('0');
            text.strip_suffix('.').unwrap_or(text).to_owned()
        }
    }
}

/// A time in two digits: between the ends of a range one is as good as its neighbour.
const fn rounded(time: u64) -> u64 {
    let mut unit = 1;
    while time / unit >= 100 {
        unit *= 10;
    }
    (time + unit / 2) / unit * unit
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown_values(text: &str) -> String {
        values(text).unwrap().join(" ")
    }

    #[test]
    fn a_range_is_a_ladder_of_round_values() {
        assert_eq!(shown_values("2..16"), "2 3 4 6 9 13 16");
        assert_eq!(shown_values("1..100"), "1 2 4 8 16 32 64 100");
        assert_eq!(shown_values("500ms..30s"), "500ms 1s 2s 4s 8s 16s 30s");
        assert_eq!(shown_values("0s..2s"), "0s 100ms 200ms 400ms 800ms 1.6s 2s");
        assert_eq!(shown_values("0.1..0.5"), "0.1 0.15 0.2 0.25 0.3 0.35 0.4 0.45 0.5");
        assert_eq!(shown_values("0..0.2"), "0 0.03 0.05 0.08 0.1 0.13 0.15 0.18 0.2");
        assert_eq!(shown_values("0..3"), "0 1 2 3");
    }

    #[test]
    fn alternatives_are_taken_as_they_are_written() {
        assert_eq!(values("rotate | exhausted").unwrap(), ["rotate", "exhausted"]);
        assert_eq!(values("{a: [1, 2]}|{b: 'x|y'}").unwrap(), ["{a: [1, 2]}", "{b: 'x|y'}"]);
    }

    #[test]
    fn the_widest_range_keeps_both_ends() {
        let all = values("1..18446744073709551615").unwrap();
        assert!(all.len() <= MOST_VALUES, "{all:?}");
        assert_eq!(
            (all.first().unwrap().as_str(), all.last().unwrap().as_str()),
            ("1", "18446744073709551615")
        );
    }

    #[test]
    fn what_is_wrong_has_its_place() {
        let wrong = |text: &str| {
            let error = values(text).unwrap_err();
            format!("{}: {}", &text[error.from..error.to], error.message)
        };
        assert_eq!(wrong("7"), "7: one value is no range");
        assert_eq!(wrong("16..2"), "16..2: the range ends where it begins, or before");
        assert_eq!(wrong("1s..20"), "1s..20: the ends of the range are of different kinds");
        assert_eq!(wrong("2..many"), "many: `many` has no order");
        assert_eq!(wrong("full|full"), "full: `full` is there twice");
        assert_eq!(wrong("full|"), ": a value is missing");
        assert_eq!(values("2..").unwrap_err().message, "an end of the range is missing");
    }
}
