//! A schema as the places a validation visits: what a visit costs, and where it leads.

use std::collections::BTreeMap;

use regex::RegexBuilder;
use serde_json::{Map, Value};

use super::bounds::{REFERENCES, SchemaReferences};
use super::problem::pointer_step;

/// The places of a schema; the first is its root.
pub(super) struct SchemaPlan {
    pub(super) rules: Vec<SchemaRule>,
}

/// One place of a schema.
#[derive(Default)]
pub(super) struct SchemaRule {
    /// Where it is written, as a JSON Pointer.
    pub(super) pointer: String,
    /// The kinds of values it does not take, a bit for each.
    pub(super) refused: u8,
    /// The steps of a visit, whatever the value.
    pub(super) weight: u64,
    /// The steps for each four bytes of a text.
    pub(super) text: u64,
    /// The steps for each key of an object.
    pub(super) keys: u64,
    /// Whether all elements are compared with each other.
    pub(super) unique: bool,
    /// What fields are held against by their names, what all others are, and what all are.
    pub(super) named: BTreeMap<String, usize>,
    pub(super) others: Vec<usize>,
    pub(super) members: Vec<usize>,
    /// What elements are held against by their places, what all are, and what some of them must fit.
    pub(super) first: Vec<usize>,
    pub(super) elements: Vec<usize>,
    pub(super) some: Vec<usize>,
    /// What the value itself is held against, too: always, and under a condition; what is only asked whether it holds;
    /// and the forms of a union.
    pub(super) in_place: Vec<usize>,
    pub(super) conditional: Vec<usize>,
    pub(super) asked: Vec<usize>,
    pub(super) forms: Vec<usize>,
    /// Whether it depends on which parts of the value its sibling rules have looked at.
    pub(super) marks: bool,
    /// Whether a reference inside leads back to it. The validator remembers what it found out there.
    pub(super) head: bool,
}

impl SchemaRule {
    /// Everything else that the value itself is validated with.
    pub(super) fn beside(&self) -> impl Iterator<Item = usize> {
        let all = self.in_place.iter().chain(&self.conditional).chain(&self.asked).chain(&self.forms);
        all.copied()
    }
}

impl SchemaPlan {
    /// The places of a schema that was measured: it is neither too large nor too deep.
    pub(super) fn new(schema: &Value, rules: usize) -> Self {
        let mut plan = Self { rules: Vec::new() };
        let Ok(references) = SchemaReferences::of(schema) else { return plan };
        let places = places(schema);
        let mut planner = SchemaPlanner {
            plan: &mut plan,
            references,
            places,
            known: BTreeMap::new(),
            rules: count(rules),
        };
        planner.visit(schema);
        plan
    }
}

struct SchemaPlanner<'a, 'p> {
    plan: &'p mut SchemaPlan,
    references: SchemaReferences<'a>,
    places: BTreeMap<*const Value, String>,
    /// By address: the place, and whether it is complete.
    known: BTreeMap<*const Value, (usize, bool)>,
    rules: u64,
}

impl<'a> SchemaPlanner<'a, '_> {
    /// In the order of the text, as the validator compiles it: the places that references lead back to are the same.
    fn visit(&mut self, part: &'a Value) -> usize {
        let key = core::ptr::from_ref(part);
        // Reached again before it is complete: a reference leads back to it.
        if let Some((index, complete)) = self.known.get(&key) {
            if !complete && let Some(rule) = self.plan.rules.get_mut(*index) {
                rule.head = true;
            }
            return *index;
        }
        let index = self.plan.rules.len();
        let pointer = self.places.get(&key).cloned().unwrap_or_default();
        self.plan.rules.push(SchemaRule::default());
        self.known.insert(key, (index, false));
        let mut rule = SchemaRule { pointer, weight: 1, ..SchemaRule::default() };
        if let Value::Object(entries) = part {
            for (keyword, value) in entries {
                rule.weight = rule.weight.saturating_add(1);
                self.keyword(&mut rule, keyword, value);
            }
        }
        self.known.insert(key, (index, true));
        if let Some(place) = self.plan.rules.get_mut(index) {
            rule.head = place.head;
            *place = rule;
        }
        index
    }

    fn keyword(&mut self, rule: &mut SchemaRule, keyword: &str, value: &'a Value) {
        match (keyword, value) {
            ("type", kinds) => rule.refused = !kinds_of(kinds),
            ("enum" | "const" | "required" | "dependentRequired", said) => {
                rule.weight = rule.weight.saturating_add(size(said));
            }
            ("pattern", Value::String(pattern)) => rule.text = rule.text.saturating_add(matching(pattern)),
            ("format" | "minLength" | "maxLength" | "contentEncoding" | "contentMediaType", _) => {
                rule.text = rule.text.saturating_add(1);
            }
            ("uniqueItems", Value::Bool(unique)) => rule.unique = *unique,
            ("properties", Value::Object(fields)) => {
                rule.named = fields.iter().map(|(name, field)| (name.clone(), self.visit(field))).collect();
            }
            ("patternProperties", Value::Object(fields)) => {
                for (pattern, field) in fields {
                    rule.keys = rule.keys.saturating_add(matching(pattern).saturating_mul(8));
                    rule.members.push(self.visit(field));
                }
            }
            ("additionalProperties", field) => rule.others.push(self.visit(field)),
            // It depends on which members its sibling rules looked at, so these are visited once more.
            ("unevaluatedProperties", field) => {
                rule.marks = true;
                rule.members.push(self.visit(field));
            }
            ("propertyNames", names) => rule.keys = rule.keys.saturating_add(self.naming(names)),
            // A list under `items` is that of drafts before 2020-12, which calls it `prefixItems`.
            ("items" | "prefixItems", Value::Array(list)) => {
                rule.first.extend(list.iter().map(|element| self.visit(element)));
            }
            ("items" | "additionalItems", element) => rule.elements.push(self.visit(element)),
            ("contains", element) => rule.some.push(self.visit(element)),
            ("unevaluatedItems", element) => {
                rule.marks = true;
                rule.some.push(self.visit(element));
            }
            ("allOf", Value::Array(list)) => {
                rule.in_place.extend(list.iter().map(|part| self.visit(part)));
            }
            ("anyOf" | "oneOf", Value::Array(list)) => {
                rule.forms.extend(list.iter().map(|form| self.visit(form)));
            }
            // Asked whether they hold, and nothing else: their mistakes are never reported.
            ("not" | "if", part) => rule.asked.push(self.visit(part)),
            ("then" | "else", part) => rule.conditional.push(self.visit(part)),
            // Up to draft 7 the keyword was `dependencies`.
            ("dependentSchemas" | "dependencies", Value::Object(parts)) => self.dependent(rule, parts),
            (reference, Value::String(to)) if REFERENCES.contains(&reference) => {
                let targets = self.references.targets(to);
                rule.in_place.extend(targets.into_iter().map(|target| self.visit(target)));
            }
            _ => {}
        }
    }

    fn dependent(&mut self, rule: &mut SchemaRule, parts: &'a Map<String, Value>) {
        for part in parts.values() {
            match part {
                Value::Array(names) => rule.weight = rule.weight.saturating_add(count(names.len())),
                part => rule.conditional.push(self.visit(part)),
            }
        }
    }

    /// The steps of one name that is held against `names`: all that is written there, or all rules there are if it
    /// leads elsewhere.
    fn naming(&self, names: &Value) -> u64 {
        let mut steps = size(names);
        let mut stack = vec![names];
        while let Some(part) = stack.pop() {
            match part {
                Value::Array(list) => stack.extend(list),
                Value::Object(entries) => {
                    if let Some(Value::String(pattern)) = entries.get("pattern") {
                        steps = steps.saturating_add(matching(pattern).saturating_mul(8));
                    }
                    if REFERENCES.into_iter().any(|name| entries.contains_key(name)) {
                        steps = steps.saturating_add(self.rules);
                    }
                    stack.extend(entries.values());
                }
                _ => {}
            }
        }
        steps
    }
}

/// Where each part of a schema is in it, by its address.
fn places(schema: &Value) -> BTreeMap<*const Value, String> {
    let mut places = BTreeMap::new();
    let mut stack = vec![(schema, String::new())];
    while let Some((part, pointer)) = stack.pop() {
        match part {
            Value::Array(list) => {
                stack.extend(list.iter().enumerate().map(|(i, part)| (part, format!("{pointer}/{i}"))));
            }
            Value::Object(entries) => {
                let step = |name: &str| format!("{pointer}/{}", pointer_step(name));
                stack.extend(entries.iter().map(|(name, part)| (part, step(name))));
            }
            _ => {}
        }
        places.insert(core::ptr::from_ref(part), pointer);
    }
    places
}

/// The kinds of values that a `type` names, a bit for each; all if it is not understood.
fn kinds_of(said: &Value) -> u8 {
    let bit = |name: &Value| match name.as_str() {
        Some("null") => bit_of(&Value::Null),
        Some("boolean") => bit_of(&Value::Bool(true)),
        // An integer may be written as `1.0`, so both kinds have one bit.
        Some("number" | "integer") => bit_of(&Value::from(0)),
        Some("string") => bit_of(&Value::String(String::new())),
        Some("array") => bit_of(&Value::Array(Vec::new())),
        Some("object") => bit_of(&Value::Object(Map::new())),
        // The compiler refuses an unknown type; here it must not make a visit look cheap.
        _ => u8::MAX,
    };
    match said {
        Value::Array(names) => names.iter().map(bit).fold(0, |all, one| all | one),
        name => bit(name),
    }
}

/// The bit of a value's kind.
pub(super) const fn bit_of(value: &Value) -> u8 {
    match value {
        Value::Null => 1,
        Value::Bool(_) => 2,
        Value::Number(_) => 4,
        Value::String(_) => 8,
        Value::Array(_) => 16,
        Value::Object(_) => 32,
    }
}

/// How long a pattern may take for four bytes, by how large it is when compiled: matching is linear in the text, and in the
/// states of the pattern at worst.
fn matching(pattern: &str) -> u64 {
    let within = |bytes: usize| RegexBuilder::new(pattern).size_limit(bytes).build().is_ok();
    match () {
        () if within(16 << 10) => 1,
        () if within(128 << 10) => 16,
        () => 128,
    }
}

/// How many values there are in a value, and its texts in words of 16 bytes.
pub(super) fn size(value: &Value) -> u64 {
    let mut size: u64 = 0;
    let mut stack = vec![value];
    while let Some(part) = stack.pop() {
        size = size.saturating_add(1);
        match part {
            Value::String(text) => size = size.saturating_add(words(text)),
            Value::Array(list) => stack.extend(list),
            Value::Object(entries) => {
                for (key, value) in entries {
                    size = size.saturating_add(words(key));
                    stack.push(value);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    size
}

fn words(text: &str) -> u64 {
    count(text.len()) >> 4
}

pub(super) fn count(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}
