//! JSON Schemas of tool arguments and reports: bounded when compiled, and with problems a model can act on.

mod bounds;
mod fuel;
mod plain;
mod plan;
mod problem;
mod report;
mod unique;
mod unknown_field;

use core::fmt;
use std::sync::{Arc, OnceLock};

use jsonschema::{JsonType, PatternOptions, ValidationOptions, Validator};
use serde_json::Value;

use bounds::SchemaShape;
use fuel::{REPORT_STEPS, STEPS, STEPS_PER_VALUE, to_check, to_report};
use plan::{SchemaPlan, count, size};
pub use problem::SchemaProblem;
use problem::not_allowed;
pub(crate) use problem::pointer_step;
use unique::UniqueKeyword;
pub(crate) use unknown_field::SchemaPart;
#[cfg(feature = "cli")]
pub(crate) use unknown_field::is_meant;

/// The most problems that are listed; the rest is counted.
const MAX_PROBLEMS: usize = 10;
/// Beyond this they are not even counted.
const MAX_COUNTED: usize = 1000;
const MAX_PATTERN_BYTES: usize = 1 << 20;
/// A validation of more steps takes long.
const LONG: u64 = 20_000;

/// A compiled JSON Schema, draft 2020-12 unless it names another. Cloning shares it.
#[derive(Clone)]
pub struct Schema(Arc<CompiledSchema>);

struct CompiledSchema {
    json: Value,
    shape: SchemaShape,
    rule: SchemaRule,
    /// Made when it is first needed: most schemas and values cannot cost much.
    plan: OnceLock<SchemaPlan>,
}

/// What a value is validated with.
enum SchemaRule {
    /// Values of one type, whatever is in them: tools without arguments have such a schema, and so has the built-in report. A
    /// validator costs millions of instructions, as the first one compiles the schema of schemas.
    OnlyType(JsonType),
    /// All others. That of a plain schema is made when a value is validated first, and there is always one.
    Full(OnceLock<Option<Validator>>),
}

/// What came of a validation.
enum ValidationVerdict {
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
    /// use unfazed::text::Schema;
    /// let schema = Schema::compile(&json!({"type": "object", "required": ["qty"]})).unwrap();
    /// assert_eq!(schema.problems(&json!({}))[0].message, "`qty` is missing");
    /// ```
    pub fn compile(json: &Value) -> Result<Self, SchemaError> {
        let shape = bounds::measure(json)?;
        let rule = SchemaRule::compile(json)?;
        Ok(Self(Arc::new(CompiledSchema { json: json.clone(), shape, rule, plan: OnceLock::new() })))
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
    pub fn problems(&self, value: &Value) -> Vec<SchemaProblem> {
        match self.verdict(value) {
            ValidationVerdict::Holds => Vec::new(),
            ValidationVerdict::TooDeep => whole("is nested too deeply"),
            ValidationVerdict::TooCostly => whole(
                "the schema is too costly for these arguments: send less at once, or nest it less deeply",
            ),
            ValidationVerdict::Fails => self.0.report(value),
        }
    }

    /// Whether `value` has no [`problems`](Self::problems), for less than what it takes to list them.
    pub fn is_valid(&self, value: &Value) -> bool {
        matches!(self.verdict(value), ValidationVerdict::Holds)
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

    fn verdict(&self, value: &Value) -> ValidationVerdict {
        let compiled = &*self.0;
        if !compiled.shape.admits(value) {
            return ValidationVerdict::TooDeep;
        }
        let size = size(value);
        // Most schemas cannot cost much whatever the value, and need no exact count.
        if compiled.most(size).is_none_or(|steps| steps > STEPS) {
            let most = STEPS.saturating_add(size.saturating_mul(STEPS_PER_VALUE));
            if to_check(compiled.plan(), 0, value, most).is_none() {
                return ValidationVerdict::TooCostly;
            }
        }
        if compiled.is_valid(value) { ValidationVerdict::Holds } else { ValidationVerdict::Fails }
    }

    /// As it was written.
    pub fn json(&self) -> &Value {
        &self.0.json
    }
}

impl CompiledSchema {
    fn plan(&self) -> &SchemaPlan {
        self.plan.get_or_init(|| SchemaPlan::new(&self.json, self.shape.rules))
    }

    /// The steps of a validation at most, if that is known at a glance: each rule looks at each part once. A pattern may
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

    fn is_valid(&self, value: &Value) -> bool {
        match &self.rule {
            SchemaRule::OnlyType(only) => JsonType::from(value) == *only,
            SchemaRule::Full(made) => self.validator(made).is_some_and(|validator| validator.is_valid(value)),
        }
    }

    fn validator<'v>(&self, made: &'v OnceLock<Option<Validator>>) -> Option<&'v Validator> {
        made.get_or_init(|| options().build(&self.json).ok()).as_ref()
    }

    /// What is wrong with a value that does not hold.
    fn report(&self, value: &Value) -> Vec<SchemaProblem> {
        let validator = match &self.rule {
            SchemaRule::OnlyType(only) => return vec![problem::of_type(*only, value)],
            SchemaRule::Full(made) => self.validator(made),
        };
        let Some(validator) = validator else { return whole("the schema cannot be used") };
        let cheap = self.most(size(value)).is_some_and(|steps| steps <= REPORT_STEPS);
        let problems = if cheap || to_report(self.plan(), 0, value, REPORT_STEPS).is_some() {
            // A list of a million wrong elements would give a million errors.
            let errors = validator.iter_errors(value).take(MAX_COUNTED);
            let mut problems: Vec<SchemaProblem> = Vec::new();
            for problem in errors.flat_map(|error| problem::of_value(&self.json, &error)) {
                if !problems.contains(&problem) {
                    problems.push(problem);
                }
            }
            problems
        } else {
            report::part_by_part(&self.json, validator.draft(), self.plan(), value)
        };
        at_most_ten(problems)
    }
}

/// One problem with the whole value.
fn whole(message: &str) -> Vec<SchemaProblem> {
    vec![SchemaProblem { pointer: String::new(), message: message.to_owned() }]
}

fn at_most_ten(mut problems: Vec<SchemaProblem>) -> Vec<SchemaProblem> {
    let more = problems.len().saturating_sub(MAX_PROBLEMS);
    if more > 0 {
        problems.truncate(MAX_PROBLEMS);
        let noun = if more == 1 { "problem" } else { "problems" };
        problems.push(SchemaProblem { pointer: String::new(), message: format!("and {more} more {noun}") });
    }
    problems
}

impl SchemaRule {
    fn compile(json: &Value) -> Result<Self, SchemaError> {
        if let Some(only) = only_type(json) {
            return Ok(Self::OnlyType(only));
        }
        if plain::is_plain(json) {
            return Ok(Self::Full(OnceLock::new()));
        }
        let validator = options().build(json).map_err(|error| problem::of_schema(json, &error))?;
        Ok(Self::Full(OnceLock::from(Some(validator))))
    }
}

/// The type, if the schema says nothing else. Numbers are left out: whether 1.0 is an integer depends on the draft.
fn only_type(json: &Value) -> Option<JsonType> {
    let fields = json.as_object().filter(|fields| fields.len() == 1)?;
    match fields.get("type")?.as_str()? {
        "object" => Some(JsonType::Object),
        "array" => Some(JsonType::Array),
        "string" => Some(JsonType::String),
        "boolean" => Some(JsonType::Boolean),
        "null" => Some(JsonType::Null),
        _ => None,
    }
}

/// Nothing is fetched, patterns run in linear time, and elements are compared in a time they cannot choose.
fn options<'i>() -> ValidationOptions<'i> {
    jsonschema::options()
        // JSON Schema 2020-12 core, section 6.4, recommends ECMA-262, whose back-references may take exponential
        // time.
        .with_pattern_options(PatternOptions::regex().size_limit(MAX_PATTERN_BYTES))
        // The validator's own compares each pair of elements.
        .with_keyword("uniqueItems", |_, value, _| Ok(Box::new(UniqueKeyword(*value == Value::Bool(true)))))
        // A `$ref` to an address would let the author of a tool's schema send requests from this machine.
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
