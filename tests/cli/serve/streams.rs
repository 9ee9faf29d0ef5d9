//! Answers that are streamed: what may still be another attempt's, and what is out.

use std::io::Write;
use std::net::TcpStream;

use futures_util::StreamExt;

use super::{CHAT, Gateway, MESSAGES, RESPONSES, Reply, Upstream, one};

const ASK: &str = r#"{"stream":true,"model":"main"}"#;

/// A dialect: its name, where it is asked, the start of a stream, its first content, its end, and its own error event.
const DIALECTS: [(&str, &str, &str, &str, &str, &str); 3] = [
    (
        "openai",
        CHAT,
        ": hello\n\ndata: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\"}}]}\n\n",
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hel\"}}], \"x\" : 1.50}\n\n",
        "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n",
        "data: {\"error\":{\"message\":",
    ),
    (
        "anthropic",
        MESSAGES,
        "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"content\":[],\"usage\":{\"input_tokens\":1,\"output_tokens\":1}}}\n\nevent: ping\ndata: {\"type\":\"ping\"}\n\n",
        "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\nevent: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"Hel\"}}\n\n",
        "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\nevent: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":2}}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
        "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"api_error\",\"message\":",
    ),
    (
        "responses",
        RESPONSES,
        "event: response.created\ndata: {\"type\":\"response.created\",\"sequence_number\":0,\"response\":{\"id\":\"r\",\"output\":[]}}\n\n",
        "event: response.output_item.added\ndata: {\"type\":\"response.output_item.added\",\"sequence_number\":1,\"output_index\":0,\"item\":{\"type\":\"message\",\"id\":\"i\",\"role\":\"assistant\",\"content\":[]}}\n\nevent: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"sequence_number\":2,\"item_id\":\"i\",\"output_index\":0,\"content_index\":0,\"delta\":\"Hel\"}\n\n",
        "event: response.completed\ndata: {\"type\":\"response.completed\",\"sequence_number\":3,\"response\":{\"id\":\"r\",\"status\":\"completed\",\"output\":[{\"type\":\"message\",\"id\":\"i\",\"role\":\"assistant\",\"content\":[{\"type\":\"output_text\",\"text\":\"Hel\"}]}]}}\n\n",
        "event: error\ndata: {\"type\":\"error\",\"code\":\"",
    ),
];

#[tokio::test]
async fn a_stream_passes_byte_for_byte() {
    for (api, path, start, content, end, _) in DIALECTS {
        let whole = [start, content, end].concat();
        let upstream = Upstream::start([Reply::events(&whole)]);
        let got = Gateway::start(&one(api, &upstream)).post(path, &[], ASK).await;
        assert_eq!((got.status, &*got.body, got.told()), (200, &*whole, ("1", "main", "")));
        assert_eq!(got.header("content-type"), "text/event-stream");
    }
}

#[tokio::test]
async fn until_its_content_is_out_a_stream_is_tried_again() {
    for (api, path, start, content, end, _) in DIALECTS {
        let whole = [start, content, end].concat();
        let inside = "data: {\"error\":{\"message\":\"overloaded\",\"type\":\"overloaded_error\"},\"type\":\"error\"}\n\n";
        let upstream = Upstream::start([Reply::cut(start), Reply::events(start), Reply::events(&whole)]);
        let got = Gateway::start(&one(api, &upstream)).post(path, &[], ASK).await;
        assert_eq!((got.status, &*got.body, got.told()), (200, &*whole, ("3", "main", "")), "{api}");
        let upstream = Upstream::start([Reply::events(&[start, inside].concat()), Reply::events(&whole)]);
        let got = Gateway::start(&one(api, &upstream)).post(path, &[], ASK).await;
        assert_eq!((got.status, &*got.body, got.told()), (200, &*whole, ("2", "main", "")), "{api}");
    }
}

#[tokio::test]
async fn what_breaks_off_afterwards_ends_with_an_error_of_the_dialect() {
    for (api, path, start, content, _, error) in DIALECTS {
        let out = [start, content].concat();
        // The beginning of an event is none, and goes nowhere.
        for reply in [Reply::cut(&[&*out, "data: {\"choi"].concat()), Reply::events(&out)] {
            let upstream = Upstream::start([reply]);
            let got = Gateway::start(&one(api, &upstream)).post(path, &[], ASK).await;
            assert_eq!((got.status, got.told()), (200, ("1", "main", "")));
            let last = got.body.strip_prefix(&*out).unwrap_or_else(|| panic!("{api}: {got:?}"));
            assert!(
                last.starts_with(error) && last.ends_with("\n\n") && last.matches("\n\n").count() == 1,
                "{api}: {last}"
            );
            assert!(!got.body.contains("[DONE]") && !got.body.contains("finish_reason"), "{api}");
            assert_eq!(upstream.seen().len(), 1, "nothing is tried again");
        }
    }
}

#[tokio::test]
async fn a_stream_is_whole_once_all_its_choices_have_ended() {
    let piece = |index: u8, delta: &str, finish: &str| {
        format!(
            "data: {{\"choices\":[{{\"index\":{index},\"delta\":{{{delta}}},\"finish_reason\":{finish}}}]}}\n\n"
        )
    };
    let text = "\"content\":\"Hel\"";
    let [first, second] = [0, 1].map(|index| piece(index, text, "null"));
    let [first_ends, second_ends] = [0, 1].map(|index| piece(index, "", "\"stop\""));
    let done = "data: [DONE]\n\n";
    let ask = ASK.replacen('{', "{\"n\":2,", 1);
    let get = |reply: Reply| {
        let ask = ask.clone();
        async move {
            let upstream = Upstream::start([reply]);
            Gateway::start(&one("openai", &upstream)).post(CHAT, &[], ask).await.body
        }
    };
    let open = [&*first, &second, &first_ends].concat();
    for cut in [
        Reply::cut(&open),
        Reply::events(&open),
        Reply::events(&[&*open, done].concat()),
        Reply::cut(&[&*first, &first_ends].concat()),
    ] {
        let got = get(cut).await;
        assert!(got.contains("\"error\"") && !got.contains(done), "{got}");
    }
    let whole = [&*open, &second_ends, done].concat();
    assert_eq!(get(Reply::events(&whole)).await, whole);
    // Nothing can follow it.
    let whole = [&*open, &second_ends].concat();
    assert_eq!(get(Reply::cut(&whole)).await, whole);
    // A server that knows no `n`.
    let alone = [&*first, &first_ends, done].concat();
    assert_eq!(get(Reply::events(&alone)).await, alone);
}

#[tokio::test]
async fn an_end_goes_out_once_the_answer_is_known_to_be_whole() {
    let (api, path, start, content, _, error) = DIALECTS[0];
    let upstream = Upstream::start([Reply::events(&[start, content, "data: [DONE]\n\n"].concat())]);
    let got = Gateway::start(&one(api, &upstream)).post(path, &[], ASK).await;
    assert!(got.body.contains(error) && !got.body.contains("[DONE]"), "{got:?}");
}

#[tokio::test]
async fn a_stream_that_no_attempt_begins_is_an_error_with_a_status() {
    let upstream = Upstream::start([Reply::cut(DIALECTS[0].2)]);
    let got = Gateway::start(&one("openai", &upstream)).post(CHAT, &[], ASK).await;
    assert_eq!((got.status, got.told()), (502, ("3", "main", "network_error")));
    assert_eq!(got.json()["error"]["code"], "server_error");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_piece_is_out_as_soon_as_it_has_come_and_a_client_that_goes_is_followed() {
    let upstream = Upstream::start([Reply::open(&[DIALECTS[0].2, DIALECTS[0].3].concat())]);
    let gateway = Gateway::start(&one("openai", &upstream));
    let response = gateway.http.post(format!("{}{CHAT}", gateway.url)).body(ASK).send().await.unwrap();
    let mut pieces = response.bytes_stream();
    let mut got = Vec::new();
    while !got.ends_with(DIALECTS[0].3.as_bytes()) {
        got.extend_from_slice(&pieces.next().await.unwrap().unwrap());
    }
    drop(pieces);
    upstream.wait_until_gone();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_goes_before_it_has_an_answer_is_followed() {
    let upstream = Upstream::start([Reply::open(DIALECTS[0].2)]);
    let gateway = Gateway::start(&one("openai", &upstream));
    let mut stream = TcpStream::connect(gateway.address()).unwrap();
    let length = ASK.len();
    write!(stream, "POST {CHAT} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {length}\r\n\r\n{ASK}")
        .unwrap();
    while upstream.seen().is_empty() {
        tokio::task::yield_now().await;
    }
    drop(stream);
    upstream.wait_until_gone();
}

#[tokio::test]
async fn nothing_passes_behind_the_last_event() {
    let other = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"other\"}}]}\n\n";
    // What is wrong there no longer concerns the answer.
    let error = "data: {\"error\":{\"message\":\"overloaded\",\"type\":\"overloaded_error\"}}\n\n";
    for (api, path, start, content, end, _) in DIALECTS {
        let whole = [start, content, end].concat();
        for behind in [other, error, "data: {\"ch", "HTTP/1.1 200 OK\r\n"] {
            let chunks = [&*whole, behind].map(|piece| format!("{:x}\r\n{piece}\r\n", piece.len())).concat();
            let head =
                "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
            let late = Reply::Sends(format!("{head}{chunks}0\r\n\r\n").into_bytes());
            let upstream = Upstream::start([Reply::events(&[&*whole, behind].concat()), late]);
            let gateway = Gateway::spawned(
                super::folder(super::POLICY, &one(api, &upstream)),
                &["serve", "gateway.yaml", "--addr", "127.0.0.1:0", "--log", "warn"],
            );
            for _ in 0..2 {
                let got = gateway.post(path, &[], ASK).await;
                assert_eq!((got.status, &*got.body, got.told()), (200, &*whole, ("1", "main", "")), "{api}");
            }
            let logged = || {
                let said = gateway.said.lock().unwrap();
                said.iter()
                    .filter(|line| line.contains("what follows the last event of a stream is left out"))
                    .count()
            };
            while logged() < 2 {
                gateway.get("/healthz", &[]).await;
            }
            assert_eq!(logged(), 2);
        }
    }
}
