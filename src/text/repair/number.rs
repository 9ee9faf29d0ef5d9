//! Numbers that would not stay what they are. Integers of 64 bits are kept, all other numbers are floats.

use std::borrow::Cow;

use serde_json::{Number, Value};

use super::cursor::TextCursor;
use super::{RefusalReason, RepairKind, RepairRefusal};

/// Integers with fewer digits fit into 64 bits.
const SHORT: usize = 19;

/// The first integer in a text that is JSON which does not fit into 64 bits, and where it is. A number with a fraction
/// or an exponent is meant as a float.
pub(crate) fn too_long(json: &str) -> Option<(usize, &str)> {
    let bytes = json.as_bytes();
    let (mut at, mut quoted) = (0_usize, false);
    while let Some(byte) = bytes.get(at) {
        let length = match byte {
            b'\\' => 2,
            b'"' => {
                quoted = !quoted;
                1
            }
            b'0'..=b'9' | b'-' if !quoted => {
                let word = word(json, at);
                if is_integer(word) && !fits(word) {
                    return Some((at, word));
                }
                word.len().max(1)
            }
            _ => 1,
        };
        at = at.saturating_add(length);
    }
    None
}

/// The number that a word is: one of JSON, or one that lacks the digit before or after its dot.
pub(super) fn read(
    cursor: &mut TextCursor<'_>,
    word: &str,
    at: usize,
) -> Result<Option<Value>, RepairRefusal> {
    if word == "-0" {
        // `serde_json` makes a float of it, and no schema of an integer would hold.
        return Ok(Some(Value::from(0)));
    }
    let whole = completed(word);
    match whole.parse::<Number>() {
        Ok(number) if is_kept(&whole, &number) => {
            if whole.len() != word.len() {
                cursor.repaired(RepairKind::NumberForm);
            }
            Ok(Some(Value::Number(number)))
        }
        // A number that changes when it is read is refused: an id of 20 digits would become another one.
        Ok(_) => Err(RepairRefusal { reason: RefusalReason::NumberChanges, at }),
        Err(_) => Ok(None),
    }
}

fn completed(word: &str) -> Cow<'_, str> {
    let digits = word.strip_prefix('-').unwrap_or(word);
    let sign = word.get(..word.len().saturating_sub(digits.len())).unwrap_or_default();
    match digits.split_once('.') {
        Some(("", fraction)) if fraction.starts_with(|char: char| char.is_ascii_digit()) => {
            format!("{sign}0.{fraction}").into()
        }
        Some((_, "")) => format!("{word}0").into(),
        _ => word.into(),
    }
}

/// The number that a word is in other languages, where it may be a text as well: `+1`, `007`, `1_000`, `0x1f`.
pub(super) fn other_form(word: &str) -> Option<Value> {
    let hex = word.strip_prefix("0x").or_else(|| word.strip_prefix("0X"));
    // `from_str_radix` would take the sign.
    if let Some(hex) = hex.filter(|hex| !hex.starts_with('+')) {
        return u64::from_str_radix(hex, 16).ok().map(Value::from);
    }
    let unsigned = word.strip_prefix('+').unwrap_or(word);
    if !unsigned.starts_with(|char: char| char.is_ascii_digit()) || unsigned.ends_with('_') {
        return None;
    }
    let digits = unsigned.replace('_', "");
    let significant = digits.trim_start_matches('0');
    let whole = if significant.starts_with(|char: char| char.is_ascii_digit()) {
        significant.to_owned()
    } else {
        format!("0{significant}")
    };
    let number = whole.parse::<Number>().ok().filter(|number| is_kept(&whole, number))?;
    (whole != word).then_some(Value::Number(number))
}

/// The number that a word is to those who take zeros before it for octal (C, Python 2, sloppy JavaScript): `012` is 12 or 10.
/// The packages `json_repair` (Python) and `jsonrepair` (npm) differ on it, too: 12 and "012".
pub(super) fn octal(word: &str) -> Option<u64> {
    let digits = word.strip_prefix('+').unwrap_or(word).strip_prefix('0')?.replace('_', "");
    u64::from_str_radix(&digits, 8).ok()
}

/// Whether a number says the same as it was written. Another spelling, `1.50` and `1.5`, is the same.
pub(super) fn is_kept(word: &str, number: &Number) -> bool {
    // Integers must fit into 64 bits. A float has many spellings, so its digits are compared.
    if is_integer(word) { fits(word) } else { decimal(word) == decimal(&number.to_string()) }
}

fn word(json: &str, at: usize) -> &str {
    let rest = json.get(at..).unwrap_or_default();
    let end = rest.bytes().take_while(|byte| byte.is_ascii_digit() || b"+-.eE".contains(byte)).count();
    rest.get(..end).unwrap_or_default()
}

fn is_integer(word: &str) -> bool {
    !word.contains(['.', 'e', 'E'])
}

fn fits(word: &str) -> bool {
    word.len() < SHORT || word.parse::<u64>().is_ok() || word.parse::<i64>().is_ok()
}

/// The digits without zeros around them, whether they are negative, and the power of ten of the last one. `None`: zero, or
/// no such number.
fn decimal(word: &str) -> Option<(bool, String, i64)> {
    let (sign, word) = word.strip_prefix('-').map_or((false, word), |rest| (true, rest));
    let (mantissa, exponent) = word.split_once(['e', 'E']).unwrap_or((word, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    let kept = digits.trim_end_matches('0');
    let zeros = i64::try_from(digits.len().saturating_sub(kept.len())).ok()?;
    let behind = i64::try_from(fraction.len()).ok()?;
    let power = exponent.parse::<i64>().ok()?.saturating_sub(behind).saturating_add(zeros);
    let kept = kept.trim_start_matches('0');
    (!kept.is_empty()).then(|| (sign, kept.to_owned(), power))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_beyond_64_bits_are_found_outside_of_texts() {
        for (json, found) in [
            ("[18446744073709551615, -9223372036854775808, 1e30, 0.1]", None),
            (r#"{"a": "18446744073709551616", "\"18446744073709551616": 1}"#, None),
            (r#"{"a": 18446744073709551616}"#, Some((6, "18446744073709551616"))),
            ("[1,-9223372036854775809]", Some((3, "-9223372036854775809"))),
        ] {
            assert_eq!(too_long(json), found, "{json}");
        }
    }

    #[test]
    fn another_spelling_is_the_same_number_and_lost_digits_make_another_one() {
        for (word, kept) in [
            ("1.50", true),
            ("1e3", true),
            ("-0.10E-2", true),
            ("0.0", true),
            ("-0", true),
            ("1.7976931348623157e308", true),
            ("0.1234567890123456789", false),
            ("1e-400", false),
            ("18446744073709551616", false),
        ] {
            let number = word.parse::<Number>().unwrap();
            assert_eq!(is_kept(word, &number), kept, "{word}");
        }
    }
}
