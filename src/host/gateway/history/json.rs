//! JSON that is looked at and not taken apart: each value stays where it is in the text.

use core::fmt;
use core::ops::Range;
use std::borrow::Cow;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

/// A text, without a copy if nothing in it is escaped.
#[derive(Deserialize)]
#[serde(transparent)]
pub(in crate::host::gateway) struct RawText<'a>(#[serde(borrow)] pub(in crate::host::gateway) Cow<'a, str>);

/// The fields of an object.
#[derive(Default)]
pub(super) struct RawFields<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'a> RawFields<'a> {
    /// Those of a value; none if it is no object.
    pub(super) fn of(value: &'a RawValue) -> Self {
        let mut reader = serde_json::Deserializer::from_str(value.get());
        reader.deserialize_map(Self::default()).unwrap_or_default()
    }

    /// The value of a field; null says the same as nothing.
    pub(super) fn get(&self, name: &str) -> Option<&'a RawValue> {
        let (_, value) = self.0.iter().rfind(|(known, _)| known == name)?;
        Some(*value).filter(|value| value.get() != "null")
    }

    /// The value of the first of these fields that there is.
    pub(super) fn any(&self, names: [&str; 2]) -> Option<&'a RawValue> {
        names.into_iter().find_map(|name| self.get(name))
    }

    /// A text.
    pub(super) fn text(&self, name: &str) -> Option<Cow<'a, str>> {
        text(self.get(name)?)
    }

    /// The fields of an object within.
    pub(super) fn within(&self, name: &str) -> Self {
        self.get(name).map(Self::of).unwrap_or_default()
    }
}

/// The values of a list; `None`: it is none.
pub(in crate::host::gateway) fn items(value: &RawValue) -> Option<Vec<&RawValue>> {
    serde_json::from_str(value.get()).ok()
}

/// A text; `None`: it is none.
pub(super) fn text(value: &RawValue) -> Option<Cow<'_, str>> {
    serde_json::from_str(value.get()).ok().map(|RawText(text)| text)
}

/// Where `part` is in `text`, which it was read from.
pub(in crate::host::gateway) fn place(text: &str, part: &str) -> Range<usize> {
    let start = part.as_ptr().addr().saturating_sub(text.as_ptr().addr());
    start..start.saturating_add(part.len())
}

/// The same text with other values in these places, which are in order.
pub(in crate::host::gateway) fn replaced(text: &str, pieces: &[(Range<usize>, &str)]) -> String {
    let more = pieces.iter().map(|(_, piece)| piece.len()).fold(0, usize::saturating_add);
    let mut whole = String::with_capacity(text.len().saturating_add(more));
    let mut copied = 0;
    for (place, piece) in pieces {
        whole.push_str(text.get(copied..place.start).unwrap_or_default());
        whole.push_str(piece);
        copied = place.end;
    }
    whole.push_str(text.get(copied..).unwrap_or_default());
    whole
}

/// An object with another value of a field; `None`: it has no such field.
pub(super) fn with_field(object: &str, field: &str, value: &str) -> Option<String> {
    let raw: &RawValue = serde_json::from_str(object).ok()?;
    let at = place(object, RawFields::of(raw).get(field)?.get());
    Some(replaced(object, &[(at, value)]))
}

/// An object with another text of its content: of the parts that are texts the first has it, the others go.
pub(super) fn with_text(object: &str, field: &str, text: &str) -> Option<String> {
    let raw: &RawValue = serde_json::from_str(object).ok()?;
    let value = RawFields::of(raw).get(field)?;
    let new = Value::from(text).to_string();
    let Some(parts) = items(value) else { return with_field(object, field, &new) };
    let mut new = Some(new);
    let mut list = Vec::with_capacity(parts.len());
    for part in parts {
        if RawFields::of(part).get("text").is_none() {
            list.push(part.get().to_owned());
        } else if let Some(new) = new.take() {
            list.push(with_field(part.get(), "text", &new)?);
        }
    }
    with_field(object, field, &format!("[{}]", list.join(",")))
}

/// A value with a change; `None`: it cannot be read, or the change does not fit it.
pub(super) fn changed(text: &str, change: impl FnOnce(&mut Value) -> Option<()>) -> Option<String> {
    let mut value = serde_json::from_str(text).ok()?;
    change(&mut value)?;
    Some(value.to_string())
}

/// Sets a field of an object.
pub(super) fn set(value: &mut Value, name: &str, to: impl Into<Value>) -> Option<()> {
    value.as_object_mut()?.insert(name.to_owned(), to.into());
    Some(())
}

impl<'de> Visitor<'de> for RawFields<'de> {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut fields: A) -> Result<Self, A::Error> {
        while let Some(RawText(name)) = fields.next_key()? {
            self.0.push((name, fields.next_value()?));
        }
        Ok(self)
    }
}
