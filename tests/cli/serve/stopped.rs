//! How a gateway ends.

use super::{CHAT, Gateway, POLICY, Reply, Upstream, one, said};

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
