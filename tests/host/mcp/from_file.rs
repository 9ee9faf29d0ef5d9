//! The servers of an agent that is run from its file.

use std::fs;

use serde_json::{Value, json};
use unfazed::Agent;
use unfazed::engine::Outcome;
use unfazed::host::agent_file::{AgentFileError, AgentWarning};

use super::notes::{self, Notes};

/// An agent file with these servers, whose model calls `tool`.
fn agent(notes: &Notes, servers: &[(&str, Value)], tool: &str) -> std::path::PathBuf {
    let mcp: serde_json::Map<_, _> =
        servers.iter().map(|(name, server)| ((*name).to_owned(), server.clone())).collect();
    let models = json!({"m": {"api": "scripted", "script": "model.yaml"}});
    let agent = json!({"version": 1, "task": "t", "models": models, "mcp": mcp});
    let replies = json!([{"calls": [{"name": tool, "arguments": {"text": "hi"}}]}, {"text": "done"}]);
    let path = notes.folder().join("agent.yaml");
    fs::write(&path, agent.to_string()).unwrap();
    fs::write(notes.folder().join("model.yaml"), json!({"version": 1, "replies": replies}).to_string())
        .unwrap();
    path
}

fn server(mode: &str) -> Value {
    json!({"command": ["python3", notes::server(), mode, "notes"], "start_timeout": "20s", "grace": "500ms"})
}

#[tokio::test]
async fn an_agent_of_a_file_has_its_servers_tools_and_shuts_them_down() {
    let notes = Notes::new();
    let agent = Agent::from_file(agent(&notes, &[("s", server("normal"))], "s__echo")).await.unwrap();
    let report = agent.run().await.unwrap();
    assert_eq!(report.outcome, Outcome::Answered { text: "done".into() });
    assert!(report.state.spending().tool_calls > 0, "the tool of the server ran");
    agent.shutdown().await;
    notes.all_gone().await;
}

#[tokio::test]
async fn an_agent_that_is_dropped_leaves_no_server_behind() {
    let notes = Notes::new();
    let agent = Agent::from_file(agent(&notes, &[("s", server("normal"))], "s__echo")).await.unwrap();
    drop(agent);
    notes.all_gone().await;
}

#[tokio::test]
async fn a_server_that_fails_ends_the_others() {
    let notes = Notes::new();
    let broken = json!({"command": ["false"]});
    let path = agent(&notes, &[("s", server("normal")), ("broken", broken)], "s__echo");
    let error = Agent::from_file(path).await.unwrap_err();
    let AgentFileError::Servers(failed) = &error else { panic!("{error}") };
    assert_eq!(failed.iter().map(|failed| failed.server.as_str()).collect::<Vec<_>>(), ["broken"]);
    assert!(error.to_string().contains("MCP server `broken`"), "{error}");
    notes.all_gone().await;
}

#[tokio::test]
async fn a_missing_header_is_found_before_a_server_starts() {
    let notes = Notes::new();
    let remote =
        json!({"url": "http://127.0.0.1:9/mcp", "headers": {"authorization": {"file": "no-such-file"}}});
    let path = agent(&notes, &[("s", server("normal")), ("remote", remote)], "s__echo");
    let error = Agent::from_file(path).await.unwrap_err();
    assert!(matches!(error, AgentFileError::Mistakes(_)), "{error}");
    assert!(
        error.to_string().contains("MCP server `remote`: cannot read the header `authorization`"),
        "{error}"
    );
    assert!(notes.all().is_empty(), "{:?}", notes.all());
}

#[tokio::test]
async fn tools_that_are_left_out_are_warnings() {
    let notes = Notes::new();
    let agent = Agent::from_file(agent(&notes, &[("s", server("lists"))], "s__echo")).await.unwrap();
    let of_servers =
        |warning: &AgentWarning| matches!(warning, AgentWarning::ServerTools { server, .. } if server == "s");
    assert!(agent.warnings.iter().any(of_servers), "{:?}", agent.warnings);
    agent.shutdown().await;
}
