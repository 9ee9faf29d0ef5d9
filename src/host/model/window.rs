//! How large a model's window is, asked of the server that serves it.

use std::num::NonZeroU64;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::join4;
use reqwest::header::{ACCEPT_ENCODING, HeaderMap};
use reqwest::{Client, RequestBuilder, Url};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use super::body::{ACCEPTED, HttpBody};
use super::client::HttpClients;
use super::config::{ModelConfig, WindowPlaces};
use super::headers::ConfigError;
use super::renewed::RequestKey;
use super::wire::without_mark;
use crate::context::ModelLimits;

/// The most bytes of an answer: that of a router names thousands of models.
const MOST: usize = 16 * 1024 * 1024;
/// What Ollama gives a model of which nobody says more, on a machine with little memory.
const OLLAMAS_OWN: u64 = 4096;
/// The fields by which lists of models tell how large a window is, the most certain first.
// vLLM; LM Studio of a model it has loaded; OpenRouter; Groq; LM Studio of one it has not; Anthropic; Gemini.
const WINDOWS: &[&str] = &[
    "max_model_len",
    "loaded_context_length",
    "context_length",
    "context_window",
    "max_context_length",
    "max_input_tokens",
    "inputTokenLimit",
];
/// And how long a reply may be.
const OUTPUTS: &[&str] =
    &["max_completion_tokens", "max_output_tokens", "max_output_length", "max_tokens", "outputTokenLimit"];

/// A question to a server: how large the window of its model is.
///
/// Hosted servers are asked for their list of models, as `OpenRouter` and `vLLM` have one that tells. One that is spoken to
/// without TLS may be one of the user's own: it is also asked as `llama.cpp`, LM Studio and Ollama want it.
pub struct WindowQuestion {
    clients: HttpClients,
    list: Url,
    /// Where a server of the user's own has its further addresses.
    own: Option<Url>,
    headers: HeaderMap,
    /// The key, if it is asked for again.
    key: Option<RequestKey>,
    model: String,
}

// Without the headers, which have keys.
crate::debug_parts!(|this: WindowQuestion| host: this.list.host_str(), model: this.model);

impl WindowQuestion {
    /// The question to the server of a model; `None`: it is known not to tell.
    ///
    /// # Errors
    /// The configuration cannot be used.
    pub fn new(config: &ModelConfig) -> Result<Option<Self>, ConfigError> {
        let endpoint = config.endpoint()?;
        let Some(WindowPlaces { list, own }) = (config.provider.window)(config, endpoint) else {
            return Ok(None);
        };
        let clients = HttpClients::new(&list)?;
        let (headers, key) = (config.header_map()?, config.keyed().map(RequestKey::new));
        Ok(Some(Self { clients, list, own, headers, key, model: config.model.clone() }))
    }

    /// Asks. `None`: the server did not tell, or not in time. What others have found with the same `pages` is not asked
    /// again.
    pub async fn ask(&self, within: Duration, pages: &WindowPages) -> Option<ModelLimits> {
        tokio::time::timeout(within, self.answer(pages)).await.ok().flatten()
    }

    async fn answer(&self, pages: &WindowPages) -> Option<ModelLimits> {
        let client = self.clients.connecting_within(None).ok()?;
        let mut headers = self.headers.clone();
        if let Some(key) = &self.key {
            // Without one the first request says what is wrong.
            key.set(&key.current().await.ok()?, &mut headers);
        }
        let get = |url: Url| pages.page(&client, url, &headers);
        // The list tells at most servers, so the other pages are asked only where it does not.
        let listed = get(self.list.clone()).await;
        if let Some(limits) = listed.and_then(|body| listed_model(&body, &self.model)) {
            return Some(limits);
        }
        let own = self.own.as_ref()?;
        // Asked at once, because a run waits for the answer.
        let (props, studio, running, shown) = join4(
            get(under(own, &["props"])),
            get(under(own, &["api", "v0", "models"])),
            get(under(own, &["api", "ps"])),
            self.show(&client, own, &headers),
        )
        .await;
        let studio = || studio.and_then(|body| listed_model(&body, &self.model));
        let running = || running.and_then(|body| of_running(&body, &self.model));
        let shown = || shown.and_then(|body| of_show(&body, &self.model));
        props.and_then(|body| of_props(&body)).or_else(studio).or_else(running).or_else(shown)
    }

    /// As Ollama wants to be asked.
    async fn show(&self, client: &Client, own: &Url, headers: &HeaderMap) -> Option<Value> {
        let asked = client.post(under(own, &["api", "show"])).json(&json!({"model": self.model}));
        read(asked.headers(headers.clone())).await
    }
}

/// What servers answered: models of one server, and of several agents of a process, ask it once.
#[derive(Default)]
pub struct WindowPages(Mutex<Vec<WindowPage>>);

/// One page, for whoever asks with these headers.
struct WindowPage {
    url: Url,
    headers: HeaderMap,
    body: Arc<OnceCell<Option<Arc<Value>>>>,
}

// Without the headers, which have keys.
crate::debug_parts!(|this: WindowPages|);

impl WindowPages {
    async fn page(&self, client: &Client, url: Url, headers: &HeaderMap) -> Option<Arc<Value>> {
        let body = self.cell(&url, headers);
        let ask = || async { read(client.get(url).headers(headers.clone())).await.map(Arc::new) };
        // Agents of one process that begin together share one request.
        body.get_or_init(ask).await.clone()
    }

    fn cell(&self, url: &Url, headers: &HeaderMap) -> Arc<OnceCell<Option<Arc<Value>>>> {
        let mut pages = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = pages.iter().find(|page| page.url == *url && page.headers == *headers);
        if let Some(page) = known {
            return Arc::clone(&page.body);
        }
        let body = Arc::default();
        pages.push(WindowPage { url: url.clone(), headers: headers.clone(), body: Arc::clone(&body) });
        body
    }
}

async fn read(request: RequestBuilder) -> Option<Value> {
    let response = request.header(ACCEPT_ENCODING, ACCEPTED).send().await.ok()?;
    if !response.status().is_success() {
        return None;
    }
    let mut coded = HttpBody::of(response).ok()?;
    let mut body = Vec::new();
    while let Some(bytes) = coded.chunk().await.ok()? {
        body.extend_from_slice(&bytes);
        if body.len() > MOST {
            return None;
        }
    }
    serde_json::from_slice(without_mark(&body)).ok()
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
    // OpenRouter says under `top_provider` what is served, and next to it what the model was made for.
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
    // llama.cpp divides its context among slots, and a request has one of them.
    let slots = settings.and_then(|settings| settings.get("n_ctx")).or_else(|| body.get("n_ctx"));
    limits(slots.and_then(Value::as_u64), None)
}

/// What Ollama says of the models it runs: how much context each has.
fn of_running(body: &Value, model: &str) -> Option<ModelLimits> {
    let entries = body.get("models").and_then(Value::as_array)?;
    // Ollama adds `:latest` to a name without a tag.
    let is_meant = |name: &str| name == model || name.strip_suffix(":latest") == Some(model);
    let found = entries.iter().find(|entry| {
        ["name", "model"].iter().any(|field| entry.get(*field).and_then(Value::as_str).is_some_and(is_meant))
    });
    limits(found?.get("context_length").and_then(Value::as_u64), None)
}

/// What Ollama says of a model it does not run yet: what it is to be run with if that is said. What it was made for it
/// only has in the cloud; on a machine of one's own it has what Ollama gives by itself, and cuts what is longer without
/// saying so.
fn of_show(body: &Value, model: &str) -> Option<ModelLimits> {
    let parameters = body.get("parameters").and_then(Value::as_str).unwrap_or_default();
    // What a Modelfile says (`PARAMETER num_ctx`) is what the model runs with.
    let run_with =
        parameters.lines().find_map(|line| line.trim().strip_prefix("num_ctx")?.trim().parse().ok());
    let info = body.get("model_info").and_then(Value::as_object);
    let made_for = || {
        let mut info = info.into_iter().flatten();
        let (_, most) = info.find(|(name, _)| name.ends_with(".context_length"))?;
        let most = most.as_u64()?;
        Some(if model.ends_with("cloud") { most } else { most.min(OLLAMAS_OWN) })
    };
    limits(run_with.or_else(made_for), None)
}

fn limits(window: Option<u64>, output: Option<u64>) -> Option<ModelLimits> {
    let window = window.and_then(NonZeroU64::new)?;
    Some(ModelLimits { window, output: output.filter(|output| *output > 0) })
}
