//! How a gateway ends.

use serde_json::Value;

use super::{CHAT, Gateway, MESSAGES, POLICY, RESPONSES, Reply, Upstream, one, said};

#[tokio::test(flavor = "multi_thread")]
async fn requests_in_flight_end_and_new_ones_are_turned_away() {
    let answer = said("late");
    let length = answer.len();
    let bytes = format!("HTTP/1.1 200 X\r\ncontent-length: {length}\r\n\r\n{answer}").into_bytes();
    let upstream = Upstream::start([Reply::Waits(bytes)]);
    let file = one("openai", &upstream) + "stop: {drain: 60s}\n";
    let mut gateway = Gateway::under(POLICY, &file, &[]);
    let (http, url) = (gateway.http.clone(), format!("{}{CHAT}", gateway.url));
    let asked =
        tokio::spawn(
            async move { http.post(url).body(r#"{"model":"main"}"#).send().await.unwrap().text().await },
        );
    while upstream.seen().is_empty() {
        tokio::task::yield_now().await;
    }
    gateway.signal("-TERM");
    gateway.wait_until_stopping().await;
    assert_eq!(gateway.get("/healthz", &[]).await.body, "shutting down\n");
    let late = gateway.chat().await;
    assert_eq!((late.status, late.header("retry-after")), (503, "1"));
    assert_eq!(late.json()["error"]["code"], "shutting_down");
    upstream.go();
    assert_eq!(asked.await.unwrap().unwrap(), answer);
    assert_eq!(gateway.child.wait().unwrap().code(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_in_flight_at_the_end_of_the_stop_is_answered_that_it_is_cut_off() {
    let chunk = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hel\"}}]}\n\n";
    let google = "/v1beta/models/main:streamGenerateContent?alt=sse";
    let paths = [CHAT, MESSAGES, RESPONSES, google];
    let streams = paths.map(|_| Reply::open(chunk)).to_vec();
    let waits = paths.map(|_| Reply::Waits(Vec::new())).to_vec();
    let upstream = Upstream::start([streams, waits].concat());
    let mut gateway = Gateway::under(POLICY, &(one("openai", &upstream) + "stop: {drain: 1ms}\n"), &[]);
    let body = |path: &str, stream: bool| {
        let asked = match path {
            RESPONSES => r#""input":"hi""#,
            CHAT | MESSAGES => r#""max_tokens":9,"messages":[{"role":"user","content":"hi"}]"#,
            _ => return r#"{"contents":[{"role":"user","parts":[{"text":"hi"}]}]}"#.to_owned(),
        };
        format!(r#"{{"model":"main","stream":{stream},{asked}}}"#)
    };
    let mut begun = Vec::new();
    for path in paths {
        let asked = gateway.http.post(format!("{}{path}", gateway.url)).body(body(path, true));
        let mut answer = asked.send().await.unwrap();
        assert_eq!(answer.status(), 200, "{path}");
        let first = answer.chunk().await.unwrap().unwrap();
        begun.push((path, first, answer));
    }
    let whole = paths.map(|path| {
        let plain = path.replace("streamGenerateContent?alt=sse", "generateContent");
        let request = gateway.http.post(format!("{}{plain}", gateway.url)).body(body(path, false));
        tokio::spawn(async move { request.send().await.unwrap() })
    });
    while upstream.seen().len() < 8 {
        tokio::task::yield_now().await;
    }
    gateway.signal("-TERM");
    for (path, first, answer) in begun {
        let text = [first, answer.bytes().await.unwrap()].concat();
        let text = String::from_utf8(text).unwrap();
        let last = text.trim_end().rsplit("\n\n").next().unwrap();
        let error = last.rsplit("data: ").next().unwrap();
        let error: Value = serde_json::from_str(error).unwrap_or_else(|_| panic!("{path}: {text}"));
        let message = error.pointer("/error/message").or(error.get("message"));
        assert_eq!(message.and_then(Value::as_str), Some("the gateway shuts down"), "{path}: {text}");
    }
    for asked in whole {
        let answer = asked.await.unwrap();
        assert_eq!(
            (answer.status().as_u16(), &answer.headers()["retry-after"]),
            (503, &"1".parse().unwrap())
        );
        assert!(answer.text().await.unwrap().contains("the gateway shuts down"));
    }
    assert_eq!(gateway.child.wait().unwrap().code(), Some(0));
    gateway.wait_until_said("requests that were cut off: 8").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_signal_ends_it_at_once() {
    let upstream = Upstream::start([Reply::Waits(Vec::new())]);
    let mut gateway = Gateway::under(POLICY, &(one("openai", &upstream) + "stop: {drain: 1h}\n"), &[]);
    let (http, url) = (gateway.http.clone(), format!("{}{CHAT}", gateway.url));
    let asked = tokio::spawn(async move { http.post(url).body(r#"{"model":"main"}"#).send().await.is_err() });
    while upstream.seen().is_empty() {
        tokio::task::yield_now().await;
    }
    gateway.signal("-INT");
    gateway.wait_until_stopping().await;
    gateway.signal("-INT");
    assert_eq!(gateway.child.wait().unwrap().code(), Some(130));
    assert!(asked.await.unwrap());
}
