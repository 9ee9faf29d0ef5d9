//! The catalogue of models: how large their windows are, by their names.

use core::num::NonZeroU64;
use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde_json::Value;

use crate::ErrorCause;
use crate::policy::Price;
use crate::policy::decode::{self, VersionOne, record};
use crate::text::Report;

/// The catalogue that ships with the product.
const BUILTIN: &str = include_str!("../../policies/models.yaml");
/// Its name in places.
const BUILTIN_NAME: &str = "builtin:models";
/// What may stand behind a name that is not the whole name of a model.
const BOUNDARIES: &[char] = &['-', ':', '@', '_', '+'];
/// The longest name that is looked for.
const LONGEST: usize = 256;

/// What is known of a model's window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModelLimits {
    /// The tokens of a request and its reply together.
    pub window: NonZeroU64,
    /// The most tokens of a reply.
    pub output: Option<u64>,
}

/// Models by the beginnings of their names.
///
/// ```
/// use unfazed::context::ModelCatalogue;
/// let window = |model| ModelCatalogue::builtin().find(model).map(|limits| limits.window.get());
/// assert_eq!(window("openai/gpt-4.1-mini"), Some(1_047_576));
/// assert_eq!(window("gpt-4-0613"), Some(8192));
/// assert_eq!(window("unknown-model"), None);
/// ```
#[derive(Clone, Debug, Default)]
pub struct ModelCatalogue {
    names: BTreeMap<String, ModelLimits>,
    /// What tokens cost, by whole names: a price is not that of a model which is called alike.
    prices: BTreeMap<String, Price>,
}

/// A file that is no catalogue of models.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ModelCatalogueError {
    message: String,
    source: Option<ErrorCause>,
}

record! {
    /// A catalogue of models.
    struct CatalogueFile {
        /// The version of the format; always 1.
        version: VersionOne,
        /// The models.
        models: Vec<CatalogueRow>,
    }
}

record! {
    /// Models with the same limits.
    struct CatalogueRow {
        /// The beginnings of their names.
        names: Vec<String>,
        /// The tokens of a request and its reply together.
        window: u64,
        /// The most tokens of a reply.
        output: Option<u64>,
    }
}

impl ModelCatalogue {
    /// The catalogue that ships with the product.
    pub fn builtin() -> &'static Self {
        // That it can be read is tested.
        static READ: LazyLock<ModelCatalogue> =
            LazyLock::new(|| ModelCatalogue::read(BUILTIN_NAME, BUILTIN.as_bytes()).unwrap_or_default());
        &READ
    }

    /// Reads a catalogue in the form of the built-in one.
    ///
    /// # Errors
    /// Every mistake in it.
    pub fn read(name: &str, bytes: &[u8]) -> Result<Self, Report> {
        let file = decode::read::<CatalogueFile>(name, bytes)?.value;
        let VersionOne = file.version;
        let mut catalogue = Self::default();
        for CatalogueRow { names, window, output } in &file.models {
            for name in names {
                catalogue.insert(name, *window, *output);
            }
        }
        Ok(catalogue)
    }

    /// Reads the JSON that `LiteLLM` publishes: models by name, each with `max_input_tokens` and `max_output_tokens`.
    /// Entries that say neither, or are about something else than chats, are left out.
    ///
    /// # Errors
    /// It is no JSON object, or none of its entries says how large a window is.
    pub fn litellm(bytes: &[u8]) -> Result<Self, ModelCatalogueError> {
        let entries: serde_json::Map<String, Value> =
            serde_json::from_slice(bytes).map_err(|error| ModelCatalogueError {
                message: format!("not a JSON object of models: {error}"),
                source: Some(error.into()),
            })?;
        let mut catalogue = Self::default();
        for (name, entry) in &entries {
            let tokens = |field: &str| entry.get(field).and_then(Value::as_u64);
            let mode = entry.get("mode").and_then(Value::as_str);
            // Models for embeddings, speech or images have limits of another kind.
            let is_chat = mode.is_none_or(|mode| matches!(mode, "chat" | "responses" | "completion"));
            if let Some(window) =
                // LiteLLM calls `max_tokens` a legacy parameter, which stands for either of the two others.
                tokens("max_input_tokens").or_else(|| tokens("max_tokens")).filter(|_| is_chat)
            {
                catalogue.insert(name, window, tokens("max_output_tokens"));
                // A model is also found without its provider's prefix; several providers may serve it with different
                // windows.
                if let Some((_, last)) = name.rsplit_once('/') {
                    catalogue.insert(last, window, tokens("max_output_tokens"));
                }
            }
        }
        for (name, entry) in &entries {
            if let Some(price) = price(entry) {
                catalogue.prices.insert(name.to_lowercase(), price);
            }
        }
        if catalogue.names.is_empty() {
            let message =
                "no entry says `max_input_tokens`; is it the file of models that LiteLLM publishes?";
            return Err(ModelCatalogueError { message: message.to_owned(), source: None });
        }
        Ok(catalogue)
    }

    /// What the tokens of a model cost, if its name is there: as it is, or without who serves it.
    pub fn price(&self, model: &str) -> Option<Price> {
        let model = model.trim().to_lowercase();
        let mut rest = Some(model.as_str()).filter(|model| model.len() <= LONGEST);
        while let Some(name) = rest {
            if let Some(price) = self.prices.get(name) {
                return Some(*price);
            }
            rest = without_server(name);
        }
        None
    }

    /// What is known of a model: what is said of the longest beginning of its name.
    pub fn find(&self, model: &str) -> Option<ModelLimits> {
        let model = model.trim().to_lowercase();
        if model.len() > LONGEST {
            return None;
        }
        let mut rest = model.as_str();
        loop {
            if let Some(limits) = self.beginning_of(rest) {
                return Some(limits);
            }
            rest = without_server(rest)?;
        }
    }

    fn beginning_of(&self, name: &str) -> Option<ModelLimits> {
        let whole = core::iter::once(name);
        // What stands before a slash is no part of the model's name.
        // Names end at a separator only: `gpt-4o-mini` is no `gpt-4`.
        let ends = name
            .rmatch_indices(BOUNDARIES)
            .take_while(|(at, _)| name.rfind('/').is_none_or(|slash| slash < *at));
        let shorter = ends.filter_map(|(at, _)| name.get(..at));
        whole.chain(shorter).find_map(|beginning| self.names.get(beginning)).copied()
    }

    fn insert(&mut self, name: &str, window: u64, output: Option<u64>) {
        let Some(window) = NonZeroU64::new(window) else { return };
        let limits = ModelLimits { window, output };
        let known = self.names.entry(name.to_lowercase()).or_insert(limits);
        // Several servers may serve one model, and the smallest window never overflows.
        if limits.window < known.window {
            *known = limits;
        }
    }
}

/// What an entry of `LiteLLM` says that tokens cost: US dollars for each.
fn price(entry: &Value) -> Option<Price> {
    let cost = |field: &str| match entry.get(field)? {
        Value::Number(number) => picodollars(&number.to_string()),
        _ => None,
    };
    Some(Price {
        input: cost("input_cost_per_token")?,
        output: cost("output_cost_per_token")?,
        cache_read: cost("cache_read_input_token_cost"),
        cache_write: cost("cache_creation_input_token_cost"),
        reasoning: cost("output_cost_per_reasoning_token"),
    })
}

/// An amount of US dollars such as `2.5e-6`, in picodollars; what is finer counts as one more.
fn picodollars(text: &str) -> Option<u64> {
    const DECIMALS: i32 = 12;
    let (number, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    // Read as text: 2.5e-6 has no exact float.
    let digits: u128 = format!("{whole}{part}").parse().ok()?;
    let exponent: i32 = exponent.parse().ok()?;
    let places = DECIMALS.checked_add(exponent)?.checked_sub(i32::try_from(part.len()).ok()?)?;
    let factor = 10_u128.checked_pow(places.unsigned_abs());
    let amount = match factor {
        Some(factor) if places >= 0 => digits.checked_mul(factor)?,
        Some(factor) => digits.div_ceil(factor),
        None => return (digits == 0).then_some(0),
    };
    u64::try_from(amount).ok()
}

/// The name without who serves the model, or that it was tuned: what stands before a slash, or a word before a dot.
fn without_server(name: &str) -> Option<&str> {
    if let Some(tuned) = name.strip_prefix("ft:") {
        return Some(tuned);
    }
    if let Some((_, rest)) = name.split_once('/') {
        return Some(rest);
    }
    let (server, rest) = name.split_once('.')?;
    (!server.is_empty() && server.bytes().all(|byte| byte.is_ascii_lowercase())).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(model: &str) -> Option<u64> {
        ModelCatalogue::builtin().find(model).map(|limits| limits.window.get())
    }

    #[test]
    fn the_built_in_catalogue_can_be_read_and_says_each_name_once() {
        let catalogue = ModelCatalogue::read(BUILTIN_NAME, BUILTIN.as_bytes()).unwrap();
        assert!(catalogue.names.len() > 400, "{}", catalogue.names.len());
        let file = decode::read::<CatalogueFile>(BUILTIN_NAME, BUILTIN.as_bytes()).unwrap().value;
        assert_eq!(file.models.iter().map(|row| row.names.len()).sum::<usize>(), catalogue.names.len());
        for row in &file.models {
            assert!(row.window >= 1024 && row.output.is_some_and(|output| output <= row.window), "{row:?}");
        }
    }

    #[test]
    fn prices_are_read_exactly_and_only_by_whole_names() {
        for (text, expected) in [
            ("2.5e-6", Some(2_500_000)),
            ("1.25e-07", Some(125_000)),
            ("0.00001", Some(10_000_000)),
            ("3", Some(3_000_000_000_000)),
            ("0.0", Some(0)),
            ("1e-13", Some(1)),
            ("0e-400", Some(0)),
            ("-1e-6", None),
            ("1e300", None),
        ] {
            assert_eq!(picodollars(text), expected, "{text}");
        }
        let file = br#"{"openai/gpt-x": {"max_input_tokens": 600, "input_cost_per_token": 2.5e-06,
            "output_cost_per_token": 1e-05, "cache_read_input_token_cost": 1.25e-06,
            "output_cost_per_reasoning_token": 2e-05}, "free": {"max_input_tokens": 600}}"#;
        let catalogue = ModelCatalogue::litellm(file).unwrap();
        let price = Price {
            input: 2_500_000,
            output: 10_000_000,
            cache_read: Some(1_250_000),
            cache_write: None,
            reasoning: Some(20_000_000),
        };
        assert_eq!(catalogue.price("OpenAI/gpt-x"), Some(price));
        assert_eq!(catalogue.price("router/openai/gpt-x"), Some(price));
        assert_eq!((catalogue.price("openai/gpt-x-mini"), catalogue.price("free")), (None, None));
    }

    #[test]
    fn a_name_is_not_mistaken_for_another_that_begins_like_it() {
        for (model, expected) in [
            ("gpt-4", 8192),
            ("gpt-4-0613", 8192),
            ("gpt-4.1", 1_047_576),
            ("gpt-4.1-nano-2025-04-14", 1_047_576),
            ("gpt-4o-mini", 128_000),
            ("gpt-4-turbo-2024-04-09", 128_000),
            ("gpt-5-mini", 272_000),
            ("gpt-5.5-2026-04-23", 922_000),
            ("o3-mini", 200_000),
            ("claude-3-5-sonnet-20241022", 200_000),
            ("claude-opus-4-6", 1_000_000),
            ("gemini-2.5-pro", 1_048_576),
            ("llama-3-8b", 8_000),
            ("llama3.1:8b", 128_000),
            ("qwen3-235b-a22b-instruct-2507", 256_000),
            ("deepseek-chat", 128_000),
            ("kimi-k2-thinking", 256_000),
            ("grok-4", 256_000),
            ("glm-4.6", 200_000),
            ("command-r-plus-08-2024", 128_000),
            ("mistral-large-2411", 128_000),
        ] {
            assert_eq!(window(model), Some(expected), "{model}");
        }
        for model in ["gpt-4.7", "gpt-40", "gpt", "claudette", "", "-", "o", "gpt-5.99"] {
            assert_eq!(window(model), None, "{model}");
        }
    }

    #[test]
    fn who_serves_a_model_may_stand_before_it() {
        for model in [
            "openai/gpt-4.1-mini",
            "OpenRouter/OpenAI/GPT-4.1",
            "accounts/fireworks/models/gpt-4.1",
            "azure.gpt-4.1",
            " gpt-4.1:free ",
            "azure/gpt-4-1-mini",
            "gpt-4_1",
            "ft:gpt-4.1-mini-2025-04-14:house::a1b2c3",
        ] {
            assert_eq!(window(model), Some(1_047_576), "{model}");
        }
        assert_eq!(window("ft:gpt-3.5-turbo-0125:house::a1b2c3"), Some(16_384));
        assert_eq!(window("deepseek-ai/DeepSeek-V4-Pro"), Some(1_000_000));
        assert_eq!(window("mistral/mistral-large-2411"), Some(128_000));
        assert_eq!(window("us.anthropic.claude-3-5-sonnet-20240620-v1:0"), Some(200_000));
        assert_eq!(window("anthropic/claude-sonnet-4.5"), Some(200_000));
        assert_eq!(window("claude-sonnet-4@20250514"), Some(200_000));
        assert_eq!(window("meta.llama3-1-70b-instruct-v1:0"), Some(128_000));
        assert_eq!(window("accounts/fireworks/models/llama-v3p1-8b-instruct"), Some(128_000));
        assert_eq!(window("meta-llama/Llama-3.3-70B-Instruct"), Some(128_000));
        assert_eq!(window(&"/".repeat(100_000)), None);
    }

    #[test]
    fn the_json_of_litellm_is_a_catalogue() {
        let json = r#"{
            "sample_spec": {"max_input_tokens": "max input tokens, if the provider specifies it", "mode": "chat"},
            "gpt-x": {"max_input_tokens": 500, "max_output_tokens": 40, "mode": "chat"},
            "azure/gpt-x": {"max_input_tokens": 300, "mode": "chat"},
            "far/away": {"max_tokens": 70},
            "text-embedding": {"max_input_tokens": 8191, "mode": "embedding"},
            "none": {"max_input_tokens": null, "mode": "chat"}, "odd": 7
        }"#;
        let catalogue = ModelCatalogue::litellm(json.as_bytes()).unwrap();
        let window = |model: &str| catalogue.find(model).map(|limits| limits.window.get());
        assert_eq!(
            (window("azure/gpt-x"), window("away"), window("far/away-2")),
            (Some(300), Some(70), Some(70))
        );
        assert_eq!(
            (window("gpt-x-2026-01-01"), window("text-embedding"), window("none")),
            (Some(300), None, None)
        );
    }

    #[test]
    fn what_is_no_catalogue_is_refused() {
        for (json, says) in [
            ("", "not a JSON object of models"),
            ("[]", "not a JSON object of models"),
            ("{}", "no entry says `max_input_tokens`"),
            (r#"{"a": {"max_input_tokens": 0}}"#, "no entry says `max_input_tokens`"),
        ] {
            let error = ModelCatalogue::litellm(json.as_bytes()).unwrap_err().to_string();
            assert!(error.starts_with(says), "{error}");
        }
    }
}
