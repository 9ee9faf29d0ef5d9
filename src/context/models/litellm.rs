//! Reads the file of models that `LiteLLM` publishes.

use serde_json::Value;

use super::{ListedValue, ModelCatalogue};
use crate::ErrorCause;
use crate::policy::Price;

/// Why a file is not a catalogue of models.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ModelCatalogueError {
    message: String,
    source: Option<ErrorCause>,
}

impl ModelCatalogue {
    /// Reads the JSON that `LiteLLM` publishes: models by name, each with `max_input_tokens` and `max_output_tokens`.
    /// Entries without these fields, or for other models than chat models, are left out.
    ///
    /// # Errors
    /// The file is no JSON object, or none of its entries has the size of a window.
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
            // Models for embeddings, speech or images have other kinds of limits.
            let is_chat = mode.is_none_or(|mode| matches!(mode, "chat" | "responses" | "completion"));
            if let Some(window) =
                // LiteLLM calls `max_tokens` a legacy parameter, which may mean either of the other two.
                tokens("max_input_tokens").or_else(|| tokens("max_tokens")).filter(|_| is_chat)
            {
                catalogue.insert(name, window, tokens("max_output_tokens"), None);
                // A model is also found without its provider's prefix; several providers may serve it with different
                // windows.
                if let Some((_, last)) = name.rsplit_once('/') {
                    catalogue.insert(last, window, tokens("max_output_tokens"), None);
                }
            }
        }
        for (name, entry) in &entries {
            if let Some(price) = price(entry) {
                catalogue.prices.insert(name.to_lowercase(), ListedValue { value: price, source: None });
            }
        }
        if catalogue.limits.is_empty() {
            let message =
                "no entry says `max_input_tokens`; is it the file of models that LiteLLM publishes?";
            return Err(ModelCatalogueError { message: message.to_owned(), source: None });
        }
        Ok(catalogue)
    }
}

/// The token price of a `LiteLLM` entry, in US dollars per token.
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

/// An amount of US dollars such as `2.5e-6` in picodollars, rounded up.
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

#[cfg(test)]
mod tests {
    use super::*;

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
