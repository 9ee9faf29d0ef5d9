//! How a model is reached, and what differs between the APIs of providers.

use core::fmt;

use reqwest::Url;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use secrecy::SecretString;
use serde_json::{Map, Value};

use super::headers::{ConfigError, add, address, check_extra, secrets, trimmed};
use super::renewed::{KeyPlace, RenewedKey};
use super::wire::WireFormat;
use crate::context::ToolForm;

/// A provider's API: all that differs between one and another. `provider/` has one of each.
pub struct Provider {
    /// Its name in agent files (`api: openai`).
    pub(super) name: &'static str,
    /// The address of its own server, which is also how one is written.
    pub(super) base_url: &'static str,
    /// Where requests go, below the base URL.
    pub(super) endpoint: fn(&ModelConfig, &mut Url),
    /// How the key is sent.
    pub(super) auth: Auth,
    /// Headers that every request has.
    pub(super) headers: &'static [(&'static str, &'static str)],
    /// Fields of the request that the agent itself writes.
    pub(super) own_fields: &'static [&'static str],
    /// In which form it declares tools.
    pub(super) tool_form: ToolForm,
    /// Who serves a model, by the names of OpenTelemetry's conventions.
    pub(super) served_by: fn(&ModelConfig) -> &'static str,
    /// Where a server says how large the window of its model is, by the address that requests go to; `None`: it is known
    /// not to say it.
    pub(super) window: fn(&ModelConfig, Url) -> Option<WindowPlaces>,
    /// The wire format, for one model.
    pub(super) format: fn(ModelConfig) -> Box<dyn WireFormat>,
}

/// Where a server says how large the window of its model is.
pub(super) struct WindowPlaces {
    /// Its list of models, or the page of this one.
    pub(super) list: Url,
    /// Where a server of the user's own has its further addresses.
    pub(super) own: Option<Url>,
}

/// How a key is sent.
#[derive(Clone, Copy, Debug)]
pub(super) enum Auth {
    /// As `authorization: Bearer`.
    Bearer,
    /// In a header of its own.
    Header(&'static str),
    /// As `authorization: Bearer`; without one requests are signed with credentials of AWS.
    #[cfg(feature = "bedrock")]
    Aws,
}

impl Provider {
    /// Its name in agent files: `openai`.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// In which form it declares tools.
    pub const fn tool_form(&self) -> ToolForm {
        self.tool_form
    }
}

impl fmt::Debug for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// How a model behind a provider's API is reached.
///
/// ```
/// use unfazed::host::{HttpModel, ModelConfig, Provider};
/// let config = ModelConfig { api_key: Some("sk-...".into()), ..ModelConfig::new(Provider::ANTHROPIC, "claude-sonnet-5") };
/// let model = HttpModel::new(config)?;
/// # Ok::<(), unfazed::host::ConfigError>(())
/// ```
#[derive(Clone, Debug)]
pub struct ModelConfig {
    /// Whose API the server speaks.
    pub provider: &'static Provider,
    /// Where the server is: `https://api.openai.com/v1`. A query in it is kept.
    pub base_url: String,
    /// The model's name on the server.
    pub model: String,
    /// The key. Blank space around it is dropped.
    pub api_key: Option<SecretString>,
    /// The key, if it is asked for again before it expires: it takes precedence over [`ModelConfig::api_key`].
    pub renewed_key: Option<RenewedKey>,
    /// Whether the key is a token, which is sent as `authorization: Bearer` wherever the provider wants its keys: those of
    /// Microsoft Entra at Azure, and of Google Cloud at Vertex.
    pub bearer: bool,
    /// Whether the answer is streamed. The reply is the same.
    pub stream: bool,
    /// Further headers; their values are kept out of every report like the key.
    pub headers: Vec<(String, SecretString)>,
    /// Further headers whose values are no secrets, such as `anthropic-beta`.
    pub plain_headers: Vec<(String, String)>,
    /// Sampling temperature.
    pub temperature: Option<f64>,
    /// The most tokens of a reply, those for thinking among them. `None`: as many as the server allows, and
    /// [`ModelConfig::MAX_TOKENS`] where the API wants a number.
    pub max_tokens: Option<u32>,
    /// Further fields of the request body. Null leaves out a field that would be sent otherwise.
    pub extra: Map<String, Value>,
    /// Whether a request continues the last response by its id, and sends only what came after it, for
    /// [`Provider::RESPONSES`]. The server keeps the responses then. A conversation that was repaired, reduced or continued by
    /// another model since is sent as a whole.
    pub auto_previous_response_id: bool,
    /// The region of AWS that serves the model, for [`Provider::BEDROCK`]; `None`: us-east-1.
    pub region: Option<String>,
    /// The profile of AWS whose credentials sign the requests. `None`: what the environment says, a web identity, the
    /// container or the instance.
    pub profile: Option<String>,
    /// Whether the policy's guidance after the result of a tool becomes a part of that result, because the server
    /// refuses what a user says there. `None`: where it is known to, which is at Mistral.
    pub guidance_in_results: Option<bool>,
    /// Whether the server may leave out why the model stopped. Then an answer without it counts, and one that a router
    /// cut and ended properly cannot be told from a whole one. `None`: where it is known to.
    pub finish_optional: Option<bool>,
}

impl ModelConfig {
    /// The most tokens of a reply where an API wants a number and nobody gives one: what every Claude model since 3.5 can
    /// write.
    pub const MAX_TOKENS: u32 = 8192;

    /// A model of that name on the provider's own server.
    pub fn new(provider: &'static Provider, model: impl Into<String>) -> Self {
        Self {
            provider,
            base_url: provider.base_url.to_owned(),
            model: model.into(),
            api_key: None,
            renewed_key: None,
            bearer: false,
            stream: false,
            headers: Vec::new(),
            plain_headers: Vec::new(),
            temperature: None,
            max_tokens: None,
            extra: Map::new(),
            auto_previous_response_id: false,
            region: None,
            profile: None,
            guidance_in_results: None,
            finish_optional: None,
        }
    }

    /// Whether it can be used; whether anybody answers is seen when the model is called.
    ///
    /// # Errors
    /// What cannot be used.
    pub fn check(&self) -> Result<(), ConfigError> {
        check_extra(&self.extra, self.provider.own_fields)?;
        let is_region =
            |region: &&String| region.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        if let Some(region) = self.region.as_ref().filter(|region| region.is_empty() || !is_region(region)) {
            return Err(ConfigError::Region(region.clone()));
        }
        self.endpoint()?;
        self.header_map().map(drop)
    }

    /// Who serves the model, by the names of OpenTelemetry's conventions.
    pub fn served_by(&self) -> &'static str {
        (self.provider.served_by)(self)
    }

    /// The address requests go to.
    pub(super) fn endpoint(&self) -> Result<Url, ConfigError> {
        let mut url = address(&self.base_url, self.provider.base_url)?;
        (self.provider.endpoint)(self, &mut url);
        Ok(url)
    }

    /// Whether the server is spoken to with TLS. One that is not may be one of the user's own.
    pub(in crate::host) fn is_hosted(&self) -> bool {
        self.endpoint().is_ok_and(|url| url.scheme() == "https")
    }

    /// The host of the server; empty if the base URL has none.
    pub(super) fn host(&self) -> String {
        let url = Url::parse(self.base_url.trim()).ok();
        url.as_ref().and_then(Url::host_str).unwrap_or_default().to_owned()
    }

    /// Who can read what the model sealed or signed: itself, on the same server. A gateway has one path for each provider
    /// or account.
    pub(super) fn issuer(&self) -> String {
        let url = Url::parse(self.base_url.trim()).ok();
        let port = url.as_ref().and_then(Url::port).map(|port| format!(":{port}")).unwrap_or_default();
        let path = url.as_ref().map(|url| url.path().trim_end_matches('/')).unwrap_or_default();
        format!("{}{port}{path} {}", self.host(), self.model)
    }

    /// The headers of every request.
    pub(super) fn header_map(&self) -> Result<HeaderMap, ConfigError> {
        let mut headers = HeaderMap::new();
        for (name, value) in self.provider.headers {
            headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        if let Some(key) = trimmed(self.api_key.as_ref()) {
            let place = self.key_place();
            let value = place.value(key).ok_or(ConfigError::Key)?;
            headers.insert(place.header, value);
        }
        // Headers of the user come last, so that they replace those of the provider.
        add(&mut headers, &self.plain_headers, &self.headers)?;
        Ok(headers)
    }

    /// How its key is sent.
    pub(super) fn key_place(&self) -> KeyPlace {
        match self.provider.auth {
            Auth::Header(name) if !self.bearer => {
                KeyPlace { header: HeaderName::from_static(name), bearer: false }
            }
            _ => KeyPlace { header: AUTHORIZATION, bearer: true },
        }
    }

    /// The key that is asked for again, and how it is sent; `None`: no key is renewed, or a header of the user takes its place.
    pub(super) fn keyed(&self) -> Option<(KeyPlace, RenewedKey)> {
        let (place, key) = (self.key_place(), self.renewed_key.clone()?);
        let named = |name: &String| name.eq_ignore_ascii_case(place.header.as_str());
        let replaced = self.plain_headers.iter().any(|(name, _)| named(name))
            || self.headers.iter().any(|(name, _)| named(name));
        (!replaced).then_some((place, key))
    }

    /// Everything that must not be reported.
    pub(super) fn secrets(&self) -> impl Iterator<Item = SecretString> {
        secrets(self.api_key.as_ref(), &self.headers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_server_and_another_model_are_another_issuer() {
        for (base_url, issuer) in [
            ("https://api.openai.com/v1?key=secret", "api.openai.com/v1 m"),
            ("http://127.0.0.1:8000/azure/v1/", "127.0.0.1:8000/azure/v1 m"),
            ("http://host", "host m"),
        ] {
            let config =
                ModelConfig { base_url: base_url.into(), ..ModelConfig::new(Provider::RESPONSES, "m") };
            assert_eq!(config.issuer(), issuer);
        }
    }
}
