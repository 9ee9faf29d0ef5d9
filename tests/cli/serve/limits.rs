//! Keys that have used what they may.

use std::fs;
use std::time::{Duration, Instant};

use super::{CHAT, Gateway, MESSAGES, POLICY, RESPONSES, Reply, Upstream, one, said};
use crate::command;

/// The SHA-256 of `sesame`.
const SESAME: &str = "d0c04f4b1951e4aeaaec8223ed2039e542f3aae805a6fa7f6d794e5afff5d272";
/// The SHA-256 of `open`.
const OPEN: &str = "2348f998744212575d85959674f9607ab26f67708a917157472832386337c904";
const PATIENCE: Duration = Duration::from_secs(30);
const DESK: (&str, &str) = ("authorization", "Bearer sesame");
const SHOP: (&str, &str) = ("x-api-key", "open");
const ASK: &str = r#"{"model":"main","messages":[]}"#;
/// Where a gateway keeps what its keys have spent.
const SPENT: &str = ".unfazed/serve/gateway.json";

/// A provider whose answers take 5 tokens.
fn upstream() -> Upstream {
    Upstream::start([Reply::json(200, "", &said("hi"))])
}

/// A file with the keys `desk`, which has these limits, and `shop`, which has none. They begin in line 9.
fn file(upstream: &Upstream, limits: &str) -> String {
    let keys = format!("keys:\n  desk:\n    sha256: {SESAME}\n{limits}  shop: {{sha256: {OPEN}}}\n");
    one("openai", upstream) + &keys
}

impl Gateway {
    /// Ends it by that signal, and starts it again with the same files.
    fn again(mut self, signal: &str) -> Self {
        self.signal(signal);
        self.child.wait().unwrap();
        let folder = std::mem::replace(&mut self.folder, tempfile::tempdir().unwrap());
        Self::spawned(folder, &["serve", "gateway.yaml", "--addr", "127.0.0.1:0"])
    }

    fn spent(&self) -> String {
        fs::read_to_string(self.folder.path().join(SPENT)).unwrap_or_default()
    }
}

#[tokio::test]
async fn a_key_above_its_pace_is_refused_and_others_are_served() {
    let upstream = upstream();
    let limits = "    pace:\n      requests: {limit: 2, per: 1h}\n      tokens: unlimited\n";
    let gateway = Gateway::start(&file(&upstream, limits));
    for _ in 0..2 {
        assert_eq!(gateway.post(CHAT, &[DESK], ASK).await.status, 200);
    }
    let got = gateway.post(CHAT, &[DESK], ASK).await;
    assert_eq!((got.status, got.header("x-unfazed-why")), (429, "gateway.yaml:10:17"), "{got:?}");
    let wait: u64 = got.header("retry-after").parse().unwrap();
    assert!((1_790..=1_800).contains(&wait), "{got:?}");
    // The client may come back by itself.
    assert_eq!(got.header("x-should-retry"), "");
    assert_eq!(gateway.post(CHAT, &[DESK], ASK).await.json()["error"]["code"], "rate_limit_exceeded");
    assert_eq!(gateway.post(CHAT, &[SHOP], ASK).await.status, 200);
    assert_eq!(upstream.seen().len(), 3);

    let status = gateway.status().await;
    assert_eq!(status["requests"]["refused"], 2, "{status:#}");
    let (decided, key) = (&status["decisions"][0], &status["keys"][0]);
    assert_eq!(
        (&decided["what"], &decided["client"], &decided["times"]),
        (&"refuse".into(), &"desk".into(), &2.into())
    );
    assert_eq!(
        (&decided["because"][0]["rule"], &decided["because"][0]["place"]),
        (&"keys.desk.pace.requests".into(), &"gateway.yaml:10:17".into())
    );
    assert_eq!(
        (&key["key"], &key["pace"][0]["free"], &key["pace"][0]["limit"]),
        (&"desk".into(), &0.into(), &2.into())
    );
    assert!(!gateway.folder.path().join(SPENT).exists(), "a pace is not written down");
}

#[tokio::test]
async fn each_dialect_says_so_in_its_own_words() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("model.yaml");
    fs::write(&script, "version: 1\nrepeat_last: true\nreplies: [{text: hello}]\n").unwrap();
    let gateway = Gateway::start(&format!(
        "models: {{main: {{api: scripted, script: '{}'}}}}\nroutes: {{main: main}}\nkeys: {{desk: {{sha256: {SESAME}, pace: {{requests: {{limit: 1, per: 1h}}}}}}}}\n",
        script.display()
    ));
    assert_eq!(gateway.post(CHAT, &[DESK], ASK).await.status, 200);
    for (path, pointer, word) in [
        (CHAT, "/error/code", "rate_limit_exceeded"),
        (MESSAGES, "/error/type", "rate_limit_error"),
        (RESPONSES, "/error/type", "rate_limit_error"),
        ("/v1beta/models/main:generateContent", "/error/status", "RESOURCE_EXHAUSTED"),
    ] {
        let got = gateway.post(path, &[DESK], ASK).await;
        assert_eq!((got.status, got.json().pointer(pointer)), (429, Some(&word.into())), "{got:?}");
        assert!(!got.header("retry-after").is_empty() && !got.header("x-unfazed-why").is_empty(), "{got:?}");
    }
}

#[tokio::test]
async fn a_count_of_tokens_uses_none() {
    let upstream = Upstream::start([Reply::json(200, "", r#"{"input_tokens": 14}"#)]);
    let file =
        file(&upstream, "    budget: {per: 30d, tokens: 1}\n").replace("api: openai", "api: anthropic");
    let gateway = Gateway::start(&file);
    for _ in 0..3 {
        let got = gateway.post("/v1/messages/count_tokens", &[DESK], ASK).await;
        assert_eq!(got.status, 200, "{got:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_goes_out_counts_where_no_provider_says_what_it_took() {
    let said = "x".repeat(400);
    let piece = format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{said}\"}}}}]}}\n\n");
    let end =
        "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
    let ask = ASK.replacen('{', "{\"stream\":true,", 1);
    let replies = [Reply::events(&[&*piece, end].concat()), Reply::cut(&piece), Reply::open(&piece)];
    for (at, reply) in replies.into_iter().enumerate() {
        let upstream = Upstream::start([reply]);
        let limits = "    budget: {per: 30d, tokens: 9000, cost: 5}\n";
        let file =
            file(&upstream, limits).replace("api: openai,", "api: openai, price: {input: 1, output: 1000},");
        let gateway = Gateway::start(&file);
        let url = format!("{}{CHAT}", gateway.url);
        let mut asked = gateway.http.post(url).header(DESK.0, DESK.1).body(ask.clone()).send().await.unwrap();
        // Of the last one the client has had enough.
        while let Ok(Some(_)) = asked.chunk().await {
            if at == 2 {
                break;
            }
        }
        drop(asked);
        let input = ask.len().div_ceil(4);
        let (tokens, began) = (serde_json::json!(input + 100), Instant::now());
        loop {
            let status = gateway.status().await;
            let limits = &status["keys"][0]["budget"]["limits"];
            if limits[0]["used"] == tokens {
                let cost = limits[1]["used"].as_f64().unwrap();
                assert!((0.1..0.11).contains(&cost), "{limits}");
                break;
            }
            assert!(began.elapsed() < PATIENCE, "{at}: {limits}");
        }
    }
}

/// What a gateway shows as used by its first key, once the answer to `ask` has come.
async fn used_after(upstream: &Upstream, api: &str, path: &str, ask: &str) -> u64 {
    let limits = "    budget: {per: 30d, tokens: 9000000000}\n";
    let file = file(upstream, limits).replace("api: openai", &format!("api: {api}"));
    let gateway = Gateway::start(&file);
    let got = gateway.post(path, &[DESK], ask.to_owned()).await;
    assert_eq!(got.status, 200, "{api}: {got:?}");
    let status = gateway.status().await;
    status["keys"][0]["budget"]["limits"][0]["used"].as_u64().unwrap()
}

#[tokio::test]
async fn a_count_of_nothing_is_none_in_any_dialect() {
    let ask = ASK.replace("[]", r#"[{"role":"user","content":"hi"}]"#);
    let estimate = u64::try_from(ask.len().div_ceil(4)).unwrap();
    let chat = r#"{"choices":[{"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],"usage":USAGE}"#;
    let messages = r#"{"type":"message","role":"assistant","content":[{"type":"text","text":"hi"}],"stop_reason":"end_turn","usage":USAGE}"#;
    let responses = r#"{"object":"response","status":"completed","output":[{"type":"message","role":"assistant","content":[{"type":"output_text","text":"hi"}]}],"usage":USAGE}"#;
    let gemini = r#"{"candidates":[{"content":{"role":"model","parts":[{"text":"hi"}]},"finishReason":"STOP"}],"usageMetadata":USAGE}"#;
    let generate = "/v1beta/models/main:generateContent";
    let dialects = [
        ("openai", CHAT, chat),
        ("anthropic", MESSAGES, messages),
        ("responses", RESPONSES, responses),
        ("gemini", generate, gemini),
    ];
    let nothing = ["{}", r#"{"prompt_tokens":null,"input_tokens":null,"promptTokenCount":null}"#];
    for (api, path, answer) in dialects {
        for usage in nothing {
            let answer = answer.replace("USAGE", usage);
            let upstream = Upstream::start([Reply::json(200, "", &answer)]);
            let used = used_after(&upstream, api, path, &ask).await;
            // What the model says, and nothing of what is around it.
            assert_eq!(used, estimate + 1, "{api}: {usage}");
        }
    }
    let zero = chat.replace("USAGE", r#"{"prompt_tokens":0,"completion_tokens":0}"#);
    let upstream = Upstream::start([Reply::json(200, "", &zero)]);
    assert!(used_after(&upstream, "openai", CHAT, &ask).await > estimate);
}

#[tokio::test]
async fn a_stream_that_counts_nothing_counts_as_estimated() {
    let ask = ASK.replacen('{', "{\"stream\":true,", 1);
    let events = format!(
        "data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{}\"}},\"finish_reason\":\"stop\"}}]}}\n\n\
         data: {{\"choices\":[],\"usage\":{{}}}}\n\ndata: [DONE]\n\n",
        "x".repeat(400),
    );
    let upstream = Upstream::start([Reply::events(&events)]);
    let used = used_after(&upstream, "openai", CHAT, &ask).await;
    assert_eq!(used, u64::try_from(ask.len().div_ceil(4)).unwrap() + 100);
}

#[tokio::test]
async fn one_answer_counts_no_more_than_can_be() {
    let usage = format!("{{\"prompt_tokens\":3,\"completion_tokens\":{}}}", u64::MAX);
    let answer = said("hi");
    let mut answer: serde_json::Value = serde_json::from_str(&answer).unwrap();
    answer["usage"] = serde_json::from_str(&usage).unwrap();
    let upstream = Upstream::start([Reply::json(200, "", &answer.to_string())]);
    assert_eq!(used_after(&upstream, "openai", CHAT, ASK).await, 1_000_000_003);
}

#[tokio::test]
async fn what_a_key_has_spent_survives_a_restart() {
    let upstream = upstream();
    let limits = "    budget: {per: 30d, tokens: 8, requests: 100}\n";
    let gateway = Gateway::start(&file(&upstream, limits));
    for _ in 0..2 {
        assert_eq!(gateway.post(CHAT, &[DESK], ASK).await.status, 200);
    }
    let got = gateway.post(CHAT, &[DESK], ASK).await;
    assert_eq!((got.status, got.header("x-unfazed-why")), (429, "gateway.yaml:9:32"), "{got:?}");
    assert_eq!(
        (got.json()["error"]["code"].as_str(), got.header("x-should-retry")),
        (Some("insufficient_quota"), "false")
    );
    assert!(got.header("retry-after").parse::<u64>().unwrap() <= 30 * 86_400, "{got:?}");
    let status = gateway.status().await;
    let limits = &status["keys"][0]["budget"]["limits"];
    assert_eq!(
        (&limits[0]["used"], &limits[1]["used"], &limits[1]["limit"]),
        (&2.into(), &10.into(), &8.into())
    );

    let gateway = gateway.again("-TERM");
    assert_eq!(gateway.post(CHAT, &[DESK], ASK).await.status, 429);
    assert_eq!(gateway.post(CHAT, &[SHOP], ASK).await.status, 200);
    assert_eq!(upstream.seen().len(), 3);
}

#[tokio::test]
async fn a_killed_process_forgets_no_more_than_a_second() {
    let upstream = upstream();
    let gateway = Gateway::start(&file(&upstream, "    budget: {per: 30d, requests: 1}\n"));
    assert_eq!(gateway.post(CHAT, &[DESK], ASK).await.status, 200);
    let began = Instant::now();
    while !gateway.spent().contains("\"tokens\":5") {
        assert!(began.elapsed() < PATIENCE, "{}", gateway.spent());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let gateway = gateway.again("-KILL");
    assert_eq!(gateway.post(CHAT, &[DESK], ASK).await.status, 429);

    // Nobody else counts into the same file.
    let serve = ["serve", "gateway.yaml", "--addr", "127.0.0.1:0"];
    let second = command::unfazed(gateway.folder.path(), &serve).env("UPSTREAM_KEY", "k").output().unwrap();
    let text = String::from_utf8_lossy(&second.stderr);
    assert!(second.status.code() == Some(1) && text.contains("another gateway counts into"), "{text}");
}

#[tokio::test]
async fn a_file_that_cannot_be_read_is_not_taken_for_an_empty_one() {
    let upstream = upstream();
    let gateway = Gateway::start(&file(&upstream, "    budget: {per: 30d, requests: 1}\n"));
    gateway.signal("-TERM");
    let folder = gateway.folder.path();
    for (written, expected) in [
        ("{\"version\":", "gateway.json is damaged; remove it"),
        ("{\"version\":2,\"keys\":[]}", "another version of unfazed has written"),
    ] {
        fs::write(folder.join(SPENT), written).unwrap();
        let began = Instant::now();
        let text = loop {
            let serve = ["serve", "gateway.yaml", "--addr", "127.0.0.1:0"];
            let output = command::unfazed(folder, &serve).env("UPSTREAM_KEY", "k").output().unwrap();
            let text = String::from_utf8_lossy(&output.stderr).into_owned();
            // The first one may still be ending.
            if !text.contains("another gateway") || began.elapsed() > PATIENCE {
                break text;
            }
        };
        assert!(text.contains(expected), "{text}");
    }
}

#[tokio::test]
async fn edited_limits_hold_and_what_was_spent_stays() {
    let upstream = upstream();
    let gateway = Gateway::under(POLICY, &file(&upstream, ""), &["--reload"]);
    for _ in 0..3 {
        assert_eq!(gateway.post(CHAT, &[DESK], ASK).await.status, 200);
    }
    let edited = format!(
        "version: 1\npolicy: policy.yaml\n{}",
        file(&upstream, "    budget: {per: 30d, requests: 2}\n")
    );
    fs::write(gateway.folder.path().join("gateway.yaml"), edited).unwrap();
    let began = Instant::now();
    while gateway.post(CHAT, &[DESK], ASK).await.status == 200 {
        assert!(began.elapsed() < PATIENCE, "the keys are not read again");
    }
    let status = gateway.status().await;
    assert_eq!(status["keys"][0]["budget"]["limits"][0]["used"], 2, "{status:#}");
}

#[test]
fn the_mistakes_of_limits_are_found_at_their_places() {
    let folder = tempfile::tempdir().unwrap();
    let text = format!(
        "version: 1
models:
  main: {{api: openai, base_url: 'http://127.0.0.1:9/v1', model: m}}
  dear: {{api: openai, base_url: 'http://127.0.0.1:9/v1', model: d, price: {{input: 1, output: 2}}}}
routes: {{main: main, dear: dear}}
keys:
  desk: {{sha256: {SESAME}, budget: {{per: 1d}}, pace: {{requests: {{limit: 0, per: 1m}}}}}}
  shop: {{sha256: {OPEN}, routes: dear, budget: {{per: 0s, cost: 5}}}}
"
    );
    let check = |text: &str| {
        fs::write(folder.path().join("gateway.yaml"), text).unwrap();
        let output = command::unfazed(folder.path(), &["check", "gateway.yaml", "--format", "short"])
            .output()
            .unwrap();
        String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
    };
    let said = check(&text);
    for expected in ["gateway.yaml:7:", "`0s` leaves no time at all"] {
        assert!(said.contains(expected), "{expected}\n{said}");
    }
    let said = check(&text.replace("limit: 0", "limit: 1").replace("0s", "1d"));
    assert!(said.contains("the budget bounds nothing") && !said.contains("P0206"), "{said}");
    let said = check(
        &text.replace("limit: 0", "limit: 1").replace("{per: 1d}", "{per: 1d, cost: 2}").replace("0s", "1d"),
    );
    let expected = "gateway.yaml:3:3: error[P0206]: the price of the model `main` is unknown, and the budget of the key `desk` is in US dollars";
    assert!(said.contains(expected) && said.matches("P0206").count() == 1, "{said}");
}

#[tokio::test]
async fn a_folder_that_is_removed_meanwhile_is_made_again() {
    let upstream = upstream();
    let gateway = Gateway::start(&file(&upstream, "    budget: {per: 30d, requests: 9}\n"));
    let kept = async |requests: u64| {
        let began = Instant::now();
        assert_eq!(gateway.post(CHAT, &[DESK], ASK).await.status, 200);
        while !gateway.spent().contains(&format!("\"requests\":{requests}")) {
            assert!(began.elapsed() < PATIENCE, "{}", gateway.spent());
            tokio::task::yield_now().await;
        }
    };
    kept(1).await;
    fs::remove_dir_all(gateway.folder.path().join(".unfazed/serve")).unwrap();
    kept(2).await;
    // Another gateway still counts nowhere else.
    assert!(gateway.folder.path().join(".unfazed/serve/gateway.lock").exists());
}
