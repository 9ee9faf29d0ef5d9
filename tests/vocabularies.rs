//! Vocabularies are loaded when something is counted with them, and never before.
//!
//! Alone in its file: what is loaded stays loaded for the whole process.
#![cfg(feature = "cli")]

#[path = "cli/command.rs"]
mod command;

use unfazed::analysis::LintOptions;
use unfazed::host::agent_file::NamedAgent;
use unfazed::host::{TiktokenCounter, counter_by};
use unfazed::policy::Loader;

const AGENT: &str = "\
version: 1
task: Say hello.
models:
  main: {api: openai, base_url: 'http://127.0.0.1:9/v1', model: gpt-4o, ask_window: false}
policy: policy.yaml
";
const POLICY: &str = "\
version: 1
context: {tokens: {method: max}}
models: {main: {context_window: 8192, retry: {max_attempts: 1}}}
";

#[test]
fn a_policy_is_checked_explained_and_compared_without_a_vocabulary() {
    let load = || {
        Loader::new().with_lints(LintOptions::default()).load(vec![("policy.yaml".into(), POLICY)]).unwrap()
    };
    let policy = load();
    policy.explain_model("main").human();
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("policy.yaml"), POLICY).unwrap();
    let (agent, _) = NamedAgent::read(&dir.path().join("agent.yaml"), AGENT.as_bytes(), &Loader::new());
    assert!(agent.is_some());
    let counter = counter_by(&policy.model("main").tokens, "gpt-4o");
    assert_eq!(counter.count(""), 0);
    assert_eq!(TiktokenCounter::loaded(), 0);
    assert_eq!(counter.count("hello world"), 3);
    assert_eq!(TiktokenCounter::loaded(), 1);
    assert_eq!(counter.count("hello again"), 3);
    assert_eq!(TiktokenCounter::loaded(), 1);
}

#[test]
fn a_run_loads_the_vocabulary_of_its_model_and_a_check_none() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("agent.yaml"), AGENT).unwrap();
    std::fs::write(folder.path().join("policy.yaml"), POLICY).unwrap();
    let logs_of = |name: &str| {
        let mut command = command::unfazed(folder.path(), &[name, "agent.yaml"]);
        let output = command.env("UNFAZED_LOG", "debug").output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, logs) = logs_of("check");
    assert_eq!(code, Some(0), "{logs}");
    assert!(!logs.contains("a vocabulary is loaded"), "{logs}");
    let (_, logs) = logs_of("run");
    assert_eq!(logs.matches("a vocabulary is loaded").count(), 1, "{logs}");
}
