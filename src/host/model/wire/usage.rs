//! Tokens as `OpenAI`'s APIs report them, and the servers that copy these; and how the counts of any API are read.

use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use super::lenient::to_number;
use crate::session::Usage;

/// What counts a part of the request that a cache had: `DeepSeek`, Mistral, and `LiteLLM` and Databricks for Anthropic's models say it
/// beside the other counts, as Moonshot, z.ai and `MiniMax` do.
const CACHE_READ: [&str; 4] =
    ["cached_tokens", "prompt_cache_hit_tokens", "num_cached_tokens", "cache_read_input_tokens"];
/// The same of what a cache took.
const CACHE_WRITE: [&str; 3] = ["cache_write_tokens", "cache_creation_tokens", "cache_creation_input_tokens"];

/// Tokens, under either pair of names. Some servers write both (new-api), and one of them may be 0.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct WireUsage {
    input: Option<u64>,
    output: Option<u64>,
    total: Option<u64>,
    reasoning: Option<u64>,
    cache_read: Option<u64>,
    cache_write: Option<u64>,
}

/// The tokens that an answer reports, if they can be read: nothing depends on them.
pub(super) fn tokens<'de, D: Deserializer<'de>>(from: D) -> Result<Option<WireUsage>, D::Error> {
    Ok(WireUsage::of(&Value::deserialize(from)?))
}

impl WireUsage {
    /// The counts in an object; a value of another type has none.
    pub(super) fn of(said: &Value) -> Option<Self> {
        let said = said.as_object()?;
        let details = ["prompt_tokens_details", "input_tokens_details"];
        let aside = |names| details.iter().map(|part| within(said, part, names)).fold(None, newer);
        let thought = ["completion_tokens_details", "output_tokens_details"];
        let thought = thought.iter().map(|part| within(said, part, &["reasoning_tokens"]));
        Some(Self {
            input: count(said, &["prompt_tokens", "input_tokens"]),
            output: count(said, &["completion_tokens", "output_tokens"]),
            total: count(said, &["total_tokens"]),
            // SGLang says it beside the other counts.
            reasoning: thought.fold(None, newer).max(count(said, &["reasoning_tokens"])),
            cache_read: aside(&CACHE_READ).max(count(said, &CACHE_READ)),
            cache_write: aside(&CACHE_WRITE).max(count(said, &CACHE_WRITE)),
        })
    }

    /// The counts of a later event.
    pub(super) fn then(self, later: Self) -> Self {
        Self {
            input: newer(self.input, later.input),
            output: newer(self.output, later.output),
            total: newer(self.total, later.total),
            reasoning: newer(self.reasoning, later.reasoning),
            cache_read: newer(self.cache_read, later.cache_read),
            cache_write: newer(self.cache_write, later.cache_write),
        }
    }

    pub(super) fn usage(self) -> Usage {
        let input = self.input.unwrap_or_default();
        let reasoning = self.reasoning.unwrap_or_default();
        // xAI and Gemini count reasoning in addition to the completion: only the total has all of it.
        let all = self.total.unwrap_or_default().saturating_sub(input);
        Usage {
            input,
            output: self.output.unwrap_or_default().max(all).max(reasoning),
            cache_read: self.cache_read.unwrap_or_default(),
            cache_write: self.cache_write.unwrap_or_default(),
            reasoning,
        }
    }
}

/// Counts of which those that a cache took part in are not among those of the request: Anthropic's, and Bedrock's.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct UsageBesideCache {
    pub(super) input: Option<u64>,
    pub(super) output: Option<u64>,
    pub(super) cache_read: Option<u64>,
    pub(super) cache_write: Option<u64>,
    /// Among the tokens of the reply.
    pub(super) reasoning: Option<u64>,
}

impl UsageBesideCache {
    /// The counts of a later event.
    pub(super) fn then(self, later: Self) -> Self {
        self.each(later, newer)
    }

    /// Both together.
    pub(super) fn plus(self, other: Self) -> Self {
        self.each(other, |one, two| {
            one.zip(two).map_or(one.or(two), |(one, two)| Some(one.saturating_add(two)))
        })
    }

    /// Of each count the larger one.
    pub(super) fn at_least(self, other: Self) -> Self {
        self.each(other, Option::max)
    }

    fn each(self, other: Self, of: impl Fn(Option<u64>, Option<u64>) -> Option<u64>) -> Self {
        Self {
            input: of(self.input, other.input),
            output: of(self.output, other.output),
            cache_read: of(self.cache_read, other.cache_read),
            cache_write: of(self.cache_write, other.cache_write),
            reasoning: of(self.reasoning, other.reasoning),
        }
    }

    pub(super) fn usage(self) -> Usage {
        let cache_read = self.cache_read.unwrap_or_default();
        let cache_write = self.cache_write.unwrap_or_default();
        let input = self.input.unwrap_or_default();
        Usage {
            input: input.saturating_add(cache_read).saturating_add(cache_write),
            output: self.output.unwrap_or_default(),
            cache_read,
            cache_write,
            reasoning: self.reasoning.unwrap_or_default(),
        }
    }
}

/// The count under one of these names, the first that is not 0.
pub(super) fn count(said: &Map<String, Value>, names: &[&str]) -> Option<u64> {
    names
        .iter()
        .map(|name| field(said, name).and_then(to_number))
        .fold(None, |first, next| newer(next, first))
}

/// The same, of a part of the counts.
pub(super) fn within(said: &Map<String, Value>, part: &str, names: &[&str]) -> Option<u64> {
    count(field(said, part)?.as_object()?, names)
}

/// A field of the counts. They have few, and to compare their names takes less than to hash one.
fn field<'s>(said: &'s Map<String, Value>, name: &str) -> Option<&'s Value> {
    said.iter().find(|(known, _)| *known == name).map(|(_, value)| value)
}

/// What holds of a count that comes again: the later one, but 0 never replaces more. Servers end streams with counts of which they
/// fill in some, or none.
pub(super) fn newer(earlier: Option<u64>, later: Option<u64>) -> Option<u64> {
    later.filter(|later| *later > 0).or(earlier).or(later)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn wire(said: &Value) -> WireUsage {
        WireUsage::of(said).unwrap()
    }

    #[test]
    fn counts_are_read_under_each_name_and_in_each_form() {
        let expected = Usage { input: 11, output: 4, cache_read: 3, cache_write: 2, reasoning: 1 };
        for said in [
            json!({"prompt_tokens": 11, "input_tokens": 0, "completion_tokens": 4, "output_tokens": 0,
                "prompt_tokens_details": {"cached_tokens": 3, "cache_write_tokens": 2},
                "input_tokens_details": {"cached_tokens": 0}, "completion_tokens_details": {"reasoning_tokens": 1}}),
            json!({"prompt_tokens": 0, "input_tokens": 11, "completion_tokens": 0, "output_tokens": 4,
                "prompt_tokens_details": {"cached_tokens": 0, "cache_creation_tokens": 2},
                "input_tokens_details": {"cached_tokens": 3}, "output_tokens_details": {"reasoning_tokens": 1}}),
            json!({"prompt_tokens": 11.0, "completion_tokens": "4", "total_tokens": -1,
                "cache_read_input_tokens": "3.0", "cache_creation_input_tokens": 2,
                "prompt_tokens_details": {"cached_tokens": -1}, "completion_tokens_details": {"reasoning_tokens": 1}}),
            json!({"input_tokens": 11, "output_tokens": 4, "num_cached_tokens": 3, "cache_creation_input_tokens": 2,
                "output_tokens_details": null, "reasoning_tokens": 1}),
        ] {
            assert_eq!(wire(&said).usage(), expected, "{said}");
        }
        let odd = json!({"prompt_tokens": 1.5, "completion_tokens": 1e300, "total_tokens": "many"});
        assert_eq!(wire(&odd).usage(), Usage::default());
    }

    #[test]
    fn no_count_is_replaced_by_none() {
        let said = json!({"prompt_tokens": 5, "completion_tokens": 2});
        for later in [json!({}), json!({"prompt_tokens": 0, "completion_tokens": 0})] {
            assert_eq!(wire(&said).then(wire(&later)).usage(), wire(&said).usage());
        }
        let more = wire(&said).then(wire(&json!({"prompt_tokens": 0, "completion_tokens": 7}))).usage();
        assert_eq!((more.input, more.output), (5, 7));
    }
}
