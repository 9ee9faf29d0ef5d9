//! Arguments of tool calls in the form that providers accept: always a JSON object.

use std::borrow::Cow;

use serde_json::{Map, Value, json};

/// The key for arguments that are not an object, as Anthropic's documentation recommends.
const INVALID: &str = "INVALID_JSON";

/// The arguments of a call as a JSON object, which every server accepts: llama.cpp and vLLM refuse a conversation
/// with broken JSON, `SGLang` one with a number or a list. Other arguments are kept as text under the key
/// `INVALID_JSON`, so that the model sees its own text; an object stays as it was written.
///
/// ```
/// use unfazed::session::object_arguments;
///
/// assert_eq!(object_arguments(r#"{"item": 42}"#), r#"{"item": 42}"#);
/// assert_eq!(object_arguments(""), "{}");
/// assert_eq!(object_arguments("[4, "), r#"{"INVALID_JSON":"[4, "}"#);
/// ```
pub fn object_arguments(arguments: &str) -> Cow<'_, str> {
    // Models call a tool without parameters with an empty string.
    if arguments.trim().is_empty() {
        return Cow::Borrowed("{}");
    }
    if is_object(arguments) {
        return Cow::Borrowed(arguments);
    }
    Cow::Owned(json!({ INVALID: arguments }).to_string())
}

/// Whether arguments are a JSON object. The values are parsed, too: other readers refuse half a surrogate, or a
/// number that fits into no float.
pub fn is_object(arguments: &str) -> bool {
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
