//! `unfazed serve`, as clients and providers see it.

mod asked_waits;
#[cfg(feature = "postgres")]
mod away;
mod claude_code;
mod converted;
mod demo;
#[cfg(feature = "otlp")]
mod exported;
mod forms;
mod hostile;
mod judged;
mod keys;
mod limits;
mod masked;
mod page;
mod reduced;
mod refused;
mod relayed;
mod reload;
mod repaired;
mod state;
mod stopped;
mod streams;
mod taught;
mod tls;
mod upstream;
mod verified;

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use serde_json::Value;
use tempfile::TempDir;

pub(crate) use self::upstream::{Reply, Upstream};
use crate::command;

/// Quick, and without chance.
const POLICY: &str = "version: 1
models:
  '*':
    retry: {max_attempts: 3, backoff: {kind: constant, delay: 1ms, jitter: none}}
";

/// The gateway.
struct Gateway {
    child: Child,
    url: String,
    http: reqwest::Client,
    folder: TempDir,
    /// What it has said on standard error so far.
    said: Arc<Mutex<Vec<String>>>,
}

/// A connection for each request: one that is kept may end at any time.
fn client() -> reqwest::ClientBuilder {
    reqwest::Client::builder().no_proxy().pool_max_idle_per_host(0)
}

/// An answer of the gateway.
#[derive(Debug)]
struct Answer {
    status: u16,
    headers: reqwest::header::HeaderMap,
    body: String,
}

impl Gateway {
    /// A gateway of that file.
    fn start(file: &str) -> Self {
        Self::under(POLICY, file, &[])
    }

    fn under(policy: &str, file: &str, args: &[&str]) -> Self {
        let folder = folder(policy, file);
        let here: &[&str] = if args.contains(&"--addr") { &[] } else { &["--addr", "127.0.0.1:0"] };
        let all = [&["serve", "gateway.yaml"], here, args].concat();
        Self::spawned(folder, &all)
    }

    /// The gateway of that command.
    fn spawned(folder: TempDir, args: &[&str]) -> Self {
        let command = command::unfazed(folder.path(), args);
        Self::of_command(folder, command)
    }

    fn of_command(folder: TempDir, mut command: Command) -> Self {
        let mut child = command.env("UPSTREAM_KEY", "sk-upstream").stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
        let mut before = Vec::new();
        let url = loop {
            let line = lines.next().unwrap_or_else(|| panic!("{before:?}"));
            match line.strip_prefix("serves  ") {
                Some(url) => break url.to_owned(),
                None => before.push(line),
            }
        };
        let said = Arc::new(Mutex::new(before));
        let later = Arc::clone(&said);
        // What it says later is read, so that it never waits for it.
        std::thread::spawn(move || lines.for_each(|line| later.lock().unwrap().push(line)));
        Self { child, url, http: client().build().unwrap(), folder, said }
    }

    async fn post(&self, path: &str, headers: &[(&str, &str)], body: impl Into<reqwest::Body>) -> Answer {
        let request = self.http.post(format!("{}{path}", self.url)).body(body);
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        Answer::of(request.send().await.unwrap()).await
    }

    async fn get(&self, path: &str, headers: &[(&str, &str)]) -> Answer {
        let request = self.http.get(format!("{}{path}", self.url));
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        Answer::of(request.send().await.unwrap()).await
    }

    /// Waits until it turns requests away.
    async fn wait_until_stopping(&self) {
        loop {
            let asked = self.http.get(format!("{}/healthz", self.url)).send().await;
            if asked.is_ok_and(|answer| answer.status().as_u16() == 503) {
                return;
            }
        }
    }

    /// A chat with the route `main`.
    async fn chat(&self) -> Answer {
        self.post(CHAT, &[], r#"{"model":"main","messages":[{"role":"user","content":"hi"}]}"#).await
    }

    /// Its address without the scheme.
    fn address(&self) -> &str {
        self.url.split_once("://").unwrap().1
    }

    fn signal(&self, signal: &str) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args([signal, &id]).status().unwrap().success());
    }
}

impl Answer {
    async fn of(response: reqwest::Response) -> Self {
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        Self { status, headers, body: response.text().await.unwrap() }
    }

    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("{self:?}"))
    }

    /// Attempts, the last target and the class of the last failure.
    fn told(&self) -> (&str, &str, &str) {
        (self.header("x-unfazed-attempts"), self.header("x-unfazed-target"), self.header("x-unfazed-class"))
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const CHAT: &str = "/v1/chat/completions";
const MESSAGES: &str = "/v1/messages";
const RESPONSES: &str = "/v1/responses";

/// A folder with the files of a gateway.
fn folder(policy: &str, file: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("policy.yaml"), policy).unwrap();
    let file = format!("version: 1\npolicy: policy.yaml\n{file}");
    std::fs::write(folder.path().join("gateway.yaml"), file).unwrap();
    folder
}

/// A model at that upstream.
fn model(name: &str, api: &str, upstream: &Upstream) -> String {
    format!(
        "  {name}: {{api: {api}, base_url: '{}', model: real-{name}, api_key: {{env: UPSTREAM_KEY}}}}\n",
        upstream.base_url()
    )
}

/// A file with one model, which the route `main` leads to.
fn one(api: &str, upstream: &Upstream) -> String {
    format!("models:\n{}routes: {{main: main}}\n", model("main", api, upstream))
}

/// An answer of a chat.
fn said(text: &str) -> String {
    format!(
        r#"{{"id":"c1","object":"chat.completion","choices":[{{"index":0,"message":{{"role":"assistant","content":"{text}"}},"finish_reason":"stop"}}],"usage":{{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}}}"#
    )
}
