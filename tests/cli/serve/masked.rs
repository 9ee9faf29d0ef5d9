//! Providers that repeat the key that they were sent, in answers that went well.

use super::{CHAT, Gateway, MESSAGES, Reply, Upstream, one, said};

const KEY: &str = "sk-upstream";
const MASK: &str = "***********";
const FINISH: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";

fn delta(text: &str) -> String {
    format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{text}\"}}}}]}}\n\n")
}

/// A stream whose bytes come one by one.
fn byte_by_byte(events: &str) -> Reply {
    let chunks: String = events.chars().flat_map(|byte| ['1', '\r', '\n', byte, '\r', '\n']).collect();
    let head = "content-type: text/event-stream\r\nx-seen: Bearer sk-upstream\r\ntransfer-encoding: chunked";
    Reply::Sends(format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n{chunks}0\r\n\r\n").into_bytes())
}

fn ask(stream: bool) -> String {
    format!(
        r#"{{"model":"main","stream":{stream},"max_tokens":9,"messages":[{{"role":"user","content":"hi"}}]}}"#
    )
}

#[tokio::test]
async fn the_key_is_in_no_answer() {
    let text = format!("it is {KEY}!");
    let events = [&delta(&text), FINISH, "data: [DONE]\n\n"].concat();
    let whole = Reply::json(200, &format!("x-seen: Bearer {KEY}\r\nx-other: kept\r\n"), &said(&text));
    for (stream, reply, relayed) in
        [(false, whole, said(&text)), (true, byte_by_byte(&events), events.clone())]
    {
        let upstream = Upstream::start([reply]);
        let gateway = Gateway::start(&one("openai", &upstream));
        for client in [CHAT, MESSAGES] {
            let got = gateway.post(client, &[], ask(stream)).await;
            assert_eq!((got.status, got.told()), (200, ("1", "main", "")), "{got:?}");
            assert!(!format!("{got:?}").contains(KEY) && got.header("x-seen").is_empty(), "{got:?}");
            assert!(got.body.contains(&format!("it is {MASK}!")) || client == MESSAGES, "{got:?}");
            assert!(stream || got.header("x-other") == "kept", "{got:?}");
            if client == CHAT {
                assert_eq!(got.body, relayed.replace(KEY, MASK));
            }
        }
    }
}

/// The text of the events of a stream.
fn text(body: &str) -> String {
    let data = body.lines().filter_map(|line| line.strip_prefix("data: "));
    let events = data.filter_map(|data| serde_json::from_str::<serde_json::Value>(data).ok());
    let said = |event: serde_json::Value| {
        let text = event["choices"][0]["delta"]["content"].as_str().or(event["delta"]["text"].as_str());
        text.map(ToOwned::to_owned)
    };
    events.filter_map(said).collect()
}

#[tokio::test]
async fn several_events_do_not_spell_it() {
    let pieces = ["it is ", "sk-u", "pstr", "eam", "!"].map(delta).concat();
    let escaped = ["it is sk\\u002du", "pstream!"].map(delta).concat();
    for events in [pieces, escaped] {
        let upstream = Upstream::start([Reply::events(&[&events, FINISH, "data: [DONE]\n\n"].concat())]);
        let gateway = Gateway::start(&one("openai", &upstream));
        // What is converted is written anew.
        let got = gateway.post(MESSAGES, &[], ask(true)).await;
        assert_eq!(text(&got.body), format!("it is {MASK}!"));
        let got = gateway.post(CHAT, &[], ask(true)).await;
        assert!(!got.body.contains("pstr") && !got.body.contains("[DONE]"), "{got:?}");
        assert!(got.body.contains("\"code\":\"server_error\""), "{got:?}");
        assert!(got.body.contains("the answer repeats a key of its provider"), "{got:?}");
    }
}

/// A key as writers of JSON escape it.
const ESCAPED: [&str; 2] = [r"sk\u002Dupstream", r"\u0073\u006b-upstrea\u006d"];

#[tokio::test]
async fn no_escape_spells_it() {
    for escaped in ESCAPED {
        let error = format!(r#"{{"error":{{"message":"Incorrect API key: {escaped}"}}}}"#);
        let whole = said("it is KEY!").replace("KEY", escaped);
        let events = [&delta(&format!("it is {escaped}!")), FINISH, "data: [DONE]\n\n"].concat();
        let asterisks = "*".repeat(escaped.len());
        for (stream, reply, status, expected) in [
            (false, Reply::json(401, "", &error), 401, error.replace(escaped, "[redacted]")),
            (false, Reply::json(200, "", &whole), 200, whole.replace(escaped, &asterisks)),
            (true, Reply::events(&events), 200, events.replace(escaped, &asterisks)),
        ] {
            let upstream = Upstream::start([reply]);
            let got = Gateway::start(&one("openai", &upstream)).post(CHAT, &[], ask(stream)).await;
            assert_eq!((got.status, &got.body), (status, &expected));
        }
    }
}

#[tokio::test]
async fn what_is_no_key_is_neither_masked_nor_late() {
    let piece = delta("sk-sk-up");
    let upstream = Upstream::start([Reply::open(&piece)]);
    let gateway = Gateway::start(&one("openai", &upstream));
    let request = gateway.http.post(format!("{}{CHAT}", gateway.url)).body(ask(true));
    let mut answer = request.send().await.unwrap();
    assert_eq!(answer.chunk().await.unwrap().unwrap(), piece);
}
