//! What a model has refused of requests, options above all: each is left out of all requests that follow.
//!
//! It is the same in every wire format, so it looks at bodies and not at what they mean.

mod container;
mod demand;
mod limit;
mod place;
mod thoughts;

use std::sync::{Mutex, PoisonError};

use serde_json::{Map, Value};

use self::container::LostContainers;
pub(super) use self::demand::RefusedDemand;
#[cfg(feature = "serve")]
pub(super) use self::demand::demands_call;
pub(super) use self::limit::LearnedLimit;
#[cfg(feature = "serve")]
pub(super) use self::place::at as place_at;
pub(super) use self::place::remove;
use self::thoughts::RefusedThoughts;
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

/// Mappings that only hold options: the names in them stand alone.
const HOLDERS: [&str; 6] = [
    "generationConfig",
    "inferenceConfig",
    "additionalModelRequestFields",
    "options",
    "parameters",
    "textGenerationConfig",
];
/// Names of one word within other mappings that say enough.
const TELLING: [&str; 2] = ["effort", "verbosity"];
/// What asks for a stream.
const STREAM: [&str; 2] = ["stream", "stream_options"];

/// What is left out, or lowered.
#[derive(Debug, Default)]
pub(super) struct DroppedOptions {
    /// The places of options.
    places: Mutex<Vec<Vec<String>>>,
    /// Containers that a server has forgotten.
    containers: LostContainers,
    demand: RefusedDemand,
    limit: LearnedLimit,
    thoughts: RefusedThoughts,
}

impl DroppedOptions {
    /// A body without them.
    pub(super) fn left_out_of(&self, body: Vec<u8>) -> Vec<u8> {
        let places = self.places.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let teaches = [
            !places.is_empty(),
            self.demand.is_known(),
            self.limit.is_known(),
            self.containers.any(),
            self.thoughts.any(),
        ];
        if !teaches.contains(&true) {
            return body;
        }
        let Ok(Value::Object(mut fields)) = serde_json::from_slice(&body) else { return body };
        for place in &places {
            remove(&mut fields, place);
        }
        self.demand.leave_out_of(&mut fields);
        self.limit.lower(&mut fields);
        self.containers.leave_out_of(&mut fields);
        let mut left = Value::Object(fields);
        self.thoughts.leave_out_of(&mut left);
        serde_json::to_vec(&left).unwrap_or(body)
    }

    /// Whether a stream is not asked for.
    pub(super) fn leaves_out_stream(&self) -> bool {
        let places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        places.iter().any(|place| *place == STREAM[..1])
    }

    /// What of the body that was sent a refusal is about, in words: it is left out from now on. `None`: nothing of it.
    pub(super) fn learn(&self, model: &str, sent: &[u8], refusal: &Failure) -> Option<String> {
        let note = self.demand.learn(model, sent, refusal);
        let note = note.or_else(|| self.containers.learn(model, sent, refusal));
        if let Some(note) = note.or_else(|| self.limit.learn(model, sent, refusal)) {
            return Some(note);
        }
        if !matches!(refusal.status, Some(400 | 422)) {
            return None;
        }
        let words = RefusalWords::of(refusal);
        let Ok(Value::Object(fields)) = serde_json::from_slice(sent) else { return None };
        let without = self.thoughts.learn(&fields, &words);
        let without = without.or_else(|| self.learn_stream(&words, &fields));
        let without = without.or_else(|| self.learn_option(&words, &fields))?;
        Some(format!("`{model}` refused the request, which is sent again {without}"))
    }

    fn learn_stream(&self, words: &RefusalWords, fields: &Map<String, Value>) -> Option<String> {
        let [stream, options] = STREAM.map(|name| vec![name.to_owned()]);
        let is_refused = fields.get("stream") == Some(&true.into()) && words.refuses_stream();
        let is_left_out = is_refused && self.leave_out(stream);
        if is_left_out {
            self.leave_out(options);
        }
        is_left_out.then(|| "without `stream`: its answers come whole".to_owned())
    }

    fn learn_option(&self, words: &RefusalWords, fields: &Map<String, Value>) -> Option<String> {
        if !words.refuses_option() {
            return None;
        }
        let mut place = named(words, fields)?;
        // It says which of several forms a mapping has, and without it the mapping says nothing.
        if place.len() > 1 && place.last().is_some_and(|name| name == "type") {
            place.pop();
        }
        let told = format!("without `{}`", place.join("."));
        self.leave_out(place).then_some(told)
    }

    /// Leaves out what is at that place from now on, unless there are too many.
    fn leave_out(&self, place: Vec<String>) -> bool {
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        if places.len() >= MOST {
            return false;
        }
        // Requests in flight at the same time learn the same.
        if !places.contains(&place) {
            places.push(place);
        }
        true
    }
}

/// The place of the option that a refusal names, the innermost first; or else of one that it names by a word for several, where
/// the outermost says all.
fn named(words: &RefusalWords, fields: &Map<String, Value>) -> Option<Vec<String>> {
    let mut places = Vec::new();
    add_places(fields, &[], &mut places);
    let alone = places.iter().find(|place| names_place(words, place));
    let at_once = |place: &&Vec<String>| place.last().is_some_and(|name| words.name_at_once(name));
    alone.or_else(|| places.iter().filter(at_once).min_by_key(|place| place.len())).cloned()
}

/// Adds the places of all options, the inner ones before those around them.
fn add_places(fields: &Map<String, Value>, within: &[String], places: &mut Vec<Vec<String>>) {
    for (name, value) in fields {
        if within.is_empty() && NO_OPTIONS.contains(&name.as_str()) {
            continue;
        }
        let place = [within, core::slice::from_ref(name)].concat();
        if let Some(inner) = value.as_object().filter(|_| place.len() < DEEPEST) {
            add_places(inner, &place, places);
        }
        places.push(place);
    }
}

/// Whether a refusal names what is at that place. A word such as `type` is the name of much, so within others it counts with the one
/// around it.
fn names_place(words: &RefusalWords, place: &[String]) -> bool {
    let Some((name, around)) = place.split_last() else { return false };
    let is_telling = name.contains('_') || name.contains(|c: char| c.is_ascii_uppercase());
    let is_telling = is_telling || TELLING.contains(&name.as_str());
    match around.last() {
        Some(outer) if !is_telling && !HOLDERS.contains(&outer.as_str()) => {
            words.name_itself(&format!("{outer}.{name}"))
        }
        _ => words.name_itself(name),
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
            (
                json!({"messages": [], "thinking": {"type": "adaptive", "display": "omitted"}, "top_k": 3}),
                "adaptive thinking is not supported on this model",
                "thinking",
                json!({"messages": [], "top_k": 3}),
            ),
            (
                json!({"messages": [], "thinking": {"type": "enabled", "budget_tokens": 2000}}),
                "\"thinking.type.enabled\" is not supported for this model. Use \"thinking.type.adaptive\" and \"output_config.effort\"",
                "thinking",
                json!({"messages": []}),
            ),
            (
                json!({"messages": [], "additionalModelRequestFields": {"thinking": {"type": "enabled"}}}),
                "The model returned the following errors: thinking: Extra inputs are not permitted",
                "additionalModelRequestFields.thinking",
                json!({"messages": []}),
            ),
            (
                json!({"messages": [], "output_config": {"effort": "low"}}),
                "This model does not support the effort parameter.",
                "output_config.effort",
                json!({"messages": []}),
            ),
            (
                json!({"contents": [], "generationConfig": {"thinkingConfig": {"thinkingBudget": 100}}}),
                "Thinking is not enabled for models/gemini-2.0-flash",
                "generationConfig.thinkingConfig",
                json!({"contents": []}),
            ),
            (
                json!({"messages": [], "frequency_penalty": 1, "presence_penalty": 1}),
                "Model grok-4 does not support parameter presencePenalty.",
                "presence_penalty",
                json!({"messages": [], "frequency_penalty": 1}),
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

    #[test]
    fn a_limit_of_tokens_that_is_too_high_is_lowered() {
        let sent = json!({"messages": [], "max_tokens": 9000});
        let (note, left) = without(&sent, "max_tokens (9000) cannot exceed 8192.");
        assert!(note.unwrap().ends_with("with a limit of 8192 tokens for 9000"));
        assert_eq!(left, json!({"messages": [], "max_tokens": 8192}));
    }

    #[test]
    fn a_stream_that_is_refused_is_not_asked_for_again() {
        let sent = json!({"messages": [], "stream": true, "stream_options": {"include_usage": true}});
        let says = "Your organization must be verified to stream this model. Please go to: https://platform.openai.com";
        let (note, left) = without(&sent, says);
        assert!(note.unwrap().ends_with("without `stream`: its answers come whole"));
        assert_eq!(left, json!({"messages": []}));
    }
}
