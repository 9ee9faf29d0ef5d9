//! The objects and arrays that are open while a text is read.

use serde_json::{Map, Value};

use super::cursor::{ReadingChoice, TextCursor};
use super::{RefusalReason, RepairKind, RepairRefusal};

/// An object or array that is open.
pub(super) enum OpenFrame {
    Object {
        map: Map<String, Value>,
        /// The key whose value is due.
        key: String,
        /// Where the key is.
        at: usize,
        /// It began with two braces.
        doubled: bool,
    },
    Array(Vec<Value>),
}

impl OpenFrame {
    pub(super) fn object() -> Self {
        Self::Object { map: Map::new(), key: String::new(), at: 0, doubled: false }
    }

    pub(super) const fn bracket(&self) -> u8 {
        match self {
            Self::Object { .. } => b'{',
            Self::Array(_) => b'[',
        }
    }

    pub(super) fn take(&mut self, cursor: &mut TextCursor<'_>, value: Value) -> Result<(), RepairRefusal> {
        match self {
            Self::Object { map, key, at, .. } => {
                let key = std::mem::take(key);
                match map.get(&key) {
                    // The same twice is one member to every reader.
                    Some(known) if *known == value => cursor.repaired(RepairKind::RepeatedKey),
                    // RFC 8259, section 4: readers differ in which of two members they take.
                    Some(_) if cursor.choose(RefusalReason::DuplicateKey, *at)? != ReadingChoice::Second => {
                        return Ok(());
                    }
                    _ => {}
                }
                map.insert(key, value);
            }
            Self::Array(list) => list.push(value),
        }
        Ok(())
    }

    pub(super) fn is_empty(&self) -> bool {
        match self {
            Self::Object { map, .. } => map.is_empty(),
            Self::Array(list) => list.is_empty(),
        }
    }

    pub(super) fn into_value(self) -> Value {
        match self {
            Self::Object { map, .. } => Value::Object(map),
            Self::Array(list) => Value::Array(list),
        }
    }
}

/// What encloses a value: the objects and arrays that are open, innermost last.
#[derive(Clone, Copy)]
pub(super) struct OpenStructure<'s>(pub(super) &'s [OpenFrame]);

impl OpenStructure<'_> {
    /// The bracket of the innermost.
    pub(super) fn inside(self) -> Option<u8> {
        self.0.last().map(OpenFrame::bracket)
    }

    /// The brackets that close what is open, innermost last.
    pub(super) fn closing(self) -> Vec<u8> {
        self.0.iter().map(|frame| if frame.bracket() == b'{' { b'}' } else { b']' }).collect()
    }

    /// Whether the innermost is an object, right inside of what `bracket` opens.
    pub(super) fn is_object_in(self, bracket: u8) -> bool {
        let mut innermost = self.0.iter().rev().map(OpenFrame::bracket);
        innermost.next() == Some(b'{') && innermost.next() == Some(bracket)
    }

    /// Whether closing brackets close the innermost, and so on.
    pub(super) fn closed_by(self, mut brackets: impl Iterator<Item = u8>) -> bool {
        let mut open = self.0.iter().rev().map(|frame| if frame.bracket() == b'{' { b'}' } else { b']' });
        brackets.all(|bracket| open.next() == Some(bracket))
    }
}
