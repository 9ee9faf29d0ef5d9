//! The official clients in Python and TypeScript, with servers as others write them. `.ci/run` installs them and runs this:
//!
//! ```text
//! UNFAZED_MCP_NPM=…/node_modules UNFAZED_MCP_TIME=…/mcp-server-time UNFAZED_MCP_GIT=…/mcp-server-git cargo test --test cli -- --ignored mcp::clients
//! ```

use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;

use super::http::client_of;
use super::{Client, PATIENCE, POLICY};

fn place(variable: &str) -> PathBuf {
    let place = std::env::var_os(variable);
    PathBuf::from(place.unwrap_or_else(|| panic!("{variable} says where the servers are")))
}

fn npm(server: &str) -> String {
    let script = place("UNFAZED_MCP_NPM").join(format!("@modelcontextprotocol/{server}/dist/index.js"));
    assert!(script.exists(), "{} is not installed", script.display());
    script.display().to_string()
}

fn script(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/mcp").join(name).display().to_string()
}

fn went_well(output: &Output) {
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}\n{err}");
}

/// What the client in Python sees of a server with the relay is what it sees without.
fn same_with_and_without(server: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("p.yaml"), POLICY).unwrap();
    let time = place("UNFAZED_MCP_TIME");
    let python = time.parent().unwrap().join("python");
    let mut client = Command::new(python);
    client.arg(script("client.py")).args([env!("CARGO_BIN_EXE_unfazed"), "p.yaml"]).args(server);
    went_well(&client.current_dir(folder.path()).output().unwrap());
}

#[test]
#[ignore = "takes servers from npm and PyPI"]
fn a_client_in_python_sees_what_it_sees_without_the_relay() {
    let time = place("UNFAZED_MCP_TIME").display().to_string();
    same_with_and_without(&[&time]);
    same_with_and_without(&["node", &npm("server-everything")]);
    same_with_and_without(&["node", &npm("server-memory")]);
    same_with_and_without(&["node", &npm("server-filesystem"), "."]);
}

#[test]
#[ignore = "takes a server from PyPI"]
fn a_server_of_a_repository_is_the_same_through_the_relay() {
    let folder = tempfile::tempdir().unwrap();
    let git = |args: &[&str]| {
        let mut git = Command::new("git");
        went_well(
            &git.args(["-c", "user.name=n", "-c", "user.email=n@example.org"])
                .args(args)
                .current_dir(&folder)
                .output()
                .unwrap(),
        );
    };
    git(&["init", "-q", "-b", "main"]);
    std::fs::write(folder.path().join("a.txt"), "1\n").unwrap();
    git(&["add", "a.txt"]);
    git(&["commit", "-q", "-m", "one"]);
    std::fs::write(folder.path().join("a.txt"), "2\n").unwrap();
    let repository = folder.path().display().to_string();
    same_with_and_without(&[&place("UNFAZED_MCP_GIT").display().to_string(), "--repository", &repository]);
}

#[test]
#[ignore = "takes servers from npm"]
fn a_client_in_typescript_is_corrected_asked_and_obeyed() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("p.yaml"), "version: 1\ntools: {echo: {approval: always}}\n").unwrap();
    let modules = place("UNFAZED_MCP_NPM").display().to_string();
    let mut client = Command::new("node");
    client.arg(script("client.mjs")).args([&modules, env!("CARGO_BIN_EXE_unfazed"), "p.yaml", "node"]);
    went_well(&client.arg(npm("server-everything")).current_dir(folder.path()).output().unwrap());
}

#[test]
#[ignore = "takes a client from PyPI"]
fn langchain_sees_the_result_of_a_call_that_was_retried_and_of_one_that_was_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut client = Command::new(place("UNFAZED_MCP_LANGCHAIN"));
    client.arg(script("langchain.py")).arg(env!("CARGO_BIN_EXE_unfazed"));
    went_well(&client.arg(script("server.py")).arg(folder.path().join("notes")).output().unwrap());
}

#[test]
#[ignore = "takes servers from npm"]
fn a_server_over_http_that_was_started_again_gets_a_handshake() {
    const ADDRESS: &str = "127.0.0.1:38291";
    let start = || {
        let mut server = Command::new("node");
        server.arg(npm("server-everything")).arg("streamableHttp").env("PORT", "38291");
        let server = server.stderr(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
        let began = Instant::now();
        while TcpStream::connect(ADDRESS).is_err() {
            assert!(began.elapsed() < PATIENCE, "the server does not start");
            std::thread::sleep(Duration::from_millis(20));
        }
        server
    };
    let hello = |client: &mut Client, text: &str| {
        let result = client.call("echo", &json!({ "message": text }));
        super::texts(&result)[0].to_owned()
    };
    let mut server = start();
    let mut client = client_of(&format!("http://{ADDRESS}/mcp"), "none");
    client.shake_hands(&json!({}));
    assert_eq!(hello(&mut client, "a"), "Echo: a");
    for text in ["b", "c"] {
        server.kill().unwrap();
        server.wait().unwrap();
        server = start();
        assert_eq!(hello(&mut client, text), format!("Echo: {text}"));
    }
    server.kill().unwrap();
    server.wait().unwrap();
}
