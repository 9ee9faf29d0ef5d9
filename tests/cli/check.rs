//! `unfazed check` and `unfazed rule` as people and machines see them.

use std::fs;
use std::process::Output;

use insta::assert_snapshot;
use serde_json::Value;
use tempfile::TempDir;

use crate::command;

/// Fifteen mistakes, each of another kind.
const MISTAKES: &str = include_str!("../../src/policy/load/mistakes.yaml");
/// One mistake with a repair, one with a second place.
const BROKEN: &str =
    "version: 1\nretry: {max_atempts: 3}\ntools:\n  t: {on_exhausted: fail}\n  t: {on_exhausted: fail}\n";
/// A value that is repeated, and one that is repeated for a reason.
const REPEATED: &str = "version: 1\nretry: {max_attempts: 2, deadline: 1m}\ntools:\n  pay-later:\n    retry:\n      max_attempts: 2\n      deadline: 1m  # unfazed: ignore[W0205] the contract says so\n";
const TOOLS: &str = r#"{"version": 1, "tools": {"pay": {"effect": "non_idempotent", "inner_retries": 3}, "search": {}}, "models": {"main": {}}}"#;

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

fn code(output: &Output) -> i32 {
    output.status.code().unwrap()
}

/// What is printed of a broken file and one with a lint, and the exit code.
fn formatted(format: &str) -> (String, i32) {
    let dir = folder(&[("broken.yaml", BROKEN), ("my repeated.yaml", REPEATED)]);
    let check = unfazed(&dir, &["check", ".", "--format", format]);
    (out(&check), code(&check))
}

/// An agent that asks its tool `outbox` whether a mail went out.
fn mailer(outbox: &str, rest: &str) -> TempDir {
    let agent = format!(
        "version: 1\nname: mailer\npolicy: policy.yaml\nmodels: {{main: {{api: scripted, script: model.yaml}}}}\n\
         tools:\n  send: {{kind: process, command: [cat], description: Mail., parameters: {{}}, effect: non_idempotent}}\n{outbox}{rest}"
    );
    let policy = "version: 1\ntools:\n  send:\n    effect: non_idempotent\n    \
                  on_uncertain_effect: {kind: verify, tool: outbox, arguments: {to: args.to}, acted: result.count > 0}\n";
    let script = "version: 1\nreplies: [{text: Sent.}]\n";
    folder(&[("agent.yaml", &agent), ("policy.yaml", policy), ("model.yaml", script)])
}

#[test]
fn an_agent_without_the_tool_that_is_to_say_whether_another_has_acted_is_told_so() {
    let there = "  outbox: {kind: process, command: [cat], description: Sent mail., parameters: {}, effect: read_only}\n";
    let acts = "  outbox: {kind: process, command: [cat], description: Sent mail., parameters: {}, effect: idempotent}\n";
    let found = |dir: &TempDir| out(&unfazed(dir, &["check", "agent.yaml", "--format", "short"]));
    assert_eq!(found(&mailer(there, "")), "");
    assert!(
        found(&mailer("", ""))
            .contains("[W0239]: the effect of tool `send` cannot be verified: there is no tool `outbox`")
    );
    let near = found(&mailer(&there.replace("outbox:", "outboxes:"), ""));
    assert!(near.contains("there is no tool `outbox` (did you mean `outboxes`?)"), "{near}");
    assert!(found(&mailer(acts, "")).contains("`outbox` is not known to be `read_only`"));
    // Servers may bring it.
    assert_eq!(found(&mailer("", "mcp: {mail: {command: [mail-server]}}\n")), "");
}

/// An agent with one tool, `refund`, and one model, `m`.
fn refunder(name: &str, policies: &str, rest: &str) -> String {
    format!(
        "version: 1\nname: {name}\npolicy: {policies}\nmodels: {{m: {{api: scripted, script: model.yaml}}}}\n\
         tools: {{refund: {{kind: process, command: [cat], description: Pays back., parameters: {{}}}}}}\n{rest}"
    )
}

#[test]
fn names_of_an_agent_are_held_against_its_policy_unasked() {
    let script = ("model.yaml", "version: 1\nreplies: [{text: Done.}]\n");
    let own = "version: 1\ntools: {refnd: {effect: read_only}, 'get_*': {effect: read_only}}\nmodels: {gpt-4o: {retry: {max_attempts: 2}}}\n";
    let found = |files: &[(&str, &str)], paths: &[&str]| {
        let dir = folder(&[&[script], files].concat());
        let check = unfazed(&dir, &[&["check", "--format", "short"], paths].concat());
        (out(&check), code(&check))
    };
    let agent = refunder("a", "policy.yaml", "");
    let (said, code) = found(&[("agent.yaml", &agent), ("policy.yaml", own)], &["agent.yaml"]);
    assert_eq!(code, 1);
    assert_snapshot!(said, @r"
    policy.yaml:2:9: error[P0207]: the agent has no tool `refnd` (did you mean `refund`?)
    policy.yaml:2:37: warning[W0204]: `get_*` matches no tool of the agent; help: remove it, or register what it is meant for
    policy.yaml:3:10: error[P0207]: the agent has no model `gpt-4o`; help: its model is `m`; help: if another agent has it, put the rules into a file that both extend
    ");
    // Servers may bring it: none of it is certain.
    let asked = refunder("a", "policy.yaml", "mcp: {more: {command: [server]}}\n");
    let (said, code) = found(&[("agent.yaml", &asked), ("policy.yaml", own)], &["agent.yaml"]);
    assert!(code == 0 && said.contains("warning[W0204]: the agent has no tool `refnd`"), "{said}");
    // What begins as the names of its tools do is its own, but for a slip of a tool there is.
    let own_and_far = "version: 1\ntools: {more__pay: {effect: read_only}, 'more__*': {priority: 1}, 'mo*e': {priority: 2}, '*_pay': {priority: 3}, mor__pay: {effect: read_only}, 'les*': {priority: 4}}\n";
    let (said, code) = found(&[("agent.yaml", &asked), ("policy.yaml", own_and_far)], &["agent.yaml"]);
    assert_eq!((said.lines().count(), code), (2, 0), "{said}");
    assert!(said.contains("no tool `mor__pay`") && said.contains("`les*` matches no tool"), "{said}");
    let bare = refunder("a", "policy.yaml", "mcp: {more: {command: [server], prefix: ''}}\n");
    let slip = "version: 1\ntools: {refnd: {effect: read_only}, zap: {effect: read_only}}\n";
    let (said, _) = found(&[("agent.yaml", &bare), ("policy.yaml", slip)], &["agent.yaml"]);
    assert!(said.contains("no tool `refnd`") && !said.contains("zap"), "{said}");
    // Beside mistakes, slips of the names there are show all the same; the policy may offer others.
    let mistaken = "version: 1\ntools: {'a|b': {}, refnd: {}, final_report: {}}\n";
    let (said, code) = found(&[("agent.yaml", &agent), ("policy.yaml", mistaken)], &["agent.yaml"]);
    assert_eq!((said.lines().count(), code), (2, 1), "{said}");
    assert!(
        said.contains("warning[W0204]: the agent has no tool `refnd` (did you mean `refund`?)"),
        "{said}"
    );
    // A file below, or one that others extend, may speak of what others have.
    let layers = refunder("a", "[policy.yaml, top.yaml]", "");
    let top = ("top.yaml", "version: 1\nextends: policy.yaml\n");
    for files in [
        [("agent.yaml", &*layers), ("policy.yaml", own), top],
        [("agent.yaml", &*agent), ("policy.yaml", own), top],
    ] {
        let (said, code) = found(&files, &["."]);
        assert!(code == 0 && said.contains("warning[W0204]: the agent has no tool `refnd`"), "{said}");
    }
    // What another agent has that names the same file is known.
    let other = refunder("b", "policy.yaml", "").replace("refund:", "refnd:");
    let (said, _) = found(&[("agent.yaml", &agent), ("b.yaml", &other), ("policy.yaml", own)], &["."]);
    assert!(!said.contains("refnd") && said.contains("gpt-4o"), "{said}");
    // Rules for what is to come say so.
    let meant =
        "version: 1\ntools:\n  # unfazed: ignore[W0204] it comes next week\n  refnd: {effect: read_only}\n";
    let (said, code) = found(&[("agent.yaml", &agent), ("policy.yaml", meant)], &["agent.yaml"]);
    assert_eq!((said.as_str(), code), ("", 0));
    // Names that nothing can have are refused whatever is known.
    let never = "version: 1\ntools: {'a|b': {effect: read_only}, 'get_[ab]': {effect: read_only}, 'x?': {effect: read_only}}\n";
    let (said, code) = found(&[("policy.yaml", never)], &["policy.yaml"]);
    assert!(code == 1 && said.matches("error[P0110]").count() == 3, "{said}");
}

#[test]
fn a_run_refuses_the_names_that_check_refuses_before_it_starts_anything() {
    let script = ("model.yaml", "version: 1\nreplies: [{text: Done.}]\n");
    let agent = refunder("a", "policy.yaml", "task: t\n");
    let run = |policy: &str| {
        let dir = folder(&[script, ("agent.yaml", &agent), ("policy.yaml", policy)]);
        let output = unfazed(&dir, &["run", "agent.yaml"]);
        let begun = dir.path().join(".unfazed/sessions").exists();
        (String::from_utf8_lossy(&output.stderr).into_owned(), code(&output), begun)
    };
    let (said, code, begun) = run("version: 1\ntools: {refnd: {effect: read_only}}\n");
    assert!(code == 1 && !begun && said.contains("error[P0207]"), "{code} {begun} {said}");
    // A pattern may be meant for what is to come.
    let (said, code, _) = run("version: 1\ntools: {'get_*': {effect: read_only}}\n");
    assert!(code == 0 && said.contains("warning[W0204]"), "{code} {said}");
}

#[test]
fn a_test_tells_of_names_that_nothing_has_and_goes_on() {
    let policy = "version: 1\ntools: {serch: {effect: read_only}}\n";
    let cases = "version: 1\npolicy: policy.yaml\ntools: {search: {}}\ncases:\n  - {name: c, tool: search, outcomes: [ok], expect: {final: ok}}\n";
    let dir = folder(&[("policy.yaml", policy), ("c.test.yaml", cases)]);
    for args in [&["test", "c.test.yaml"][..], &["check", "c.test.yaml", "--format", "short"]] {
        let output = unfazed(&dir, args);
        let said = format!("{}{}", out(&output), String::from_utf8_lossy(&output.stderr));
        let wanted =
            "policy.yaml:2:9: warning[W0204]: the test file has no tool `serch` (did you mean `search`?)";
        assert!(said.contains(wanted) && code(&output) == 0, "{said}");
    }
}

#[test]
fn what_unfazed_tools_prints_is_what_the_host_has() {
    let policy = "version: 1\ntools: {refnd: {effect: read_only}}\n";
    let script = "version: 1\nreplies: [{text: Done.}]\n";
    let agent = refunder("a", "policy.yaml", "");
    let dir = folder(&[("policy.yaml", policy), ("agent.yaml", &agent), ("model.yaml", script)]);
    let tools = unfazed(&dir, &["tools", "agent.yaml", "--format", "json"]);
    fs::write(dir.path().join("tools.json"), &tools.stdout).unwrap();
    let check = unfazed(&dir, &["check", "policy.yaml", "--tools", "tools.json", "--format", "short"]);
    assert_eq!(
        (out(&check).lines().next().unwrap(), code(&check)),
        ("policy.yaml:2:9: error[P0207]: the agent has no tool `refnd` (did you mean `refund`?)", 1)
    );
}

#[test]
fn a_long_list_is_given_once_and_fits_the_terminal() {
    let text = "version: 1\nretry: {retry_on: [sunshine, rain]}\n";
    let dir = folder(&[("a.yaml", text), ("b.yaml", text)]);
    for format in ["human", "short"] {
        let check =
            command::unfazed(dir.path(), &["check", ".", "--format", format]).env("COLUMNS", "72").output();
        let said = out(&check.unwrap());
        assert_eq!(
            (said.matches("`reasoning_only`").count(), said.matches("error[P0104]").count()),
            (1, 4),
            "{said}"
        );
        assert!(format == "short" || said.lines().all(|line| line.chars().count() <= 72), "{said}");
        assert!(format == "short" || said.contains("4 errors in 2 files\n"), "{said}");
    }
}

#[test]
fn secrets_in_addresses_and_instructions_of_an_agent_are_refused() {
    for (key, line) in [
        ("q777abc", "models: {m: {api: openai, base_url: 'https://h/v1?api_key=q777abc', model: x}}\n"),
        ("p4ssword", "models: {m: {api: openai, base_url: 'https://me:p4ssword@h/v1', model: x}}\n"),
        (
            "sk-proj-abcdefgh12345678",
            "system: Use sk-proj-abcdefgh12345678.\nmodels: {m: {api: scripted, script: model.yaml}}\n",
        ),
        (
            "q777abc",
            "models: {m: {api: scripted, script: model.yaml}}\nmcp: {s: {url: 'https://h/mcp?token=q777abc'}}\n",
        ),
    ] {
        let agent = format!("version: 1\n{line}");
        let script = "version: 1\nreplies: [{text: Done.}]\n";
        let dir = folder(&[("agent.yaml", &agent), ("model.yaml", script)]);
        let check = unfazed(&dir, &["check", "agent.yaml"]);
        assert!(code(&check) == 1 && out(&check).contains("P0012"), "{}", out(&check));
        assert!(!out(&check).contains(key), "{}", out(&check));
    }
}

#[test]
fn fifteen_mistakes_are_told_at_once() {
    let dir = folder(&[("team.yaml", MISTAKES)]);
    let check = unfazed(&dir, &["check", "team.yaml"]);
    assert_eq!(code(&check), 1);
    assert_snapshot!(out(&check));
    let short = unfazed(&dir, &["check", "team.yaml", "--format", "short"]);
    let said = out(&short);
    let mut lines: Vec<&str> = said.lines().filter_map(|line| line.split(": ").next()).collect();
    lines.dedup();
    assert!(lines.len() >= 15, "{said}");
}

#[test]
fn a_key_that_is_not_known_and_a_delay_below_zero_have_their_places() {
    let text =
        "version: 1\nretry:\n  max_atempts: 3\n  backoff: {kind: constant, delay: -5s, jitter: none}\n";
    let dir = folder(&[("team.yaml", text)]);
    let check = unfazed(&dir, &["check", "team.yaml", "--format", "short"]);
    assert_eq!(code(&check), 1);
    let said = out(&check);
    let lines: Vec<&str> = said.lines().collect();
    assert!(lines[0].starts_with("team.yaml:3:3: ") && lines[0].contains("`max_atempts`"), "{said}");
    assert!(lines[1].starts_with("team.yaml:4:36: ") && lines[1].contains("`-5s` is negative"), "{said}");
}

/// Mistakes, and what is said to do about each.
const REPAIRS: [(&str, &str); 17] = [
    ("retry: {max_turns: 3}", "`max_turns` belongs in `limits` or `turn`"),
    ("retry: {breaker: {failures: 3}}", "`breaker` belongs in `tools.NAME`"),
    ("tools: {look: {factor: 2}}", "`factor` belongs in `retry.backoff`"),
    ("errors: [{calls: 1, class: rate_limit}]", "`calls` belongs in"),
    ("retry: {backoff: {base: 1s, step: 2s}}", "{kind: linear, base: 1s, step: 2s}"),
    ("retry: {backoff: {base: 1s}}", "expected one of `constant`, `linear`"),
    ("tools: [{look: {effect: read_only}}]", "each entry is `name: value`"),
    (
        "tools: {look: {calls: {when: args.a > 1, approval: always}}}",
        "[{when: args.a > 1, approval: always}]",
    ),
    ("turn: {messages: {final_turn: {{ turn }}}}", "quote a text that begins with `{{`"),
    ("retry: {retry_on: [validation_error]}", "`invalid_args`, `invalid_output`"),
    ("retry: {retry_on: [json_error]}", "`malformed_tool_call`, `invalid_output`"),
    ("retry: {enabled: 1}", "write `true`"),
    ("tools: {look: {validate: [{name: a, check: args.a >, message: m}]}}", "takes on its right"),
    ("tools: {look: {validate: [{name: a, check: len(args.a) > 1, message: m}]}}", "write `size(x)`"),
    ("tools: {look: {validate: [{name: a, check: args.a is 1, message: m}]}}", "compare with `==`"),
    ("tools: {'^look': {effect: read_only}}", "`look*`"),
    ("extends: bse.yaml", "did you mean `base.yaml`?"),
];

#[test]
fn each_mistake_says_what_to_do() {
    for (text, says) in REPAIRS {
        let policy = format!("version: 1\n{text}\n");
        let dir = folder(&[("policy.yaml", &policy), ("base.yaml", "version: 1\n")]);
        let check = unfazed(&dir, &["check", "policy.yaml"]);
        assert!(out(&check).contains(says), "{text}: {}", out(&check));
        assert_eq!(code(&check), 1);
        // Nothing is said that comes of the mistake alone.
        assert!(!out(&check).contains("warning["), "{}", out(&check));
    }
    for text in ["null", "hello", "[]", "# nothing"] {
        let dir = folder(&[("policy.yaml", text)]);
        assert!(
            out(&unfazed(&dir, &["check", "policy.yaml"])).contains("begin it with `version: 1`"),
            "{text}"
        );
    }
}

#[test]
fn a_file_that_is_not_there_is_held_against_those_beside_it() {
    let agent = "version: 1\npolicy: polcy.yaml\nmodels: {main: {api: opnai}}\n";
    let dir = folder(&[("agent.yaml", agent), ("policy.yaml", "version: 1\n")]);
    let said = out(&unfazed(&dir, &["check", "agent.yaml"]));
    assert!(said.contains("did you mean `policy.yaml`?"), "{said}");
    let run = unfazed(&dir, &["run", "agnt.yaml"]);
    assert!(String::from_utf8_lossy(&run.stderr).contains("did you mean agent.yaml?"), "{run:?}");
}

#[test]
fn no_mark_makes_a_line_wider_than_the_terminal() {
    let long = "a".repeat(300);
    let dir = folder(&[(
        "policy.yaml",
        &format!("version: 1\nretry: {{max_attempts: {long}, enabled: [{long}]}}\n"),
    )]);
    for width in ["40", "80"] {
        let check =
            command::unfazed(dir.path(), &["check", "policy.yaml"]).env("COLUMNS", width).output().unwrap();
        let marks = out(&check).lines().filter(|line| line.contains('^')).map(str::len).max().unwrap();
        assert!(marks <= width.parse().unwrap(), "{}", out(&check));
    }
}

#[test]
fn people_see_the_lines() {
    let (text, code) = formatted("human");
    assert_eq!(code, 1);
    assert_snapshot!(text);
}

#[test]
fn a_line_for_each_problem() {
    let (text, code) = formatted("short");
    assert_eq!(code, 1);
    assert_snapshot!(text);
}

#[test]
fn json_has_a_version() {
    let (text, code) = formatted("json");
    assert_eq!(code, 1);
    let json: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(json["version"], 1);
    assert_snapshot!(format!("{json:#}"));
}

#[test]
fn sarif_has_places_repairs_and_pages_and_ends_with_zero() {
    let (text, code) = formatted("sarif");
    assert_eq!(code, 0);
    let mut json: Value = serde_json::from_str(&text).unwrap();
    for rule in json["runs"][0]["tool"]["driver"]["rules"].as_array_mut().unwrap() {
        for form in ["text", "markdown"] {
            let help = rule["help"][form].as_str().unwrap();
            assert!(help.contains("```yaml right"), "{help}");
            rule["help"][form] = "(the page)".into();
        }
    }
    json["runs"][0]["tool"]["driver"]["version"] = "(version)".into();
    assert_snapshot!(format!("{json:#}"));
}

#[test]
fn github_gets_annotations() {
    let (text, code) = formatted("github");
    assert_eq!(code, 1);
    assert_snapshot!(text);
}

#[test]
fn warnings_count_when_they_are_denied() {
    let dir = folder(&[("policy.yaml", REPEATED)]);
    assert_eq!(code(&unfazed(&dir, &["check", "policy.yaml"])), 0);
    assert_eq!(code(&unfazed(&dir, &["check", "policy.yaml", "--deny-warnings"])), 1);
}

#[test]
fn as_many_problems_are_printed_as_are_asked_for() {
    let dir = folder(&[("team.yaml", MISTAKES)]);
    let check = unfazed(&dir, &["check", "team.yaml", "--format", "short", "--max-errors", "2"]);
    let said = out(&check);
    assert_eq!(said.lines().count(), 3, "{said}");
    assert!(said.lines().last().unwrap().starts_with("and "), "{said}");
    assert_eq!(code(&check), 1);
}

#[test]
fn the_files_an_agent_names_are_counted_once_each() {
    let agent = "version: 1\npolicy: policy.yaml\nmodels:\n  a: {api: scripted, script: model.yaml}\n  b: {api: scripted, script: model.yaml}\n";
    let script = "version: 1\nreplies: [{text: done}]\n";
    let dir = folder(&[("agent.yaml", agent), ("policy.yaml", "version: 1\n"), ("model.yaml", script)]);
    for paths in [&["check", "agent.yaml"][..], &["check", "."]] {
        assert_eq!(out(&unfazed(&dir, paths)), "3 files checked, no problems\n");
    }
}

#[test]
fn known_tools_make_more_to_find() {
    let policy = "version: 1\ntools:\n  pya: {on_exhausted: fail}\n  pay: {retry: {max_attempts: 9}, breaker: {failures: never}}\nmodels: {\"*\": {retry: {max_attempts: 4}}}\n";
    let dir = folder(&[("policy.yaml", policy), ("tools.json", TOOLS)]);
    assert_eq!(out(&unfazed(&dir, &["check", "policy.yaml"])), "1 file checked, no problems\n");
    let check = unfazed(&dir, &["check", "policy.yaml", "--tools", "tools.json", "--format", "short"]);
    assert_eq!(code(&check), 0);
    assert_snapshot!(out(&check), @r"
    policy.yaml:3:3: warning[W0204]: the host has no tool `pya` (did you mean `pay`?)
    policy.yaml:4:31: warning[W0202]: tool `pay` may lead to 144 attempts, more than 128: 4 of model `main` x 9 of tool `pay` x 4 inside it, and to 10m6s waiting; help: lower `max_attempts`, set `limits.max_attempts`, or switch off the retries inside
    policy.yaml:4:31: warning[W0207]: a failed run of tool `pay` is not retried, whatever `retry` says: the tool is not idempotent; help: the host says so of the tool; help: only runs that certainly did not start are retried; set no retries, or declare `effect: idempotent` if running it twice does no harm
    ");
}

#[test]
fn a_mistake_in_the_tools_file_is_told_with_the_rest() {
    let tools = r#"{"version": 1, "tools": {"pay": {"efect": "idempotent"}}}"#;
    let dir = folder(&[("policy.yaml", REPEATED), ("tools.json", tools)]);
    let check = unfazed(&dir, &["check", "policy.yaml", "--tools", "tools.json", "--format", "short"]);
    assert_eq!(code(&check), 1);
    let said = out(&check);
    assert!(
        said.starts_with("tools.json:1:34: error[P0101]: unknown field `efect` (did you mean `effect`?)"),
        "{said}"
    );
    assert!(said.contains("policy.yaml:6:21: warning[W0205]"), "{said}");
    assert_eq!(code(&unfazed(&dir, &["check", "policy.yaml", "--tools", "gone.json"])), 2);
}

#[test]
fn a_policy_is_looked_at_with_the_agent_that_names_it() {
    let agent = "version: 1\ntask: t\npolicy: policy.yaml\nmodels:\n  m: {api: openai, base_url: 'http://127.0.0.1:1', model: x}\n";
    let dir = folder(&[("agent.yaml", agent), ("policy.yaml", REPEATED)]);
    for paths in [&["agent.yaml"][..], &["agent.yaml", "policy.yaml"]] {
        let check = unfazed(&dir, &[&["check", "--format", "short"], paths].concat());
        assert_eq!(out(&check).matches("W0205").count(), 1, "{}", out(&check));
    }
}

#[test]
fn the_policies_of_this_repository_are_clean() {
    for path in ["policies", "examples", "tests/cases"] {
        let path = format!("{}/{path}", env!("CARGO_MANIFEST_DIR"));
        let check = unfazed(&folder(&[]), &["check", "--deny-warnings", &path]);
        assert_eq!(code(&check), 0, "{}", out(&check));
    }
}

#[test]
fn a_rule_is_explained_and_a_slip_finds_the_one_that_is_meant() {
    let dir = folder(&[]);
    let rule = unfazed(&dir, &["rule", "w0209"]);
    assert_eq!(code(&rule), 0);
    assert_snapshot!(out(&rule));
    let none = unfazed(&dir, &["rule", "W0298"]);
    assert_eq!(code(&none), 2);
    let said = String::from_utf8_lossy(&none.stderr).into_owned();
    assert!(said.starts_with("error: there is no rule `W0298`; did you mean `W02"), "{said}");
}

#[test]
fn all_rules_are_listed() {
    assert_snapshot!(out(&unfazed(&folder(&[]), &["rule"])));
}

#[test]
fn a_key_that_was_written_into_a_file_is_never_shown() {
    let agent = "version: 1\nmodels:\n  main: {api: openai, base_url: \"https://host/v1\", model: m, api_key: sk-secret-0123456789}\n  other:\n    api: openai\n    base_url: https://host/v1\n    model: m\n    api_key: {key: sk-secret-0123456789}\n    apikey: sk-secret-0123456789\n  third: {api: openai, base_url: x, model: m, api_key: {env: sk-secret-0123456789}}\n";
    let broken = "version: 1\nmodels:\n  main: {api: openai, api_key: \"sk-secret-0123456789}\n";
    let number =
        "version: 1\nmodels:\n  main: {api: openai, base_url: \"http://h\", model: m, api_key: 0123456789}\n";
    let dir = folder(&[("agent.yaml", agent), ("broken.yaml", broken), ("number.yaml", number)]);
    for format in ["human", "short", "json", "sarif", "github"] {
        let check = unfazed(&dir, &["check", ".", "--format", format]);
        assert!(!out(&check).contains("0123456789"), "{}", out(&check));
        assert!(!String::from_utf8_lossy(&check.stderr).contains("0123456789"));
    }
    assert_snapshot!(out(&unfazed(&dir, &["check", "agent.yaml"])));
}

#[test]
fn what_an_agent_file_names_is_looked_at_though_the_file_has_mistakes() {
    let agent = "version: 1\npolicy: team.yaml\nsytem: hello\nmodels:\n  m: {api: scripted, script: model.yaml}\n  n: {api: opnai}\ntools: {c: {kind: builtin, name: calk}}\n";
    let script = "version: 1\nreplies:\n  - {txt: hello}\n  - {text: hello, error: {status: 500}}\n";
    let policy = "version: 1\nretry: {max_attempts: 5, deadlin: 1m}\ntools:\n  \"a*\": {retry: {max_attempts: 2}}\n  \"*b\": {retry: {max_attempts: 3}}\n  c: {retry: {max_attempts: 5}}\n";
    let dir = folder(&[("agent.yaml", agent), ("model.yaml", script), ("team.yaml", policy)]);
    assert_snapshot!(out(&unfazed(&dir, &["check", "agent.yaml", "--format", "short"])));
}

#[test]
fn a_call_for_explain_is_known() {
    let dir = folder(&[("call.yaml", "arguments: {item: 42}\nplaner: {retry: {max_attempts: 1}}\n")]);
    let check = unfazed(&dir, &["check", "call.yaml", "--format", "short"]);
    assert_snapshot!(out(&check), @"call.yaml:2:1: error[P0101]: unknown field `planer` (did you mean `planner`?)");
}

#[test]
fn secrets_are_hidden_wherever_they_are_written() {
    let agent = r#"version: 1
models:
  main: {api: openai, base_url: "https://user:hunter2PASS@h.example/v1?key=QUERYSECRET1", model: m, timeoutt: 3}
  n: {api: openai, base_url: https://x/?api_key=q7777, model: m, strem: 1}
  o: {api: openai, base_url: https://x, model: m, strem: 1} # old key sk-proj-comment8888
  p: {api: sk-proj-VALUE9999abcdef, base_url: https://x, model: m}
tools:
  t: {kind: process, command: [curl, -H, "Authorization: Bearer CMD8888"], description: d, parameters: {}, efect: x}
api_key: [sk-LIST1414, sk-LIST1515]
password: {value: nested1616}
"#;
    let dir = folder(&[("agent.yaml", agent)]);
    for format in ["human", "short", "json", "sarif", "github"] {
        let said = out(&unfazed(&dir, &["check", "agent.yaml", "--format", format]));
        assert!(said.contains("P0101"), "{said}");
        for secret in [
            "hunter2PASS",
            "QUERYSECRET1",
            "q7777",
            "comment8888",
            "VALUE9999",
            "CMD8888",
            "LIST1414",
            "LIST1515",
            "nested1616",
        ] {
            assert!(!said.contains(secret), "{format} shows {secret}: {said}");
        }
    }
}

#[test]
fn a_missing_policy_does_not_hide_the_mistakes_of_the_others() {
    let agent =
        "version: 1\npolicy: [p.yaml, gone.yaml]\nmodels:\n  m: {api: scripted, script: model.yaml}\n";
    let cases = "version: 1\npolicy: [p.yaml, gone.yaml]\ncases:\n  - {name: a, arguments: {}, expect: {directive: {kind: call_tool}}}\n";
    let files = [
        ("agent.yaml", agent),
        ("a.test.yaml", cases),
        ("p.yaml", "version: 1\nretry: {max_attempts: 0}\n"),
        ("model.yaml", "version: 1\nreplies: [{text: hi}]\n"),
    ];
    let dir = folder(&files);
    for name in ["agent.yaml", "a.test.yaml"] {
        let said = out(&unfazed(&dir, &["check", name, "--format", "short"]));
        assert!(said.contains("p.yaml:2:23: error[P0105]"), "{said}");
        assert!(said.contains("gone.yaml"), "{said}");
    }
}

#[test]
fn every_problem_of_the_parameters_of_a_tool_has_its_place() {
    let parameters = "{type: objekt, required: x, properties: {a: {type: strng}}}";
    let agent = format!(
        "version: 1\nmodels:\n  m: {{api: scripted, script: model.yaml}}\ntools:\n  t: {{kind: process, command: [x], description: d, parameters: {parameters}}}\n"
    );
    let tools = format!("version: 1\ntools:\n  t: {{parameters: {parameters}}}\n");
    let policy = format!("version: 1\noutput:\n  schema: {parameters}\n");
    let files = [
        ("agent.yaml", agent.as_str()),
        ("tools.yaml", tools.as_str()),
        ("p.yaml", policy.as_str()),
        ("model.yaml", "version: 1\nreplies: [{text: hi}]\n"),
    ];
    let dir = folder(&files);
    let args = ["check", "agent.yaml", "p.yaml", "--tools", "tools.yaml", "--format", "short"];
    assert_snapshot!(out(&unfazed(&dir, &args)));
}

#[test]
fn a_file_cannot_forge_lines_of_the_report() {
    let text = "version: 1\n\"a\\u001b[31mX\\nother.yaml:1:1: error[P0001]: fake\\u0007\": 1\n";
    let dir = folder(&[("p.yaml", text)]);
    for format in ["short", "github"] {
        let said = out(&unfazed(&dir, &["check", "p.yaml", "--format", format]));
        assert_eq!(said.lines().count(), 1, "{said}");
        assert!(!said.contains(['\u{1b}', '\u{7}']), "{said}");
        assert!(said.contains("\\u001b[31mX\\nother.yaml"), "{said}");
    }
}

#[test]
fn what_cannot_be_read_stands_in_the_document_too() {
    let dir = folder(&[("good.yaml", "version: 1\n")]);
    let check = unfazed(&dir, &["check", "nofile.yaml", "good.yaml", "--format", "json"]);
    assert_eq!(code(&check), 2);
    let json: Value = serde_json::from_str(&out(&check)).unwrap();
    assert!(
        json["unread"][0]["message"].as_str().unwrap().starts_with("cannot read nofile.yaml: "),
        "{json}"
    );
    let nothing = folder(&[]);
    let check = unfazed(&nothing, &["check", ".", "--format", "json"]);
    assert_eq!((out(&check).as_str(), code(&check)), ("{\"version\":1,\"reports\":[],\"unread\":[]}\n", 3));
}

#[test]
fn at_least_one_problem_is_printed() {
    let dir = folder(&[("broken.yaml", BROKEN)]);
    assert_eq!(code(&unfazed(&dir, &["check", "broken.yaml", "--max-errors", "0"])), 2);
}

#[test]
fn no_line_is_shown_of_a_file_that_is_too_large_to_be_read() {
    let text = format!("version: 1\n{}", "# comment\n".repeat(500_000));
    let dir = folder(&[("large.yaml", &text)]);
    let said = out(&unfazed(&dir, &["check", "large.yaml"]));
    assert_snapshot!(said, @"
    error[P0008]: the file has 5000011 bytes; the most allowed is 4194304
    --> large.yaml:1:1

    1 error in 1 file
    `unfazed rule P0008` says more
    ");
}

#[test]
fn a_profile_that_is_not_there_is_told_with_what_chooses_it() {
    let dir = folder(&[("team.yaml", "version: 1\nprofiles: {ci: {turn: {max_turns: 3}}}\n")]);
    let check = unfazed(&dir, &["check", "team.yaml", "--profile", "cl"]);
    assert_eq!(code(&check), 1);
    assert_snapshot!(out(&check), @"
    error[P0201]: there is no profile `cl`, which `--profile` chooses
     |
     = note: did you mean `ci`?
     = help: there is `ci`

    1 error in 1 file
    `unfazed rule P0201` says more
    ");
}

#[test]
fn a_budget_that_the_first_request_of_an_agent_takes_is_told_before_it_runs() {
    let agent = |words: usize, task: &str| {
        let system = "Follow this. ".repeat(words);
        format!(
            "version: 1\nname: a\nsystem: {system}\ntask: {task}\npolicy: policy.yaml\n\
             models: {{main: {{api: scripted, script: model.yaml}}}}\ntools: {{calc: {{kind: builtin}}}}\n"
        )
    };
    let script = "version: 1\nreplies: [{text: Done.}]\n";
    let long_task = "Look at it all. ".repeat(2_000);
    for (words, task, limit, short) in [
        (2_000, "go", "tokens: 6000", true),
        (2_000, "go", "tokens: 60000", false),
        (1, "go", "tokens: 6000", false),
        (1, long_task.as_str(), "tokens: 6000", true),
        (2_000, "go", "model_calls: 9", false),
    ] {
        let policy = format!("version: 1\nlimits: {{run: {{{limit}}}}}\n");
        let agent = agent(words, task);
        let dir = folder(&[("agent.yaml", &agent), ("policy.yaml", &policy), ("model.yaml", script)]);
        let check = unfazed(&dir, &["check", "agent.yaml"]);
        let said = out(&check);
        assert_eq!(said.contains("warning[W0256]"), short, "{limit}: {said}");
        assert_eq!(said.contains("--> policy.yaml:2:24"), short, "{limit}: {said}");
        let run = unfazed(&dir, &["run", "agent.yaml", "--quiet"]);
        let said = String::from_utf8_lossy(&run.stderr).into_owned();
        assert_eq!(said.contains("limits.run.tokens is too small for one turn"), short, "{limit}: {said}");
        // The engine itself decides so: the first turn is the final one.
        assert_eq!(said.contains("turn 1 is the final turn"), short, "{limit}: {said}");
    }
}
