//! The schemas that editors use are fresh, and accept what the product accepts.
#![cfg(feature = "cli")]

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

#[test]
fn the_schemas_are_fresh() {
    let mut check = Command::new(env!("CARGO_BIN_EXE_unfazed"));
    let check = check.args(["schema", "--check"]).arg(root().join("schemas")).output().unwrap();
    assert!(check.status.success(), "{}", String::from_utf8_lossy(&check.stderr));
}

#[test]
fn an_editor_has_nothing_against_the_files_that_come_with_the_product() {
    for (schema, file) in [
        ("policy", "policies/default.yaml"),
        ("policy", "examples/quickstart/policy.yaml"),
        ("agent", "examples/quickstart/agent.yaml"),
        ("script", "examples/quickstart/model.yaml"),
        ("test", "tests/cases/01-retry.test.yaml"),
        ("test", "tests/cases/09-limits-and-layers.test.yaml"),
        ("test", "tests/cases/10-reports.test.yaml"),
        ("test", "tests/cases/14-cancel-and-resume.test.yaml"),
    ] {
        let text = fs::read_to_string(root().join(file)).unwrap();
        let value: Value = serde_yaml::from_str(&text).unwrap();
        let problems: Vec<_> = schema_of(schema).iter_errors(&value).map(|e| e.to_string()).collect();
        assert!(problems.is_empty(), "{file}: {problems:#?}");
    }
}

#[test]
fn an_editor_completes_what_a_planner_says_about_a_call() {
    let call = serde_json::json!({"arguments": {"a": 1}, "planner": {"retry": {"max_attempts": 2}}});
    assert!(schema_of("call").is_valid(&call));
    assert!(!schema_of("call").is_valid(&serde_json::json!({"planner": {"retry": {"max_atempts": 2}}})));
}

#[test]
fn an_editor_sees_a_key_that_is_not_known() {
    let policy = serde_json::json!({"version": 1, "retry": {"max_atempts": 3}});
    assert!(!schema_of("policy").is_valid(&policy));
}

fn schema_of(name: &str) -> jsonschema::Validator {
    let text = fs::read_to_string(root().join(format!("schemas/{name}.schema.json"))).unwrap();
    jsonschema::validator_for(&serde_json::from_str(&text).unwrap()).unwrap()
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}
