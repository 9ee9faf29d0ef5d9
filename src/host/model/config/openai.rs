//! How an OpenAI-compatible model is reached.

use reqwest::Url;
use reqwest::header::{AUTHORIZATION, HeaderMap};
use secrecy::SecretString;
use serde_json::{Map, Value};

use super::{ConfigError, add, address, check_extra, secret, secrets, trimmed};
use crate::host::model::wire::chat::Server;

/// How an address is written.
const LIKE: &str = "https://api.openai.com/v1";
/// Fields of the request that the agent itself writes.
const OWN_FIELDS: [&str; 5] = ["model", "messages", "tools", "tool_choice", "stream"];

/// How an OpenAI-compatible model is reached.
#[derive(Clone, Debug, Default)]
pub struct OpenAiConfig {
    /// Where the server is: `https://api.openai.com/v1`. A query in it is kept.
    pub base_url: String,
    /// The model's name on the server.
    pub model: String,
    /// The key, sent as a bearer token. Blank space around it is dropped.
    pub api_key: Option<SecretString>,
    /// Whether the answer is streamed. The reply is the same.
    pub stream: bool,
    /// Further headers; their values are kept out of every report like the key.
    pub headers: Vec<(String, SecretString)>,
    /// Further headers whose values are no secrets.
    pub plain_headers: Vec<(String, String)>,
    /// Sampling temperature.
    pub temperature: Option<f64>,
    /// The most tokens of a reply.
    pub max_tokens: Option<u32>,
    /// Further fields of the request body. Null leaves out a field that would be sent otherwise.
    pub extra: Map<String, Value>,
    /// Whether the policy's guidance after the result of a tool becomes a part of that result, because the server
    /// refuses what a user says there. `None`: where it is known to, which is at Mistral.
    pub guidance_in_results: Option<bool>,
    /// Whether the server may leave out why the model stopped. Then an answer without it counts, and one that a router
    /// cut and ended properly cannot be told from a whole one. `None`: where it is known to.
    pub finish_optional: Option<bool>,
}

impl OpenAiConfig {
    /// What is known of the server.
    pub(in crate::host::model) fn server(&self) -> Server {
        let url = Url::parse(self.base_url.trim()).ok();
        let host = url.as_ref().and_then(Url::host_str).unwrap_or_default();
        let known = Server::of(host, &self.model);
        Server {
            guidance_in_results: self.guidance_in_results.unwrap_or(known.guidance_in_results),
            finish_optional: self.finish_optional.unwrap_or(known.finish_optional),
            ..known
        }
    }

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
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().extend(["chat", "completions"]);
        }
        Ok(url)
    }

    /// The headers of every request.
    pub(in crate::host::model) fn header_map(&self) -> Result<HeaderMap, ConfigError> {
        let mut headers = HeaderMap::new();
        if let Some(key) = trimmed(self.api_key.as_ref()) {
            headers.insert(AUTHORIZATION, secret(&format!("Bearer {key}")).ok_or(ConfigError::Key)?);
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

#[cfg(test)]
mod tests {
    use super::*;

    fn at(base_url: &str) -> OpenAiConfig {
        OpenAiConfig { base_url: base_url.into(), ..OpenAiConfig::default() }
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
        let config = OpenAiConfig { api_key: Some(" sk-123456\n".into()), ..at("http://host") };
        let headers = config.header_map().unwrap();
        assert_eq!(headers.get(AUTHORIZATION).unwrap(), "Bearer sk-123456");
        assert!(!format!("{config:?} {headers:?}").contains("123456"));
        let broken = OpenAiConfig { api_key: Some("sk\n123456".into()), ..at("http://host") };
        assert_eq!(broken.header_map(), Err(ConfigError::Key));
    }

    #[test]
    fn a_header_that_cannot_be_sent_is_named() {
        let config = OpenAiConfig { headers: vec![("x y".into(), "v".into())], ..at("http://host") };
        assert_eq!(config.header_map(), Err(ConfigError::Header("x y".into())));
    }

    #[test]
    fn the_agents_own_fields_cannot_be_replaced() {
        let mut config = at("http://host");
        config.extra.insert("messages".into(), Value::Null);
        assert_eq!(config.check_extra(), Err(ConfigError::OwnField("messages".into())));
    }
}
