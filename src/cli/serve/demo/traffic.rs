//! Clients for the demo: they ask the gateway as programs do, over HTTP, so steadily that something happens.

use core::time::Duration;

use futures_util::StreamExt;
use serde_json::{Value, json};
use tokio::task::JoinSet;

/// How long after one request the next one comes.
const PAUSE: Duration = Duration::from_millis(350);
/// The most requests at once; one more waits until another has ended.
const MOST: usize = 24;
/// So often many requests come at once, and so many.
const RUSH_EVERY: u64 = 40;
const RUSH: u64 = 8;

/// Asks the gateway at that address as long as it is polled.
pub(in crate::cli::serve) async fn ask(url: String) {
    // Without the system's proxy: the gateway is on this machine.
    let Ok(http) = reqwest::Client::builder().no_proxy().build() else { return };
    let (mut tick, mut open) = (tokio::time::interval(PAUSE), JoinSet::new());
    for number in 0_u64.. {
        tick.tick().await;
        let rush = number.checked_rem(RUSH_EVERY) == Some(RUSH);
        for _ in 0..if rush { RUSH } else { 1 } {
            if open.len() >= MOST {
                open.join_next().await;
            }
            open.spawn(one(http.clone(), url.clone(), if rush { 1 } else { number }));
        }
        while open.try_join_next().is_some() {}
    }
}

/// One request, as one of several programs. What comes of it, the page shows.
async fn one(http: reqwest::Client, url: String, number: u64) {
    let (path, body) = request(number);
    let Ok(answer) = http.post(format!("{url}{path}")).json(&body).send().await else { return };
    let mut pieces = answer.bytes_stream();
    while let Some(Ok(_)) = pieces.next().await {}
}

fn request(number: u64) -> (&'static str, Value) {
    let messages = json!([{ "role": "user", "content": "What do twelve lamps cost?" }]);
    match number.checked_rem(4) {
        Some(0) => {
            ("/v1/chat/completions", json!({ "model": "gpt-5", "messages": messages, "stream": true }))
        }
        Some(1) => ("/v1/chat/completions", json!({ "model": "gpt-5-mini", "messages": messages })),
        Some(2) => ("/v1/messages", json!({ "model": "gpt-5", "messages": messages, "max_tokens": 100 })),
        _ => ("/v1/chat/completions", json!({ "model": "gpt-5", "messages": messages })),
    }
}
