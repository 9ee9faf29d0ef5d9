//! What the lints have found so far.

use std::collections::{BTreeMap, BTreeSet};

use crate::policy::Origin;
use crate::policy::builtin::{BUILTIN_TEXTS, is_builtin};
use crate::text::{Code, Diagnostic, SourceId, Sources, Span};

/// The maximum number of findings kept per lint.
const MOST: usize = 5_000;

/// Findings, each once.
pub(super) struct LintFindings<'p> {
    sources: &'p Sources,
    all: Vec<Diagnostic>,
    told: BTreeSet<(Code, Span, String)>,
    counts: BTreeMap<Code, usize>,
}

impl<'p> LintFindings<'p> {
    pub(super) fn new(sources: &'p Sources) -> Self {
        Self { sources, all: Vec::new(), told: BTreeSet::new(), counts: BTreeMap::new() }
    }

    /// Writes a finding down, unless it has been reported already or there are too many.
    pub(super) fn push(&mut self, problem: Diagnostic) {
        let count = self.counts.entry(problem.code).or_default();
        if *count < MOST && self.told.insert((problem.code, problem.span, problem.message.clone())) {
            *count = count.saturating_add(1);
            self.all.push(problem);
        }
    }

    /// The lints that may have found more than was kept.
    pub(super) fn crowded(&self) -> BTreeSet<Code> {
        self.counts.iter().filter(|(_, count)| **count >= MOST).map(|(code, _)| *code).collect()
    }

    pub(super) fn into_diagnostics(self) -> Vec<Diagnostic> {
        self.all
    }

    /// The scalar that is written there, or the start of what else is.
    pub(super) fn token(&self, origin: Origin) -> Span {
        let text = self.sources.get(origin.source).map_or("", |source| source.text());
        let rest = text.get(origin.at as usize..).unwrap_or_default();
        let length = match rest.chars().next() {
            Some('{' | '[' | '"' | '\'') => 1,
            _ => rest.find([' ', ',', '}', ']', '#', '\n', '\r']).unwrap_or(rest.len()),
        };
        let length = u32::try_from(length).unwrap_or_default();
        Span::new(origin.source, origin.at, origin.at.saturating_add(length))
    }

    /// What is written there.
    pub(super) fn text(&self, span: Span) -> &str {
        let text = self.sources.get(span.source).map_or("", |source| source.text());
        text.get(span.range()).unwrap_or_default()
    }

    /// The value of a key in the mapping that is written there.
    pub(super) fn value_of(&self, mapping: Span, key: &str) -> Option<Span> {
        let text = self.text(mapping);
        let places = text.match_indices(key).find_map(|(at, _)| {
            let before = text.get(..at)?.trim_end_matches([' ', '"', '\'']);
            let begins = before.is_empty() || before.ends_with(['{', ',', '\n']);
            let after = at.saturating_add(key.len());
            let rest = text.get(after..)?.trim_start_matches([' ', '"', '\'']).strip_prefix(':')?;
            let value = rest.trim_start_matches(' ');
            let start = text.len().saturating_sub(value.len());
            let length = match value.chars().next()? {
                '[' => value.find(']')?.saturating_add(1),
                _ => value.find([',', '}', '\n', '\r', '#']).unwrap_or(value.len()),
            };
            let length = value.get(..length)?.trim_end().len();
            (begins && length > 0).then_some((start, length))
        });
        let (start, length) = places?;
        let at = |offset: usize| mapping.start.saturating_add(u32::try_from(offset).unwrap_or_default());
        Some(Span { start: at(start), end: at(start.saturating_add(length)), ..mapping })
    }

    /// Where it is written, if in a file of the user.
    pub(super) fn place(&self, origin: Origin) -> Option<Span> {
        (!is_builtin(origin.source)).then(|| self.token(origin))
    }

    /// Whether it is written in a policy that ships with the product, a preset included.
    pub(super) fn ships(&self, span: Span) -> bool {
        is_builtin(span.source)
            || self.sources.get(span.source).is_some_and(|source| source.name().starts_with("builtin:"))
    }

    /// The start of the first file of the user, for what no file says.
    pub(super) fn start(&self) -> Span {
        let first = if self.sources.len() > BUILTIN_TEXTS { BUILTIN_TEXTS } else { 0 };
        Span::new(SourceId(u16::try_from(first).unwrap_or_default()), 0, 0)
    }
}
