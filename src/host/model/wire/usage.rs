//! Tokens as `OpenAI`'s APIs report them, and the servers that copy these.

use serde::Deserialize;

use super::lenient;
use crate::session::Usage;

/// Tokens, under either pair of names.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub(super) struct WireUsage {
    #[serde(default, alias = "input_tokens", deserialize_with = "lenient::or_default")]
    prompt_tokens: u64,
    #[serde(default, alias = "output_tokens", deserialize_with = "lenient::or_default")]
    completion_tokens: u64,
    #[serde(default, deserialize_with = "lenient::or_default")]
    total_tokens: u64,
    #[serde(default, alias = "output_tokens_details", deserialize_with = "lenient::if_readable")]
    completion_tokens_details: Option<CompletionDetails>,
    #[serde(default, alias = "input_tokens_details", deserialize_with = "lenient::if_readable")]
    prompt_tokens_details: Option<PromptDetails>,
    /// As `DeepSeek` says it.
    #[serde(default, deserialize_with = "lenient::or_default")]
    prompt_cache_hit_tokens: u64,
    /// As Moonshot, z.ai and `MiniMax` say it.
    #[serde(default, deserialize_with = "lenient::or_default")]
    cached_tokens: u64,
}

/// What the tokens of the request are.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
struct PromptDetails {
    #[serde(default, deserialize_with = "lenient::or_default")]
    cached_tokens: u64,
    #[serde(default, deserialize_with = "lenient::or_default")]
    cache_write_tokens: u64,
}

/// What the tokens of the reply are.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
struct CompletionDetails {
    #[serde(default, deserialize_with = "lenient::or_default")]
    reasoning_tokens: u64,
}

impl WireUsage {
    pub(super) fn usage(self) -> Usage {
        let details = self.prompt_tokens_details.unwrap_or_default();
        let reasoning = self.completion_tokens_details.unwrap_or_default().reasoning_tokens;
        // xAI and Gemini count reasoning in addition to the completion: only the total has all of it.
        let all = self.total_tokens.saturating_sub(self.prompt_tokens);
        Usage {
            input: self.prompt_tokens,
            output: self.completion_tokens.max(all).max(reasoning),
            cache_read: details.cached_tokens.max(self.prompt_cache_hit_tokens).max(self.cached_tokens),
            cache_write: details.cache_write_tokens,
            reasoning,
        }
    }
}
