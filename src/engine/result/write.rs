//! Writes JSON piece by piece until the consumer stops, without recursion and without a copy of the whole.

use std::slice;

use serde_json::{Value, map};

use crate::policy::{SizeUnit, TextSize};

/// The number of bytes of a text that are escaped at once.
// A text of megabytes is escaped piece by piece, so that a cut that stops early has not copied it all.
const CHUNK: usize = 4096;

enum OpenContainer<'v> {
    List(slice::Iter<'v, Value>),
    Mapping(map::Iter<'v>),
}

/// Passes the compact JSON text of a value to `take` until `take` returns `false`. Returns whether all of it was
/// taken. Values nested deeper than `depth` are not written.
pub(super) fn walk(value: &Value, depth: u32, take: &mut dyn FnMut(&str) -> bool) -> bool {
    let most = usize::try_from(depth).unwrap_or(usize::MAX);
    // An explicit stack instead of recursion: a server may nest values to any depth.
    let mut open: Vec<(OpenContainer<'_>, bool)> = Vec::new();
    let mut next = Some(value);
    loop {
        if let Some(value) = next.take() {
            let goes_on = match value {
                Value::String(text) => string(text, take),
                Value::Array(items) => {
                    open.push((OpenContainer::List(items.iter()), false));
                    take("[")
                }
                Value::Object(entries) => {
                    open.push((OpenContainer::Mapping(entries.iter()), false));
                    take("{")
                }
                Value::Null | Value::Bool(_) | Value::Number(_) => take(&value.to_string()),
            };
            // `take` has enough, or the value is nested too deep.
            if !goes_on || open.len() > most {
                return false;
            }
        }
        let Some((within, begun)) = open.last_mut() else { return true };
        let comma = core::mem::replace(begun, true);
        let goes_on = match within {
            OpenContainer::List(items) => match items.next() {
                Some(item) => {
                    next = Some(item);
                    !comma || take(",")
                }
                None => open.pop().is_some() && take("]"),
            },
            OpenContainer::Mapping(entries) => match entries.next() {
                Some((key, value)) => {
                    next = Some(value);
                    (!comma || take(",")) && string(key, take) && take(":")
                }
                None => open.pop().is_some() && take("}"),
            },
        };
        if !goes_on {
            return false;
        }
    }
}

/// The JSON text of a value.
pub(super) fn json_text(value: &Value) -> String {
    let mut text = String::new();
    walk(value, u32::MAX, &mut |part| {
        text.push_str(part);
        true
    });
    text
}

/// The JSON text of a value, if it fits the size.
pub(super) fn json_within(value: &Value, max: TextSize) -> Option<String> {
    let TextSize { count: mut left, unit } = max.of_json();
    let mut text = String::new();
    // Written until it does not fit, so that a value of megabytes costs no more than its space.
    let fits = walk(value, u32::MAX, &mut |part| {
        text.push_str(part);
        let size = unit.measure(part);
        let fits = size <= left;
        left = left.saturating_sub(size);
        fits
    });
    fits.then_some(text)
}

/// The size of the JSON text of a value.
pub(super) fn json_size(value: &Value, unit: SizeUnit) -> u64 {
    #[cfg(test)]
    crate::counted::count(crate::counted::Walk::Size);
    // The text is JSON, so its tokens are counted by bytes.
    let counted = if unit == SizeUnit::Chars { SizeUnit::Chars } else { SizeUnit::Bytes };
    let mut size = 0_u64;
    walk(value, u32::MAX, &mut |part| {
        size = size.saturating_add(counted.measure(part));
        true
    });
    // 2.8 bytes of JSON are a token (LocalCowork, ADR-007): five fourteenths.
    if unit == SizeUnit::Tokens { size.saturating_mul(5).div_ceil(14) } else { size }
}

fn string(text: &str, take: &mut dyn FnMut(&str) -> bool) -> bool {
    if !take("\"") {
        return false;
    }
    let mut rest = text;
    while !rest.is_empty() {
        // At a character boundary, so that each chunk is text.
        let end = (CHUNK..=rest.len()).find(|at| rest.is_char_boundary(*at)).unwrap_or(rest.len());
        let (chunk, others) = rest.split_at_checked(end).unwrap_or((rest, ""));
        let quoted = serde_json::to_string(chunk).unwrap_or_default();
        let bare = quoted.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
        if !take(bare.unwrap_or_default()) {
            return false;
        }
        rest = others;
    }
    take("\"")
}

/// The form of a character in a JSON text.
pub(super) fn escaped(c: char) -> String {
    let text = c.to_string();
    if c >= ' ' && c != '"' && c != '\\' {
        return text;
    }
    let quoted = serde_json::to_string(&text).unwrap_or_default();
    let bare = quoted.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
    bare.unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_value_is_written_as_everywhere() {
        let value = json!({
            "text": "a \"b\" \\ \n ü".repeat(1000), "list": [1, 2.5, null, true, [], {}], "nested": {"a": {"b": [[]]}},
        });
        assert_eq!(json_text(&value), value.to_string());
        assert_eq!(json_size(&value, SizeUnit::Bytes), value.to_string().len() as u64);
        assert_eq!(json_size(&value, SizeUnit::Chars), value.to_string().chars().count() as u64);
        assert_eq!(json_size(&value, SizeUnit::Tokens), SizeUnit::Tokens.measure(&value.to_string()));
    }

    #[test]
    fn writing_ends_where_nobody_wants_more() {
        let list: Value = (0..1_000_000).collect();
        let mut pieces = 0;
        assert!(!walk(&list, 8, &mut |_| {
            pieces += 1;
            pieces < 10
        }));
        assert_eq!(pieces, 10);
    }

    #[test]
    fn quotes_at_the_edge_are_escaped() {
        for c in ['"', '\\', '\n', '\u{1}', 'ü', 'a'] {
            assert_eq!(format!("\"{}\"", escaped(c)), serde_json::to_string(&c).unwrap());
        }
    }
}
