//! A web service whose outgoing model calls are guarded: it retries, goes to a second provider, and tells its own callers
//! honestly when nobody can help.
//!
//! `cargo run --example axum_service`
//!
//! No key and no network are needed: both providers are scripts, served over HTTP on this machine. The first is overloaded
//! once, then over its limit, then out of money; the second answers once.

use std::collections::HashMap;
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::RETRY_AFTER;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use serde_json::{Value, json};
use unfazed::engine::{Failure, ReplyHeaders};
use unfazed::host::guard::CallError;
use unfazed::host::scripted::{ErrorReply, Script, ScriptEntry, ScriptOutcome, ScriptedServer};
use unfazed::host::{Clock, Guard, GuardConfig, ModelAttempt};
use unfazed::policy::{ErrorClass, Policy};

const POLICY: &str = "
version: 1
turn: {max_turns: 1000000000}    # each request of the service is a turn of one run
models:
  \"*\":
    retry:
      max_attempts: 3
      deadline: 20s       # nobody waits longer for a web page
      backoff: {kind: exponential, base: 100ms, factor: 2, jitter: full}
      server_delay: {mode: floor, max: 2s, above_max: next_target}
";

/// What every request of the service has at hand. Cheap to clone.
#[derive(Clone)]
struct Service {
    guard: Guard,
    http: reqwest::Client,
    /// Where the models are, by the names the policy knows them by.
    urls: Arc<HashMap<String, String>>,
}

/// `POST /summary`: the body is a text, the answer is a shorter one.
async fn summary(State(service): State<Service>, text: String) -> Response {
    let request =
        json!({"model": "any", "messages": [{"role": "user", "content": format!("Sum up: {text}")}]});
    let turn = service.guard.turn(request);
    let reply = turn.call(|target, request| service.ask(target, request)).await;
    match reply {
        Ok(summary) => summary.into_response(),
        Err(error @ (CallError::Refused(_) | CallError::Run(_))) => {
            (StatusCode::SERVICE_UNAVAILABLE, error.to_string()).into_response()
        }
        Err(CallError::Exhausted(given_up)) => {
            let seconds = given_up.exhausted.retry_after.map_or(60, |wait| wait.to_std().as_secs());
            let why = given_up.exhausted.to_string();
            (StatusCode::SERVICE_UNAVAILABLE, [(RETRY_AFTER, seconds.to_string())], why).into_response()
        }
    }
}

impl Service {
    /// One request to one model, no retries. What comes back is reported as it is; the policy's tables know what it means.
    async fn ask(&self, target: String, request: Value) -> Result<String, Failure> {
        let broken = |error: reqwest::Error| Failure::of(ErrorClass::NetworkError, error.to_string());
        let url = format!("{}/chat/completions", self.urls[&target]);
        let answer = self.http.post(url).json(&request).send().await.map_err(broken)?;
        let status = answer.status();
        let headers =
            ReplyHeaders::new(answer.headers().iter().map(|(name, value)| (name.as_str(), value.as_bytes())));
        let body = answer.bytes().await.map_err(broken)?;
        if !status.is_success() {
            return Err(Failure::from_answer(status.as_u16(), &headers, &body, || Clock::system().now()));
        }
        let reply: Value = serde_json::from_slice(&body)
            .map_err(|error| Failure::of(ErrorClass::ModelError, error.to_string()))?;
        let text = reply["choices"][0]["message"]["content"].as_str().unwrap_or_default();
        if text.is_empty() {
            Err(Failure::of(ErrorClass::EmptyResponse, "no text"))
        } else {
            Ok(text.to_owned())
        }
    }
}

/// What an operator would log.
fn told(attempt: &ModelAttempt) {
    let said = serde_json::to_value(attempt).unwrap_or_default();
    let word = |key: &str| said[key].as_str().unwrap_or("nothing to do");
    println!("  {} attempt {}: {}, {}", word("target"), said["attempt"], word("status"), word("action"));
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let limit = ErrorReply::new(429, "rate_limit_exceeded", "slow down").header("retry-after", "30");
    let main = ScriptedServer::start(
        Script::new(
            "main",
            [
                ScriptEntry::error(503, "overloaded", "try later"),
                ScriptEntry::text("A short text."),
                ScriptEntry::new(ScriptOutcome::Error(limit)),
                ScriptEntry::error(429, "insufficient_quota", "You exceeded your current quota"),
            ],
        ),
        0,
    )
    .await?;
    let spare = ScriptedServer::start(
        Script::new(
            "spare",
            [
                ScriptEntry::text("Another short text."),
                ScriptEntry::error(401, "invalid_api_key", "wrong key"),
            ],
        ),
        0,
    )
    .await?;

    let guard = Guard::new(
        GuardConfig::new(Policy::from_yaml("policy.yaml", POLICY)?)
            .targets(["main", "spare"])
            .on_attempt(told),
    );
    // Only because the TLS of this build is chosen by the program; plain HTTP needs none of it.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let http = reqwest::Client::builder().no_proxy().build()?;
    let urls = [("main", main.base_url()), ("spare", spare.base_url())];
    let urls = Arc::new(urls.map(|(name, url)| (name.to_owned(), url)).into());
    let service = Service { guard, http: http.clone(), urls };

    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}/summary", listener.local_addr()?);
    let router = Router::new().route("/summary", post(summary)).with_state(service);
    tokio::spawn(async move { axum::serve(listener, router).await });

    for text in ["a long text", "a longer text", "the longest text"] {
        println!("POST /summary: {text}");
        let answer = http.post(&url).body(text).send().await?;
        println!("{}: {}", answer.status(), answer.text().await?);
    }
    Ok(())
}
