//! The fields of a request, each taken once: what is left at the end is not carried over.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

/// The most fields that are named as left out, and the most characters of a name: clients choose both.
const MOST_NAMED: usize = 32;
const LONGEST_NAME: usize = 64;

/// Why a request cannot be converted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{field}` {why}")]
pub(in crate::host) struct Unconvertible {
    field: String,
    why: &'static str,
}

/// The fields of an object.
pub(super) struct Fields {
    path: String,
    fields: Map<String, Value>,
}

/// The fields that are not carried over, without the places of those in lists.
#[derive(Clone, Debug, Default)]
pub(super) struct LeftOut(BTreeSet<String>);

impl Unconvertible {
    /// It says what no other dialect can.
    pub(super) fn new(field: impl Into<String>) -> Self {
        Self { field: field.into(), why: "cannot be converted for a model that speaks another dialect" }
    }

    /// It is not what the dialect has there.
    pub(super) fn malformed(field: impl Into<String>, why: &'static str) -> Self {
        Self { field: field.into(), why }
    }
}

impl Fields {
    /// Those of a body.
    ///
    /// # Errors
    /// It is no object.
    pub(super) fn of_body(body: &[u8]) -> Result<Self, Unconvertible> {
        let value = serde_json::from_slice(body).unwrap_or_default();
        Self::of("", value).map_err(|_| Unconvertible::malformed("body", "is not an object that can be read"))
    }

    /// Those of a value at that place.
    ///
    /// # Errors
    /// It is no object.
    pub(super) fn of(path: impl Into<String>, value: Value) -> Result<Self, Unconvertible> {
        let path = path.into();
        match value {
            Value::Object(fields) => Ok(Self { path, fields }),
            _ => Err(Unconvertible::malformed(path, "is not an object")),
        }
    }

    /// Where a field is.
    pub(super) fn path(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) }
    }

    /// The value of a field; null says the same as nothing.
    pub(super) fn take(&mut self, name: &str) -> Option<Value> {
        self.fields.shift_remove(name).filter(|value| !value.is_null())
    }

    /// The value of a field within others, whose names are separated by dots.
    pub(super) fn take_at(&mut self, place: &str) -> Option<Value> {
        let mut fields = &mut self.fields;
        let mut rest = place;
        while let Some((first, after)) = rest.split_once('.') {
            fields = named(fields, first)?.as_object_mut()?;
            rest = after;
        }
        let value = named(fields, rest)?.take();
        Some(value).filter(|value| !value.is_null())
    }

    /// Whether a field is that text.
    pub(super) fn is(&self, name: &str, text: &str) -> bool {
        self.fields.get(name).is_some_and(|value| value == text)
    }

    /// Whether a field within another is that text.
    pub(super) fn is_within(&self, outer: &str, name: &str, text: &str) -> bool {
        self.fields.get(outer).and_then(|fields| fields.get(name)).is_some_and(|value| value == text)
    }

    /// Whether a field says something.
    pub(super) fn has(&self, name: &str) -> bool {
        self.fields.get(name).is_some_and(|value| !value.is_null())
    }

    /// A text.
    ///
    /// # Errors
    /// It is another value.
    pub(super) fn text(&mut self, name: &str) -> Result<Option<String>, Unconvertible> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(Unconvertible::malformed(self.path(name), "is not a text")),
        }
    }

    /// A text that must be there.
    ///
    /// # Errors
    /// It is another value, or missing.
    pub(super) fn required(&mut self, name: &str) -> Result<String, Unconvertible> {
        let missing = || Unconvertible::malformed(self.path(name), "is missing");
        let missing = missing();
        self.text(name)?.ok_or(missing)
    }

    /// A number.
    ///
    /// # Errors
    /// It is another value.
    pub(super) fn number(&mut self, name: &str) -> Result<Option<f64>, Unconvertible> {
        let Some(value) = self.take(name) else { return Ok(None) };
        let number = value.as_f64();
        number.map(Some).ok_or_else(|| Unconvertible::malformed(self.path(name), "is not a number"))
    }

    /// A number of tokens.
    ///
    /// # Errors
    /// It is another value.
    pub(super) fn tokens(&mut self, name: &str) -> Result<Option<u32>, Unconvertible> {
        let Some(value) = self.take(name) else { return Ok(None) };
        let tokens = value.as_u64().map(|tokens| u32::try_from(tokens).unwrap_or(u32::MAX));
        tokens.map(Some).ok_or_else(|| Unconvertible::malformed(self.path(name), "is not a number of tokens"))
    }

    /// The objects of a list, each with its place.
    ///
    /// # Errors
    /// It is another value, or one of them is.
    pub(super) fn objects(&mut self, name: &str) -> Result<Vec<Self>, Unconvertible> {
        let path = self.path(name);
        self.take(name).map_or_else(|| Ok(Vec::new()), |items| Self::list(&path, items))
    }

    /// The objects of the list at that place.
    ///
    /// # Errors
    /// It is another value, or one of them is.
    pub(super) fn list(path: &str, value: Value) -> Result<Vec<Self>, Unconvertible> {
        let Value::Array(items) = value else { return Err(Unconvertible::malformed(path, "is not a list")) };
        let items = items.into_iter().enumerate();
        items.map(|(at, item)| Self::of(format!("{path}[{at}]"), item)).collect()
    }

    /// An object.
    ///
    /// # Errors
    /// It is another value.
    pub(super) fn object(&mut self, name: &str) -> Result<Option<Self>, Unconvertible> {
        let path = self.path(name);
        self.take(name).map(|value| Self::of(path, value)).transpose()
    }

    /// The parts of a content: a text is one part.
    ///
    /// # Errors
    /// It is another value, or one of the parts is.
    pub(super) fn parts(&mut self, name: &str) -> Result<Vec<Self>, Unconvertible> {
        if let Some(Value::String(text)) = self.fields.get(name) {
            let part = serde_json::json!({"type": "text", "text": text});
            self.fields.shift_remove(name);
            return Ok(vec![Self::of(self.path(name), part)?]);
        }
        self.objects(name)
    }

    /// The same with their names as `camelCase`: readers of protobuf's JSON take `snake_case` too.
    pub(super) fn in_camel_case(self) -> Self {
        let Self { path, fields } = self;
        Self { path, fields: fields.into_iter().map(|(name, value)| (camel_case(&name), value)).collect() }
    }

    /// Whether nothing is left.
    pub(super) fn is_empty(&self) -> bool {
        self.fields.values().all(Value::is_null)
    }

    /// What is left cannot be converted.
    pub(super) fn unconvertible(&self) -> Unconvertible {
        let left = self.fields.iter().find(|(_, value)| !value.is_null());
        Unconvertible::new(left.map_or_else(|| self.path.clone(), |(name, _)| self.path(name)))
    }

    /// Refuses what no other dialect can say, if it is there.
    ///
    /// # Errors
    /// One of them is.
    pub(super) fn refuse(&mut self, names: &[&str]) -> Result<(), Unconvertible> {
        match names.iter().find(|name| self.take(name).is_some()) {
            Some(name) => Err(Unconvertible::new(self.path(name))),
            None => Ok(()),
        }
    }

    /// Copies of those fields that are there.
    pub(super) fn copies(&self, names: &[&str]) -> Map<String, Value> {
        let found = names.iter().filter_map(|name| self.fields.get_key_value(*name));
        let said = found.filter(|(_, value)| !value.is_null());
        said.map(|(name, value)| (name.clone(), value.clone())).collect()
    }

    /// What was not taken is left out, unless it says nothing.
    pub(super) fn leave_out(self, left_out: &mut LeftOut) {
        for (name, _) in self.fields.iter().filter(|(_, value)| !says_nothing(value)) {
            left_out.add(&self.path(name));
        }
    }
}

/// The value of a field, which readers of protobuf's JSON take as `snake_case` too.
fn named<'f>(fields: &'f mut Map<String, Value>, name: &str) -> Option<&'f mut Value> {
    let mut found = fields.iter_mut().filter(|(key, _)| *key == name || camel_case(key) == name);
    found.next().map(|(_, value)| value)
}

/// A name as `camelCase`.
pub(super) fn camel_case(name: &str) -> String {
    let mut parts = name.split('_');
    let mut camel = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let mut letters = part.chars();
        camel.extend(letters.next().map(|first| first.to_ascii_uppercase()));
        camel.push_str(letters.as_str());
    }
    camel
}

fn says_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        // Its fields may have been taken.
        Value::Object(fields) => fields.values().all(Value::is_null),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

impl LeftOut {
    /// Another one.
    pub(super) fn add(&mut self, path: &str) {
        if self.0.len() >= MOST_NAMED {
            return;
        }
        let mut within = false;
        let outside = path.chars().filter(|c| {
            let kept = !within && *c != '[';
            within = if *c == '[' { true } else { within && *c != ']' };
            kept
        });
        // They go into a header, separated by commas.
        let plain = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.') { c } else { '_' };
        self.0.insert(outside.map(plain).take(LONGEST_NAME).collect());
    }

    /// All of them, in order.
    pub(super) fn names(&self) -> impl Iterator<Item = &String> {
        self.0.iter()
    }
}
