//! Finds JSON inside a text: `OpenAIException - {"error": {…}}`, as JSON or as a Python dictionary.

use super::json::{JsonNode, LazyJson};
use super::python;
use super::signs::is_error;

/// The maximum length of a text that is searched, in bytes.
const LONGEST: usize = 64 << 10;
/// The maximum number of positions of a text that are tried.
// Each brace may begin an object that is parsed to the end of the text: without a limit the cost is quadratic in the
// length.
const MOST_TRIES: usize = 8;

/// An error inside a text.
pub(super) struct EmbeddedError<'t> {
    /// The text before the JSON.
    pub(super) before: &'t str,
    pub(super) json: LazyJson<'t>,
    /// The text after the JSON.
    pub(super) after: &'t str,
}

impl<'t> EmbeddedError<'t> {
    /// Finds the error in a text. If the whole text is JSON, any object is accepted; JSON between words must be
    /// marked as an error.
    pub(super) fn find(text: &'t str) -> Option<Self> {
        let text = text.trim();
        if text.len() > LONGEST {
            return None;
        }
        if text.starts_with(['{', '['])
            && let Some(json) = LazyJson::read(text.as_bytes())
        {
            // JSON that is the whole text is a complete response; JSON between words must be marked as an error.
            return is_told(&json).then_some(Self { before: "", json, after: "" });
        }
        let mut from = 0_usize;
        for _ in 0..MOST_TRIES {
            let at = from.saturating_add(next_object(text.get(from..)?)?);
            let (before, rest) = text.split_at_checked(at)?;
            // If the text cannot be parsed from here, a later position may succeed.
            let Some((json, end)) = read(rest) else {
                from = at.saturating_add(1);
                continue;
            };
            let (_, after) = rest.split_at_checked(end)?;
            if says_error(&json) {
                // Python writes bytes as `b'...'`, and SDKs copy this into messages.
                let before = before.strip_suffix("b'").unwrap_or(before);
                let (before, after) = (before.trim_end_matches(is_joint), after.trim_start_matches(is_joint));
                return Some(Self { before, json, after: after.trim_end() });
            }
            from = at.saturating_add(end);
        }
        None
    }
}

/// The position of the next object that has a key. Keys are quoted; Python uses `'`.
fn next_object(text: &str) -> Option<usize> {
    let opens = |at: &usize| {
        // A brace without a quoted key belongs to a template or to code, and parsing would only fail later.
        let inside = text.get(at.saturating_add(1)..).unwrap_or_default();
        inside.trim_start().starts_with(['"', '\''])
    };
    text.match_indices('{').map(|(at, _)| at).find(opens)
}

/// The object at the start of a text, and the position of its end.
fn read(text: &str) -> Option<(LazyJson<'_>, usize)> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<LazyJson<'_>>();
    match values.next() {
        Some(Ok(json)) => Some((json, values.byte_offset())),
        // Python's SDKs print the body as a dictionary: `{'error': {'message': ...}}`.
        _ => python::read(text),
    }
}

/// Whether JSON that is the whole text may be an error.
fn is_told(json: &LazyJson<'_>) -> bool {
    match json {
        LazyJson::List(items) => items.iter().any(is_error),
        LazyJson::Object(fields) => !fields.is_empty(),
        _ => false,
    }
}

/// Whether an object between words is an error and not, for example, a part of the request.
fn says_error(json: &LazyJson<'_>) -> bool {
    let has = |keys: &[&str]| keys.iter().any(|key| json.get(key).is_some_and(|value| !value.is_blank()));
    is_error(json) || (has(&["message", "detail"]) && has(&["code", "type", "status", "status_code"]))
}

/// Whether a character only joins words and JSON.
fn is_joint(c: char) -> bool {
    c.is_whitespace() || matches!(c, '-' | ':' | ',' | '\'' | '"' | '`' | '|' | '=')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn found(text: &str) -> Option<(&str, String, &str)> {
        EmbeddedError::find(text).map(|EmbeddedError { before, json, after }| (before, json.written(), after))
    }

    #[test]
    fn an_error_between_words_is_found_with_the_words() {
        for (text, before, json, after) in [
            (r#"Upstream error: {"error":"x"}"#, "Upstream error", r#"{"error":"x"}"#, ""),
            (r#"{"error":"x"} (request id 7)"#, "", r#"{"error":"x"}"#, "(request id 7)"),
            (r#"A - b'{"error":"x"}'"#, "A", r#"{"error":"x"}"#, ""),
            ("429 - {'error': {'code': None}}", "429", r#"{"error":{"code":null}}"#, ""),
            (r#"{a} {"a":1} {"error":"x"}"#, r#"{a} {"a":1}"#, r#"{"error":"x"}"#, ""),
            (r#"cut {"a":{"message":"m","code":"c"}"#, r#"cut {"a"#, r#"{"message":"m","code":"c"}"#, ""),
        ] {
            assert_eq!(found(text), Some((before, json.to_owned(), after)), "{text}");
        }
    }

    #[test]
    fn what_a_message_quotes_of_the_request_is_no_error() {
        for text in [
            r#"invalid schema: {"type": "object", "properties": {"error": {"type": "string"}}}"#,
            r#"unknown part {"type": "image", "code": 3}"#,
            "[{'loc': ('body', 'x'), 'input': {'error': 'rate limit'}}]",
            "use {braces} and {'more'}",
            r#"{"error""#,
            "",
        ] {
            assert_eq!(found(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_can_be_looked_at(text in r#"([\[\]{}(),:' ]|"[ab]"|'error'|\\|None|"error":|é|[0-9.]){0,40}"#) {
            let _ = EmbeddedError::find(&text);
        }
    }
}
