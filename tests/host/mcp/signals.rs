//! Signals while MCP servers start and while they end: nothing of them survives.

use std::fs;
use std::process::{Output, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use crate::command;

use super::notes::{self, Notes};

/// The program in flight, with servers that note what happens to them.
struct Live {
    program: Child,
    notes: Notes,
}

impl Live {
    /// Starts it with an agent that has these servers, by name, and whose model answers with these replies.
    fn start(command: &str, servers: &[&str], replies: &str) -> Self {
        let notes = Notes::new();
        let mcp: serde_json::Map<_, _> =
            servers.iter().map(|mode| ((*mode).to_owned(), server(mode))).collect();
        let models = json!({"m": {"api": "scripted", "script": "model.yaml"}});
        let agent = json!({"version": 1, "task": "t", "models": models, "mcp": mcp});
        fs::write(notes.folder().join("agent.yaml"), agent.to_string()).unwrap();
        fs::write(notes.folder().join("model.yaml"), format!("version: 1\nreplies: {replies}\n")).unwrap();
        let mut program = Command::from(command::unfazed(notes.folder(), &[command, "agent.yaml"]));
        program.stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        Self { program: program.spawn().unwrap(), notes }
    }

    fn signal(&self, name: &str) {
        notes::signal(name, self.program.id().unwrap());
    }

    /// Waits for the end, long before any patience is over, and looks for survivors.
    async fn ended(self) -> Output {
        let output = timeout(Duration::from_secs(30), self.program.wait_with_output()).await;
        let output = output.expect("it does not end").unwrap();
        self.notes.all_gone().await;
        output
    }
}

/// Servers have a minute for everything: who waits for them is seen to wait.
fn server(mode: &str) -> Value {
    json!({"command": ["python3", notes::server(), mode, "notes"], "start_timeout": "60s", "grace": "60s"})
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[tokio::test]
async fn a_signal_while_servers_start_ends_every_command_at_once_and_all_of_them() {
    for (command, signal) in [("run", "INT"), ("run", "TERM"), ("tools", "TERM"), ("context", "INT")] {
        let live = Live::start(command, &["hang", "deaf"], "[{text: done}]");
        live.notes.wait_for("started", 2).await;
        live.notes.wait_for("child", 1).await;
        live.signal(signal);
        let output = live.ended().await;
        assert_eq!(
            (output.status.code(), text(&output.stderr)),
            (Some(130), "Cancelled\n".into()),
            "{command}"
        );
        assert_eq!(text(&output.stdout), "", "{command}");
    }
}

#[tokio::test]
async fn a_signal_while_servers_are_ended_after_they_were_asked_kills_them() {
    for command in ["tools", "context"] {
        let live = Live::start(command, &["deaf"], "[{text: done}]");
        live.notes.wait_for("input ended", 1).await;
        live.signal("TERM");
        let output = live.ended().await;
        assert_eq!(
            (output.status.code(), text(&output.stderr)),
            (
                Some(130),
                "warning: MCP server `deaf`: left out `broken`: invalid input schema\nCancelled\n".into()
            ),
            "{command}"
        );
    }
}

#[tokio::test]
async fn the_second_signal_kills_servers_that_do_not_end() {
    let live = Live::start("run", &["deaf"], "[{calls: [{name: deaf__slow, arguments: {}}]}, {text: done}]");
    live.notes.wait_for("begun", 1).await;
    live.signal("INT");
    live.notes.wait_for("input ended", 1).await;
    live.signal("TERM");
    let output = live.ended().await;
    assert_eq!(output.status.code(), Some(130));
    assert!(text(&output.stderr).lines().any(|line| line == "Cancelled"), "{}", text(&output.stderr));
}

#[tokio::test]
async fn a_run_that_is_over_keeps_its_answer_when_its_servers_are_killed() {
    let live = Live::start("run", &["deaf"], "[{text: done}]");
    live.notes.wait_for("input ended", 1).await;
    live.signal("INT");
    live.signal("TERM");
    let output = live.ended().await;
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(0), "done\n".into()));
}
