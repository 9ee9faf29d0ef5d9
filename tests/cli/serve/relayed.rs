//! Requests that are relayed, and what the policy makes of their failures.

use super::{CHAT, Gateway, MESSAGES, RESPONSES, Reply, Upstream, model, one, said};

#[tokio::test]
async fn every_byte_passes_but_the_name_of_the_model_and_the_keys() {
    let body =
        "{\"model\" :\"real-main\" , \"messages\":[], \"x_new\":1e400, \"x_new\":1, \"é\":\"\\u00e9\"}\n";
    let answer = "{\"choices\": [{\"message\":{\"role\":\"assistant\",\"content\":\"a\",\"x\":1},\"finish_reason\":\"stop\"}] ,\"x\" : 1.50}\n";
    let upstream = Upstream::start([Reply::json(200, "x-request-id: r1\r\nset-cookie: a=b\r\n", answer)]);
    let gateway = Gateway::start(&one("openai", &upstream));
    let headers = [
        ("authorization", "Bearer of-the-client"),
        ("cookie", "secret"),
        ("anthropic-beta", "new"),
        ("x-other", "1"),
    ];
    let asked = body.replace("real-main", "main");
    let got = gateway.post(CHAT, &headers, asked).await;
    assert_eq!((got.status, &*got.body, got.told()), (200, answer, ("1", "main", "")));
    assert_eq!((got.header("x-request-id"), got.header("set-cookie")), ("r1", ""));
    let seen = upstream.seen().remove(0);
    assert_eq!(upstream.bodies(), [body]);
    assert!(seen.starts_with("POST /v1/chat/completions HTTP/1.1\r\n"), "{seen}");
    assert!(seen.contains("authorization: Bearer sk-upstream\r\n"), "{seen}");
    assert!(
        seen.contains("anthropic-beta: new\r\n") && seen.contains("accept-encoding: identity\r\n"),
        "{seen}"
    );
    for other in ["of-the-client", "cookie", "x-other"] {
        assert!(!seen.contains(other), "{seen}");
    }
}

#[tokio::test]
async fn roles_parallel_calls_and_marks_for_a_cache_pass_as_they_are() {
    let chat = r#"{"messages" :[{"role":"developer","content":[{"type":"text","text":"Be brief.","cache_control":{"type":"ephemeral"}}]},
        {"role":"user","content":"go"}],"parallel_tool_calls":false,"prompt_cache_key":"k","prompt_cache_options":{"mode":"explicit"},
        "tools":[{"type":"function","function":{"name":"look"},"cache_control":{"type":"ephemeral"}}],"model":"real-main"}"#;
    let messages = r#"{"model":"real-main","max_tokens":9,"cache_control":{"type":"ephemeral"},"system":[{"type":"text","text":"s",
        "cache_control":{"type":"ephemeral","ttl":"1h"}}],"tool_choice":{"type":"auto","disable_parallel_tool_use":true},
        "messages":[{"role":"user","content":[{"type":"text","text":"go","cache_control":{"type":"ephemeral"}}]}]}"#;
    let responses = r#"{"model":"real-main","prompt_cache_key":"k","prompt_cache_retention":"24h","parallel_tool_calls":false,
        "input":[{"role":"developer","content":"Be brief."},{"role":"user","content":"go"}]}"#;
    for (api, path, body) in
        [("openai", CHAT, chat), ("anthropic", MESSAGES, messages), ("responses", RESPONSES, responses)]
    {
        let upstream = Upstream::start([Reply::json(400, "", r#"{"error":{"message":"enough"}}"#)]);
        let gateway = Gateway::start(&one(api, &upstream));
        let got = gateway.post(path, &[], body.replace("real-main", "main")).await;
        assert_eq!((got.status, got.header("x-unfazed-left-out")), (400, ""), "{api} {got:?}");
        assert_eq!(upstream.bodies(), [body], "{api}");
    }
}

#[tokio::test]
async fn what_passes_is_sent_again_and_then_to_the_next_model() {
    let busy = Reply::json(503, "", r#"{"error":{"message":"busy"}}"#);
    let main = Upstream::start([busy.clone(), Reply::json(200, "", &said("at last"))]);
    let gateway = Gateway::start(&one("openai", &main));
    let got = gateway.chat().await;
    assert_eq!((got.status, got.told()), (200, ("2", "main", "")));

    let denied = Upstream::start([Reply::json(401, "", r#"{"error":{"message":"no such key"}}"#)]);
    let spare = Upstream::start([Reply::json(200, "", &said("spare"))]);
    let models = model("main", "openai", &denied) + &model("spare", "openai", &spare);
    let gateway = Gateway::start(&format!("models:\n{models}routes: {{main: [main, spare]}}\n"));
    let got = gateway.chat().await;
    assert_eq!((got.status, got.told()), (200, ("2", "spare", "")));
    assert!(spare.bodies()[0].contains("\"model\":\"real-spare\""));
    // The cooldown of one request holds for all.
    assert_eq!(gateway.chat().await.told(), ("1", "spare", ""));
    assert_eq!(denied.seen().len(), 1);
}

#[tokio::test]
async fn a_model_whose_answers_say_that_nothing_is_left_is_not_asked() {
    let used_up = "x-ratelimit-limit-requests-day: 50\r\nx-ratelimit-remaining-requests-day: 0\r\n\
                   x-ratelimit-reset-requests-day: 3h\r\n";
    let main = Upstream::start([Reply::json(200, used_up, &said("the last"))]);
    let spare = Upstream::start([Reply::json(200, "", &said("spare"))]);
    let models = model("main", "openai", &main) + &model("spare", "openai", &spare);
    let file = format!("models:\n{models}routes: {{main: [main, spare]}}\n");
    let policy = "version: 1\nmodels: {'*': {pace: {learn: headers}}}\n";
    let gateway = Gateway::under(policy, &file, &[]);
    assert_eq!(gateway.chat().await.told(), ("1", "main", ""));
    let got = gateway.chat().await;
    assert_eq!((got.status, got.header("x-unfazed-target")), (200, "spare"));
    assert_eq!(main.seen().len(), 1);
}

#[tokio::test]
async fn a_request_that_its_pace_would_hold_for_too_long_is_one_too_many() {
    let upstream = Upstream::start([Reply::json(200, "", &said("the only one"))]);
    let policy = "version: 1\nmodels:\n  '*': {pace: {max_wait: 1s, requests: {limit: 1, per: 1h}}}\n";
    let gateway = Gateway::under(policy, &one("openai", &upstream), &[]);
    assert_eq!(gateway.chat().await.status, 200);
    let got = gateway.chat().await;
    assert_eq!((got.status, got.told()), (429, ("0", "", "rate_limit")));
    assert_eq!(got.header("x-unfazed-why"), "policy.yaml:3:40");
    assert!(got.header("retry-after").parse::<u32>().unwrap() > 3_000);
    assert!(got.body.contains("the pace lets it start too late"), "{}", got.body);
    assert_eq!(upstream.seen().len(), 1);
}

#[tokio::test]
async fn who_is_given_up_keeps_its_status_and_says_why() {
    let body = r#"{"error":{"message":"slow down","type":"requests","code":"rate_limit_exceeded"}}"#;
    let upstream = Upstream::start([Reply::json(429, "retry-after: 7200\r\n", body)]);
    let policy = "version: 1\nmodels:\n  '*':\n    retry:\n      max_attempts: 1\n";
    let gateway = Gateway::under(policy, &one("openai", &upstream), &[]);
    let got = gateway.chat().await;
    assert_eq!((got.status, &*got.body, got.told()), (429, body, ("1", "main", "rate_limit")));
    assert_eq!(got.header("x-unfazed-why"), "policy.yaml:5:21");
    assert_eq!(
        (got.header("x-should-retry"), got.header("retry-after"), got.header("retry-after-ms")),
        ("false", "7200", "7200000")
    );
    assert_eq!(upstream.seen().len(), 1);
}

#[tokio::test]
async fn a_failure_without_words_is_one_in_the_dialect_of_the_client() {
    for (api, path, pointer) in [
        ("openai", CHAT, "/error/code"),
        ("anthropic", MESSAGES, "/error/type"),
        ("responses", RESPONSES, "/error/code"),
    ] {
        let upstream =
            Upstream::start([Reply::Sends(b"HTTP/1.1 502 X\r\ncontent-length: 5\r\n\r\n<html".to_vec())]);
        let gateway = Gateway::start(&one(api, &upstream));
        let got = gateway.post(path, &[], r#"{"model":"main"}"#).await;
        assert_eq!((got.status, got.header("x-unfazed-attempts")), (502, "3"), "{got:?}");
        let kind = if api == "anthropic" { "api_error" } else { "server_error" };
        assert_eq!(got.json().pointer(pointer).unwrap(), kind, "{got:?}");
    }
}

#[tokio::test]
async fn an_answer_that_is_none_is_no_answer() {
    for broken in [r#"{"choices":[]}"#, r#"{"choices":[{"mess"#, r#"{"error":{"message":"inside"}}"#] {
        let upstream = Upstream::start([Reply::json(200, "", broken), Reply::json(200, "", &said("whole"))]);
        let gateway = Gateway::start(&one("openai", &upstream));
        let got = gateway.chat().await;
        assert_eq!((got.status, got.told()), (200, ("2", "main", "")), "{broken}");
    }
    // One that says nothing is one if no attempt says more.
    let empty = said("")
        .replace("\"completion_tokens\":2", "\"completion_tokens\":0")
        .replace("\"total_tokens\":5", "\"total_tokens\":3");
    let upstream = Upstream::start([Reply::json(200, "", &empty)]);
    let got = Gateway::start(&one("openai", &upstream)).chat().await;
    assert_eq!((got.status, &*got.body, got.told()), (200, &*empty, ("3", "main", "empty_response")));
}

#[tokio::test]
async fn a_key_that_a_provider_repeats_does_not_reach_the_client() {
    let body = r#"{"error":{"message":"Incorrect API key provided: sk-upstream"}}"#;
    let upstream = Upstream::start([Reply::json(401, "x-key: sk-upstream\r\n", body)]);
    let got = Gateway::start(&one("openai", &upstream)).chat().await;
    assert_eq!((got.status, got.header("x-key")), (401, ""));
    assert!(got.body.contains("Incorrect API key") && !got.body.contains("sk-upstream"), "{got:?}");
}

#[tokio::test]
async fn a_script_stands_for_a_model_in_every_dialect() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("model.yaml");
    std::fs::write(&script, "version: 1\nrepeat_last: true\nreplies: [{text: hello}]\n").unwrap();
    let gateway = Gateway::start(&format!(
        "models: {{demo: {{api: scripted, script: '{}'}}}}\nroutes: {{'gpt-*': demo, demo: demo}}\n",
        script.display()
    ));
    let message = r#"[{"role":"user","content":"hi"}]"#;
    for (path, field, pointer) in [
        (CHAT, "messages", "/choices/0/message/content"),
        (MESSAGES, "messages", "/content/0/text"),
        (RESPONSES, "input", "/output/0/content/0/text"),
    ] {
        let body = format!("{{\"model\":\"gpt-5\",\"max_tokens\":9,\"{field}\":{message}}}");
        let got = gateway.post(path, &[], body).await;
        assert_eq!(got.json().pointer(pointer).and_then(|text| text.as_str()), Some("hello"), "{got:?}");
    }
    let listed = gateway.get("/v1/models", &[]).await.json();
    assert_eq!(
        listed["data"].as_array().unwrap().iter().map(|model| &model["id"]).collect::<Vec<_>>(),
        ["demo"]
    );
    let metrics = gateway.get("/metrics", &[]).await;
    assert!(
        metrics.header("content-type").starts_with("text/plain") && metrics.body.contains("target=\"demo\""),
        "{metrics:?}"
    );
    assert_eq!(&*gateway.get("/healthz", &[]).await.body, "ok\n");
}

#[tokio::test]
async fn vectors_and_counts_of_tokens_are_relayed_as_answers_are() {
    let vectors = r#"{"object":"list","data":[{"object":"embedding","index":0,"embedding":[0.5, -1e-9]}],"usage":{"prompt_tokens":3,"total_tokens":3}}"#;
    let busy = Reply::json(503, "", r#"{"error":{"message":"busy"}}"#);
    let upstream = Upstream::start([busy.clone(), Reply::json(200, "", vectors)]);
    let gateway = Gateway::start(&one("openai", &upstream));
    let body = r#"{"model": "main", "input": ["a"], "encoding_format":"float"}"#;
    let got = gateway.post("/v1/embeddings", &[], body).await;
    assert_eq!((got.status, &*got.body, got.told()), (200, vectors, ("2", "main", "")));
    let seen = upstream.seen().remove(1);
    assert!(seen.starts_with("POST /v1/embeddings HTTP/1.1\r\n"), "{seen}");
    assert_eq!(upstream.bodies()[1], body.replace("\"main\"", "\"real-main\""));

    for (api, path) in
        [("anthropic", "/v1/messages/count_tokens"), ("responses", "/v1/responses/input_tokens")]
    {
        let count = r#"{"input_tokens": 14}"#;
        let upstream = Upstream::start([busy.clone(), Reply::json(200, "", count)]);
        let gateway = Gateway::start(&one(api, &upstream));
        let got = gateway.post(path, &[], r#"{"model":"main","messages":[]}"#).await;
        assert_eq!((got.status, &*got.body, got.told()), (200, count, ("2", "main", "")));
        assert!(
            upstream.seen()[1].starts_with(&format!("POST {path} HTTP/1.1\r\n")),
            "{:?}",
            upstream.seen()
        );
    }
}

#[tokio::test]
async fn figures_that_are_none_are_failures() {
    let error = r#"{"error":{"message":"no such model","code":"model_not_found"}}"#;
    let upstream = Upstream::start([Reply::json(200, "", error)]);
    let gateway = Gateway::start(&one("openai", &upstream));
    let got = gateway.post("/v1/embeddings", &[], r#"{"model":"main","input":"a"}"#).await;
    assert_eq!((got.status, &*got.body, got.told().2), (502, error, "not_found"));
    let upstream = Upstream::start([Reply::json(200, "", "<html>")]);
    let gateway = Gateway::start(&one("openai", &upstream));
    let got = gateway.post("/v1/embeddings", &[], r#"{"model":"main","input":"a"}"#).await;
    assert_eq!((got.status, got.told().0), (502, "3"));
    // A model that speaks another dialect has no such address.
    let got = gateway.post("/v1/messages/count_tokens", &[], r#"{"model":"main"}"#).await;
    assert_eq!((got.status, got.json()["error"]["type"].as_str()), (400, Some("invalid_request_error")));
}

/// An answer of Gemini.
fn gemini(text: &str, end: &str) -> String {
    format!(
        r#"{{"candidates": [{{"content": {{"role": "model", "parts": [{{"text": "{text}"}}]}}{end}}}], "usageMetadata": {{"promptTokenCount": 3, "candidatesTokenCount": 2}}}}"#
    )
}

#[tokio::test]
async fn geminis_clients_name_the_model_in_the_address() {
    let (whole, busy) = (
        gemini("hello", r#", "finishReason": "STOP""#),
        Reply::json(503, "", r#"{"error":{"code":503,"message":"busy","status":"UNAVAILABLE"}}"#),
    );
    let events = format!("data: {}\r\n\r\ndata: {whole}\r\n\r\n", gemini("hel", ""));
    let upstream = Upstream::start([
        busy.clone(),
        Reply::json(200, "", &whole),
        busy,
        Reply::events(&events),
        Reply::json(200, "", r#"{"totalTokens": 14}"#),
    ]);
    let gateway = Gateway::start(&one("gemini", &upstream));
    let headers = [("x-goog-api-key", "of-the-client"), ("x-goog-api-client", "google-genai-sdk/3")];
    let body = "{\"contents\" : [], \"x\": 1e400}";
    let got = gateway.post("/v1beta/models/main:generateContent", &headers, body).await;
    assert_eq!((got.status, &*got.body, got.told()), (200, &*whole, ("2", "main", "")));
    let got = gateway.post("/v1beta/models/main:streamGenerateContent?alt=sse", &headers, body).await;
    assert_eq!((got.status, &*got.body, got.told()), (200, &*events, ("2", "main", "")));
    let got = gateway.post("/v1beta/models/main:countTokens", &headers, body).await;
    assert_eq!((got.status, &*got.body), (200, r#"{"totalTokens": 14}"#));
    let seen = upstream.seen();
    let starts = [
        "generateContent",
        "generateContent",
        "streamGenerateContent?alt=sse",
        "streamGenerateContent?alt=sse",
        "countTokens",
    ];
    for (seen, method) in seen.iter().zip(starts) {
        assert!(seen.starts_with(&format!("POST /v1/models/real-main:{method} HTTP/1.1\r\n")), "{seen}");
        assert!(seen.contains("x-goog-api-key: sk-upstream") && seen.contains("x-goog-api-client"), "{seen}");
        assert!(!seen.contains("of-the-client"), "{seen}");
    }
    assert_eq!(upstream.bodies(), [body; 5]);
}

#[tokio::test]
async fn geminis_clients_read_errors_as_google_writes_them() {
    let upstream = Upstream::start([Reply::cut(&format!("data: {}\r\n\r\n", gemini("hel", "")))]);
    let gateway = Gateway::start(&one("gemini", &upstream));
    let got = gateway.post("/v1beta/models/main:streamGenerateContent?alt=sse", &[], "{}").await;
    let last = got.body.rsplit("data: ").next().unwrap();
    let error: serde_json::Value = serde_json::from_str(last).unwrap();
    assert_eq!(
        (&error["error"]["code"], &error["error"]["status"]),
        (&502.into(), &"UNAVAILABLE".into()),
        "{got:?}"
    );
    for (call, status, name) in [
        ("main:streamGenerateContent", 400, "INVALID_ARGUMENT"),
        ("main:embedContent", 404, "NOT_FOUND"),
        ("other:generateContent", 404, "NOT_FOUND"),
    ] {
        let got = gateway.post(&format!("/v1beta/models/{call}"), &[], "{}").await;
        assert_eq!(
            (got.status, got.json()["error"]["status"].as_str()),
            (status, Some(name)),
            "{call}: {got:?}"
        );
    }
    for (path, headers) in [("/v1beta/models", &[][..]), ("/v1/models", &[("x-goog-api-key", "k")][..])] {
        let listed = gateway.get(path, headers).await.json();
        assert_eq!(listed["models"][0]["name"], "models/main", "{path}");
    }
}
