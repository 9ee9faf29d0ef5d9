//! `--listen`: clients over HTTP.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::{POLICY, server_script};
use crate::command;

/// The relay as a server.
struct Relay {
    child: Child,
    url: String,
    folder: TempDir,
    http: reqwest::Client,
}

/// An answer over HTTP.
struct Answer {
    status: u16,
    session: Option<String>,
    /// No other request may be sent on its connection.
    closes: bool,
    /// The messages in it.
    messages: Vec<Value>,
}

impl Relay {
    fn start(args: &[&str], key: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let notes = folder.path().join("notes").display().to_string();
        let script = server_script().display().to_string();
        Self::of(folder, args, key, &["python3", &script, &notes, "plain"])
    }

    fn of(folder: TempDir, args: &[&str], key: &str, server: &[&str]) -> Self {
        std::fs::write(folder.path().join("p.yaml"), POLICY).unwrap();
        let before = ["mcp", "--policy", "p.yaml", "--listen", "127.0.0.1:0"];
        let all = [&before, args, &["--"], server].concat();
        let mut command = command::unfazed(folder.path(), &all);
        let mut child = command.env("RELAY_KEY", key).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
        let url = line.strip_prefix("listens  ").unwrap_or_else(|| panic!("{line}")).trim().to_owned();
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        Self { child, url, folder, http }
    }

    async fn send(&self, method: &str, headers: &[(&str, &str)], body: Option<&Value>) -> Answer {
        let mut request = self.http.request(method.parse().unwrap(), &self.url);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if let Some(body) = body {
            request = request.header("content-type", "application/json").body(body.to_string());
        }
        let response = request.send().await.unwrap();
        let status = response.status().as_u16();
        let session = response.headers().get("mcp-session-id").map(|id| id.to_str().unwrap().to_owned());
        let closes = response.headers().get("connection").is_some_and(|value| value == "close");
        let text = response.text().await.unwrap();
        let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
        let messages = data.map(|data| serde_json::from_str(data).unwrap()).collect();
        Answer { status, session, closes, messages }
    }

    /// A client of its own: its session.
    async fn client(&self, headers: &[(&str, &str)]) -> String {
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}});
        let answer = self.send("POST", headers, Some(&request(0, "initialize", &params))).await;
        assert_eq!(answer.messages[0]["result"]["serverInfo"]["name"], "flaky", "{}", answer.status);
        answer.session.unwrap()
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn request(id: u64, method: &str, params: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

fn call(id: u64, tool: &str, text: &str) -> Value {
    request(
        id,
        "tools/call",
        &json!({"name": tool, "arguments": {"text": text}, "_meta": {"progressToken": id}}),
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn each_client_has_a_session_and_a_server_of_its_own() {
    let relay = Relay::start(&[], "");
    let (one, two) = (relay.client(&[]).await, relay.client(&[]).await);
    assert_ne!(one, two);
    let note = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    for session in [&one, &two] {
        let headers = [("mcp-session-id", &**session)];
        let told = relay.send("POST", &headers, Some(&note)).await;
        assert_eq!((told.status, told.messages.len()), (202, 0));
        // What is progress of a call comes with its answer.
        let answer = relay.send("POST", &headers, Some(&call(7, "flaky", "a"))).await;
        assert_eq!(answer.messages.len(), 6, "{:?}", answer.messages);
        assert_eq!(answer.messages[5]["result"]["content"][0]["text"], "found");
    }
    let notes = std::fs::read_to_string(relay.folder.path().join("notes")).unwrap();
    assert_eq!(notes.lines().filter(|note| note.starts_with("started")).count(), 2);
    let headers = [("mcp-session-id", &*one)];
    assert_eq!(relay.send("DELETE", &headers, None).await.status, 204);
    assert_eq!(relay.send("POST", &headers, Some(&call(8, "echo", "a"))).await.status, 404);
    let headers = [("mcp-session-id", &*two)];
    let answer = relay.send("POST", &headers, Some(&call(8, "echo", "a"))).await;
    assert_eq!(answer.messages[0]["result"]["content"][0]["text"], "a");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_client_has_the_last_good_policy_where_the_files_are_broken() {
    let relay = Relay::start(&["--reload"], "");
    let policy = relay.folder.path().join("p.yaml");
    let echo = async |session: &str| {
        let answer = relay.send("POST", &[("mcp-session-id", session)], Some(&call(7, "echo", "a"))).await;
        answer.messages.last().unwrap()["result"]["_meta"]["unfazed"]["class"].clone()
    };
    let one = relay.client(&[]).await;
    assert_eq!(echo(&one).await, Value::Null);
    let edited = "version: 1\ntools: {echo: {approval: always}}\n";
    std::fs::write(&policy, edited).unwrap();
    assert_eq!(echo(&one).await, "permission_denied");
    std::fs::write(&policy, "version: 1\ntools: {echo: {approval: perhaps}}\n").unwrap();
    let two = relay.client(&[]).await;
    assert_eq!(echo(&two).await, "permission_denied", "not the policy of the start");
    std::fs::write(&policy, "version: 1\n").unwrap();
    assert_eq!(echo(&two).await, Value::Null);
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_that_may_not_be_are_refused_before_they_reach_a_server() {
    let relay = Relay::start(&["--key", "RELAY_KEY"], "sesame");
    let hello = request(0, "initialize", &json!({}));
    let key = ("authorization", "Bearer sesame");
    for (headers, status) in [
        (&[][..], 401),
        (&[("authorization", "Bearer open")], 401),
        (&[key, ("host", "evil.example")], 403),
        (&[key, ("origin", "https://evil.example")], 403),
        (&[key, ("mcp-session-id", "no-such")], 200),
    ] {
        let answer = relay.send("POST", headers, Some(&hello)).await;
        assert_eq!((answer.status, answer.closes), (status, status != 200), "{headers:?}");
    }
    assert_eq!(relay.send("POST", &[key], Some(&call(1, "echo", "a"))).await.status, 400);
    assert_eq!(relay.send("GET", &[key], None).await.status, 400);
    assert_eq!(relay.send("PUT", &[key], None).await.status, 405);
    for wrong in ["{broken", "[]", r#"{"id":[1],"method":"ping"}"#] {
        let posted = relay.http.post(&relay.url).bearer_auth("sesame").body(wrong).send().await.unwrap();
        assert_eq!(posted.status(), 400, "{wrong}");
    }
    let large = json!("x".repeat(20 << 20));
    let answer = relay.send("POST", &[key], Some(&large)).await;
    assert_eq!((answer.status, answer.closes), (413, true));
    relay.client(&[key]).await;
}

/// Such a head may have been read otherwise by a proxy, which let it in for what it read.
#[tokio::test(flavor = "multi_thread")]
async fn heads_that_can_be_read_in_two_ways_are_refused() {
    let relay = Relay::start(&[], "");
    let address = relay.url.strip_prefix("http://").unwrap().strip_suffix("/mcp").unwrap();
    for (head, status) in [
        ("GET /mcp HTTP/1.1\r\n".to_owned(), "400"),
        (format!("GET /mcp HTTP/1.1\r\nHost: {address}\r\nHost: evil.example\r\n"), "400"),
        (format!("GET http://evil.example/mcp HTTP/1.1\r\nHost: {address}\r\n"), "400"),
        (format!("POST /mcp HTTP/1.1\r\nHost: {address}\r\nContent-Encoding: gzip\r\n"), "415"),
        // Both are read, and want a session.
        ("GET /mcp HTTP/1.0\r\n".to_owned(), "400"),
        (format!("GET /mcp HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n"), "400"),
    ] {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(format!("{head}\r\n").as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (line, body) = answer.split_once("\r\n").unwrap();
        assert_eq!(line.split(' ').nth(1), Some(status), "{head}: {answer}");
        let is_read = head.contains("HTTP/1.0") || head.contains("Connection");
        assert_eq!(body.contains("names no session"), is_read, "{head}: {answer}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_version_that_does_not_pass_over_http_is_refused() {
    let relay = Relay::start(&[], "");
    let session = relay.client(&[]).await;
    let own = ("mcp-session-id", &*session);
    for (version, status) in
        [("2025-11-25", 200), ("2025-06-18", 200), ("1999-01-01", 400), ("2026-07-28", 400)]
    {
        let headers = [own, ("mcp-protocol-version", version)];
        let answer = relay.send("POST", &headers, Some(&request(1, "ping", &json!({})))).await;
        assert_eq!(answer.status, status, "{version}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn handshakes_that_fail_keep_nobody_out() {
    let relay = Relay::of(tempfile::tempdir().unwrap(), &[], "", &["false"]);
    for n in 0..300 {
        let answer = relay.send("POST", &[], Some(&request(n, "initialize", &json!({})))).await;
        assert_eq!(answer.status, 200, "the {n}th");
        assert!(answer.messages[0]["error"].is_object(), "{:?}", answer.messages);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_closes_its_connection_takes_its_call_back() {
    let relay = Relay::start(&[], "");
    let session = relay.client(&[]).await;
    let posted = relay.http.post(&relay.url).header("mcp-session-id", &session);
    let posted = posted.header("content-type", "application/json").body(call(7, "slow", "a").to_string());
    let response = posted.send().await.unwrap();
    let has_read = |what: &'static str| {
        let notes = relay.folder.path().join("notes");
        async move {
            while !std::fs::read_to_string(&notes).unwrap().contains(what) {
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
        }
    };
    tokio::time::timeout(super::PATIENCE, has_read("\"slow\"")).await.unwrap();
    drop(response);
    tokio::time::timeout(super::PATIENCE, has_read("notifications/cancelled"))
        .await
        .expect("the server learns it");
}

#[test]
fn beyond_this_machine_clients_need_a_key() {
    let folder = tempfile::tempdir().unwrap();
    let args = ["mcp", "--listen", "0.0.0.0:0", "--", "no-such-server"];
    let output = command::unfazed(folder.path(), &args).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("clients need a key; name the variable that holds it with --key"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_are_served_over_tls() {
    let made = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/serve/certificates");
    let path = |name: &str| made.join(name).display().to_string();
    let (certificate, key) = (path("first.pem"), path("first.key"));
    let mut relay = Relay::start(&["--tls-certificate", &certificate, "--tls-key", &key], "");
    assert!(relay.url.starts_with("https://127.0.0.1:"), "{}", relay.url);
    // Who speaks plain HTTP, is told so.
    let plain = relay.http.get(relay.url.replace("https:", "http:")).send().await.unwrap();
    assert_eq!(plain.status().as_u16(), 400);
    let trusted = reqwest::Certificate::from_pem(&std::fs::read(&certificate).unwrap()).unwrap();
    relay.http = reqwest::Client::builder().no_proxy().add_root_certificate(trusted).build().unwrap();
    let session = relay.client(&[]).await;
    let headers = [("mcp-session-id", &*session)];
    let answer = relay.send("POST", &headers, Some(&call(7, "echo", "a"))).await;
    assert_eq!(answer.messages[0]["result"]["content"][0]["text"], "a");

    let other = path("second.key");
    let args = ["mcp", "--listen", "127.0.0.1:0", "--tls-certificate", &certificate, "--tls-key", &other];
    let args = [&args[..], &["--", "no-such-server"]].concat();
    let output = command::unfazed(relay.folder.path(), &args).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(2) && said.contains("--tls-key: the private key "), "{said}");
}
