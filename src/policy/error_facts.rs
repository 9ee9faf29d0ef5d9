//! What rows of the table of errors match, one combination of their lists at a time: so rows can be held against each
//! other by what they do.

use super::{ErrorRow, StatusPattern};

/// More combinations are not looked at.
pub(crate) const MOST: usize = 10_000;

/// Facts about a failure: one of each list of a row, or those of two rows at once.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Facts {
    pub(crate) status: Option<StatusPattern>,
    pub(crate) code: Option<String>,
    pub(crate) kind: Option<String>,
    pub(crate) provider: Option<String>,
    pub(crate) messages: Vec<String>,
    pub(crate) details: Vec<String>,
}

impl Facts {
    /// Every combination that a row lists; beyond what is compared there are no more.
    pub(crate) fn of(row: &ErrorRow) -> Vec<Self> {
        let lower = |text: &String| text.to_lowercase();
        let mut all = vec![Self {
            status: None,
            code: None,
            kind: None,
            provider: None,
            messages: vec![],
            details: vec![],
        }];
        each(&mut all, &row.status, |facts, status| facts.status = Some(*status));
        each(&mut all, &row.code, |facts, code| facts.code = Some(code.clone()));
        each(&mut all, &row.kind, |facts, kind| facts.kind = Some(kind.clone()));
        each(&mut all, &row.provider, |facts, name| facts.provider = Some(lower(name)));
        each(&mut all, &row.message, |facts, part| facts.messages = vec![lower(part)]);
        each(&mut all, &row.detail, |facts, part| facts.details = vec![lower(part)]);
        all
    }

    /// Whether whoever knows `facts` knows these.
    pub(crate) fn holds_for(&self, facts: &Self) -> bool {
        let status = match (self.status, facts.status) {
            (None, _) => true,
            (Some(StatusPattern::Hundred(_)), Some(StatusPattern::Exact(status))) => {
                self.status.is_some_and(|pattern| pattern.matches(status))
            }
            (own, other) => own == other,
        };
        let same = |own: &Option<String>, other: &Option<String>| own.is_none() || own == other;
        let within = |own: &[String], other: &[String]| {
            own.iter().all(|part| other.iter().any(|text| text.contains(part.as_str())))
        };
        status
            && same(&self.code, &facts.code)
            && same(&self.kind, &facts.kind)
            && same(&self.provider, &facts.provider)
            && within(&self.messages, &facts.messages)
            && within(&self.details, &facts.details)
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
            (Some(one), Some(two)) if one != two => None,
            (one, two) => Some(one.clone().or_else(|| two.clone())),
        };
        let joined = |one: &[String], two: &[String]| {
            let more = two.iter().filter(|text| !one.contains(text));
            one.iter().chain(more).cloned().collect()
        };
        Some(Self {
            status,
            code: both(&self.code, &other.code)?,
            kind: both(&self.kind, &other.kind)?,
            provider: both(&self.provider, &other.provider)?,
            messages: joined(&self.messages, &other.messages),
            details: joined(&self.details, &other.details),
        })
    }
}

/// Each with each of a list; as they are if it is empty.
fn each<T>(all: &mut Vec<Facts>, list: &[T], set: impl Fn(&mut Facts, &T)) {
    if list.is_empty() {
        return;
    }
    let with = |facts: &Facts, value: &T| {
        let mut facts = facts.clone();
        set(&mut facts, value);
        facts
    };
    let more = all.iter().flat_map(|facts| list.iter().map(move |value| with(facts, value)));
    *all = more.take(MOST.saturating_add(1)).collect();
}
