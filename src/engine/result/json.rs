//! Cuts JSON to a size so that it stays JSON, with a marker in each place where something was left out.
//!
//! Nothing is written that does not fit, so a large value is scanned but not copied. Values nested deeper than a
//! reader accepts are not visited.

use std::fmt::Write as _;

use serde_json::{Map, Value};

use super::write::{escaped, walk};
use crate::policy::{KeptPart, SizeUnit, TextSize};

/// The maximum nesting that is shown; deeper lists and mappings are only counted.
// The function is recursive, and a tool's result may have any nesting.
const DEPTH: u32 = 32;
/// The minimum size for a part of a value; with less, the value is left out.
// A smaller fragment is useless; the next value can use the space better.
const LEAST: u64 = 24;
/// The space per value with which a mapping shows a part of every value.
const SMALL: u64 = 8;
/// The nesting below which mappings are tried twice.
const TRIES: u32 = 3;
/// The key of the entry that counts the entries left out.
const REST: &str = "…";

/// As much of a list or a mapping as fits the size and is JSON; `None`: nothing fits.
///
/// Lists lose elements, texts their ends, mappings their largest values first; `…` marks where something is missing.
pub(super) fn cut_json(value: &Value, max: TextSize, keep: KeptPart) -> Option<String> {
    let TextSize { count, unit } = max.of_json();
    let cut = JsonCut { unit, keep };
    match value {
        Value::Array(items) => cut.list(items, count, 0),
        Value::Object(entries) => cut.mapping(entries, count, 0),
        _ => None,
    }
}

#[derive(Clone, Copy)]
struct JsonCut {
    /// Characters or bytes.
    unit: SizeUnit,
    keep: KeptPart,
}

/// The parts written so far, and the space left.
struct JsonRoom {
    parts: Vec<String>,
    left: u64,
}

impl JsonRoom {
    /// Adds a part and the comma after it.
    fn take(&mut self, part: String, unit: SizeUnit) {
        self.left = self.left.saturating_sub(unit.measure(&part).saturating_add(1));
        self.parts.push(part);
    }
}

impl JsonCut {
    /// The value, or as much of it as fits.
    fn fit(self, value: &Value, room: u64, depth: u32) -> Option<String> {
        // Complete values come first: complete JSON is easier for a model than two halves.
        if let Some(whole) = self.whole(value, room) {
            return Some(whole);
        }
        if room < LEAST {
            return None;
        }
        match value {
            Value::String(text) => self.text(text, room),
            Value::Array(items) if depth < DEPTH => self.list(items, room, depth),
            Value::Object(entries) if depth < DEPTH => self.mapping(entries, room, depth),
            Value::Array(items) => self.fits(format!("\"{REST} a list of {}\"", items.len()), room),
            Value::Object(entries) => self.fits(format!("\"{REST} a mapping of {}\"", entries.len()), room),
            // A cut number is another number, and `fal` is no word: these are kept whole or left out.
            Value::Null | Value::Bool(_) | Value::Number(_) => None,
        }
    }

    /// The whole value, if it fits.
    // Written until it does not fit, so that a value of megabytes costs no more than its space.
    fn whole(self, value: &Value, room: u64) -> Option<String> {
        let (mut text, mut left) = (String::new(), room);
        let fits = walk(value, DEPTH, &mut |part| {
            let cost = self.unit.measure(part);
            let fits = cost <= left;
            if fits {
                left = left.saturating_sub(cost);
                text.push_str(part);
            }
            fits
        });
        fits.then_some(text)
    }

    fn fits(self, text: String, room: u64) -> Option<String> {
        (self.unit.measure(&text) <= room).then_some(text)
    }

    /// The start of a text with its full length.
    fn text(self, text: &str, room: u64) -> Option<String> {
        // The full length lets the model estimate the missing part (both sizes, as in ai-agent and LocalCowork).
        let rest = format!("{REST} ({} chars)\"", text.chars().count());
        let mut left = room.checked_sub(self.unit.measure(&rest).saturating_add(1))?;
        let mut cut = String::from('"');
        for c in text.chars() {
            let part = escaped(c);
            let cost = self.unit.measure(&part);
            if cost > left {
                break;
            }
            left = left.saturating_sub(cost);
            cut.push_str(&part);
        }
        cut.push_str(&rest);
        Some(cut)
    }

    /// Elements from the start, the end or both, until one does not fit; that one is cut.
    fn list(self, items: &[Value], room: u64, depth: u32) -> Option<String> {
        let rest = |left: usize| format!("\"{REST} {left} of {} left out\"", items.len());
        // The two brackets, and the comma before the marker.
        let taken = self.unit.measure(&rest(items.len())).saturating_add(3);
        let Some(left) = room.checked_sub(taken) else { return self.fits(format!("[\"{REST}\"]"), room) };
        let mut front = JsonRoom { parts: Vec::new(), left };
        let mut back: Vec<String> = Vec::new();
        let mut between = items;
        loop {
            let from_front = match self.keep {
                KeptPart::Head => true,
                KeptPart::Tail => false,
                // Alternating between both ends, so that each gets half of the space.
                KeptPart::Both => front.parts.len() <= back.len(),
            };
            let next = if from_front { between.split_first() } else { between.split_last() };
            let Some((item, others)) = next else { break };
            let for_item = front.left.saturating_sub(1);
            let whole = self.whole(item, for_item);
            // A cut element is the last, or a list of large elements would become a list of fragments.
            let stops = whole.is_none();
            let Some(part) = whole.or_else(|| self.fit(item, for_item, depth.saturating_add(1))) else {
                break;
            };
            between = others;
            front.take(part, self.unit);
            if !from_front {
                back.extend(front.parts.pop());
            }
            if stops {
                break;
            }
        }
        let mut parts = front.parts;
        if !between.is_empty() {
            parts.push(rest(between.len()));
        }
        parts.extend(back.into_iter().rev());
        Some(format!("[{}]", parts.join(",")))
    }

    /// Small values whole and the others cut; if there are too many keys, the first of them.
    fn mapping(self, entries: &Map<String, Value>, room: u64, depth: u32) -> Option<String> {
        let rest = |left: usize| format!("\"{REST}\":\"{left} of {} keys left out\"", entries.len());
        // The two braces, and the comma before the marker.
        let for_rest = self.unit.measure(&rest(entries.len())).saturating_add(1);
        let within = room.checked_sub(2);
        // First without space for the marker: often all keys fit. Each try visits all levels below again, so deep
        // levels have only one.
        if depth < TRIES
            && let Some(within) = within
            && let (parts, 0) = self.entries(entries, within, depth)
        {
            return Some(format!("{{{}}}", parts.join(",")));
        }
        let within = within.and_then(|within| within.checked_sub(for_rest));
        let Some((mut parts, left)) = within.map(|within| self.entries(entries, within, depth)) else {
            return self.fits(format!("{{\"{REST}\":\"{REST}\"}}"), room);
        };
        if left > 0 {
            parts.push(rest(left));
        }
        Some(format!("{{{}}}", parts.join(",")))
    }

    /// The entries that fit, and how many do not.
    fn entries(self, entries: &Map<String, Value>, room: u64, depth: u32) -> (Vec<String>, usize) {
        // The last entry has no comma, so one more character is available.
        let mut room = JsonRoom { parts: Vec::new(), left: room.saturating_add(1) };
        let shares = self.shares(entries, room.left);
        let mut taken = 0_usize;
        for (key, value) in entries {
            let mut part = self.whole(&Value::String(key.clone()), room.left).unwrap_or_default();
            let for_key = self.unit.measure(&part).saturating_add(2);
            let Some(for_value) = room.left.checked_sub(for_key) else { break };
            if part.is_empty() {
                break;
            }
            let share = shares.map_or(for_value, |shares| shares.for_value(self, value)).min(for_value);
            let Some(value) = self.fit(value, share, depth.saturating_add(1)) else {
                // A key without a value would look empty, so it is counted as left out.
                continue;
            };
            // Writing into a string does not fail.
            let _ = write!(part, ":{value}");
            room.take(part, self.unit);
            taken = taken.saturating_add(1);
        }
        (room.parts, entries.len().saturating_sub(taken))
    }

    /// The space for each value; `None`: there are too many keys for all of them.
    fn shares(self, entries: &Map<String, Value>, room: u64) -> Option<ValueShares> {
        let mut spare = room;
        for key in entries.keys() {
            // Two quotes, a colon, a comma, and the minimum for a value.
            let taken = self.unit.measure(key).saturating_add(4).saturating_add(SMALL);
            spare = spare.checked_sub(taken)?;
        }
        let many = u64::try_from(entries.len()).unwrap_or(u64::MAX);
        let for_values = spare.saturating_add(SMALL.saturating_mul(many));
        // Small values are shown whole and the large ones share the rest: names and numbers carry more information
        // per token than long texts.
        let small = for_values.checked_div(many)?;
        let (mut left, mut large) = (for_values, 0_u64);
        for value in entries.values() {
            match self.size(value, small) {
                Some(size) => left = left.saturating_sub(size),
                None => large = large.saturating_add(1),
            }
        }
        Some(ValueShares { small, large: left.checked_div(large).unwrap_or(left) })
    }

    /// The size of a value that is no larger than `most`.
    fn size(self, value: &Value, most: u64) -> Option<u64> {
        let mut size = 0_u64;
        let fits = walk(value, DEPTH, &mut |part| {
            size = size.saturating_add(self.unit.measure(part));
            // Measured only up to the limit, so that a large value is not scanned whole.
            size <= most
        });
        fits.then_some(size)
    }
}

/// The space for values.
#[derive(Clone, Copy)]
struct ValueShares {
    /// The maximum size of a value that is shown whole.
    small: u64,
    /// The space for each larger value.
    large: u64,
}

impl ValueShares {
    fn for_value(self, cut: JsonCut, value: &Value) -> u64 {
        cut.size(value, self.small).unwrap_or(self.large)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn cut(value: &Value, count: u64, keep: KeptPart) -> String {
        cut_json(value, TextSize { count, unit: SizeUnit::Chars }, keep).unwrap()
    }

    #[test]
    fn a_list_loses_elements_and_says_how_many() {
        let list: Value = (0..100).collect();
        assert_eq!(cut(&list, 50, KeptPart::Head), r#"[0,1,2,3,4,5,6,7,8,9,10,"… 89 of 100 left out"]"#);
        assert_eq!(cut(&list, 50, KeptPart::Tail), r#"["… 92 of 100 left out",92,93,94,95,96,97,98,99]"#);
        assert_eq!(cut(&list, 50, KeptPart::Both), r#"[0,1,2,3,4,"… 91 of 100 left out",96,97,98,99]"#);
    }

    #[test]
    fn small_values_of_a_mapping_stay_whole() {
        let value = json!({"rows": (0..1000).collect::<Value>(), "total": 1000, "note": "x".repeat(500)});
        let text = cut(&value, 160, KeptPart::Head);
        let read: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(read["total"], 1000);
        assert_eq!(read["rows"][0], 0);
        assert!(read["note"].as_str().unwrap().ends_with("… (500 chars)"), "{text}");
        assert!(text.chars().count() <= 160, "{text}");
    }

    #[test]
    fn too_many_keys_are_counted() {
        let value: Value = (0..1000).map(|n| (format!("key{n}"), json!(n))).collect::<Map<_, _>>().into();
        let text = cut(&value, 60, KeptPart::Head);
        assert_eq!(text, r#"{"key0":0,"key1":1,"…":"998 of 1000 keys left out"}"#);
    }

    #[test]
    fn what_is_nested_too_deep_is_told_of() {
        let mut value = json!(0);
        for _ in 0..10_000 {
            value = Value::Array(vec![value]);
        }
        let text = cut(&value, 1000, KeptPart::Head);
        assert!(text.contains("… a list of 1"), "{text}");
        assert!(serde_json::from_str::<Value>(&text).is_ok());
        // Dropping it would go as deep.
        std::mem::forget(value);
    }

    #[test]
    fn nothing_is_left_where_nothing_fits() {
        assert_eq!(
            cut_json(&json!([1, 2, 3]), TextSize { count: 4, unit: SizeUnit::Chars }, KeptPart::Head),
            None
        );
        assert_eq!(cut(&json!([1, 2, 3]), 6, KeptPart::Head), r#"["…"]"#);
    }

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            "\\PC{0,40}".prop_map(Value::from),
            "[\"\\\\\n\u{1}a]{0,40}".prop_map(Value::from),
        ];
        leaf.prop_recursive(5, 200, 12, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..12).prop_map(Value::from),
                prop::collection::vec(("\\PC{0,12}", inner), 0..12)
                    .prop_map(|entries| Value::Object(entries.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_is_left_is_json_and_fits(value in values(), count in 0_u64..400, bytes in any::<bool>(), keep in 0..3) {
            let unit = if bytes { SizeUnit::Bytes } else { SizeUnit::Chars };
            let keep = [KeptPart::Head, KeptPart::Tail, KeptPart::Both][usize::try_from(keep).unwrap()];
            let whole = value.to_string();
            prop_assume!(unit.measure(&whole) > count && (value.is_array() || value.is_object()));
            match cut_json(&value, TextSize { count, unit }, keep) {
                None => prop_assert!(count < 16, "{whole}"),
                Some(text) => {
                    prop_assert!(unit.measure(&text) <= count, "{text}");
                    let read: Value = serde_json::from_str(&text).unwrap();
                    prop_assert_eq!(read.is_array(), value.is_array());
                }
            }
        }
    }
}
