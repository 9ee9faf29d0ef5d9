//! The pages about problems are true: every code has one, every example shows what it is for, every repair repairs it.

use std::collections::BTreeSet;

use unfazed::analysis::LintOptions;
use unfazed::policy::Policy;
use unfazed::text::{Code, Report};

const PAGES: &str = include_str!("../../docs/rules.md");
/// A file for one of these would be too long to show, or no text.
const WITHOUT_EXAMPLE: &[Code] = &[Code::TOO_LARGE, Code::TOO_DEEP, Code::ENCODING];

struct Page {
    id: &'static str,
    body: &'static str,
}

#[test]
fn every_code_has_a_page_and_every_page_a_code() {
    let codes: Vec<&str> = Code::ALL.iter().map(|code| code.as_str()).collect();
    let ids: Vec<&str> = pages().iter().map(|page| page.id).collect();
    assert_eq!(ids, codes, "docs/rules.md has the codes of src/text/diagnostic.rs, in their order");
}

#[test]
fn every_example_shows_its_problem_and_every_repair_is_without_it() {
    let mut untrue = Vec::new();
    for page in pages() {
        let (wrong, right) = (blocks(page.body, "yaml wrong"), blocks(page.body, "yaml right"));
        let shown = !WITHOUT_EXAMPLE.iter().any(|code| code.as_str() == page.id);
        assert_eq!(
            (!wrong.is_empty(), !right.is_empty()),
            (shown, shown),
            "{}: an example and its repair",
            page.id
        );
        let options = match &blocks(page.body, "json tools")[..] {
            [] => LintOptions::default(),
            [text, ..] => LintOptions::read_tools("tools.json", text.as_bytes()).unwrap(),
        };
        let (example, repair) = (found(&wrong, &options), found(&right, &options));
        if shown && !example.contains(page.id) {
            untrue.push(format!("{}: the example shows {example:?}", page.id));
        }
        if !repair.is_empty() {
            untrue.push(format!("{}: the repair shows {repair:?}", page.id));
        }
    }
    assert!(untrue.is_empty(), "{untrue:#?}");
}

#[test]
fn every_page_of_a_lint_says_how_to_suppress_it() {
    for page in pages() {
        let suppressible = page.id.starts_with('W') && page.id != "W0299";
        assert_eq!(
            page.body.contains(&format!("`# unfazed: ignore[{}]`", page.id)),
            suppressible,
            "{}",
            page.id
        );
    }
}

#[test]
fn code_that_is_copied_from_the_introduction_is_right() {
    let policy = format!("version: 1\n{}", blocks(PAGES, "yaml comment")[0]);
    assert!(!found(&[policy], &LintOptions::default()).contains("P0205"));
}

/// The codes of everything that is said of these files as layers.
fn found(files: &[String], options: &LintOptions) -> BTreeSet<String> {
    let named = files.iter().enumerate().map(|(i, text)| (format!("{i}.yaml"), text.clone()));
    let report: Report = match Policy::load(named.collect()) {
        Ok(policy) => policy.lint(options),
        Err(report) => report,
    };
    report.diagnostics().iter().map(|problem| problem.code.to_string()).collect()
}

fn pages() -> Vec<Page> {
    let sections = PAGES.split("\n## ").skip(1);
    let pages = sections.map(|section| {
        let (heading, body) = section.split_once('\n').unwrap();
        let (id, title) = heading.split_once(": ").expect(heading);
        assert!(!title.is_empty() && !body.trim().is_empty(), "{id}");
        Page { id, body }
    });
    pages.collect()
}

/// The fenced blocks of that kind.
fn blocks(text: &str, kind: &str) -> Vec<String> {
    let fence = format!("```{kind}\n");
    let found = text
        .split(&fence)
        .skip(1)
        .map(|rest| rest.split_once("```").expect("a block has an end").0.to_owned());
    found.collect()
}
