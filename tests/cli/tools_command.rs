//! `unfazed tools`: what an agent has, its servers asked.

use std::fs;
use std::path::Path;
use std::process::Output;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::command;

const POLICY: &str = "version: 1
tools: {'s__plain': {effect: read_only}, 'look': {result: {overflow: spill}}}
output: {schema: {type: object}}
";

fn agent(mcp: &Value) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let file = json!({
        "version": 1,
        "policy": "policy.yaml",
        "models": {"main": {"api": "openai", "base_url": "http://localhost:9/v1", "model": "m", "api_key": {"env": "NO_KEY"}}},
        "tools": {
            "look": {
                "kind": "process", "command": ["sh", "-c", "true"], "description": "Looks.", "effect": "idempotent",
                "parameters": {"type": "object"},
            },
            "sum": {"kind": "builtin", "name": "calc"},
        },
        "mcp": mcp,
    });
    fs::write(dir.path().join("agent.yaml"), file.to_string()).unwrap();
    fs::write(dir.path().join("policy.yaml"), POLICY).unwrap();
    dir
}

fn server(mode: &str) -> Value {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/host/mcp/server.py");
    json!({"command": ["python3", script, mode], "start_timeout": "20s"})
}

fn tools(dir: &TempDir, more: &[&str]) -> Output {
    command::unfazed(dir.path(), &[&["tools", "agent.yaml"], more].concat()).output().unwrap()
}

#[test]
fn every_tool_is_listed_with_where_it_comes_from() {
    let output = tools(&agent(&json!({"s": server("pages")})), &[]);
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    assert!(output.status.success());
    insta::assert_snapshot!(String::from_utf8_lossy(&output.stdout));
}

#[test]
fn machines_get_the_descriptions_and_parameters_too() {
    let output = tools(&agent(&json!({"s": server("normal")})), &["--format", "json"]);
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    let of = |name: &str| {
        told["tools"].as_array().unwrap().iter().find(|tool| tool["name"] == name).unwrap().clone()
    };
    let echo = of("s__echo");
    assert_eq!(
        (&echo["kind"], &echo["effect"], &echo["from"]),
        (&json!("mcp"), &json!("read_only"), &json!("server s"))
    );
    assert_eq!(
        (&echo["description"], &echo["parameters"]["required"]),
        (&json!("It does echo."), &json!(["text"]))
    );
    assert_eq!(of("s__plain")["effect"], "read_only", "the policy says so");
    assert_eq!(of("read_result")["kind"], "kept");
    let tokens =
        told["tools"].as_array().unwrap().iter().map(|tool| tool["tokens"].as_u64().unwrap()).sum::<u64>();
    assert_eq!(told["tokens"], tokens);
    assert_eq!(told["failed"], json!([]));
}

#[test]
fn a_server_that_cannot_be_asked_hides_no_other() {
    let output = tools(&agent(&json!({"s": server("pages"), "lost": server("early")})), &[]);
    assert_eq!(output.status.code(), Some(1));
    let (shown, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(shown.contains("s__t2"), "{shown}");
    assert!(errors.contains("error: MCP server `lost`: `python3` exited with code 7"), "{errors}");
}

#[test]
fn names_that_a_server_which_could_not_be_asked_may_bring_are_not_warned_of() {
    let dir = agent(&json!({"lost": server("early")}));
    let output = tools(&dir, &["--format", "json"]);
    fs::write(dir.path().join("tools.json"), output.stdout).unwrap();
    let policy = "version: 1\ntools: {lost__a: {effect: read_only}, s__plain: {effect: read_only}}\n";
    fs::write(dir.path().join("policy.yaml"), policy).unwrap();
    let check = ["check", "policy.yaml", "--tools", "tools.json", "--format", "short"];
    let said = command::unfazed(dir.path(), &check).output().unwrap().stdout;
    let said = String::from_utf8_lossy(&said);
    assert!(said.contains("no tool `s__plain`") && !said.contains("lost__a"), "{said}");
}

#[test]
fn every_server_that_cannot_be_asked_says_why_in_plain_words() {
    let at_once = json!({"command": ["sh", "-c", "exit 3"]});
    let servers = json!({"a": at_once, "b": at_once, "c": {"url": "http://127.0.0.1:9/mcp"}});
    let dir = agent(&servers);
    let output = tools(&dir, &[]);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    let lines: Vec<&str> = errors.lines().collect();
    assert_eq!(lines.len(), 3, "{errors}");
    assert_eq!(lines[0], "error: MCP server `a`: `sh` exited with code 3");
    assert_eq!(lines[1], "error: MCP server `b`: `sh` exited with code 3");
    let unreachable = "error: MCP server `c`: the server cannot be reached: error sending request for url";
    assert!(lines[2].starts_with(unreachable) && !lines[2].contains("::"), "{errors}");
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn a_run_says_so_of_every_server_too() {
    let at_once = json!({"command": ["sh", "-c", "exit 3"]});
    let dir = agent(&json!({"a": at_once, "b": at_once}));
    let mut run = command::unfazed(dir.path(), &["run", "agent.yaml", "--task", "t"]);
    let output = run.env("NO_KEY", "k").output().unwrap();
    let said =
        "error: MCP server `a`: `sh` exited with code 3\nerror: MCP server `b`: `sh` exited with code 3\n";
    assert_eq!((String::from_utf8_lossy(&output.stderr).as_ref(), output.status.code()), (said, Some(1)));
}

const UNUSABLE: &str = "warning: MCP server `s`: left out `bare`, `without a name`: no input schema
warning: MCP server `s`: left out `deep`: nested too deep
warning: MCP server `s`: cut `long`: description too long
";

#[test]
fn tools_that_are_left_out_or_cut_are_told_by_whoever_asks_the_server() {
    let dir = agent(&json!({"s": server("lists")}));
    assert_eq!(String::from_utf8_lossy(&tools(&dir, &[]).stderr), UNUSABLE);
    let output = tools(&dir, &["--format", "json"]);
    assert_eq!(String::from_utf8_lossy(&output.stderr), UNUSABLE);
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    let of = |issue: &Value| (issue["tool"].clone(), issue["left_out"].clone(), issue["reason"].clone());
    assert_eq!(
        told["issues"].as_array().unwrap().iter().map(of).collect::<Vec<_>>(),
        [
            (json!("bare"), json!(true), json!("no_input_schema")),
            (json!("deep"), json!(true), json!("nested_too_deep")),
            (json!("long"), json!(false), json!("description_too_long")),
            (json!("without a name"), json!(true), json!("no_input_schema")),
        ]
    );
    let message = "tool `bare` declares no `inputSchema`, so its arguments are not known";
    assert_eq!((&told["issues"][0]["server"], &told["issues"][0]["message"]), (&json!("s"), &json!(message)));
    assert_eq!(output.status.code(), Some(0), "the others can be used");

    fs::write(dir.path().join("tools.json"), &output.stdout).unwrap();
    let check = ["check", "policy.yaml", "--tools", "tools.json", "--format", "json"];
    let output = command::unfazed(dir.path(), &check).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), UNUSABLE);
}

#[test]
fn a_run_tells_of_tools_that_are_left_out_or_cut() {
    let dir = agent(&json!({"s": server("lists")}));
    let mut file: Value = serde_json::from_slice(&fs::read(dir.path().join("agent.yaml")).unwrap()).unwrap();
    file["models"] = json!({"m": {"api": "scripted", "script": "model.yaml"}});
    file.as_object_mut().unwrap().remove("policy");
    fs::write(dir.path().join("agent.yaml"), file.to_string()).unwrap();
    fs::write(dir.path().join("model.yaml"), "version: 1\nreplies: [{text: done}]\n").unwrap();
    let output = command::unfazed(dir.path(), &["run", "agent.yaml", "--task", "t"]).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains(UNUSABLE) && output.status.success(), "{errors}");
}

#[test]
fn a_server_with_many_tools_that_cannot_be_used_fills_no_screen() {
    let dir = agent(&json!({}));
    let issue = |number: usize| {
        json!({
            "server": "s", "tool": format!("t{number}\n"), "left_out": true, "reason": "no_input_schema", "message": "",
        })
    };
    let issues: Vec<Value> = (0..1000).map(issue).collect();
    let printed = json!({"v": 1, "tools": [], "models": [], "failed": [], "issues": issues});
    fs::write(dir.path().join("tools.json"), printed.to_string()).unwrap();
    let output =
        command::unfazed(dir.path(), &["check", "policy.yaml", "--tools", "tools.json"]).output().unwrap();
    let line = "warning: MCP server `s`: left out `t0`, `t1`, `t2`, `t3`, `t4`, 995 more: no input schema\n";
    assert_eq!(String::from_utf8_lossy(&output.stderr), line);
}

#[test]
fn an_agent_without_tools_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let file = "version: 1\nmodels: {m: {api: scripted, script: model.yaml}}\n";
    fs::write(dir.path().join("agent.yaml"), file).unwrap();
    fs::write(dir.path().join("model.yaml"), "version: 1\nreplies: [{text: done}]\n").unwrap();
    let output = tools(&dir, &[]);
    assert_eq!(output.status.code(), Some(3));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "the agent has no tools\n");
}

/// The smallest budget of which `check` says nothing leaves a turn, until the server of the agent brings its tools.
#[test]
fn tools_of_servers_count_in_a_budget_when_the_agent_runs() {
    let dir = agent(&json!({"s": server("pages")}));
    let policy = |tokens: u64| {
        fs::write(
            dir.path().join("policy.yaml"),
            format!("version: 1\nlimits: {{run: {{tokens: {tokens}}}}}\n"),
        )
        .unwrap();
    };
    let mut file: Value =
        serde_json::from_str(&fs::read_to_string(dir.path().join("agent.yaml")).unwrap()).unwrap();
    file["models"] = json!({"main": {"api": "scripted", "script": "model.yaml"}});
    file["task"] = "go".into();
    fs::write(dir.path().join("agent.yaml"), file.to_string()).unwrap();
    fs::write(dir.path().join("model.yaml"), "version: 1\nreplies: [{text: Done.}]\n").unwrap();
    let told = |args: &[&str]| {
        let output = command::unfazed(dir.path(), args).output().unwrap();
        [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat()
    };
    let (mut short, mut enough) = (3072, 12_000);
    while enough - short > 1 {
        let middle = u64::midpoint(short, enough);
        policy(middle);
        if told(&["check", "agent.yaml"]).contains("W0256") { short = middle } else { enough = middle }
    }
    for (tokens, warns) in [(enough, true), (enough + 20_000, false)] {
        policy(tokens);
        let said = told(&["run", "agent.yaml", "--quiet"]);
        assert_eq!(said.matches("(W0256)").count(), usize::from(warns), "{said}");
        assert_eq!(said.contains("turn 1 is the final turn"), warns, "the engine decides so: {said}");
    }
}
