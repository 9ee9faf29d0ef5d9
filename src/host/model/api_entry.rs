//! A model behind the API of a provider, whichever it is.

use indexmap::IndexMap;
use serde_json::Value;

use super::config::{ModelConfig, Provider};
use crate::host::header_entry::HeaderEntry;
use crate::host::key_source::KeyEntry;
use crate::policy::PriceEntry;
use crate::policy::decode::{Spanned, choice};
use crate::text::Span;

/// What an agent file says of a model behind the API of a provider.
#[derive(Clone, Debug)]
pub(crate) struct ApiEntry {
    /// How it is reached, without what [`ApiEntry::config`] adds.
    pub(in crate::host) config: ModelConfig,
    /// Where the file says the address, or that there is such a model.
    pub(in crate::host) at: Span,
    /// Where its key comes from.
    pub api_key: Option<KeyEntry>,
    /// Where a token comes from that is sent in its place.
    pub token: Option<KeyEntry>,
    /// Further headers of its requests.
    pub headers: IndexMap<String, HeaderEntry>,
    /// Further fields of its requests; null, if it has none.
    pub(in crate::host) extra: Value,
    /// Whether the server is asked how large the model's window is.
    pub ask_window: bool,
    /// What its tokens cost.
    pub price: Option<PriceEntry>,
}

choice! {
    /// Whether an answer must say why the model stopped.
    pub(crate) enum FinishReasonEntry {
        /// It must; one that does not is a failure.
        Required = "required",
        /// The server may leave it out; an answer that was cut may then pass for a whole one.
        Optional = "optional",
    }
}

impl ApiEntry {
    /// How a model is reached whose provider has an address of its own, and where the file says so.
    pub(in crate::host) fn reached(
        provider: &'static Provider,
        base_url: Option<Spanned<String>>,
        model: Spanned<String>,
    ) -> (ModelConfig, Span) {
        let at = base_url.as_ref().map_or(model.span, |base_url| base_url.span);
        let mut config = ModelConfig::new(provider, model.value);
        if let Some(base_url) = base_url {
            config.base_url = base_url.value;
        }
        (config, at)
    }

    /// How it is reached, but for what is secret.
    pub(crate) fn config(&self) -> ModelConfig {
        let plain = self.headers.iter().filter_map(|(name, entry)| match entry {
            HeaderEntry::Text(text) => Some((name.clone(), text.value.clone())),
            HeaderEntry::From(_) => None,
        });
        ModelConfig {
            plain_headers: plain.collect(),
            bearer: self.token.is_some(),
            extra: self.extra.as_object().cloned().unwrap_or_default(),
            ..self.config.clone()
        }
    }
}
