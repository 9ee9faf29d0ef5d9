//! `unfazed context`: where the tokens of a session, an agent or a request go.

use std::fs;
use std::io::Write as _;
use std::process::{Output, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::command;
use crate::desk;

const POLICY: &str = "version: 1
models: {'*': {context_window: 2000, output_reserve: 200}}
context: {safety: 20 tokens}
";

/// The desk's agent, with instructions and one more tool.
fn agent() -> String {
    let agent = desk::AGENT.replace("task:", "system: You look up prices.\ntask:");
    format!("{agent}  calc: {{kind: builtin}}\n")
}

fn scene() -> TempDir {
    let dir = desk::folder(POLICY);
    fs::write(dir.path().join("agent.yaml"), agent()).unwrap();
    dir
}

fn unfazed(dir: &TempDir, args: &[&str], input: &str) -> Output {
    let mut command = command::unfazed(dir.path(), args);
    command.stdin(Stdio::piped());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // Who reads nothing of it may be gone already.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

fn shown(dir: &TempDir, args: &[&str], input: &str) -> String {
    let output = unfazed(dir, args, input);
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap()
}

fn request() -> Value {
    let mut messages = vec![json!({"role": "system", "content": "You look up prices."})];
    for n in 0..12 {
        let id = format!("c{n}");
        messages.push(json!({"role": "user", "content": format!("And item {n}, please?")}));
        messages.push(json!({"role": "assistant", "content": null, "tool_calls": [
            {"id": id, "type": "function", "function": {"name": "look", "arguments": "{}"}},
        ]}));
        messages.push(json!({"role": "tool", "tool_call_id": id, "content": "price list ".repeat(40)}));
    }
    json!({
        "model": "house-model", "max_tokens": 300, "messages": messages,
        "tools": [{"type": "function", "function": {"name": "look", "description": "Looks up a price."}}],
    })
}

#[test]
fn an_agent_is_shown_with_what_it_begins_with() {
    insta::assert_snapshot!(shown(&scene(), &["context", "agent.yaml"], ""));
}

#[test]
fn a_session_is_shown_as_it_stands_by_its_id_and_by_its_file() {
    let dir = scene();
    assert!(unfazed(&dir, &["run", "agent.yaml"], "").status.success());
    let text = shown(&dir, &["context", "latest"], "");
    let (title, rest) = text.split_once('\n').unwrap();
    assert!(title.starts_with("session "), "{title}");
    insta::assert_snapshot!(rest);
    let path = format!(".unfazed/sessions/{}.jsonl", title.trim_start_matches("session "));
    assert_eq!(shown(&dir, &["context", &path], ""), text);
}

#[test]
fn a_request_that_is_too_large_is_shown_with_what_would_be_cut() {
    let text = shown(&scene(), &["context", "-", "--policy", "policy.yaml"], &request().to_string());
    insta::assert_snapshot!(text);
}

#[test]
fn machines_get_the_same_numbers() {
    let args = ["context", "-", "--policy", "policy.yaml", "--format", "json"];
    let told: Value = serde_json::from_str(&shown(&scene(), &args, &request().to_string())).unwrap();
    let number = |value: &Value| value.as_u64().unwrap();
    assert_eq!((number(&told["window"]["tokens"]), number(&told["output"])), (2000, 300));
    let kinds = ["user", "assistant", "results"].map(|kind| number(&told["messages"][kind]["tokens"]));
    let all = kinds.iter().sum::<u64>() + number(&told["system"]);
    assert_eq!(all, number(&told["messages"]["tokens"]));
    assert_eq!(told["tools"]["each"][0]["name"], "look");
    assert_eq!(number(&told["over"]), all - number(&told["budget"]));
    let steps = told["next"]["steps"].as_array().unwrap();
    assert!(told["next"]["due"].as_bool().unwrap() && !steps.is_empty());
    assert_eq!(steps[0]["tokens_before"], told["messages"]["tokens"]);
    assert!(number(&steps[steps.len() - 1]["tokens_after"]) <= number(&told["next"]["above"]));
}

#[test]
fn the_catalogue_tells_the_window_of_a_model_that_is_named() {
    let body = json!({"messages": [{"role": "user", "content": "Hello."}]}).to_string();
    let args = ["context", "-", "--model", "gpt-4-0613", "--format", "json"];
    let told: Value = serde_json::from_str(&shown(&scene(), &args, &body)).unwrap();
    assert_eq!(told["window"], json!({"tokens": 8192, "source": "catalogue", "output": 4096}));
}

#[test]
fn what_is_no_request_is_told() {
    let dir = scene();
    let refused = |input: &str| {
        let output = unfazed(&dir, &["context", "-"], input);
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    for input in ["", "{", "[]", "{\"messages\": 3}", "\u{0}"] {
        let (code, told) = refused(input);
        assert_eq!(code, Some(1), "{told}");
        assert!(told.contains("a JSON object with a list of `messages`"), "{told}");
    }
    assert_eq!(refused("{\"messages\": []}").0, Some(3));
}

#[test]
fn a_model_that_the_agent_does_not_have_is_told_with_those_it_has() {
    let output = unfazed(&scene(), &["context", "agent.yaml", "--model", "n"], "");
    assert_eq!(output.status.code(), Some(2));
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(told.contains("the agent has no model `n`; it has m"), "{told}");
}

#[test]
fn a_name_that_is_neither_file_nor_session_is_told() {
    let output = unfazed(&scene(), &["context", "nothing"], "");
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("there is no session `nothing`"));
}

/// The session that was written last, as machines get it.
fn latest(dir: &TempDir, more: &[&str]) -> Value {
    let args = [&["context", "latest", "--format", "json"], more].concat();
    serde_json::from_str(&shown(dir, &args, "")).unwrap()
}

/// The scene with instructions that are long enough for a provider to teach something by.
fn long_scene(script: &str) -> TempDir {
    let dir = scene();
    let system = "You look up prices, and say where each of them stands. ".repeat(120);
    fs::write(dir.path().join("agent.yaml"), agent().replace("You look up prices.", &system)).unwrap();
    fs::write(dir.path().join("model.yaml"), script).unwrap();
    dir
}

#[test]
fn a_session_is_counted_as_its_provider_counts() {
    let dir = long_scene("version: 1\nmodel: m\nreplies: [{text: It costs 12.50.}]\n");
    fs::write(dir.path().join("policy.yaml"), POLICY.replace("2000", "90000")).unwrap();
    assert!(unfazed(&dir, &["run", "agent.yaml"], "").status.success());
    let before = latest(&dir, &[]);
    assert_eq!(before["scale"], Value::Null);
    let number = |value: &Value| value.as_u64().unwrap();
    // What was sent: all but the answer.
    let sent = number(&before["messages"]["tokens"]) - number(&before["messages"]["assistant"]["tokens"]);
    let reported = 2 * (sent + number(&before["tools"]["tokens"]));
    let script = format!(
        "version: 1\nmodel: m\nreplies: [{{text: It costs 12.50., usage: {{input: {reported}, output: 9}}}}]\n"
    );
    fs::write(dir.path().join("model.yaml"), script).unwrap();
    assert!(unfazed(&dir, &["run", "agent.yaml"], "").status.success());
    let after = latest(&dir, &[]);
    // One report: a part of what is more is taken for an offset, and both together come to what was reported.
    let (scale, offset) = (after["scale"].as_f64().unwrap(), after["offset"].as_i64().unwrap());
    assert!(scale > 1.5 && scale < 2.0 && offset > 100, "{scale}, {offset}");
    let parts = ["/system", "/tools/tokens", "/messages/user/tokens"].map(|part| {
        let (before, after) = (number(before.pointer(part).unwrap()), number(after.pointer(part).unwrap()));
        assert!(after > before, "{part}");
        after
    });
    let expected = parts.iter().sum::<u64>().saturating_add_signed(offset);
    assert!(expected.abs_diff(reported) <= 3, "{expected} of {reported}");
    let people = shown(&dir, &["context", "latest"], "");
    let line = format!("for each one counted here, and {offset} for each request besides");
    assert!(people.contains(&line), "{people}");
}

#[test]
fn a_count_of_a_request_without_a_hidden_tool_teaches_nothing() {
    let usage = "{text: It costs 12.50., usage: {input: 9000, output: 9}}";
    let script = format!(
        "version: 1
model: m
replies:
  - {{match: {{turn: 1}}, calls: [{{name: look, arguments: {{}}, id: a}}]}}
  - {usage}
"
    );
    let dir = long_scene(&script);
    let tools =
        "tools: {look: {retry: {max_attempts: 1}, breaker: {failures: 1, scope: session, hide: true}}}";
    fs::write(dir.path().join("policy.yaml"), format!("{}{tools}\n", POLICY.replace("2000", "90000")))
        .unwrap();
    fs::write(dir.path().join("look.sh"), "exit 1\n").unwrap();
    assert!(unfazed(&dir, &["run", "agent.yaml"], "").status.success());
    assert_eq!(latest(&dir, &[])["scale"], Value::Null, "one tool was hidden in the second turn");
    fs::write(dir.path().join("model.yaml"), format!("version: 1\nmodel: m\nreplies: [{usage}]\n")).unwrap();
    let next = unfazed(&dir, &["run", "--resume", "latest", "And the chair?"], "");
    assert!(next.status.success(), "{}", String::from_utf8_lossy(&next.stderr));
    assert_eq!(latest(&dir, &[])["scale"], Value::Null, "it still is, in the next run");
}

#[test]
fn a_window_that_was_learned_from_a_refusal_is_shown_with_its_source() {
    let dir = long_scene(
        "version: 1
model: m
replies:
  - {error: {status: 400, code: context_length_exceeded, message: \"This model's maximum context length is 1500 tokens.\"}}
  - {text: It costs 12.50., times: 9}
",
    );
    fs::write(
        dir.path().join("policy.yaml"),
        POLICY.replace("context_window: 2000, ", "assumed_window: unknown, "),
    )
    .unwrap();
    unfazed(&dir, &["run", "agent.yaml"], "");
    let told = latest(&dir, &[]);
    assert_eq!(
        (&told["window"]["tokens"], &told["window"]["source"]),
        (&json!(1500), &json!("refusal")),
        "{told}"
    );
    assert!(
        shown(&dir, &["context", "latest"], "").contains("the provider said so when it refused a request")
    );
}

#[test]
fn the_tools_of_a_session_are_those_of_its_profile_or_of_the_one_that_is_named() {
    let dir = scene();
    let profiles =
        "profiles: {reporting: {output: {schema: {type: object}}}, plain: {turn: {max_turns: 3}}}\n";
    fs::write(dir.path().join("policy.yaml"), format!("{POLICY}{profiles}")).unwrap();
    let script = "version: 1\nmodel: m\nreplies: [{calls: [{name: final_report, arguments: {}, id: a}]}]\n";
    fs::write(dir.path().join("model.yaml"), script).unwrap();
    let run = unfazed(&dir, &["run", "agent.yaml", "--profile", "reporting"], "");
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let tools = |more: &[&str]| -> Vec<String> {
        let told = latest(&dir, more);
        let each = told["tools"]["each"].as_array().unwrap().iter();
        each.map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(tools(&[]), ["look", "calc", "final_report"]);
    assert_eq!(tools(&["--profile", "reporting"]), ["look", "calc", "final_report"]);
    assert_eq!(tools(&["--profile", "plain"]), ["look", "calc"]);
}

#[test]
fn a_request_in_anthropics_format_is_taken_apart() {
    let png = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ";
    let body = json!({
        "model": "claude-sonnet-4-5", "max_tokens": 700, "system": "You look up prices.",
        "tools": [{"name": "look", "description": "Looks up a price.", "input_schema": {"type": "object"}}],
        "messages": [
            {"role": "user", "content": [
                {"type": "text", "text": "What does this lamp cost?"},
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": png}},
            ]},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "look", "input": {"item": "lamp"}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "12.50"}]},
        ],
    });
    let args = ["context", "-", "--format", "json"];
    let told: Value = serde_json::from_str(&shown(&scene(), &args, &body.to_string())).unwrap();
    assert_eq!((&told["model"], &told["output"]), (&json!("claude-sonnet-4-5"), &json!(700)));
    assert_eq!(told["window"]["source"], "catalogue");
    assert_eq!(told["tools"]["each"][0]["name"], "look");
    let tokens = |part: &str| told.pointer(part).unwrap().as_u64().unwrap();
    for part in ["/system", "/tools/tokens", "/messages/user/tokens", "/messages/assistant/tokens"] {
        assert!(tokens(part) > 4, "{part}: {told}");
    }
    assert_eq!(tokens("/messages/images"), 1, "an image of one pixel");
    assert!(tokens("/messages/results/tokens") > 0);
}

#[test]
fn tools_that_alone_are_too_large_are_told_and_nothing_is_cut_for_them() {
    let dir = scene();
    fs::write(dir.path().join("policy.yaml"), POLICY.replace("2000", "400")).unwrap();
    let mut body = request();
    body["tools"][0]["function"]["description"] = json!("Looks up a price. ".repeat(40));
    let args = ["context", "-", "--policy", "policy.yaml"];
    let text = shown(&dir, &args, &body.to_string());
    assert!(text.contains("The definitions of the tools alone are too large for the window."), "{text}");
    let told: Value =
        serde_json::from_str(&shown(&dir, &[&args[..], &["--format", "json"]].concat(), &body.to_string()))
            .unwrap();
    assert_eq!((&told["next"]["due"], &told["next"]["tools_fill"]), (&json!(false), &json!(true)));
    assert_eq!(told["next"]["steps"], json!([]));
}

#[test]
fn a_body_with_a_system_of_its_own_is_a_request() {
    let dir = scene();
    let body =
        json!({"system": "You look up prices.", "messages": [{"role": "user", "content": "And item 3?"}]});
    fs::write(dir.path().join("body.json"), body.to_string()).unwrap();
    let shown = shown(&dir, &["context", "body.json", "--policy", "policy.yaml"], "");
    assert!(shown.starts_with("the request of body.json"), "{shown}");
}

#[test]
fn a_request_without_anything_in_it_is_told() {
    let dir = scene();
    fs::write(dir.path().join("r.json"), r#"{"messages": []}"#).unwrap();
    let output = unfazed(&dir, &["context", "r.json"], "");
    assert_eq!(output.status.code(), Some(3));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(said, "there is nothing to count: the request of r.json is empty\n");
}
