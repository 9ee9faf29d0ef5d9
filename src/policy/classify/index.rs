//! Which rows may match a failure. Most rows name something that most failures do not have: only the rest are held
//! against it.

use std::collections::HashMap;

use super::fold::{folded, identifier, phrase, plain};
use super::search::TextSearch;
use super::unstated::{MARKERS, UnstatedParts};
use super::{ErrorRow, FailureEvidence};

/// Codes and types that only say that there is an error. Their words tell nothing about which.
// OpenAI and Anthropic send `invalid_request_error` for an empty balance, an overflow and a malformed history alike.
const EMPTY: [&str; 8] = [
    "error",
    "api_error",
    "invalid_request_error",
    "invalid_request",
    "invalid_parameter_error",
    "invalid_argument",
    "BadRequestError",
    "bad_request",
];

/// The number of a text that says nothing, and is in no message.
const NEVER: usize = usize::MAX;

/// What finds the rows of a table.
#[derive(Debug)]
pub(crate) struct RowIndex {
    /// The rows with a code, and those with a type, by what they name.
    codes: NameIndex,
    kinds: NameIndex,
    /// Rows that name neither a code, a type, nor a text.
    always: RowSet,
    messages: FieldTexts,
    details: FieldTexts,
    needs: Vec<RowNeeds>,
}

/// By what a row is found: of the things it names the one that the fewest failures have.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RowKey {
    Code,
    Kind,
    Words,
    Message,
    Detail,
    Nothing,
}

/// The texts of a row, by their numbers.
#[derive(Debug)]
struct RowNeeds {
    message: Vec<usize>,
    words: Vec<Vec<usize>>,
    detail: Vec<usize>,
}

/// The texts that rows look for in a field.
#[derive(Debug)]
struct FieldTexts {
    search: TextSearch,
    /// For each text, whether it is looked for in codes and types too, and the rows that are asked when it is found.
    asks: Vec<(bool, Vec<usize>)>,
    /// The texts that parts which state nothing begin with.
    markers: Vec<usize>,
}

#[derive(Debug, Default)]
struct NameIndex(HashMap<String, Vec<usize>>);

/// Rows by their numbers.
#[derive(Clone, Debug, Default)]
struct RowSet(Vec<u64>);

/// Texts as they are collected, each once.
#[derive(Default)]
struct CollectedTexts {
    numbers: HashMap<(String, bool), usize>,
    texts: Vec<String>,
    asks: Vec<(bool, Vec<usize>)>,
}

impl RowIndex {
    pub(crate) fn new(rows: &[ErrorRow]) -> Self {
        let (mut codes, mut kinds) = (NameIndex::default(), NameIndex::default());
        let (mut messages, mut details) = (CollectedTexts::default(), CollectedTexts::default());
        // Markers are searched for with the texts of the rows, so a message without any is never read twice.
        let markers = MARKERS.map(|marker| messages.add(phrase(marker), true, None)).to_vec();
        let mut always = RowSet::of(rows.len());
        let mut all = Vec::with_capacity(rows.len());
        for (number, row) in rows.iter().enumerate() {
            let key = RowKey::of(row);
            let by = |of: RowKey| (key == of).then_some(number);
            match key {
                RowKey::Code => codes.add(&row.code, number),
                RowKey::Kind => kinds.add(&row.kind, number),
                RowKey::Nothing => always.insert(number),
                RowKey::Words | RowKey::Message | RowKey::Detail => {}
            }
            // One concept is enough to find the row. Asking by the others would find it again.
            let mut first = by(RowKey::Words);
            let concepts = row.words.iter().map(|concept| {
                let by = first.take();
                concept.iter().map(|text| messages.add(phrase(text), true, by)).collect()
            });
            let words = concepts.collect();
            let message =
                row.message.iter().map(|text| messages.add(folded(text), false, by(RowKey::Message)));
            let message = message.collect();
            let detail = row.detail.iter().map(|text| details.add(folded(text), false, by(RowKey::Detail)));
            all.push(RowNeeds { message, words, detail: detail.collect() });
        }
        let (messages, details) = (messages.texts(markers), details.texts(vec![]));
        Self { codes, kinds, always, messages, details, needs: all }
    }

    /// The first of the rows that matches.
    pub(crate) fn first<'r>(
        &self,
        rows: &'r [ErrorRow],
        evidence: &FailureEvidence<'_>,
    ) -> Option<&'r ErrorRow> {
        let mut asked = self.always.clone();
        let code = evidence.code.map(folded_name);
        let kind = evidence.kind.map(folded_name);
        self.codes.ask(code.as_deref(), &mut asked);
        self.kinds.ask(kind.as_deref(), &mut asked);
        let messages = self.messages.found_in_message(evidence, &mut asked);
        let details = self.details.found_in(evidence.details, &mut asked);
        // A row with a code and a type is found by its code, so its type has not been compared yet.
        let same_kind = |row: &ErrorRow| {
            let known = kind.as_deref();
            row.code.is_empty()
                || any(&row.kind, |name| known.is_some_and(|known| folded_name(name) == known))
        };
        let named = |name: &String| evidence.provider.is_some_and(|known| known.eq_ignore_ascii_case(name));
        let has = |found: &[bool], text: &usize| found.get(*text).copied().unwrap_or(false);
        // `stated` holds the phrases of the message without those that it denies, supposes or only quotes.
        let first = |stated: &[bool]| {
            asked.iter().find_map(|number| {
                let (row, needs) = (rows.get(number)?, self.needs.get(number)?);
                let said = if row.states() { stated } else { &messages };
                let matches =
                    any(&row.status, |pattern| evidence.status.is_some_and(|status| pattern.matches(status)))
                        && same_kind(row)
                        && any(&row.provider, named)
                        && any(&needs.detail, |text| has(&details, text))
                        && any(&needs.message, |text| has(&messages, text))
                        && needs.words.iter().all(|concept| concept.iter().any(|text| has(said, text)));
                matches.then_some(row)
            })
        };
        let row = first(&messages)?;
        // Reading clauses is slow, so it is done only if the class depends on what the message states.
        if !row.states() || !self.messages.is_in_doubt(evidence, &messages) {
            return Some(row);
        }
        first(&self.messages.stated(evidence))
    }
}

impl RowKey {
    const fn of(row: &ErrorRow) -> Self {
        // A code is shared by the fewest failures and every failure has a message, so codes come first.
        if !row.code.is_empty() {
            Self::Code
        } else if !row.kind.is_empty() {
            Self::Kind
        } else if !row.words.is_empty() {
            Self::Words
        } else if !row.message.is_empty() {
            Self::Message
        } else if !row.detail.is_empty() {
            Self::Detail
        } else {
            Self::Nothing
        }
    }
}

/// Whether the list is empty or one of it matches.
fn any<T>(list: &[T], matches: impl Fn(&T) -> bool) -> bool {
    list.is_empty() || list.iter().any(matches)
}

/// A code or a type as it is compared.
fn folded_name(name: &str) -> String {
    folded(name).trim().to_owned()
}

impl NameIndex {
    fn add(&mut self, names: &[String], row: usize) {
        for name in names {
            self.0.entry(folded_name(name)).or_default().push(row);
        }
    }

    fn ask(&self, name: Option<&str>, asked: &mut RowSet) {
        let rows = name.and_then(|name| self.0.get(name));
        rows.into_iter().flatten().for_each(|row| asked.insert(*row));
    }
}

impl CollectedTexts {
    /// The number of a text; `by` is the row that is asked when it is found.
    fn add(&mut self, text: String, everywhere: bool, by: Option<usize>) -> usize {
        if text.trim().is_empty() {
            // An empty text would be found in every message.
            return NEVER;
        }
        let next = self.texts.len();
        let number = *self.numbers.entry((text.clone(), everywhere)).or_insert(next);
        if number == next {
            self.texts.push(text);
            self.asks.push((everywhere, Vec::new()));
        }
        if let (Some(row), Some((_, rows))) = (by, self.asks.get_mut(number)) {
            rows.push(row);
        }
        number
    }

    fn texts(self, markers: Vec<usize>) -> FieldTexts {
        FieldTexts { search: TextSearch::new(&self.texts), asks: self.asks, markers }
    }
}

impl FieldTexts {
    /// Which texts are in the message, and which of the phrases in the code or the type.
    fn found_in_message(&self, evidence: &FailureEvidence<'_>, asked: &mut RowSet) -> Vec<bool> {
        let mut found = vec![false; self.asks.len()];
        self.search.each(evidence.message, |text| self.mark(text, &mut found, asked));
        self.in_names(evidence, |text| self.mark(text, &mut found, asked));
        found
    }

    /// Whether the message may have parts that state nothing.
    fn is_in_doubt(&self, evidence: &FailureEvidence<'_>, found: &[bool]) -> bool {
        self.markers.iter().any(|marker| found.get(*marker) == Some(&true))
            || !evidence.message.is_ascii()
            // Without an early exit, so that the compiler can vectorise the loop.
            || evidence.message.bytes().fold(false, |any, byte| any | matches!(byte, b'\'' | b'"' | b'`'))
    }

    /// As [`Self::found_in_message`], without what the message does not state.
    fn stated(&self, evidence: &FailureEvidence<'_>) -> Vec<bool> {
        let mut found = vec![false; self.asks.len()];
        let mark = |found: &mut Vec<bool>, text: usize| {
            found.get_mut(text).into_iter().for_each(|found| *found = true);
        };
        let message = plain(evidence.message);
        let unstated = UnstatedParts::of(&message);
        self.search.each_at(&message, |text, at| {
            if !unstated.covers(&at) {
                mark(&mut found, text);
            }
        });
        self.in_names(evidence, |text| mark(&mut found, text));
        found
    }

    /// The phrases in the code or the type.
    fn in_names(&self, evidence: &FailureEvidence<'_>, mut found: impl FnMut(usize)) {
        for name in [evidence.code, evidence.kind].into_iter().flatten() {
            // A code without letters has no words: z.ai reports an empty balance as `1113`.
            if !EMPTY.contains(&name) && name.bytes().any(|byte| byte.is_ascii_alphabetic()) {
                self.search.each(&identifier(name), |text| {
                    if self.asks.get(text).is_some_and(|(everywhere, _)| *everywhere) {
                        found(text);
                    }
                });
            }
        }
    }

    /// Which are in one of the texts.
    fn found_in(&self, texts: &[String], asked: &mut RowSet) -> Vec<bool> {
        let mut found = vec![false; self.asks.len()];
        for text in texts {
            self.search.each(text, |text| self.mark(text, &mut found, asked));
        }
        found
    }

    fn mark(&self, text: usize, found: &mut [bool], asked: &mut RowSet) {
        let Some(found) = found.get_mut(text) else { return };
        // A text that repeats asks for its rows once.
        if !core::mem::replace(found, true) {
            let rows = self.asks.get(text).into_iter().flat_map(|(_, rows)| rows);
            rows.for_each(|row| asked.insert(*row));
        }
    }
}

impl RowSet {
    fn of(rows: usize) -> Self {
        Self(vec![0; rows.div_ceil(64)])
    }

    fn insert(&mut self, row: usize) {
        if let Some(bits) = self.0.get_mut(row / 64) {
            *bits |= 1 << (row % 64);
        }
    }

    /// In their order.
    fn iter(&self) -> impl Iterator<Item = usize> {
        self.0.iter().enumerate().flat_map(|(at, bits)| {
            let first = at.saturating_mul(64);
            let mut left = *bits;
            core::iter::from_fn(move || {
                let bit = usize::try_from(left.trailing_zeros()).ok().filter(|_| left != 0)?;
                // Clears the lowest bit that is set.
                left &= left.wrapping_sub(1);
                Some(first.saturating_add(bit))
            })
        })
    }
}
