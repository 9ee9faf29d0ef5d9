//! The law of lints about words: what they report as without effect can be removed.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use proptest::prelude::*;

use super::LintOptions;
use crate::policy::Policy;
use crate::text::{Code, Report};

const SELECTORS: &[&str] = &["*", "a*", "*b", "a*b", "ab", "a", "b.*", "b.a"];
const FIELDS: &[(&str, &[&str])] = &[
    ("retry.max_attempts", &["2", "3", "4", "null"]),
    (
        "retry.retry_on",
        &["[timeout]", "[timeout, rate_limit]", "{add: [rate_limit]}", "{remove: [timeout]}", "null"],
    ),
    ("on_exhausted", &["fail", "final_turn", "null"]),
    ("priority", &["1", "-1"]),
];
const NAMES: &[&str] = &["", "a", "b", "ab", "aab", "axb", "b.a", "b.b", "x"];

/// A value in one of two files: under `retry`, or under a selector for tools or models.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct FileEntry {
    file: usize,
    block: &'static str,
    selector: &'static str,
    field: &'static str,
}

type FileEntries = BTreeMap<FileEntry, &'static str>;

fn entries() -> impl Strategy<Value = FileEntries> {
    let one = (0..2_usize, 0..4_usize, 0..SELECTORS.len(), 0..FIELDS.len(), 0..5_usize);
    let made = one.prop_map(|(file, block, selector, field, value)| {
        let (field, values) = FIELDS[field];
        let block = if block == 0 && field.starts_with("retry") {
            "retry"
        } else {
            ["tools", "tools", "tools", "models"][block]
        };
        let selector = if block == "retry" { "" } else { SELECTORS[selector] };
        (FileEntry { file, block, selector, field }, values[value % values.len()])
    });
    proptest::collection::btree_map(0..40_u8, made, 0..10).prop_map(|made| made.into_values().collect())
}

/// The two files, every value on a line of its own, and the entry of each line.
fn written(entries: &FileEntries) -> ([String; 2], BTreeMap<(usize, usize), FileEntry>) {
    let (mut files, mut lines) = ([String::new(), String::new()], BTreeMap::new());
    for (number, file) in files.iter_mut().enumerate() {
        file.push_str("version: 1\n");
        let mut last: Vec<&str> = Vec::new();
        for (entry, value) in entries.iter().filter(|(entry, _)| entry.file == number) {
            let steps = [entry.block, entry.selector].into_iter().chain(entry.field.split('.'));
            let mut steps: Vec<&str> = steps.filter(|step| !step.is_empty()).collect();
            if entry.block == "retry" {
                steps.remove(0);
            }
            let same = steps.iter().zip(&last).take_while(|(a, b)| a == b).count();
            for (depth, step) in steps.iter().enumerate().skip(same) {
                let leaf = if depth + 1 == steps.len() { format!(" {value}") } else { String::new() };
                writeln!(file, "{}\"{step}\":{leaf}", "  ".repeat(depth)).unwrap();
            }
            lines.insert((number, file.lines().count()), entry.clone());
            last = steps;
        }
    }
    (files, lines)
}

fn load(files: &[String; 2]) -> Result<Policy, Report> {
    Policy::load(vec![("0".to_owned(), files[0].clone()), ("1".to_owned(), files[1].clone())])
}

/// Everything that holds.
fn effective(policy: &Policy) -> Vec<serde_json::Value> {
    let tools = NAMES.iter().map(|name| policy.explain_tool(name).effective());
    tools.chain(NAMES.iter().map(|name| policy.explain_model(name).effective())).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]
    #[test]
    fn what_changes_nothing_can_be_taken_away(entries in entries()) {
        let (files, lines) = written(&entries);
        let Ok(policy) = load(&files) else { return Ok(()) };
        let report = policy.lint(&LintOptions::default());
        let idle = [Code::SHADOWED, Code::NO_OP, Code::IDLE_NULL];
        for problem in report.diagnostics().iter().filter(|problem| idle.contains(&problem.code)) {
            let place = report.sources().place_of(problem.span);
            let entry = &lines[&(place.file.parse().unwrap(), place.line as usize)];
            let mut rest = entries.clone();
            rest.remove(entry);
            match load(&written(&rest).0) {
                Ok(without) => prop_assert_eq!(effective(&policy), effective(&without), "{}\n{:?}", problem.message, files),
                // What is shadowed may still keep two patterns below it from a conflict.
                Err(report) => prop_assert!(problem.code == Code::SHADOWED, "{}: {report}\n{:?}", problem.message, files),
            }
        }
    }
}
