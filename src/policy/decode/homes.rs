//! Where a field belongs that was written into another mapping.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use schemars::generate::SchemaSettings;
use serde_json::Value;

use super::{Decode, SchemaOf};

/// What stands for the name of an entry in a path.
const NAME: &str = "NAME";
/// Fields that are in more mappings tell nothing.
const MOST: usize = 4;
/// A word that people write anywhere for a secret: that a server's certificate has one, too, tells them nothing.
const ANYWHERE: &str = "key";
/// So many mappings of a document are looked at.
const MAPPINGS: usize = 2_000;

/// The mappings of a kind of document in which each field is, by their shortest paths.
#[derive(Debug, Default)]
pub(super) struct FieldHomes(BTreeMap<String, Vec<String>>);

impl FieldHomes {
    /// Those of documents of that type.
    pub(super) fn of<T: Decode>() -> Self {
        let root =
            SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<SchemaOf<T>>().to_value();
        let mut homes = Self::default();
        let (mut seen, mut open) = (BTreeSet::new(), VecDeque::from([(&root, String::new())]));
        // Breadth first, so the first path that is found to a field is the shortest.
        while let Some((schema, path)) = open.pop_front() {
            if seen.len() > MAPPINGS {
                break;
            }
            if let Some(name) = schema.get("$ref").and_then(Value::as_str) {
                let place = name.strip_prefix('#').unwrap_or_default();
                if let Some(definition) = root.pointer(place).filter(|_| seen.insert(place)) {
                    open.push_back((definition, path.clone()));
                }
            }
            for form in ["anyOf", "oneOf", "allOf"] {
                let forms = schema.get(form).and_then(Value::as_array).into_iter().flatten();
                open.extend(forms.map(|form| (form, path.clone())));
            }
            open.extend(schema.get("items").map(|items| (items, path.clone())));
            let entries = schema.get("additionalProperties").filter(|entries| entries.is_object());
            open.extend(entries.map(|entries| (entries, below(&path, NAME))));
            for (field, value) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
                homes.add(field, &path);
                open.push_back((value, below(&path, field)));
            }
        }
        homes
    }

    fn add(&mut self, field: &str, path: &str) {
        let paths = self.0.entry(field.to_owned()).or_default();
        // One more than `help` reports is kept, so that it can tell that there are too many.
        if paths.len() <= MOST && !paths.iter().any(|known| known == path) {
            paths.push(path.to_owned());
        }
    }

    /// Where a field belongs, if that is reported by its name.
    pub(super) fn help(&self, field: &str) -> Option<String> {
        let paths = self.0.get(field).filter(|paths| paths.len() <= MOST && field != ANYWHERE)?;
        let place = |path: &String| match path.as_str() {
            "" => "the top level".to_owned(),
            path => format!("`{path}`"),
        };
        let places: Vec<String> = paths.iter().map(place).collect();
        Some(format!("`{field}` belongs in {}", places.join(" or ")))
    }
}

fn below(path: &str, step: &str) -> String {
    if path.is_empty() { step.to_owned() } else { format!("{path}.{step}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::document::PolicyFile;

    #[test]
    fn a_field_is_found_by_its_shortest_path() {
        let homes = FieldHomes::of::<PolicyFile>();
        for (field, help) in [
            ("max_turns", "`max_turns` belongs in `limits` or `turn`"),
            ("breaker", "`breaker` belongs in `tools.NAME` or `models.NAME.pace`"),
            ("factor", "`factor` belongs in `retry.backoff`"),
        ] {
            assert_eq!(homes.help(field).as_deref(), Some(help));
        }
        assert_eq!((homes.help("nothing_of_it"), homes.help("kind")), (None, None));
    }
}
