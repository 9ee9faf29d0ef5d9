//! The kinds of directives, events and messages, and the fields of each, as the schema of session logs has them: what a field of
//! another kind is expected to be can never come.

use std::sync::LazyLock;

use serde_json::Value;

/// The JSON Schema of the lines of a session's log, in which all records are.
static ROOT: LazyLock<Value> = LazyLock::new(crate::engine::Record::json_schema);
static KINDS: LazyLock<Vec<RecordKind>> =
    LazyLock::new(|| SORTS.iter().flat_map(RecordSort::kinds).collect());

/// Records within records go no deeper.
const DEEPEST: usize = 8;

/// A sort of record: the key that names its kind, where the schema has the kinds, and where what all of them have.
struct RecordSort {
    tag: &'static str,
    kinds: &'static [&'static str],
    common: Option<&'static str>,
}

const SORTS: [RecordSort; 3] = [
    RecordSort { tag: "directive", kinds: &["Work", "Note"], common: Some("Directive") },
    RecordSort { tag: "event", kinds: &["Envelope"], common: Some("Envelope") },
    RecordSort { tag: "role", kinds: &["Message"], common: None },
];

/// The fields of a record, and the records within them. Without fields it may be anything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RecordShape(Vec<(&'static str, Self)>);

/// A kind of record: the key that names the kind, its name, and its fields.
#[derive(Debug)]
pub(crate) struct RecordKind {
    pub(crate) tag: &'static str,
    pub(crate) name: &'static str,
    /// The schema of its own fields.
    form: &'static Value,
    /// The schema of the fields that all of its sort have.
    common: Option<&'static Value>,
    fields: RecordShape,
}

/// The kinds of these sorts, each with the key that names its kinds.
pub(crate) fn kinds(tags: &'static [&'static str]) -> impl Iterator<Item = &'static RecordKind> {
    tags.iter().flat_map(|tag| KINDS.iter().filter(move |kind| kind.tag == *tag))
}

/// A definition of the schema.
pub(crate) fn definition(name: &str) -> Option<&'static Value> {
    ROOT.get("$defs")?.get(name)
}

/// The definition a schema refers to, and its name.
pub(crate) fn referred(schema: &'static Value) -> Option<(&'static str, &'static Value)> {
    let name = schema.get("$ref")?.as_str()?.rsplit('/').next()?;
    Some((name, definition(name)?))
}

impl RecordSort {
    fn kinds(&self) -> Vec<RecordKind> {
        let common = self.common.and_then(definition);
        let forms = self.kinds.iter().filter_map(|name| definition(name)?.get("oneOf")?.as_array());
        let kind = |form: &'static Value| {
            let name = form.get("properties")?.get(self.tag)?.get("const")?.as_str()?;
            let mut fields = RecordShape::of(form, 0);
            fields.0.retain(|(field, _)| *field != self.tag);
            let own = common.map(|common| RecordShape::of_own(common, 0)).unwrap_or_default();
            fields.add(own);
            if common.is_some() {
                // Test files have it from the start.
                fields.add(RecordShape(vec![("at", RecordShape::default())]));
            }
            Some(RecordKind { tag: self.tag, name, form, common, fields })
        };
        forms.flatten().filter_map(kind).collect()
    }
}

impl RecordShape {
    /// The fields of a schema, references followed, of all its forms.
    fn of(schema: &'static Value, depth: usize) -> Self {
        let mut fields = Self::default();
        if depth > DEEPEST {
            return fields;
        }
        let deeper = depth.saturating_add(1);
        if let Some((_, form)) = referred(schema) {
            fields.add(Self::of(form, deeper));
        }
        if let Some(items) = schema.get("items") {
            fields.add(Self::of(items, deeper));
        }
        for form in ["oneOf", "anyOf"].iter().filter_map(|key| schema.get(key)?.as_array()).flatten() {
            fields.add(Self::of(form, deeper));
        }
        fields.add(Self::of_own(schema, depth));
        fields
    }

    /// The fields of a schema itself.
    fn of_own(schema: &'static Value, depth: usize) -> Self {
        let own = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
        Self(own.map(|(name, inner)| (name.as_str(), Self::of(inner, depth.saturating_add(1)))).collect())
    }

    fn add(&mut self, more: Self) {
        for (name, inner) in more.0 {
            match self.0.iter_mut().find(|(known, _)| *known == name) {
                Some((_, known)) => known.add(inner),
                None => self.0.push((name, inner)),
            }
        }
    }

    /// The field of that name, and the record within it.
    pub(crate) fn field(&self, name: &str) -> Option<&Self> {
        self.0.iter().find(|(known, _)| *known == name).map(|(_, inner)| inner)
    }

    /// Whether it may be anything.
    pub(crate) const fn is_any(&self) -> bool {
        self.0.is_empty()
    }

    /// The names of its fields.
    pub(crate) fn names(&self) -> Vec<&'static str> {
        self.0.iter().map(|(name, _)| *name).collect()
    }
}

impl RecordKind {
    /// The field of that name: its own, the key that names the kind, or one that all of its sort have.
    pub(crate) fn field(&self, name: &str) -> Option<&RecordShape> {
        static WORD: RecordShape = RecordShape(Vec::new());
        if name == self.tag { Some(&WORD) } else { self.fields.field(name) }
    }

    /// The names of all its fields, but for the key that names it.
    pub(crate) fn names(&self) -> Vec<&'static str> {
        self.fields.names()
    }

    /// The schema of a field, and whether it is always there.
    pub(crate) fn schema(&self, name: &str) -> Option<(&'static Value, bool)> {
        let schema = property(self.form, name).or_else(|| property(self.common?, name))?;
        Some((schema, is_required(self.form, name)))
    }
}

/// The schema of a field, also of one that is flattened into the record.
pub(crate) fn property(schema: &'static Value, name: &str) -> Option<&'static Value> {
    let own = schema.get("properties").and_then(|fields| fields.get(name));
    let flat = || {
        let forms = schema.get("oneOf")?.as_array()?;
        forms.iter().find_map(|form| property(form, name))
    };
    own.or_else(|| property(referred(schema)?.1, name)).or_else(flat)
}

/// Whether a record of that schema always has a field.
pub(crate) fn is_required(schema: &'static Value, name: &str) -> bool {
    let own = schema.get("required").and_then(Value::as_array);
    own.is_some_and(|fields| fields.iter().any(|field| field == name))
        || referred(schema).is_some_and(|(_, form)| is_required(form, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_its_fields() {
        let of =
            |tag: &'static [&'static str], name: &str| kinds(tag).find(|kind| kind.name == name).unwrap();
        let settled = of(&["directive"], "settled").names();
        for field in ["proposal", "result", "target", "delay", "guidance", "because", "of", "at"] {
            assert!(settled.contains(&field), "{field}: {settled:?}");
        }
        let failed = of(&["event"], "model_failed");
        let failure = failed.field("failure").unwrap();
        assert!(failure.field("facts").unwrap().field("limit").is_some(), "{failure:?}");
        assert!(failed.field("seq").is_some() && failed.field("at").is_some());
        assert!(failure.field("waits").is_some_and(|waits| !waits.is_any()));
        assert!(of(&["event"], "tools_proposed").field("calls").unwrap().field("arguments").is_some());
        assert!(of(&["role"], "tool").field("at").is_none());
        assert!(kinds(&["directive", "event", "role"]).count() > 60);
    }
}
