//! Compares two lists of decisions.

use core::mem::Discriminant as Kind;
use serde_json::Value;

use super::part::{DecisionPart, DecisionParts};
use crate::engine::{Directive, DirectiveKind, Directives, Note, Work};
use crate::text::pointer_step;

/// The first difference between recorded and replayed decisions.
#[derive(Debug, PartialEq)]
pub enum ReplayDifference {
    /// A decision: a different, a missing, or an additional one.
    Decision(DecisionSides),
    /// The decision is identical, but its reasons differ.
    Because(DecisionSides),
    /// The decisions are identical, but the resulting states differ.
    State {
        /// The recorded digest of the state.
        then: String,
        /// The replayed digest of the state.
        now: String,
    },
}

/// A decision on both sides.
#[derive(Debug, PartialEq)]
pub struct DecisionSides {
    /// The index in the list of decisions about the event, from 0.
    pub index: usize,
    /// The recorded decision; `None`: none.
    pub then: Option<Directive>,
    /// The replayed decision; `None`: none.
    pub now: Option<Directive>,
    /// The parts that are ignored.
    pub passed_over: DecisionParts,
}

impl DecisionSides {
    /// The first field with a relevant difference, as a JSON pointer, and its value on both sides.
    pub fn field(&self) -> Option<(String, Value, Value)> {
        let what_counts = |side: &Option<Directive>| {
            let mut value = serde_json::to_value(side.as_ref()?).ok()?;
            self.passed_over.iter().for_each(|part| part.take_out(&mut value));
            Some(value)
        };
        first(&what_counts(&self.then)?, &what_counts(&self.now)?, &mut String::new())
    }
}

/// The ignored parts in which the lists differ.
///
/// # Errors
/// The first difference in another part.
pub(super) fn lists(
    then: Directives,
    now: Directives,
    parts: DecisionParts,
) -> Result<DecisionParts, Box<ReplayDifference>> {
    // Nearly always the bytes are equal, and then the lists are.
    let bytes = |list: &Directives| serde_json::to_vec(list).ok();
    if bytes(&then) == bytes(&now) {
        return Ok(DecisionParts::default());
    }
    let ((then, then_counted), (now, now_counted)) = (apart(then), apart(now));
    let passed = pairs(then, now, parts)?;
    let counted = pairs(then_counted, now_counted, parts)?;
    Ok(counted.iter().fold(passed, DecisionParts::with))
}

/// Directives with their numbers in the list.
type NumberedDirectives = Vec<(usize, Directive)>;

/// Separates decisions from metrics.
fn apart(list: Directives) -> (NumberedDirectives, NumberedDirectives) {
    let counts = |(_, directive): &(usize, Directive)| {
        !matches!(directive.order, DirectiveKind::Note(Note::Metric(_)))
    };
    list.0.into_iter().enumerate().partition(counts)
}

fn pairs(
    then: NumberedDirectives,
    now: NumberedDirectives,
    parts: DecisionParts,
) -> Result<DecisionParts, Box<ReplayDifference>> {
    let mut passed = DecisionParts::default();
    let (mut reasons, mut other) = (None, None);
    let (mut then, mut now) = (then.into_iter(), now.into_iter());
    loop {
        let (one, two) = match (then.next(), now.next()) {
            (None, None) => break,
            (Some((index, one)), Some((_, two))) if kind(&one) == kind(&two) => {
                match differ(&one, &two, parts) {
                    Ok(parts) => passed = parts.iter().fold(passed, DecisionParts::with),
                    Err(DecisionDifference::Reasons) => {
                        let side =
                            || DecisionSides { index, then: Some(one), now: Some(two), passed_over: parts };
                        reasons.get_or_insert_with(side);
                    }
                    Err(DecisionDifference::Order) => {
                        let is_work = matches!(one.order, DirectiveKind::Work(_));
                        let side =
                            DecisionSides { index, then: Some(one), now: Some(two), passed_over: parts };
                        // A difference in work is more informative than one in the notes before it.
                        if is_work {
                            return Err(Box::new(ReplayDifference::Decision(side)));
                        }
                        other.get_or_insert(side);
                    }
                }
                continue;
            }
            sides => sides,
        };
        let index = one.as_ref().or(two.as_ref()).map_or(0, |(index, _)| *index);
        let [then, now] = [one, two].map(|side| side.map(|(_, directive)| directive));
        return Err(Box::new(ReplayDifference::Decision(DecisionSides {
            index,
            then,
            now,
            passed_over: parts,
        })));
    }
    match (other, reasons) {
        (Some(side), _) => Err(Box::new(ReplayDifference::Decision(side))),
        (None, Some(side)) => Err(Box::new(ReplayDifference::Because(side))),
        (None, None) => Ok(passed),
    }
}

/// The kind of a directive.
fn kind(directive: &Directive) -> (Option<Kind<Work>>, Option<Kind<Note>>) {
    match &directive.order {
        DirectiveKind::Work(work) => (Some(core::mem::discriminant(work)), None),
        DirectiveKind::Note(note) => (None, Some(core::mem::discriminant(note))),
    }
}

/// A difference that cannot be ignored.
enum DecisionDifference {
    Order,
    Reasons,
}

/// The parts in which decisions differ, if all of them may be ignored.
fn differ(
    then: &Directive,
    now: &Directive,
    parts: DecisionParts,
) -> Result<DecisionParts, DecisionDifference> {
    if then.order == now.order {
        return match (then.because == now.because, parts.has(DecisionPart::Because)) {
            (true, _) => Ok(DecisionParts::default()),
            (false, true) => Ok(DecisionParts::default().with(DecisionPart::Because)),
            (false, false) => Err(DecisionDifference::Reasons),
        };
    }
    let [mut one, mut other] =
        [then, now].map(|directive| serde_json::to_value(directive).unwrap_or_default());
    let mut passed = DecisionParts::default();
    for part in parts.iter() {
        let before = (one.clone(), other.clone());
        part.take_out(&mut one);
        part.take_out(&mut other);
        if count(&before.0, &before.1) > count(&one, &other) {
            passed = passed.with(part);
        }
    }
    if one == other { Ok(passed) } else { Err(DecisionDifference::Order) }
}

/// The number of fields in which two values differ.
fn count(one: &Value, other: &Value) -> usize {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            let added = other.keys().filter(|name| !one.contains_key(*name)).count();
            let changed =
                one.iter().map(|(name, value)| other.get(name).map_or(1, |other| count(value, other)));
            changed.sum::<usize>().saturating_add(added)
        }
        (one, other) => usize::from(one != other),
    }
}

/// The first field that differs, with both values.
fn first(one: &Value, other: &Value, path: &mut String) -> Option<(String, Value, Value)> {
    let at = path.len();
    let mut inside = |name: &str, one: &Value, other: &Value| {
        path.push('/');
        path.push_str(&pointer_step(name));
        let found = first(one, other, path);
        path.truncate(at);
        found
    };
    match (one, other) {
        (one, other) if one == other => None,
        (Value::Object(one), Value::Object(other)) => {
            let names = one.keys().chain(other.keys().filter(|name| !one.contains_key(*name)));
            let value = |side: &serde_json::Map<String, Value>, name: &str| {
                side.get(name).cloned().unwrap_or_default()
            };
            names.into_iter().find_map(|name| inside(name, &value(one, name), &value(other, name)))
        }
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            let mut pairs = one.iter().zip(other).enumerate();
            pairs.find_map(|(index, (one, other))| inside(&index.to_string(), one, other))
        }
        _ => Some((path.clone(), one.clone(), other.clone())),
    }
}
