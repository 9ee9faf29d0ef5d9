//! A shop's desk, for the tests of commands: the files of an agent whose tool looks up prices.

use std::fs;

use tempfile::TempDir;

/// Its file.
pub(crate) const AGENT: &str = "version: 1
name: desk
task: What does the lamp cost?
policy: policy.yaml
models: {m: {api: scripted, script: model.yaml}}
tools:
  look:
    kind: process
    command: [sh, look.sh]
    description: Looks up a price.
    parameters: {type: object}
    effect: read_only
";
const SCRIPT: &str = "version: 1
model: m
replies:
  - {match: {turn: 1}, calls: [{name: look, arguments: {}, id: a}]}
  - {match: {turn: 2}, text: The lamp costs 12.50.}
  - {match: {turn: 3}, text: And the chair 40.}
";

/// A folder with the agent, its model, its tool, and that policy.
pub(crate) fn folder(policy: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let files =
        [("agent.yaml", AGENT), ("policy.yaml", policy), ("model.yaml", SCRIPT), ("look.sh", "echo 12.50\n")];
    for (name, text) in files {
        fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}
