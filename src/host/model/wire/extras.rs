//! The fields of an assistant message's `extra` in which a wire format keeps what its providers want to see again.

use serde_json::{Map, Value};

/// The field that keeps what a provider sent with single tool calls, by call id. It goes back into the calls, never on the
/// wire by this name.
pub(super) const CALL_EXTRAS: &str = "tool_calls";

/// The field that keeps the blocks of an answer of Anthropic's messages that are more than text and tool calls,
/// all of them in their order. It is never sent by this name.
pub(super) const KEPT: &str = "thinking_anthropic";

/// The field that keeps the same of the Responses API: who sent the items ([`ISSUER`]), and all of them in their order
/// ([`ITEMS`]). It is never sent by this name.
pub(super) const RESPONSE: &str = "output_responses";
pub(super) const ISSUER: &str = "issuer";
pub(super) const ITEMS: &str = "items";

/// The field that keeps the same of Gemini's `generateContent`: who sent the parts, and all of them in their order. It is
/// never sent by this name.
pub(super) const CONTENT: &str = "thinking_gemini";

/// The field that keeps the same of Bedrock's Converse: who sent the blocks, and all of them in their order. It is never sent
/// by this name.
pub(super) const CONVERSE: &str = "thinking_bedrock";

/// Takes out what only one wire format can send. A session may change its provider, and strict servers refuse fields that
/// they do not know.
pub(super) fn take_out_kept(extra: &mut Map<String, Value>) {
    extra.shift_remove(KEPT);
    extra.shift_remove(RESPONSE);
    extra.shift_remove(CONTENT);
    extra.shift_remove(CONVERSE);
}

/// The ids of calls in what is kept of an answer.
pub(super) fn kept_ids(extra: &mut Map<String, Value>) -> impl Iterator<Item = &mut Value> {
    extra.iter_mut().flat_map(|(field, kept)| {
        let (places, id) = match field.as_str() {
            KEPT => (kept.as_array_mut(), "id"),
            RESPONSE => (kept.get_mut(ITEMS).and_then(Value::as_array_mut), "call_id"),
            CONTENT | CONVERSE => (kept.get_mut(ITEMS).and_then(Value::as_array_mut), "call"),
            _ => (None, ""),
        };
        places.into_iter().flatten().filter_map(move |place| place.get_mut(id))
    })
}
