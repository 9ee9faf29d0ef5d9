//! `unfazed check --fix`: certain repairs in the files, and nothing else.

use std::fs;
use std::path::Path;

use proptest::prelude::*;
use proptest::test_runner::Config;
use tempfile::TempDir;
use unfazed::analysis::ComparedNames;
use unfazed::policy::Policy;

use crate::command;

fn folder(files: &[(&str, &str)]) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in files {
        fs::write(dir.path().join(name), text).unwrap();
    }
    dir
}

/// What the command prints, and its exit code.
fn check(dir: &Path, args: &[&str]) -> (String, i32) {
    let output = command::unfazed(dir, &[&["check"], args].concat()).output().unwrap();
    let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
    (said, output.status.code().unwrap())
}

/// The text after `--fix`, and the exit code.
fn fixed(text: &str) -> (String, i32) {
    let dir = folder(&[("policy.yaml", text)]);
    let (_, code) = check(dir.path(), &["policy.yaml", "--fix"]);
    (fs::read_to_string(dir.path().join("policy.yaml")).unwrap(), code)
}

const GOOD: &str = "\
# what every agent has
version: 1
retry:
  max_attempts: 5   # four retries
  enabled: true
  retry_on: [network_error, rate_limit]
  backoff: {kind: constant, delay: 1s}
tools:
  get_price:
    # it only reads
    effect: read_only
    retry:
      attempt_timeout: 20s
    messages:
      failed: 'It failed: try again'
  refund:  # money
    effect: non_idempotent
    on_exhausted: fail
turn:
  max_turns: 20
models:
  main: {retry: {max_attempts: 3}}
  '*_small': {retry: {max_attempts: 2}}
";

/// Mistakes, each with the lines of the good policy that it spoils.
const MISTAKES: [(&str, &str); 29] = [
    ("  max_attempts: 5 ", "  max_atempts: 5 "),
    ("  max_attempts: 5 ", "  max_attempts: \"5\" "),
    ("  max_attempts: 5 ", "  max_attempts:5 "),
    ("  max_attempts: 5 ", "  retries: 4 "),
    ("  max_attempts: 5 ", "  max_attempts: 010 "),
    ("  enabled: true", "  enabled: yes"),
    ("[network_error,", "[connection_error,"),
    ("  backoff: {kind: constant, delay: 1s}", "  backoff: {kind: constant, delay: 1s"),
    ("effect: read_only", "effect: readonly"),
    ("'It failed: try again'", "It failed: try again"),
    ("      attempt_timeout: 20s", "\t\t\tattempt_timeout: 20s"),
    ("    on_exhausted: fail", "    on_exhausted: fail\n    on_exhausted: fail"),
    ("  max_turns: 20", "  max_turns: \"20\""),
    ("version: 1", "version: v1"),
    ("{kind: constant, delay: 1s}", "{delay: 1s}"),
    ("version: 1\n", ""),
    ("'*_small':", "*_small:"),
    ("main: {retry: {max_attempts: 3}}", "main: {retry: {max_attempts = 3}}"),
    ("main: {retry: {max_attempts: 3}}", "main: {retry: {max_atempts=3}}"),
    ("main: {retry: {max_attempts: 3}}", "main: {retry = {max_attempts: 3}}"),
    ("main: {retry: {max_attempts: 3}}", "main: {retry: {max_attempts:3}}"),
    ("{kind: constant, delay: 1s}", "{kind = constant, delay:1s}"),
    ("    effect: non_idempotent", "    effect = non_idempotent"),
    ("{kind: constant, delay: 1s}", "{kind: constant; delay: 1s}"),
    ("{kind: constant, delay: 1s}", "{kind: constant,, delay: 1s}"),
    ("{kind: constant, delay: 1s}", "{kind: \"constant\" delay: 1s}"),
    ("{kind: constant, delay: 1s}", "{kind: constant delay: '1s'}"),
    ("{kind: constant, delay: 1s}", "{\n    kind: constant\n    delay: 1s}"),
    ("[network_error, rate_limit]", "'network_error, rate_limit'"),
];

fn spoilt(which: &[bool]) -> String {
    let mut text = GOOD.to_owned();
    for ((good, bad), _) in MISTAKES.iter().zip(which).filter(|(_, spoil)| **spoil) {
        text = text.replacen(good, bad, 1);
    }
    text
}

/// The comments of a text; it has no other signs of one.
fn comments(text: &str) -> Vec<&str> {
    text.lines().filter_map(|line| line.split_once('#').map(|(_, comment)| comment)).collect()
}

fn is_good(text: &str) -> bool {
    let Ok(policy) = Policy::from_yaml("policy.yaml", text) else { return false };
    Policy::from_yaml("good.yaml", GOOD).unwrap().diff(&policy, &ComparedNames::default()).is_empty()
}

#[test]
fn each_mistake_that_can_be_meant_in_one_way_is_repaired() {
    for (number, mistake) in MISTAKES.iter().enumerate() {
        // Ten to some and eight to others: unknown.
        let certain = mistake.1 != "  max_attempts: 010 ";
        let which: Vec<bool> = (0..MISTAKES.len()).map(|other| other == number).collect();
        let (text, code) = fixed(&spoilt(&which));
        assert_eq!((is_good(&text), code == 0), (certain, certain), "{}: {text}", mistake.1);
        assert_eq!(comments(&text), comments(GOOD));
    }
}

#[test]
fn many_mistakes_are_repaired_at_once() {
    let which: Vec<bool> = (0..MISTAKES.len()).map(|number| ![1, 2, 3, 4].contains(&number)).collect();
    let (text, code) = fixed(&spoilt(&which));
    assert!(is_good(&text) && code == 0, "{text}");
}

proptest! {
    #![proptest_config(Config { cases: 24, ..Config::default() })]

    #[test]
    fn a_second_fix_changes_nothing_and_comments_stay(which in prop::collection::vec(any::<bool>(), MISTAKES.len()), crlf: bool) {
        let text = spoilt(&which);
        let text = if crlf { text.replace('\n', "\r\n") } else { text };
        let dir = folder(&[("policy.yaml", &text)]);
        let path = dir.path().join("policy.yaml");
        let (shown, _) = check(dir.path(), &["policy.yaml", "--diff"]);
        prop_assert_eq!(&fs::read_to_string(&path).unwrap(), &text, "a preview writes nothing");
        let (_, code) = check(dir.path(), &["policy.yaml", "--fix"]);
        let once = fs::read_to_string(&path).unwrap();
        prop_assert_eq!(shown.contains("--- policy.yaml"), once != text);
        let (said, again) = check(dir.path(), &["policy.yaml", "--fix"]);
        prop_assert_eq!(&fs::read_to_string(&path).unwrap(), &once);
        prop_assert_eq!((code, said.contains("repaired ")), (again, false));
        prop_assert_eq!(comments(&once), comments(&text));
        prop_assert!(code != 0 || is_good(&once.replace("\r\n", "\n")), "{}", once);
    }
}

/// Fields of several types, each with the line of the good policy that sets it.
const FIELDS: [(&str, &str); 11] = [
    ("  max_attempts: 5 ", "  max_attempts: {} "),
    ("  enabled: true", "  enabled: {}"),
    ("  retry_on: [network_error, rate_limit]", "  retry_on: {}"),
    ("effect: read_only", "effect: {}"),
    ("attempt_timeout: 20s", "attempt_timeout: {}"),
    ("failed: 'It failed: try again'", "failed: {}"),
    ("  refund:", "  {}:"),
    ("  max_turns: 20", "  {}: 20"),
    ("main: {retry: {max_attempts: 3}}", "main: {retry: {max_attempts = {}}}"),
    ("main: {retry: {max_attempts: 3}}", "main: {retry: {max_attempts:{}}}"),
    ("main: {retry: {max_attempts: 3}}", "main: {retry: {{} = 3}}"),
];

/// What nobody should write: the YAML reader, or the field, knows better.
const SPELLINGS: [&str; 29] = [
    "@x",
    "`x` is y's",
    "max_atempts",
    "1e1",
    "0x10",
    "1e-1",
    "1_0",
    "010",
    "1:30",
    ".inf",
    "2026-11-21",
    "99999999999999999999",
    "-1",
    "1.5",
    "0",
    "5",
    "\"1e1\"",
    "\"0x10\"",
    "\"010\"",
    "'5'",
    "'0'",
    "'1.5'",
    "yes",
    "'true'",
    "timeot",
    "[5]",
    "max_turns:3",
    "{a: b}",
    "Well: then try again",
];

/// Texts that are no YAML, each with the line of the good policy that it spoils.
const NO_YAML: [(&str, &str); 14] = [
    ("version: 1\n", "version: 1\n"),
    ("  backoff: {kind: constant, delay: 1s}", "  backoff: {kind: constant, delay: 1s"),
    ("    effect: read_only", "\t\teffect: read_only"),
    ("    on_exhausted: fail", "    on_exhausted: fail: now"),
    ("turn:\n", "turn: of: days\n"),
    ("    on_exhausted: fail\n", "    on_exhausted: fail\n   and\n"),
    ("  '*_small': {", "  *_small: {"),
    ("{retry: {max_attempts: 2}}", "{retry: {max_attempts = 2, '*': 1}}"),
    ("    on_exhausted: fail", "    on_exhausted: @fail"),
    ("    effect: non_idempotent\n", "    effect = non_idempotent\n"),
    ("{kind: constant, delay: 1s}", "{kind: constant; delay: 1s}"),
    ("{kind: constant, delay: 1s}", "{kind: 'constant' delay: 1s}"),
    ("{kind: constant, delay: 1s}", "{kind: constant,, delay: 1s}"),
    ("    on_exhausted: fail", "    on_exhausted: *fail* now"),
];

/// The problems of a file, each with its line; those with a repair come with it.
fn problems(dir: &Path) -> Vec<(String, bool)> {
    let (printed, _) = check(dir, &["policy.yaml", "--format", "json"]);
    let json: serde_json::Value = serde_json::from_str(&printed).unwrap();
    let reports = json["reports"].as_array().unwrap().iter();
    let all = reports.flat_map(|report| report["diagnostics"].as_array().unwrap());
    all.map(|problem| {
        let said = format!("{} {} {}", problem["at"]["line"], problem["code"], problem["message"]);
        (said, !problem["fix"].is_null())
    })
    .collect()
}

proptest! {
    #![proptest_config(Config { cases: 32, ..Config::default() })]

    /// The reader of YAML and that of the fields agree on what a field takes.
    #[test]
    fn what_is_announced_as_repairable_is_repaired(
        odd in prop::collection::vec((0..FIELDS.len(), 0..SPELLINGS.len()), 1..3),
        broken in 0..NO_YAML.len(),
    ) {
        let mut text = GOOD.replacen(NO_YAML[broken].0, NO_YAML[broken].1, 1);
        for (field, spelling) in odd {
            let (good, odd) = FIELDS[field];
            text = text.replacen(good, &odd.replace("{}", SPELLINGS[spelling]), 1);
        }
        let dir = folder(&[("policy.yaml", &text)]);
        let before = problems(dir.path());
        let (said, _) = check(dir.path(), &["policy.yaml", "--fix"]);
        let once = fs::read_to_string(dir.path().join("policy.yaml")).unwrap();
        let after = problems(dir.path());
        let announced: Vec<&String> = before.iter().filter(|(_, fix)| *fix).map(|(said, _)| said).collect();
        for problem in &announced {
            let count = |all: &[(String, bool)]| all.iter().filter(|(said, _)| said == *problem).count();
            prop_assert!(count(&after) < count(&before), "{problem} is left in:\n{text}\n{once}");
        }
        prop_assert_eq!(announced.is_empty(), once == text, "{}", said);
        prop_assert!(after.iter().all(|(_, fix)| !fix), "{after:?} is left in:\n{once}");
        prop_assert_eq!(comments(&once), comments(&text));
        for line in GOOD.lines().filter(|line| text.contains(line)) {
            prop_assert!(once.contains(line), "{line} is gone from:\n{once}");
        }
        let (again, _) = check(dir.path(), &["policy.yaml", "--fix"]);
        prop_assert!(!again.contains("repaired "));
        prop_assert_eq!(fs::read_to_string(dir.path().join("policy.yaml")).unwrap(), once);
    }
}

/// What is no YAML can be meant in several ways, of which the fields take one.
#[test]
fn the_fields_decide_what_a_line_with_two_colons_means() {
    for (text, after) in [
        ("retry: max_attempts: 3", "retry: {max_attempts: 3}"),
        ("retry: {max_attempts: 3 enabled: true}", "retry: {max_attempts: 3, enabled: true}"),
        ("retry:\n  max_attempts: 3 enabled: true", "retry:\n  max_attempts: 3\n  enabled: true"),
        (
            "tools: {a: {messages: {failed: It failed: again}}}",
            "tools: {a: {messages: {failed: 'It failed: again'}}}",
        ),
        (
            "tools: {a: {messages: {failed: It broke: again}}}",
            "tools: {a: {messages: {failed: 'It broke: again'}}}",
        ),
    ] {
        let (repaired, code) = fixed(&format!("version: 1\n{text}\n"));
        assert_eq!((repaired, code), (format!("version: 1\n{after}\n"), 0));
    }
}

#[test]
fn a_number_in_an_odd_spelling_stays_a_number() {
    for (spelling, after) in [
        ("1e1", "10"),
        ("0x10", "16"),
        ("1_0", "10"),
        ("\"1e1\"", "10"),
        ("\"0x10\"", "16"),
        ("'5'", "5"),
        ("1e-1", "1e-1"),
        ("'0'", "'0'"),
        ("'1.5'", "'1.5'"),
        ("\"010\"", "\"010\""),
    ] {
        for (good, broken) in NO_YAML {
            let text = GOOD.replacen("  max_attempts: 5 ", &format!("  max_attempts: {spelling} "), 1);
            let (text, _) = fixed(&text.replacen(good, broken, 1));
            let stays = text.contains(&format!("  max_attempts: {spelling} "));
            assert!(stays || text.contains(&format!("  max_attempts: {after} ")), "{text}");
            let repaired = broken.starts_with("version") || broken.ends_with("delay: 1s");
            assert!(!stays || spelling == after || !repaired, "{text}");
        }
    }
}

#[test]
fn a_repair_leaves_every_other_effective_value() {
    for (good, odd, number) in [
        ("  max_attempts: 5 ", "  max_attempts: 0x10 ", "max_attempts"),
        ("  max_attempts: 5 ", "  retries: 7 ", "max_attempts"),
        ("  max_turns: 20", "  max_turns: '30'", "max_turns"),
        ("effect: read_only", "effect: idempotnt", "effect"),
    ] {
        let (text, _) = fixed(&GOOD.replacen(good, odd, 1));
        let policy = Policy::from_yaml("policy.yaml", &text).unwrap();
        let compared = Policy::from_yaml("good.yaml", GOOD).unwrap().diff(&policy, &ComparedNames::default());
        let found = compared.to_json();
        let groups = found["groups"].as_array().unwrap();
        let mut rows = groups.iter().flat_map(|group| group["rows"].as_array().unwrap());
        let is_meant = rows.all(|row| row["field"].as_str().unwrap().ends_with(number));
        assert!(!groups.is_empty() && is_meant, "{found}");
    }
}

/// A disk that is full, as far as this process is concerned.
#[cfg(unix)]
#[test]
fn a_repair_that_cannot_be_written_leaves_the_old_file() {
    let text = "version: 1\nturn: {max_turns: \"3\"}\n";
    let dir = folder(&[("policy.yaml", text)]);
    let unfazed = command::unfazed(dir.path(), &[]);
    let script = format!(
        "trap '' XFSZ; ulimit -f 0; exec '{}' check policy.yaml --fix",
        unfazed.get_program().display()
    );
    let mut shell = std::process::Command::new("sh");
    let output = shell.args(["-c", &script]).current_dir(dir.path()).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(2) && said.contains("cannot repair policy.yaml"), "{said}");
    assert_eq!(fs::read_to_string(dir.path().join("policy.yaml")).unwrap(), text);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "nothing is left beside it");
}

#[test]
fn a_preview_shows_no_secret() {
    let text =
        "version: 1\n# sent with api_key=q777x12345\nretry: {max_atempts: 3}\n# https://me:p4ssw0rd@x.y/\n";
    let dir = folder(&[("policy.yaml", text)]);
    let (said, _) = check(dir.path(), &["policy.yaml", "--fix", "--diff"]);
    assert!(said.contains("+retry: {max_attempts: 3}") && said.contains("****"), "{said}");
    assert!(!said.contains("q777x12345") && !said.contains("p4ssw0rd"), "{said}");
}

#[test]
fn a_preview_is_a_unified_diff_and_ends_with_1() {
    let dir = folder(&[("policy.yaml", "version: 1\nretry: {max_atempts: 3}  # few\n")]);
    let (said, code) = check(dir.path(), &["policy.yaml", "--fix", "--diff"]);
    let expected = "--- policy.yaml\n+++ policy.yaml\n@@ -1,2 +1,2 @@\n version: 1\n-retry: {max_atempts: 3}  # few\n+retry: {max_attempts: 3}  # few\n";
    assert_eq!((said.as_str(), code), (expected, 1));
    check(dir.path(), &["policy.yaml", "--fix"]);
    assert_eq!(check(dir.path(), &["policy.yaml", "--fix", "--diff"]), (String::new(), 0));
}

#[test]
fn every_kind_of_file_is_repaired_and_those_it_names() {
    let dir = folder(&[
        (
            "agent.yaml",
            "version: \"1\"\npolicy: policy.yaml\nmodel_windows: catalogue.yaml\nmodels: {m: {api: scripted, scrpt: model.yaml}}\n",
        ),
        ("catalogue.yaml", "version: 1\nmodels: [{names: [big], windw: \"1000\"}]\n"),
        ("policy.yaml", "version: 1\nturn: {max_turns: \"3\"}\n"),
        ("model.yaml", "version: 1\nreplys: [{text: Done.}]\n"),
        ("c.test.yaml", "version: 1\ntools: {t: {efect: read_only}}\ncases: []\n"),
        ("call.yaml", "arguments: {a: 1}\nplaner: {retry: {max_atempts: 3}}\n"),
        ("s.yaml", "version: 1\nagents: \"5\"\nduration: 1m\nmodels: {m: {}}\n"),
    ]);
    check(dir.path(), &["agent.yaml", "c.test.yaml", "call.yaml", "s.yaml", "--fix"]);
    let text = |name: &str| fs::read_to_string(dir.path().join(name)).unwrap();
    assert!(
        text("agent.yaml").starts_with("version: 1\n") && text("agent.yaml").contains("script: model.yaml")
    );
    assert!(text("policy.yaml").contains("max_turns: 3}"));
    assert!(text("c.test.yaml").contains("effect: read_only"));
    assert!(text("s.yaml").contains("agents: 5"));
    assert_eq!(text("model.yaml"), "version: 1\nreplies: [{text: Done.}]\n");
    assert_eq!(text("call.yaml"), "arguments: {a: 1}\nplanner: {retry: {max_attempts: 3}}\n");
    assert_eq!(text("catalogue.yaml"), "version: 1\nmodels: [{names: [big], window: 1000}]\n");
}

#[cfg(unix)]
#[test]
fn a_file_keeps_its_permissions_and_a_link_stays_a_link() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let dir = folder(&[("real.yaml", "version: 1\nturn: {max_turns: \"3\"}\n")]);
    let real = dir.path().join("real.yaml");
    fs::set_permissions(&real, fs::Permissions::from_mode(0o640)).unwrap();
    symlink("real.yaml", dir.path().join("link.yaml")).unwrap();
    let (said, code) = check(dir.path(), &["link.yaml", "--fix"]);
    assert!(code == 0 && said.contains("repaired link.yaml: 1 problem"), "{said}");
    assert!(fs::read_to_string(&real).unwrap().contains("max_turns: 3"));
    assert_eq!(fs::metadata(&real).unwrap().permissions().mode() & 0o777, 0o640);
    assert!(fs::symlink_metadata(dir.path().join("link.yaml")).unwrap().is_symlink());
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2, "nothing is left beside it");
}

#[test]
fn an_entry_of_a_list_counts_as_a_whole_once_it_is_repaired() {
    for (wrong, right) in [
        ("args.n =< 3", "args.n <= 3"),
        ("args.a = 1", "args.a == 1"),
        ("args.a and args.b", "args.a && args.b"),
    ] {
        let text = |when: &str| {
            format!(
                "version: 1\ntools:\n  a:\n    calls:\n      - approval: always\n        # for few\n        when: {when}\n        retry:\n          max_attempts: 2\n      - when: args.n > 9\n        approval: never\n    effect: read_only\n"
            )
        };
        assert_eq!(fixed(&text(wrong)), (text(right), 0));
    }
}

#[test]
fn a_text_that_begins_with_a_sign_is_quoted() {
    for sign in ["@x broke", "`x` broke", "%x broke", "@x broke\n        again"] {
        let text = |written: &str| GOOD.replacen("'It failed: try again'", written, 1);
        assert_eq!(fixed(&text(sign)), (text(&format!("'{sign}'")), 0));
    }
}

#[test]
fn what_several_things_can_be_meant_by_is_left_alone() {
    for text in [
        "version: 1\ntools: {a: {messages: {failed: \"it's \"bad\"\"}}}\n",
        "version: 1\ntools:\n  a: {messages: {failed: &b x}}\n  *b: {effect: read_only}\n",
        "version: 1\nretry: {max_attempts: 3, max_attempts = 4}\n",
        "version: 1\nretry: {backoff: {kind: constant, delay: 30000, jitter: none}}\n",
        "version: 1\nretry: most attempts: 3\n",
        "version: 1\nretry: {max_attempts: 3, max_atempts: 4}\n",
        "version: 1\nretry: {max_atempts: 3, max_attemps: 4}\n",
        "version: 1\ntools:\n  t: {efect: read_only, effct: non_idempotent}\n",
        "version: 1\nretry: {retries: 3, max_tries: 4}\n",
        "version: 1\nretry: {retry_on: [5xx, '429']}\n",
        "version: 1\nturn: {max_turns: 3}\nturn: {max_turns: 4}\n",
        "version: 1\ntools: {'a|b': {effect: read_only}}\n",
        "version: 1\ntools: {a: {messages: {failed: wrong; final: x}}}\n",
        "version: 1\ntools: {a: {messages: {failed: it failed\n      note: try again}}}\n",
    ] {
        let (after, code) = fixed(text);
        assert_eq!((after.as_str(), code), (text, 1));
    }
}

/// Files with the names of another time, with those of today, and where a renamed key or word is in each.
const RENAMED: [(&str, &str, &str); 5] = [
    (
        "policy.yaml",
        "version: 1
turn:
  feedback_chars: 4000
  leaked_calls: false
  collapse: true
  pending_report: false
  targets: {advance: attempt}   # round robin
  guidance: {keep: false, most: 3}
  calls: {most: 20, failed_rounds: 2}
history: {argument_chars: 80}
context:
  evict_at: 0.2
  gate: 0.1
  target: 0.5
  keep_task: false
  recover: false
  reduce:
    - {kind: digest, keep_last: 4, most: 500 tokens, line: 80 chars, result_line: 60 chars}
    - {kind: summary, keep_last: 4, most: 800 tokens}
models:
  main: {cool_down: 2m, abort_on: [auth_error]}
tools:
  look: {effect: read_only}
  save:
    effect: non_idempotent
    after_effect: {kind: verify, tool: look, acted: result.saved}
    result: {max: 2000 chars, over: spill}
    loop_guard: {count: in_all}
  poll: {loop_guard: {count: in_a_row, same_call: {nudge: 2}}}
",
        "version: 1
turn:
  max_feedback_chars: 4000
  text_tool_calls: false
  final_turn_after_rejection: true
  report_from_text: false
  targets: {fallback: attempt}   # round robin
  guidance: {keep: false, max: 3}
  calls: {max: 20, nudge_after_failed_rounds: 2}
history: {max_argument_chars: 80}
context:
  compact_at_free: 0.2
  min_free: 0.1
  target_free: 0.5
  keep_last_user_message: false
  compact_on_overflow: false
  reduce:
    - {kind: digest, keep_last: 4, max: 500 tokens, line: 80 chars, result_line: 60 chars}
    - {kind: summary, keep_last: 4, max: 800 tokens}
models:
  main: {cooldown: 2m, no_fallback_on: [auth_error]}
tools:
  look: {effect: read_only}
  save:
    effect: non_idempotent
    on_uncertain_effect: {kind: verify, tool: look, acted: result.saved}
    result: {max: 2000 chars, overflow: spill}
    loop_guard: {count: cumulative}
  poll: {loop_guard: {count: consecutive, same_call: {nudge: 2}}}
",
    ),
    (
        "agent.yaml",
        "version: 1
models: {m: {api: scripted, script: model.yaml}}
tools:
  build:
    kind: process
    command: [make]
    description: Builds it.
    parameters: {type: object}
    timeout: 20s
    on_timeout: background
    keep: true
session: {redact: forms}
",
        "version: 1
models: {m: {api: scripted, script: model.yaml}}
tools:
  build:
    kind: process
    command: [make]
    description: Builds it.
    parameters: {type: object}
    timeout: 20s
    on_timeout: background
    keep_running: true
session: {redact: patterns}
",
    ),
    (
        "model.yaml",
        "version: 1\nreplies:\n  - {text: Half an ans, finish: length}\n",
        "version: 1\nreplies:\n  - {text: Half an ans, finish_reason: length}\n",
    ),
    (
        "outage.yaml",
        "version: 1\nagents: 2\nduration: 1m\nwork: {calls: 2, again: 3}\nmodels: {m: {}}\n",
        "version: 1\nagents: 2\nduration: 1m\nwork: {calls: 2, repeat_failed: 3}\nmodels: {m: {}}\n",
    ),
    (
        "shop.test.yaml",
        "version: 1
documents: {handbook: How our agents treat the shop.}
inline: {models: {'*': {cool_down: 1m}}}
elsewhere: [{document: handbook, statement: it survives, file: kill.rs, test: a_kill}]
cases:
  - name: it succeeds
    replies: [{text: Done., finish: stop}]
    expect: {final: answered}
",
        "version: 1
documents: {handbook: How our agents treat the shop.}
inline: {models: {'*': {cooldown: 1m}}}
tested_elsewhere: [{document: handbook, statement: it survives, file: kill.rs, test: a_kill}]
cases:
  - name: it succeeds
    replies: [{text: Done., finish_reason: stop}]
    expect: {final: answered}
",
    ),
];

#[test]
fn every_kind_of_file_gets_the_names_of_today() {
    for (name, before, after) in RENAMED {
        let others =
            [("model.yaml", "version: 1\nreplies: [{text: Done.}]\n"), ("kill.rs", "fn a_kill() {}\n")];
        let dir = folder(&others);
        fs::write(dir.path().join(name), before).unwrap();
        check(dir.path(), &[name, "--fix"]);
        assert_eq!(fs::read_to_string(dir.path().join(name)).unwrap(), after, "{name}");
        let (said, code) = check(dir.path(), &[name]);
        assert!(code == 0, "{name}: {said}");
    }
}

#[test]
fn a_name_of_another_time_is_told_with_the_one_of_today() {
    let dir =
        folder(&[("policy.yaml", "version: 1\nmodels: {'*': {cool_down: 2m}}\nturn: {calls: {most: 3}}\n")]);
    let (said, code) = check(dir.path(), &["policy.yaml", "--format", "short"]);
    insta::assert_snapshot!(said, @r"
    policy.yaml:2:16: error[P0101]: `cool_down` is now `cooldown`
    policy.yaml:3:16: error[P0101]: `most` is now `max`
    ");
    assert_eq!(code, 1);
    let both = "version: 1\nmodels: {'*': {cool_down: 2m, cooldown: 1m}}\n";
    assert_eq!(fixed(both), (both.to_owned(), 1));
}
