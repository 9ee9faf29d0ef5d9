//! Servers over HTTP.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::json;

use super::{Client, texts};
use crate::command;

/// A server over HTTP, which ends with the test.
struct HttpServer(Child, String);

impl HttpServer {
    fn start(mode: &str) -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/host/mcp/server.py");
        let mut child = Command::new("python3").arg(script).arg(mode).stdout(Stdio::piped()).spawn().unwrap();
        let mut url = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut url).unwrap();
        Self(child, url.trim().to_owned())
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn client(server: &HttpServer, key: &str) -> Client {
    client_of(&server.1, key)
}

/// The relay to a server over HTTP, with that key in the environment.
pub(super) fn client_of(url: &str, key: &str) -> Client {
    let folder = tempfile::tempdir().unwrap();
    let args = ["mcp", "--url", url, "--header", "X-Key={SERVER_KEY}"];
    let mut command = command::unfazed(folder.path(), &args);
    command.env("SERVER_KEY", key).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let (input, output) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
    let (sender, lines) = std::sync::mpsc::channel();
    std::thread::spawn(move || output.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
    Client { child, input, lines, folder }
}

#[test]
fn a_server_is_reached_over_http_in_json_and_in_events() {
    for mode in ["http", "sse"] {
        let server = HttpServer::start(mode);
        let mut client = client(&server, "sesame");
        let began = client.shake_hands(&json!({}));
        assert_eq!(began["result"]["serverInfo"]["name"], "hostile", "{mode}");
        assert_eq!(texts(&client.call("echo", &json!({"text": "a"}))), ["a"], "{mode}");
        assert!(texts(&client.call("echo", &json!({})))[0].contains("`text` is missing"), "{mode}");
        assert!(texts(&client.call("fail", &json!({})))[0].contains("the disk is full"), "{mode}");
        assert_eq!(client.end(), Some(0));
    }
}

#[test]
fn half_a_surrogate_pair_is_passed_on_over_http_too() {
    for mode in ["http", "sse"] {
        let server = HttpServer::start(mode);
        let mut client = client(&server, "sesame");
        client.shake_hands(&json!({}));
        client.send(&json!(7), "tools/call", &json!({"name": "plain", "arguments": {"half": true}}));
        let answer = client.line();
        assert!(answer.contains(r#""text": "a\ud800b""#), "{mode}: {answer}");
    }
}

#[test]
fn a_key_that_is_not_taken_is_an_error_of_each_request_and_is_not_shown() {
    let server = HttpServer::start("http");
    let mut client = client(&server, "open-up-1234");
    let answer = client.ask("initialize", &json!({"protocolVersion": "1", "capabilities": {}}));
    let why = answer["error"]["message"].as_str().unwrap();
    assert!(why.contains("HTTP 401") && !why.contains("open-up"), "{why}");
}

#[test]
fn a_call_that_only_reads_tries_a_server_again_that_cannot_be_reached() {
    let server = HttpServer::start("http");
    let mut client = client(&server, "sesame");
    client.shake_hands(&json!({}));
    client.call("echo", &json!({"text": "a"}));
    drop(server);
    let result = client.call("echo", &json!({"text": "b"}));
    assert_eq!(result["_meta"]["unfazed"]["class"], "tool_unavailable", "{result}");
    assert!(result["_meta"]["unfazed"]["attempts"].as_u64().unwrap() > 1, "it only reads: {result}");
}

#[test]
fn a_header_takes_the_place_of_a_key_in_the_address() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://user:pw@{}/mcp", listener.local_addr().unwrap());
    let args = ["mcp", "--url", &url, "--header", "Authorization=Bearer sesame"];
    let mut client = Client::run(tempfile::tempdir().unwrap(), &args);
    client.send(&json!(1), "initialize", &json!({"protocolVersion": "2025-11-25", "capabilities": {}}));
    let (stream, _) = listener.accept().unwrap();
    let lines = BufReader::new(stream).lines().map_while(Result::ok).take_while(|line| !line.is_empty());
    let keys: Vec<String> =
        lines.filter(|line| line.to_ascii_lowercase().starts_with("authorization:")).collect();
    assert_eq!(keys, ["authorization: Bearer sesame"]);
}

#[test]
fn without_a_server_all_ways_to_name_one_are_said() {
    let folder = tempfile::tempdir().unwrap();
    let output = command::unfazed(folder.path(), &["mcp"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(["after `--`", "--url", "FILE"].iter().all(|way| said.contains(way)), "{said}");
}

/// A server over HTTP that breaks off in the middle of its answer to a call. Returns its address.
fn breaks_off() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let body = posted(&stream);
            let message: serde_json::Value = serde_json::from_str(&body).unwrap_or_default();
            let result = match message["method"].as_str() {
                Some("initialize") => {
                    json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "b", "version": "1"}})
                }
                Some("tools/list") => json!({"tools": [{"name": "pay", "inputSchema": {"type": "object"}}]}),
                Some("tools/call") => {
                    let head =
                        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 999\r\n\r\n{";
                    stream.write_all(head.as_bytes()).unwrap();
                    continue;
                }
                _ => {
                    let status = if body.is_empty() { "405 No" } else { "202 Accepted" };
                    let head = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
                    stream.write_all(head.as_bytes()).unwrap();
                    continue;
                }
            };
            let answer = json!({"jsonrpc": "2.0", "id": message["id"], "result": result}).to_string();
            let length = answer.len();
            let head = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n"
            );
            stream.write_all((head + &answer).as_bytes()).unwrap();
        }
    });
    url
}

/// A server at `/mcp/` that leads there from `/mcp`, and whose answers to calls break off and are had by asking again. Returns
/// its address.
fn resumes(from: &str) -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}{from}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        let mut called = json!(null);
        for mut stream in listener.incoming().map_while(Result::ok) {
            let (head, body) = received(&stream);
            let message: serde_json::Value = serde_json::from_str(&body).unwrap_or_default();
            let answer = |result: serde_json::Value, id: &serde_json::Value| {
                let message = json!({"jsonrpc": "2.0", "id": id, "result": result});
                format!("200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: {message}\n\n")
            };
            let answer = match message["method"].as_str() {
                _ if head.contains(" /elsewhere ") => {
                    "307 Moved\r\nlocation: http://example.org/mcp?key=1\r\n\r\n".to_owned()
                }
                _ if !head.contains(" /mcp/ ") => "307 Moved\r\nlocation: /mcp/\r\n\r\n".to_owned(),
                Some("initialize") => {
                    let server = json!({"name": "b", "version": "1"});
                    answer(
                        json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": server}),
                        &message["id"],
                    )
                }
                Some("tools/list") => answer(
                    json!({"tools": [{"name": "pay", "inputSchema": {"type": "object"}}]}),
                    &message["id"],
                ),
                Some("tools/call") => {
                    called = message["id"].clone();
                    let cut = "content-length: 999\r\n\r\nid: 7\nretry: 0\ndata:\n\ndata: {";
                    format!("200 OK\r\ncontent-type: text/event-stream\r\n{cut}")
                }
                _ if head.contains("last-event-id: 7") => {
                    answer(json!({"content": [{"type": "text", "text": "paid"}]}), &called)
                }
                _ if body.is_empty() => "405 No\r\n\r\n".to_owned(),
                _ => "202 Accepted\r\n\r\n".to_owned(),
            };
            let answer = answer.replacen("\r\n", "\r\nconnection: close\r\n", 1);
            stream.write_all(format!("HTTP/1.1 {answer}").as_bytes()).unwrap();
        }
    });
    url
}

#[test]
fn an_answer_that_breaks_off_is_asked_for_again() {
    let mut client = client_of(&resumes("/mcp/"), "sesame");
    client.shake_hands(&json!({}));
    assert_eq!(texts(&client.call("pay", &json!({}))), ["paid"]);
}

#[test]
fn a_server_is_followed_to_another_address_of_its_own_alone() {
    let mut client = client_of(&resumes("/mcp"), "sesame");
    client.shake_hands(&json!({}));
    assert_eq!(texts(&client.call("pay", &json!({}))), ["paid"]);
    let mut client = client_of(&resumes("/elsewhere"), "sesame");
    let answer = client.ask("initialize", &json!({"protocolVersion": "2025-11-25", "capabilities": {}}));
    let why = answer["error"]["message"].as_str().unwrap();
    assert!(why.contains("to http://example.org/mcp;"), "{why}");
}

/// The body of a request.
fn posted(stream: &std::net::TcpStream) -> String {
    received(stream).1
}

/// The head of a request, in lower case, and its body.
fn received(stream: &std::net::TcpStream) -> (String, String) {
    let (mut lines, mut length, mut line) = (BufReader::new(stream), 0, String::new());
    let mut whole = String::new();
    while lines.read_line(&mut line).unwrap_or_default() > 2 {
        let head = line.to_ascii_lowercase();
        whole.push_str(&head);
        length =
            head.strip_prefix("content-length:").map_or(length, |written| written.trim().parse().unwrap());
        line.clear();
    }
    let mut body = vec![0; length];
    lines.read_exact(&mut body).unwrap();
    (whole, String::from_utf8(body).unwrap())
}

#[test]
fn a_server_that_breaks_off_its_answer_has_closed_the_connection() {
    let mut client = client_of(&breaks_off(), "sesame");
    client.shake_hands(&json!({}));
    let result = client.call("pay", &json!({}));
    let text = texts(&result)[0];
    assert!(text.contains("the server closed the connection before it answered"), "{text}");
    assert_eq!(result["_meta"]["unfazed"]["class"], "network_error", "{result}");
}

#[test]
fn what_may_be_secret_in_an_address_is_not_shown() {
    let mut client = client_of("http://127.0.0.1:9/mcp?key=open-up-1234", "sesame");
    let answer = client.ask("initialize", &json!({"protocolVersion": "1", "capabilities": {}}));
    let why = answer["error"]["message"].as_str().unwrap();
    assert!(why.contains("127.0.0.1") && !why.contains("open-up"), "{why}");
}

#[test]
fn a_header_whose_variable_is_not_set_is_a_mistake() {
    let folder = tempfile::tempdir().unwrap();
    let args = ["mcp", "--url", "http://127.0.0.1:9/mcp", "--header", "Authorization=Bearer {NO_SUCH_TOKEN}"];
    let output = command::unfazed(folder.path(), &args).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        said.contains("--header Authorization: the environment has no text in `NO_SUCH_TOKEN`"),
        "{said}"
    );
}
