//! The guide is complete: every page is there, and the tables name what the language knows.

use std::fs;
use std::path::Path;

use unfazed::host::MetricId;
use unfazed::policy::ErrorClass;

use super::{blocks, pages, read, root};

#[test]
fn every_key_of_a_test_file_is_described() {
    let page = read("docs/testing.md");
    let schema = unfazed::cases::json_schema();
    let of = |name: &str| -> Vec<String> {
        let properties = schema["$defs"][name]["properties"].as_object();
        properties.unwrap_or_else(|| panic!("there is no `{name}`")).keys().cloned().collect()
    };
    let keys =
        ["CaseRule", "CallCase", "ToolCase", "PlannerCase", "ExpectRule", "WrittenOutcome", "ElsewhereRule"];
    let missing: Vec<_> =
        keys.iter().flat_map(|name| of(name)).filter(|key| !described(&page, key)).collect();
    assert!(missing.is_empty(), "docs/testing.md does not describe {missing:?}");
}

#[test]
fn every_key_of_a_scenario_is_described() {
    let page = read("docs/simulate.md");
    let mut keys = Vec::new();
    names(&unfazed::simulate::json_schema(), &mut keys);
    keys.retain(|key| ErrorClass::from_name(key).is_none());
    assert!(keys.len() > 40, "only {} keys were found", keys.len());
    let missing: Vec<_> = keys.iter().filter(|key| !described(&page, key)).collect();
    assert!(missing.is_empty(), "docs/simulate.md does not describe {missing:?}");
}

#[test]
fn every_key_of_a_call_is_described() {
    let page = read("docs/explain-and-diff.md");
    let own = unfazed::analysis::CallFile::json_schema();
    let own = own["properties"].as_object().unwrap().keys();
    let missing: Vec<_> = own.filter(|key| !described(&page, key)).collect();
    assert!(missing.is_empty(), "docs/explain-and-diff.md does not describe {missing:?}");
}

#[test]
fn every_place_in_the_built_in_policy_is_where_its_value_stands() {
    let builtin = read("policies/default.yaml");
    let lines: Vec<&str> = builtin.lines().collect();
    let page = read("docs/explain-and-diff.md");
    let (mut heading, mut checked) = ("", 0);
    for line in page.lines() {
        let Some((_, place)) = line.split_once("builtin:default:") else {
            // The messages of a value stands below it.
            if !line.trim_start().starts_with("won ") {
                heading = line;
            }
            continue;
        };
        let numbers = place.split(|c: char| !c.is_ascii_digit()).take(2);
        let numbers: Vec<usize> = numbers.map(|number| number.parse().unwrap()).collect();
        // A text in a block begins below its key.
        let before = match &lines[numbers[0] - 1][..numbers[1] - 1] {
            blank if blank.trim().is_empty() => lines[numbers[0] - 2].trim_end_matches(['|', '>', '-', ' ']),
            before => before,
        };
        let key = before.trim().trim_end_matches(':').rsplit([' ', '{']).next().unwrap();
        let named = line.contains(key) || heading.contains(key) || page.contains(&format!("{key} = 3\n"));
        assert!(
            named && before.trim_end().ends_with(':'),
            "`{line}`: there stands `{}`",
            lines[numbers[0] - 1]
        );
        checked += 1;
    }
    assert!(checked >= 4, "only {checked} places were found");
}

#[test]
fn every_policy_shown_in_the_readme_is_short() {
    for block in blocks::of("README.md").iter().filter(|block| block.words == "yaml") {
        let lines = block.text.lines().count();
        assert!(lines <= 30, "{}: {lines} lines", block.place());
    }
}

#[test]
fn every_class_is_described() {
    let page = read("docs/policy.md");
    for class in ErrorClass::ALL {
        assert!(page.contains(&format!("| `{class}` |")), "docs/policy.md does not describe `{class}`");
    }
}

#[test]
fn every_metric_is_described_with_its_labels() {
    let page = read("docs/telemetry.md");
    for meter in MetricId::ALL {
        let start = format!("| `{}`", meter.name());
        let row =
            page.lines().find(|line| line.strip_prefix(&start).is_some_and(|rest| !rest.starts_with('_')));
        let row = row.unwrap_or_else(|| panic!("docs/telemetry.md does not describe {}", meter.name()));
        let cell = row.split('|').nth(4).unwrap_or_default().trim();
        let labels: Vec<_> = cell.split(", ").filter(|label| !label.is_empty()).collect();
        let expected: Vec<_> = meter.labels().iter().map(|label| format!("`{label}`")).collect();
        assert_eq!(labels, expected, "{}", meter.name());
    }
}

#[test]
fn every_line_of_the_log_is_described() {
    let page = read("docs/telemetry.md");
    let line =
        regex::Regex::new(r#"(?s)tracing::(?:debug|info|warn|error|event)!\([^;]*?"([^"]+)"\s*\)"#).unwrap();
    let mut sources = String::new();
    read_all(&root().join("src"), &mut sources);
    // The lines about directives have the titles of their narrations.
    let title =
        regex::Regex::new(r#"(?s)(?:Narration::new\(\s*[\w:]+,|warn\()\s*"[^"]+",\s*"([^"]+)""#).unwrap();
    let narrated = ["work", "note"].map(|file| read(&format!("src/engine/narrate/{file}.rs"))).concat();
    let found = line.captures_iter(&sources).chain(title.captures_iter(&narrated));
    let texts: Vec<&str> = found.filter_map(|found| Some(found.get(1)?.as_str())).collect();
    assert!(texts.len() > 60, "only {} lines were found", texts.len());
    // What stands behind a semicolon says what comes of it.
    let row = |text: &str| match text.split_once(';') {
        Some((what, _)) => format!("| `{what}; …` |"),
        None => format!("| `{text}` |"),
    };
    let missing: Vec<_> = texts.iter().filter(|text| !page.contains(&row(text))).collect();
    assert!(missing.is_empty(), "docs/telemetry.md does not describe {missing:?}");
}

#[test]
fn every_key_of_a_policy_is_described() {
    let page = read("docs/policy.md");
    let mut keys = Vec::new();
    names(&unfazed::policy::json_schema(), &mut keys);
    keys.sort();
    keys.dedup();
    assert!(keys.len() > 40, "only {} keys were found", keys.len());
    let missing: Vec<_> = keys.iter().filter(|key| !described(&page, key)).collect();
    assert!(missing.is_empty(), "docs/policy.md does not describe {missing:?}");
}

#[test]
fn every_file_that_is_named_exists() {
    for page in pages().into_iter().chain(["CONTRIBUTING.md".to_owned()]) {
        let text = read(&page);
        for name in text.split('`').filter(|name| {
            ["docs/", "examples/", "policies/", "schemas/", "tests/", "src/"]
                .iter()
                .any(|dir| name.starts_with(dir))
        }) {
            assert!(root().join(name).exists(), "{page}: there is no `{name}`");
        }
    }
}

#[test]
fn every_alias_of_cargo_is_described() {
    let page = read("CONTRIBUTING.md");
    let config = read(".cargo/config.toml");
    let aliases: Vec<&str> = config.lines().filter_map(|line| Some(line.split_once(" = ")?.0)).collect();
    assert!(aliases.contains(&"lint"), "only {aliases:?} were found");
    let missing: Vec<_> =
        aliases.iter().filter(|alias| !page.contains(&format!("`cargo {alias}`"))).collect();
    assert!(missing.is_empty(), "CONTRIBUTING.md does not describe {missing:?}");
}

#[test]
fn every_key_of_a_tools_file_is_described() {
    let page = read("docs/check.md");
    let mut keys = Vec::new();
    names(&serde_json::from_str(&read("schemas/tools.schema.json")).unwrap(), &mut keys);
    assert!(keys.len() >= 7, "only {keys:?} were found");
    let missing: Vec<_> = keys.iter().filter(|key| !described(&page, key)).collect();
    assert!(missing.is_empty(), "docs/check.md does not describe {missing:?}");
}

#[test]
fn the_tools_file_that_is_shown_is_one() {
    let blocks = blocks::of("docs/check.md");
    let shown = blocks.iter().find(|block| block.words == "json").unwrap();
    unfazed::analysis::LintOptions::read_tools(&shown.page, shown.text.as_bytes()).unwrap();
}

/// All of the source, one file after the other.
fn read_all(folder: &Path, text: &mut String) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            read_all(&path, text);
        } else if path.extension().is_some_and(|ext| ext == "rs") {
            text.push_str(&fs::read_to_string(path).unwrap());
        }
    }
}

/// The names of all properties of a schema.
fn names(schema: &serde_json::Value, keys: &mut Vec<String>) {
    match schema {
        serde_json::Value::Object(fields) => {
            if let Some(serde_json::Value::Object(properties)) = fields.get("properties") {
                keys.extend(properties.keys().cloned());
            }
            let inner = fields.iter().filter(|(key, _)| *key != "examples");
            inner.for_each(|(_, value)| names(value, keys));
        }
        serde_json::Value::Array(items) => items.iter().for_each(|item| names(item, keys)),
        _ => {}
    }
}

fn described(page: &str, key: &str) -> bool {
    page.match_indices(key).any(|(at, _)| {
        let word = |c: char| c.is_alphanumeric() || c == '_';
        let inside = page[..at].rsplit('\n').next().is_some_and(|line| line.matches('`').count() % 2 == 1);
        inside && !page[..at].ends_with(word) && !page[at + key.len()..].starts_with(word)
    })
}
