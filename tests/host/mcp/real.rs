//! Servers of tools as others write them, from npm and `PyPI`. `.ci/run` installs them and runs this:
//!
//! ```text
//! UNFAZED_MCP_NPM=…/node_modules UNFAZED_MCP_TIME=…/mcp-server-time cargo test --test host -- --ignored mcp::real
//! ```

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use unfazed::engine::{EffectState, ToolOutcome};
use unfazed::host::{McpConfig, McpReach, McpServer, ProgressReporter, ToolInput, ToolSource};
use unfazed::policy::{Effect, ErrorClass};

fn place(variable: &str) -> PathBuf {
    PathBuf::from(
        std::env::var_os(variable).unwrap_or_else(|| panic!("{variable} says where the servers are")),
    )
}

fn npm(server: &str) -> String {
    let script = place("UNFAZED_MCP_NPM").join(format!("@modelcontextprotocol/{server}/dist/index.js"));
    assert!(script.exists(), "{} is not installed", script.display());
    script.display().to_string()
}

async fn start(name: &str, reach: McpReach) -> McpServer {
    McpServer::start(McpConfig::new(name, reach)).await.unwrap_or_else(|error| panic!("{error}"))
}

async fn call_within(server: &McpServer, tool: &str, arguments: &Value, timeout: Duration) -> ToolOutcome {
    let tools = server.tools();
    let tool = tools.iter().find(|known| known.spec().name == tool).unwrap_or_else(|| panic!("no {tool}"));
    let cancel = CancellationToken::new();
    let (timeout, aside) = (Some(timeout), ProgressReporter::default());
    tool.run(ToolInput { arguments, attempt: 1, idempotency_key: "key", timeout, cancel, aside }).await
}

async fn call(server: &McpServer, tool: &str, arguments: Value) -> ToolOutcome {
    call_within(server, tool, &arguments, Duration::from_secs(60)).await
}

fn text(outcome: ToolOutcome) -> String {
    match outcome {
        ToolOutcome::Ok { data: Value::String(text) } => text,
        other => panic!("no text: {other:?}"),
    }
}

fn failed(outcome: ToolOutcome) -> (ErrorClass, EffectState, String) {
    match outcome {
        ToolOutcome::Done => panic!("it says nothing"),
        ToolOutcome::Failed { failure, effect } => (failure.class.unwrap(), effect, failure.message),
        ToolOutcome::Ok { data } => panic!("it went well: {data}"),
    }
}

/// What both ways to the server must bring.
async fn everything_holds(server: &McpServer) {
    assert!(server.tools().len() >= 8, "{}", server.tools().len());
    assert_eq!(text(call(server, "all__echo", json!({"message": "hello"})).await), "Echo: hello");
    let image = text(call(server, "all__get-tiny-image", json!({})).await);
    assert!(image.contains("[image, image/png, ") && !image.contains("iVBOR"), "{image}");
    let invalid = failed(call(server, "all__echo", json!({"message": 1})).await);
    assert_eq!((invalid.0, invalid.1), (ErrorClass::InvalidArgs, EffectState::NotStarted), "{}", invalid.2);
    let long = json!({"duration": 60, "steps": 60});
    let late =
        call_within(server, "all__trigger-long-running-operation", &long, Duration::from_millis(2500)).await;
    let (class, effect, message) = failed(late);
    assert_eq!((class, effect), (ErrorClass::Timeout, EffectState::Unknown));
    assert!(message.contains("it had come to"), "{message}");
    assert_eq!(text(call(server, "all__echo", json!({"message": "still"})).await), "Echo: still");
}

#[tokio::test]
#[ignore = "needs @modelcontextprotocol/server-everything"]
async fn server_everything_over_standard_input_and_output() {
    let command = ["node".to_owned(), npm("server-everything"), "stdio".to_owned()];
    let server = start("all", McpReach::command(command)).await;
    everything_holds(&server).await;
    server.shutdown().await;
}

#[tokio::test]
#[ignore = "needs @modelcontextprotocol/server-everything"]
async fn server_everything_over_http() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut host = tokio::process::Command::new("node")
        .args([npm("server-everything"), "streamableHttp".to_owned()])
        .env("PORT", port.to_string())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let up = async {
        while tokio::net::TcpStream::connect(("127.0.0.1", port)).await.is_err() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), up).await.expect("it does not listen");
    let reach = McpReach::Http { url: format!("http://127.0.0.1:{port}/mcp"), headers: Vec::new() };
    let server = start("all", reach).await;
    everything_holds(&server).await;
    server.shutdown().await;
    host.kill().await.unwrap();
}

#[tokio::test]
#[ignore = "needs @modelcontextprotocol/server-filesystem"]
async fn server_filesystem_says_what_its_tools_do_to_files() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().canonicalize().unwrap();
    std::fs::write(dir.join("a.txt"), "first\n").unwrap();
    let command = ["node".to_owned(), npm("server-filesystem"), dir.display().to_string()];
    let server = start("fs", McpReach::command(command)).await;
    let effect =
        |name: &str| server.tools().iter().find(|tool| tool.spec().name == name).unwrap().spec().effect;
    assert_eq!(effect("fs__read_text_file"), Some(Effect::ReadOnly));
    assert_eq!(effect("fs__write_file"), Some(Effect::Idempotent));
    assert_eq!(effect("fs__edit_file"), Some(Effect::NonIdempotent));
    let path = dir.join("b.txt");
    let written = call(&server, "fs__write_file", json!({"path": path, "content": "second"})).await;
    assert!(matches!(written, ToolOutcome::Ok { .. }), "{written:?}");
    assert_eq!(std::fs::read_to_string(path).unwrap(), "second");
    let outside = failed(call(&server, "fs__read_text_file", json!({"path": "/etc/hostname"})).await);
    assert_eq!(outside.0, ErrorClass::ExecutionError, "{}", outside.2);
    server.shutdown().await;
}

#[tokio::test]
#[ignore = "needs mcp-server-time"]
async fn mcp_server_time_tells_its_mistakes_in_its_own_way() {
    let command = [place("UNFAZED_MCP_TIME").display().to_string()];
    let server = start("time", McpReach::command(command)).await;
    let now = call(&server, "time__get_current_time", json!({"timezone": "Europe/Zurich"})).await;
    let ToolOutcome::Ok { data } = now else { panic!("{now:?}") };
    assert_eq!(data["timezone"], "Europe/Zurich");
    let invalid = failed(call(&server, "time__get_current_time", json!({})).await);
    assert_eq!(invalid.0, ErrorClass::InvalidArgs, "{}", invalid.2);
    let nowhere = failed(call(&server, "time__get_current_time", json!({"timezone": "Nowhere/Land"})).await);
    assert_eq!(nowhere.0, ErrorClass::ExecutionError, "{}", nowhere.2);
    server.shutdown().await;
}
