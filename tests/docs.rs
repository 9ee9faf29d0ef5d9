//! The documentation is complete: every page is there, and the tables name what the language knows. What its blocks show is
//! looked at in `tests/guide/`.
#![cfg(feature = "cli")]

use std::fs;
use std::path::{Path, PathBuf};

use unfazed::host::Meter;
use unfazed::policy::ErrorClass;

/// A fenced block of a page.
struct Block {
    page: String,
    line: usize,
    language: String,
    text: String,
}

#[test]
fn every_key_of_a_test_file_is_described() {
    let page = read(&root().join("docs/testing.md"));
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
    let page = read(&root().join("docs/simulate.md"));
    let mut keys = Vec::new();
    names(&unfazed::simulate::json_schema(), &mut keys);
    keys.retain(|key| ErrorClass::from_name(key).is_none());
    assert!(keys.len() > 40, "only {} keys were found", keys.len());
    let missing: Vec<_> = keys.iter().filter(|key| !described(&page, key)).collect();
    assert!(missing.is_empty(), "docs/simulate.md does not describe {missing:?}");
}

#[test]
fn every_key_of_a_call_is_described() {
    let page = read(&root().join("docs/explain-and-diff.md"));
    let own = unfazed::policy::CallFile::json_schema();
    let own = own["properties"].as_object().unwrap().keys();
    let missing: Vec<_> = own.filter(|key| !described(&page, key)).collect();
    assert!(missing.is_empty(), "docs/explain-and-diff.md does not describe {missing:?}");
}

#[test]
fn every_place_in_the_built_in_policy_is_where_its_value_stands() {
    let builtin = read(&root().join("policies/default.yaml"));
    let lines: Vec<&str> = builtin.lines().collect();
    let page = read(&root().join("docs/explain-and-diff.md"));
    let (mut heading, mut checked) = ("", 0);
    for line in page.lines() {
        let Some((_, place)) = line.split_once("builtin:default:") else {
            heading = line;
            continue;
        };
        let numbers = place.split(|c: char| !c.is_ascii_digit()).take(2);
        let numbers: Vec<usize> = numbers.map(|number| number.parse().unwrap()).collect();
        let before = &lines[numbers[0] - 1][..numbers[1] - 1];
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
    let blocks = blocks();
    let shown = blocks.iter().filter(|block| block.page == "README.md" && block.language == "yaml");
    for block in shown {
        let lines = block.text.lines().count();
        assert!(lines <= 30, "README.md:{}: {lines} lines", block.line);
    }
}

#[test]
fn every_class_is_described() {
    let page = read(&root().join("docs/policy.md"));
    for class in ErrorClass::ALL {
        assert!(page.contains(&format!("| `{class}` |")), "docs/policy.md does not describe `{class}`");
    }
}

#[test]
fn every_metric_is_described_with_its_labels() {
    let page = read(&root().join("docs/telemetry.md"));
    for meter in Meter::ALL {
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
    let page = read(&root().join("docs/telemetry.md"));
    let source = read(&root().join("src/host/trace.rs"));
    let line =
        regex::Regex::new(r#"(?s)tracing::(?:debug|info|warn|error|event)!\(.*?"([^"]+)"\s*\)"#).unwrap();
    let texts: Vec<&str> =
        line.captures_iter(&source).filter_map(|found| Some(found.get(1)?.as_str())).collect();
    assert!(texts.len() > 20, "only {} lines were found", texts.len());
    let missing: Vec<_> = texts.iter().filter(|text| !page.contains(&format!("| `{text}` |"))).collect();
    assert!(missing.is_empty(), "docs/telemetry.md does not describe {missing:?}");
}

#[test]
fn every_key_of_a_policy_is_described() {
    let page = read(&root().join("docs/policy.md"));
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
    for page in pages() {
        let text = read(&page);
        for name in text.split('`').filter(|name| {
            ["docs/", "examples/", "policies/", "schemas/", "tests/", "src/"]
                .iter()
                .any(|dir| name.starts_with(dir))
        }) {
            assert!(root().join(name).exists(), "{}: there is no `{name}`", page.display());
        }
    }
}

#[test]
fn every_alias_of_cargo_is_described() {
    let page = read(&root().join("CONTRIBUTING.md"));
    let config = read(&root().join(".cargo/config.toml"));
    let aliases: Vec<&str> = config.lines().filter_map(|line| Some(line.split_once(" = ")?.0)).collect();
    assert!(aliases.contains(&"lint"), "only {aliases:?} were found");
    let missing: Vec<_> =
        aliases.iter().filter(|alias| !page.contains(&format!("`cargo {alias}`"))).collect();
    assert!(missing.is_empty(), "CONTRIBUTING.md does not describe {missing:?}");
}

#[test]
fn every_key_of_a_tools_file_is_described() {
    let page = read(&root().join("docs/check.md"));
    let mut keys = Vec::new();
    names(&unfazed::host::tools_file::ToolsFile::json_schema(), &mut keys);
    assert!(keys.len() >= 7, "only {keys:?} were found");
    let missing: Vec<_> = keys.iter().filter(|key| !described(&page, key)).collect();
    assert!(missing.is_empty(), "docs/check.md does not describe {missing:?}");
}

#[test]
fn the_tools_file_that_is_shown_is_one() {
    let blocks = blocks();
    let shown =
        blocks.iter().find(|block| block.page == "docs/check.md" && block.language == "json").unwrap();
    unfazed::host::tools_file::ToolsFile::read(&shown.page, shown.text.as_bytes()).unwrap();
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

fn blocks() -> Vec<Block> {
    let mut blocks = Vec::new();
    for path in pages() {
        let page = path.strip_prefix(root()).unwrap().display().to_string();
        let text = read(&path);
        let mut open: Option<Block> = None;
        for (index, line) in text.lines().enumerate() {
            match (line.strip_prefix("```"), &mut open) {
                (Some(language), None) => {
                    let (line, language) = (index + 2, language.to_owned());
                    open = Some(Block { page: page.clone(), line, language, text: String::new() });
                }
                (Some(_), Some(_)) => blocks.extend(open.take()),
                (None, Some(block)) => {
                    block.text.push_str(line);
                    block.text.push('\n');
                }
                (None, None) => {}
            }
        }
        assert!(open.is_none(), "{page}: a block has no end");
    }
    blocks
}

fn pages() -> Vec<PathBuf> {
    let mut pages = files("docs", "md");
    pages.push(root().join("README.md"));
    pages.push(root().join("CONTRIBUTING.md"));
    pages
}

fn files(dir: &str, ext: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(root().join(dir)).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let mut paths: Vec<_> = paths.filter(|path| path.extension().is_some_and(|found| found == ext)).collect();
    paths.sort();
    paths
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}
