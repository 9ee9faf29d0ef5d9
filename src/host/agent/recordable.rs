//! Results that are too large for a record of a session.

use serde_json::Value;

use crate::engine::ToolOutcome;
use crate::host::port::ByteTraffic;
use crate::host::result_length::{json_length, result_length};

/// The most bytes that a byte of a text becomes in JSON.
const WORST: usize = 6;
/// What comes after a text that was cut, at most.
const NOTICE: usize = 200;
/// Texts inside a value are cut no shorter.
const SHORT: usize = 4096;
/// What a value takes in addition to the texts in it, at most.
const BESIDES: usize = 32;

/// The outcome as it can be written down, in no more than so many bytes of JSON: texts that are too large are cut, and say
/// so. Its bytes are counted as those of an answer.
pub(super) fn recordable(outcome: ToolOutcome, most: Option<usize>, traffic: &ByteTraffic) -> ToolOutcome {
    let most = most.unwrap_or(usize::MAX);
    match outcome {
        ToolOutcome::Ok { data } => {
            let (data, length) = fitted(data, most);
            traffic.receives(length);
            ToolOutcome::Ok { data }
        }
        ToolOutcome::Done => ToolOutcome::Done,
        ToolOutcome::Failed { mut failure, effect } => {
            failure.message = cut(failure.message, most);
            ToolOutcome::Failed { failure, effect }
        }
    }
}

/// The value as it can be written down, and its length.
fn fitted(data: Value, most: usize) -> (Value, usize) {
    let data = match data {
        Value::String(text) => Value::String(cut(text, most)),
        data => {
            let length = json_length(&data);
            if length <= most {
                return (data, length);
            }
            smaller(data, most).unwrap_or_else(|data| cut(data.to_string(), most).into())
        }
    };
    let length = result_length(&data);
    (data, length)
}

/// The same value with its longest texts cut, or as it was: it is not texts that make it large.
fn smaller(mut data: Value, most: usize) -> Result<Value, Value> {
    let halves =
        core::iter::successors(Some(most / 2), |each| Some(each / 2)).take_while(|each| *each > SHORT);
    let Some(each) = halves.into_iter().find(|each| would_take(&data, *each) <= most) else {
        return Err(data);
    };
    cut_inside(&mut data, each);
    Ok(data)
}

/// How many bytes a value takes as JSON when each text in it has been cut, at most.
fn would_take(value: &Value, each: usize) -> usize {
    let inner = match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        Value::String(text) => {
            let all = text.chars().map(written).fold(0, usize::saturating_add);
            if all > each { each.saturating_add(NOTICE) } else { all }
        }
        Value::Array(items) => items.iter().map(|item| would_take(item, each)).fold(0, usize::saturating_add),
        Value::Object(fields) => {
            let field = |(name, value): (&String, &Value)| {
                name.len().saturating_mul(WORST).saturating_add(would_take(value, each))
            };
            fields.iter().map(field).fold(0, usize::saturating_add)
        }
    };
    inner.saturating_add(BESIDES)
}

fn cut_inside(value: &mut Value, most: usize) {
    match value {
        Value::String(text) => *text = cut(core::mem::take(text), most),
        Value::Array(items) => items.iter_mut().for_each(|item| cut_inside(item, most)),
        Value::Object(fields) => fields.values_mut().for_each(|value| cut_inside(value, most)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// The beginning of a text that takes no more bytes as JSON.
fn cut(text: String, most: usize) -> String {
    if text.len().saturating_mul(WORST) <= most {
        return text;
    }
    let mut taken = 0_usize;
    let end = text.char_indices().find_map(|(at, c)| {
        taken = taken.saturating_add(written(c));
        (taken > most).then_some(at)
    });
    let Some(end) = end else { return text };
    let (shown, all) = (text.get(..end).unwrap_or_default(), text.len());
    format!("{shown}\n[... the first {end} of {all} bytes; the rest is too large for the session's log]")
}

/// How many bytes a character takes in a text of JSON.
const fn written(c: char) -> usize {
    match c {
        '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
        '\0'..='\u{1f}' => WORST,
        c => c.len_utf8(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn fitted(data: Value, most: usize) -> Value {
        let (data, length) = super::fitted(data, most);
        assert_eq!(length, data.as_str().map_or_else(|| data.to_string().len(), str::len));
        data
    }

    fn told(end: usize, all: usize) -> String {
        format!("\n[... the first {end} of {all} bytes; the rest is too large for the session's log]")
    }

    #[test]
    fn what_fits_stays_as_it_is() {
        for data in [json!("\"\"\"\"\""), json!({"a": [1, "€"]}), json!(null), json!("x".repeat(10))] {
            assert_eq!(fitted(data.clone(), 10_usize.max(data.to_string().len())), data);
        }
    }

    #[test]
    fn what_does_not_fit_is_cut_by_what_it_takes_in_json() {
        assert_eq!(fitted(json!("\"".repeat(9)), 10), json!("\"".repeat(5) + &told(5, 9)));
        assert_eq!(fitted(json!("€€€€"), 10), json!("€€€".to_owned() + &told(9, 12)));
        assert_eq!(fitted(json!("\u{1}\u{1}"), 10), json!("\u{1}".to_owned() + &told(1, 2)));
        assert_eq!(fitted(json!(["abcdefgh"]), 6), json!("[\"abc".to_owned() + &told(5, 12)));
    }

    #[test]
    fn what_is_large_inside_a_value_is_cut_there() {
        let data = json!({"id": 7, "text": "x".repeat(200_000), "more": ["y".repeat(100)]});
        let found = fitted(data, 100_000);
        assert_eq!((&found["id"], &found["more"]), (&json!(7), &json!(["y".repeat(100)])));
        assert!(found["text"].as_str().unwrap().ends_with(&told(50_000, 200_000)), "{found}");
        let rows = json!((0..9000).collect::<Vec<u32>>());
        assert!(fitted(rows, 10_000).as_str().unwrap().starts_with("[0,1,2,"));
    }

    #[test]
    fn the_most_that_is_left_fits_a_record() {
        let most = 48 << 20;
        for data in [json!("\"".repeat(40 << 20)), json!([["\u{1}".repeat(9 << 20)], "é".repeat(30 << 20)])]
        {
            assert!(fitted(data, most).to_string().len() < most + 1000);
        }
    }
}
