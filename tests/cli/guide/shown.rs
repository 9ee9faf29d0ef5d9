//! What is shown is true.

use std::path::Path;

use unfazed::analysis::LintOptions;
use unfazed::host::agent_file::NamedAgent;
use unfazed::host::scripted::Script;
use unfazed::policy::Loader;
use unfazed::simulate::Scenario;
use unfazed::text::Report;

use super::blocks::{self, Block};
use super::{files, pages, read};

#[test]
fn every_file_shown_loads_or_has_the_problem_it_is_shown_for() {
    let mut checked = 0;
    for page in pages().iter().filter(|page| *page != "docs/rules.md") {
        let mut above: Vec<Block> = Vec::new();
        for block in blocks::of(page).into_iter().filter(|block| block.words.starts_with("yaml")) {
            match (problem(&block, &above), block.words.as_str()) {
                (Some(problem), "yaml" | "yaml written") => panic!("{}\n{problem}", block.place()),
                (None, "yaml wrong") => panic!("{}: nothing is wrong with it", block.place()),
                _ => {}
            }
            above.push(block);
            checked += 1;
        }
    }
    assert!(checked >= 20, "only {checked} files were found");
}

/// What is wrong with a file; `None`: nothing.
fn problem(block: &Block, above: &[Block]) -> Option<String> {
    let (name, text) = (block.name(), &block.text);
    let find = |_: &str, path: &str| match above.iter().rev().find(|block| block.name() == path) {
        Some(block) => Ok((path.to_owned(), block.text.clone().into_bytes())),
        None => Err(format!("there is no {path} above it")),
    };
    if name.ends_with(".test.yaml") {
        return cases(name, text, find);
    }
    let report = match name {
        "agent.yaml" | "gateway.yaml" => agent(name, text),
        "model.yaml" => Script::from_yaml(name, text.as_bytes()).err(),
        "outage.yaml" | "limits.yaml" => Scenario::read(name, text.as_bytes()).err(),
        _ => match Loader::new().load_with(&mut { find }, vec![(name.to_owned(), text)]) {
            // What is shown is copied; it must not be what check warns of.
            Ok(policy) => Some(policy.lint(&LintOptions::default())).filter(|report| !report.is_empty()),
            Err(report) => Some(report),
        },
    };
    report.map(|report| report.human(false))
}

/// What is wrong with an agent file itself: what it names is not there.
fn agent(name: &str, text: &str) -> Option<Report> {
    let (_, reports) = NamedAgent::read(Path::new(name), text.as_bytes(), &Loader::new());
    reports.into_iter().find(|report| !report.human(false).contains("no such file"))
}

fn cases(
    name: &str,
    text: &str,
    find: impl FnMut(&str, &str) -> Result<(String, Vec<u8>), String>,
) -> Option<String> {
    let suite = match unfazed::cases::SuiteLoader::new(find).read(name, text.as_bytes()) {
        Ok(suite) => suite,
        Err(reports) => return Some(reports.iter().map(|report| report.human(false)).collect()),
    };
    assert!(!suite.cases().is_empty());
    let failed = suite.cases().iter().filter_map(|case| {
        let verdict = case.run();
        (!verdict.passed()).then(|| format!("{}: {:#?}\n", case.name(), verdict.mismatches))
    });
    Some(failed.collect()).filter(|text: &String| !text.is_empty())
}

#[test]
fn every_piece_of_rust_in_the_readme_stands_in_an_example() {
    let paths = files("examples", "rs");
    let examples: Vec<String> =
        paths.iter().map(|path| outdented(&std::fs::read_to_string(path).unwrap())).collect();
    let mut checked = 0;
    for block in blocks::of("README.md").iter().filter(|block| block.words == "rust") {
        let text = outdented(&block.text);
        let found = examples.iter().any(|example| example.contains(text.trim()));
        assert!(found, "{}: no example has these lines:\n{text}", block.place());
        checked += 1;
    }
    assert!(checked >= 2, "only {checked} pieces were found");
}

#[test]
fn every_page_with_rust_is_compiled() {
    let compiled = read("src/doctests.rs");
    let mut checked = 0;
    for block in blocks::all().iter().filter(|block| block.words == "rust" && block.page != "README.md") {
        let included = compiled.contains(&format!("include_str!(\"../{}\")", block.page));
        assert!(included, "{}: src/doctests.rs does not name its page", block.place());
        checked += 1;
    }
    assert!(checked >= 3, "only {checked} pieces were found");
}

/// The text without the blanks its lines begin with.
fn outdented(text: &str) -> String {
    text.lines().map(str::trim_start).collect::<Vec<_>>().join("\n")
}
