//! Options of requests that a model has refused: each is left out of all requests that follow.
//!
//! It is the same in every wire format, so it looks at bodies and not at what they mean.

use std::sync::{Mutex, PoisonError};

use serde_json::{Map, Value};

use super::wire::RefusalWords;
use crate::engine::Failure;

/// The most options that are left out.
const MOST: usize = 16;
/// How deep options are.
const DEEPEST: usize = 4;
/// What is no option: the conversation, the tools, who is asked and how the answer comes; what keeps an answer private; and what a
/// format writes otherwise when it is refused.
const NO_OPTIONS: [&str; 14] = [
    "model",
    "messages",
    "input",
    "contents",
    "system",
    "systemInstruction",
    "instructions",
    "tools",
    "toolConfig",
    "stream",
    "store",
    "previous_response_id",
    "max_tokens",
    "max_completion_tokens",
];

/// The places of the options that are left out.
#[derive(Debug, Default)]
pub(super) struct DroppedOptions(Mutex<Vec<Vec<String>>>);

impl DroppedOptions {
    /// A body without them.
    pub(super) fn left_out_of(&self, body: Vec<u8>) -> Vec<u8> {
        let places = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if places.is_empty() {
            return body;
        }
        let Ok(Value::Object(mut fields)) = serde_json::from_slice(&body) else { return body };
        for place in &places {
            remove(&mut fields, place);
        }
        serde_json::to_vec(&fields).unwrap_or(body)
    }

    /// Which option of the body that was sent a refusal is about, in words: it is left out from now on. `None`: none of them.
    pub(super) fn learn(&self, model: &str, sent: &[u8], refusal: &Failure) -> Option<String> {
        if !matches!(refusal.status, Some(400 | 422)) {
            return None;
        }
        let words = RefusalWords::of(refusal);
        if !words.refuses() {
            return None;
        }
        let Ok(Value::Object(fields)) = serde_json::from_slice(sent) else { return None };
        let place = named(&words, &fields, &mut Vec::new())?;
        let mut places = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if places.len() >= MOST {
            return None;
        }
        let told =
            format!("`{model}` refused the request, which is sent again without `{}`", place.join("."));
        // Requests in flight at the same time learn the same.
        if !places.contains(&place) {
            places.push(place);
        }
        Some(told)
    }
}

/// The place of the option that a refusal names, the innermost first.
fn named(words: &RefusalWords, fields: &Map<String, Value>, within: &mut Vec<String>) -> Option<Vec<String>> {
    for (name, value) in fields {
        if within.is_empty() && NO_OPTIONS.contains(&name.as_str()) {
            continue;
        }
        within.push(name.clone());
        let inner = value.as_object().filter(|_| within.len() < DEEPEST);
        let found = inner
            .and_then(|fields| named(words, fields, within))
            .or_else(|| names_place(words, within).then(|| within.clone()));
        within.pop();
        if found.is_some() {
            return found;
        }
    }
    None
}

/// Whether a refusal names what is at that place. A word such as `type` is the name of much, so within others it counts with the one
/// around it.
fn names_place(words: &RefusalWords, place: &[String]) -> bool {
    let Some((name, around)) = place.split_last() else { return false };
    let is_telling = name.contains('_') || name.contains(|c: char| c.is_ascii_uppercase());
    let plain = ["temperature", "seed"].contains(&name.as_str());
    match around.last() {
        Some(outer) if !is_telling && !plain => words.name_option(&format!("{outer}.{name}")),
        _ => words.name_option(name),
    }
}

fn remove(fields: &mut Map<String, Value>, place: &[String]) {
    match place {
        [] => {}
        [name] => drop(fields.shift_remove(name)),
        [name, rest @ ..] => {
            if let Some(Value::Object(inner)) = fields.get_mut(name) {
                remove(inner, rest);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn refused(message: &str) -> Failure {
        Failure { status: Some(400), message: message.into(), ..Failure::default() }
    }

    fn without(sent: &Value, message: &str) -> (Option<String>, Value) {
        let (dropped, body) = (DroppedOptions::default(), serde_json::to_vec(sent).unwrap());
        let note = dropped.learn("m", &body, &refused(message));
        (note, serde_json::from_slice(&dropped.left_out_of(body)).unwrap())
    }

    #[test]
    fn an_option_is_left_out_wherever_it_stands() {
        for (sent, message, place, left) in [
            (
                json!({"messages": [], "temperature": 0.5, "top_k": 3}),
                "`temperature` is deprecated for this model.",
                "temperature",
                json!({"messages": [], "top_k": 3}),
            ),
            (
                json!({"input": [], "reasoning": {"effort": "low", "summary": "auto"}}),
                "Unsupported parameter: 'reasoning.effort' is not supported with this model.",
                "reasoning.effort",
                json!({"input": [], "reasoning": {"summary": "auto"}}),
            ),
            (
                json!({"contents": [], "generationConfig": {"seed": 1, "topK": 2}}),
                "Invalid JSON payload received. Unknown name \"seed\" at 'generation_config': Cannot find field.",
                "generationConfig.seed",
                json!({"contents": [], "generationConfig": {"topK": 2}}),
            ),
            (
                json!({"messages": [], "additionalModelRequestFields": {"top_k": 3, "thinking": {"type": "enabled"}}}),
                "Malformed input request: #: extraneous key [top_k] is not permitted, please reformat your input",
                "additionalModelRequestFields.top_k",
                json!({"messages": [], "additionalModelRequestFields": {"thinking": {"type": "enabled"}}}),
            ),
        ] {
            let note = format!("`m` refused the request, which is sent again without `{place}`");
            assert_eq!(without(&sent, message), (Some(note), left), "{message}");
        }
    }

    #[test]
    fn what_is_no_option_stays() {
        let sent =
            json!({"model": "m", "messages": [{"seed": 1}], "store": false, "thinking": {"type": "enabled"}});
        for message in [
            "Unsupported parameter: 'messages'",
            "Unknown parameter: 'seed'",
            "store is not supported",
            "Unknown field: type",
            "seed is too large",
        ] {
            assert_eq!(without(&sent, message), (None, sent.clone()), "{message}");
        }
        let busy = Failure { status: Some(429), ..refused("thinking is not supported") };
        let body = serde_json::to_vec(&sent).unwrap();
        assert_eq!(DroppedOptions::default().learn("m", &body, &busy), None);
    }

    #[test]
    fn an_option_that_is_left_out_cannot_be_refused_again() {
        let dropped = DroppedOptions::default();
        let body = serde_json::to_vec(&json!({"seed": 1})).unwrap();
        assert!(dropped.learn("m", &body, &refused("Unknown parameter: seed")).is_some());
        let body = dropped.left_out_of(body);
        assert_eq!(dropped.learn("m", &body, &refused("Unknown parameter: seed")), None);
    }
}
