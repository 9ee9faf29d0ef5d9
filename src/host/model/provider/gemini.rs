//! Gemini's API, at Google's own address or behind another one.

use indexmap::IndexMap;
use reqwest::Url;
use serde_json::Value;

use crate::context::ToolForm;
use crate::host::header_entry::HeaderEntry;
use crate::host::key_source::KeyEntry;
use crate::host::model::ApiEntry;
use crate::host::model::config::{Auth, ModelConfig, Provider, WindowPlaces};
use crate::host::model::wire::gemini::{GeminiFormat, SignatureRules};
use crate::policy::PriceEntry;
use crate::policy::decode::{Spanned, record};

/// What the host of Vertex ends with, whatever its region.
const VERTEX: &str = "aiplatform.googleapis.com";

pub(super) static GEMINI: Provider = Provider {
    name: "gemini",
    base_url: "https://generativelanguage.googleapis.com/v1beta",
    endpoint,
    auth: Auth::Header("x-goog-api-key"),
    headers: &[],
    own_fields: &["contents", "systemInstruction", "tools", "toolConfig"],
    tool_form: ToolForm::Gemini,
    served_by: |config| if is_vertex(config) { "gcp.vertex_ai" } else { "gcp.gemini" },
    window,
    format: |config| Box::new(format(config)),
};

record! {
    /// A server that speaks Gemini's `generateContent` format.
    #[part(true)]
    pub(crate) struct GeminiKeys {
        /// Where the server is, with the version of the API at its end or without. Left out: Google's own.
        /// Example: `https://generativelanguage.googleapis.com/v1beta`
        pub base_url: Option<Spanned<String>>,
        /// The model's name on the server.
        /// Example: `gemini-2.5-flash`
        pub model: Spanned<String>,
        /// The key: `{env: NAME}`, `{file: PATH}` or `{command: [PROGRAM, ARGUMENT]}`. Keys are never written into the file
        /// itself.
        pub api_key: Option<KeyEntry>,
        /// A token of Google Cloud, for Vertex, in the place of a key: it comes from the same places, and is sent as `authorization: Bearer`.
        /// Example: `{"command": ["gcloud", "auth", "print-access-token"]}`
        pub token: Option<KeyEntry>,
        /// Further headers of its requests. What is secret is not written here but where it is: `{env: NAME}` or
        /// `{file: PATH}`.
        /// Example: `{"authorization": {"env": "VERTEX_AUTHORIZATION"}}`
        pub headers: IndexMap<String, HeaderEntry> = IndexMap::new(),
        /// Whether answers are streamed.
        pub stream: bool = true,
        /// The most tokens of one reply, those for thoughts among them.
        /// Example: `16000`
        pub max_tokens: Option<u32>,
        /// Further fields of the request body, sent as they are. What is in `generationConfig` is added to what unfazed
        /// sets there.
        /// Example: `{"generationConfig": {"thinkingConfig": {"thinkingBudget": 4000}}}`
        pub extra: Value = Value::Null,
        /// Whether the server is asked, before a run, how large the model's window is, unless the policy says it. The
        /// run begins after two seconds at the latest.
        pub ask_window: bool = true,
        /// What its tokens cost, for telemetry.
        /// Example: `{"input": 0.30, "output": 2.50}`
        pub price: Option<PriceEntry>,
    }
}

impl From<GeminiKeys> for ApiEntry {
    fn from(keys: GeminiKeys) -> Self {
        let (config, at) = Self::reached(Provider::GEMINI, keys.base_url, keys.model);
        Self {
            config: ModelConfig { stream: keys.stream, max_tokens: keys.max_tokens, ..config },
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

/// The model and what is asked of it are a part of the address.
fn endpoint(config: &ModelConfig, url: &mut Url) {
    let verb = if config.stream { "streamGenerateContent" } else { "generateContent" };
    push(url, &config.model, &format!(":{verb}"));
    if config.stream {
        // Otherwise the answer is one list in pieces.
        url.query_pairs_mut().append_pair("alt", "sse");
    }
}

/// Adds the place of a model to the base URL.
fn push(url: &mut Url, model: &str, end: &str) {
    let is_version = |segment: &str| {
        segment.strip_prefix('v').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    // `v1beta`, `v1`, and within the path of a project at Vertex `v1beta1`.
    let versioned = url.path_segments().is_some_and(|mut path| path.any(is_version));
    let Ok(mut path) = url.path_segments_mut() else { return };
    path.pop_if_empty();
    if !versioned {
        path.push("v1beta");
    }
    // A tuned model and an endpoint have a collection of their own: `tunedModels/x`, `endpoints/7`.
    if !model.contains('/') {
        path.push("models");
    }
    path.extend(format!("{model}{end}").split('/'));
}

fn is_vertex(config: &ModelConfig) -> bool {
    config.host().ends_with(VERTEX)
}

/// The format for the model that is reached so.
fn format(config: ModelConfig) -> GeminiFormat {
    let issuer = config.issuer();
    let ModelConfig { model, temperature, max_tokens, extra, .. } = config;
    let signatures = SignatureRules::of(&model).into();
    GeminiFormat { model, issuer, temperature, max_tokens, extra, signatures }
}

/// A model has a page of its own, but for Vertex (`Model` in `types.py` of google-genai).
fn window(config: &ModelConfig, mut list: Url) -> Option<WindowPlaces> {
    if is_vertex(config) {
        return None;
    }
    let path = list.path().to_owned();
    list.set_path(path.rsplit_once(':').map_or(path.as_str(), |(model, _)| model));
    Some(WindowPlaces { list, own: None })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::ConfigError;

    fn at(base_url: &str, model: &str, stream: bool) -> ModelConfig {
        ModelConfig { base_url: base_url.into(), stream, ..ModelConfig::new(Provider::GEMINI, model) }
    }

    #[test]
    fn the_model_and_the_way_of_the_answer_are_a_part_of_the_address() {
        let vertex = "https://us-central1-aiplatform.googleapis.com/v1/projects/p/locations/us-central1";
        for (base_url, model, stream, endpoint) in [
            (
                "https://generativelanguage.googleapis.com/v1beta",
                "gemini-2.5-flash",
                true,
                "https://generativelanguage.googleapis.com/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse",
            ),
            (
                "http://127.0.0.1:80/gemini/?a=b#x",
                "m",
                false,
                "http://127.0.0.1/gemini/v1beta/models/m:generateContent?a=b",
            ),
            ("http://host/v1/", "models/m", false, "http://host/v1/models/m:generateContent"),
            (
                "http://host/vault",
                "tunedModels/x",
                false,
                "http://host/vault/v1beta/tunedModels/x:generateContent",
            ),
            (
                &format!("{vertex}/publishers/google"),
                "gemini-2.5-pro",
                true,
                &format!("{vertex}/publishers/google/models/gemini-2.5-pro:streamGenerateContent?alt=sse"),
            ),
            (vertex, "endpoints/7", false, &format!("{vertex}/endpoints/7:generateContent")),
        ] {
            assert_eq!(at(base_url, model, stream).endpoint().unwrap().as_str(), endpoint);
        }
        let wrong = at("host", "m", true).endpoint().unwrap_err().to_string();
        assert!(wrong.ends_with("write it like https://generativelanguage.googleapis.com/v1beta"), "{wrong}");
    }

    #[test]
    fn the_key_has_a_header_of_its_own_and_a_token_comes_as_a_header() {
        let config = ModelConfig { api_key: Some(" AIza-123456\n".into()), ..at("http://host", "m", true) };
        let headers = config.header_map().unwrap();
        assert_eq!((&headers["x-goog-api-key"], headers.len()), (&"AIza-123456".parse().unwrap(), 1));
        assert!(!format!("{config:?} {headers:?}").contains("123456"));
        let headers = vec![("authorization".into(), "Bearer ya29.secret".into())];
        let vertex = ModelConfig { headers, ..at("https://aiplatform.googleapis.com/v1", "m", true) };
        assert_eq!(vertex.header_map().unwrap()["authorization"], "Bearer ya29.secret");
        assert_eq!((vertex.served_by(), config.served_by()), ("gcp.vertex_ai", "gcp.gemini"));
    }

    #[test]
    fn the_agents_own_fields_cannot_be_replaced() {
        let mut config = at("http://host", "m", true);
        config.extra.insert("contents".into(), Value::Null);
        assert_eq!(config.check(), Err(ConfigError::OwnField("contents".into())));
    }

    #[test]
    fn a_model_is_asked_for_its_own_window() {
        let config = at("http://host", "m", false);
        let places = window(&config, config.endpoint().unwrap()).unwrap();
        assert_eq!((places.list.as_str(), places.own), ("http://host/v1beta/models/m", None));
        let vertex = at("https://europe-west4-aiplatform.googleapis.com/v1", "m", false);
        assert!(window(&vertex, vertex.endpoint().unwrap()).is_none());
    }
}
