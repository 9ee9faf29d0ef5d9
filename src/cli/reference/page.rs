//! The reference of all keys of a policy.

use core::fmt::Write as _;

use serde_json::{Map, Value};

use super::super::exit::CommandFailure;
use super::super::pages;
use super::concerns;
use super::defaults::WrittenDefaults;
use super::flow::{anchor, code, flow};
use super::types;
use super::walk::{ReferenceSection, SchemaForm, SchemaWalk};

const HEADING: &str = "\
# All keys of a policy

This page is written by `unfazed reference --write docs/`: the keys and their types come from the types that read a policy,
the defaults from the built-in policy. [The policy language](policy.md) explains them.

- **Type**. A *mapping* leads to the section with its keys. `null` may stand for every value of a layer that can be
  inherited, and goes back to the built-in value.
- **Default** is what the built-in policy says, or, in a mapping that is replaced whole, what it means to leave the key
  out. Where the built-in policy says different things in different places, each is reported. A key without a default does
  nothing until it is set; *required* keys have to be there wherever their mapping is written.
- **Units**. A *duration* is a number and its unit: `500ms`, `1.5s`, `1m30s`. A *size* is a number and its unit:
  `6000 chars`, `12 KiB`, `2500 tokens`.
- **Problems** are those that `unfazed check` finds at the key. Any key can have these besides: ";

const TABLE: &str = "\
| key | type | default | example | meaning | problems |
|---|---|---|---|---|---|
";

/// The page.
pub(super) fn policy() -> Result<String, CommandFailure> {
    let (schema, defaults) = (crate::policy::json_schema_with_checks(), WrittenDefaults::read()?);
    let walk = SchemaWalk::new(&schema);
    let mut page = format!("{HEADING}{}.\n", links(concerns::ANY));
    for section in &walk.sections {
        // Writing into a string does not fail.
        let _ = write!(page, "\n{}", SectionWriter { walk: &walk, defaults: &defaults, section }.section());
    }
    Ok(page + "\n" + &link_targets())
}

/// What it takes to write one section.
struct SectionWriter<'w, 's> {
    walk: &'w SchemaWalk<'s>,
    defaults: &'w WrittenDefaults,
    section: &'w ReferenceSection<'s>,
}

impl<'s> SectionWriter<'_, 's> {
    fn section(&self) -> String {
        let path = self.path();
        let heading = if path.is_empty() { "Top level".to_owned() } else { format!("`{path}`") };
        let mut text = format!("## {heading}\n\n");
        if !path.is_empty() {
            let about = types::meaning(self.walk, "", self.section.schema).0;
            text += &[&about, &*self.elsewhere(), "\n\n"].concat();
        }
        if let SchemaForm::Kinds(kinds) = self.walk.form(self.section.schema) {
            text.extend(kinds.iter().map(|kind| self.kind(kind)));
            let all: Vec<_> = kinds.iter().filter_map(|kind| kind.get("properties")?.as_object()).collect();
            text += &self.words(&all);
        } else {
            text += &self.keys(self.section.schema, None);
            let keys = self.section.schema.get("properties").and_then(Value::as_object);
            text += &self.words(keys.as_slice());
        }
        text.truncate(text.trim_end().len());
        text + "\n"
    }

    fn path(&self) -> &str {
        self.section.places.first().map_or("", String::as_str)
    }

    fn elsewhere(&self) -> String {
        match self.section.places.get(1..) {
            Some(more) if !more.is_empty() => {
                let more: Vec<_> = more.iter().map(|place| format!("`{place}`")).collect();
                format!(" The same keys stand in {}.", more.join(", "))
            }
            _ => String::new(),
        }
    }

    /// One of the mappings that `kind`, or another key with one value, tells apart.
    fn kind(&self, kind: &'s Value) -> String {
        let keys = kind.get("properties").and_then(Value::as_object);
        let tag = keys.and_then(|keys| keys.iter().find(|(_, value)| value.get("const").is_some()));
        let Some((tag, word)) = tag else { return self.keys(kind, None) };
        let value = word.get("const").and_then(Value::as_str).unwrap_or_default();
        let about = types::meaning(self.walk, tag, word).0;
        let rest = self.keys(kind, Some(tag));
        format!("**`{tag}: {value}`**: {about}\n\n{rest}")
    }

    /// A table of the keys of a mapping, but the one that tells it apart.
    fn keys(&self, schema: &'s Value, tag: Option<&String>) -> String {
        let Some(keys) = schema.get("properties").and_then(Value::as_object) else { return String::new() };
        let required = schema.get("required").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let shown: Vec<_> = keys.iter().filter(|(key, _)| Some(*key) != tag).collect();
        if shown.is_empty() {
            return String::new();
        }
        let mut text = TABLE.to_owned();
        for (key, value) in shown {
            text += &self.row(key, value, required.iter().any(|name| name == key));
        }
        text + "\n"
    }

    fn row(&self, key: &str, schema: &'s Value, required: bool) -> String {
        let (meaning, unit) = types::meaning(self.walk, key, schema);
        let problems = concerns::of_key(self.walk, schema);
        let kind = match types::name(self.walk, schema) {
            text if text == "text" && problems.contains(&"P0107") => "expression".to_owned(),
            text if text == "text" && problems.contains(&"P0108") => "template".to_owned(),
            other => other,
        };
        let kind = match unit {
            Some(unit) => format!("{kind} ({unit})"),
            None => kind,
        };
        let default = if required {
            "required".to_owned()
        } else {
            self.defaults.cell(&self.section.places, key, self.walk.is_replaced_whole(self.section.schema))
        };
        let example = self.example(schema).map(|value| code(&flow(value))).unwrap_or_default();
        let problems = links(&problems);
        format!(
            "| `{key}` | {kind} | {default} | {example} | {} | {problems} |\n",
            meaning.replace('|', "\\|")
        )
    }

    fn example(&self, schema: &'s Value) -> Option<&'s Value> {
        let of = |schema: &'s Value| schema.get("examples")?.as_array()?.first();
        of(schema).or_else(|| of(self.walk.resolved(schema)))
    }

    /// What the words mean that keys may be, each key once.
    fn words(&self, mappings: &[&'s Map<String, Value>]) -> String {
        let mut told = Vec::new();
        let mut text = String::new();
        for (key, schema) in mappings.iter().copied().flatten() {
            let words = match self.walk.form(schema) {
                SchemaForm::Words(words) => words,
                SchemaForm::Any(branches) => match branches.first().map(|branch| self.walk.form(branch)) {
                    Some(SchemaForm::Words(words)) => words,
                    _ => continue,
                },
                _ => continue,
            };
            if types::is_class(schema) || told.contains(&key) {
                continue;
            }
            told.push(key);
            // Writing into a string does not fail.
            let _ = writeln!(text, "`{key}`:\n");
            for word in words {
                let name = word.get("const").and_then(Value::as_str).unwrap_or_default();
                let about = word.get("description").and_then(Value::as_str).unwrap_or_default();
                let _ = writeln!(text, "- `{name}`: {about}");
            }
            text += "\n";
        }
        text
    }
}

/// Codes of problems, each a link to its page.
fn links(codes: &[&str]) -> String {
    codes.iter().map(|code| format!("[{code}]")).collect::<Vec<_>>().join(", ")
}

/// Where these links lead.
fn link_targets() -> String {
    let target = |page: pages::RulePage| {
        format!("[{}]: rules.md#{}\n", page.id, anchor(&format!("{}: {}", page.id, page.title)))
    };
    pages::all().map(target).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_of_the_language_has_a_row() {
        let (schema, page) = (crate::policy::json_schema(), policy().unwrap());
        let mut keys = Vec::new();
        collect(&schema, &mut keys);
        assert!(keys.len() > 100, "only {} keys were found", keys.len());
        // `kind` tells mappings apart and is reported above their tables.
        keys.retain(|key| key != "kind" && crate::policy::ErrorClass::from_name(key).is_none());
        let missing: Vec<_> = keys.iter().filter(|key| !page.contains(&format!("\n| `{key}` | "))).collect();
        assert!(missing.is_empty(), "{missing:?}");
    }

    /// The names of all properties.
    fn collect(schema: &Value, keys: &mut Vec<String>) {
        match schema {
            Value::Object(fields) => {
                let properties = fields.get("properties").and_then(Value::as_object);
                keys.extend(properties.into_iter().flatten().map(|(key, _)| key.clone()));
                fields
                    .iter()
                    .filter(|(key, _)| *key != "examples")
                    .for_each(|(_, value)| collect(value, keys));
            }
            Value::Array(items) => items.iter().for_each(|item| collect(item, keys)),
            _ => {}
        }
    }
}
