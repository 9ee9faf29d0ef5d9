//! Servers that speak the chat completions of `OpenAI`. What they do otherwise than `OpenAI`'s is in the table of servers
//! of the wire format.

use indexmap::IndexMap;
use reqwest::Url;
use serde_json::Value;

use crate::context::ToolForm;
use crate::host::header_entry::HeaderEntry;
use crate::host::key_source::KeyEntry;
use crate::host::model::config::WindowPlaces;
use crate::host::model::config::{Auth, ModelConfig, Provider};
use crate::host::model::wire::chat::{ChatFormat, ChatServer, LearnedForms, SamplingOptions};
use crate::host::model::{ApiEntry, FinishReasonEntry};
use crate::policy::PriceEntry;
use crate::policy::decode::{Spanned, record};

/// Fields of the request that the agent itself writes.
pub(super) const OWN_FIELDS: &[&str] = &["model", "messages", "tools", "tool_choice", "stream"];

pub(super) static OPENAI: Provider = Provider {
    name: "openai",
    base_url: "https://api.openai.com/v1",
    endpoint,
    auth: Auth::Bearer,
    headers: &[],
    own_fields: OWN_FIELDS,
    tool_form: ToolForm::Chat,
    served_by: |config| server(config).name,
    window,
    format: |config| Box::new(format(config)),
};

record! {
    /// A server that speaks the chat-completions format of `OpenAI`.
    #[part(true)]
    pub(crate) struct OpenAiKeys {
        /// Where the server is: `https://api.openai.com/v1`.
        /// Example: `https://api.openai.com/v1`
        pub base_url: Spanned<String>,
        /// The model's name on the server.
        /// Example: `gpt-5`
        pub model: String,
        /// The key: `{env: NAME}`, `{file: PATH}` or `{command: [PROGRAM, ARGUMENT]}`. Keys are never written into the file
        /// itself.
        pub api_key: Option<KeyEntry>,
        /// Further headers of its requests. What is secret is not written here but where it is: `{env: NAME}` or
        /// `{file: PATH}`.
        /// Example: `{"x-title": "order desk", "x-gateway-token": {"env": "GATEWAY_TOKEN"}}`
        pub headers: IndexMap<String, HeaderEntry> = IndexMap::new(),
        /// Whether answers are streamed.
        pub stream: bool = true,
        /// The most tokens of one reply.
        /// Example: `4096`
        pub max_tokens: Option<u32>,
        /// Further fields of the request body, sent as they are.
        /// Example: `{"temperature": 0}`
        pub extra: Value = Value::Null,
        /// Whether guidance after the result of a tool becomes a part of that result, because the server refuses
        /// what a user says there. Left out: at Mistral.
        /// Example: `true`
        pub guidance_in_results: Option<bool>,
        /// Whether an answer must say why the model stopped. Left out: except at servers that are known not to say it.
        /// Example: `optional`
        pub finish_reason: Option<FinishReasonEntry>,
        /// Whether the server is asked, before a run, how large the model's window is, unless the policy says it. The
        /// run begins after two seconds at the latest.
        pub ask_window: bool = true,
        /// What its tokens cost, for telemetry.
        /// Example: `{"input": 2.50, "output": 10}`
        pub price: Option<PriceEntry>,
    }
}

impl From<OpenAiKeys> for ApiEntry {
    fn from(keys: OpenAiKeys) -> Self {
        let config = ModelConfig {
            base_url: keys.base_url.value,
            stream: keys.stream,
            max_tokens: keys.max_tokens,
            guidance_in_results: keys.guidance_in_results,
            finish_optional: keys.finish_reason.map(|entry| entry == FinishReasonEntry::Optional),
            ..ModelConfig::new(Provider::OPENAI, keys.model)
        };
        Self {
            config,
            at: keys.base_url.span,
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
        path.pop_if_empty().extend(["chat", "completions"]);
    }
}

/// The format for the model that is reached so.
fn format(config: ModelConfig) -> ChatFormat {
    let server = server(&config);
    format_of(config, server)
}

/// The format for a model of that server.
pub(super) fn format_of(config: ModelConfig, server: ChatServer) -> ChatFormat {
    let issuer = config.issuer();
    let ModelConfig { model, stream, temperature, max_tokens, extra, .. } = config;
    let sampling = SamplingOptions { stream, temperature, max_tokens, extra };
    ChatFormat { model, issuer, sampling, server, learned_forms: LearnedForms::default() }
}

/// What is known of the server, with what the configuration says of it.
pub(super) fn server(config: &ModelConfig) -> ChatServer {
    server_at(&config.host(), config)
}

/// The same, as if it were at that host.
pub(super) fn server_at(host: &str, config: &ModelConfig) -> ChatServer {
    let known = ChatServer::of(host, &config.model);
    ChatServer {
        guidance_in_results: config.guidance_in_results.unwrap_or(known.guidance_in_results),
        finish_optional: config.finish_optional.unwrap_or(known.finish_optional),
        ..known
    }
}

/// What is below the root of the API.
fn window(config: &ModelConfig, mut endpoint: Url) -> Option<WindowPlaces> {
    if let Ok(mut path) = endpoint.path_segments_mut() {
        path.pop().pop();
    }
    window_below(config, endpoint)
}

/// Hosted servers have a list of models. One that is spoken to without TLS may be one of the user's own, which has further
/// places. `root` is where the API begins.
pub(super) fn window_below(config: &ModelConfig, mut root: Url) -> Option<WindowPlaces> {
    if !server(config).tells_window {
        return None;
    }
    let mut list = root.clone();
    if let Ok(mut path) = list.path_segments_mut() {
        // In OpenAI's API and in all that copy it.
        path.push("models");
    }
    // llama.cpp, LM Studio and Ollama have their own pages at the root, next to `/v1`.
    if root.path().ends_with("/v1")
        && let Ok(mut path) = root.path_segments_mut()
    {
        path.pop();
    }
    let own = (root.scheme() == "http").then_some(root);
    Some(WindowPlaces { list, own })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::ConfigError;
    use reqwest::header::AUTHORIZATION;

    fn at(base_url: &str) -> ModelConfig {
        ModelConfig { base_url: base_url.into(), ..ModelConfig::new(Provider::OPENAI, "m") }
    }

    #[test]
    fn the_endpoint_lies_under_the_base_url() {
        for (base_url, endpoint) in [
            ("https://api.openai.com/v1", "https://api.openai.com/v1/chat/completions"),
            (" http://127.0.0.1:8000/v1/ ", "http://127.0.0.1:8000/v1/chat/completions"),
            ("http://host", "http://host/chat/completions"),
            ("https://az.example/d?api-version=1#x", "https://az.example/d/chat/completions?api-version=1"),
        ] {
            assert_eq!(at(base_url).endpoint().unwrap().as_str(), endpoint);
        }
    }

    #[test]
    fn a_base_url_that_cannot_be_used_is_refused() {
        for (base_url, says) in [
            (
                "api.openai.com/v1",
                "`base_url` is not a URL (relative URL without a base); write it like https://api.openai.com/v1",
            ),
            ("ftp://host/v1", "`base_url` starts with `ftp:`; only http and https are spoken"),
            ("https://me:pw@host/v1", "`base_url` holds a user name or password; put the key into `api_key`"),
        ] {
            assert_eq!(at(base_url).endpoint().unwrap_err().to_string(), says);
        }
    }

    #[test]
    fn the_key_is_a_bearer_token_and_never_shown() {
        let config = ModelConfig { api_key: Some(" sk-123456\n".into()), ..at("http://host") };
        let headers = config.header_map().unwrap();
        assert_eq!(headers.get(AUTHORIZATION).unwrap(), "Bearer sk-123456");
        assert!(!format!("{config:?} {headers:?}").contains("123456"));
        let broken = ModelConfig { api_key: Some("sk\n123456".into()), ..at("http://host") };
        assert_eq!(broken.header_map(), Err(ConfigError::Key));
    }

    #[test]
    fn a_header_that_cannot_be_sent_is_named() {
        let config = ModelConfig { headers: vec![("x y".into(), "v".into())], ..at("http://host") };
        assert_eq!(config.header_map(), Err(ConfigError::Header("x y".into())));
    }

    #[test]
    fn the_agents_own_fields_cannot_be_replaced() {
        let mut config = at("http://host");
        config.extra.insert("messages".into(), Value::Null);
        assert_eq!(config.check(), Err(ConfigError::OwnField("messages".into())));
    }

    #[test]
    fn a_provider_is_known_by_its_address() {
        for (base_url, name) in [
            ("https://api.openai.com/v1", "openai"),
            ("https://us.openai.azure.com/openai", "azure.ai.openai"),
            ("https://api.groq.com/openai/v1", "groq"),
            ("https://notgroq.com/v1", "openai"),
            ("http://127.0.0.1:8000/v1", "openai"),
            ("https://api.x.ai/v1", "x_ai"),
        ] {
            assert_eq!(at(base_url).served_by(), name, "{base_url}");
        }
    }
}
