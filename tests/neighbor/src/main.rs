//! The features of a crate are one for a whole program: whatever unfazed asks of its dependencies, the HTTP clients of others
//! are made as before, with no TLS provider chosen by anybody, and plain HTTP works.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread;

use serde_json::{Value, json};
use unfazed::host::{McpConfig, McpReach, McpServer, HttpModel, ModelConfig, Provider};

const ANSWER: &str = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 11\r\nconnection: close\r\n\r\n{\"fine\": 1}";

/// A server that answers every request with the same; where it is.
fn server() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            let mut head = [0; 4096];
            // No request here is as long.
            let _ = stream.read(&mut head);
            stream.write_all(ANSWER.as_bytes()).expect("the answer is sent");
        }
    });
    format!("http://{address}/")
}

async fn play() {
    let url = server();
    let fine = json!({"fine": 1});

    // Those of others: `Client::new` panics where TLS is built in without a provider.
    let old = reqwest_012::Client::new();
    let said: Value = old.get(&url).send().await.expect("0.12 is answered").json().await.expect("JSON");
    assert_eq!(said, fine);
    let new = reqwest_013::Client::new();
    let said: Value = new.get(&url).send().await.expect("0.13 is answered").json().await.expect("JSON");
    assert_eq!(said, fine);

    // Our own beside them, with TLS.
    let over_tls = ModelConfig { base_url: "https://models.example/v1".into(), ..ModelConfig::new(Provider::OPENAI, "m") };
    HttpModel::new(over_tls).expect("a model over HTTPS");
    // That server speaks no MCP, which can only be said once it was reached.
    let reach = McpReach::Http { url, headers: Vec::new() };
    let error = McpServer::start(McpConfig::new("s", reach)).await.map(drop).expect_err("no server of tools");
    assert!(error.to_string().contains("the server's answer cannot be used"), "{error}");
}

fn main() {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime").block_on(play());
    println!("the HTTP clients of others work beside unfazed");
}
