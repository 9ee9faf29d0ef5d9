//! What cases prove: the page that `unfazed test --conformance` writes, and the tests that stand in for cases.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use serde_json::Value;
use tempfile::TempDir;
use unfazed::cases::{SuiteLoader, TestSuite};

use crate::command;

const CASES: &str = "version: 1
documents: {handbook: How our agents treat the shop., rules: Rules for everybody}
tools: {search: {effect: read_only}}
tested_elsewhere:
  - {document: rules, statement: a session survives a kill, file: ../kill.rs, test: a_kill_at_any_byte}
unmet:
  - {document: rules, statement: a failure is classified by mail, result: not_expressible, because: nothing here sends mail}
  - {document: handbook, statement: a wait is two seconds, result: does_not_hold, because: a second is enough}
cases:
  - name: gives up
    proves: {handbook: [three attempts are all there are, a wait is a second]}
    tool: search
    inline: {retry: {max_attempts: 3, backoff: {kind: constant, delay: 1s, jitter: none}}}
    outcomes: [rate_limit x9]
    expect: {attempts: 3, delays: [1s, 1s]}
  - name: a login that is wrong | stays wrong
    proves: {rules: a refused login is not tried again, handbook: three attempts are all there are}
    tool: search
    outcomes: [auth_error]
    expect: {attempts: 1}
  - {name: proves nothing, tool: search, outcomes: [ok], expect: {final: ok}}
";

fn folder(cases: &str) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("cases")).unwrap();
    fs::create_dir(dir.path().join("docs")).unwrap();
    fs::write(dir.path().join("kill.rs"), "fn a_kill_at_any_byte() {}\n").unwrap();
    fs::write(dir.path().join("cases/shop.test.yaml"), cases).unwrap();
    dir
}

fn prove(dir: &Path, more: &[&str]) -> Output {
    let args = [&["test", "cases", "--conformance", "docs/page.md"], more].concat();
    command::unfazed(dir, &args).env("NO_COLOR", "1").output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn the_page_has_a_table_for_each_document() {
    let dir = folder(CASES);
    let output = prove(dir.path(), &[]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let page = fs::read_to_string(dir.path().join("docs/page.md")).unwrap();
    insta::assert_snapshot!(page);
    prove(dir.path(), &[]);
    assert_eq!(fs::read_to_string(dir.path().join("docs/page.md")).unwrap(), page, "it is the same again");
}

#[test]
fn a_case_that_fails_stands_on_the_page_as_one_that_fails() {
    let dir = folder(&CASES.replace("attempts: 3,", "attempts: 4,"));
    assert_eq!(prove(dir.path(), &[]).status.code(), Some(1));
    let page = fs::read_to_string(dir.path().join("docs/page.md")).unwrap();
    // One of the two cases that are to show it does not.
    assert!(page.contains("| **FAILS** |\n| a wait is a second |"), "{page}");
    assert!(page.contains("| [handbook](#handbook) | 3 | 1 | 0 | 0 | 2 | 1 | 0 |"), "{page}");
    assert!(page.contains("| [rules](#rules) | 3 | 2 | 1 | 1 | 0 | 0 | 1 |"), "{page}");
}

#[test]
fn json_has_what_each_case_proves() {
    let dir = folder(CASES);
    let output = prove(dir.path(), &["--format", "json"]);
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    let file = &json["files"][0];
    assert_eq!(
        file["cases"][0]["proves"],
        serde_json::json!({"handbook": ["three attempts are all there are", "a wait is a second"]})
    );
    assert_eq!(file["cases"][2]["proves"], serde_json::json!({}));
    assert_eq!(file["elsewhere"][0]["test"], "a_kill_at_any_byte");
    assert_eq!(file["unmet"][0]["result"], "not_expressible");
}

#[test]
fn a_page_that_would_not_be_complete_is_not_written() {
    let dir = folder(CASES);
    fs::write(dir.path().join("cases/bad.test.yaml"), "version: 1\ncases: [{}]\n").unwrap();
    let output = prove(dir.path(), &[]);
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).ends_with("docs/page.md is not written: it would not be complete\n"));
    assert!(!dir.path().join("docs/page.md").exists());
    let dir = folder(CASES);
    assert_eq!(prove(dir.path(), &["--run", "gives"]).status.code(), Some(2), "nor of some of the cases");
}

#[test]
fn a_document_that_is_not_described_is_told_with_its_place() {
    let dir = folder(&CASES.replace("proves: {rules:", "proves: {ruels:"));
    let more = "version: 1\ndocuments: {rules: The same again.}\ncases: []\n";
    fs::write(dir.path().join("cases/two.test.yaml"), more).unwrap();
    let output = prove(dir.path(), &[]);
    assert_eq!(output.status.code(), Some(1));
    let expected = "\
cases/two.test.yaml:2:13: error: `rules` is described at cases/shop.test.yaml:2:55 already; remove one of them
cases/shop.test.yaml:17:21: error: `documents` does not describe `ruels`; did you mean `rules`?
docs/page.md is not written: it would not be complete
";
    assert_eq!(said(&output), expected);
    // Where no file describes documents, every id is one.
    let dir = folder(&CASES.replace("documents:", "# documents:"));
    assert_eq!(prove(dir.path(), &[]).status.code(), Some(0));
}

#[test]
fn mistakes_in_what_is_proved_are_told_with_their_places() {
    let open = |_: &str, path: &str| match path {
        "kill.rs" => Ok((path.to_owned(), b"fn a_kill_at_any_byte() {}\n".to_vec())),
        _ => Err(format!("cannot read {path}")),
    };
    let long = "so ".repeat(101);
    let text = format!(
        "version: 1
documents: {{Hand_Book: ''}}
tested_elsewhere:
  - {{document: a, statment: it holds, file: kill.rs, test: a_kill_at_any_byte}}
  - {{document: a, statement: it holds, file: kill.rs, test: a_kill_at_every_byte}}
  - {{document: a, statement: it holds, file: lost.rs, test: a_kill}}
cases:
  - {{name: a, prove: {{a: it holds}}, tool: t, outcomes: [ok], expect: {{final: ok}}}}
  - {{name: b, proves: {{a: [it holds, it holds], b: []}}, tool: t, outcomes: [ok], expect: {{final: ok}}}}
  - {{name: c, proves: {{}}, tool: t, outcomes: [ok], expect: {{final: ok}}}}
  - {{name: d, proves: {{a: \"one\\ntwo\", b: {long}}}, tool: t, outcomes: [ok], expect: {{final: ok}}}}
"
    );
    let reports = SuiteLoader::new(open).read("a.test.yaml", text.as_bytes()).unwrap_err();
    insta::assert_snapshot!(reports.iter().map(|report| report.human(false)).collect::<String>());
}

/// The tests that the cases of this repository name in place of cases are tests that run.
#[test]
fn every_test_that_stands_in_for_a_case_is_one() {
    let mut checked = 0;
    for suite in suites() {
        for elsewhere in suite.elsewhere() {
            let source = fs::read_to_string(&elsewhere.file).unwrap();
            let name = regex::escape(&elsewhere.test);
            let pattern =
                format!(r"#\[(tokio::)?test(\([^\]]*\))?\]\s+(?:#\[[^\]]*\]\s+)*(?:async )?fn {name}\(");
            let found = regex::Regex::new(&pattern).unwrap().is_match(&source);
            assert!(found, "{} has no test `{}`", elsewhere.file, elsewhere.test);
            checked += 1;
        }
    }
    assert!(checked >= 5, "only {checked} tests were found");
}

/// The page is to tell of each of the numbered scenarios where it is shown, once.
#[test]
fn every_numbered_scenario_is_shown() {
    let mut scenarios: BTreeMap<u32, BTreeSet<String>> = BTreeMap::new();
    for suite in suites() {
        let cases = suite.cases().iter().flat_map(|case| case.proves().to_vec());
        let elsewhere = suite.elsewhere().iter().map(|elsewhere| elsewhere.claim.clone());
        for claim in cases.chain(elsewhere).filter(|claim| claim.document == "scenarios") {
            let label = claim.statement.split_once(": ").and_then(|(label, _)| label.strip_prefix('E'));
            let number = label.and_then(|number| number.parse().ok());
            let number = number.unwrap_or_else(|| panic!("{}: no number", claim.place));
            scenarios.entry(number).or_default().insert(claim.statement);
        }
    }
    let missing: Vec<u32> = (1..=150).filter(|number| !scenarios.contains_key(number)).collect();
    assert!(missing.is_empty(), "nothing shows {missing:?}");
    assert_eq!(scenarios.len(), 150, "a number is none of a scenario: {:?}", scenarios.keys());
    for (number, statements) in scenarios {
        assert_eq!(statements.len(), 1, "E{number} is reported in several ways: {statements:?}");
    }
}

/// A statement about a preset is proved by that preset: a case with other values says so in its statement.
#[test]
fn a_preset_is_proved_by_that_preset() {
    let mut wrong = Vec::new();
    let mut proved = 0;
    for file in test_files() {
        let test = yaml(&file);
        for case in test["cases"].as_array().unwrap() {
            let mut layers = vec![&test["inline"], &case["inline"]];
            layers.retain(|layer| layer.is_object());
            let extended = layers.iter().rev().find_map(|layer| layer["extends"].as_str()).unwrap_or("");
            // A case that begins anew with a preset leaves the policy of its file behind.
            if case["inline"]["extends"].is_string() {
                layers = vec![&case["inline"]];
            }
            for preset in PRESETS {
                let statements = match &case["proves"][preset] {
                    Value::String(one) => vec![one.clone()],
                    Value::Array(all) => all.iter().map(|one| one.as_str().unwrap().to_owned()).collect(),
                    _ => continue,
                };
                let name = extended.strip_prefix("builtin:presets/").unwrap_or_default();
                let is_preset = name.strip_suffix("-current").unwrap_or(name) == preset;
                let overruled = if is_preset { overruled(&preset_values(name), &layers) } else { Vec::new() };
                for statement in statements {
                    proved += 1;
                    let said = ["with other settings ", "can be configured", "is a matter of the policy"];
                    if (!is_preset || !overruled.is_empty())
                        && !said.iter().any(|said| statement.contains(said))
                    {
                        let (file, name) = (file.display(), &case["name"]);
                        wrong.push(format!(
                            "{file}: {name}: `{statement}` of {preset}, by `{extended}` with {overruled:?}"
                        ));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {proved}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(proved > 200, "only {proved} statements were found");
}

#[test]
fn a_value_that_is_other_than_that_of_a_preset_is_seen() {
    let preset = preset_values("ai-agent");
    let inline = |text: &str| -> Value { serde_yaml::from_str(text).unwrap() };
    let seen = |text: &str| overruled(&preset, &[&inline(text)]);
    assert_eq!(seen("models: {a: {retry: {max_attempts: 4}}}"), ["models.a.retry.max_attempts"]);
    assert_eq!(seen("turn: {final_turn_after_rejection: false}"), ["turn.final_turn_after_rejection"]);
    assert_eq!(seen("turn: {targets: {wait: turn, fallback: attempt}}"), ["turn.targets.wait"]);
    assert!(seen("turn: {final_turn_after_rejection: true}\noutput: {schema: {type: object}}").is_empty());
}

const PRESETS: [&str; 5] = ["ai-agent", "localcowork", "supyagent", "swarm-sdk", "weakincentives"];

/// The values of a preset, those of the one that it extends among them, by their paths.
fn preset_values(name: &str) -> BTreeMap<Vec<String>, Value> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let document = yaml(&root.join(format!("policies/presets/{name}.yaml")));
    let below = document["extends"].as_str().and_then(|path| path.strip_prefix("builtin:presets/"));
    let mut values = below.map(preset_values).unwrap_or_default();
    leaves(&document, &mut Vec::new(), &mut |path, value| {
        if !["version", "extends"].contains(&path[0].as_str()) {
            values.insert(path.to_vec(), value.clone());
        }
    });
    values
}

/// The values of the layers that take the place of another one of the preset.
fn overruled(preset: &BTreeMap<Vec<String>, Value>, layers: &[&Value]) -> Vec<String> {
    let mut found = Vec::new();
    for layer in layers {
        leaves(layer, &mut Vec::new(), &mut |path, value| {
            let over = |own: &Vec<String>| {
                own.iter().zip(path).all(|(own, path)| own == path || own == "*" || path == "*")
            };
            if preset.iter().any(|(own, of_preset)| over(own) && of_preset != value) {
                found.push(path.join("."));
            }
        });
    }
    found
}

/// Visits every value with its path. What is replaced as a whole is one value.
fn leaves(value: &Value, path: &mut Vec<String>, visit: &mut dyn FnMut(&[String], &Value)) {
    match value {
        Value::Object(fields) if !fields.is_empty() && !fields.contains_key("kind") => {
            for (key, value) in fields {
                path.push(key.clone());
                leaves(value, path, visit);
                path.pop();
            }
        }
        value if !path.is_empty() => visit(path, value),
        _ => {}
    }
}

fn yaml(file: &Path) -> Value {
    let text = fs::read_to_string(file).unwrap();
    serde_yaml::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// The files of cases of this repository.
fn test_files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = files.filter(|path| path.to_string_lossy().ends_with(".test.yaml")).collect();
    files.sort();
    files
}

/// The cases of this repository.
fn suites() -> Vec<TestSuite> {
    let mut loader = SuiteLoader::new(|test: &str, path: &str| {
        let path = Path::new(test).parent().unwrap().join(path);
        let bytes = fs::read(&path).map_err(|error| error.to_string())?;
        Ok((path.display().to_string(), bytes))
    });
    test_files()
        .iter()
        .map(|path| loader.read(&path.display().to_string(), &fs::read(path).unwrap()).unwrap())
        .collect()
}
