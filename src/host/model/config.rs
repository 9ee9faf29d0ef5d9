//! How a model is reached.

use reqwest::Url;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Map, Value};

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
    /// Sampling temperature.
    pub temperature: Option<f64>,
    /// The most tokens of a reply.
    pub max_tokens: Option<u32>,
    /// Further fields of the request body. Null leaves out a field that would be sent otherwise.
    pub extra: Map<String, Value>,
}

/// A model that cannot be set up.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// The address is none.
    #[error("`base_url` is not a URL ({0}); write it like https://api.openai.com/v1")]
    Url(String),
    /// Neither HTTP nor HTTPS.
    #[error("`base_url` starts with `{0}:`; only http and https are spoken")]
    Scheme(String),
    /// The address holds a user or a password.
    #[error("`base_url` holds a user name or password; put the key into `api_key`")]
    Userinfo,
    /// The key cannot be sent.
    #[error(
        "the API key holds a character that cannot stand in an HTTP header; is there a line break in it?"
    )]
    Key,
    /// A header that is none.
    #[error("header `{0}` cannot be sent: its name or value holds a character that HTTP does not allow")]
    Header(String),
    /// A body field that would overwrite the agent's own.
    #[error("`{0}` cannot be set as an extra field: the agent writes it itself")]
    OwnField(String),
    /// No certificates, or no usable TLS.
    #[error("TLS cannot be set up: {0}; install the system's CA certificates or point SSL_CERT_FILE at some")]
    Tls(String),
    /// The HTTP client refused its settings.
    #[error("the HTTP client cannot be set up: {0}")]
    Client(String),
}

impl OpenAiConfig {
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
    pub(super) fn endpoint(&self) -> Result<Url, ConfigError> {
        let mut url =
            Url::parse(self.base_url.trim()).map_err(|error| ConfigError::Url(error.to_string()))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(ConfigError::Scheme(url.scheme().to_owned()));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(ConfigError::Userinfo);
        }
        url.set_fragment(None);
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().extend(["chat", "completions"]);
        }
        Ok(url)
    }

    /// The headers of every request.
    pub(super) fn header_map(&self) -> Result<HeaderMap, ConfigError> {
        let mut headers = HeaderMap::new();
        if let Some(key) = self.key() {
            headers.insert(AUTHORIZATION, secret(&format!("Bearer {key}")).ok_or(ConfigError::Key)?);
        }
        for (name, value) in &self.headers {
            let bad = || ConfigError::Header(name.clone());
            let parsed = name.parse::<HeaderName>().map_err(|_| bad())?;
            headers.insert(parsed, secret(value.expose_secret()).ok_or_else(bad)?);
        }
        Ok(headers)
    }

    /// Everything that must not be reported.
    pub(super) fn secrets(&self) -> impl Iterator<Item = SecretString> {
        let key = self.key().map(SecretString::from);
        key.into_iter().chain(self.headers.iter().map(|(_, value)| value.clone()))
    }

    /// Whether the extra fields leave the agent's own alone.
    pub(super) fn check_extra(&self) -> Result<(), ConfigError> {
        match OWN_FIELDS.iter().find(|field| self.extra.contains_key(**field)) {
            Some(field) => Err(ConfigError::OwnField((*field).to_owned())),
            None => Ok(()),
        }
    }

    fn key(&self) -> Option<&str> {
        self.api_key.as_ref().map(|key| key.expose_secret().trim()).filter(|key| !key.is_empty())
    }
}

fn secret(value: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(value).ok()?;
    value.set_sensitive(true);
    Some(value)
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
