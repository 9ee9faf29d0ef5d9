//! Repair of JSON.

use serde_json::Value;

use crate::text::repair::{repair, repair_broken, repair_for};

/// JSON is never changed; what is repaired is JSON that needs no repair, and no number in it is another.
pub fn json_repair(data: &[u8]) {
    let Ok(text) = core::str::from_utf8(data) else { return };
    let found = repair(text);
    match (serde_json::from_str::<Value>(text), &found) {
        (Ok(value), Ok(found)) => {
            assert_eq!(found.value, value, "JSON was changed");
            assert!(found.repairs.is_empty(), "JSON was repaired: {}", found.repairs);
        }
        (Err(_), Ok(found)) => {
            assert!(!found.repairs.is_empty(), "nothing was repaired");
            let written = found.value.to_string();
            let again = repair(&written).unwrap_or_else(|refusal| panic!("{refusal}: {written}"));
            assert_eq!(again.value, found.value, "what was repaired is another value");
            assert!(again.repairs.is_empty(), "what was repaired is no JSON: {written}");
        }
        // JSON, too, is refused if a number of it would be another one.
        (_, Err(refusal)) => assert!(refusal.at <= text.len(), "{refusal}"),
    }
    // What a schema decides is one of the readings, whatever it says.
    let any = repair_for(text, &|_| true).map(|found| found.value);
    if let Ok(found) = &found {
        assert_eq!(any.as_ref(), Ok(&found.value), "a schema changed what needs none");
    }
    let _ = repair_for(text, &|_| false);
    // The parser for broken text reads JSON, too, and as the same.
    if let (Ok(strict), Ok(lenient)) = (&found, repair_broken(text)) {
        assert_eq!(strict.value, lenient.value, "two ways to read one text");
    }
}
