//! How a model behind Anthropic's messages API is reached.

use reqwest::Url;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use secrecy::SecretString;
use serde_json::{Map, Value};

use super::{ConfigError, add, address, check_extra, secret, secrets, trimmed};

/// How an address is written.
const LIKE: &str = "https://api.anthropic.com";
/// The version of the API that is spoken.
const VERSION: &str = "2023-06-01";
/// Fields of the request that the agent itself writes.
const OWN_FIELDS: [&str; 7] = ["model", "max_tokens", "system", "messages", "tools", "tool_choice", "stream"];

/// How a model behind Anthropic's messages API is reached.
#[derive(Clone, Debug)]
pub struct AnthropicConfig {
    /// Where the server is, with `/v1` at its end or without. A query in it is kept.
    pub base_url: String,
    /// The model's name on the server.
    pub model: String,
    /// The key, sent as `x-api-key`. Blank space around it is dropped.
    pub api_key: Option<SecretString>,
    /// Whether the answer is streamed. The reply is the same.
    pub stream: bool,
    /// Further headers; their values are kept out of every report like the key.
    pub headers: Vec<(String, SecretString)>,
    /// Further headers whose values are no secrets, such as `anthropic-beta`.
    pub plain_headers: Vec<(String, String)>,
    /// Sampling temperature.
    pub temperature: Option<f64>,
    /// The most tokens of a reply, those for thinking among them. The API wants to be told.
    pub max_tokens: u32,
    /// Further fields of the request body, such as `thinking`. Null leaves out a field that would be sent otherwise.
    pub extra: Map<String, Value>,
}

impl AnthropicConfig {
    /// The most tokens of a reply if nobody says otherwise: what every model since Claude 3.5 can write.
    pub const MAX_TOKENS: u32 = 8192;

    /// Whether it can be used; whether anybody answers is seen when the model is called.
    ///
    /// # Errors
    /// What cannot be used.
    pub fn check(&self) -> Result<(), ConfigError> {
        self.check_extra()?;
        self.endpoint()?;
        self.header_map().map(drop)
    }

    /// The address requests go to.
    pub(in crate::host::model) fn endpoint(&self) -> Result<Url, ConfigError> {
        let mut url = address(&self.base_url, LIKE)?;
        let last = url.path_segments().and_then(|path| path.rev().find(|segment| !segment.is_empty()));
        let versioned = last == Some("v1");
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty();
            if !versioned {
                path.push("v1");
            }
            path.push("messages");
        }
        Ok(url)
    }

    /// The headers of every request.
    pub(in crate::host::model) fn header_map(&self) -> Result<HeaderMap, ConfigError> {
        let mut headers = HeaderMap::new();
        headers.insert(HeaderName::from_static("anthropic-version"), HeaderValue::from_static(VERSION));
        if let Some(key) = trimmed(self.api_key.as_ref()) {
            headers.insert(HeaderName::from_static("x-api-key"), secret(key).ok_or(ConfigError::Key)?);
        }
        add(&mut headers, &self.plain_headers, &self.headers)?;
        Ok(headers)
    }

    /// Everything that must not be reported.
    pub(in crate::host::model) fn secrets(&self) -> impl Iterator<Item = SecretString> {
        secrets(self.api_key.as_ref(), &self.headers)
    }

    /// Whether the extra fields leave the agent's own alone.
    pub(in crate::host::model) fn check_extra(&self) -> Result<(), ConfigError> {
        check_extra(&self.extra, &OWN_FIELDS)
    }
}

impl Default for AnthropicConfig {
    fn default() -> Self {
        Self {
            base_url: LIKE.to_owned(),
            model: String::new(),
            api_key: None,
            stream: false,
            headers: Vec::new(),
            plain_headers: Vec::new(),
            temperature: None,
            max_tokens: Self::MAX_TOKENS,
            extra: Map::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(base_url: &str) -> AnthropicConfig {
        AnthropicConfig { base_url: base_url.into(), ..AnthropicConfig::default() }
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
        let config = AnthropicConfig { api_key: Some(" sk-ant-123456\n".into()), ..at("http://host") };
        let headers = config.header_map().unwrap();
        assert_eq!(headers["x-api-key"], "sk-ant-123456");
        assert_eq!(headers["anthropic-version"], "2023-06-01");
        assert!(!format!("{config:?} {headers:?}").contains("123456"));
    }

    #[test]
    fn a_header_of_the_user_goes_before_that_of_the_agent() {
        let headers = vec![("Anthropic-Version".into(), "2030-01-01".into())];
        let config = AnthropicConfig { headers, ..at("http://host") };
        assert_eq!(config.header_map().unwrap()["anthropic-version"], "2030-01-01");
    }

    #[test]
    fn the_agents_own_fields_cannot_be_replaced() {
        let mut config = at("http://host");
        config.extra.insert("system".into(), Value::Null);
        assert_eq!(config.check(), Err(ConfigError::OwnField("system".into())));
    }
}
