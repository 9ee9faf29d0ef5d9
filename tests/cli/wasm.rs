//! The interpreter in WebAssembly decides the quickstart as the command does, byte for byte, and imports nothing to do so.
//!
//! It takes the target and Node.js. `.ci/run` has both and runs this:
//!
//! ```text
//! rustup target add wasm32-unknown-unknown
//! cargo test --test cli -- --ignored wasm::
//! ```

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use unfazed::engine::{Envelope, Event, Interpreter, State, ToolCatalogue, ToolSpec};
use unfazed::policy::Policy;

use crate::command;

const POLICY: &str = "examples/quickstart/policy.yaml";

#[test]
#[ignore = "needs the target wasm32-unknown-unknown and Node.js: see the top of the file"]
fn the_quickstart_is_decided_the_same_in_webassembly() {
    let log = quickstart();
    let lines = |kind: &'static str| log.iter().filter(move |line| line["kind"] == kind);
    let envelopes: Vec<Envelope> =
        lines("event").map(|line| serde_json::from_value(line.clone()).unwrap()).collect();
    assert!(envelopes.len() > 25, "{} events", envelopes.len());
    let Some(Event::RunStarted(started)) = envelopes.first().map(|envelope| &envelope.event) else {
        panic!("a session begins with its run");
    };
    let tools = started.tools.iter().map(|tool| {
        let parameters = tool.parameters.clone().expect("the log has the schema");
        ToolSpec { name: tool.name.clone(), description: String::new(), parameters, effect: tool.effect }
    });
    let tools: Vec<ToolSpec> = tools.collect();

    let text = fs::read_to_string(root().join(POLICY)).unwrap();
    let policy = Policy::from_yaml(POLICY, &text).unwrap();
    let mut native = vec![policy.digest().to_owned()];
    let mut input = json!({"file": POLICY, "policy": text, "tools": tools}).to_string();
    let interpreter = Interpreter::new(policy, ToolCatalogue::new(tools).unwrap());
    let mut state = State::new();
    for (envelope, recorded) in envelopes.into_iter().zip(lines("directives")) {
        input += "\n";
        input += &serde_json::to_string(&envelope).unwrap();
        let directives = interpreter.step(&mut state, envelope);
        assert_eq!(serde_json::to_value(&directives).unwrap(), recorded["list"]);
        native.push(serde_json::to_string(&directives).unwrap());
        native.push(state.digest());
    }

    let printed = node(&module(), &input);
    let printed: Vec<&str> = printed.lines().collect();
    assert_eq!(printed, native);
}

/// The session log of the quickstart.
fn quickstart() -> Vec<Value> {
    let sessions = tempfile::tempdir().unwrap();
    let mut run = command::unfazed(root(), &["run", "examples/quickstart/agent.yaml"]);
    let output = run.env("UNFAZED_SESSIONS", sessions.path()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut files = fs::read_dir(sessions.path()).unwrap().map(|entry| entry.unwrap().path());
    let log = files.find(|path| path.extension().is_some_and(|extension| extension == "jsonl")).unwrap();
    fs::read_to_string(log).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Builds the module, beside what the tests are built of.
fn module() -> PathBuf {
    let target = std::env::current_exe().unwrap().ancestors().nth(3).unwrap().to_owned();
    // The folder has settings for cargo, which flags in the environment would replace.
    let output = Command::new(env!("CARGO"))
        .args(["build", "--locked", "--target-dir"])
        .arg(&target)
        .current_dir(root().join("tests/wasm"))
        .env_remove("RUSTFLAGS")
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    target.join("wasm32-unknown-unknown/debug/unfazed_wasm.wasm")
}

fn node(module: &Path, input: &str) -> String {
    let mut node = Command::new("node")
        .arg("tests/wasm/run.mjs")
        .arg(module)
        .current_dir(root())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("Node.js is installed");
    // It reads all of its input before it prints.
    node.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = node.wait_with_output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap()
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}
