//! Laws that hold for any text.

use proptest::prelude::*;
use serde_json::Value;

use super::*;

fn steps(text: &str) -> usize {
    let steps = |misfit| {
        let mut cursor = TextCursor::new(text, ReadingChoice::Neither, misfit);
        let _ = around::read(&mut cursor);
        cursor.steps
    };
    [BracketMisfit::Refused, BracketMisfit::Missing, BracketMisfit::Mistyped]
        .into_iter()
        .map(steps)
        .max()
        .unwrap_or_default()
}

fn value() -> impl Strategy<Value = Value> {
    let text = || prop_oneof!["[a-z \"\\\\,:{}\\[\\]'\\n]{0,8}", "\\PC{0,4}"];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        text().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((text(), inner), 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

fn container() -> impl Strategy<Value = Value> {
    value().prop_map(|value| Value::Array(vec![value]))
}

/// The places of the quotes around each string of a JSON text.
fn strings(text: &str) -> Vec<(usize, usize)> {
    let (mut quotes, mut escaped) = (Vec::new(), false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => quotes.push(at),
            _ => {}
        }
    }
    quotes.chunks(2).map(|pair| (pair[0], pair[1])).collect()
}

/// Text made of the signs that matter.
fn broken() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "{", "}", "[", "]", "\"", "'", ",", ":", "\\", "/*", "*/", "//", "#", "\n", " ", "...", "…", "```",
        "json", "a", "1", "-", "True", "null", "\\u12", "\\ud83d", "é", "\"a\":", "\u{feff}", "\"\"",
    ]);
    prop::collection::vec(piece, 0..80).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn json_is_never_changed(value in value()) {
        for text in [value.to_string(), serde_json::to_string_pretty(&value).unwrap()] {
            let found = repair(&text).unwrap();
            prop_assert_eq!(&found.value, &value);
            prop_assert!(found.repairs.is_empty());
        }
    }

    /// A number is what was written, or it is refused.
    #[test]
    fn no_number_is_ever_changed(number in "-?(0|[1-9][0-9]{0,40})(\\.[0-9]{1,30})?(e-?[0-9]{1,2})?") {
        for text in [format!("[{number}]"), format!("[{number},]"), format!("{{'a': {number}}}")] {
            match repair(&text) {
                Err(refusal) => prop_assert_eq!(refusal.reason, RefusalReason::NumberChanges, "{}", text),
                Ok(found) => {
                    let is_float = number.contains(['.', 'e']);
                    let read = found.value.get(0).or_else(|| found.value.get("a")).unwrap().to_string();
                    // Without a repair the text itself stays as it is, and a float is read as one.
                    let same = read == number || number == "-0" || is_float
                        && read.parse::<f64>().unwrap().to_bits() == number.parse::<f64>().unwrap().to_bits();
                    prop_assert!(same, "{} is now {}", number, read);
                }
            }
        }
    }

    #[test]
    fn the_parser_for_broken_text_reads_json_too(value in container()) {
        for text in [value.to_string(), serde_json::to_string_pretty(&value).unwrap()] {
            let found = repair_broken(&text).unwrap();
            prop_assert_eq!(&found.value, &value);
            prop_assert!(found.repairs.is_empty(), "{}", found.repairs);
        }
    }

    #[test]
    fn any_text_ends_in_linear_time(text in prop_oneof![broken(), "\\PC*"]) {
        prop_assert!(steps(&text) <= 16 * text.len() + 1024);
        if let Ok(found) = repair(&text) {
            let again = repair(&found.value.to_string()).unwrap();
            prop_assert_eq!(again.value, found.value);
            prop_assert!(again.repairs.is_empty());
        }
    }

    #[test]
    fn brackets_that_are_missing_at_the_end_are_put_back(value in container(), cut in 1_usize..8) {
        let text = value.to_string();
        let brackets = text.bytes().rev().take_while(|byte| matches!(byte, b']' | b'}')).count();
        let kept = &text[..text.len() - cut.min(brackets)];
        match repair(kept) {
            Ok(found) => {
                prop_assert_eq!(&found.value, &value);
                // Members may be missing.
                let open_end = kept.ends_with(['[', '{']);
                prop_assert_eq!(found.is_certain(), !open_end, "{}", kept);
            }
            Err(refusal) => {
                let number = kept.ends_with(|c: char| c.is_ascii_digit());
                prop_assert!(number || matches!(kept, "[" | "{"), "{}: {}", kept, refusal);
            }
        }
    }

    #[test]
    fn a_text_that_stops_inside_a_string_is_never_certain(value in value(), at in any::<prop::sample::Index>()) {
        let text = serde_json::json!([value, {"key, too": "text, true: 1}"}]).to_string();
        let inside: Vec<usize> = strings(&text).into_iter().flat_map(|(open, close)| open + 1..=close).collect();
        let inside: Vec<usize> = inside.into_iter().filter(|at| text.is_char_boundary(*at)).collect();
        let cut = &text[..*at.get(&inside)];
        prop_assert!(!repair(cut).is_ok_and(|found| found.is_certain()), "{}", cut);
        prop_assert!(repair_for(cut, &|_| false).is_err(), "{}", cut);
    }

    #[test]
    fn what_stands_around_and_commas_at_the_end_change_nothing(value in value()) {
        let text = format!("Here it is:\n```json\n[{value},]\n```\nDone.");
        prop_assert_eq!(repair(&text).unwrap().value, Value::Array(vec![value]));
    }

    #[test]
    fn a_quote_that_is_lost_or_doubled_never_makes_another_value(
        members in prop::collection::btree_map("[a-z]{1,4}", "([a-z0-9./-][a-z0-9 .,:'\"{}\\[\\]/\n-]{0,12})?", 0..4),
        list in prop::collection::vec("([a-z0-9./-][a-z0-9 .,:'{}/-]{0,8})?", 0..4),
        at in any::<prop::sample::Index>(), doubled in any::<bool>(),
    ) {
        let value = serde_json::json!([members, {"key": "text", "other": list, "last": 1}]);
        let mut text = value.to_string();
        let (open, close) = *at.get(&strings(&text));
        let quote = if at.index(2) == 0 { open } else { close };
        if doubled {
            text.insert(quote, '"');
        } else {
            text.remove(quote);
        }
        if let Ok(found) = repair_for(&text, &|_| false) {
            prop_assert_eq!(found.value, value, "{}: {}", text, found.repairs);
        }
    }
}

proptest! {
    #[test]
    fn a_bracket_of_the_other_kind_or_too_many_never_makes_another_value(
        value in container(), at in any::<prop::sample::Index>(), doubled in any::<bool>(),
    ) {
        let mut text = serde_json::json!([value, {"key": ["text", 1], "other": [{"a": [2]}]}]).to_string();
        let outside = strings(&text);
        let inside = |at: usize| outside.iter().any(|(open, close)| (*open..*close).contains(&at));
        let closing: Vec<usize> = text.match_indices([']', '}']).map(|(at, _)| at).filter(|at| !inside(*at)).collect();
        let value: Value = serde_json::from_str(&text).unwrap();
        let at = *at.get(&closing);
        let (bracket, other) = if text[at..].starts_with(']') { ("]", "}") } else { ("}", "]") };
        if doubled {
            text.insert_str(at, bracket);
        } else {
            text.replace_range(at..=at, other);
        }
        if let Ok(found) = repair_for(&text, &|_| false) {
            prop_assert_eq!(found.value, value, "{}: {}", text, found.repairs);
        }
    }
}

#[test]
fn a_megabyte_of_one_sign_is_gone_through_once() {
    for sign in [
        "[",
        "{",
        "\"",
        "'",
        "}",
        "{\"a\":",
        "\\",
        "/*",
        "#",
        "\"a\",",
        "{'a:1,\"a:1,",
        "{}",
        "`",
        "…",
        ",",
        "{\"a\":\"\" ",
        "\"a\" ",
        "\"a\"",
        "a \"b\": ",
        "a b ",
        "“",
        "”x",
        "\u{a0}",
        "\\\"",
        "\\n",
        "1 a",
        "\n1",
        "a:1,\n",
        "a // ",
        "\"x\", y ",
        "1 2 ",
        "\"x, \"b\": ",
        "{\"a\": 1, ",
        "{\"a\": \"x},",
        "[{\"a\": \"x\"], ",
        "\"a\", b\", ",
        "[1}, ",
    ] {
        for prefix in ["", "{\"a\": \"", "{\"a\": ", "[\"", "["] {
            let text = prefix.to_owned() + &sign.repeat((MAX_BYTES - 16) / sign.len());
            assert!(steps(&text) <= 16 * text.len(), "{prefix}{sign}: {} steps", steps(&text));
        }
    }
}

#[test]
fn size_and_depth_are_bounded() {
    assert_eq!(repair(&" ".repeat(MAX_BYTES + 1)).unwrap_err().reason, RefusalReason::TooLarge);
    assert_eq!(repair(&"[".repeat(200)).unwrap_err().reason, RefusalReason::TooDeep);
    let deepest = format!("{}1,{}", "[".repeat(MAX_DEPTH), "]".repeat(MAX_DEPTH));
    let found = repair(&deepest).unwrap();
    assert!(repair(&found.value.to_string()).unwrap().repairs.is_empty());
}

/// A document, and whether a value has no other names than it has, each in its place and with a value of its kind.
fn like(value: &Value, known: &Value) -> bool {
    match (value, known) {
        (Value::Object(value), Value::Object(known)) => {
            value.len() == known.len()
                && value.iter().all(|(name, member)| known.get(name).is_some_and(|known| like(member, known)))
        }
        (Value::Array(value), Value::Array(known)) => {
            value.iter().all(|item| known.first().is_some_and(|known| like(item, known)))
        }
        _ => core::mem::discriminant(value) == core::mem::discriminant(known),
    }
}

/// An object whose names are all different, with lists of one kind.
fn named() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![(0..100_i64).prop_map(Value::from), "[a-c]{0,3}".prop_map(Value::from)];
    let shape = leaf.prop_recursive(4, 16, 3, |inner| {
        prop_oneof![
            (inner.clone(), 0..3_usize).prop_map(|(item, times)| Value::Array(vec![item; times])),
            prop::collection::vec(inner, 1..4).prop_map(|members| {
                let member = |(at, value)| (format!("m{at}"), value);
                Value::Object(members.into_iter().enumerate().map(member).collect())
            }),
        ]
    });
    prop::collection::vec(shape, 1..4).prop_map(|members| {
        let mut next = 0;
        let mut document = Value::Array(members);
        rename(&mut document, &mut next);
        let Value::Array(members) = document else { return document };
        Value::Object(
            members.into_iter().enumerate().map(|(at, value)| (format!("top{at}"), value)).collect(),
        )
    })
}

/// Gives every member a name of its own, but those of a list the same.
fn rename(value: &mut Value, next: &mut usize) {
    match value {
        Value::Object(members) => {
            let old = core::mem::take(members);
            for (_, mut member) in old {
                *next += 1;
                let name = format!("n{next}");
                rename(&mut member, next);
                members.insert(name, member);
            }
        }
        Value::Array(items) => {
            let from = *next;
            for item in items {
                *next = from;
                rename(item, next);
            }
        }
        _ => {}
    }
}

proptest! {
    #[test]
    fn a_bracket_taken_out_never_makes_another_value_that_holds(document in named(), pick in any::<prop::sample::Index>()) {
        let text = document.to_string();
        let closing: Vec<_> = text.match_indices(['}', ']']).map(|(at, _)| at).collect();
        let at = *pick.get(&closing);
        let broken = format!("{}{}", &text[..at], &text[at + 1..]);
        let holds = |value: &Value| like(value, &document);
        if let Ok(found) = repair_for(&broken, &holds) && holds(&found.value) {
            prop_assert_eq!(found.value, document, "{}", broken);
        }
    }
}
