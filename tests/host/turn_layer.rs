//! Guards as a layer of tower services: what a stack of services sees of the policy.

use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::post;
use serde_json::{Value, json};
use tokio::time::Instant;
use tower::limit::ConcurrencyLimitLayer;
use tower::{Service, ServiceBuilder, ServiceExt, service_fn};
use unfazed::engine::{Failure, ReplyHeaders, WaitHint};
use unfazed::host::guard::{CallError, TurnAttempt, TurnLayer, TurnService};
use unfazed::host::scripted::{Script, ScriptEntry, ScriptedServer};
use unfazed::host::{Clock, Guard, GuardConfig, ModelAttempt};
use unfazed::policy::{ErrorClass, Policy};
use unfazed::session::Usage;
use unfazed::time::Nanos;

const POLICY: &str = "
version: 1
models:
  '*': {retry: {max_attempts: 3, backoff: {kind: constant, delay: 2s, jitter: none}}}
";

fn config() -> GuardConfig {
    GuardConfig::new(Policy::from_yaml("policy.yaml", POLICY).unwrap()).targets(["main", "spare"])
}

#[tokio::test(start_paused = true)]
async fn a_call_is_retried_after_the_wait_of_the_policy_or_of_the_server() {
    let begun = Instant::now();
    let model = service_fn(|attempt: TurnAttempt<&'static str>| async move {
        match attempt.call.attempt {
            1 => Err(Failure::of(ErrorClass::Overloaded, "busy")),
            2 => Err(Failure {
                retry_after: WaitHint::Wait(Nanos::from_secs(7)),
                ..Failure::of(ErrorClass::RateLimit, "slow down")
            }),
            attempt_number => Ok(format!("{} of attempt {attempt_number}", attempt.request)),
        }
    });
    let mut service = ServiceBuilder::new().layer(TurnLayer::new(Guard::new(config()))).service(model);
    let answer = service.ready().await.unwrap().call("the answer").await.unwrap();
    assert_eq!(answer, "the answer of attempt 3");
    assert_eq!(begun.elapsed().as_secs(), 2 + 7);
}

#[tokio::test(start_paused = true)]
async fn attempts_that_are_used_up_end_with_those_at_the_last_model() {
    let model =
        service_fn(|_: TurnAttempt<()>| async move { Err::<(), _>((ErrorClass::NetworkError, "reset")) });
    let mut service = ServiceBuilder::new().layer(TurnLayer::new(Guard::new(config()))).service(model);
    let error = service.ready().await.unwrap().call(()).await.unwrap_err();
    let CallError::Exhausted(given_up) = error else { panic!("{error:?}") };
    assert_eq!(given_up.exhausted.action, "model spare");
    assert_eq!(given_up.exhausted.attempts.len(), 3, "{:?}", given_up.exhausted);
    assert_eq!(given_up.last, Some((ErrorClass::NetworkError, "reset")));
}

/// A layer below that lets one call through at a time: an attempt waits for it, and holds it no longer than the call.
#[tokio::test(start_paused = true)]
async fn attempts_wait_until_the_service_below_is_ready() {
    let running = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&running);
    let model = service_fn(move |attempt: TurnAttempt<u32>| {
        let running = Arc::clone(&counted);
        async move {
            assert_eq!(running.fetch_add(1, Ordering::SeqCst), 0, "two calls at once");
            tokio::time::sleep(Duration::from_secs(1)).await;
            running.fetch_sub(1, Ordering::SeqCst);
            if attempt.call.attempt == 1 { Err((ErrorClass::Timeout, "late")) } else { Ok(attempt.request) }
        }
    });
    let service = ServiceBuilder::new()
        .layer(TurnLayer::new(Guard::new(config())))
        .layer(ConcurrencyLimitLayer::new(1))
        .service(model);
    let calls = (0..4).map(|number| service.clone().oneshot(number));
    let answers = futures_util::future::try_join_all(calls).await.unwrap();
    assert_eq!(answers, [0, 1, 2, 3]);
}

#[tokio::test]
async fn tokens_of_responses_are_recorded() {
    let records = Arc::new(Mutex::new(Vec::<ModelAttempt>::new()));
    let sink = Arc::clone(&records);
    let guard = Guard::new(config().on_attempt(move |attempt| sink.lock().unwrap().push(attempt.clone())));
    let layer =
        TurnLayer::new(guard).usage(|tokens: &u64| Some(Usage { input: *tokens, ..Usage::default() }));
    let model = service_fn(|attempt: TurnAttempt<u64>| async move { Ok::<_, Failure>(attempt.request) });
    let mut service = ServiceBuilder::new().layer(layer).service(model);
    assert_eq!(service.ready().await.unwrap().call(41).await.unwrap(), 41);
    let records = records.lock().unwrap();
    assert_eq!(records[0].input_tokens, Some(41), "{records:?}");
}

/// What a program with clients of its own has: a service that sends a request to the model that is due.
#[derive(Clone)]
struct HttpClient {
    http: reqwest::Client,
    main: String,
    spare: String,
}

impl Service<TurnAttempt<Value>> for HttpClient {
    type Response = Value;
    type Error = Failure;
    type Future = Pin<Box<dyn Future<Output = Result<Value, Failure>> + Send>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, attempt: TurnAttempt<Value>) -> Self::Future {
        let base = if attempt.call.target == "main" { &self.main } else { &self.spare };
        let request = self.http.post(format!("{base}/chat/completions")).json(&attempt.request);
        Box::pin(async move {
            let broken = |error: reqwest::Error| Failure::of(ErrorClass::NetworkError, error.to_string());
            let answer = request.send().await.map_err(broken)?;
            let (status, headers) = (answer.status(), answer.headers().clone());
            let body = answer.bytes().await.map_err(broken)?;
            if status.is_success() {
                return serde_json::from_slice(&body)
                    .map_err(|error| Failure::of(ErrorClass::ModelError, error.to_string()));
            }
            let headers =
                ReplyHeaders::new(headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())));
            Err(Failure::from_answer(status.as_u16(), &headers, &body, || Clock::system().now()))
        })
    }
}

/// A handler of a web service that asks a model through the layer.
async fn ask(
    State(service): State<TurnService<HttpClient, Value>>,
    text: String,
) -> Result<String, (StatusCode, String)> {
    let request = json!({"model": "any", "messages": [{"role": "user", "content": text}]});
    let reply = service.oneshot(request).await;
    let reply = reply.map_err(|error| (StatusCode::SERVICE_UNAVAILABLE, error.to_string()))?;
    Ok(reply["choices"][0]["message"]["content"].as_str().unwrap_or_default().to_owned())
}

async fn provider(name: &str, entries: Vec<ScriptEntry>) -> ScriptedServer {
    ScriptedServer::start(Script::new(name, entries), 0).await.unwrap()
}

/// Over HTTP at both sides: what the first provider says of its quota leads to the second, and when that is of no use either, the
/// caller of the web service reads why.
#[tokio::test]
async fn a_web_service_asks_models_through_the_layer() {
    let quota = || ScriptEntry::error(429, "insufficient_quota", "You exceeded your current quota");
    let main = provider("main", vec![quota(), quota()]).await;
    let spare = provider(
        "spare",
        vec![ScriptEntry::text("42"), ScriptEntry::error(401, "invalid_api_key", "wrong key")],
    )
    .await;
    let (main, spare) = (main.base_url(), spare.base_url());
    let _ = rustls::crypto::ring::default_provider().install_default();
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    let client = HttpClient { http, main, spare };
    let service = ServiceBuilder::new().layer(TurnLayer::new(Guard::new(config()))).service(client);
    let mut router = Router::new().route("/ask", post(ask)).with_state(service);
    let mut answer = async |text: &'static str| {
        let request = http::Request::post("/ask").body(axum::body::Body::from(text)).unwrap();
        let answer = router.call(request).await.unwrap();
        let status = answer.status();
        let body = axum::body::to_bytes(answer.into_body(), 4096).await.unwrap();
        (status, String::from_utf8(body.to_vec()).unwrap())
    };
    assert_eq!(answer("first").await, (StatusCode::OK, "42".to_owned()));
    let (status, why) = answer("second").await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    // The first one is in cooldown: it is asked last, and is as much out of money as before.
    assert!(why.contains("model main") && why.contains("exceeded your current quota"), "{why}");
}

/// A service that cannot be shared between threads, only sent, is enough, as boxed services are.
#[tokio::test]
async fn a_boxed_service_is_enough() {
    let model = service_fn(|attempt: TurnAttempt<u8>| async move { Ok::<_, Failure>(attempt.request + 1) });
    let boxed = tower::util::BoxCloneService::new(model);
    let service = ServiceBuilder::new().layer(TurnLayer::new(Guard::new(config()))).service(boxed);
    assert_eq!(tokio::spawn(service.oneshot(1)).await.unwrap().unwrap(), 2);
}
