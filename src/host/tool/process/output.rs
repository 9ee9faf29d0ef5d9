//! What a command's standard output means.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::capture::CaptureHead;
use crate::engine::ToolOutcome;

/// What a command's standard output holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OutputFormat {
    /// JSON if it is JSON, else text. A number that JSON would round is text.
    #[default]
    Auto,
    /// JSON; anything else is an error.
    Json,
    /// Text.
    Text,
}

impl OutputFormat {
    /// The result, or what is wrong with the output.
    pub(super) fn read(self, printed: &CaptureHead) -> Result<Value, String> {
        let text = printed.text();
        match (self, printed.cut()) {
            (Self::Json, Some((kept, _))) => Err(format!("it printed more than the {kept} bytes allowed")),
            (_, Some((kept, seen))) => Ok(Value::String(format!(
                "{text}\n[cut: {seen} bytes were printed, the first {kept} are shown]"
            ))),
            (Self::Text, None) => Ok(plain(&text)),
            (Self::Json, None) => match serde_json::from_str(&text) {
                Ok(value) => match ToolOutcome::too_deep(&value) {
                    None => Ok(value),
                    Some(problem) => Err(format!("its output is {problem}")),
                },
                Err(error) if text.trim().is_empty() => {
                    Err(format!("it printed nothing where JSON was due ({error})"))
                }
                Err(error) => Err(format!("its output is not JSON: {error}")),
            },
            (Self::Auto, None) => match serde_json::from_str::<Value>(&text) {
                Ok(value) if value.is_object() || value.is_array() => {
                    Ok(if ToolOutcome::too_deep(&value).is_none() { value } else { plain(&text) })
                }
                Ok(scalar) if reads_the_same(&scalar, text.trim()) => Ok(scalar),
                _ => Ok(plain(&text)),
            },
        }
    }
}

/// The text without the line ends commands put at the end.
fn plain(text: &str) -> Value {
    Value::from(text.trim_end_matches(['\n', '\r']))
}

/// Whether JSON keeps every digit of a number.
fn reads_the_same(scalar: &Value, text: &str) -> bool {
    let written = scalar.to_string();
    written == text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(format: OutputFormat, text: &str) -> Result<Value, String> {
        let mut head = CaptureHead::new(1000);
        head.push(text.as_bytes());
        format.read(&head)
    }

    #[test]
    fn auto_takes_json_for_data_and_the_rest_for_text() {
        for (text, value) in [
            ("{\"a\": 1}\n", json!({"a": 1})),
            ("[1, 2]", json!([1, 2])),
            ("42\n", json!(42)),
            ("true", json!(true)),
            ("two\nlines\n", json!("two\nlines")),
            ("", json!("")),
            ("{broken", json!("{broken")),
            ("123456789012345678901234567890", json!("123456789012345678901234567890")),
            ("0042", json!("0042")),
        ] {
            assert_eq!(read(OutputFormat::Auto, text), Ok(value), "{text}");
        }
    }

    #[test]
    fn text_stays_text() {
        assert_eq!(read(OutputFormat::Text, "42\n"), Ok(json!("42")));
    }

    #[test]
    fn json_must_be_json() {
        assert_eq!(read(OutputFormat::Json, " 42\n"), Ok(json!(42)));
        assert_eq!(
            read(OutputFormat::Json, "hello").unwrap_err(),
            "its output is not JSON: expected value at line 1 column 1"
        );
        assert!(read(OutputFormat::Json, "").unwrap_err().contains("printed nothing where JSON was due"));
        assert!(
            read(OutputFormat::Json, &"x".repeat(2000)).unwrap_err().contains("more than the 1000 bytes")
        );
    }

    #[test]
    fn json_nested_too_deep_is_no_data() {
        let deep = format!("{}{}", "[".repeat(100), "]".repeat(100));
        assert_eq!(read(OutputFormat::Auto, &deep), Ok(json!(deep)));
        assert_eq!(
            read(OutputFormat::Json, &deep).unwrap_err(),
            "its output is nested deeper than 64 levels"
        );
    }
}
