//! Signs that a body is an error, independent of its status.

use super::json::{JsonNode, NodeShape};

/// Fields that only successful responses and stream events have.
const ANSWERS: &[&str] = &["choices", "content", "type", "delta", "usage"];

/// Whether a body is an error, independent of its status.
pub(super) fn is_error(body: &impl JsonNode) -> bool {
    // Gemini streams a list of errors; the other providers send an object.
    match body.shape() {
        NodeShape::List(items) => items.iter().any(has_error),
        NodeShape::Object => {
            let says = |key: &str| body.get(key).and_then(JsonNode::text) == Some("error");
            has_error(body)
                || says("object")
                || says("type")
                || body.get("response").is_some_and(has_error)
                // MiniMax fails with status 200 and a number in `base_resp`.
                || body.get("base_resp").is_some_and(refused)
                || odd(body).is_some()
        }
        _ => false,
    }
}

fn has_error(value: &impl JsonNode) -> bool {
    value.get("error").is_some_and(|error| !error.is_blank())
}

/// Whether the `MiniMax` status is a failure: 0 means success.
fn refused(base: &impl JsonNode) -> bool {
    base.get("status_code").and_then(JsonNode::count).is_some_and(|number| number != 0)
}

/// The choice with an error: routers put the error next to the part of the reply received before it.
// OpenRouter puts the error into the broken choice, next to the partial reply (status 200).
pub(super) fn failed_choice<N: JsonNode>(body: &N) -> Option<&N> {
    match body.get("choices")?.shape() {
        NodeShape::List(items) => items.iter().find(|choice| has_error(*choice)),
        _ => None,
    }
}

/// Whether an object has no field of a reply, and has fields that only errors have.
pub(super) fn is_no_answer(body: &impl JsonNode) -> bool {
    if ANSWERS.iter().any(|key| body.get(key).is_some()) {
        return false;
    }
    // Cloudflare and others send `{"success": false, "errors": [...]}` with any status.
    let refused = body.get("success").is_some_and(|value| matches!(value.shape(), NodeShape::Bool(false)));
    let says = |key: &str| {
        body.get(key).is_some_and(|value| match value.shape() {
            NodeShape::Text(text) => !text.is_empty(),
            NodeShape::List(items) => !items.is_empty(),
            _ => false,
        })
    };
    // Some servers send `{"code": 0, "msg": "success"}` with a reply, so a number alone is no failure.
    let numbered = ["code", "error_code", "errcode"].iter().filter_map(|key| body.get(key)?.count());
    let failed = || numbered.clone().any(|number| !matches!(number, 0 | 200));
    let texts = ["error_msg", "errmsg", "msg"];
    refused
        || ["message", "detail", "errors"].iter().any(|key| says(key))
        || (texts.iter().any(|key| says(key)) && failed())
}

/// An error whose message is the key: `{"error parsing tool call": "..."}`.
pub(super) fn odd(object: &impl JsonNode) -> Option<(&str, &str)> {
    let mut fields = object.fields();
    // Ollama streams `{"error parsing tool call": "..."}`, where the key is the message (ollama#11704).
    let (key, value) = fields.next().filter(|(key, _)| key.starts_with("error "))?;
    let text = value.text()?;
    fields.next().is_none().then_some((key, text))
}
