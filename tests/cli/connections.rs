//! Connections that are never there: names that is unknown, ports where nobody listens, servers that do not speak TLS.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread;

use crate::command;

const POLICY: &str = "version: 1
models: {'*': {timeouts: {connect: 5s}, retry: {max_attempts: 2, backoff: {kind: constant, delay: 1ms, jitter: none}}}}
";

const PROXIES: [&str; 6] =
    ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"];

/// The failures of the calls of a model at that address, in an environment with these variables.
fn failures(base_url: &str, environment: &[(&str, &str)]) -> Vec<String> {
    let dir = tempfile::tempdir().unwrap();
    let agent = format!(
        "version: 1\ntask: hello\npolicy: policy.yaml\nmodels: {{m: {{api: openai, base_url: '{base_url}', model: x, ask_window: false}}}}\n"
    );
    fs::write(dir.path().join("agent.yaml"), agent).unwrap();
    fs::write(dir.path().join("policy.yaml"), POLICY).unwrap();
    let mut run = command::unfazed(dir.path(), &["run", "agent.yaml", "--format", "json"]);
    for proxy in PROXIES {
        run.env_remove(proxy);
    }
    let output = run.envs(environment.iter().copied()).output().unwrap();
    let records = String::from_utf8_lossy(&output.stdout).into_owned();
    let events = records.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let failed = events.filter(|record| record["event"] == "model_failed");
    failed.map(|record| format!("{}: {}", record["failure"]["class"], record["failure"]["message"])).collect()
}

fn are_tried_again(failures: &[String]) {
    assert_eq!(failures.len(), 2, "{failures:#?}");
    assert!(failures.iter().all(|failure| failure.starts_with("\"network_error\"")), "{failures:#?}");
}

#[test]
fn a_name_that_nobody_knows_is_tried_again() {
    are_tried_again(&failures("http://nowhere.invalid", &[]));
}

#[test]
fn a_port_where_nobody_listens_is_tried_again() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    are_tried_again(&failures(&format!("http://{free}"), &[]));
}

#[test]
fn a_server_that_does_not_speak_tls_is_tried_again() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = thread::spawn(move || {
        for _ in 0..2 {
            let (mut socket, _) = listener.accept().unwrap();
            let _ = socket.read(&mut [0; 64]).unwrap();
            // The client may be gone already.
            let _ = socket.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        }
    });
    are_tried_again(&failures(&format!("https://{address}"), &[]));
    server.join().unwrap();
}

#[test]
fn a_proxy_of_the_environment_is_asked() {
    for (variable, base_url, asked) in [
        (
            "http_proxy",
            "http://nowhere.invalid/v1",
            "POST http://nowhere.invalid/v1/chat/completions HTTP/1.1",
        ),
        ("HTTPS_PROXY", "https://nowhere.invalid/v1", "CONNECT nowhere.invalid:443 HTTP/1.1"),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let proxy = format!("http://{}", listener.local_addr().unwrap());
        let server = thread::spawn(move || {
            let (mut socket, _) = listener.accept().unwrap();
            let mut head = [0; 1024];
            let read = socket.read(&mut head).unwrap();
            let _ = socket
                .write_all(b"HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
            String::from_utf8_lossy(&head[..read]).into_owned()
        });
        let failures = failures(base_url, &[(variable, &proxy)]);
        let request = server.join().unwrap();
        assert_eq!(request.lines().next(), Some(asked), "{failures:#?}");
        // Addresses that need none are asked without it.
        let direct = self::failures(base_url, &[(variable, &proxy), ("NO_PROXY", "nowhere.invalid")]);
        assert!(
            direct.iter().all(|failure| failure.contains("cannot connect to nowhere.invalid")),
            "{direct:#?}"
        );
    }
}
