//! The command as people use it: files in, output and exit codes out.

use std::fs;
use std::io::Write as _;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use crate::command;

const SCRIPT: &str = "version: 1\nmodel: m\nreplies:\n  - text: done\n";
const AGENT: &str = "version: 1\ntask: do it\nmodels:\n  m: {api: scripted, script: model.yaml}\n";

/// A folder with these files.
fn folder(files: &[(&str, &str)]) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in files {
        fs::write(dir.path().join(name), text).unwrap();
    }
    dir
}

fn unfazed(dir: &TempDir, args: &[&str]) -> Output {
    command::unfazed(dir.path(), args).output().unwrap()
}

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn code(output: &Output) -> i32 {
    output.status.code().unwrap()
}

#[track_caller]
fn says(text: &str, wanted: &[&str]) {
    for wanted in wanted {
        assert!(text.contains(wanted), "this is not said: {wanted}\nbut:\n{text}");
    }
}

#[test]
fn away_from_a_terminal_answers_are_shown_while_they_come_only_if_that_is_asked_for() {
    let script = SCRIPT.replace("done", "It is done, as it was wanted.");
    let dir = folder(&[("agent.yaml", AGENT), ("model.yaml", &script)]);
    let run = |args: &[&str]| unfazed(&dir, &[&["run", "agent.yaml"], args].concat());
    assert!(!err(&run(&[])).contains("» m says"));
    let shown = err(&run(&["--stream", "always"]));
    says(&shown, &["           » m says\n             It is done, as it was wanted.\n", "✓ m has answered"]);
    let pieces = |args: &[&str]| {
        let lines = out(&run(args));
        let lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let pieces = lines.filter(|line| line["kind"] == "streamed");
        pieces.map(|line| line["text"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let streamed = pieces(&["--format", "json", "--stream", "always"]);
    assert_eq!(streamed.concat(), "It is done, as it was wanted.");
    assert!(streamed.len() > 1, "{streamed:?}");
    assert!(pieces(&["--format", "json"]).is_empty());
}

#[test]
fn what_there_is_of_an_answer_that_was_cut_is_printed() {
    let script = SCRIPT.replace("text: done", "text: It is do\n    finish_reason: length\n    times: 9");
    let dir = folder(&[("agent.yaml", AGENT), ("model.yaml", &script)]);
    let output = unfazed(&dir, &["run", "agent.yaml"]);
    assert_eq!((code(&output), out(&output).as_str()), (13, "It is do\n"));
    says(&err(&output), &["cut at the token limit", "what there is of it follows on standard output"]);
    let output = unfazed(&dir, &["run", "agent.yaml", "--format", "json"]);
    let last = out(&output).lines().last().map(serde_json::from_str::<Value>).unwrap().unwrap();
    assert_eq!((code(&output), &last["partial"]), (13, &Value::from("It is do")));
}

#[test]
fn a_reader_that_is_gone_ends_the_output_quietly() {
    let dir = folder(&[("agent.yaml", AGENT), ("model.yaml", SCRIPT)]);
    for args in [
        &["schema", "policy"][..],
        &["explain", "t"],
        &["check", "agent.yaml"],
        &["run", "agent.yaml", "--format", "json"],
        &["run", "agent.yaml"],
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output =
            command::unfazed(dir.path(), args).stdout(writer).stderr(Stdio::piped()).output().unwrap();
        assert_eq!(code(&output), 0, "{args:?}: {}", err(&output));
        assert!(!err(&output).contains("error"), "{args:?}: {}", err(&output));
    }
}

#[test]
#[cfg(target_os = "linux")]
fn output_that_cannot_be_written_is_an_error() {
    let dir = folder(&[("agent.yaml", AGENT), ("model.yaml", SCRIPT)]);
    for args in [
        &["--help"][..],
        &["run", "--help"],
        &["--version"],
        &["schema", "policy"],
        &["explain", "t"],
        &["check", "agent.yaml"],
        &["run", "agent.yaml", "--format", "json"],
        &["run", "agent.yaml"],
    ] {
        let full = || fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = command::unfazed(dir.path(), args).stdout(full()).output().unwrap();
        says(&err(&output), &["error: cannot write to standard output: "]);
        assert_eq!(code(&output), 2, "{args:?}");
        let output = command::unfazed(dir.path(), args).stderr(full()).output().unwrap();
        assert_eq!(code(&output), 0, "{args:?}");
    }
}

#[test]
fn every_mistake_of_an_agent_file_is_found_before_anything_starts() {
    let agent = "version: 1
task: ''
models:
  m: {api: openai, base_url: api.openai.com, model: x}
  n: {api: openai, base_url: 'http://h', model: x, extra: {stream: true}}
  o: {api: anthropic, model: x, extra: {system: x}}
tools:
  a.b: {kind: builtin, name: ehco}
  p:
    kind: process
    command: []
    description: d
    parameters: {type: objekt}
";
    let dir = folder(&[("agent.yaml", agent)]);
    let check = unfazed(&dir, &["check", "agent.yaml", "--format", "short"]);
    assert_eq!(code(&check), 1);
    says(
        &out(&check),
        &[
            "agent.yaml:2:7: error[P0104]: the task is empty",
            "agent.yaml:4:30: error[P0104]: `base_url` is not a URL",
            "agent.yaml:5:60: error[P0104]: `stream` cannot be set as an extra field",
            "agent.yaml:6:41: error[P0104]: `system` cannot be set as an extra field",
            "agent.yaml:8:3: error[P0104]: providers refuse `a.b` as the name of a tool",
            "agent.yaml:8:30: error[P0201]: there is no built-in tool `ehco` (did you mean `echo`?)",
            "agent.yaml:11:14: error[P0104]: the command is empty",
            "agent.yaml:13:24: error[P0109]: `objekt` is not a type",
        ],
    );
    let run = unfazed(&dir, &["run", "agent.yaml"]);
    assert_eq!(code(&run), 1);
    says(&err(&run), &["agent.yaml:2:7", "the command is empty"]);
    assert!(!dir.path().join(".unfazed").exists());
}

#[test]
fn a_policy_is_no_agent() {
    let dir = folder(&[("policy.yaml", "version: 1\nretry: {max_attempts: 3}\n")]);
    let run = unfazed(&dir, &["run", "policy.yaml"]);
    assert_eq!(code(&run), 2);
    says(&err(&run), &["policy.yaml is a policy; `unfazed run` takes an agent file"]);
}

#[test]
fn check_follows_what_an_agent_file_names() {
    let agent = "version: 1
policy: [policy.yaml, gone.yaml]
models:
  m: {api: scripted, script: model.yaml}
  n: {api: scripted, script: nowhere.yaml}
";
    let files = [("agent.yaml", agent), ("policy.yaml", "version: 1\n"), ("model.yaml", "replies: 7\n")];
    let dir = folder(&files);
    let check = unfazed(&dir, &["check", "agent.yaml", "model.yaml", "--format", "short"]);
    assert_eq!(code(&check), 1);
    let said = out(&check);
    says(
        &said,
        &[
            "agent.yaml:2:23: error[P0201]: cannot read the policy gone.yaml: ",
            "agent.yaml:5:30: error[P0201]: cannot read the script nowhere.yaml: ",
        ],
    );
    assert_eq!(said.matches("model.yaml:1:10").count(), 1, "{said}");
}

#[test]
fn a_tool_named_like_the_report_is_refused() {
    let agent =
        format!("{AGENT}policy: policy.yaml\ntools:\n  final_report: {{kind: builtin, name: echo}}\n");
    let policy = "version: 1\noutput: {schema: {type: object}}\n";
    let dir = folder(&[("agent.yaml", &agent), ("policy.yaml", policy), ("model.yaml", SCRIPT)]);
    let check = unfazed(&dir, &["check", "agent.yaml", "--format", "short"]);
    says(&out(&check), &["agent.yaml:7:3: error[P0202]: `final_report` is also the tool"]);
}

#[test]
fn a_key_that_is_missing_is_missed_at_its_place() {
    let agent = "version: 1
task: t
models:
  m: {api: openai, base_url: 'http://127.0.0.1:1', model: x, api_key: {env: NO_SUCH_KEY_HERE}}
";
    let dir = folder(&[("agent.yaml", agent)]);
    let run = unfazed(&dir, &["run", "agent.yaml"]);
    assert_eq!(code(&run), 1);
    says(&err(&run), &["agent.yaml:4:77", "the environment variable NO_SUCH_KEY_HERE is not set"]);
    assert_eq!(code(&unfazed(&dir, &["check", "agent.yaml"])), 0);
}

#[test]
fn only_regular_files_are_opened() {
    let dir = folder(&[("good.yaml", "version: 1\n")]);
    assert!(Command::new("mkfifo").arg(dir.path().join("pipe.yaml")).status().unwrap().success());
    for (path, what) in [("pipe.yaml", "a named pipe"), ("/dev/zero", "a device")] {
        for args in [&["check", path][..], &["explain", "t", path], &["run", path]] {
            let output = unfazed(&dir, args);
            says(&err(&output), &[&format!("cannot read {path}: it is {what}; only regular files are read")]);
            assert_eq!(code(&output), 2, "{args:?}");
        }
    }
    let all = unfazed(&dir, &["check", "."]);
    assert_eq!((code(&all), out(&all)), (0, "1 file checked, no problems\n".into()));
}

#[test]
fn check_goes_on_after_a_file_it_cannot_read() {
    let dir = folder(&[("bad.yaml", "version: 1\nretyr: {}\n")]);
    let check = unfazed(&dir, &["check", "gone.yaml", "bad.yaml", "--format", "short"]);
    assert_eq!(code(&check), 2);
    says(&out(&check), &["bad.yaml:2:1: error[P0101]: unknown field `retyr`"]);
    says(&err(&check), &["error: cannot read gone.yaml"]);
}

#[test]
fn a_builtin_tool_may_have_another_name() {
    let agent = format!("{AGENT}policy: policy.yaml\ntools:\n  ok: {{kind: builtin, name: echo}}\n");
    let policy = "version: 1\ntools:\n  ok:\n    validate: [{name: short, check: size(args.text) < 3, message: too long}]\n";
    let script = "version: 1\nreplies:
  - calls: [{name: ok, arguments: {text: long}}]
  - calls: [{name: ok, arguments: {text: hi}}]
  - text: done
";
    let dir = folder(&[("agent.yaml", &agent), ("policy.yaml", policy), ("model.yaml", script)]);
    let run = unfazed(&dir, &["run", "agent.yaml", "--format", "json"]);
    assert_eq!(code(&run), 0, "{}", err(&run));
    says(&out(&run), &[r#""tools":["ok"]"#, "too long", r#""outcome":"ok","data":"hi""#]);
}

fn alive(pid: &str) -> bool {
    // A dead process nobody has reaped still has a number; its state says so.
    match fs::read_to_string(format!("/proc/{pid}/stat")) {
        Ok(stat) => !stat.rsplit(')').next().unwrap_or_default().trim_start().starts_with('Z'),
        Err(_) => false,
    }
}

fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(30);
    while !holds() {
        assert!(Instant::now() < until, "{what}");
        std::thread::yield_now();
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_second_signal_leaves_no_tool_running() {
    for (first, second) in [("INT", "INT"), ("HUP", "TERM")] {
        let agent = format!(
            "{AGENT}tools:\n  stay:\n    kind: process\n    command: [sh, stay.sh]\n    description: d\n    parameters: {{type: object}}\n"
        );
        let stay = "trap '' TERM HUP INT\nsh -c 'trap \"\" TERM HUP INT; echo $$ > child; while :; do sleep 1; done' &\nwhile [ ! -s child ]; do sleep 0.01; done\necho $$ > pid\nwhile :; do sleep 1; done\n";
        let script = "version: 1\nreplies:\n  - calls: [{name: stay, arguments: {}}]\n";
        let dir = folder(&[("agent.yaml", &agent), ("stay.sh", stay), ("model.yaml", script)]);
        let mut run =
            command::unfazed(dir.path(), &["run", "agent.yaml"]).stderr(Stdio::piped()).spawn().unwrap();
        let read = |name: &str| fs::read_to_string(dir.path().join(name)).unwrap_or_default();
        wait_for("the tool starts", || read("pid").ends_with('\n'));
        let signal = |name: &str| {
            let sent = Command::new("kill").args([&format!("-{name}"), &run.id().to_string()]).status();
            assert!(sent.unwrap().success());
        };
        signal(first);
        wait_for("the first signal is taken", || {
            let files = fs::read_dir(dir.path().join(".unfazed/sessions")).unwrap();
            let mut logs = files.map(|file| file.unwrap().path());
            let log = logs.find(|path| path.extension().is_some_and(|is| is == "jsonl")).unwrap();
            fs::read_to_string(log).unwrap().contains("stop_requested")
        });
        let asked = Instant::now();
        signal(second);
        assert_eq!(run.wait().unwrap().code(), Some(130));
        assert!(
            asked.elapsed() < Duration::from_millis(1900),
            "the grace was not cut: {:?}",
            asked.elapsed()
        );
        for name in ["pid", "child"] {
            let pid = read(name).trim().to_owned();
            wait_for("it is killed", || !alive(&pid));
        }
    }
}

#[test]
fn an_agent_speaks_to_a_model_in_anthropics_format() {
    use unfazed::host::scripted::{Script, ScriptedServer};
    let script = "version: 1\nreplies:
  - {calls: [{name: calc, arguments: {expression: 6 * 7}}], extra: {reasoning_content: Multiply.}}
  - {match: {last_tool: calc, contains: '42'}, text: It is 42., usage: {input: 50, output: 5, cache_read: 30}}
";
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let script = Script::from_yaml("model.yaml", script.as_bytes()).unwrap();
    let server = runtime.block_on(ScriptedServer::start(script, 0)).unwrap();
    let agent = format!(
        "version: 1\ntask: what is it\ntools: {{calc: {{kind: builtin}}}}\nmodels:
  m: {{api: anthropic, base_url: '{}', model: x, api_key: {{file: key.txt}}, max_tokens: 500}}
",
        server.base_url()
    );
    let dir = folder(&[("agent.yaml", &agent), ("key.txt", "sk-ant-1\n")]);
    let run = unfazed(&dir, &["run", "agent.yaml"]);
    assert_eq!(code(&run), 0, "{}", err(&run));
    says(&out(&run), &["It is 42."]);
    says(&err(&run), &["tokens   50 in (30 cached), 5 out"]);
    let seen = server.requests();
    assert_eq!(seen[1].body["max_tokens"], 500);
    assert_eq!(seen[1].body["messages"][1]["content"][0]["thinking"], "Multiply.");
    assert!(seen[0].key.is_some());
}

#[test]
fn secrets_reach_neither_output_nor_session() {
    let agent = "version: 1
task: t
models:
  m: {api: scripted, script: model.yaml}
  n: {api: openai, base_url: 'http://127.0.0.1:1', model: x, api_key: {env: PROVIDER_KEY}}
tools:
  leak:
    kind: process
    command: [sh, -c, 'cat key.txt; echo $SHOP_TOKEN']
    description: d
    parameters: {type: object}
    pass_env: [SHOP_TOKEN]
  fail:
    kind: process
    command: [sh, -c, 'echo $SHOP_TOKEN >&2; exit 1']
    description: d
    parameters: {type: object}
    pass_env: [SHOP_TOKEN]
";
    let script = "version: 1\nreplies:
  - text: sk-planted-1 it is
    calls:
      - {name: leak, arguments: {a: shop-planted-2}}
      - {name: fail, arguments: {}}
  - text: the key is sk-planted-1 and shop-planted-2
";
    let files = [("agent.yaml", agent), ("model.yaml", script), ("key.txt", "sk-planted-1\n")];
    for format in ["human", "json"] {
        let dir = folder(&files);
        let args = ["run", "agent.yaml", "--format", format, "--log", "trace"];
        let mut run = command::unfazed(dir.path(), &args);
        let run =
            run.env("PROVIDER_KEY", "sk-planted-1").env("SHOP_TOKEN", "shop-planted-2").output().unwrap();
        assert_eq!(code(&run), 0, "{}", err(&run));
        let files = fs::read_dir(dir.path().join(".unfazed/sessions")).unwrap();
        let session: String = files.map(|file| fs::read_to_string(file.unwrap().path()).unwrap()).collect();
        for (what, text) in [("stdout", out(&run)), ("stderr", err(&run)), ("session", session)] {
            assert!(!text.contains("planted"), "{what}:\n{text}");
        }
        says(&out(&run), &["the key is [redacted] and [redacted]"]);
    }
}

#[test]
fn variables_of_settings_are_text() {
    let dir = folder(&[("agent.yaml", AGENT), ("model.yaml", SCRIPT), ("a.yaml", "version: 1\n")]);
    let run = command::unfazed(dir.path(), &["run", "agent.yaml"])
        .envs([("UNFAZED_SESSIONS", "123"), ("UNFAZED_LOG", "5"), ("UNFAZED_WHATEVER", "x")])
        .output()
        .unwrap();
    assert_eq!(code(&run), 0, "{}", err(&run));
    assert!(dir.path().join("123").is_dir());
    fs::write(dir.path().join("b.yaml"), "version: 1\nretry: {max_attempts: 9}\n").unwrap();
    for policy in ["b.yaml", "a.yaml:b.yaml"] {
        let explain =
            command::unfazed(dir.path(), &["explain", "t"]).env("UNFAZED_POLICY", policy).output().unwrap();
        says(&out(&explain), &["b.yaml:2:"]);
    }
    let bad =
        command::unfazed(dir.path(), &["explain", "t"]).env("UNFAZED_LOG_JSON", "maybe").output().unwrap();
    assert_eq!(code(&bad), 2);
    says(&err(&bad), &["error: UNFAZED_LOG_JSON is `maybe`; set it to `true` or `false`"]);
}

#[test]
fn a_profile_is_chosen_by_the_file_the_variable_and_the_flag() {
    let profiles = "{in_file: {retry: {max_attempts: 7}}, in_variable: {retry: {max_attempts: 8}}, by_flag: {retry: {max_attempts: 9}}}";
    let policy = format!("version: 1\nprofiles: {profiles}\n");
    let dir = folder(&[("p.yaml", &policy), ("unfazed.toml", "profile = \"in_file\"\n")]);
    let explain = |variable: &str, flag: &[&str]| {
        let args = [&["explain", "t", "p.yaml"], flag].concat();
        let explain = command::unfazed(dir.path(), &args).env("UNFAZED_PROFILE", variable).output().unwrap();
        format!("{}{}", out(&explain), err(&explain))
    };
    says(&explain("", &[]), &["retry.max_attempts = 7"]);
    says(&explain("in_variable", &[]), &["retry.max_attempts = 8"]);
    says(&explain("in_variable", &["--profile", "by_flag"]), &["retry.max_attempts = 9"]);
    says(&explain("nowhere", &[]), &["there is no profile `nowhere`", "in_file"]);
}

#[test]
fn a_mistake_in_the_settings_names_file_and_key() {
    for (text, wanted) in [
        ("colour = \"auto\"\n", "unknown key `colour`; there are `color`"),
        ("color = \"blue\"\n", "`color` is `blue`; write one of `auto`"),
        ("log_json = 3\n", "`log_json` must be a boolean"),
    ] {
        let dir = folder(&[("unfazed.toml", text)]);
        let output = unfazed(&dir, &["explain", "t"]);
        assert_eq!(code(&output), 2);
        says(&err(&output), &["unfazed.toml: ", wanted]);
    }
}

#[test]
fn every_log_line_of_a_run_carries_its_id() {
    let dir = folder(&[("agent.yaml", AGENT), ("model.yaml", SCRIPT)]);
    let args = ["run", "agent.yaml", "--format", "json", "--log", "debug", "--log-json"];
    let run = unfazed(&dir, &args);
    let lines = err(&run);
    assert!(lines.lines().count() >= 3, "{lines}");
    for line in lines.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        assert!(line["span"]["correlation_id"].is_string(), "{line}");
    }
    let plain = unfazed(&dir, &["run", "agent.yaml", "--format", "json", "--log", "debug"]);
    assert!(!err(&plain).contains('\u{1b}'));
}

#[test]
fn a_wait_that_nobody_can_read_is_told_and_ignored() {
    let script = "version: 1
model: m
replies:
  - error: {status: 429, message: slow down, headers: {retry-after: soon}}
  - text: done
";
    let policy =
        "version: 1\nmodels: {\"*\": {retry: {backoff: {kind: constant, delay: 10ms, jitter: none}}}}\n";
    let agent = format!("{AGENT}policy: policy.yaml\n");
    let dir = folder(&[("agent.yaml", &agent), ("model.yaml", script), ("policy.yaml", policy)]);
    let run = unfazed(&dir, &["run", "agent.yaml"]);
    assert_eq!(code(&run), 0, "{}", err(&run));
    let told = "ignored retry-after: `soon` is not a number of seconds or an HTTP date";
    says(&format!("{}{}", out(&run), err(&run)), &["failed: 429 slow down", told]);
}

#[test]
fn an_answer_as_it_came_is_read_and_told() {
    let body = r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 209303 tokens > 200000 maximum"}}"#;
    let event = r#"{"error":{"code":429,"message":"slow down","metadata":{"headers":{"Retry-After":"7"}}}}"#;
    let policy = "version: 1\n";
    let dir = folder(&[("p.yaml", policy), ("body.json", body), ("event.json", event), ("fine.json", "{}")]);
    let ask = |more: &[&str]| unfazed(&dir, &[&["explain", "--model", "m", "p.yaml"][..], more].concat());
    let told = ask(&["--status", "400", "--body", "body.json", "--header", "retry-after: soon"]);
    says(
        &out(&told),
        &[
            "the answer says\n  status   400\n  type     invalid_request_error\n",
            "  window   200000 tokens\n  request  209303 tokens\n",
            "  wait     ignored retry-after: `soon` is not",
            "context_overflow of model `m`\n  told by the row message: [prompt is too long",
        ],
    );
    says(&out(&ask(&["--body", "event.json"])), &["  wait     7s\n", "rate_limit of model `m`"]);
    let json: Value =
        serde_json::from_str(&out(&ask(&["--body", "event.json", "--format", "json"]))).unwrap();
    assert_eq!((&json["failure"]["status"], &json["class"]), (&429.into(), &"rate_limit".into()));
    let fine = ask(&["--body", "fine.json"]);
    assert_eq!(code(&fine), 2);
    says(&err(&fine), &["fine.json does not say that it is an error: give the --status it came with"]);
    let wrong = ask(&["--status", "abc"]);
    says(&err(&wrong), &["write an HTTP status, from 100 to 599"]);
    let wrong = ask(&["--body", "fine.json", "--header", "retry-after 5"]);
    says(&err(&wrong), &["write it as it came, such as `retry-after: 5`"]);
}

#[test]
fn an_error_row_that_looks_for_nothing_is_refused() {
    let rows = "version: 1\nerrors:\n  - {message: \"\", class: timeout}\n  - {code: [], class: timeout}\n";
    let dir = folder(&[("p.yaml", rows)]);
    let checked = unfazed(&dir, &["check", "p.yaml"]);
    assert_eq!(code(&checked), 1);
    says(&out(&checked), &["p.yaml:3:15", "p.yaml:4:12", "must not be empty"]);
}

#[test]
fn a_file_where_a_name_is_due_is_named() {
    let dir = folder(&[("policy.yaml", "version: 1\n")]);
    let output = unfazed(&dir, &["explain", "policy.yaml"]);
    assert_eq!(code(&output), 2);
    says(&err(&output), &["`policy.yaml` is a file, not a name", "unfazed explain TOOL policy.yaml"]);
}

#[test]
fn an_agent_file_stands_for_its_policies() {
    let agent = format!("{AGENT}policy: policy.yaml\ntools:\n  echo: {{kind: builtin}}\n");
    let policy = "version: 1\ntools: {echo: {retry: {max_attempts: 9}}}\n";
    let dir = folder(&[("agent.yaml", &agent), ("policy.yaml", policy), ("model.yaml", SCRIPT)]);
    let known = unfazed(&dir, &["explain", "echo", "agent.yaml"]);
    says(&out(&known), &["policy.yaml:2:"]);
    assert_eq!(err(&known), "");
    let unknown = unfazed(&dir, &["explain", "ecko", "agent.yaml"]);
    says(&err(&unknown), &["note: the agent has no tool `ecko` (it has: echo)"]);
}

#[test]
fn the_end_tells_of_every_model_that_failed() {
    let agent = "version: 1
task: t
models:
  one: {api: scripted, script: a.yaml}
  two: {api: scripted, script: b.yaml}
";
    let script = |message: &str| {
        format!(
            "version: 1\nrepeat_last: true\nreplies:\n  - error: {{status: 401, code: invalid_api_key, message: {message}}}\n"
        )
    };
    let dir = folder(&[("agent.yaml", agent), ("a.yaml", &script("first")), ("b.yaml", &script("second"))]);
    let run = unfazed(&dir, &["run", "agent.yaml"]);
    assert_eq!(code(&run), 10);
    let said = err(&run);
    says(
        &said,
        &[
            "fallback to model two",
            "  model one, attempt 1: auth_error: first",
            "  model two, attempt 1: auth_error: second",
        ],
    );
    assert!(!said.contains("\n\n\n"), "{said}");
}

/// An agent with a tool that wants human approval, and that is called twice.
fn asking() -> TempDir {
    let agent = format!("{AGENT}policy: policy.yaml\ntools:\n  echo: {{kind: builtin}}\n");
    let policy = "version: 1\ntools: {echo: {approval: always}}\n";
    let script = "version: 1\nreplies:
  - calls: [{name: echo, arguments: {text: one}}, {name: echo, arguments: {text: two}}]
  - text: done
";
    folder(&[("agent.yaml", &agent), ("policy.yaml", policy), ("model.yaml", script)])
}

/// A run of it, with this on standard input.
fn approved(args: &[&str], input: &str) -> Output {
    let dir = asking();
    let mut command =
        command::unfazed(dir.path(), &[&["run", "agent.yaml", "--format", "json"], args].concat());
    let mut run =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // A run that asks nobody does not read it.
    let _ = run.stdin.take().unwrap().write_all(input.as_bytes());
    run.wait_with_output().unwrap()
}

#[test]
fn away_from_a_terminal_nobody_agrees_unless_it_is_said() {
    let run = approved(&[], "y\ny\n");
    assert_eq!(code(&run), 0, "{}", err(&run));
    says(&out(&run), &[r#""answer":"none""#, "permission_denied", "nobody agreed to it"]);
    let run = approved(&["--approve", "yes"], "");
    says(&out(&run), &[r#""answer":"approve""#, r#""data":"one""#, r#""data":"two""#]);
    let run = approved(&["--approve", "no"], "");
    says(&out(&run), &[r#""answer":"refuse""#, "the user did not agree to it"]);
}

#[test]
fn standard_input_answers_if_that_is_said() {
    let run = approved(&["--approve", "ask"], "perhaps\ny\nn\n");
    assert_eq!(code(&run), 0, "{}", err(&run));
    says(&out(&run), &[r#""data":"one""#, "the user did not agree to it"]);
    says(&err(&run), &["echo {\n  \"text\": \"one\"\n}\nRun it? y (yes), n (no)", "`perhaps` is no answer"]);
    let run = approved(&["--approve", "ask"], "a\n");
    says(&out(&run), &[r#""answer":"approve_all""#, r#""data":"one""#, r#""data":"two""#]);
}

/// What a terminal shows until a text stands there.
#[cfg(target_os = "linux")]
fn shown(terminal: &mut impl std::io::Read, text: &str) -> String {
    let mut seen = Vec::new();
    while !String::from_utf8_lossy(&seen).contains(text) {
        let mut some = [0; 1024];
        let count = terminal.read(&mut some).unwrap();
        assert_ne!(count, 0, "{text}: {}", String::from_utf8_lossy(&seen));
        seen.extend_from_slice(&some[..count]);
    }
    String::from_utf8_lossy(&seen).into_owned()
}

#[cfg(target_os = "linux")]
#[test]
fn on_a_terminal_the_person_who_sits_there_is_asked() {
    let dir = asking();
    let run = concat!(env!("CARGO_BIN_EXE_unfazed"), " run agent.yaml");
    let args = ["--quiet", "--return", "--command", run, "/dev/null"];
    let mut run = command::program("script", dir.path(), &args);
    let mut run = run.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut keys, mut terminal) = (run.stdin.take().unwrap(), run.stdout.take().unwrap());
    let first = shown(&mut terminal, "a (yes to all further calls of it)");
    assert!(first.contains("\"text\": \"one\""), "{first}");
    keys.write_all(b"y\n").unwrap();
    let second = shown(&mut terminal, "a (yes to all further calls of it)");
    assert!(second.contains("\"text\": \"two\""), "{second}");
    keys.write_all(b"n\n").unwrap();
    shown(&mut terminal, "done");
    assert!(run.wait().unwrap().success());
}

#[test]
fn another_kind_of_file_is_called_what_it_is() {
    let files = [("p.yaml", "version: 1\nretry: {max_attempts: 2}\n"), ("model.yaml", SCRIPT)];
    let dir = folder(&files);
    for (command, takes) in [
        ("run", "`unfazed run` takes an agent file"),
        ("tools", "`unfazed tools` takes an agent file"),
        ("context", "`unfazed context` takes a session, an agent file, or the JSON body of a request"),
    ] {
        for (file, what) in [("p.yaml", "a policy"), ("model.yaml", "a script of a model")] {
            let output = unfazed(&dir, &[command, file]);
            assert_eq!(code(&output), 2);
            says(&err(&output), &[&format!("error: {file} is {what}; {takes}")]);
        }
    }
}

#[test]
fn a_file_that_is_not_there_is_told_as_that() {
    let dir = folder(&[]);
    let missing = unfazed(&dir, &["context", "nofile.yaml"]);
    says(
        &err(&missing),
        &["there is no file `nofile.yaml`, and no session `nofile.yaml` in .unfazed/sessions"],
    );
    let missing = unfazed(&dir, &["explain", "t", "--config", "nofile.toml"]);
    assert_eq!(code(&missing), 2);
    says(&err(&missing), &["cannot read the settings file nofile.toml: there is no such file"]);
    let folder = unfazed(&dir, &["explain", "t", "--config", "."]);
    says(&err(&folder), &["cannot read the settings file .: it is a folder"]);
}

#[test]
fn who_cannot_keep_a_session_here_is_told_where_else() {
    let dir = folder(&[("agent.yaml", AGENT), ("model.yaml", SCRIPT), (".unfazed", "in the way")]);
    let run = unfazed(&dir, &["run", "agent.yaml"]);
    assert_eq!(code(&run), 1);
    let other = "; keep sessions in another folder: name it in UNFAZED_SESSIONS, in `sessions` of the settings file, \
                 or in `session.dir` of the agent file";
    says(&err(&run), &["error: cannot make the folder `.unfazed/sessions`: ", other]);
}
