//! How much a whole answer says: what it is charged with where its provider does not count.

use serde_json::Value;

use crate::host::model::front::GatewayDialect;

/// The fields in which a model writes, beside those of its dialect.
const SAID: [&str; 6] = ["text", "name", "arguments", "refusal", "content", "thinking"];

/// Where a dialect has what the model writes.
struct SaidPlaces {
    /// The field of the answer that has all of it.
    list: &'static str,
    /// The fields of the dialect that have texts.
    texts: &'static [&'static str],
    /// The fields whose values the model writes as JSON.
    json: &'static [&'static str],
}

impl SaidPlaces {
    const fn of(dialect: GatewayDialect) -> Self {
        match dialect {
            GatewayDialect::Chat => {
                let texts = &["reasoning_content", "reasoning", "transcript", "input"];
                Self { list: "choices", texts, json: &[] }
            }
            GatewayDialect::Messages => Self { list: "content", texts: &["data"], json: &["input"] },
            GatewayDialect::Responses => Self { list: "output", texts: &["transcript", "input"], json: &[] },
            GatewayDialect::Gemini => Self { list: "candidates", texts: &["code"], json: &["args"] },
        }
    }

    /// The characters of a value; `is_said`: if it is a text, the model has written it.
    fn characters(&self, value: &Value, is_said: bool) -> u64 {
        match value {
            Value::String(text) if is_said => chars(text),
            Value::Array(items) => sum(items.iter().map(|item| self.characters(item, is_said))),
            Value::Object(fields) => sum(fields.iter().map(|(name, value)| {
                let is_of = |names: &[&str]| names.contains(&name.as_str());
                if is_of(self.json) {
                    return chars(&value.to_string());
                }
                self.characters(value, is_of(&SAID) || is_of(self.texts))
            })),
            _ => 0,
        }
    }
}

/// How many characters the model has written in a whole answer, as for a stream; of one that cannot be read, all of it.
pub(super) fn characters(dialect: GatewayDialect, body: &[u8]) -> u64 {
    let places = SaidPlaces::of(dialect);
    let Ok(body) = serde_json::from_slice::<Value>(body) else {
        return u64::try_from(body.len()).unwrap_or(u64::MAX);
    };
    // Gemini's streams may be one list.
    let answers = body.as_array().map_or(core::slice::from_ref(&body), Vec::as_slice);
    let lists = answers.iter().filter_map(|answer| answer.get(places.list));
    sum(lists.map(|list| places.characters(list, false)))
}

fn chars(text: &str) -> u64 {
    u64::try_from(text.chars().count()).unwrap_or(u64::MAX)
}

fn sum(counts: impl Iterator<Item = u64>) -> u64 {
    counts.fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_the_model_writes_is_counted_and_nothing_else() {
        let pad = "z".repeat(4000);
        for (dialect, body, expected) in [
            (
                GatewayDialect::Chat,
                json!({"id": pad, "choices": [{"message": {"role": "assistant", "content": "é234",
                    "reasoning_content": "12", "tool_calls": [{"id": pad, "function": {"name": "f", "arguments": "{}"}}]},
                    "logprobs": {"content": [{"token": pad, "bytes": [1]}]}}, {"message": {"content": [{"type": "text", "text": "1"}]}}],
                    "prompt_logprobs": [pad]}),
                10,
            ),
            (
                GatewayDialect::Messages,
                json!({"model": pad, "content": [{"type": "thinking", "thinking": "12", "signature": pad}, {"type": "text", "text": "123"},
                    {"type": "tool_use", "id": pad, "name": "f", "input": {"a": 1}}]}),
                13,
            ),
            (
                GatewayDialect::Responses,
                json!({"instructions": pad, "output": [{"id": pad, "type": "reasoning", "summary": [{"text": "12"}], "encrypted_content": pad},
                    {"type": "message", "content": [{"type": "output_text", "text": "123", "annotations": [{"url": pad}]}]},
                    {"type": "function_call", "call_id": pad, "name": "f", "arguments": "{}"}]}),
                8,
            ),
            (
                GatewayDialect::Gemini,
                json!({"responseId": pad, "candidates": [{"content": {"role": "model", "parts": [{"text": "12", "thoughtSignature": pad},
                    {"inlineData": {"data": pad}}, {"functionCall": {"name": "f", "args": {}}}]}}]}),
                5,
            ),
        ] {
            assert_eq!(characters(dialect, body.to_string().as_bytes()), expected, "{dialect:?}");
        }
        assert_eq!(characters(GatewayDialect::Chat, b"{\"x\":"), 5, "what cannot be read");
    }
}
