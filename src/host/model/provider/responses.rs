//! `OpenAI`'s Responses API, and servers that have it too.

use std::sync::Arc;

use indexmap::IndexMap;
use reqwest::Url;
use serde_json::Value;

use super::openai::{server, window_below};
use crate::context::ToolForm;
use crate::host::header_entry::HeaderEntry;
use crate::host::key_source::KeyEntry;
use crate::host::model::ApiEntry;
use crate::host::model::config::WindowPlaces;
use crate::host::model::config::{Auth, ModelConfig, Provider};
use crate::host::model::wire::responses::ResponsesFormat;
use crate::policy::PriceEntry;
use crate::policy::decode::{Spanned, record};

pub(super) static RESPONSES: Provider = Provider {
    name: "responses",
    base_url: "https://api.openai.com/v1",
    endpoint,
    auth: Auth::Bearer,
    headers: &[],
    own_fields: &["model", "input", "tools", "tool_choice", "stream"],
    tool_form: ToolForm::Responses,
    // The hosts are those of the other API.
    served_by: |config| server(config).name,
    window,
    format: |config| Box::new(format(config)),
};

record! {
    /// A server that speaks the Responses format of `OpenAI`.
    #[part(true)]
    pub(crate) struct ResponsesKeys {
        /// Where the server is. Left out: `OpenAI`'s own.
        /// Example: `https://api.openai.com/v1`
        pub base_url: Option<Spanned<String>>,
        /// The model's name on the server.
        /// Example: `gpt-5`
        pub model: Spanned<String>,
        /// The key: `{env: NAME}`, `{file: PATH}` or `{command: [PROGRAM, ARGUMENT]}`. Keys are never written into the file
        /// itself.
        pub api_key: Option<KeyEntry>,
        /// Further headers of its requests. What is secret is not written here but where it is: `{env: NAME}` or
        /// `{file: PATH}`.
        /// Example: `{"openai-project": "proj_1"}`
        pub headers: IndexMap<String, HeaderEntry> = IndexMap::new(),
        /// Whether answers are streamed.
        pub stream: bool = true,
        /// The most tokens of one reply, those for reasoning among them.
        /// Example: `16000`
        pub max_tokens: Option<u32>,
        /// Further fields of the request body, sent as they are. Null leaves out a field that would be sent: `store` is
        /// false, and `include` asks for sealed reasoning.
        /// Example: `{"reasoning": {"effort": "low"}}`
        pub extra: Value = Value::Null,
        /// Whether the server is asked, before a run, how large the model's window is, unless the policy says it. The
        /// run begins after two seconds at the latest.
        pub ask_window: bool = true,
        /// Whether a request continues the last response by its id, and sends only what came after it. The server keeps the
        /// responses then (`store`).
        pub auto_previous_response_id: bool = false,
        /// What its tokens cost, for telemetry.
        /// Example: `{"input": 2.50, "output": 10}`
        pub price: Option<PriceEntry>,
    }
}

impl From<ResponsesKeys> for ApiEntry {
    fn from(keys: ResponsesKeys) -> Self {
        let (config, at) = Self::reached(Provider::RESPONSES, keys.base_url, keys.model);
        Self {
            config: ModelConfig {
                stream: keys.stream,
                max_tokens: keys.max_tokens,
                auto_previous_response_id: keys.auto_previous_response_id,
                ..config
            },
            at,
            api_key: keys.api_key,
            token: None,
            headers: keys.headers,
            extra: keys.extra,
            ask_window: keys.ask_window,
            price: keys.price,
        }
    }
}

fn endpoint(_: &ModelConfig, url: &mut Url) {
    if let Ok(mut path) = url.path_segments_mut() {
        path.pop_if_empty().push("responses");
    }
}

/// The format for the model that is reached so.
fn format(config: ModelConfig) -> ResponsesFormat {
    let issuer = config.issuer();
    let ModelConfig { model, stream, temperature, max_tokens, extra, auto_previous_response_id, .. } = config;
    ResponsesFormat {
        model,
        issuer,
        stream,
        temperature,
        max_tokens,
        extra,
        continues: auto_previous_response_id,
        lost: Arc::default(),
        refuses_reasoning: Arc::default(),
    }
}

fn window(config: &ModelConfig, mut endpoint: Url) -> Option<WindowPlaces> {
    if let Ok(mut path) = endpoint.path_segments_mut() {
        path.pop();
    }
    window_below(config, endpoint)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::ConfigError;
    use reqwest::header::AUTHORIZATION;

    fn at(base_url: &str) -> ModelConfig {
        ModelConfig { base_url: base_url.into(), ..ModelConfig::new(Provider::RESPONSES, "m") }
    }

    #[test]
    fn the_endpoint_lies_under_the_base_url() {
        for (base_url, endpoint) in [
            ("https://api.openai.com/v1", "https://api.openai.com/v1/responses"),
            (" http://127.0.0.1:8000/v1/ ", "http://127.0.0.1:8000/v1/responses"),
            ("https://az.example/d?api-version=1#x", "https://az.example/d/responses?api-version=1"),
        ] {
            assert_eq!(at(base_url).endpoint().unwrap().as_str(), endpoint);
        }
    }

    #[test]
    fn the_key_is_a_bearer_token() {
        let config = ModelConfig { api_key: Some("sk-123456".into()), ..at("http://host") };
        assert_eq!(config.header_map().unwrap()[AUTHORIZATION], "Bearer sk-123456");
        assert_eq!(at("https://us.openai.azure.com/openai/v1").served_by(), "azure.ai.openai");
    }

    #[test]
    fn the_agents_own_fields_cannot_be_replaced() {
        let mut config = at("http://host");
        config.extra.insert("input".into(), Value::Null);
        assert_eq!(config.check(), Err(ConfigError::OwnField("input".into())));
    }

    #[test]
    fn the_window_is_asked_for_where_the_models_are_listed() {
        let config = at("http://127.0.0.1:8000/v1");
        let places = window(&config, config.endpoint().unwrap()).unwrap();
        assert_eq!(places.list.as_str(), "http://127.0.0.1:8000/v1/models");
        assert_eq!(places.own.unwrap().as_str(), "http://127.0.0.1:8000/");
        let hosted = at("https://api.openai.com/v1");
        assert!(window(&hosted, hosted.endpoint().unwrap()).is_none());
    }
}
