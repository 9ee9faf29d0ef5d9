//! How large and how deep a schema is with its references followed, before anything recursive sees it.

use std::collections::BTreeMap;

use serde_json::Value;

use super::SchemaError;

const MAX_DEPTH: usize = 128;
const MAX_VALUES: usize = 20_000;
const MAX_RULES: usize = 50_000;
/// Steps of a validation on the stack at once.
const MAX_STEPS: usize = 2000;

/// What was measured.
#[derive(Clone, Copy, Debug)]
pub(super) struct SchemaShape {
    height: usize,
    /// How many rules there are with references followed; a recursive reference counts once.
    pub(super) rules: usize,
    /// Whether a validation may visit a part of a value more than once for each rule.
    pub(super) repeats: bool,
    /// Whether texts are matched against patterns.
    pub(super) patterns: bool,
    recursive: bool,
}

impl SchemaShape {
    /// Whether `value` is flat enough to be validated.
    pub(super) fn admits(self, value: &Value) -> bool {
        // The validator recurses through schema and value together, so a tall schema allows a flatter value.
        let steps = MAX_STEPS.checked_div(self.height).unwrap_or(MAX_DEPTH);
        let limit = if self.recursive { steps.min(MAX_DEPTH) } else { MAX_DEPTH };
        within(value, limit, usize::MAX)
    }
}

/// Measures a schema and refuses one that is too deep, too large, or grows too much by its references.
pub(super) fn measure(schema: &Value) -> Result<SchemaShape, SchemaError> {
    let refuse = |message: &str, help: &str| SchemaError {
        message: message.to_owned(),
        pointer: None,
        help: Some(help.to_owned()),
    };
    if !within(schema, MAX_DEPTH, MAX_VALUES) {
        return Err(refuse("the schema is too large or nested more than 128 deep", "simplify it"));
    }
    let references = SchemaReferences::of(schema).map_err(|id| {
        refuse(
            &format!("the schema gives a part of it an identifier of its own: `{id}`"),
            "remove the inner `$id` and refer to `#/$defs/name`",
        )
    })?;
    let mut walk =
        SchemaWalk { references, known: BTreeMap::new(), recursive: false, marks: false, patterns: false };
    let measured = walk.visit(schema, 0);
    let Some(SchemaSize { rules, height }) = measured else {
        return Err(refuse(
            "the references of the schema lead more than 128 deep",
            "shorten the chain of `$ref`",
        ));
    };
    if rules > MAX_RULES {
        return Err(refuse(
            "the schema grows to more than 50000 rules when its references are followed",
            "repeat fewer references",
        ));
    }
    let SchemaWalk { recursive, marks, patterns, .. } = walk;
    Ok(SchemaShape { height, rules, repeats: recursive || marks, patterns, recursive })
}

/// Whether `value` is at most `depth` deep and holds at most `count` values; does not recurse.
fn within(value: &Value, depth: usize, count: usize) -> bool {
    let mut left = count;
    let mut stack = vec![(value, depth)];
    while let Some((value, depth)) = stack.pop() {
        let (Some(room), Some(rest)) = (depth.checked_sub(1), left.checked_sub(1)) else { return false };
        left = rest;
        match value {
            Value::Array(elements) => stack.extend(elements.iter().map(|element| (element, room))),
            Value::Object(entries) => stack.extend(entries.values().map(|value| (value, room))),
            _ => {}
        }
    }
    true
}

#[derive(Clone, Copy)]
struct SchemaSize {
    rules: usize,
    height: usize,
}

/// Collects the named places of a schema. Gives the identifier of an inner part that has one: references in
/// it would start elsewhere.
fn index<'a>(schema: &'a Value, anchors: &mut BTreeMap<&'a str, Vec<&'a Value>>) -> Option<String> {
    let draft_4 =
        // Draft 4 called it `id`.
        schema.get("$schema").and_then(Value::as_str).is_some_and(|draft| draft.contains("draft-04"));
    let identifier = if draft_4 { "id" } else { "$id" };
    let mut stack = vec![schema];
    while let Some(part) = stack.pop() {
        match part {
            Value::Array(elements) => stack.extend(elements),
            Value::Object(entries) => {
                // An inner identifier changes the base of all references below it (JSON Schema 2020-12 core, section
                // 8.2.1).
                if !core::ptr::eq(part, schema)
                    && let Some(id) = entries.get(identifier).and_then(Value::as_str)
                {
                    return Some(id.chars().take(80).collect());
                }
                for name in ["$anchor", "$dynamicAnchor"] {
                    if let Some(name) = entries.get(name).and_then(Value::as_str) {
                        anchors.entry(name).or_default().push(part);
                    }
                }
                stack.extend(entries.values());
            }
            _ => {}
        }
    }
    None
}

/// The keywords that lead elsewhere.
pub(super) const REFERENCES: [&str; 3] = ["$ref", "$dynamicRef", "$recursiveRef"];

/// Where the references of a schema lead.
pub(super) struct SchemaReferences<'a> {
    root: &'a Value,
    anchors: BTreeMap<&'a str, Vec<&'a Value>>,
}

impl<'a> SchemaReferences<'a> {
    /// Collects the named places. The error is the identifier of an inner part that has one.
    pub(super) fn of(root: &'a Value) -> Result<Self, String> {
        let mut anchors = BTreeMap::new();
        match index(root, &mut anchors) {
            Some(id) => Err(id),
            None => Ok(Self { root, anchors }),
        }
    }

    /// Where a reference leads; nowhere if it leads out of the schema, which the compiler refuses.
    pub(super) fn targets(&self, reference: &str) -> Vec<&'a Value> {
        let Some((document, fragment)) = reference.split_once('#') else { return vec![self.root] };
        let own = self.root.get("$id").or_else(|| self.root.get("id")).and_then(Value::as_str).unwrap_or("");
        if !document.is_empty() && document != own.trim_end_matches('#') {
            return vec![self.root];
        }
        // RFC 6901, section 6: in a URI the pointer is percent-encoded.
        let fragment = decoded(fragment);
        if fragment.is_empty() || fragment.starts_with('/') {
            return self.root.pointer(&fragment).into_iter().collect();
        }
        self.anchors.get(fragment.as_str()).cloned().unwrap_or_default()
    }
}

/// A walk through a schema and along its references.
struct SchemaWalk<'a> {
    references: SchemaReferences<'a>,
    /// By address, so that a part reached twice is measured once; `None` while it is being measured.
    known: BTreeMap<*const Value, Option<SchemaSize>>,
    recursive: bool,
    /// Whether rules ask which parts others have looked at (`unevaluatedProperties`, `unevaluatedItems`).
    marks: bool,
    patterns: bool,
}

impl<'a> SchemaWalk<'a> {
    /// The size of a part, or nothing if it is too deep. Recurses at most [`MAX_DEPTH`] deep.
    fn visit(&mut self, part: &'a Value, depth: usize) -> Option<SchemaSize> {
        if depth > MAX_DEPTH {
            return None;
        }
        let key = core::ptr::from_ref(part);
        match self.known.get(&key) {
            Some(Some(size)) => return (depth.saturating_add(size.height) <= MAX_DEPTH).then_some(*size),
            Some(None) => {
                // A place that is still being measured leads back to itself.
                self.recursive = true;
                return Some(SchemaSize { rules: 1, height: 0 });
            }
            None => {}
        }
        let parts: Vec<&'a Value> = match part {
            Value::Array(elements) => elements.iter().collect(),
            Value::Object(entries) => {
                let any = |names: [&str; 2]| names.into_iter().any(|name| entries.contains_key(name));
                self.marks |= any(["unevaluatedProperties", "unevaluatedItems"]);
                self.patterns |= any(["pattern", "patternProperties"]);
                let references = REFERENCES.into_iter();
                let references = references.filter_map(|name| entries.get(name)?.as_str());
                let targets = references.flat_map(|reference| self.references.targets(reference));
                entries.values().chain(targets).collect()
            }
            _ => return Some(SchemaSize { rules: 1, height: 0 }),
        };
        self.known.insert(key, None);
        let mut size = SchemaSize { rules: 1, height: 0 };
        for part in parts {
            let inner = self.visit(part, depth.saturating_add(1))?;
            size.rules = size.rules.saturating_add(inner.rules);
            size.height = size.height.max(inner.height.saturating_add(1));
        }
        self.known.insert(key, Some(size));
        Some(size)
    }
}

/// `text` with `%20` and its like replaced by the characters they stand for.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let digits =
            after.get(..2).filter(|_| byte == b'%').and_then(|digits| core::str::from_utf8(digits).ok());
        let escaped = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(escaped.unwrap_or(byte));
        rest = if escaped.is_some() { after.get(2..).unwrap_or_default() } else { after };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
