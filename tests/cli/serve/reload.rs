//! A file that is edited while the gateway serves.

use std::time::Instant;

use super::{CHAT, Gateway, Reply, Upstream, one, said};

const ONCE: &str = "version: 1\nmodels: {'*': {cooldown: 0s, retry: {max_attempts: 1, backoff: {kind: constant, delay: 1ms}}}}\n";
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(30);

impl Gateway {
    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.folder.path().join(name), text).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_edited_policy_holds_for_the_next_request_and_none_is_dropped() {
    let answer = said("late");
    let length = answer.len();
    let late = format!("HTTP/1.1 200 X\r\ncontent-length: {length}\r\n\r\n{answer}").into_bytes();
    let upstream =
        Upstream::start([Reply::Waits(late), Reply::json(503, "", r#"{"error":{"message":"busy"}}"#)]);
    let gateway = Gateway::under(ONCE, &one("openai", &upstream), &["--reload"]);
    let (http, url) = (gateway.http.clone(), format!("{}{CHAT}", gateway.url));
    let in_flight = tokio::spawn(async move {
        http.post(url).body(r#"{"model":"main"}"#).send().await.unwrap().text().await.unwrap()
    });
    while upstream.seen().is_empty() {
        tokio::task::yield_now().await;
    }
    assert_eq!(gateway.chat().await.told().0, "1");
    // What cannot be used changes nothing.
    gateway.write("policy.yaml", "version: 1\nmodels: {'*': {retry: {max_attempts: many}}}\n");
    assert_eq!(gateway.chat().await.told().0, "1");
    gateway.write("policy.yaml", &ONCE.replace("max_attempts: 1", "max_attempts: 3"));
    let began = Instant::now();
    while gateway.chat().await.told().0 != "3" {
        assert!(began.elapsed() < PATIENCE, "the policy is not read again");
    }
    upstream.go();
    assert_eq!(in_flight.await.unwrap(), answer);
}

#[tokio::test(flavor = "multi_thread")]
async fn edited_keys_are_taken() {
    let upstream = Upstream::start([Reply::json(200, "", &said("hello"))]);
    let file = one("openai", &upstream);
    // Of `old` and of `new`.
    let keys = |hash: &str| format!("{file}keys: {{desk: {{sha256: {hash}}}}}\n");
    let old = "cba06b5736faf67e54b07b561eae94395e774c517a7d910a54369e1263ccfbd4";
    let new = "11507a0e2f5e69d5dfa40a62a1bd7b6ee57e6bcd85c67c9b8431b36fff21c437";
    let gateway = Gateway::under(ONCE, &keys(old), &["--reload"]);
    let body = r#"{"model":"main"}"#;
    let asked = async |key: &str| gateway.post(CHAT, &[("x-api-key", key)], body).await.status;
    assert_eq!((asked("old").await, asked("new").await), (200, 401));
    gateway.write("gateway.yaml", &format!("version: 1\npolicy: policy.yaml\n{}", keys(new)));
    let began = Instant::now();
    while asked("new").await != 200 {
        assert!(began.elapsed() < PATIENCE, "the keys are not read again");
    }
    assert_eq!(asked("old").await, 401);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_without_its_keys_opens_the_routes_and_says_so() {
    let upstream = Upstream::start([Reply::json(200, "", &said("hello"))]);
    let file = one("openai", &upstream);
    let old = "cba06b5736faf67e54b07b561eae94395e774c517a7d910a54369e1263ccfbd4";
    let gateway = Gateway::under(ONCE, &format!("{file}keys: {{desk: {{sha256: {old}}}}}\n"), &["--reload"]);
    assert_eq!(gateway.chat().await.status, 401);
    gateway.write("gateway.yaml", &format!("version: 1\npolicy: policy.yaml\n{file}"));
    gateway.wait_until_said("no `keys` any more").await;
    assert_eq!(gateway.chat().await.status, 200);
}
