//! The last touch on a schema that is published: every property gets an example, and its unit where it has one.
//!
//! An example is written as the last words of a doc comment, "Example: `3`", in JSON or as plain text, on a field
//! or on a type. A type whose schema is written by hand gives its own (`examples`), and its unit (`x-unit`), which the
//! descriptions of all fields of that type then end with. Whatever is made of other things derives its example
//! from theirs.
//!
//! Before its example a field may name the diagnostics that concern it, "Checks: W0202, W0203."; a type, too, for all
//! fields of that type. They are for the reference (`x-checks`), and taken out of what is published.

use serde_json::{Map, Value, json};

/// What an example begins with in a doc comment.
const MARK: &str = "Example: `";
/// Where a type says its unit. It is taken out of what is published.
const UNIT: &str = "x-unit";
/// What the diagnostics of a key begin with in a doc comment.
const CHECKS: &str = "Checks: ";
/// Where they are kept.
const X_CHECKS: &str = "x-checks";
/// How many fields an example of a mapping shows if none is required.
const MOST_FIELDS: usize = 2;
/// How many types deep an example is looked for.
const MOST_DEEP: usize = 16;

/// Completes a root schema for publication.
pub(crate) fn complete(root: Value) -> Value {
    let mut root = complete_with_checks(root);
    each(&mut root, &mut |schema| drop(schema.shift_remove(X_CHECKS)));
    root
}

/// Completes a root schema; every key says which diagnostics concern it.
pub(crate) fn complete_with_checks(mut root: Value) -> Value {
    each(&mut root, &mut take_example);
    each(&mut root, &mut take_checks);
    let types = match root.get("$defs") {
        Some(Value::Object(types)) => SchemaTypes(types.clone()),
        _ => SchemaTypes(Map::new()),
    };
    each(&mut root, &mut |schema| types.describe_fields(schema));
    if let Some(Value::Object(defs)) = root.get_mut("$defs") {
        defs.values_mut().filter_map(Value::as_object_mut).for_each(|schema| types.show(schema));
    }
    if let Value::Object(root) = &mut root {
        types.show(root);
    }
    each(&mut root, &mut |schema| drop(schema.shift_remove(UNIT)));
    each(&mut root, &mut take_format);
    root
}

/// Schemas within a schema, by the keywords that hold them.
const ONE: [&str; 7] = ["additionalProperties", "items", "propertyNames", "not", "if", "then", "else"];
const LISTS: [&str; 4] = ["anyOf", "oneOf", "allOf", "prefixItems"];
const NAMED: [&str; 2] = ["properties", "$defs"];

/// Visits a schema and all schemas within it.
fn each(schema: &mut Value, visit: &mut dyn FnMut(&mut Map<String, Value>)) {
    let Value::Object(schema) = schema else { return };
    visit(schema);
    for (key, inner) in schema.iter_mut() {
        match (key.as_str(), inner) {
            (key, inner @ Value::Object(_)) if ONE.contains(&key) => each(inner, visit),
            (key, Value::Array(inner)) if LISTS.contains(&key) => {
                for inner in inner {
                    each(inner, visit);
                }
            }
            (key, Value::Object(inner)) if NAMED.contains(&key) => {
                for inner in inner.values_mut() {
                    each(inner, visit);
                }
            }
            _ => {}
        }
    }
}

/// Takes the example out of the description. Lines of a paragraph become one, links become names.
fn take_example(schema: &mut Map<String, Value>) {
    let Some(Value::String(description)) = schema.get("description") else { return };
    let marked = description.trim_end().strip_suffix('`').and_then(|text| text.rsplit_once(MARK));
    let words = marked.map_or(description.as_str(), |(words, _)| words);
    let example = marked.map(|(_, text)| serde_json::from_str(text).unwrap_or_else(|_| Value::from(text)));
    let words = words
        .trim_end()
        .replace("[`", "`")
        .replace("`]", "`")
        // Doc comments hold no NUL, so it can stand for the end of a paragraph while the other line ends become
        // spaces.
        .replace("\n\n", "\u{0}")
        .replace('\n', " ")
        .replace('\u{0}', "\n\n");
    schema.insert("description".into(), words.into());
    if let Some(example) = example {
        schema.insert("examples".into(), json!([example]));
    }
}

/// Takes the diagnostics out of the description.
fn take_checks(schema: &mut Map<String, Value>) {
    let Some(Value::String(description)) = schema.get("description") else { return };
    let Some((words, codes)) = description.rsplit_once(CHECKS) else { return };
    let codes: Vec<Value> = codes.trim_end().trim_end_matches('.').split(", ").map(Value::from).collect();
    let words = Value::from(words.trim_end());
    schema.insert("description".into(), words);
    match schema.get_mut(X_CHECKS) {
        Some(Value::Array(of_type)) => of_type.extend(codes),
        _ => drop(schema.insert(X_CHECKS.into(), codes.into())),
    }
}

/// Takes out the type that a number is kept in, such as `uint32`: strict validators refuse schemas with formats that they
/// do not know. What such a type can hold stays.
fn take_format(schema: &mut Map<String, Value>) {
    let Some(Value::String(format)) = schema.get("format") else { return };
    // The bound of the format is kept as `maximum`, which every validator knows.
    if format == "uint32" && !schema.contains_key("maximum") {
        schema.insert("maximum".into(), u32::MAX.into());
    }
    schema.shift_remove("format");
}

/// One example of its parts: mappings are taken together.
fn joined<const N: usize>(parts: [Option<Value>; N]) -> Option<Value> {
    parts.into_iter().flatten().reduce(|mut whole, part| {
        if let (Value::Object(whole), Value::Object(part)) = (&mut whole, part) {
            whole.extend(part);
        }
        whole
    })
}

/// The types that schemas refer to by name.
struct SchemaTypes(Map<String, Value>);

impl SchemaTypes {
    /// Describes the properties of a mapping. The one that tells unions apart is described by its form.
    fn describe_fields(&self, schema: &mut Map<String, Value>) {
        let form = schema.get("description").cloned();
        let shown = schema.get("examples").and_then(|examples| examples.get(0)).cloned();
        let Some(Value::Object(properties)) = schema.get_mut("properties") else { return };
        let alone = properties.len() == 1;
        for (name, field) in properties {
            let Value::Object(field) = field else { continue };
            let tells = alone || field.contains_key("const");
            if let (true, None, Some(form)) = (tells, field.get("description"), &form) {
                field.insert("description".into(), form.clone());
            }
            if let (false, Some(shown)) =
                (field.contains_key("examples"), shown.as_ref().and_then(|shown| shown.get(name)))
            {
                field.insert("examples".into(), json!([shown]));
            }
            if let (Some(unit), Some(Value::String(words))) =
                (self.unit(field, MOST_DEEP), field.get_mut("description"))
                && !words.contains(&unit)
            {
                words.push(' ');
                words.push_str(&unit);
            }
            self.show_field(field);
        }
    }

    /// Gives a field an example, unless it has one or says no more than the type it refers to.
    fn show_field(&self, field: &mut Map<String, Value>) {
        // The type itself shows the example already.
        let elsewhere = field.contains_key("$ref")
            || field.contains_key("anyOf")
                && self.of(field, MOST_DEEP).is_some_and(|example| example.is_object());
        if !elsewhere {
            self.show(field);
        }
    }

    /// Gives a type its examples, unless it has some: one of each form of a mapping.
    fn show(&self, schema: &mut Map<String, Value>) {
        if schema.contains_key("examples") {
            return;
        }
        let forms = schema.get("oneOf").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let of_form = |form: &Value| joined([self.of_type(schema, MOST_DEEP), self.example(form, MOST_DEEP)]);
        let mut examples: Vec<Value> = forms.iter().filter_map(of_form).collect();
        if examples.iter().any(|example| !example.is_object()) {
            examples.truncate(1);
        }
        if examples.is_empty() {
            examples.extend(self.of(schema, MOST_DEEP));
        }
        if !examples.is_empty() {
            schema.insert("examples".into(), examples.into());
        }
    }

    fn example(&self, schema: &Value, depth: usize) -> Option<Value> {
        // Types may refer to themselves, so the search has a depth.
        self.of(schema.as_object()?, depth.checked_sub(1)?)
    }

    fn of(&self, schema: &Map<String, Value>, depth: usize) -> Option<Value> {
        let first = |key: &str| schema.get(key)?.as_array()?.first().cloned();
        let given = first("examples").or_else(|| schema.get("const").cloned()).or_else(|| first("enum"));
        given.or_else(|| {
            let named = self.named(schema).and_then(|named| self.example(named, depth));
            joined([self.of_type(schema, depth), named, self.of_forms(schema, depth)])
        })
    }

    /// The type a schema refers to.
    fn named(&self, schema: &Map<String, Value>) -> Option<&Value> {
        self.0.get(schema.get("$ref")?.as_str()?.strip_prefix("#/$defs/")?)
    }

    fn of_forms(&self, schema: &Map<String, Value>, depth: usize) -> Option<Value> {
        let forms = schema.get("anyOf").or_else(|| schema.get("oneOf"))?.as_array()?;
        forms.iter().find_map(|form| self.example(form, depth))
    }

    fn of_type(&self, schema: &Map<String, Value>, depth: usize) -> Option<Value> {
        let name = match schema.get("type")? {
            Value::Array(names) => names.first()?.as_str()?,
            name => name.as_str()?,
        };
        match name {
            "boolean" => Some(true.into()),
            "null" => Some(Value::Null),
            "integer" => {
                Some(schema.get("minimum").and_then(Value::as_u64).unwrap_or_default().max(1).into())
            }
            "array" => Some(json!([self.example(schema.get("items")?, depth)?])),
            "object" => self.of_mapping(schema, depth),
            _ => None,
        }
    }

    /// The fields that are required, or the first ones.
    fn of_mapping(&self, schema: &Map<String, Value>, depth: usize) -> Option<Value> {
        if let Some(values) = schema.get("additionalProperties").filter(|values| values.is_object()) {
            let names = schema.get("propertyNames").and_then(Value::as_object);
            let name = names.and_then(|names| self.of(names, depth));
            let name = name.as_ref().and_then(Value::as_str).unwrap_or("name");
            return Some(json!({name: self.example(values, depth)?}));
        }
        let properties = schema.get("properties")?.as_object()?;
        let required = schema.get("required").and_then(Value::as_array);
        let is_required =
            |name: &str| required.is_some_and(|names| names.iter().any(|one| one.as_str() == Some(name)));
        let of = |name: &str| Some((name.to_owned(), self.example(properties.get(name)?, depth)?));
        let mut shown: Map<String, Value> = Map::new();
        for name in properties.keys().filter(|name| is_required(name)) {
            shown.extend([of(name)?]);
        }
        if shown.is_empty() {
            shown.extend(properties.keys().filter_map(|name| of(name)).take(MOST_FIELDS));
        }
        Some(Value::Object(shown))
    }

    /// The unit of a type, or of what it is made of.
    fn unit(&self, schema: &Map<String, Value>, depth: usize) -> Option<String> {
        let depth = depth.checked_sub(1)?;
        let inner = |schema: &Value| self.unit(schema.as_object()?, depth);
        if let Some(unit) = schema.get(UNIT) {
            return unit.as_str().map(str::to_owned);
        }
        self.named(schema)
            .and_then(inner)
            .or_else(|| inner(schema.get("items")?))
            .or_else(|| schema.get("anyOf")?.as_array()?.iter().find_map(inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_words_of_a_description_are_its_example() {
        let schema = json!({"properties": {
            "a": {"type": "integer", "description": "How many. Example: `3`"},
            "b": {"type": "string", "description": "Who\nor what.\n\nExample: `the house`"},
        }});
        assert_eq!(
            complete(schema),
            json!({"properties": {
                "a": {"type": "integer", "description": "How many.", "examples": [3]},
                "b": {"type": "string", "description": "Who or what.", "examples": ["the house"]},
            }})
        );
    }

    #[test]
    fn what_is_made_of_others_derives_its_example() {
        let schema = json!({
            "properties": {"rooms": {"type": "object", "additionalProperties": {"$ref": "#/$defs/Room"}}},
            "$defs": {"Room": {
                "type": "object",
                "properties": {"beds": {"type": "integer", "examples": [2]}, "name": {"type": "string"}},
                "required": ["beds"],
            }},
        });
        let schema = complete(schema);
        assert_eq!(schema["$defs"]["Room"]["examples"], json!([{"beds": 2}]));
        assert_eq!(schema["properties"]["rooms"]["examples"], json!([{"name": {"beds": 2}}]));
    }

    #[test]
    fn a_field_says_the_unit_of_its_type() {
        let schema = json!({
            "properties": {"wait": {"$ref": "#/$defs/Length", "description": "How long."}},
            "$defs": {"Length": {"type": "integer", "x-unit": "In metres."}},
        });
        let schema = complete(schema);
        assert_eq!(schema["properties"]["wait"]["description"], "How long. In metres.");
        assert_eq!(schema["$defs"]["Length"], json!({"type": "integer", "examples": [1]}));
    }

    #[test]
    fn types_within_themselves_have_no_example_without_end() {
        let schema = json!({"$defs": {"Box": {
            "type": "object", "properties": {"inner": {"$ref": "#/$defs/Box"}}, "required": ["inner"],
        }}});
        assert!(complete(schema)["$defs"]["Box"].get("examples").is_none());
    }
}
