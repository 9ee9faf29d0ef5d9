//! The examples, as a person would run them: each says what the guide says of it.
//!
//! They are programs of their own, which `cargo test --test cli` does not build. `.ci/run` builds them and runs this:
//!
//! ```text
//! cargo build --workspace --examples --bins && cargo test --test cli -- --ignored examples::
//! ```
//!
//! Those in other languages need Ruby, Node.js, and `typescript` and `@types/node` in the folder that `UNFAZED_MCP_NPM` names;
//! `postgres_store` needs a server: `tests/host/stores/example.rs`.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use crate::command;

/// Runs a program that stands beside the tests, and looks for each text in what it prints.
#[track_caller]
fn prints(program: &str, expected: &[&str]) {
    let program = built(program);
    assert!(program.is_file(), "{} is not built: see the top of the file", program.display());
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let output = command::program(program.to_str().unwrap(), root, &[]).output().unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{printed}{errors}");
    for text in expected {
        assert!(printed.contains(text), "it does not print: {text}\n{printed}{errors}");
    }
}

/// Where cargo puts it: tests are in `deps`, examples in `examples`, programs above both.
fn built(program: &str) -> PathBuf {
    let test = env::current_exe().unwrap();
    test.ancestors().nth(2).unwrap().join(program)
}

#[test]
#[ignore = "the examples must be built: see the top of the file"]
fn a_program_runs_an_agent_file() {
    prints("examples/agent_file", &["270.48", "9 turns, "]);
}

#[test]
#[ignore = "the examples must be built: see the top of the file"]
fn a_guarded_tool_learns_from_its_failures() {
    prints(
        "examples/guard_tool",
        &[
            "attempt 3: asking for \"Oslo\"",
            "4 degrees, rain",
            "for the model: ",
            "name a city",
            "remembered: attempt 1: network_error: connection reset",
        ],
    );
}

#[test]
#[ignore = "the examples must be built: see the top of the file"]
fn the_interpreter_is_driven_by_hand() {
    prints("examples/drive_step", &["\"directive\":\"wait\"", "\"attempt\":2", "state "]);
}

#[test]
#[ignore = "the examples must be built: see the top of the file"]
fn a_service_falls_back_to_another_model() {
    prints(
        "examples/axum_service",
        &[
            "main attempt 2: success",
            "200 OK: A short text.",
            "main attempt 1: failed, skip-provider",
            "200 OK: Another short text.",
            "503 Service Unavailable: model main failed after 1 attempt (never retried): quota_exceeded",
        ],
    );
}

#[test]
#[ignore = "the examples must be built: see the top of the file"]
fn profiles_differ_as_they_say() {
    prints(
        "examples/profiles",
        &[
            "no profile   3 attempts in 2 s",
            "development  1 attempts in 0 s",
            "ci           4 attempts in 3.5 s, then: total delay used up",
            "production   8 attempts in 123 s",
            "did you mean `production`?",
        ],
    );
}

#[test]
#[ignore = "the examples must be built: see the top of the file"]
fn a_runaway_agent_ends_with_an_answer() {
    prints(
        "examples/runaway_budget",
        &[
            "spend says no: the check `slice <= 5000` does not hold",
            "turns: 7, spent: 5000",
            "answered: This is what I know.",
        ],
    );
}

#[test]
#[ignore = "the examples must be built: see the top of the file"]
fn an_agent_uses_tools_of_an_mcp_server() {
    prints(
        "examples/mcp_agent",
        &[
            "offers library__find (read_only)",
            "runs library__find, attempt 2",
            "refuses library__burn: `library__burn` did not run: nobody agreed to it.",
            "answered: It stands on shelf 7",
        ],
    );
}

#[test]
#[ignore = "the examples must be built: see the top of the file"]
fn rig_calls_models_and_tools_through_guards() {
    prints(
        "rig_agent",
        &[
            "main attempt 1: failed, retry",
            "main attempt 2: success",
            "the weather of Oslo is asked for",
            "rig answers: It rains in Oslo, at 4 degrees.",
            "remembered: invalid_args attempt 1: name a city",
            "it did not run. Change this and call it again",
        ],
    );
}

/// What the clients of `unfazed step` print: they do the same in their languages.
const CLIENT: &str = "tool price: attempt 2 in 100 ms
call_7: 3.50
tool price: attempt 2 in 100 ms
call_42: 12.50
call_six: The arguments of `price` were not accepted, and it did not run. Change this and call it again:
- /item: expected integer, found string \"six\"
";

/// Runs a client of `unfazed step`.
#[track_caller]
fn client(program: &str, script: &Path) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let args = [script.to_str().unwrap(), env!("CARGO_BIN_EXE_unfazed")];
    let output =
        command::program(program, root, &args).output().unwrap_or_else(|error| panic!("{program}: {error}"));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
#[ignore = "it takes Ruby: see the top of the file"]
fn a_host_in_ruby_is_decided_for() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/step/client.rb");
    assert_eq!(client("ruby", &script), CLIENT);
}

#[test]
#[ignore = "it takes Node.js and TypeScript: see the top of the file"]
fn a_host_in_typescript_is_decided_for() {
    let npm =
        PathBuf::from(env::var_os("UNFAZED_MCP_NPM").expect("UNFAZED_MCP_NPM names a folder node_modules"));
    let folder = tempfile::tempdir().unwrap();
    for file in ["client.mts", "policy.yaml"] {
        let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/step").join(file);
        fs::copy(from, folder.path().join(file)).unwrap();
    }
    // The command is the one at the top of the file, with what makes the compiler look closer.
    let text = fs::read_to_string(folder.path().join("client.mts")).unwrap();
    let said = text.lines().find_map(|line| line.strip_prefix("//     npx tsc ")).unwrap();
    let said = said.split(" && ").next().unwrap().split(' ');
    let (tsc, types) = (npm.join("typescript/bin/tsc"), npm.join("@types"));
    let strictly = [tsc.to_str().unwrap(), "--strict", "--noUncheckedIndexedAccess"];
    let args: Vec<&str> =
        strictly.into_iter().chain(["--typeRoots", types.to_str().unwrap()]).chain(said).collect();
    let compiled = command::program("node", folder.path(), &args).output().unwrap();
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stdout));
    assert_eq!(client("node", &folder.path().join("client.mjs")), CLIENT);
}
