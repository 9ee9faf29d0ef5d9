//! Plain scalars: the YAML 1.2 core schema, without every spelling that common readers take differently.

use serde_json::Number;

use super::{Code, Diagnostic, Span};

/// What a plain scalar is.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum PlainScalar<'a> {
    Null,
    Bool(bool),
    Number(Number),
    Text(&'a str),
}

/// Why a plain scalar cannot be used as it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScalarTrouble {
    /// Readers disagree on it.
    Ambiguous,
    /// An integer of more than 64 bits.
    TooBig,
}

/// Reads a plain scalar.
pub(crate) fn read(text: &str) -> Result<PlainScalar<'_>, ScalarTrouble> {
    match text {
        // YAML 1.2.2, section 10.3.2: the core schema has these spellings and no others.
        "" | "~" | "null" | "Null" | "NULL" => return Ok(PlainScalar::Null),
        "true" | "True" | "TRUE" => return Ok(PlainScalar::Bool(true)),
        "false" | "False" | "FALSE" => return Ok(PlainScalar::Bool(false)),
        _ => {}
    }
    let body = text.strip_prefix(['-', '+']).unwrap_or(text);
    if !body.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return Ok(PlainScalar::Text(text));
    }
    // Refused and not chosen: the file must mean the same to an editor, a pipeline and this program.
    if is_ambiguous(body) {
        return Err(ScalarTrouble::Ambiguous);
    }
    if body.bytes().all(|byte| byte.is_ascii_digit()) {
        return integer(text.strip_prefix('+').unwrap_or(text))
            .ok_or(ScalarTrouble::TooBig)
            .map(PlainScalar::Number);
    }
    let decimal = body.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
        && body.bytes().filter(|byte| *byte == b'.').count() == 1
        && body.len() > 1;
    let number = text.parse().ok().filter(|_| decimal).and_then(Number::from_f64);
    Ok(number.map_or(PlainScalar::Text(text), PlainScalar::Number))
}

impl ScalarTrouble {
    /// What is reported about it.
    pub(crate) fn into_diagnostic(self, text: &str, span: Span) -> Diagnostic {
        match self {
            Self::Ambiguous => {
                let message = format!("`{text}` is read differently by different YAML readers");
                // The reader of YAML knows no types. The decoder of a field replaces this help by what the field
                // expects.
                Diagnostic::error(Code::AMBIGUOUS, span, message)
                    .help("quote it if it is a text; write a number in plain decimals")
            }
            Self::TooBig => {
                let message = format!("the integer `{text}` does not fit into 64 bits");
                Diagnostic::error(Code::OUT_OF_RANGE, span, message).help("quote it if it is not a number")
            }
        }
    }
}

/// Whether text is a boolean or a date to other readers.
pub(crate) fn is_ambiguous_text(text: &str) -> bool {
    // YAML 1.1 also has `y` and `n`, which common readers never took for booleans.
    const WORDS: [&str; 4] = ["yes", "no", "on", "off"];
    let cased = |word: &str| {
        let (first, rest) = text.split_at_checked(1).unwrap_or_default();
        text == word
            || text == word.to_ascii_uppercase()
            || word.strip_prefix(&first.to_ascii_lowercase()) == Some(rest)
    };
    WORDS.into_iter().any(cased) || is_date(text)
}

/// `2026-11-21`.
fn is_date(text: &str) -> bool {
    // A timestamp in YAML 1.1, and a text in the core schema of 1.2.
    let mut parts = text.split('-');
    let digits = |part: Option<&str>, length: core::ops::RangeInclusive<usize>| {
        part.is_some_and(|part| {
            length.contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit())
        })
    };
    digits(parts.next(), 4..=4)
        && digits(parts.next(), 1..=2)
        && digits(parts.next(), 1..=2)
        && parts.next().is_none()
}

/// A number in plain decimals, if it is a whole one: `0b11` is 3. Zeros before it do not count.
pub(crate) fn decimal(text: &str) -> Option<String> {
    let (sign, body) = match text.strip_prefix('-') {
        Some(body) => ("-", body),
        None => ("", text.strip_prefix('+').unwrap_or(text)),
    };
    let plain = body.replace('_', "").to_ascii_lowercase();
    let radix = [("0x", 16), ("0o", 8), ("0b", 2)];
    let prefixed = radix.into_iter().find_map(|(prefix, radix)| Some((plain.strip_prefix(prefix)?, radix)));
    let (digits, radix) = prefixed.unwrap_or((plain.as_str(), 10));
    let number = u64::from_str_radix(digits, radix).ok().or_else(|| exponent(&plain))?;
    Some(format!("{sign}{number}"))
}

/// A whole number as people shorten or group it: `100k`, `1.5M`, `100,000`, `100 000`.
pub(crate) fn grouped(text: &str) -> Option<u64> {
    let plain: String = text.chars().filter(|c| !matches!(c, ' ' | '_')).collect();
    let thousands = || {
        let mut groups = plain.split(',');
        let first = groups.next().filter(|first| (1..=3).contains(&first.len()))?;
        let rest: Vec<&str> = groups.collect();
        (!rest.is_empty() && rest.iter().all(|group| group.len() == 3))
            .then(|| format!("{first}{}", rest.concat()))
    };
    let units = [('k', 3), ('K', 3), ('m', 6), ('M', 6)];
    let shortened = units.into_iter().find_map(|(unit, zeros)| Some((plain.strip_suffix(unit)?, zeros)));
    match shortened {
        Some((number, zeros)) if number.starts_with(|c: char| c.is_ascii_digit()) => {
            exponent(&format!("{number}e{zeros}"))
        }
        _ => thousands().unwrap_or_else(|| plain.clone()).parse().ok(),
    }
}

/// A number with a zero before it as those see it who take it for octal.
pub(crate) fn octal(text: &str) -> Option<String> {
    let (sign, body) = match text.strip_prefix('-') {
        Some(body) => ("-", body),
        None => ("", text.strip_prefix('+').unwrap_or(text)),
    };
    let number = u64::from_str_radix(body.strip_prefix('0')?, 8).ok()?;
    Some(format!("{sign}{number}"))
}

/// `1e3` and `1.5e3`, if it is a whole number.
fn exponent(text: &str) -> Option<u64> {
    let (number, exponent) = text.split_once('e')?;
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    let zeros = exponent.trim_start_matches('+').parse::<usize>().ok()?.checked_sub(part.len())?;
    (zeros < 20).then(|| format!("{whole}{part}{}", "0".repeat(zeros)).parse().ok()).flatten()
}

/// `010`, `0x1F`, `0b11`, `0o7`, `1_0`, `12:30`, `1e3`, `.inf`: each a number to some readers and a string, or
/// another number, to others.
fn is_ambiguous(body: &str) -> bool {
    let lower = body.to_ascii_lowercase();
    let only = |extra: &[u8]| lower.bytes().all(|byte| byte.is_ascii_digit() || extra.contains(&byte));
    // Octal in YAML 1.1; decimal in 1.2, which writes octal as `0o17`.
    let leading_zero = only(b"") && lower.len() > 1 && lower.starts_with('0');
    let radix = ["0x", "0o", "0b"].iter().any(|prefix| {
        lower.strip_prefix(prefix).is_some_and(|rest| {
            !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'_')
        })
    });
    let digits = lower.bytes().any(|byte| byte.is_ascii_digit());
    let grouped = digits && lower.contains('_') && only(b"_.");
    // YAML 1.1 has numbers of base 60, so `12:30` is 750.
    let sexagesimal = digits && lower.contains(':') && only(b":.");
    // PyYAML, after YAML 1.1, wants a dot and a sign, so `1e3` is a text to it.
    let exponent = digits && lower.contains('e') && only(b"e.+-") && lower.parse::<f64>().is_ok();
    leading_zero || radix || grouped || sexagesimal || exponent || matches!(lower.as_str(), ".inf" | ".nan")
}

fn integer(text: &str) -> Option<Number> {
    text.parse::<i64>().map(Number::from).or_else(|_| text.parse::<u64>().map(Number::from)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_decimal() {
        assert_eq!(read("10"), Ok(PlainScalar::Number(10.into())));
        assert_eq!(read("-3"), Ok(PlainScalar::Number((-3).into())));
        assert_eq!(read("18446744073709551615"), Ok(PlainScalar::Number(u64::MAX.into())));
        assert_eq!(read("1.5"), Ok(PlainScalar::Number(Number::from_f64(1.5).unwrap())));
    }

    #[test]
    fn spellings_that_readers_disagree_on_are_refused() {
        for text in [
            "010", "-010", "0b11", "0x1F", "0o17", "1_0", "12:30", "1:30:00", ".inf", "-.inf", ".NaN", "1e3",
            "1.5E+3",
        ] {
            assert_eq!(read(text), Err(ScalarTrouble::Ambiguous), "{text}");
        }
        assert_eq!(read("99999999999999999999"), Err(ScalarTrouble::TooBig));
    }

    #[test]
    fn a_number_is_written_in_plain_decimals() {
        for (text, plain) in [
            ("010", Some("10")),
            ("-010", Some("-10")),
            ("0b11", Some("3")),
            ("0x1F", Some("31")),
            ("0o17", Some("15")),
            ("1_000", Some("1000")),
            ("1e3", Some("1000")),
            ("1.5E+3", Some("1500")),
            ("1.5e0", None),
            ("12:30", None),
            (".inf", None),
        ] {
            assert_eq!(decimal(text).as_deref(), plain, "{text}");
        }
    }

    #[test]
    fn people_shorten_and_group_numbers() {
        for (text, number) in [
            ("100k", Some(100_000)),
            ("1.5M", Some(1_500_000)),
            ("100,000", Some(100_000)),
            ("100 000", Some(100_000)),
            ("1.5", None),
            ("10,5", None),
            ("k", None),
            ("-5k", None),
            ("five", None),
        ] {
            assert_eq!(grouped(text), number, "{text}");
        }
    }

    #[test]
    fn a_zero_before_a_number_makes_it_octal_to_some() {
        for (text, said) in
            [("010", Some("8")), ("-0017", Some("-15")), ("10", None), ("089", None), ("0o7", None)]
        {
            assert_eq!(octal(text).as_deref(), said, "{text}");
        }
    }

    #[test]
    fn words_and_dates_are_text_only_in_quotes() {
        for text in ["yes", "No", "ON", "off", "2026-11-21", "2026-1-2"] {
            assert!(is_ambiguous_text(text), "{text}");
        }
        for text in ["yEs", "y", "nothing", "once", "2026-11", "2026-11-21-1", "10-11-2026", ""] {
            assert!(!is_ambiguous_text(text), "{text}");
        }
    }

    #[test]
    fn the_rest_is_text() {
        for text in [
            "yes",
            "no",
            "on",
            "off",
            "1m30s",
            "500ms",
            "1.2.3",
            "12:30pm",
            "0xyz",
            "2026-11-21",
            ".",
            "...",
            "http.*",
            "-",
            "1e",
            "5xx",
        ] {
            assert_eq!(read(text), Ok(PlainScalar::Text(text)), "{text}");
        }
    }
}
