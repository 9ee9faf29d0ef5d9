//! Anthropic's messages API.

use indexmap::IndexMap;
use reqwest::Url;
use serde_json::Value;

use crate::context::ToolForm;
use crate::host::header_entry::HeaderEntry;
use crate::host::key_source::KeyEntry;
use crate::host::model::ApiEntry;
use crate::host::model::config::WindowPlaces;
use crate::host::model::config::{Auth, ModelConfig, Provider};
use crate::host::model::wire::anthropic::MessagesFormat;
use crate::policy::PriceEntry;
use crate::policy::decode::{Spanned, record};

pub(super) static ANTHROPIC: Provider = Provider {
    name: "anthropic",
    base_url: "https://api.anthropic.com",
    endpoint,
    auth: Auth::Header("x-api-key"),
    // Version 2026-10-21 refuses `temperature`, `top_p` and `top_k`, so this one is pinned.
    headers: &[("anthropic-version", "2023-06-01")],
    own_fields: &["model", "max_tokens", "system", "messages", "tools", "tool_choice", "stream"],
    tool_form: ToolForm::Messages,
    served_by: |_| "anthropic",
    window: |config, endpoint| Some(window(config, endpoint)),
    format: |config| Box::new(format(config)),
};

record! {
    /// A server that speaks Anthropic's messages format.
    #[part(true)]
    pub(crate) struct AnthropicKeys {
        /// Where the server is, with `/v1` at its end or without. Left out: Anthropic's own.
        /// Example: `https://api.anthropic.com`
        pub base_url: Option<Spanned<String>>,
        /// The model's name on the server.
        /// Example: `claude-sonnet-5`
        pub model: Spanned<String>,
        /// The key: `{env: NAME}`, `{file: PATH}` or `{command: [PROGRAM, ARGUMENT]}`. Keys are never written into the file
        /// itself.
        pub api_key: Option<KeyEntry>,
        /// A token of OAuth, in the place of a key: it comes from the same places, and is sent as `authorization: Bearer`.
        /// Example: `{"command": ["./token.sh"]}`
        pub token: Option<KeyEntry>,
        /// Further headers of its requests. What is secret is not written here but where it is: `{env: NAME}` or
        /// `{file: PATH}`.
        /// Example: `{"anthropic-beta": "context-1m-2025-08-07"}`
        pub headers: IndexMap<String, HeaderEntry> = IndexMap::new(),
        /// Whether answers are streamed.
        pub stream: bool = true,
        /// The most tokens of one reply, those for thinking among them.
        /// Example: `16000`
        pub max_tokens: u32 = ModelConfig::MAX_TOKENS,
        /// Whether the server is asked, before a run, how large the model's window is, unless the policy says it. The
        /// run begins after two seconds at the latest.
        pub ask_window: bool = true,
        /// Further fields of the request body, sent as they are.
        /// Example: `{"thinking": {"type": "enabled", "budget_tokens": 4000}}`
        pub extra: Value = Value::Null,
        /// What its tokens cost, for telemetry.
        /// Example: `{"input": 3, "output": 15, "cache_read": 0.30, "cache_write": 3.75}`
        pub price: Option<PriceEntry>,
    }
}

impl From<AnthropicKeys> for ApiEntry {
    fn from(keys: AnthropicKeys) -> Self {
        let (config, at) = Self::reached(Provider::ANTHROPIC, keys.base_url, keys.model);
        Self {
            config: ModelConfig { stream: keys.stream, max_tokens: Some(keys.max_tokens), ..config },
            at,
            api_key: keys.api_key,
            token: keys.token,
            headers: keys.headers,
            extra: keys.extra,
            ask_window: keys.ask_window,
            price: keys.price,
        }
    }
}

/// The version of the API may stand at the end of the base URL.
fn endpoint(_: &ModelConfig, url: &mut Url) {
    let last = url.path_segments().and_then(|path| path.rev().find(|segment| !segment.is_empty()));
    // Anthropic's SDKs take the address without `v1`, and people copy it with it.
    let versioned = last == Some("v1");
    if let Ok(mut path) = url.path_segments_mut() {
        path.pop_if_empty();
        if !versioned {
            path.push("v1");
        }
        path.push("messages");
    }
}

/// The format for the model that is reached so.
fn format(config: ModelConfig) -> MessagesFormat {
    let issuer = config.issuer();
    let ModelConfig { model, stream, temperature, max_tokens, extra, .. } = config;
    let max_tokens = max_tokens.unwrap_or(ModelConfig::MAX_TOKENS);
    MessagesFormat { model, issuer, max_tokens, stream, temperature, extra, pauses: false }
}

/// A model has a page of its own.
fn window(config: &ModelConfig, mut list: Url) -> WindowPlaces {
    if let Ok(mut path) = list.path_segments_mut() {
        // Anthropic, "Get a model": it says `max_input_tokens`, which the list would say page by page.
        path.pop().extend(["models", &config.model]);
    }
    WindowPlaces { list, own: None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::ConfigError;

    fn at(base_url: &str) -> ModelConfig {
        ModelConfig { base_url: base_url.into(), ..ModelConfig::new(Provider::ANTHROPIC, "m") }
    }

    #[test]
    fn the_version_of_the_api_may_stand_in_the_base_url() {
        for (base_url, endpoint) in [
            ("https://api.anthropic.com", "https://api.anthropic.com/v1/messages"),
            ("https://api.anthropic.com/v1", "https://api.anthropic.com/v1/messages"),
            ("https://api.anthropic.com/v1/", "https://api.anthropic.com/v1/messages"),
            (" http://127.0.0.1:80/anthropic/?a=b#x", "http://127.0.0.1/anthropic/v1/messages?a=b"),
        ] {
            assert_eq!(at(base_url).endpoint().unwrap().as_str(), endpoint);
        }
        let wrong = at("api.anthropic.com").endpoint().unwrap_err().to_string();
        assert!(wrong.ends_with("write it like https://api.anthropic.com"), "{wrong}");
    }

    #[test]
    fn the_key_has_a_header_of_its_own_and_is_never_shown() {
        let config = ModelConfig { api_key: Some(" sk-ant-123456\n".into()), ..at("http://host") };
        let headers = config.header_map().unwrap();
        assert_eq!(headers["x-api-key"], "sk-ant-123456");
        assert_eq!(headers["anthropic-version"], "2023-06-01");
        assert!(!format!("{config:?} {headers:?}").contains("123456"));
    }

    #[test]
    fn a_header_of_the_user_goes_before_that_of_the_agent() {
        let headers = vec![("Anthropic-Version".into(), "2030-01-01".into())];
        let config = ModelConfig { headers, ..at("http://host") };
        assert_eq!(config.header_map().unwrap()["anthropic-version"], "2030-01-01");
    }

    #[test]
    fn the_agents_own_fields_cannot_be_replaced() {
        let mut config = at("http://host");
        config.extra.insert("system".into(), Value::Null);
        assert_eq!(config.check(), Err(ConfigError::OwnField("system".into())));
    }
}
