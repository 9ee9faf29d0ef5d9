//! `unfazed mcp`: the tools of a server under a policy, seen from the client and from the server.

mod answers;
mod calls;
mod clients;
#[cfg(feature = "otlp")]
mod exported;
mod handshake;
mod hostile;
mod http;
mod listen;
mod passed;
mod quiet;
mod restart;
mod rounds;
mod several;
mod subscriptions;
mod whose;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::command;

/// Longer than anything takes here.
const PATIENCE: Duration = Duration::from_secs(30);

const POLICY: &str = "version: 1
tools:
  flaky:
    retry: {max_attempts: 3, retry_on: {add: [execution_error]}, backoff: {kind: constant, delay: 50ms, jitter: none}}
  big: {result: {max: 1000 chars}}
  picture: {result: {max: 1000 chars}}
  table: {result: {max: 1000 chars}}
";

/// A client: it writes lines and reads lines.
struct Client {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
    folder: TempDir,
}

fn server_script() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/mcp/server.py")
}

impl Client {
    /// Starts the relay to `server.py` in that mode.
    fn start(mode: &str, policy: &str, args: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let notes = folder.path().join("notes").display().to_string();
        let script = server_script().display().to_string();
        Self::of(folder, policy, args, &["python3", &script, &notes, mode])
    }

    /// Starts the relay to a server.
    fn of(folder: TempDir, policy: &str, args: &[&str], server: &[&str]) -> Self {
        fs::write(folder.path().join("p.yaml"), policy).unwrap();
        let all = [&["mcp", "--policy", "p.yaml"], args, &["--"], server].concat();
        Self::run(folder, &all)
    }

    /// Starts the command.
    fn run(folder: TempDir, args: &[&str]) -> Self {
        let command = command::unfazed(folder.path(), args);
        Self::of_command(folder, command)
    }

    fn of_command(folder: TempDir, mut command: Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (input, output) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            output.lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        Self { child, input, lines, folder }
    }

    /// Starts it, and shakes hands.
    fn ready(mode: &str, policy: &str, args: &[&str]) -> Self {
        let mut client = Self::start(mode, policy, args);
        client.shake_hands(&json!({}));
        client
    }

    fn shake_hands(&mut self, capabilities: &Value) -> Value {
        let params = json!({
            "protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": {"name": "c", "version": "1"},
        });
        let answer = self.ask("initialize", &params);
        self.tell("notifications/initialized", &json!({}));
        answer
    }

    fn write(&mut self, line: &str) {
        writeln!(self.input.as_mut().unwrap(), "{line}").unwrap();
    }

    fn tell(&mut self, method: &str, params: &Value) {
        self.write(&json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string());
    }

    fn send(&mut self, id: &Value, method: &str, params: &Value) {
        self.write(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string());
    }

    fn line(&self) -> String {
        self.lines.recv_timeout(PATIENCE).expect("a line comes")
    }

    fn next(&self) -> Value {
        let line = self.line();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    }

    /// What answers the request of that id; what comes before is dropped.
    fn answer_to(&self, id: &Value) -> Value {
        loop {
            let message = self.next();
            if message["id"] == *id && message.get("method").is_none() {
                return message;
            }
        }
    }

    fn ask(&mut self, method: &str, params: &Value) -> Value {
        let id = json!(format!("{method} of the test"));
        self.send(&id, method, params);
        self.answer_to(&id)
    }

    /// The result of a call.
    fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        let answer = self.ask("tools/call", &json!({"name": tool, "arguments": arguments}));
        answer.get("result").unwrap_or_else(|| panic!("{answer}")).clone()
    }

    /// What the server has noted.
    fn notes(&self) -> Vec<String> {
        let notes = fs::read_to_string(self.folder.path().join("notes")).unwrap_or_default();
        notes.lines().map(str::to_owned).collect()
    }

    /// The lines that the server has read.
    fn read_by_server(&self) -> Vec<String> {
        self.notes().iter().filter_map(|note| note.strip_prefix("in  ")).map(str::to_owned).collect()
    }

    /// The calls of a tool that the server has read.
    fn calls_of(&self, tool: &str) -> Vec<Value> {
        let read = self.read_by_server();
        let messages = read.iter().map(|line| serde_json::from_str::<Value>(line).unwrap());
        messages
            .filter(|message| message["params"]["name"] == tool && message["method"] == "tools/call")
            .collect()
    }

    /// Waits until the server has noted something that begins like that.
    fn wait_for_note(&self, note: &str) {
        let until = std::time::Instant::now() + PATIENCE;
        while !self.notes().iter().any(|noted| noted.starts_with(note)) {
            assert!(std::time::Instant::now() < until, "`{note}` is not noted: {:?}", self.notes());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Closes the client's end, and waits for the process: its exit status.
    fn end(&mut self) -> Option<i32> {
        drop(self.input.take());
        self.child.wait().unwrap().code()
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        drop(self.input.take());
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The texts of a result.
fn texts(result: &Value) -> Vec<&str> {
    result["content"].as_array().unwrap().iter().filter_map(|block| block["text"].as_str()).collect()
}
