//! How large a model's window is, asked of the server that serves it.

use std::num::NonZeroU64;
use std::time::Duration;

use futures_util::future::join3;
use reqwest::header::HeaderMap;
use reqwest::{Client, RequestBuilder, Url};
use serde_json::{Value, json};

use super::client::Clients;
use super::config::{AnthropicConfig, ConfigError, OpenAiConfig};
use crate::context::ModelLimits;

/// The most bytes of an answer: that of a router names thousands of models.
const MOST: usize = 16 * 1024 * 1024;
/// Servers that are known not to tell.
const SILENT: &[&str] = &["api.openai.com", "api.deepseek.com", "generativelanguage.googleapis.com"];
/// The fields by which lists of models tell how large a window is, the most certain first.
const WINDOWS: &[&str] = &[
    "max_model_len",
    "loaded_context_length",
    "context_length",
    "context_window",
    "max_context_length",
    "max_input_tokens",
];
/// And how long a reply may be.
const OUTPUTS: &[&str] = &["max_completion_tokens", "max_output_tokens", "max_output_length", "max_tokens"];

/// A question to a server: how large the window of its model is.
///
/// Hosted servers are asked for their list of models, as `OpenRouter` and `vLLM` have one that tells. One that is spoken to
/// without TLS may be one of the user's own: it is also asked as `llama.cpp`, LM Studio and Ollama want it.
pub struct WindowQuestion {
    clients: Clients,
    list: Url,
    /// Where a server of the user's own has its further addresses.
    own: Option<Url>,
    headers: HeaderMap,
    model: String,
}

impl WindowQuestion {
    /// The question to an OpenAI-compatible server; `None`: it is known not to tell.
    ///
    /// # Errors
    /// The configuration cannot be used.
    pub fn of_openai(config: &OpenAiConfig) -> Result<Option<Self>, ConfigError> {
        let mut base = config.endpoint()?;
        if base.host_str().is_some_and(|host| SILENT.contains(&host)) {
            return Ok(None);
        }
        let mut list = base.clone();
        if let Ok(mut path) = list.path_segments_mut() {
            path.pop().pop().push("models");
        }
        let versioned = base.path().ends_with("/v1/chat/completions");
        if let Ok(mut path) = base.path_segments_mut() {
            path.pop().pop();
            if versioned {
                path.pop();
            }
        }
        let own = (base.scheme() == "http").then_some(base);
        let clients = Clients::new(&list)?;
        Ok(Some(Self { clients, list, own, headers: config.header_map()?, model: config.model.clone() }))
    }

    /// The question to a server that speaks Anthropic's format.
    ///
    /// # Errors
    /// The configuration cannot be used.
    pub fn of_anthropic(config: &AnthropicConfig) -> Result<Self, ConfigError> {
        let mut list = config.endpoint()?;
        if let Ok(mut path) = list.path_segments_mut() {
            path.pop().extend(["models", &config.model]);
        }
        let clients = Clients::new(&list)?;
        Ok(Self { clients, list, own: None, headers: config.header_map()?, model: config.model.clone() })
    }

    /// Asks. `None`: the server did not tell, or not in time.
    pub async fn ask(&self, within: Duration) -> Option<ModelLimits> {
        tokio::time::timeout(within, self.answer()).await.ok().flatten()
    }

    async fn answer(&self) -> Option<ModelLimits> {
        let client = self.clients.connecting_within(None).ok()?;
        let listed = self.read(client.get(self.list.clone())).await;
        if let Some(limits) = listed.and_then(|body| listed_model(&body, &self.model)) {
            return Some(limits);
        }
        let own = self.own.as_ref()?;
        let (props, studio, shown) = join3(
            self.read(client.get(under(own, &["props"]))),
            self.read(client.get(under(own, &["api", "v0", "models"]))),
            self.show(&client, own),
        )
        .await;
        let studio = || studio.and_then(|body| listed_model(&body, &self.model));
        props.and_then(|body| of_props(&body)).or_else(studio).or(shown)
    }

    /// As Ollama wants to be asked.
    async fn show(&self, client: &Client, own: &Url) -> Option<ModelLimits> {
        let asked = client.post(under(own, &["api", "show"])).json(&json!({"model": self.model}));
        of_show(&self.read(asked).await?)
    }

    async fn read(&self, request: RequestBuilder) -> Option<Value> {
        let mut response = request.headers(self.headers.clone()).send().await.ok()?;
        if !response.status().is_success() {
            return None;
        }
        let mut body = Vec::new();
        while let Some(bytes) = response.chunk().await.ok()? {
            body.extend_from_slice(&bytes);
            if body.len() > MOST {
                return None;
            }
        }
        serde_json::from_slice(&body).ok()
    }
}

fn under(own: &Url, segments: &[&str]) -> Url {
    let mut url = own.clone();
    if let Ok(mut path) = url.path_segments_mut() {
        path.pop_if_empty().extend(segments);
    }
    url
}

/// What a list of models, or the entry of one, says about a model.
fn listed_model(body: &Value, model: &str) -> Option<ModelLimits> {
    let Some(entries) = body.get("data").and_then(Value::as_array) else { return of_entry(body) };
    let named = |entry: &&Value| {
        ["id", "name"].iter().any(|field| entry.get(*field).and_then(Value::as_str) == Some(model))
    };
    let found = entries.iter().find(named);
    // A server that serves one model answers to any name.
    let only = match entries.as_slice() {
        [only] => Some(only),
        _ => None,
    };
    of_entry(found.or(only)?)
}

fn of_entry(entry: &Value) -> Option<ModelLimits> {
    let top = entry.get("top_provider");
    let places = [top, Some(entry)];
    let first = |fields: &[&str]| {
        let mut found =
            fields.iter().flat_map(|field| places.iter().flatten().map(move |place| place.get(*field)));
        found.find_map(|value| value.and_then(Value::as_u64))
    };
    limits(first(WINDOWS), first(OUTPUTS))
}

/// What `llama.cpp` says of its slots.
fn of_props(body: &Value) -> Option<ModelLimits> {
    let settings = body.get("default_generation_settings");
    let slots = settings.and_then(|settings| settings.get("n_ctx")).or_else(|| body.get("n_ctx"));
    limits(slots.and_then(Value::as_u64), None)
}

/// What Ollama says of a model: what it is run with if that is said, else what it was made for.
fn of_show(body: &Value) -> Option<ModelLimits> {
    let parameters = body.get("parameters").and_then(Value::as_str).unwrap_or_default();
    let run_with =
        parameters.lines().find_map(|line| line.trim().strip_prefix("num_ctx")?.trim().parse().ok());
    let info = body.get("model_info").and_then(Value::as_object);
    let made_for = || {
        let mut info = info.into_iter().flatten();
        info.find(|(name, _)| name.ends_with(".context_length")).and_then(|(_, value)| value.as_u64())
    };
    limits(run_with.or_else(made_for), None)
}

fn limits(window: Option<u64>, output: Option<u64>) -> Option<ModelLimits> {
    let window = window.and_then(NonZeroU64::new)?;
    Some(ModelLimits { window, output: output.filter(|output| *output > 0) })
}
