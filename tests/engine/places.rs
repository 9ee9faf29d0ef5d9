//! "Where a rule is" and "Where to add what" in `docs/architecture.md` are true: the functions and the places exist, and
//! what there is of a sample of each row is in its places.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::purity::{code, names, quoted, read, root, walk};

/// A row, by what it begins with, and a sample: its names in code and in what people write. Each is looked for in `src`, tests apart,
/// and in `policies`; and in the pages and cases that the row names.
const SAMPLES: &[(&str, &[&str])] = &[
    ("a key of the policy language", &["min_attempt_time"]),
    ("a check of the retry decision", &["ShouldNotRetry"]),
    ("a lint", &["OPEN_FOR_ALL", "W0249"]),
    ("an error class", &["AuthError"]),
    ("an event", &["StopRequested", "stop_requested"]),
    ("a directive", &["ToolsHidden", "tools_hidden"]),
    ("what is remembered of tools or models", &["ModelHealth"]),
    ("a provider", &["AnthropicKeys", "ANTHROPIC"]),
    ("a server that speaks the format of another provider", &["COPILOT"]),
    ("a kind of tool", &["ProcessTool"]),
    ("tools that change while a run continues", &["McpServer"]),
    ("what a reducer does", &["Increment", "increment"]),
    ("what a scenario can say", &["WindowFile"]),
    ("a place to keep sessions", &["PgStore"]),
    ("a place where hosts share breakers and budgets", &["InProcess"]),
    ("a command", &["CompletionsArgs"]),
];

#[test]
fn every_rule_is_where_it_is_said_to_be() {
    let page = read(&root().join("docs/architecture.md"));
    let (_, table) = page.split_once("| the rule | decided in | by |\n|---|---|---|\n").expect("the table");
    let rows: Vec<&str> = table.lines().take_while(|line| line.starts_with('|')).collect();
    assert!(rows.len() > 20, "{rows:?}");
    for row in rows {
        let [.., file, function] = &quoted(row)[..] else { panic!("two names: {row}") };
        let lines = code(&root().join("src").join(file));
        let declared = format!("fn {function}");
        assert!(lines.iter().any(|(_, line)| names(line, &declared)), "`{declared}` is not in {file}");
    }
}

#[test]
fn every_place_there_is() {
    let missing: Vec<String> =
        table().into_iter().flat_map(|(_, places)| places).filter(|place| found(place).is_none()).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn every_row_has_a_sample() {
    let rows: Vec<String> = table().into_iter().map(|(row, _)| row).collect();
    let samples: Vec<&str> = SAMPLES.iter().map(|(row, _)| *row).collect();
    assert_eq!(samples, rows);
}

#[test]
fn what_there_is_of_a_sample_is_where_its_row_says() {
    let mut wrong = Vec::new();
    for ((row, places), (_, words)) in table().into_iter().zip(SAMPLES) {
        let places: Vec<PathBuf> = places.iter().filter_map(|place| found(place)).collect();
        let named = named(words, &places);
        for file in &named {
            if !places.iter().any(|place| file.starts_with(place)) {
                wrong.push(format!("{row}: {words:?} is in {} too", file.display()));
            }
        }
        if named.is_empty() {
            wrong.push(format!("{row}: {words:?} is nowhere"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The rows of the table: what is to be added, and the places that are named.
fn table() -> Vec<(String, Vec<String>)> {
    let page = read(&root().join("docs/architecture.md"));
    let (_, table) = page.split_once("| you want to add | go to |\n|---|---|\n").expect("the table");
    let rows = table.lines().take_while(|line| line.starts_with('|'));
    rows.map(|row| {
        let (what, places) = row.trim_matches(['|', ' ']).split_once(" | ").expect("two columns");
        let places = quoted(places).into_iter().filter(|place| place.contains('/'));
        (what.to_owned(), places.collect())
    })
    .collect()
}

/// A place as a path from the root: of the sources, or of the repository.
fn found(place: &str) -> Option<PathBuf> {
    let places = [Path::new("src").join(place), PathBuf::from(place)];
    places.into_iter().find(|path| root().join(path).exists())
}

/// The files that name one of the words.
fn named(words: &[&str], places: &[PathBuf]) -> BTreeSet<PathBuf> {
    let mut files = Vec::new();
    walk(&root().join("src"), &mut files);
    for folder in [Path::new("policies")].into_iter().chain(places.iter().map(PathBuf::as_path)) {
        written(&root().join(folder), &mut files);
    }
    let names_one = |line: &str| words.iter().any(|word| names(line, word));
    files.retain(|file| code(file).iter().any(|(_, line)| names_one(line)));
    files.iter().map(|file| file.strip_prefix(root()).unwrap().to_owned()).collect()
}

/// Files that are no sources, of a folder or alone.
fn written(place: &Path, files: &mut Vec<PathBuf>) {
    if place.is_dir() {
        for entry in fs::read_dir(place).unwrap() {
            written(&entry.unwrap().path(), files);
        }
    } else if place.extension().is_some_and(|extension| extension == "yaml" || extension == "md") {
        files.push(place.to_owned());
    }
}
