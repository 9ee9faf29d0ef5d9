//! The page of what is proved: for each document its statements, what shows them, and whether it does.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Write as _;
use std::path::{Component, Path, PathBuf};

use crate::cases::{ProvedClaim, TestSuite, UnmetClaim, UnprovedClaim};
use crate::text::did_you_mean;
use indexmap::IndexMap;

use super::PlayedFile;
use crate::cli::text::one_line;

/// Whether a statement holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum StatementResult {
    /// A test outside of test files shows it; it was not run.
    Tested,
    /// A case shows it.
    Holds,
    /// A case that is to show it fails.
    Fails,
    /// It is known not to be met.
    Unmet(UnprovedClaim),
}

/// What shows a statement: a case or a test of a file.
struct StatementProof<'a> {
    file: &'a str,
    name: &'a str,
    result: StatementResult,
}

/// The statements of the documents, in the order of their numbers, then in which they are first proved.
type DocumentStatements<'a> = BTreeMap<&'a str, IndexMap<&'a str, Vec<StatementProof<'a>>>>;

/// The page, as it is to stand in the file `page`. `command` is how it is written again.
pub(super) fn document(all: &[PlayedFile], page: &Path, command: &str) -> String {
    let documents = documents(all);
    let about: HashMap<&str, &str> =
        sources(all).map(|source| (source.document.as_str(), source.about.as_str())).collect();
    let mut out = String::from(INTRO);
    let _ = writeln!(out, "This page is generated; do not edit it. To write it again:\n\n    {command}\n");
    counts(&mut out, &documents);
    for (document, statements) in &documents {
        let _ = writeln!(out, "\n## {document}\n");
        if let Some(about) = about.get(document) {
            let _ = writeln!(out, "{}\n", escaped(about));
        }
        out.push_str("| statement | shown by | result |\n|---|---|---|\n");
        for (statement, proofs) in statements {
            row(&mut out, statement, proofs, page);
        }
    }
    out
}

/// What is wrong with the names of documents: one is not described though others are, or it is described twice.
pub(super) fn problems(all: &[PlayedFile]) -> Vec<String> {
    let mut known: HashMap<&str, String> = HashMap::new();
    let mut problems = Vec::new();
    for source in sources(all) {
        if let Some(first) = known.get(source.document.as_str()) {
            let (place, name) = (&source.place, &source.document);
            problems.push(format!(
                "{place}: error: `{name}` is described at {first} already; remove one of them"
            ));
        } else {
            known.insert(&source.document, source.place.to_string());
        }
    }
    if known.is_empty() {
        return problems;
    }
    let mut told = HashSet::new();
    for ProvedClaim { document, place, .. } in claims(all).map(|(claim, _)| claim) {
        if known.contains_key(document.as_str()) || !told.insert(document) {
            continue;
        }
        let mut names: Vec<&str> = known.keys().copied().collect();
        names.sort_unstable();
        let help = did_you_mean(document, names).map_or_else(
            || "describe it under `documents`".to_owned(),
            |meant| format!("did you mean `{meant}`?"),
        );
        problems.push(format!("{place}: error: `documents` does not describe `{document}`; {help}"));
    }
    problems
}

const INTRO: &str = "# Conformance

What the policies here are claimed to do, statement by statement, and what shows that they do it. A statement stands in
our words below the document it comes from. Beside it is what shows it:

- **holds**: a case. It was played when this page was written, in virtual time, and all that it expects came. A case
  names the policy it is about; where that is a preset, the statement is about the preset.
- **tested**: a test of the program, because no case can show it: a process that is killed, a disk that is full. It runs
  with the program's tests, not when this page is written.
- **FAILS**: a case, and not all that it expects came.
- **does not hold**: the document says so, and here it is otherwise; beside it is why.
- **not expressible**: the document says so, and no policy can say it; beside it is why.

Statements that are shown by the same case or test depend on each other: together they are one of the facts that are counted.
A fact that statements of several documents share counts for each of these documents, and once in the sum of all.

";

fn sources(all: &[PlayedFile]) -> impl Iterator<Item = &crate::cases::ProofSource> {
    suites(all).flat_map(TestSuite::documents)
}

fn suites(all: &[PlayedFile]) -> impl Iterator<Item = &TestSuite> {
    all.iter().filter_map(|played| played.suite.as_ref())
}

/// Everything that is claimed, with what shows it: per file the cases, then the tests elsewhere.
fn claims(all: &[PlayedFile]) -> impl Iterator<Item = (&ProvedClaim, StatementProof<'_>)> {
    all.iter().flat_map(|played| {
        let cases = played.cases().flat_map(move |(case, verdict)| {
            let result = if verdict.passed() { StatementResult::Holds } else { StatementResult::Fails };
            let proof =
                move |claim| (claim, StatementProof { file: &played.name, name: case.name(), result });
            case.proves().iter().map(proof)
        });
        let elsewhere = played.suite.iter().flat_map(TestSuite::elsewhere).map(|elsewhere| {
            let proof = StatementProof {
                file: &elsewhere.file,
                name: &elsewhere.test,
                result: StatementResult::Tested,
            };
            (&elsewhere.claim, proof)
        });
        let unmet = played.suite.iter().flat_map(TestSuite::unmet).map(|unmet| {
            let UnmetClaim { claim, result, because } = unmet;
            (claim, StatementProof { file: "", name: because, result: StatementResult::Unmet(*result) })
        });
        cases.chain(elsewhere).chain(unmet)
    })
}

fn documents(all: &[PlayedFile]) -> DocumentStatements<'_> {
    let mut documents = DocumentStatements::new();
    for (claim, proof) in claims(all) {
        let statements = documents.entry(&claim.document).or_default();
        statements.entry(&claim.statement).or_default().push(proof);
    }
    for statements in documents.values_mut() {
        statements.sort_by_cached_key(|statement, _| number(statement));
    }
    documents
}

/// The number that a statement begins with, as `E12: …` or `12: …`.
fn number(statement: &str) -> Option<u32> {
    let (label, _) = statement.split_once(": ")?;
    label.trim_start_matches(|c: char| c.is_ascii_uppercase()).parse().ok()
}

/// Whether all that shows a statement does.
fn result(proofs: &[StatementProof<'_>]) -> StatementResult {
    proofs.iter().map(|proof| proof.result).max().unwrap_or(StatementResult::Fails)
}

/// So many statements of each kind, and facts: those that share what shows them, in whatever document, count once.
fn counts(out: &mut String, documents: &DocumentStatements<'_>) {
    out.push_str(
        "| document | statements | facts | hold | tested | fail | do not hold | not expressible |\n\
         |---|---|---|---|---|---|---|---|\n",
    );
    let kinds = [
        StatementResult::Holds,
        StatementResult::Tested,
        StatementResult::Fails,
        StatementResult::Unmet(UnprovedClaim::DoesNotHold),
        StatementResult::Unmet(UnprovedClaim::NotExpressible),
    ];
    let mut total = [0_usize; 5];
    for (document, statements) in documents {
        let count = |wanted| statements.values().filter(|proofs| result(proofs) == wanted).count();
        let counts = kinds.map(count);
        line(
            out,
            &format!("[{document}](#{document})"),
            statements.len(),
            facts(statements.values()),
            counts,
        );
        for (sum, count) in total.iter_mut().zip(counts) {
            *sum += count;
        }
    }
    let all = || documents.values().flat_map(IndexMap::values);
    line(out, "all", all().count(), facts(all()), total);
}

/// How many groups of statements there are of which no two share a case or a test.
fn facts<'a>(statements: impl Iterator<Item = &'a Vec<StatementProof<'a>>>) -> usize {
    let mut groups: Vec<HashSet<(&str, &str)>> = Vec::new();
    for proofs in statements {
        let shown = proofs.iter().filter(|proof| !matches!(proof.result, StatementResult::Unmet(_)));
        let mut group: HashSet<(&str, &str)> = shown.map(|proof| (proof.file, proof.name)).collect();
        if group.is_empty() {
            continue;
        }
        let (same, others) = groups.into_iter().partition(|other| !group.is_disjoint(other));
        groups = others;
        let same: Vec<HashSet<(&str, &str)>> = same;
        group.extend(same.into_iter().flatten());
        groups.push(group);
    }
    groups.len()
}

fn line(out: &mut String, name: &str, statements: usize, facts: usize, counts: [usize; 5]) {
    let counts = counts.map(|count| count.to_string()).join(" | ");
    let _ = writeln!(out, "| {name} | {statements} | {facts} | {counts} |");
}

fn row(out: &mut String, statement: &str, proofs: &[StatementProof<'_>], page: &Path) {
    let shown: Vec<String> = proofs
        .iter()
        .map(|proof| {
            if matches!(proof.result, StatementResult::Unmet(_)) {
                return escaped(proof.name);
            }
            let file = Path::new(proof.file);
            let label = file.file_name().map_or_else(|| proof.file.into(), |name| name.to_string_lossy());
            let name = match proof.result {
                StatementResult::Tested => format!("`{}`", proof.name),
                StatementResult::Holds | StatementResult::Fails | StatementResult::Unmet(_) => {
                    escaped(proof.name)
                }
            };
            format!("[{}]({}): {name}", escaped(&label), link(page, file))
        })
        .collect();
    let result = match result(proofs) {
        StatementResult::Tested => "tested",
        StatementResult::Holds => "holds",
        StatementResult::Fails => "**FAILS**",
        StatementResult::Unmet(UnprovedClaim::DoesNotHold) => "**does not hold**",
        StatementResult::Unmet(UnprovedClaim::NotExpressible) => "**not expressible**",
    };
    let _ = writeln!(out, "| {} | {} | {result} |", escaped(statement), shown.join("<br>"));
}

/// The way from a page to a file.
fn link(page: &Path, file: &Path) -> String {
    let (page, file) = (whole(page), whole(file));
    let folder = page.get(..page.len().saturating_sub(1)).unwrap_or_default();
    let common = folder.iter().zip(&file).take_while(|(one, other)| one == other).count();
    let up = std::iter::repeat_n("..".to_owned(), folder.len() - common);
    let down = file.iter().skip(common).map(|name| encoded(name));
    up.chain(down).collect::<Vec<_>>().join("/")
}

/// The names on the way to a file, from the root, without `.` and `..`.
fn whole(path: &Path) -> Vec<String> {
    let path = std::path::absolute(path).unwrap_or_else(|_| PathBuf::from(path));
    let mut names = Vec::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                names.pop();
            }
            Component::Normal(name) => names.push(name.to_string_lossy().into_owned()),
            Component::Prefix(_) | Component::RootDir | Component::CurDir => {}
        }
    }
    names
}

fn encoded(name: &str) -> String {
    let mut out = String::new();
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => out.push(byte.into()),
            _ => {
                let _ = write!(out, "%{byte:02X}");
            }
        }
    }
    out
}

/// Text as a cell of a table holds it: pieces of code stay, and nothing else is markup.
fn escaped(text: &str) -> String {
    let text = one_line(text);
    let mut out = String::with_capacity(text.len());
    let paired = text.matches('`').count().is_multiple_of(2);
    let mut code = false;
    for c in text.chars() {
        match c {
            '`' if paired => {
                code = !code;
                out.push(c);
            }
            '|' => out.push_str("\\|"),
            _ if code => out.push(c),
            '<' => out.push_str("&lt;"),
            '\\' | '`' | '*' | '_' | '[' | ']' => out.extend(['\\', c]),
            _ => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_but_pieces_of_code_is_markup() {
        assert_eq!(escaped("a|b <c> `*_*` d*"), "a\\|b &lt;c> `*_*` d\\*");
        assert_eq!(escaped("a ` alone\n*"), "a \\` alone \\*");
    }

    #[test]
    fn a_number_stands_before_a_colon() {
        let numbers = ["E12: it holds", "7: it holds", "429, 500: both", "so: 3", "E: it"].map(number);
        assert_eq!(numbers, [Some(12), Some(7), None, None, None]);
    }

    #[test]
    fn links_lead_from_the_page_to_the_file() {
        let link = |page: &str, file: &str| link(Path::new(page), Path::new(file));
        assert_eq!(link("docs/page.md", "tests/cases/a b.yaml"), "../tests/cases/a%20b.yaml");
        assert_eq!(link("docs/page.md", "tests/cases/../kill.rs"), "../tests/kill.rs");
        assert_eq!(link("page.md", "./a.yaml"), "a.yaml");
    }
}
