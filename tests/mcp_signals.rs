//! Signals while MCP servers start and while they end: nothing of them survives.
#![cfg(all(unix, feature = "cli", feature = "mcp"))]

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

/// The program under way, with servers that note what happens to them.
struct Live {
    dir: TempDir,
    program: Child,
}

impl Live {
    /// Starts it with an agent that has these servers, by name, and whose model answers with these replies.
    fn start(command: &str, servers: &[&str], replies: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mcp: serde_json::Map<_, _> =
            servers.iter().map(|mode| ((*mode).to_owned(), server(mode))).collect();
        let models = json!({"m": {"api": "scripted", "script": "model.yaml"}});
        let agent = json!({"version": 1, "task": "t", "models": models, "mcp": mcp});
        fs::write(dir.path().join("agent.yaml"), agent.to_string()).unwrap();
        fs::write(dir.path().join("model.yaml"), format!("version: 1\nreplies: {replies}\n")).unwrap();
        let mut program = Command::new(env!("CARGO_BIN_EXE_unfazed"));
        program.args([command, "agent.yaml"]).current_dir(dir.path()).env_remove("UNFAZED_SESSIONS");
        program.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Self { program: program.spawn().unwrap(), dir }
    }

    fn notes(&self) -> Vec<String> {
        let notes = fs::read_to_string(self.dir.path().join("notes")).unwrap_or_default();
        notes.lines().map(str::to_owned).collect()
    }

    /// Waits until so many notes begin like that.
    fn wait_for(&self, note: &str, times: usize) {
        let seen = || self.notes().iter().filter(|said| said.starts_with(note)).count() >= times;
        until(seen, &format!("`{note}` is not noted"));
    }

    fn signal(&self, name: &str) {
        let pid = self.program.id().to_string();
        assert!(Command::new("kill").args([&format!("-{name}"), &pid]).status().unwrap().success());
    }

    /// Waits for the end, long before any patience is over, and looks for survivors.
    fn ended(mut self) -> Output {
        let (program, notes) = (&mut self.program, fs::read_to_string(self.dir.path().join("notes")));
        until(|| program.try_wait().unwrap().is_some(), "it does not end");
        let notes = notes.unwrap();
        let pid = |note: &str| {
            note.strip_prefix("started ").or(note.strip_prefix("child ")).map(|pid| pid.parse().unwrap())
        };
        let pids: Vec<u32> = notes.lines().filter_map(pid).collect();
        assert!(!pids.is_empty());
        until(|| !pids.iter().any(|pid| lives(*pid)), "processes are left");
        self.program.wait_with_output().unwrap()
    }
}

/// Servers have a minute for everything: who waits for them is seen to wait.
fn server(mode: &str) -> Value {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mcp/server.py");
    json!({"command": ["python3", script, mode, "notes"], "start_timeout": "60s", "grace": "60s"})
}

fn until(mut happened: impl FnMut() -> bool, otherwise: &str) {
    let end = Instant::now() + Duration::from_secs(30);
    while !happened() {
        assert!(Instant::now() < end, "{otherwise}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Whether the process is there and is not a dead one that nobody has reaped.
fn lives(pid: u32) -> bool {
    let status = Command::new("ps").args(["-o", "stat=", "-p", &pid.to_string()]).output().unwrap();
    let state = String::from_utf8_lossy(&status.stdout).trim().to_owned();
    !state.is_empty() && !state.starts_with('Z')
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_signal_while_servers_start_ends_every_command_at_once_and_all_of_them() {
    for (command, signal) in [("run", "INT"), ("run", "TERM"), ("tools", "TERM"), ("context", "INT")] {
        let live = Live::start(command, &["hang", "deaf"], "[{text: done}]");
        live.wait_for("started", 2);
        live.wait_for("child", 1);
        live.signal(signal);
        let output = live.ended();
        assert_eq!(
            (output.status.code(), text(&output.stderr)),
            (Some(130), "Cancelled\n".into()),
            "{command}"
        );
        assert_eq!(text(&output.stdout), "", "{command}");
    }
}

#[test]
fn a_signal_while_servers_are_ended_after_they_were_asked_kills_them() {
    for command in ["tools", "context"] {
        let live = Live::start(command, &["deaf"], "[{text: done}]");
        live.wait_for("input ended", 1);
        live.signal("TERM");
        let output = live.ended();
        assert_eq!(
            (output.status.code(), text(&output.stderr)),
            (Some(130), "Cancelled\n".into()),
            "{command}"
        );
    }
}

#[test]
fn the_second_signal_kills_servers_that_do_not_end() {
    let live = Live::start("run", &["deaf"], "[{calls: [{name: deaf__slow, arguments: {}}]}, {text: done}]");
    live.wait_for("begun", 1);
    live.signal("INT");
    live.wait_for("input ended", 1);
    live.signal("TERM");
    let output = live.ended();
    assert_eq!(output.status.code(), Some(130));
    assert!(text(&output.stderr).lines().any(|line| line == "Cancelled"), "{}", text(&output.stderr));
}

#[test]
fn a_run_that_is_over_keeps_its_answer_when_its_servers_are_killed() {
    let live = Live::start("run", &["deaf"], "[{text: done}]");
    live.wait_for("input ended", 1);
    live.signal("INT");
    live.signal("TERM");
    let output = live.ended();
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(0), "done\n".into()));
}
