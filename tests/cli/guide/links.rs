//! The links of the guide, and its table of contents.

use std::collections::BTreeMap;

use regex::Regex;

use super::{pages, read, root};

/// A page that is read in the repository, beside what it names, and is no chapter of the book.
const IN_THE_REPOSITORY: &str = "docs/conformance.md";

#[test]
fn every_link_leads_to_a_page_and_a_heading_of_it() {
    let link = Regex::new(r"\]\(([^)\s]+)\)|(?m:^\[[^\]]+\]: (\S+)$)").unwrap();
    let (mut broken, mut checked) = (Vec::new(), 0);
    for page in pages() {
        let text = without_code(&read(&page));
        for found in link.captures_iter(&text) {
            let target = found.get(1).or(found.get(2)).unwrap().as_str();
            if target.starts_with("https://") {
                continue;
            }
            checked += 1;
            let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
            let folder = page.rsplit_once('/').map_or("", |(folder, _)| folder);
            let file = match (file, folder) {
                ("", _) => page.clone(),
                (file, "") => file.to_owned(),
                (file, folder) => format!("{folder}/{file}"),
            };
            let inside = page == "README.md" || page == IN_THE_REPOSITORY || !target.contains('/');
            let there = root().join(&file).is_file();
            if !inside || !there || !anchor.is_empty() && !anchors(&read(&file)).contains(&anchor.to_owned())
            {
                broken.push(format!("{page}: {target}"));
            }
        }
    }
    assert!(checked > 100, "only {checked} links were found");
    assert!(broken.is_empty(), "these lead nowhere: {broken:#?}");
}

#[test]
fn every_page_is_a_chapter_once() {
    let summary = read("docs/SUMMARY.md");
    let mut chapters: Vec<_> = summary
        .split("](")
        .skip(1)
        .filter_map(|rest| Some(format!("docs/{}", rest.split_once(')')?.0)))
        .collect();
    chapters.sort();
    let mut expected: Vec<_> = pages()
        .into_iter()
        .filter(|page| {
            page.starts_with("docs/") && !page.ends_with("SUMMARY.md") && page != IN_THE_REPOSITORY
        })
        .collect();
    expected.sort();
    assert_eq!(chapters, expected, "docs/SUMMARY.md lists the pages of docs/");
}

#[test]
fn a_heading_has_the_anchor_that_the_book_gives_it() {
    let page = "# `tools.*.retry`\n## What *it* is: a [page](x.md)?\n## Twice\n## Twice\n";
    assert_eq!(anchors(page), ["toolsretry", "what-it-is-a-page", "twice", "twice-1"]);
}

/// The anchors of all headings.
fn anchors(page: &str) -> Vec<String> {
    let mut times: BTreeMap<String, usize> = BTreeMap::new();
    let headings =
        page.lines().filter(|line| line.starts_with('#') && line.trim_start_matches('#').starts_with(' '));
    let shown = Regex::new(r"\[([^\]]*)\]\([^)]*\)").unwrap();
    let anchor = |heading: &str| {
        let heading = shown.replace_all(heading.trim_start_matches('#').trim(), "$1").to_lowercase();
        let kept = heading.chars().filter(|c| c.is_alphanumeric() || " _-".contains(*c));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect::<String>()
    };
    let fresh = |anchor: String, times: &mut BTreeMap<String, usize>| {
        let seen = times.entry(anchor.clone()).or_default();
        *seen += 1;
        if *seen == 1 { anchor } else { format!("{anchor}-{}", *seen - 1) }
    };
    headings.map(|heading| fresh(anchor(heading), &mut times)).collect()
}

/// The text without blocks and pieces of code, in which nothing is a link.
fn without_code(text: &str) -> String {
    let mut inside = false;
    let lines = text.lines().filter(|line| {
        let fence = line.starts_with("```");
        inside ^= fence;
        !inside && !fence
    });
    let text = lines.collect::<Vec<_>>().join("\n");
    Regex::new(r"`[^`\n]*`").unwrap().replace_all(&text, "").into_owned()
}
