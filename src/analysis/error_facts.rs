//! What rows of the table of errors match, one combination of their lists at a time: so rows can be held against each
//! other by what they do.

use crate::policy::classify::{folded, identifier, phrase};
use crate::policy::{ErrorRow, StatusPattern};

/// More combinations are not looked at.
pub(crate) const MOST: usize = 10_000;

/// Facts about a failure: one of each list of a row, or those of two rows at once.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ErrorFacts {
    pub(crate) status: Option<StatusPattern>,
    pub(crate) code: Option<String>,
    pub(crate) kind: Option<String>,
    pub(crate) provider: Option<String>,
    pub(crate) messages: Vec<String>,
    /// Of each list one phrase is there; it is unknown which.
    pub(crate) words: Vec<Vec<String>>,
    pub(crate) details: Vec<String>,
}

impl ErrorFacts {
    /// Every combination that a row lists; beyond what is compared there are no more.
    pub(crate) fn of(row: &ErrorRow) -> Vec<Self> {
        let mut all = vec![Self {
            status: None,
            code: None,
            kind: None,
            provider: None,
            messages: vec![],
            words: row
                .words
                .iter()
                .map(|concept| concept.iter().map(|text| phrase(text)).collect())
                .collect(),
            details: vec![],
        }];
        each(&mut all, &row.status, |facts, status| facts.status = Some(*status));
        each(&mut all, &row.code, |facts, code| facts.code = Some(code.clone()));
        each(&mut all, &row.kind, |facts, kind| facts.kind = Some(kind.clone()));
        each(&mut all, &row.provider, |facts, name| facts.provider = Some(name.to_lowercase()));
        each(&mut all, &row.message, |facts, part| facts.messages = vec![folded(part)]);
        each(&mut all, &row.detail, |facts, part| facts.details = vec![folded(part)]);
        all
    }

    /// Whether `facts` imply these facts.
    pub(crate) fn holds_for(&self, facts: &Self) -> bool {
        let status = match (self.status, facts.status) {
            (None, _) => true,
            (Some(StatusPattern::Hundred(_)), Some(StatusPattern::Exact(status))) => {
                self.status.is_some_and(|pattern| pattern.matches(status))
            }
            (own, other) => own == other,
        };
        let same = |own: &Option<String>, other: &Option<String>| match (own, other) {
            (None, _) => true,
            (Some(own), Some(other)) => folded(own).trim() == folded(other).trim(),
            (Some(_), None) => false,
        };
        let within = |own: &[String], other: &[String]| {
            own.iter().all(|part| other.iter().any(|text| text.contains(part.as_str())))
        };
        status
            && same(&self.code, &facts.code)
            && same(&self.kind, &facts.kind)
            && same(&self.provider, &facts.provider)
            && self.messages.iter().all(|part| facts.holds_piece(part))
            && self.words.iter().all(|concept| facts.speaks_of(concept))
            && within(&self.details, &facts.details)
    }

    /// Whether the message certainly holds a piece.
    fn holds_piece(&self, piece: &str) -> bool {
        self.messages.iter().any(|text| text.contains(piece))
            || self.words.iter().any(|concept| concept.iter().all(|text| text.contains(piece)))
    }

    /// Whether what is known certainly speaks of a concept.
    fn speaks_of(&self, concept: &[String]) -> bool {
        let within = |text: &str| concept.iter().any(|phrase| text.contains(phrase.as_str()));
        let names = [&self.code, &self.kind].into_iter().flatten();
        names.map(|name| identifier(name)).chain(self.messages.iter().cloned()).any(|text| {
            // It is looked at as if nothing else stood around it.
            within(&folded(&format!(" {text} ")))
        }) || self.words.iter().any(|known| known.iter().all(|text| within(text)))
    }

    /// What is known of a failure that both are of; `None`: there is none.
    pub(crate) fn with(&self, other: &Self) -> Option<Self> {
        let status = match (self.status, other.status) {
            (None, status) | (status, None) => status,
            (Some(one), Some(two)) if one == two => Some(one),
            (Some(StatusPattern::Exact(status)), Some(pattern))
            | (Some(pattern), Some(StatusPattern::Exact(status))) => {
                Some(StatusPattern::Exact(status)).filter(|_| pattern.matches(status))?.into()
            }
            _ => return None,
        };
        let both = |one: &Option<String>, two: &Option<String>| match (one, two) {
            (Some(one), Some(two)) if folded(one).trim() != folded(two).trim() => None,
            (one, two) => Some(one.clone().or_else(|| two.clone())),
        };
        Some(Self {
            status,
            code: both(&self.code, &other.code)?,
            kind: both(&self.kind, &other.kind)?,
            provider: both(&self.provider, &other.provider)?,
            messages: joined(&self.messages, &other.messages),
            words: joined(&self.words, &other.words),
            details: joined(&self.details, &other.details),
        })
    }
}

fn joined<T: Clone + PartialEq>(one: &[T], two: &[T]) -> Vec<T> {
    let more = two.iter().filter(|text| !one.contains(text));
    one.iter().chain(more).cloned().collect()
}

/// Each with each of a list; as they are if it is empty.
fn each<T>(all: &mut Vec<ErrorFacts>, list: &[T], set: impl Fn(&mut ErrorFacts, &T)) {
    if list.is_empty() {
        return;
    }
    let with = |facts: &ErrorFacts, value: &T| {
        let mut facts = facts.clone();
        set(&mut facts, value);
        facts
    };
    let more = all.iter().flat_map(|facts| list.iter().map(move |value| with(facts, value)));
    *all = more.take(MOST.saturating_add(1)).collect();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Policy;

    #[test]
    fn no_built_in_row_is_shadowed_by_a_broader_one_before_it() {
        let policy = Policy::builtin();
        let mut before: Vec<(ErrorFacts, &ErrorRow)> = Vec::new();
        let mut shadowed = Vec::new();
        for row in policy.errors().rows() {
            let all = ErrorFacts::of(row);
            for facts in &all {
                let by = |facts: &ErrorFacts| {
                    before.iter().find(|(asked, _)| asked.holds_for(facts)).map(|(_, row)| *row)
                };
                let told = |by: &ErrorRow, what: &str| {
                    format!(
                        "{} {what}\n  by {} {}",
                        policy.place(row.origin),
                        policy.place(by.origin),
                        by.tells()
                    )
                };
                if let Some(by) = by(facts) {
                    shadowed.push(told(by, &format!("{facts:?}")));
                    continue;
                }
                // Of a concept each phrase is looked at as well: one of another class must not be hidden.
                for (at, concept) in facts.words.iter().enumerate() {
                    for phrase in concept {
                        let mut one = facts.clone();
                        if let Some(words) = one.words.get_mut(at) {
                            *words = vec![phrase.clone()];
                        }
                        if let Some(by) = by(&one).filter(|by| by.class != row.class) {
                            shadowed.push(told(by, phrase));
                        }
                    }
                }
            }
            before.extend(all.into_iter().map(|facts| (facts, row)));
        }
        assert!(shadowed.is_empty(), "{}", shadowed.join("\n"));
    }
}
