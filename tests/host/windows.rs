//! How large a model's window is, asked over real HTTP of servers that answer as the real ones do.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use unfazed::host::{ModelConfig, Provider, WindowPages, WindowQuestion};

use crate::command;

const LONG: Duration = Duration::from_secs(20);

/// A server on loopback that knows some paths, and what it was asked.
struct Server {
    address: String,
    asked: Arc<Mutex<Vec<String>>>,
}

/// Whether a request has come with all of its body.
fn is_whole(request: &str) -> bool {
    let Some((head, body)) = request.split_once("\r\n\r\n") else { return false };
    let head = head.to_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok());
    body.len() >= length.unwrap_or(0_usize)
}

impl Server {
    /// `pages`: a request line without its version, and the body of the answer.
    async fn with(pages: &'static [(&'static str, &'static str)]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&asked);
        tokio::spawn(async move {
            while let Ok((mut socket, _)) = listener.accept().await {
                let log = Arc::clone(&log);
                tokio::spawn(async move {
                    let mut request = String::new();
                    let mut bytes = vec![0; 8192];
                    while !is_whole(&request) {
                        match socket.read(&mut bytes).await {
                            Ok(length @ 1..) => request += &String::from_utf8_lossy(&bytes[..length]),
                            _ => break,
                        }
                    }
                    let line = request.lines().next().unwrap_or_default().replace(" HTTP/1.1", "");
                    log.lock().unwrap().push(request);
                    let page = pages.iter().find(|(known, _)| *known == line);
                    let (status, body) = page.map_or(("404 Not Found", "{}"), |(_, body)| ("200 OK", *body));
                    let length = body.len();
                    let head = format!(
                        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n"
                    );
                    let _ = socket.write_all((head + body).as_bytes()).await;
                });
            }
        });
        Self { address, asked }
    }

    fn openai(&self, model: &str) -> ModelConfig {
        ModelConfig {
            base_url: format!("http://{}/v1", self.address),
            api_key: Some("sk-test".into()),
            ..ModelConfig::new(Provider::OPENAI, model)
        }
    }

    /// What an OpenAI-compatible server says of a model: its window, and the most tokens of a reply.
    async fn says(&self, model: &str) -> Option<(u64, Option<u64>)> {
        let question = WindowQuestion::new(&self.openai(model)).unwrap().unwrap();
        question.ask(LONG, &WindowPages::default()).await.map(|limits| (limits.window.get(), limits.output))
    }
}

#[tokio::test]
async fn openrouter_tells_in_its_list_of_models() {
    let server = Server::with(&[(
        "GET /v1/models",
        r#"{"data": [
            {"id": "openai/gpt-4.1", "context_length": 1047576, "top_provider": {"context_length": 1047576, "max_completion_tokens": 32768, "is_moderated": true}},
            {"id": "meta-llama/llama-3.3-70b-instruct", "context_length": 131072, "top_provider": {"context_length": 65536, "max_completion_tokens": null}}
        ]}"#,
    )])
    .await;
    assert_eq!(server.says("openai/gpt-4.1").await, Some((1_047_576, Some(32_768))));
    assert_eq!(server.says("meta-llama/llama-3.3-70b-instruct").await, Some((65_536, None)));
    assert_eq!(server.says("nobody/knows").await, None);
    let asked = server.asked.lock().unwrap();
    assert!(asked[0].to_lowercase().contains("authorization: bearer sk-test"), "{}", asked[0]);
}

#[tokio::test]
async fn vllm_tells_how_long_its_only_model_may_be() {
    let server = Server::with(&[(
        "GET /v1/models",
        r#"{"object": "list", "data": [{"id": "/models/qwen", "object": "model", "owned_by": "vllm", "root": "/models/qwen", "parent": null, "max_model_len": 40960, "permission": []}]}"#,
    )])
    .await;
    assert_eq!(server.says("qwen").await, Some((40_960, None)));
    assert_eq!(server.asked.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn llama_cpp_tells_what_a_slot_has_and_not_what_the_model_was_made_for() {
    let server = Server::with(&[
        (
            "GET /v1/models",
            r#"{"object": "list", "data": [{"id": "gemma.gguf", "object": "model", "owned_by": "llamacpp", "meta": {"vocab_type": 1, "n_vocab": 262144, "n_ctx_train": 131072, "n_embd": 2560}}]}"#,
        ),
        (
            "GET /props",
            r#"{"default_generation_settings": {"id": 0, "n_ctx": 8192, "speculative": false, "params": {"n_predict": -1}}, "total_slots": 1, "model_path": "gemma.gguf"}"#,
        ),
    ])
    .await;
    assert_eq!(server.says("gemma.gguf").await, Some((8192, None)));
}

const OLLAMAS_LIST: (&str, &str) = (
    "GET /v1/models",
    r#"{"object": "list", "data": [{"id": "llama3.2:latest", "object": "model", "owned_by": "library"}]}"#,
);

#[tokio::test]
async fn ollama_tells_what_a_model_runs_with() {
    let server = Server::with(&[
        OLLAMAS_LIST,
        (
            "GET /api/ps",
            r#"{"models": [
                {"name": "qwen3:8b", "model": "qwen3:8b", "context_length": 32768},
                {"name": "llama3.2:latest", "model": "llama3.2:latest", "size_vram": 5333539264, "context_length": 8192}
            ]}"#,
        ),
        ("POST /api/show", r#"{"parameters": "num_ctx 16384", "model_info": {"llama.context_length": 131072}}"#),
    ])
    .await;
    assert_eq!(server.says("llama3.2").await, Some((8192, None)));
    assert_eq!(server.says("qwen3:8b").await, Some((32_768, None)));
}

#[tokio::test]
async fn ollama_tells_what_a_model_is_to_run_with_if_it_does_not_run_yet() {
    let server = Server::with(&[
        OLLAMAS_LIST,
        ("GET /api/ps", r#"{"models": []}"#),
        (
            "POST /api/show",
            r#"{"parameters": "num_ctx                        16384\nstop                           \"<|eot_id|>\"", "model_info": {"general.architecture": "llama", "llama.context_length": 131072}}"#,
        ),
    ])
    .await;
    assert_eq!(server.says("llama3.2").await, Some((16_384, None)));
    let shown = server.asked.lock().unwrap().iter().find(|asked| asked.starts_with("POST")).cloned();
    assert!(shown.unwrap().contains(r#"{"model":"llama3.2"}"#));
}

// Ollama cuts a longer request without a word, so what the model was made for is not believed.
#[tokio::test]
async fn a_model_of_which_ollama_says_no_more_has_what_ollama_gives_by_itself() {
    let made_for = Server::with(&[(
        "POST /api/show",
        r#"{"model_info": {"general.architecture": "qwen3", "qwen3.context_length": 40960, "qwen3.block_count": 36}}"#,
    )])
    .await;
    assert_eq!(made_for.says("qwen3").await, Some((4096, None)));
    assert_eq!(made_for.says("qwen3:480b-cloud").await, Some((40_960, None)));
}

#[tokio::test]
async fn models_of_one_server_ask_for_its_list_once() {
    let server = Server::with(&[(
        "GET /v1/models",
        r#"{"data": [{"id": "a", "context_length": 1000}, {"id": "b", "context_length": 2000}]}"#,
    )])
    .await;
    let pages = WindowPages::default();
    let ask = |model: &str| {
        let question = WindowQuestion::new(&server.openai(model)).unwrap().unwrap();
        let pages = &pages;
        async move { question.ask(LONG, pages).await.map(|limits| limits.window.get()) }
    };
    assert_eq!(tokio::join!(ask("a"), ask("b")), (Some(1000), Some(2000)));
    assert_eq!(server.asked.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn lm_studio_tells_with_how_much_a_model_is_loaded() {
    let server = Server::with(&[
        ("GET /v1/models", r#"{"data": [{"id": "qwen2.5-7b", "object": "model"}, {"id": "other", "object": "model"}]}"#),
        (
            "GET /api/v0/models",
            r#"{"object": "list", "data": [
                {"id": "qwen2.5-7b", "type": "llm", "state": "loaded", "max_context_length": 131072, "loaded_context_length": 4096},
                {"id": "other", "type": "llm", "state": "not-loaded", "max_context_length": 32768}
            ]}"#,
        ),
    ])
    .await;
    assert_eq!(server.says("qwen2.5-7b").await, Some((4096, None)));
    assert_eq!(server.says("other").await, Some((32_768, None)));
}

#[tokio::test]
async fn anthropic_tells_of_one_model_at_a_time() {
    let server = Server::with(&[(
        "GET /v1/models/claude-sonnet-4-5",
        r#"{"type": "model", "id": "claude-sonnet-4-5", "display_name": "Claude Sonnet 4.5", "max_input_tokens": 200000, "max_tokens": 64000}"#,
    )])
    .await;
    let config = ModelConfig {
        base_url: format!("http://{}", server.address),
        ..ModelConfig::new(Provider::ANTHROPIC, "claude-sonnet-4-5")
    };
    let limits =
        WindowQuestion::new(&config).unwrap().unwrap().ask(LONG, &WindowPages::default()).await.unwrap();
    assert_eq!((limits.window.get(), limits.output), (200_000, Some(64_000)));
}

#[tokio::test]
async fn a_server_of_the_users_own_may_stand_behind_a_path() {
    let server =
        Server::with(&[("GET /llm/props", r#"{"default_generation_settings": {"n_ctx": 2048}}"#)]).await;
    let base_url = format!("http://{}/llm/v1/", server.address);
    let config = ModelConfig { base_url, ..server.openai("m") };
    let limits = WindowQuestion::new(&config).unwrap().unwrap().ask(LONG, &WindowPages::default()).await;
    assert_eq!(limits.map(|limits| limits.window.get()), Some(2048));
}

#[tokio::test]
async fn what_a_server_says_that_is_no_window_is_not_taken() {
    for pages in [
        &[("GET /v1/models", "not json")][..],
        &[("GET /v1/models", r#"{"data": [{"id": "m", "max_model_len": 0}]}"#)],
        &[("GET /v1/models", r#"{"data": [{"id": "m", "max_model_len": -5, "context_length": "many"}]}"#)],
        &[("GET /props", "[]"), ("POST /api/show", r#"{"parameters": "num_ctx many", "model_info": []}"#)],
        &[],
    ] {
        assert_eq!(Server::with(pages).await.says("m").await, None, "{pages:?}");
    }
}

#[tokio::test]
async fn who_does_not_answer_in_time_is_not_waited_for() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base_url = format!("http://{}/v1", listener.local_addr().unwrap());
    let config = ModelConfig { base_url, ..ModelConfig::new(Provider::OPENAI, "m") };
    let question = WindowQuestion::new(&config).unwrap().unwrap();
    let began = Instant::now();
    assert_eq!(question.ask(Duration::from_millis(50), &WindowPages::default()).await, None);
    assert!(began.elapsed() < LONG);
}

#[test]
fn a_server_that_is_known_not_to_tell_is_not_asked() {
    let asked = |base_url: &str| {
        let config = ModelConfig { base_url: base_url.into(), ..ModelConfig::new(Provider::OPENAI, "m") };
        WindowQuestion::new(&config).unwrap().is_some()
    };
    assert!(!asked("https://api.openai.com/v1") && !asked("https://desk.openai.azure.com/openai/v1"));
    assert!(asked("https://openrouter.ai/api/v1") && asked("http://api.openai.com.local/v1"));
}

/// Runs an agent whose model is on that server; the windows its run began with, and everything it said.
async fn run(server: &Server, more: &str, entry: &str) -> (serde_json::Value, String) {
    let folder = tempfile::tempdir().unwrap();
    let agent = format!(
        "version: 1\ntask: Say hello.\n{more}models:\n  main: {{api: openai, base_url: 'http://{}/v1', model: m, stream: false{entry}}}\n",
        server.address
    );
    std::fs::write(folder.path().join("agent.yaml"), agent).unwrap();
    std::fs::write(folder.path().join("models.json"), r#"{"m": {"max_input_tokens": 6000}}"#).unwrap();
    std::fs::write(folder.path().join("policy.yaml"), "version: 1\nmodels: {main: {context_window: 5000}}\n")
        .unwrap();
    let run = tokio::task::spawn_blocking(move || {
        command::unfazed(folder.path(), &["run", "agent.yaml", "--format", "json"]).output().unwrap()
    });
    let output = run.await.unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let mut lines = said.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let started = lines.find(|line| line.to_string().contains("run_started")).unwrap_or_default();
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    (started["windows"].clone(), said)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_begins_with_the_windows_and_who_told_of_them() {
    use serde_json::json;
    let server = Server::with(&[
        ("GET /v1/models", r#"{"data": [{"id": "m", "max_model_len": 4096}]}"#),
        (
            "POST /v1/chat/completions",
            r#"{"choices": [{"message": {"role": "assistant", "content": "Hello."}, "finish_reason": "stop"}]}"#,
        ),
    ])
    .await;
    let of = |tokens: u64, source: &str| json!({"main": {"tokens": tokens, "source": source}});
    assert_eq!(run(&server, "", "").await.0, of(4096, "server"));
    assert_eq!(run(&server, "policy: policy.yaml\n", "").await.0, of(5000, "policy"));
    assert_eq!(run(&server, "model_windows: models.json\n", ", ask_window: false").await.0, of(6000, "file"));
    let (windows, said) = run(&server, "", ", ask_window: false").await;
    assert_eq!(windows, of(32_768, "assumed"));
    assert!(said.contains("the size of the window of `main` is unknown; 32768 tokens are assumed"), "{said}");
    // The server is asked once: not where the policy says it, and not where it is not to be asked.
    let asked = server.asked.lock().unwrap();
    assert_eq!(asked.iter().filter(|asked| asked.starts_with("GET")).count(), 1);
}
