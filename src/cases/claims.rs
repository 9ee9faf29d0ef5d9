//! From what test files say is proved to claims with their places.

use std::collections::BTreeSet;

use super::proves::{
    ByDocument, ElsewhereRule, FittingWords, ProofSource, ProvedClaim, StatementList, UnmetClaim, UnmetRule,
};
use crate::policy::decode::Spanned;
use crate::text::{Code, Diagnostic, Sources};

/// The statements a case proves.
pub(super) fn of_case(proves: &ByDocument<StatementList>, sources: &Sources) -> Vec<ProvedClaim> {
    let each = proves.0.iter().flat_map(|(document, statements)| {
        statements.0.iter().map(|statement| claim(&document.value, statement, sources))
    });
    each.collect()
}

/// The statement that a test elsewhere shows.
pub(super) fn of_test(rule: &ElsewhereRule, sources: &Sources) -> ProvedClaim {
    claim(&rule.document.0, &rule.statement, sources)
}

/// The statements that are not met.
pub(super) fn unmet(rules: &[UnmetRule], sources: &Sources) -> Vec<UnmetClaim> {
    let each = rules.iter().map(|rule| UnmetClaim {
        claim: claim(&rule.document.0, &rule.statement, sources),
        result: rule.result,
        because: rule.because.0.clone(),
    });
    each.collect()
}

/// The documents that are described.
pub(super) fn documents(documents: &ByDocument<FittingWords>, sources: &Sources) -> Vec<ProofSource> {
    let each = documents.0.iter().map(|(document, about)| ProofSource {
        document: document.value.clone(),
        about: about.0.clone(),
        place: sources.place_of(document.span),
    });
    each.collect()
}

/// What is wrong if a file does not have a test of that name.
pub(super) fn missing(test: &Spanned<String>, file: &str, bytes: &[u8]) -> Option<Diagnostic> {
    let content = String::from_utf8_lossy(bytes);
    let words =
        || content.split(|c: char| !(c.is_alphanumeric() || c == '_')).filter(|word| !word.is_empty());
    if words().any(|word| word == test.value) {
        return None;
    }
    let known: BTreeSet<&str> = words().collect();
    let message = format!("{file} has no `{}`", test.value);
    let problem = Diagnostic::error(Code::UNKNOWN_NAME, test.span, message);
    Some(match crate::text::did_you_mean(&test.value, known.iter().copied()) {
        Some(meant) => problem.meant(test.span, &test.value, meant, known.iter().copied()),
        None => problem.help("write the name of a test as it stands in that file"),
    })
}

fn claim(document: &str, statement: &Spanned<FittingWords>, sources: &Sources) -> ProvedClaim {
    ProvedClaim {
        document: document.to_owned(),
        statement: statement.value.0.clone(),
        place: sources.place_of(statement.span),
    }
}
