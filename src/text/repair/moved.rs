//! Closing brackets that are missing, put in before commas. `{"a": {"b": 1, "c": 2}` is read as if the bracket were missing at
//! the end; where that breaks the schema, and just one other place holds it, the bracket is missing there.

use serde_json::Value;

use super::cursor::{BracketMisfit, ReadingChoice, TextCursor};
use super::{RepairKind, RepairSet, RepairedJson, around};

/// The most brackets that are put elsewhere.
const MOST_BRACKETS: usize = 2;
/// The most readings, each of which is held against the schema.
const MOST_READINGS: usize = 256;
/// The most bytes that are read for all of them.
const MOST_BYTES: usize = 4 * 1024 * 1024;

/// What else may have been repaired: of all other repairs one may be about the place of the bracket.
const BESIDE: [RepairKind; 7] = [
    RepairKind::MissingBracket,
    RepairKind::TextAround,
    RepairKind::CodeFence,
    RepairKind::SingleQuotes,
    RepairKind::SmartQuotes,
    RepairKind::UnquotedKey,
    RepairKind::PythonLiteral,
];

/// Whether brackets were put in that may be missing somewhere else.
pub(super) fn may_be(repairs: RepairSet) -> bool {
    let of_brackets = [RepairKind::MissingBracket, RepairKind::MismatchedBracket];
    of_brackets.iter().any(|repair| repairs.contains(*repair))
        && repairs.iter().all(|repair| repair == RepairKind::MismatchedBracket || BESIDE.contains(&repair))
}

/// The value, if of all other places just one holds the schema.
pub(super) fn read(text: &str, holds: &dyn Fn(&Value) -> bool) -> Option<RepairedJson> {
    let (commas, missing) = counted(text)?;
    // Each bracket multiplies the places, and each place is one reading of the whole text.
    if missing == 0 || missing > MOST_BRACKETS || commas > MOST_READINGS {
        return None;
    }
    let places = places(commas, missing);
    if places.len() > MOST_READINGS || places.len().saturating_mul(text.len()) > MOST_BYTES {
        return None;
    }
    let mut only: Option<RepairedJson> = None;
    for early in &places {
        let Some(found) = reading(text, early, missing).filter(|found| holds(&found.value)) else { continue };
        match &only {
            // Two places hold the schema with different values, so neither is certain.
            Some(known) if known.value != found.value => return None,
            Some(_) => {}
            None => only = Some(found),
        }
    }
    only
}

/// How many commas there are, and how many closing brackets are missing.
fn counted(text: &str) -> Option<(usize, usize)> {
    [BracketMisfit::Refused, BracketMisfit::Missing].into_iter().find_map(|misfit| {
        let mut cursor = TextCursor::new(text, ReadingChoice::Neither, misfit);
        around::read(&mut cursor).ok().map(|_| (cursor.commas, cursor.missing))
    })
}

/// Every choice of commas, as many as brackets are missing or fewer: the others are missing at the end.
fn places(commas: usize, missing: usize) -> Vec<Vec<usize>> {
    let mut all: Vec<Vec<usize>> = (0..commas).map(|comma| vec![comma]).collect();
    if missing > 1 {
        let pairs = (0..commas).flat_map(|first| (first..commas).map(move |second| vec![first, second]));
        all.extend(pairs.take(MOST_READINGS.saturating_add(1)));
    }
    all
}

/// What the text says with brackets before these commas, if no others are missing than at first sight.
fn reading(text: &str, early: &[usize], missing: usize) -> Option<RepairedJson> {
    let mut cursor = TextCursor::new(text, ReadingChoice::Neither, BracketMisfit::Refused);
    cursor.early = early;
    let value = around::read(&mut cursor).ok()?;
    if cursor.missing != missing || !cursor.repairs.iter().all(|repair| BESIDE.contains(&repair)) {
        return None;
    }
    cursor.repaired(RepairKind::ChosenBySchema);
    Some(RepairedJson { value, repairs: cursor.repairs })
}
