//! `unfazed step`: hosts in other languages, as lines of JSON.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::command;

const POLICY: &str = "version: 1
tools:
  '*': {retry: {max_attempts: 3, backoff: {kind: constant, delay: 1s, jitter: none}}}
";

/// A process, spoken to line by line.
struct Host {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Host {
    fn start(folder: &Path, args: &[&str]) -> Self {
        let mut command = command::unfazed(folder, &[&["step", "p.yaml"], args].concat());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (input, output) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        Self { child, input, output }
    }

    fn text(&mut self, line: &str) -> Value {
        writeln!(self.input.as_mut().unwrap(), "{line}").unwrap();
        let mut answer = String::new();
        self.output.read_line(&mut answer).unwrap();
        serde_json::from_str(&answer).unwrap_or_else(|error| panic!("{error}: {answer:?}"))
    }

    fn ask(&mut self, line: &Value) -> Value {
        self.text(&line.to_string())
    }

    /// Ends the input, and waits for the process.
    fn end(mut self) -> bool {
        drop(self.input.take());
        self.child.wait().unwrap().success()
    }

    /// As the system does when it has no memory left.
    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("p.yaml"), POLICY).unwrap();
    folder
}

fn hello() -> Value {
    let parameters = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
    json!({"kind": "hello", "v": 1, "now": 1, "tools": [{"name": "look", "parameters": parameters, "effect": "read_only"}]})
}

fn event(event: &str, now: u64, fields: &Value) -> Value {
    let mut line = json!({"kind": "event", "event": event, "now": now});
    line.as_object_mut().unwrap().extend(fields.as_object().cloned().unwrap());
    line
}

fn finished(work: u64, now: u64, outcome: &Value) -> Value {
    event("tool_finished", now, &json!({"work": work, "outcome": outcome}))
}

fn ok(data: u64) -> Value {
    json!({"outcome": "ok", "data": data})
}

fn busy() -> Value {
    json!({"outcome": "failed", "failure": {"status": 503, "message": "busy"}, "effect": "not_started"})
}

/// A conversation in the drive `turns`. Its lines have their times, so they always have the same answers.
fn conversation() -> Vec<Value> {
    let call = |id: &str, n: u64| json!({"id": id, "name": "look", "arguments": json!({"n": n}).to_string()});
    let reply = |calls: &[Value], text: &str| {
        let finish = if calls.is_empty() { "stop" } else { "tool_calls" };
        json!({"text": text, "calls": calls, "finish": finish, "usage": {"input": 90, "output": 9}})
    };
    vec![
        json!({"kind": "start", "run": "r", "drive": "turns", "task": "Look.", "targets": ["gpt-4o"], "now": 1_000, "seed": 7}),
        event(
            "model_responded",
            2_000,
            &json!({"work": 2, "reply": reply(&[call("a", 1), call("b", 2)], "")}),
        ),
        finished(3, 3_000, &busy()),
        finished(4, 4_000, &ok(2)),
        event("timer_fired", 2_000_000_000, &json!({"work": 5})),
        finished(6, 2_000_001_000, &ok(1)),
        event("model_responded", 2_000_002_000, &json!({"work": 8, "reply": reply(&[], "Done.")})),
    ]
}

#[test]
fn a_conversation_is_measured_kept_and_brought_to_its_end() {
    let folder = folder();
    let mut host = Host::start(folder.path(), &[]);
    let ready = host.ask(&hello());
    assert_eq!((&ready["kind"], &ready["v"], &ready["seq"]), (&json!("ready"), &json!(1), &json!(0)));
    let mut answers = Vec::new();
    for line in conversation() {
        let answer = host.ask(&line);
        let list = answer["list"].as_array().unwrap_or_else(|| panic!("{line}: {answer}"));
        // What is decided has cases of its own; this is what a host gets.
        let short = |directive: &Value| {
            let mut short = directive.clone();
            let fields = short.as_object_mut().unwrap();
            for name in ["because", "timeout", "timeouts"] {
                fields.remove(name);
            }
            short
        };
        let list: Vec<Value> = list.iter().filter(|one| one["directive"] != "metric").map(short).collect();
        answers.push(json!({"seq": answer["seq"], "list": list, "messages": answer["messages"]}));
    }
    assert!(host.end());
    let lines: Vec<String> = answers.iter().map(Value::to_string).collect();
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn a_line_that_cannot_be_used_changes_nothing_and_says_where_it_is_wrong() {
    let folder = folder();
    let mut host = Host::start(folder.path(), &[]);
    let deep = format!("{{\"kind\":\"hello\",\"tools\":{}{}}}", "[".repeat(200), "]".repeat(200));
    let mut shown = Vec::new();
    let mut refused = |host: &mut Host, line: &str| {
        let answer = host.text(line);
        assert_eq!(answer["kind"], "error", "{line}: {answer}");
        let line: String = line.chars().take(100).collect();
        shown.push(format!("{line}\n{answer}"));
    };
    for line in [
        "{\"kind\":",
        "[1]",
        "{}",
        "{\"kind\":7}",
        "{\"kind\":\"stat\"}",
        "{\"kind\":\"save\"}",
        "\u{feff}{}",
        &deep,
    ] {
        refused(&mut host, line);
    }
    for line in [
        json!({"kind": "hello"}),
        json!({"kind": "hello", "v": 2}),
        json!({"kind": "hello", "v": 1.0}),
        json!({"kind": "hello", "v": 1, "tools": [{"name": "x", "parameters": {"type": "objct"}}]}),
        json!({"kind": "hello", "v": 1, "saved": "2:0 {}"}),
        json!({"kind": "hello", "v": 1, "tool": []}),
    ] {
        refused(&mut host, &line.to_string());
    }
    assert_eq!(host.ask(&hello())["kind"], "ready");
    for line in [
        hello(),
        json!({"kind": "start", "tusk": "x"}),
        json!({"kind": "start", "targets": "main"}),
        json!({"kind": "start", "task": "x", "history": [{"role": "user", "txt": "x"}]}),
        json!({"kind": "start", "overheads": {"openai/gpt-4o": {"requests": 3}}}),
        event("timer_fired", 1, &json!({"wrok": 1})),
        event("tool_finished", 1, &json!({"work": 1, "outcome": ok(1), "duration": 7})),
        event("tool_finished", 1, &json!({"work": 1, "outcome": {"outcome": "ok", "date": 1}})),
        event(
            "tools_proposed",
            1,
            &json!({"calls": [{"id": "a", "name": "look", "arguments": "{}", "turn": 1}]}),
        ),
        event("model_failed", 1, &json!({"work": 1, "failure": {"message": "x", "statsu": 503}})),
        event("tool_finsihed", 1, &json!({})),
        event("tool_finished", 1, &json!({"work": "x"})),
        event("tools_proposed", 1, &json!({"calls": [{"id": "a", "arguments": "{}"}]})),
        event(
            "run_started",
            1,
            &json!({"run": "r", "policy": "", "seed": 0, "drive": "calls", "targets": [], "tools": []}),
        ),
        json!({"kind": "event", "event": "run_started", "run": "x"}),
        event("policy_changed", 1, &json!({"policy": "x"})),
        event("timer_fired", 1, &json!({"work": 1, "seq": 7})),
    ] {
        refused(&mut host, &line.to_string());
    }
    let saved = host.ask(&json!({"kind": "save"}));
    assert!(saved["saved"].as_str().unwrap().contains("\"seq\":0"), "{saved}");
    // An event before there is a run.
    refused(&mut host, &event("cancelled", 1, &json!({"reason": "x"})).to_string());
    // A run that is under way is not begun again.
    host.ask(&conversation()[0]);
    refused(&mut host, &conversation()[0].to_string());
    // An answer of another kind than the work, and one that no record could hold.
    refused(&mut host, &event("timer_fired", 1, &json!({"work": 2})).to_string());
    let deep = format!("{}1{}", "[".repeat(100), "]".repeat(100));
    refused(&mut host, &format!("{{\"kind\":\"tools\",\"tools\":{deep}}}"));
    refused(&mut host, &json!({"kind": "x".repeat(1000)}).to_string());
    let failed =
        json!({"outcome": "failed", "failure": {"status": "503", "message": "x"}, "effect": "not_started"});
    refused(&mut host, &finished(2, 1, &failed).to_string());
    // Read as a float, it would be another one.
    let long = finished(2, 1, &ok(7))
        .to_string()
        .replace("\"data\":7", "\"data\":[\"é\",-10000000000000000000000000000001]");
    refused(&mut host, &long);
    assert_eq!(host.ask(&conversation()[1])["seq"], 3);
    assert!(host.end());
    insta::assert_snapshot!(shown.join("\n\n"));
}

/// Fields whose names are the host's, a tool's or a model's are no fields of an event.
#[test]
fn what_a_host_a_tool_or_a_model_names_is_taken() {
    let folder = folder();
    let mut host = Host::start(folder.path(), &[]);
    host.ask(&hello());
    let history = json!([{"role": "assistant", "text": "x", "extra": {"reasoning": {"steps": [1]}}}]);
    let start = json!({
        "kind": "start", "drive": "turns", "task": "x", "targets": ["m/1"], "history": history,
        "overheads": {"m/1": {"request": 3}},
    });
    assert_eq!(host.ask(&start)["kind"], "directives");
    let call = json!({"id": "a", "name": "look", "arguments": "{\"n\": 1}"});
    let reply =
        json!({"text": "", "calls": [call], "finish": {"other": "eos"}, "extra": {"thinking": {"a": 1}}});
    let answer = host.ask(&event("model_responded", 2, &json!({"work": 2, "reply": reply})));
    assert_eq!(answer["kind"], "directives", "{answer}");
    let data = json!({"outcome": "ok", "data": {"any": {"thing": [{"n": 1}]}}});
    assert_eq!(host.ask(&finished(3, 3, &data))["kind"], "directives");
    assert!(host.end());
}

#[test]
fn a_session_that_continues_names_its_run() {
    let folder = folder();
    let mut host = Host::start(folder.path(), &["--record"]);
    let ready = host.ask(&hello());
    assert_eq!(ready.get("run"), None, "no run has begun");
    let id = ready["session"].as_str().unwrap().to_owned();
    host.ask(&conversation()[0]);
    let saved = host.ask(&json!({"kind": "save"}))["saved"].clone();
    assert!(host.end());
    let mut host = Host::start(folder.path(), &["--resume", &id]);
    assert_eq!(host.ask(&hello())["run"], "r");
    assert!(host.end());
    let mut host = Host::start(folder.path(), &[]);
    let mut hello = hello();
    hello["saved"] = saved;
    assert_eq!(host.ask(&hello)["run"], "r");
    assert!(host.end());
}

/// Who asks for a record learns that there is none, whatever its lines say.
#[test]
fn a_session_that_was_not_begun_fails_if_it_was_to_be_recorded() {
    let folder = folder();
    let wrong = json!({"kind": "hello", "v": 2});
    let ends = |args: &[&str], lines: &[Value]| {
        let mut host = Host::start(folder.path(), args);
        let kinds: Vec<Value> = lines.iter().map(|line| host.ask(line)["kind"].clone()).collect();
        (kinds, host.end())
    };
    assert_eq!(ends(&["--record"], core::slice::from_ref(&wrong)), (vec![json!("error")], false));
    assert_eq!(ends(&["--record"], &[wrong.clone(), hello()]), (vec![json!("error"), json!("ready")], true));
    assert_eq!(ends(&[], &[wrong]), (vec![json!("error")], true));
}

#[test]
fn a_record_of_nothing_is_an_error() {
    let folder = folder();
    let ended = command::unfazed(folder.path(), &["step", "p.yaml", "--record"])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(1), "{said}");
    assert!(said.contains("no session is written: no line came"), "{said}");
}

#[test]
fn a_line_that_is_too_long_is_refused_and_the_next_one_is_taken() {
    let folder = folder();
    let mut host = Host::start(folder.path(), &[]);
    // The first line may have a whole session.
    let long = |bytes: usize| format!("{{\"kind\":\"hello\",\"x\":\"{}\"}}", "x".repeat(bytes));
    assert_eq!(host.text(&long(17 << 20))["pointer"], "");
    let answer = host.text(&long(64 << 20));
    assert_eq!(answer, json!({"kind": "error", "line": 2, "message": "the line has more than 64 MiB"}));
    assert_eq!(host.ask(&hello())["kind"], "ready");
    let answer = host.text(&long(17 << 20));
    assert_eq!(answer, json!({"kind": "error", "line": 4, "message": "the line has more than 16 MiB"}));
    assert_eq!(host.ask(&json!({"kind": "save"}))["kind"], "saved");
    assert!(host.end());
}

#[test]
fn a_session_that_was_saved_continues_in_another_process_as_if_nothing_had_happened() {
    let (folder, lines) = (folder(), conversation());
    let mut host = Host::start(folder.path(), &[]);
    host.ask(&hello());
    let whole: Vec<Value> = lines.iter().map(|line| host.ask(line)).collect();
    assert!(host.end());
    for cut in 0..=lines.len() {
        let mut before = Host::start(folder.path(), &[]);
        before.ask(&hello());
        let mut answers: Vec<Value> = lines[..cut].iter().map(|line| before.ask(line)).collect();
        let saved = before.ask(&json!({"kind": "save"}))["saved"].clone();
        before.kill();
        let mut after = Host::start(folder.path(), &[]);
        let mut hello = hello();
        hello["saved"] = saved;
        let ready = after.ask(&hello);
        assert_eq!((&ready["kind"], &ready["list"]), (&json!("ready"), &json!([])), "after {cut}");
        answers.extend(lines[cut..].iter().map(|line| after.ask(line)));
        assert!(after.end());
        assert_eq!(answers, whole, "after {cut}");
    }
}

#[test]
fn another_policy_and_other_tools_are_noticed_when_a_session_continues() {
    let folder = folder();
    let mut host = Host::start(folder.path(), &[]);
    host.ask(&hello());
    host.ask(&conversation()[0]);
    let saved = host.ask(&json!({"kind": "save"}))["saved"].clone();
    assert!(host.end());
    fs::write(folder.path().join("p.yaml"), "version: 1\nturn: {max_turns: 3}\n").unwrap();
    let mut host = Host::start(folder.path(), &[]);
    let ready = host.ask(&json!({"kind": "hello", "v": 1, "saved": saved, "now": 2_000}));
    // One event for the policy, and one for the tools.
    assert_eq!(ready["seq"], 4);
    assert_eq!(ready["open"][0]["directive"], "call_model");
    assert_eq!(ready["messages"], json!([{"role": "user", "text": "Look."}]));
    let tampered = saved.as_str().unwrap().replacen("\"text\":\"Look.\"", "\"text\":\"Lie.\"", 1);
    assert!(host.end());
    let mut host = Host::start(folder.path(), &[]);
    let answer = host.ask(&json!({"kind": "hello", "v": 1, "saved": tampered}));
    assert_eq!(answer["pointer"], "/saved");
    assert!(host.end());
}

#[test]
fn a_recorded_session_survives_a_kill_at_any_line_and_is_replayed_byte_for_byte() {
    let (folder, lines) = (folder(), conversation());
    let sessions = |host: &Value| host["session"].as_str().unwrap().to_owned();
    let mut last = Vec::new();
    for cut in 0..lines.len() {
        let mut host = Host::start(folder.path(), &["--record"]);
        let id = sessions(&host.ask(&hello()));
        for line in &lines[..cut] {
            assert_eq!(host.ask(line)["kind"], "directives");
        }
        host.kill();
        let mut host = Host::start(folder.path(), &["--resume", &id]);
        let ready = host.ask(&hello());
        assert_eq!((&ready["kind"], sessions(&ready)), (&json!("ready"), id.clone()));
        let answers: Vec<Value> = lines[cut..].iter().map(|line| host.ask(line)).collect();
        assert!(host.end());
        last.push(answers.last().unwrap()["state"].clone());
        let replayed =
            command::unfazed(folder.path(), &["replay", &id, "--policy", "p.yaml"]).output().unwrap();
        assert!(replayed.status.success(), "{}", String::from_utf8_lossy(&replayed.stderr));
        assert!(String::from_utf8_lossy(&replayed.stdout).contains("byte for byte"));
    }
    last.dedup();
    assert_eq!(last.len(), 1, "{last:?}");
}

#[test]
fn a_log_that_ends_anywhere_is_continued_and_nothing_that_was_decided_is_lost() {
    let (folder, lines) = (folder(), conversation());
    let mut host = Host::start(folder.path(), &["--record"]);
    let id = host.ask(&hello())["session"].as_str().unwrap().to_owned();
    let answers: Vec<Value> = lines.iter().map(|line| host.ask(line)).collect();
    assert!(host.end());
    let decided: Vec<&Value> = answers.iter().flat_map(|answer| answer["list"].as_array().unwrap()).collect();
    let log = folder.path().join(".unfazed/sessions").join(format!("{id}.jsonl"));
    let records = fs::read_to_string(&log).unwrap();
    let records: Vec<&str> = records.split_inclusive('\n').collect();
    for cut in 1..=records.len() {
        let folder = self::folder();
        let sessions = folder.path().join(".unfazed/sessions");
        fs::create_dir_all(&sessions).unwrap();
        fs::write(sessions.join(format!("{id}.jsonl")), records[..cut].concat()).unwrap();
        let mut host = Host::start(folder.path(), &["--resume", &id]);
        let mut hello = hello();
        hello["read"] = json!(0);
        let ready = host.ask(&hello);
        assert_eq!(ready["kind"], "ready", "after {cut}: {ready}");
        let mut list = ready["list"].as_array().unwrap().clone();
        let mut open: Vec<Value> =
            ready["open"].as_array().unwrap().iter().map(|work| work["work"].clone()).collect();
        let mut state = Value::Null;
        for line in &lines {
            let is_due = line.get("work").map_or(cut == 1, |work| open.contains(work));
            if is_due {
                let answer = host.ask(line);
                let more = answer["list"].as_array().unwrap();
                open.extend(more.iter().filter_map(|directive| directive.get("work").cloned()));
                list.extend(more.iter().cloned());
                state = answer["state"].clone();
            }
        }
        assert_eq!(list.iter().collect::<Vec<_>>(), decided, "after {cut}");
        assert!(state.is_null() || state == answers.last().unwrap()["state"], "after {cut}");
        assert!(host.end());
    }
}

#[test]
fn calls_of_one_reply_end_in_one_state_in_whatever_order_they_end() {
    let folder = folder();
    let mut states = Vec::new();
    for order in [[0, 1, 2, 3, 4], [4, 3, 2, 1, 0], [2, 0, 4, 1, 3]] {
        let mut host = Host::start(folder.path(), &[]);
        host.ask(&hello());
        host.ask(&json!({"kind": "start", "run": "r", "now": 1_000}));
        let calls = (0..5).map(
            |n| json!({"id": format!("c{n}"), "name": "look", "arguments": json!({"n": n}).to_string()}),
        );
        let answer = host.ask(&event("tools_proposed", 2_000, &json!({"calls": calls.collect::<Vec<_>>()})));
        let runs: Vec<&Value> =
            answer["list"].as_array().unwrap().iter().filter(|one| one["directive"] == "run_tool").collect();
        assert_eq!(runs.len(), 5);
        let works: Vec<u64> = runs.iter().map(|run| run["work"].as_u64().unwrap()).collect();
        let answers: Vec<Value> =
            order.iter().map(|at| host.ask(&finished(works[*at], 3_000, &ok(*at as u64)))).collect();
        let settled = answers.iter().flat_map(|answer| answer["list"].as_array().unwrap());
        assert_eq!(settled.filter(|one| one["directive"] == "settled").count(), 1);
        states.push(answers.last().unwrap()["state"].clone());
        assert!(host.end());
    }
    states.dedup();
    assert_eq!(states.len(), 1, "{states:?}");
}

#[test]
fn a_broken_history_is_repaired_without_the_host() {
    let folder = folder();
    let mut host = Host::start(folder.path(), &[]);
    host.ask(&hello());
    let call = json!({"id": "lost", "name": "look", "arguments": "{\"n\": 1}"});
    let history = json!([{"role": "user", "text": "Look."}, {"role": "assistant", "calls": [call]}]);
    let start =
        json!({"kind": "start", "drive": "turns", "history": history, "task": "And?", "targets": ["main"]});
    let answer = host.ask(&start);
    let roles: Vec<&str> = answer["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|message| message["role"].as_str().unwrap())
        .collect();
    assert_eq!(roles, ["user", "assistant", "tool", "user"], "{answer}");
    assert!(host.end());
}

/// The repair changes how many messages there are, and the reduction is of the repaired conversation.
#[test]
fn a_history_that_is_broken_and_too_long_is_repaired_and_reduced() {
    let folder = folder();
    let policy =
        "version: 1\nmodels: {m: {context_window: 8192}}\ncontext: {reduce: [{kind: drop, keep_last: 1}]}\n";
    fs::write(folder.path().join("p.yaml"), policy).unwrap();
    let mut host = Host::start(folder.path(), &[]);
    host.ask(&hello());
    let call = json!({"id": "lost", "name": "look", "arguments": "{\"n\": 1}"});
    let mut history = vec![json!({"role": "user", "text": "Look. ".repeat(1000)}); 8];
    history.push(json!({"role": "assistant", "calls": [call]}));
    let start =
        json!({"kind": "start", "drive": "turns", "history": history, "task": "And?", "targets": ["m"]});
    let answer = host.ask(&start);
    let list = answer["list"].as_array().unwrap();
    let named = |name: &str| list.iter().filter(|one| one["directive"] == name).count();
    assert_eq!(
        [named("splice"), named("context_reduced"), named("final_turn"), named("warning")],
        [2, 1, 0, 0]
    );
    let messages = answer["messages"].as_array().unwrap();
    assert!(messages.len() < 8, "{answer}");
    assert_eq!(messages.last().unwrap()["text"], "And?");
    assert!(host.end());
}

#[test]
fn the_schema_describes_every_line() {
    let folder = folder();
    let schema = command::unfazed(folder.path(), &["schema", "step"]).output().unwrap();
    let schema: Value = serde_json::from_slice(&schema.stdout).unwrap();
    let schema = jsonschema::validator_for(&schema).unwrap();
    let problems = |line: &Value| schema.iter_errors(line).map(|error| error.to_string()).collect::<Vec<_>>();
    let mut host = Host::start(folder.path(), &[]);
    let mut lines = vec![hello()];
    lines.extend(conversation());
    lines.extend([json!({"kind": "tools", "tools": []}), json!({"kind": "save"})]);
    for line in lines {
        assert_eq!(problems(&line), [""; 0], "{line}");
        let answer = host.ask(&line);
        assert_eq!(problems(&answer), [""; 0], "{answer}");
    }
    let wrong = json!({"kind": "start", "tusk": "x"});
    assert_ne!(problems(&wrong), [""; 0]);
    let answer = host.ask(&wrong);
    assert_eq!((&answer["kind"], problems(&answer)), (&json!("error"), Vec::new()), "{answer}");
    assert!(host.end());
}
