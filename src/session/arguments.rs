//! Arguments of tool calls as providers take them back: always a JSON object.

use std::borrow::Cow;

use serde_json::{Map, Value, json};

/// The key under which arguments stand that are no object. Anthropic's documentation advises it.
const INVALID: &str = "INVALID_JSON";

/// The arguments of a call as a JSON object, which is all that every server takes: llama.cpp and vLLM refuse a
/// conversation with broken JSON in it, `SGLang` one with a number or a list. Anything else is kept as text under the key
/// `INVALID_JSON`, so that the model sees what it wrote; an object stays as it was written.
///
/// ```
/// use unfazed::session::object_arguments;
///
/// assert_eq!(object_arguments(r#"{"item": 42}"#), r#"{"item": 42}"#);
/// assert_eq!(object_arguments(""), "{}");
/// assert_eq!(object_arguments("[4, "), r#"{"INVALID_JSON":"[4, "}"#);
/// ```
pub fn object_arguments(arguments: &str) -> Cow<'_, str> {
    // Models call a tool without parameters with an empty text.
    if arguments.trim().is_empty() {
        return Cow::Borrowed("{}");
    }
    if is_object(arguments) {
        return Cow::Borrowed(arguments);
    }
    Cow::Owned(json!({ INVALID: arguments }).to_string())
}

/// Whether arguments are a JSON object. Read as values: what only looks like JSON, such as half a surrogate or a number
/// that fits into no float, other readers refuse too.
pub(crate) fn is_object(arguments: &str) -> bool {
    serde_json::from_str::<Map<String, Value>>(arguments).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_no_object_stands_as_text_in_one() {
        for text in
            ["{\"text\": [[[,,", "[1]", "7", "null", "\"x\"", "{} {}", "{\"a\":\"\\ud800\"}", "{\"a\":1e999}"]
        {
            let sent = object_arguments(text);
            let read: Map<String, Value> = serde_json::from_str(&sent).unwrap();
            assert_eq!(read[INVALID], text);
        }
    }

    proptest! {
        #[test]
        fn it_is_always_an_object_and_stays_what_it_is(text in "\\PC*|\\{\"[a-c]\": ?[0-9]{1,2}\\}") {
            let sent = object_arguments(&text);
            prop_assert!(is_object(&sent));
            let again = object_arguments(&sent);
            prop_assert_eq!(again.as_ref(), sent.as_ref());
        }
    }
}
