//! Excerpts of a longer text: the results `{text, from, to, of}` by which a model reads a stored result. If an
//! excerpt is too large, its end is cut and `to` is adjusted, so that a reader who continues there skips nothing.

use serde_json::{Map, Value};

use super::write::{escaped, json_text};
use crate::policy::TextSize;

/// The field with the tool's data in the full form of a result (`form: full`).
const DATA: &str = "data";

/// The start of an excerpt within the size; empty if nothing fits. `None`: the value is not an excerpt.
pub(super) fn shortened(value: &Value, max: TextSize) -> Option<Value> {
    let (text, from) = read(value)?;
    let limit = max.of_json();
    // The longest possible numbers are assumed, so that the text needs no second cut.
    let around = limit.unit.measure(&json_text(&with(value, "", text.len(), from)));
    let mut left = limit.count.saturating_sub(around);
    let mut end = 0_usize;
    // Characters are measured in their JSON form: an escape takes six bytes.
    for c in text.chars() {
        let cost = limit.unit.measure(&escaped(c));
        if cost > left {
            break;
        }
        left = left.saturating_sub(cost);
        end = end.saturating_add(c.len_utf8());
    }
    Some(with(value, text.get(..end).unwrap_or_default(), end, from))
}

/// The text and its start offset. `None` if the offsets do not match the text.
fn read(value: &Value) -> Option<(&str, u64)> {
    let entries = piece(value)?;
    let number = |key| entries.get(key).and_then(Value::as_u64);
    let text = entries.get("text")?.as_str()?;
    let (from, to, of) = (number("from")?, number("to")?, number("of")?);
    let bytes = u64::try_from(text.len()).ok()?;
    // The offsets must be true after the cut, because the model requests the next part by them.
    (entries.len() == 4 && to <= of && to.checked_sub(from) == Some(bytes)).then_some((text, from))
}

fn piece(value: &Value) -> Option<&Map<String, Value>> {
    let value = value.get(DATA).filter(|data| data.is_object()).unwrap_or(value);
    value.as_object()
}

/// The value with this text, which ends `bytes` bytes after its start.
fn with(value: &Value, text: &str, bytes: usize, from: u64) -> Value {
    let change = |entries: &Map<String, Value>| {
        let to = from.saturating_add(u64::try_from(bytes).unwrap_or(u64::MAX));
        let changed = entries.iter().map(|(key, value)| {
            let value = match key.as_str() {
                "text" => text.into(),
                "to" => to.into(),
                _ => value.clone(),
            };
            (key.clone(), value)
        });
        Value::Object(changed.collect())
    };
    let Some(entries) = value.as_object() else { return value.clone() };
    match entries.get(DATA).and_then(Value::as_object) {
        Some(data) => {
            let rest = entries
                .iter()
                .map(|(key, value)| (key.clone(), if key == DATA { change(data) } else { value.clone() }));
            Value::Object(rest.collect())
        }
        None => change(entries),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::engine::result::show;
    use crate::policy::{Policy, ResultPolicy, SizeCap, SizeUnit};

    fn rules(count: u64, unit: SizeUnit) -> ResultPolicy {
        let mut rules =
            Policy::from_yaml("p.yaml", "version: 1\n").unwrap().tool("read_result").result.clone();
        rules.max.value = SizeCap::Most(TextSize { count, unit });
        rules
    }

    fn shown(value: &Value, rules: &ResultPolicy) -> String {
        show(value, rules, false, &mut |_, _| String::new()).text
    }

    #[test]
    fn a_piece_that_is_too_large_ends_where_it_says() {
        let piece = json!({"text": "ab\ncd".repeat(100), "from": 1000, "to": 1500, "of": 2000});
        let text = shown(&piece, &rules(60, SizeUnit::Chars));
        assert_eq!(text, r#"{"text":"ab\ncdab\ncdab\nc","from":1000,"to":1014,"of":2000}"#);
    }

    #[test]
    fn a_piece_within_a_whole_result_does_so_too() {
        let piece = json!({"text": "x".repeat(100), "from": 0, "to": 100, "of": 200});
        let full = json!({"ok": true, "data": piece, "tool_name": "read_result"});
        let text = shown(&full, &rules(100, SizeUnit::Chars));
        let read: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(read["data"]["to"], read["data"]["text"].as_str().unwrap().len());
        assert_eq!(read["tool_name"], "read_result");
    }

    #[test]
    fn what_only_looks_like_a_piece_is_cut_like_all_else() {
        let other = json!({"text": "x".repeat(100), "from": 0, "to": 8, "of": 200});
        assert_eq!(shortened(&other, TextSize { count: 60, unit: SizeUnit::Chars }), None);
    }

    #[test]
    fn without_room_for_a_character_nothing_is_said_to_be_read() {
        let piece = json!({"text": "x".repeat(100), "from": 0, "to": 100, "of": 200});
        for count in 0..50 {
            let text = shown(&piece, &rules(count, SizeUnit::Chars));
            assert!(!text.contains("\"to\":100") && text.len() <= 50, "{text}");
        }
    }

    proptest! {
        #[test]
        fn who_goes_on_where_a_piece_ends_reads_all(
            whole in "([a-z ]|[\"\\\\\n\u{1}]|\u{e4}|\u{20ac}|\u{1d11e}){0,400}", count in 0_u64..300, unit in 0..3, length in 4_usize..200,
        ) {
            let unit = [SizeUnit::Chars, SizeUnit::Bytes, SizeUnit::Tokens][usize::try_from(unit).unwrap()];
            // Space for the delimiters, and for any one character.
            let least = if unit == SizeUnit::Tokens { 32 } else { 64 };
            let rules = rules(count + least, unit);
            let (mut read, mut at) = (String::new(), 0);
            while at < whole.len() {
                let end = (0..=(at + length).min(whole.len())).rev().find(|end| whole.is_char_boundary(*end)).unwrap();
                let piece = json!({"text": whole[at..end], "from": at, "to": end, "of": whole.len()});
                let text = shown(&piece, &rules);
                prop_assert!(unit.measure(&text) <= count + least, "{text}");
                let piece: Value = serde_json::from_str(&text).unwrap();
                read.push_str(piece["text"].as_str().unwrap());
                let to = usize::try_from(piece["to"].as_u64().unwrap()).unwrap();
                prop_assert!(to > at, "{text}");
                at = to;
            }
            prop_assert_eq!(read, whole);
        }
    }
}
