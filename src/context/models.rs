//! The catalogue of models: context windows and token prices, by model name.

mod file;
mod litellm;

use core::num::NonZeroU64;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock};

pub use self::litellm::ModelCatalogueError;
use crate::policy::Price;

/// The catalogue that ships with the product.
const BUILTIN: &str = include_str!("../../policies/models.yaml");
/// Its name in error locations.
const BUILTIN_NAME: &str = "builtin:models";
/// The characters that may follow a prefix of a model's name.
const BOUNDARIES: &[char] = &['-', ':', '@', '_', '+'];
/// The maximum length of a name that is looked up.
const LONGEST: usize = 256;

/// The known limits of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModelLimits {
    /// The maximum tokens of a request and its reply together.
    pub window: NonZeroU64,
    /// The maximum tokens of a reply.
    pub output: Option<u64>,
}

/// Models by name prefix.
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
    limits: BTreeMap<String, ListedValue<ModelLimits>>,
    /// Token prices, by whole names: a model with a similar name has another price.
    prices: BTreeMap<String, ListedValue<Price>>,
}

/// The value of a catalogue row.
#[derive(Clone, Debug)]
struct ListedValue<T> {
    value: T,
    source: Option<Arc<str>>,
}

/// A catalogue entry for a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CatalogueEntry<'c, T> {
    /// The name in the catalogue that matched.
    pub(crate) name: &'c str,
    pub(crate) value: T,
    /// The source of the value and its date, if the catalogue contains them.
    pub(crate) source: Option<&'c str>,
}

impl ModelCatalogue {
    /// The catalogue that ships with the product.
    pub fn builtin() -> &'static Self {
        // A test proves that it can be read.
        static READ: LazyLock<ModelCatalogue> =
            LazyLock::new(|| ModelCatalogue::read(BUILTIN_NAME, BUILTIN.as_bytes()).unwrap_or_default());
        &READ
    }

    /// The token price of a model, if the catalogue contains its name, with or without the server.
    pub fn price(&self, model: &str) -> Option<Price> {
        self.price_entry(model).map(|entry| entry.value)
    }

    /// The limits of a model: those of the longest matching prefix.
    pub fn find(&self, model: &str) -> Option<ModelLimits> {
        self.limits_entry(model).map(|entry| entry.value)
    }

    /// The names of all models, sorted.
    pub(crate) fn names(&self) -> BTreeSet<&str> {
        self.limits.keys().chain(self.prices.keys()).map(String::as_str).collect()
    }

    /// The entry with the price of a model.
    pub(crate) fn price_entry(&self, model: &str) -> Option<CatalogueEntry<'_, Price>> {
        first_of(model, |name| entry(&self.prices, name))
    }

    /// The entry with the limits of a model.
    pub(crate) fn limits_entry(&self, model: &str) -> Option<CatalogueEntry<'_, ModelLimits>> {
        first_of(model, |name| {
            // Names end at a separator only: `gpt-4o-mini` does not match `gpt-4`. The part before a slash does not
            // belong to the name.
            let ends = name
                .rmatch_indices(BOUNDARIES)
                .take_while(|(at, _)| name.rfind('/').is_none_or(|slash| slash < *at));
            let shorter = ends.filter_map(|(at, _)| name.get(..at));
            core::iter::once(name).chain(shorter).find_map(|beginning| entry(&self.limits, beginning))
        })
    }

    fn insert(&mut self, name: &str, window: u64, output: Option<u64>, source: Option<&Arc<str>>) {
        let Some(window) = NonZeroU64::new(window) else { return };
        let listed = ListedValue { value: ModelLimits { window, output }, source: source.cloned() };
        match self.limits.entry(name.to_lowercase()) {
            Entry::Vacant(place) => {
                place.insert(listed);
            }
            // Several servers may serve one model, and the smallest window never overflows.
            Entry::Occupied(mut known) if window < known.get().value.window => {
                known.insert(listed);
            }
            Entry::Occupied(_) => {}
        }
    }
}

/// The first entry for a name, with or without the server.
fn first_of<'c, T>(
    model: &str,
    find: impl Fn(&str) -> Option<CatalogueEntry<'c, T>>,
) -> Option<CatalogueEntry<'c, T>> {
    let model = model.trim().to_lowercase();
    let mut rest = Some(model.as_str()).filter(|model| model.len() <= LONGEST);
    while let Some(name) = rest {
        if let Some(found) = find(name) {
            return Some(found);
        }
        rest = without_server(name);
    }
    None
}

fn entry<'c, T: Copy>(
    listed: &'c BTreeMap<String, ListedValue<T>>,
    name: &str,
) -> Option<CatalogueEntry<'c, T>> {
    let (name, ListedValue { value, source }) = listed.get_key_value(name)?;
    Some(CatalogueEntry { name, value: *value, source: source.as_deref() })
}

/// The name without its server or tuning prefix: the part before a slash, or a word before a dot.
fn without_server(name: &str) -> Option<&str> {
    if let Some(tuned) = name.strip_prefix("ft:") {
        return Some(tuned);
    }
    if let Some((_, rest)) = name.split_once('/') {
        return Some(rest);
    }
    // Databricks joins its own name by a hyphen: `databricks-claude-opus-4-6`.
    if let Some(rest) = name.strip_prefix("databricks-") {
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
            ("claude-opus-9", 1_000_000),
            ("claude-2", 100_000),
            ("claude-instant-1.2", 100_000),
            ("databricks-claude-sonnet-4-5", 200_000),
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
    fn a_region_of_bedrock_has_its_own_price() {
        let input = |model: &str| ModelCatalogue::builtin().price(model).map(|price| price.input);
        assert_eq!(input("claude-opus-5"), Some(5_000_000));
        for (model, expected) in [
            ("global.anthropic.claude-opus-5", 5_000_000),
            ("us.anthropic.claude-opus-5", 5_500_000),
            ("bedrock/us.anthropic.claude-opus-5", 5_500_000),
            ("anthropic.claude-haiku-4-5-20251001-v1:0", 1_000_000),
            ("eu.amazon.nova-pro-v1:0", 1_050_000),
        ] {
            assert_eq!(input(model), Some(expected), "{model}");
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
}
