//! The fields of an assistant message's `extra` in which a wire format keeps what its providers want to see again.

use serde_json::{Map, Value};

use crate::session::Message;

/// The field that keeps what a provider sent with single tool calls, by call id. It goes back into the calls, never on the
/// wire by this name.
pub(super) const CALL_EXTRAS: &str = "tool_calls";

/// The field that keeps the blocks of an answer of Anthropic's messages that are more than text and tool calls: who sent them
/// ([`ISSUER`]), and all of them in their order ([`ITEMS`]). It is never sent by this name.
pub(super) const KEPT: &str = "thinking_anthropic";

/// The field that keeps the same of the Responses API: who sent the items, and all of them in their order. It is never sent by this
/// name.
pub(super) const RESPONSE: &str = "output_responses";
pub(super) const ISSUER: &str = "issuer";
pub(super) const ITEMS: &str = "items";

/// The field that keeps the same of Gemini's `generateContent`: who sent the parts, and all of them in their order. It is
/// never sent by this name.
pub(super) const CONTENT: &str = "thinking_gemini";

/// The field that keeps the same of Bedrock's Converse: who sent the blocks, and all of them in their order. It is never sent
/// by this name.
pub(super) const CONVERSE: &str = "thinking_bedrock";

/// The field that says who signed what came with a message of chat completions. It is never sent.
pub(super) const SIGNER: &str = "reasoning_issuer";

/// The field that keeps the parts of a message of chat completions that are reasoning. They go back into its content, to who sent
/// them, and never on the wire by this name.
pub(super) const REASONING_PARTS: &str = "reasoning_parts";

/// The field that keeps what a provider says of the whole answer beside the message: who sent it ([`ISSUER`]), and its fields
/// ([`FIELDS`]). It is never sent.
pub(super) const ANSWER_FIELDS: &str = Message::ANSWER_FIELDS;
pub(super) const FIELDS: &str = "fields";

/// What other models thought, or what else came with their replies, is in a conversation, and a request to this issuer leaves it out.
/// `own` is the field in which its own format keeps such things; `None`: it keeps none, and sends reasoning as it came.
pub(super) fn has_foreign(conversation: &[Message], own: Option<&str>, issuer: &str) -> bool {
    extras(conversation).any(|extra| {
        extra.iter().any(|(field, value)| match field.as_str() {
            KEPT | RESPONSE | CONTENT | CONVERSE => {
                let has_items =
                    value.get(ITEMS).and_then(Value::as_array).is_some_and(|items| !items.is_empty());
                let is_own = own == Some(field) && value.get(ISSUER).and_then(Value::as_str) == Some(issuer);
                has_items && !is_own
            }
            SIGNER => own.is_none() && value != issuer && !in_words(extra),
            _ => own.is_some() && is_reasoning(field),
        })
    })
}

/// Whether a conversation has reasoning in words beside the same as another model than this issuer's signed it: only the words are sent.
pub(super) fn has_signed(conversation: &[Message], issuer: &str) -> bool {
    extras(conversation)
        .any(|extra| extra.get(SIGNER).is_some_and(|signer| signer != issuer) && in_words(extra))
}

fn extras(conversation: &[Message]) -> impl Iterator<Item = &Map<String, Value>> {
    conversation.iter().filter_map(|message| match message {
        Message::Assistant { extra, .. } => Some(extra),
        Message::System { .. } | Message::User { .. } | Message::Tool { .. } => None,
    })
}

fn is_reasoning(field: &str) -> bool {
    field.starts_with("reasoning") || field == "thinking"
}

fn in_words(extra: &Map<String, Value>) -> bool {
    extra.iter().any(|(field, value)| is_reasoning(field) && field != SIGNER && value.is_string())
}

/// The note about it.
pub(super) fn foreign_note(model: &str) -> String {
    format!("`{model}` is not sent the reasoning that came with earlier replies of other models")
}

/// The note about what another model signed.
pub(super) fn signed_note(model: &str) -> String {
    format!("`{model}` is not sent what other models signed in earlier replies")
}

/// Takes out what only one wire format can send. A session may change its provider, and strict servers refuse fields that
/// they do not know.
pub(super) fn take_out_kept(extra: &mut Map<String, Value>) {
    extra.shift_remove(KEPT);
    extra.shift_remove(SIGNER);
    extra.shift_remove(REASONING_PARTS);
    extra.shift_remove(RESPONSE);
    extra.shift_remove(CONTENT);
    extra.shift_remove(CONVERSE);
    extra.shift_remove(ANSWER_FIELDS);
}

/// The ids of calls in what is kept of an answer.
pub(super) fn kept_ids(extra: &mut Map<String, Value>) -> impl Iterator<Item = &mut Value> {
    extra.iter_mut().flat_map(|(field, kept)| {
        let (places, id) = match field.as_str() {
            KEPT => (kept.get_mut(ITEMS).and_then(Value::as_array_mut), "id"),
            RESPONSE => (kept.get_mut(ITEMS).and_then(Value::as_array_mut), "call_id"),
            CONTENT | CONVERSE => (kept.get_mut(ITEMS).and_then(Value::as_array_mut), "call"),
            _ => (None, ""),
        };
        places.into_iter().flatten().filter_map(move |place| place.get_mut(id))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn reasoning_that_is_sent_in_words_is_not_called_left_out() {
        let foreign = |extra: Value, own| {
            let Value::Object(extra) = extra else { panic!("{extra}") };
            let message = Message::Assistant { text: String::new(), calls: Vec::new(), extra };
            has_foreign(&[message], own, "here")
        };
        let sealed = json!({"reasoning_details": [{"data": "c2ln"}], "reasoning_issuer": "elsewhere"});
        assert!(foreign(sealed.clone(), None));
        for field in ["reasoning_content", "reasoning", "thinking"] {
            let mut both = sealed.clone();
            both[field] = json!("hm");
            assert!(!foreign(both.clone(), None), "{field}");
            // A format of its own has no place for it.
            assert!(foreign(both, Some(KEPT)), "{field}");
        }
        assert!(!foreign(json!({"reasoning_details": [], "reasoning_issuer": "here"}), None));
        assert!(foreign(json!({"reasoning_content": "hm", KEPT: {"issuer": "x", "items": [1]}}), None));
        let said = json!({ANSWER_FIELDS: {"issuer": "elsewhere", "fields": {"citations": ["u"]}}});
        for own in [None, Some(KEPT), Some(RESPONSE), Some(CONTENT), Some(CONVERSE)] {
            assert!(!foreign(said.clone(), own), "it is not sent to anybody: {own:?}");
        }
    }
}
