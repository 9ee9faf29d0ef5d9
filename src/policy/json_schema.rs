//! JSON Schemas of tool arguments and reports: bounded when compiled, and with problems a model can act on.

mod bounds;
mod fuel;
mod plan;
mod problem;
mod report;
mod unique;

use core::fmt;
use std::sync::{Arc, OnceLock};

use jsonschema::{PatternOptions, ValidationOptions, Validator};
use serde_json::Value;

use bounds::Shape;
use fuel::{REPORT_STEPS, STEPS, STEPS_PER_VALUE, to_check, to_report};
use plan::{Plan, count, size};
pub use problem::Problem;
use unique::Unique;

/// The most problems that are listed; the rest is counted.
const MAX_PROBLEMS: usize = 10;
/// Beyond this they are not even counted.
const MAX_COUNTED: usize = 1000;
const MAX_PATTERN_BYTES: usize = 1 << 20;
/// A validation of more steps takes long.
const LONG: u64 = 20_000;

/// A compiled JSON Schema, draft 2020-12 unless it names another. Cloning shares it.
#[derive(Clone)]
pub struct Schema(Arc<Compiled>);

struct Compiled {
    json: Value,
    shape: Shape,
    validator: Validator,
    /// Made when it is first needed: most schemas and values cannot cost much.
    plan: OnceLock<Plan>,
}

/// What came of a validation.
enum Verdict {
    Holds,
    Fails,
    TooDeep,
    TooCostly,
}

/// What is wrong with a schema.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SchemaError {
    /// What is wrong.
    pub message: String,
    /// JSON Pointer to the place in the schema, if it is known.
    pub pointer: Option<String>,
    /// What to write instead.
    pub help: Option<String>,
}

impl Schema {
    /// Compiles `json`. Nothing is fetched: references lead only to places inside the schema. Patterns run in
    /// linear time, so they know no look-around and no back-references.
    ///
    /// # Errors
    /// If `json` is not a schema, or a larger one than is allowed.
    ///
    /// ```
    /// use serde_json::json;
    /// use unfazed::policy::Schema;
    /// let schema = Schema::compile(&json!({"type": "object", "required": ["qty"]})).unwrap();
    /// assert_eq!(schema.problems(&json!({}))[0].message, "`qty` is missing");
    /// ```
    pub fn compile(json: &Value) -> Result<Self, SchemaError> {
        let shape = bounds::measure(json)?;
        let validator = options().build(json).map_err(|error| problem::of_schema(json, &error))?;
        Ok(Self(Arc::new(Compiled { json: json.clone(), shape, validator, plan: OnceLock::new() })))
    }

    /// As [`compile`](Self::compile), with all that is wrong; at most ten errors.
    ///
    /// # Errors
    /// If `json` is not a schema, or a larger one than is allowed.
    pub fn compile_or_all(json: &Value) -> Result<Self, Vec<SchemaError>> {
        let first = match Self::compile(json) {
            Ok(schema) => return Ok(schema),
            Err(first) => first,
        };
        let mut errors = Vec::new();
        // What is too large, or of no draft that is known, is not looked at further.
        if bounds::measure(json).is_ok()
            && json.get("$schema").is_none()
            && let Ok(meta) = jsonschema::meta::validator_for(json)
        {
            for error in meta.iter_errors(json).take(MAX_COUNTED) {
                let error = problem::of_schema(json, &error);
                if errors.len() < MAX_PROBLEMS && !errors.contains(&error) {
                    errors.push(error);
                }
            }
        }
        if errors.is_empty() {
            errors.push(first);
        }
        Err(errors)
    }

    /// What is wrong with `value`; nothing if it is valid. At most ten, then how many more there are.
    ///
    /// A validation has a million steps, 256 more for each value in `value` and for each 16 bytes of its texts. They are counted
    /// before anything is validated; what would take more is a problem that says so.
    pub fn problems(&self, value: &Value) -> Vec<Problem> {
        let whole = |message: &str| vec![Problem { pointer: String::new(), message: message.to_owned() }];
        match self.verdict(value) {
            Verdict::Holds => Vec::new(),
            Verdict::TooDeep => whole("is nested too deeply"),
            Verdict::TooCostly => whole(
                "the schema is too costly for these arguments: send less at once, or nest it less deeply",
            ),
            Verdict::Fails => self.0.report(value),
        }
    }

    /// Whether `value` has no [`problems`](Self::problems), for less than what it takes to list them.
    pub fn is_valid(&self, value: &Value) -> bool {
        matches!(self.verdict(value), Verdict::Holds)
    }

    /// Whether a value of a few bytes may take long: parts of it may be looked at more than once for each rule.
    pub fn may_be_costly(&self) -> bool {
        self.0.shape.repeats
    }

    /// Whether a validation of `value` may take longer than a task should keep its thread: about a millisecond.
    pub fn takes_long(&self, value: &Value) -> bool {
        let compiled = &*self.0;
        compiled.most(size(value)).is_none_or(|steps| steps > LONG)
            && to_check(compiled.plan(), 0, value, LONG).is_none()
    }

    fn verdict(&self, value: &Value) -> Verdict {
        let compiled = &*self.0;
        if !compiled.shape.admits(value) {
            return Verdict::TooDeep;
        }
        let size = size(value);
        if compiled.most(size).is_none_or(|steps| steps > STEPS) {
            let most = STEPS.saturating_add(size.saturating_mul(STEPS_PER_VALUE));
            if to_check(compiled.plan(), 0, value, most).is_none() {
                return Verdict::TooCostly;
            }
        }
        if compiled.validator.is_valid(value) { Verdict::Holds } else { Verdict::Fails }
    }

    /// As it was written.
    pub fn json(&self) -> &Value {
        &self.0.json
    }
}

impl Compiled {
    fn plan(&self) -> &Plan {
        self.plan.get_or_init(|| Plan::new(&self.json, self.shape.rules))
    }

    /// The steps of a validation at most, if that can be said at a glance: each rule looks at each part once. A pattern may
    /// take 128 steps for four bytes.
    fn most(&self, size: u64) -> Option<u64> {
        (!self.shape.repeats).then(|| {
            count(self.shape.rules).saturating_mul(size).saturating_mul(if self.shape.patterns {
                512
            } else {
                1
            })
        })
    }

    /// What is wrong with a value that does not hold.
    fn report(&self, value: &Value) -> Vec<Problem> {
        let cheap = self.most(size(value)).is_some_and(|steps| steps <= REPORT_STEPS);
        let problems = if cheap || to_report(self.plan(), 0, value, REPORT_STEPS).is_some() {
            let errors = self.validator.iter_errors(value).take(MAX_COUNTED);
            let mut problems: Vec<Problem> = Vec::new();
            for problem in errors.flat_map(|error| problem::of_value(&self.json, &error)) {
                if !problems.contains(&problem) {
                    problems.push(problem);
                }
            }
            problems
        } else {
            report::part_by_part(&self.json, self.validator.draft(), self.plan(), value)
        };
        at_most_ten(problems)
    }
}

fn at_most_ten(mut problems: Vec<Problem>) -> Vec<Problem> {
    let more = problems.len().saturating_sub(MAX_PROBLEMS);
    if more > 0 {
        problems.truncate(MAX_PROBLEMS);
        let noun = if more == 1 { "problem" } else { "problems" };
        problems.push(Problem { pointer: String::new(), message: format!("and {more} more {noun}") });
    }
    problems
}

/// Nothing is fetched, patterns run in linear time, and elements are compared in a time they cannot choose.
fn options<'i>() -> ValidationOptions<'i> {
    jsonschema::options()
        .with_pattern_options(PatternOptions::regex().size_limit(MAX_PATTERN_BYTES))
        .with_keyword("uniqueItems", |_, value, _| Ok(Box::new(Unique(*value == Value::Bool(true)))))
        .offline()
}

impl PartialEq for Schema {
    fn eq(&self, other: &Self) -> bool {
        self.0.json == other.0.json
    }
}

impl fmt::Debug for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Schema({})", self.0.json)
    }
}

#[cfg(test)]
mod tests;
