//! JSON with other values in it: what differs is put in its place, and every other byte stays. Numbers, spaces and fields that nobody
//! reads are as the provider wrote them.

use core::ops::Range;
use std::collections::HashMap;

use serde_json::Value;
use serde_json::value::RawValue;

use crate::host::gateway::history::{items, place, replaced};
use crate::host::model::front::on_one_line;

/// The text of a value as the text of `now`; `None`: it is no JSON.
pub(super) fn spliced(text: &str, now: &Value) -> Option<String> {
    let mut pieces = Vec::new();
    compare(serde_json::from_str(text).ok()?, now, &mut pieces);
    let mut pieces: Vec<(Range<usize>, String)> =
        pieces.into_iter().map(|(said, now)| (place(text, said), on_one_line(now))).collect();
    pieces.sort_by_key(|(at, _)| at.start);
    let pieces: Vec<(Range<usize>, &str)> =
        pieces.iter().map(|(at, now)| (at.clone(), now.as_str())).collect();
    Some(replaced(text, &pieces))
}

/// Adds the smallest values that differ, as they stand in the text and as they are now. No deeper than `now`, which was read with a
/// limit.
fn compare<'t, 'n>(said: &'t RawValue, now: &'n Value, pieces: &mut Vec<(&'t str, &'n Value)>) {
    match now {
        Value::Object(now) => {
            // Of several fields of one name readers take the last, as here.
            let fields = serde_json::from_str::<HashMap<String, &RawValue>>(said.get()).ok();
            let same = fields.filter(|fields| fields.len() == now.len());
            let same = same.and_then(|fields| {
                now.iter().map(|(name, now)| Some((*fields.get(name)?, now))).collect::<Option<Vec<_>>>()
            });
            if let Some(same) = same {
                for (said, now) in same {
                    compare(said, now, pieces);
                }
                return;
            }
        }
        Value::Array(now) => {
            if let Some(same) = items(said).filter(|items| items.len() == now.len()) {
                same.into_iter().zip(now).for_each(|(said, now)| compare(said, now, pieces));
                return;
            }
        }
        _ if serde_json::from_str::<Value>(said.get()).is_ok_and(|said| said == *now) => return,
        _ => {}
    }
    pieces.push((said.get(), now));
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_differs_is_put_in_its_place_and_every_other_byte_stays() {
        let text = "\t{\"t\" :-1.1920928955078125e-07, \"a\":[ 1E+2,\"\\u00e9\" ,{\"x\":{}}],\"t\":0.12345678901234567890123,\"n\":12345678901234567890123}\r\n";
        let mut now: Value = serde_json::from_str(text).unwrap();
        assert_eq!(spliced(text, &now).unwrap(), text);
        now["a"][2]["x"] = json!({"y": "\u{2028}"});
        now["n"] = json!("z");
        let expected = text
            .replace("{\"x\":{}}", "{\"x\":{\"y\":\"\\u2028\"}}")
            .replace("12345678901234567890123}", "\"z\"}");
        assert_eq!(spliced(text, &now).unwrap(), expected);
        now["a"] = json!([]);
        let at = expected.find("[ 1E+2").unwrap()..=expected.find(']').unwrap();
        assert_eq!(
            spliced(text, &now).unwrap(),
            format!("{}[]{}", &expected[..*at.start()], &expected[at.end() + 1..])
        );
        assert_eq!(spliced("{\"a\":", &now), None);
    }
}
