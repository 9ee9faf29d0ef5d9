//! The page of the gateway, and the JSON behind it.

use std::time::{Duration, Instant};

use serde_json::Value;

use super::{CHAT, Gateway, Reply, Upstream, model, one, said};

const PATIENCE: Duration = Duration::from_secs(30);

impl Gateway {
    pub(super) async fn status(&self) -> Value {
        self.get("/status.json", &[]).await.json()
    }

    /// Its state once that holds.
    pub(super) async fn status_when(&self, holds: impl Fn(&Value) -> bool) -> Value {
        let began = Instant::now();
        loop {
            let status = self.status().await;
            if holds(&status) {
                return status;
            }
            assert!(began.elapsed() < PATIENCE, "{status:#}");
        }
    }

    /// A request that is not waited for.
    fn ask(&self, body: &'static str) -> tokio::task::JoinHandle<String> {
        let (http, url) = (self.http.clone(), format!("{}{CHAT}", self.url));
        tokio::spawn(async move { http.post(url).body(body).send().await.unwrap().text().await.unwrap() })
    }
}

/// What the first request in flight waits for.
fn awaited(status: &Value) -> &str {
    status.pointer("/requests/open/0/waits_for/what").and_then(Value::as_str).unwrap_or_default()
}

fn late(text: &str) -> Reply {
    let answer = said(text);
    Reply::Waits(format!("HTTP/1.1 200 X\r\ncontent-length: {}\r\n\r\n{answer}", answer.len()).into_bytes())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_in_flight_says_what_it_waits_for() {
    let upstream = Upstream::start([late("first"), Reply::json(200, "", &said("second"))]);
    // The second call is due in an hour.
    let policy =
        "version: 1\nmodels:\n  '*':\n    pace: {requests: {limit: 1, per: 1h}, max_wait: unlimited}\n";
    let gateway = Gateway::under(policy, &one("openai", &upstream), &[]);
    assert_eq!(gateway.status().await["requests"]["in_flight"], 0);
    let first = gateway.ask(r#"{"model":"main","messages":[{"role":"user","content":"tell nobody"}]}"#);
    let status = gateway.status_when(|status| awaited(status) == "answer").await;
    let open = &status["requests"]["open"][0];
    assert_eq!(
        (&open["model"], &open["route"], &open["target"]),
        (&"main".into(), &"main".into(), &"main".into())
    );
    assert_eq!((&open["attempts"], &open["dialect"]), (&1.into(), &"openai".into()));
    assert!(!status.to_string().contains("tell nobody"));
    assert_eq!(status["targets"][0]["in_flight"], 1);

    let second = gateway.ask(r#"{"model":"main"}"#);
    let is_paced = |status: &Value| status["requests"]["open"][1]["waits_for"]["what"] == "pace";
    let status = gateway.status_when(is_paced).await;
    let waits = &status["requests"]["open"][1]["waits_for"];
    assert_eq!(
        (&waits["pool"], &waits["because"][0]["place"]),
        (&"model main".into(), &"policy.yaml:4:22".into())
    );
    let hour = waits["until_ms"].as_u64().unwrap() - status["now_ms"].as_u64().unwrap();
    assert!((3_500_000..=3_600_000).contains(&hour), "{waits}");
    let pace = &status["targets"][0]["pace"];
    assert_eq!(
        (&pace["waiting"], &pace["rates"][0]["free"], &pace["rates"][0]["limit"]),
        (&1.into(), &0.into(), &1.into())
    );
    let decided = &status["decisions"][0];
    assert_eq!(
        (&decided["what"], &decided["request"], &decided["because"][0]["rule"]),
        (&"pace".into(), &2.into(), &"pace.requests".into())
    );

    upstream.go();
    assert!(first.await.unwrap().contains("first"));
    second.abort();
    let status = gateway.status_when(|status| status["requests"]["in_flight"] == 0).await;
    assert_eq!((&status["requests"]["answered"], &status["requests"]["cancelled"]), (&1.into(), &1.into()));
    let point = &status["targets"][0]["calls"]["points"][0];
    assert_eq!((&point["answered"], &point["failed"], &point["tokens"]), (&1.into(), &0.into(), &5.into()));
}

#[tokio::test]
async fn a_fallback_and_a_cooldown_name_the_lines_that_made_them() {
    let body = r#"{"error":{"message":"no such key: a word of the prompt"}}"#;
    let denied = Upstream::start([Reply::json(401, "", body)]);
    let spare = Upstream::start([Reply::json(200, "", &said("spare"))]);
    let models = model("main", "openai", &denied) + &model("spare", "openai", &spare);
    let policy =
        "version: 1\nmodels:\n  '*':\n    cooldown: 7m\n    retry:\n      never_retry: [auth_error]\n";
    let gateway =
        Gateway::under(policy, &format!("models:\n{models}routes: {{'gpt-*': [main, spare]}}\n"), &[]);
    let hostile = "gpt-</script><img src=x onerror=alert(1)>";
    let asked = format!("{{\"model\":\"{hostile}\",\"messages\":[]}}");
    assert_eq!(gateway.post(CHAT, &[], asked).await.told(), ("2", "spare", ""));

    let answer = gateway.get("/status.json", &[]).await;
    assert_eq!(
        (answer.header("content-type"), answer.header("cache-control")),
        ("application/json", "no-store")
    );
    assert_eq!(answer.header("x-content-type-options"), "nosniff");
    for secret in ["sk-upstream", "a word of the prompt", &denied.base_url()] {
        assert!(!answer.body.contains(secret), "{secret}: {}", answer.body);
    }
    let status = answer.json();
    let [main, spare] = [&status["targets"][0], &status["targets"][1]];
    let left = main["cooldown"]["until_ms"].as_u64().unwrap() - status["now_ms"].as_u64().unwrap();
    assert!((400_000..=420_000).contains(&left), "{main}");
    assert_eq!(main["cooldown"]["because"]["place"], "policy.yaml:4:15");
    assert_eq!((&main["model"], &spare["cooldown"]), (&"real-main".into(), &Value::Null));
    let decided = &status["decisions"][0];
    assert_eq!(
        (&decided["what"], &decided["target"], &decided["next"], &decided["error_type"]),
        (&"fallback".into(), &"main".into(), &"spare".into(), &"auth_error".into())
    );
    assert_eq!(
        (&decided["model"], &decided["because"][0]["place"]),
        (&hostile.into(), &"policy.yaml:6:20".into())
    );
    // It is data, never a part of the page.
    assert!(!gateway.get("/", &[]).await.body.contains("onerror"));
}

#[tokio::test]
async fn who_is_given_up_and_who_is_refused_is_counted() {
    let upstream = Upstream::start([Reply::json(503, "", r#"{"error":{"message":"busy"}}"#)]);
    let gateway = Gateway::start(&one("openai", &upstream));
    assert_eq!(
        (gateway.chat().await.status, gateway.post(CHAT, &[], r#"{"model":"x"}"#).await.status),
        (503, 404)
    );
    let status = gateway.status().await;
    let kinds: Vec<&str> = status["decisions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|decided| decided["what"].as_str().unwrap())
        .collect();
    assert_eq!(kinds, ["give_up", "retry", "retry"], "the latest comes first");
    assert_eq!((&status["requests"]["given_up"], &status["requests"]["refused"]), (&1.into(), &1.into()));
    assert_eq!(status["targets"][0]["calls"]["points"][0]["failed"], 3);
}

#[tokio::test]
async fn a_browser_runs_the_script_of_the_page_and_no_other() {
    let upstream = Upstream::start([Reply::json(200, "", &said("hi"))]);
    let gateway = Gateway::start(&one("openai", &upstream));
    let page = gateway.get("/", &[]).await;
    assert_eq!((page.status, page.header("content-type")), (200, "text/html; charset=utf-8"));
    let policy = page.header("content-security-policy");
    for rule in ["default-src 'none'", "connect-src 'self'", "frame-ancestors 'none'", "script-src 'sha256-"]
    {
        assert!(policy.contains(rule), "{policy}");
    }
    assert!(!policy.contains("unsafe"), "{policy}");
    for (name, value) in [("host", "evil.example"), ("origin", "https://evil.example")] {
        for path in ["/", "/status.json"] {
            let got =
                gateway.http.get(format!("{}{path}", gateway.url)).header(name, value).send().await.unwrap();
            assert_eq!(got.status().as_u16(), 403, "{path} {name}");
        }
    }
}

#[tokio::test]
async fn beyond_this_machine_the_page_takes_an_admins_key() {
    let upstream = Upstream::start([Reply::json(200, "", &said("hi"))]);
    // The keys are `sesame` and `open`.
    let keys = "keys:
  desk: {sha256: d0c04f4b1951e4aeaaec8223ed2039e542f3aae805a6fa7f6d794e5afff5d272}
  ops: {sha256: 2348f998744212575d85959674f9607ab26f67708a917157472832386337c904, admin: true}
";
    let gateway = Gateway::under(super::POLICY, &(one("openai", &upstream) + keys), &["--addr", "0.0.0.0:0"]);
    // `any:sesame` and `any:open`, as a browser sends a password.
    let cases = [
        ("Bearer open", 200),
        ("Basic YW55Om9wZW4=", 200),
        ("Bearer sesame", 403),
        ("Basic YW55OnNlc2FtZQ==", 401),
        ("Basic !", 401),
        ("", 401),
    ];
    for (key, status) in cases {
        for path in ["/", "/status.json"] {
            let got = gateway.get(path, &[("authorization", key)]).await;
            assert_eq!(got.status, status, "{path} {key}");
            assert_eq!(got.header("www-authenticate").starts_with("Basic realm="), status == 401, "{got:?}");
        }
    }
    // A password is no key for models.
    let got = gateway.post(CHAT, &[("authorization", "Basic YW55Om9wZW4=")], r#"{"model":"main"}"#).await;
    assert_eq!(got.status, 401);
}

#[tokio::test]
async fn what_is_asked_at_once_has_its_reasons() {
    let busy = Reply::json(503, "", r#"{"error":{"message":"busy"}}"#);
    let upstream = Upstream::start([busy.clone(), busy, Reply::json(200, "", &said("hi"))]);
    let policy = "version: 1
models: {'*': {cooldown: 0s, retry: {max_attempts: 3, backoff: {kind: constant, delay: 0s, jitter: none}}}}
turn: {targets: {fallback: attempt}}
";
    let file = format!(
        "models:\n{}{}routes: {{main: [main, spare]}}\n",
        model("main", "openai", &upstream),
        model("spare", "openai", &upstream)
    );
    let gateway = Gateway::under(policy, &file, &[]);
    assert_eq!(gateway.chat().await.status, 200);
    let status = gateway.status().await;
    let decisions = status["decisions"].as_array().unwrap();
    assert_eq!(decisions.len(), 2, "{status:#}");
    for decided in decisions {
        assert_eq!((&decided["what"], decided["next"].is_string()), (&"fallback".into(), true), "{decided}");
        assert!(decided["because"][0]["place"].as_str().unwrap().contains(':'), "{decided}");
    }
}
