//! One slice. A list of feedback is kept as records, and converted to JSON only when it is read, as most of it never
//! is.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};

use serde::{Serialize, Serializer};
use serde_json::Value;

use super::RetryFeedback;

/// The maximum size of a slice in bytes: 8 for each value in it, plus its texts and keys.
const MOST_BYTES: usize = 16 << 20;
/// The bytes of each value in addition to its text.
const VALUE_BYTES: usize = 8;
/// The bytes of feedback in addition to its texts: a map of eight values, their names, and a time.
const FEEDBACK_BYTES: usize = 9 * VALUE_BYTES + 87 + 24;

/// A slice.
#[derive(Clone, Debug)]
pub(super) struct Slice {
    value: SliceValue,
    /// The size of a list in bytes, so that an append does not measure the whole list.
    pub(super) bytes: Option<usize>,
}

#[derive(Clone, Debug)]
enum SliceValue {
    Json(Value),
    /// A list with feedback, and its JSON once it was read.
    List {
        elements: VecDeque<Element>,
        json: OnceLock<Value>,
    },
}

/// An element of a list.
#[derive(Clone, Debug)]
pub(super) enum Element {
    Json(Value),
    Feedback(Arc<RetryFeedback>),
}

impl Slice {
    pub(super) const fn new(value: Value) -> Self {
        Self { value: SliceValue::Json(value), bytes: None }
    }

    pub(super) fn json(&self) -> &Value {
        match &self.value {
            SliceValue::Json(value) => value,
            SliceValue::List { elements, json } => {
                json.get_or_init(|| elements.iter().map(|element| element.json().into_owned()).collect())
            }
        }
    }

    /// The elements, if the slice is a list.
    pub(super) fn elements(&self) -> impl DoubleEndedIterator<Item = Cow<'_, Value>> {
        let (json, list) = match &self.value {
            SliceValue::Json(value) => (value.as_array(), None),
            SliceValue::List { elements, .. } => (None, Some(elements)),
        };
        let json = json.into_iter().flatten().map(Cow::Borrowed);
        json.chain(list.into_iter().flatten().map(Element::json))
    }

    pub(super) const fn is_list(&self) -> bool {
        matches!(self.value, SliceValue::Json(Value::Array(_)) | SliceValue::List { .. })
    }

    /// Appends an element. `false`: the slice is no list, and nothing has changed.
    pub(super) fn append(&mut self, name: &str, element: Element) -> Result<bool, String> {
        if !self.is_list() {
            return Ok(false);
        }
        let bytes = self.held().saturating_add(element.bytes());
        within(name, bytes)?;
        self.push(element);
        self.bytes = Some(bytes);
        Ok(true)
    }

    fn push(&mut self, element: Element) {
        match (&mut self.value, element) {
            (SliceValue::List { elements, json }, element) => {
                json.take();
                elements.push_back(element);
            }
            (SliceValue::Json(Value::Array(list)), Element::Json(value)) => list.push(value),
            (SliceValue::Json(value), element) => {
                let list = match value.take() {
                    Value::Array(list) => list,
                    _ => Vec::new(),
                };
                let elements = list.into_iter().map(Element::Json).chain([element]).collect();
                self.value = SliceValue::List { elements, json: OnceLock::new() };
            }
        }
    }

    /// Keeps the last `count` elements. `false`: the slice is no list.
    pub(super) fn keep_last(&mut self, count: u32) -> bool {
        let length = match &self.value {
            SliceValue::Json(Value::Array(list)) => list.len(),
            SliceValue::List { elements, .. } => elements.len(),
            SliceValue::Json(_) => return false,
        };
        let surplus = surplus(length, count);
        if surplus == 0 {
            return true;
        }
        let held = self.held();
        let dropped = match &mut self.value {
            SliceValue::Json(Value::Array(list)) => {
                list.drain(..surplus).map(|value| bytes(&value)).fold(0, usize::saturating_add)
            }
            SliceValue::List { elements, json } => {
                json.take();
                let first = (0..surplus).map_while(|_| elements.pop_front());
                first.map(|element| element.bytes()).fold(0, usize::saturating_add)
            }
            SliceValue::Json(_) => 0,
        };
        self.bytes = Some(held.saturating_sub(dropped));
        true
    }

    /// The size of its elements in bytes: measured once and then updated.
    fn held(&self) -> usize {
        self.bytes.unwrap_or_else(|| match &self.value {
            SliceValue::Json(Value::Array(list)) => list.iter().map(bytes).fold(0, usize::saturating_add),
            SliceValue::List { elements, .. } => {
                elements.iter().map(Element::bytes).fold(0, usize::saturating_add)
            }
            SliceValue::Json(_) => 0,
        })
    }
}

impl Element {
    fn json(&self) -> Cow<'_, Value> {
        match self {
            Self::Json(value) => Cow::Borrowed(value),
            Self::Feedback(feedback) => {
                Cow::Owned(serde_json::to_value(feedback.in_order()).unwrap_or_default())
            }
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Json(value) => bytes(value),
            Self::Feedback(feedback) => {
                let RetryFeedback { source, tool_name, error_type, message, .. } = &**feedback;
                let tool = tool_name.as_deref().unwrap_or_default();
                let texts = [source.name(), tool, error_type.name(), message].map(str::len);
                texts.into_iter().fold(FEEDBACK_BYTES, usize::saturating_add)
            }
        }
    }
}

/// Equality ignores the cached size and the cached JSON.
impl PartialEq for Slice {
    fn eq(&self, other: &Self) -> bool {
        self.json() == other.json()
    }
}

impl Serialize for Slice {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.value {
            SliceValue::Json(value) => value.serialize(serializer),
            SliceValue::List { elements, .. } => serializer.collect_seq(elements),
        }
    }
}

impl Serialize for Element {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Json(value) => value.serialize(serializer),
            Self::Feedback(feedback) => feedback.in_order().serialize(serializer),
        }
    }
}

/// The size of a value in bytes; without recursion.
pub(super) fn bytes(value: &Value) -> usize {
    let mut bytes: usize = 0;
    let mut stack = vec![value];
    while let Some(part) = stack.pop() {
        bytes = bytes.saturating_add(VALUE_BYTES);
        match part {
            Value::String(text) => bytes = bytes.saturating_add(text.len()),
            Value::Array(list) => stack.extend(list),
            Value::Object(entries) => {
                for (key, value) in entries {
                    bytes = bytes.saturating_add(key.len());
                    stack.push(value);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    bytes
}

/// The number of elements beyond `count`.
pub(super) fn surplus(length: usize, count: u32) -> usize {
    length.saturating_sub(usize::try_from(count).unwrap_or(usize::MAX))
}

/// Refuses a value that is too large for a slice.
pub(super) fn fits(slice: &str, value: &Value) -> Result<(), String> {
    within(slice, bytes(value))
}

fn within(slice: &str, bytes: usize) -> Result<(), String> {
    if bytes <= MOST_BYTES {
        return Ok(());
    }
    Err(format!(
        "the value of the slice `{slice}` would be larger than {} MiB; keep less of it",
        MOST_BYTES >> 20
    ))
}
