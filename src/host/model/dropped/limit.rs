//! The most tokens of a reply that a model allows, where a refusal has named them: what asks for more asks for as many.

use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::{Map, Value};

use super::place::{at, at_mut};
use crate::engine::Failure;
use crate::host::model::wire::without_quotations;

/// Where the wire formats say how many tokens a reply may have.
const LIMITS: [&[&str]; 5] = [
    &["max_tokens"],
    &["max_completion_tokens"],
    &["max_output_tokens"],
    &["generationConfig", "maxOutputTokens"],
    &["inferenceConfig", "maxTokens"],
];
/// What a refusal calls it.
const NAMES: [&str; 8] = [
    "max_tokens",
    "max_completion_tokens",
    "max_output_tokens",
    "maxoutputtokens",
    "maxtokens",
    "maximum tokens",
    "completion tokens",
    "output tokens",
];
/// What a refusal says that is about something else: the size of the whole request ("This model's maximum context length is 8192
/// tokens; you requested 9000 tokens (1000 in `max_tokens`)"), what the limit has to be above ("`max_tokens` must be greater than
/// `thinking.budget_tokens`"), replies that have to be streamed ("Requests with `max_tokens` > 4096 must have stream=true"), and one that
/// needs more ("Could not finish the message because `max_tokens` or model output limit was reached", decolua/9router#972).
const OTHERS: [&str; 10] = [
    "context length",
    "context limit",
    "context size",
    "context window",
    "input length",
    "input tokens",
    "prompt",
    "greater than",
    "stream",
    "was reached",
];
/// How a refusal says that a number is the most. One that repeats the request has numbers of it too: a validator of vLLM writes all of
/// the body behind its words.
const MOSTS: [&str; 17] = [
    "too large",
    "too high",
    "exceed",
    "at most",
    "range",
    "between",
    "less than",
    "less or equal",
    "lower than",
    "no more than",
    "up to",
    "maximum value",
    "maximum allowed",
    "maximum is",
    "<=",
    "≤",
    " > ",
];
/// The least that is the limit of a model: `[1, 8192]` names both ends, and relays write the status (`Error code: 400`).
const LEAST: u64 = 512;
/// How often a model may name a lower one.
const MOST_LEARNED: usize = 4;

/// The limits that refusals have named, each lower than the one before.
#[derive(Debug, Default)]
pub(in crate::host::model) struct LearnedLimit(Mutex<Vec<u64>>);

impl LearnedLimit {
    /// Whether there is one.
    pub(super) fn is_known(&self) -> bool {
        !self.learned().is_empty()
    }

    /// So many tokens, or as many as the model allows.
    #[cfg(feature = "serve")]
    pub(in crate::host::model) fn lowered(&self, asked: u32) -> u32 {
        let most = self.learned().last().and_then(|most| u32::try_from(*most).ok());
        most.map_or(asked, |most| most.min(asked))
    }

    /// Lets a body ask for no more.
    pub(super) fn lower(&self, fields: &mut Map<String, Value>) {
        let Some(most) = self.learned().last().copied() else { return };
        for place in LIMITS {
            if let Some(asked) = at_mut(fields, place)
                && asked.as_u64().is_some_and(|asked| asked > most)
            {
                *asked = most.into();
            }
        }
    }

    /// What a refusal of the body that was sent teaches, in words; `None`: nothing new.
    pub(in crate::host::model) fn learn(
        &self,
        model: &str,
        sent: &[u8],
        refusal: &Failure,
    ) -> Option<String> {
        // Together answers 422, Scaleway 416 ("max_completion_tokens is limited for this model").
        if !matches!(refusal.status, Some(400 | 416 | 422)) {
            return None;
        }
        let words = without_quotations(&refusal.message).to_lowercase();
        let says = |any: &[&str]| any.iter().any(|said| words.contains(said));
        if !says(&NAMES) || !says(&MOSTS) || says(&OTHERS) {
            return None;
        }
        let fields: Map<String, Value> = serde_json::from_slice(sent).ok()?;
        let asked = LIMITS.into_iter().find_map(|place| at(&fields, place)?.as_u64())?;
        let most = named(&words, asked)?;
        // Thinking has fewer tokens than the reply: the agent has to say how many then.
        let thinks = at(&fields, &["thinking", "budget_tokens"]).and_then(Value::as_u64);
        let mut learned = self.learned();
        if thinks.is_some_and(|budget| budget >= most) || learned.len() >= MOST_LEARNED {
            return None;
        }
        // Requests in flight at the same time learn the same.
        if learned.last().is_none_or(|known| most < *known) {
            learned.push(most);
        }
        Some(format!(
            "`{model}` refused the request, which is sent again with a limit of {most} tokens for {asked}"
        ))
    }

    fn learned(&self) -> MutexGuard<'_, Vec<u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The limit that a refusal names: the largest number in it that is below what was asked for.
// "`max_tokens` is too large: 32000. This model supports at most 16384 completion tokens", "`max_tokens`: 99999 > 8192, which is the
// maximum allowed number of output tokens", "Invalid max_tokens value, the valid range of max_tokens is [1, 8192]", "maxOutputTokens
// value of 100000 but the supported range is from 1 (inclusive) to 65537 (exclusive)".
fn named(words: &str, asked: u64) -> Option<u64> {
    let most = numbers(words).filter(|number| (LEAST..asked).contains(number)).max()?;
    Some(if words.contains("exclusive") { most.saturating_sub(1) } else { most })
}

/// The numbers that stand alone in a text, and are no part of a name such as that of a model. `16,384` is one, and `[1,8192]` has two.
fn numbers(words: &str) -> impl Iterator<Item = u64> + '_ {
    let in_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '/' | ':' | ',');
    let within = |c: char| matches!(c, '.' | ',' | ';' | ':' | '-');
    let is_one = |word: &str| word.split(',').skip(1).all(|digits| digits.len() == 3);
    words.split(move |c: char| !in_name(c)).map(move |word| word.trim_end_matches(within)).flat_map(
        move |word| {
            let parts = if is_one(word) {
                vec![word.replace(',', "")]
            } else {
                word.split(',').map(str::to_owned).collect()
            };
            parts.into_iter().filter_map(|part| part.parse().ok())
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn refused(message: &str) -> Failure {
        Failure { status: Some(400), message: message.into(), ..Failure::default() }
    }

    fn bytes(body: &Value) -> Vec<u8> {
        body.to_string().into_bytes()
    }

    fn lowered(limit: &LearnedLimit, body: &Value) -> Value {
        let mut fields = body.as_object().cloned().unwrap();
        limit.lower(&mut fields);
        Value::Object(fields)
    }

    #[test]
    fn a_limit_that_a_refusal_names_holds_for_all_that_ask_for_more() {
        let old = |most: u64| json!({"max_tokens": most});
        let google = |most: u64| json!({"generationConfig": {"maxOutputTokens": most}});
        let bedrock = |most: u64| json!({"inferenceConfig": {"maxTokens": most}});
        let responses = |most: u64| json!({"max_output_tokens": most});
        let body: [fn(u64) -> Value; 4] = [old, google, bedrock, responses];
        for (body, message, most) in [
            (
                body[0],
                "max_tokens is too large: 99999. This model supports at most 16384 completion tokens, whereas you provided 99999.",
                16384,
            ),
            (
                body[0],
                "max_tokens: 99999 > 8192, which is the maximum allowed number of output tokens for claude-3-5-sonnet-20241022",
                8192,
            ),
            (body[0], "max_tokens (99999) cannot exceed 8192.", 8192),
            (body[0], "the maximum value for max_tokens is 8192", 8192),
            (body[0], "max_tokens: 99999 > 16,384, the maximum of this model", 16384),
            (body[0], "Invalid max_tokens value, the valid range of max_tokens is [1, 8192]", 8192),
            (
                body[0],
                "`max_tokens` must be less than or equal to `8000`, the maximum value for `max_tokens` is less than the `context_window` for this model",
                8000,
            ),
            (
                body[1],
                "Unable to submit request because it has a maxOutputTokens value of 99999 but the supported range is from 1 (inclusive) to 65537 (exclusive). Update the value and try again.",
                65536,
            ),
            (
                body[2],
                "The maximum tokens you requested exceeds the model limit of 4096. Try again with a maximum tokens value that is lower than 4096.",
                4096,
            ),
            (
                body[3],
                "Invalid 'max_output_tokens': integer above maximum value. Expected a value <= 16384, but got 99999 instead.",
                16384,
            ),
        ] {
            let limit = LearnedLimit::default();
            let note = limit.learn("m", &bytes(&body(99999)), &refused(message)).unwrap();
            assert!(note.ends_with(&format!("with a limit of {most} tokens for 99999")), "{note}");
            assert_eq!(lowered(&limit, &body(99999)), body(most));
            assert_eq!(lowered(&limit, &body(300)), body(300));
            assert_eq!(limit.learn("m", &bytes(&body(most)), &refused(message)), None, "{message}");
        }
    }

    #[test]
    fn other_sizes_teach_nothing() {
        let sent =
            bytes(&json!({"max_tokens": 20000, "thinking": {"type": "enabled", "budget_tokens": 9000}}));
        for message in [
            "This model's maximum context length is 8192 tokens; you requested 9000 tokens (1000 in max_tokens).",
            "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000, decrease input length or `max_tokens`",
            "`max_tokens` must be greater than `thinking.budget_tokens`",
            "Requests with max_tokens > 4096 must have stream=true",
            "max_tokens is not supported by gpt-4-1106-preview",
            "max_tokens: must be at least 1",
            "Error code: 400 - max_tokens: Input should be a valid integer",
            "[azure/model-router] [400]: Could not finish the message because max_tokens or model output limit was reached. Please try again with higher max_tokens.",
            "[{'loc': ('body',), 'msg': 'Value error, `tools` must be set', 'input': {'max_tokens': 20000, 'seed': 1234}}]",
            "max_tokens: 20000 > 8192, which is the maximum allowed number of output tokens for m",
            "temperature must be below 1000",
        ] {
            assert_eq!(LearnedLimit::default().learn("m", &sent, &refused(message)), None, "{message}");
        }
    }

    #[test]
    fn a_server_that_always_names_a_lower_one_is_asked_a_few_times() {
        let (limit, mut sent, mut times) = (LearnedLimit::default(), json!({"max_tokens": 5000}), 0);
        while let asked = sent["max_tokens"].as_u64().unwrap()
            && limit.learn("m", &bytes(&sent), &refused(&format!("max_tokens > {}", asked - 1))).is_some()
        {
            times += 1;
            sent = lowered(&limit, &sent);
        }
        assert_eq!((times, sent), (MOST_LEARNED, json!({"max_tokens": 4996})));
    }
}
