//! What is wrong with a value where the report of everything would cost too much: the errors of a union hold those of all its
//! forms, and they multiply with each union inside. So it is made part by part, from the outside in.

use std::collections::{BTreeMap, BTreeSet};

use jsonschema::{Draft, Registry, RegistryBuilder, Validator};
use serde_json::Value;

use super::fuel::{REPORT_STEPS, STEPS, to_check, to_report};
use super::plan::SchemaPlan;
use super::problem::{self, SchemaProblem, pointer_step};
use super::{MAX_PROBLEMS, options};

/// What the schema is called while its parts are compiled.
const NAME: &str = "urn:unfazed:schema";
/// Of so many places of a schema the validators are made.
const MOST_PLACES: usize = 64;

/// The problems of the innermost parts that fail and can be reported as a whole; of others, their places.
pub(super) fn part_by_part(
    schema: &Value,
    draft: Draft,
    plan: &SchemaPlan,
    value: &Value,
) -> Vec<SchemaProblem> {
    let registry = Registry::new().draft(draft).add(NAME, schema).and_then(RegistryBuilder::prepare);
    let Ok(registry) = registry else { return vec![unsaid("", 0)] };
    let mut report = SchemaReport {
        schema,
        draft,
        plan,
        registry,
        validators: BTreeMap::new(),
        left: STEPS,
        problems: Vec::new(),
    };
    let mut stack = vec![(0, value, String::new())];
    // Forms of a union lead to the same parts again and again.
    let mut seen = BTreeSet::new();
    while let Some((place, value, pointer)) = stack.pop() {
        if !seen.insert((place, pointer.clone())) {
            continue;
        }
        if report.problems.len() > MAX_PROBLEMS {
            break;
        }
        let mut inner = report.visit(place, value, &pointer);
        inner.reverse();
        stack.extend(inner);
    }
    if report.problems.is_empty() {
        return vec![unsaid("", 0)];
    }
    report.problems
}

struct SchemaReport<'a> {
    schema: &'a Value,
    draft: Draft,
    plan: &'a SchemaPlan,
    registry: Registry<'a>,
    validators: BTreeMap<usize, Option<Validator>>,
    /// The steps that are left for all of it.
    left: u64,
    problems: Vec<SchemaProblem>,
}

type ReportPart<'v> = (usize, &'v Value, String);

impl SchemaReport<'_> {
    /// A part that fails: tells what is wrong with it, or gives the parts of it that fail.
    fn visit<'v>(&mut self, place: usize, value: &'v Value, pointer: &str) -> Vec<ReportPart<'v>> {
        if to_report(self.plan, place, value, REPORT_STEPS).is_some() {
            let schema = self.schema;
            let Some(validator) = self.validator(place) else {
                self.add(core::iter::once(unsaid(pointer, 0)));
                return Vec::new();
            };
            let errors = validator.iter_errors(value).take(MAX_PROBLEMS);
            let found: Vec<SchemaProblem> =
                errors.flat_map(|error| problem::of_value(schema, &error)).collect();
            self.add(
                found
                    .into_iter()
                    .map(|found| SchemaProblem { pointer: format!("{pointer}{}", found.pointer), ..found }),
            );
            return Vec::new();
        }
        let mut failing = self.failing(parts(self.plan, place, value, pointer));
        let forms = self.plan.rules.get(place).map_or(&[][..], |rule| &rule.forms);
        if failing.is_empty() {
            // Only mistakes inside of a form are reported. A form that does not fit by itself may not be the one
            // that is meant.
            for form in forms.iter().filter(|_| forms.len() <= MAX_PROBLEMS) {
                failing.extend(self.failing(parts(self.plan, *form, value, pointer)));
            }
        }
        if failing.is_empty() {
            self.add(core::iter::once(unsaid(pointer, forms.len())));
        }
        failing
    }

    /// Those of the parts that fail.
    fn failing<'v>(&mut self, parts: Vec<ReportPart<'v>>) -> Vec<ReportPart<'v>> {
        let mut failing = Vec::new();
        for part in parts {
            if failing.len() > MAX_PROBLEMS {
                break;
            }
            if self.fails(part.0, part.1) {
                failing.push(part);
            }
        }
        failing
    }

    fn add(&mut self, found: impl Iterator<Item = SchemaProblem>) {
        for problem in found {
            if !self.problems.contains(&problem) {
                self.problems.push(problem);
            }
        }
    }

    /// Whether a part certainly fails.
    fn fails(&mut self, place: usize, value: &Value) -> bool {
        // Without steps left a part counts as sound: a report that names some mistakes is better than none.
        let Some(steps) = to_check(self.plan, place, value, self.left) else {
            self.left = 0;
            return false;
        };
        self.left = self.left.saturating_sub(steps);
        self.validator(place).is_some_and(|validator| !validator.is_valid(value))
    }

    fn validator(&mut self, place: usize) -> Option<&Validator> {
        if !self.validators.contains_key(&place) {
            let room = self.validators.len() < MOST_PLACES;
            let rule = self.plan.rules.get(place).filter(|_| room)?;
            let reference = serde_json::json!({ "$ref": format!("{NAME}#{}", encoded(&rule.pointer)) });
            let made = options().with_draft(self.draft).with_registry(&self.registry).build(&reference);
            self.validators.insert(place, made.ok());
        }
        self.validators.get(&place)?.as_ref()
    }
}

/// The parts of a value with the places they are held against; none for the forms of a union.
fn parts<'v>(plan: &SchemaPlan, place: usize, value: &'v Value, pointer: &str) -> Vec<ReportPart<'v>> {
    let Some(rule) = plan.rules.get(place) else { return Vec::new() };
    let mut parts: Vec<ReportPart<'v>> =
        rule.in_place.iter().map(|place| (*place, value, pointer.to_owned())).collect();
    match value {
        Value::Object(entries) => {
            for (key, member) in entries {
                let at = || format!("{pointer}/{}", pointer_step(key));
                // Which keys a pattern takes is unknown here, so other fields are looked at only where there is no
                // pattern.
                let other = rule.others.iter().filter(|_| rule.members.is_empty());
                match rule.named.get(key) {
                    Some(place) => parts.push((*place, member, at())),
                    None => parts.extend(other.map(|place| (*place, member, at()))),
                }
            }
        }
        Value::Array(list) => {
            if let ([place], []) = (rule.elements.as_slice(), rule.first.as_slice()) {
                let each = list.iter().enumerate();
                parts.extend(each.map(|(i, element)| (*place, element, format!("{pointer}/{i}"))));
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
    parts
}

/// A problem whose reasons would cost too much.
fn unsaid(pointer: &str, forms: usize) -> SchemaProblem {
    let what = match forms {
        0 => "does not fit the schema".to_owned(),
        forms => format!("fits none of the {forms} forms allowed"),
    };
    SchemaProblem {
        pointer: pointer.to_owned(),
        message: format!("{what}; the schema is too costly to say why"),
    }
}

/// A JSON Pointer as the fragment of a URI.
fn encoded(pointer: &str) -> String {
    let mut encoded = String::with_capacity(pointer.len());
    for byte in pointer.bytes() {
        // What RFC 3986, section 3.5, lets stand in a fragment as it is.
        if byte.is_ascii_alphanumeric() || b"/-._~$".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            let digit = |four: u8| char::from_digit(u32::from(four), 16).unwrap_or('0').to_ascii_uppercase();
            encoded.extend(['%', digit(byte >> 4), digit(byte & 15)]);
        }
    }
    encoded
}
