//! What documents say and could not be read. Whatever is looked for afterwards must not be told if it may be missing
//! for that reason alone.

use std::collections::BTreeSet;

/// The fields that could not be read, by name, wherever they stand.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lost {
    fields: BTreeSet<String>,
    file: bool,
}

impl Lost {
    /// A field could not be read, or an entry of that type.
    pub(crate) fn field(&mut self, name: &str) {
        if !self.fields.contains(name) {
            self.fields.insert(name.to_owned());
        }
    }

    /// A whole file could not be read.
    pub(crate) const fn file(&mut self) {
        self.file = true;
    }

    /// Whether a whole file is not known.
    pub(crate) const fn has_file(&self) -> bool {
        self.file
    }

    /// Whether everything is known.
    pub(crate) fn is_nothing(&self) -> bool {
        !self.file && self.fields.is_empty()
    }

    /// Whether one of them is not known.
    pub(crate) fn any(&self, names: &[&str]) -> bool {
        self.file || names.iter().any(|name| self.fields.contains(*name))
    }

    /// Whether a field on the way to that value, or the value itself, is not known.
    pub(crate) fn touches(&self, path: &str) -> bool {
        self.file || path.split(['.', '[', ']', '"']).any(|step| self.fields.contains(step))
    }
}
