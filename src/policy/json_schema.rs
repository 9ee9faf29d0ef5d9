//! JSON Schemas of tool arguments and reports: bounded when compiled, and with problems a model can act on.

mod bounds;
mod problem;

use core::fmt;
use std::sync::Arc;

use jsonschema::{PatternOptions, Validator};
use serde_json::Value;

use bounds::Shape;
pub use problem::Problem;

/// The most problems that are listed; the rest is counted.
const MAX_PROBLEMS: usize = 10;
/// Beyond this they are not even counted.
const MAX_COUNTED: usize = 1000;
const MAX_PATTERN_BYTES: usize = 1 << 20;

/// A compiled JSON Schema, draft 2020-12 unless it names another. Cloning shares it.
#[derive(Clone)]
pub struct Schema(Arc<Compiled>);

struct Compiled {
    json: Value,
    shape: Shape,
    validator: Validator,
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
        let validator = jsonschema::options()
            .with_pattern_options(PatternOptions::regex().size_limit(MAX_PATTERN_BYTES))
            .offline()
            .build(json)
            .map_err(|error| problem::of_schema(json, &error))?;
        Ok(Self(Arc::new(Compiled { json: json.clone(), shape, validator })))
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
    pub fn problems(&self, value: &Value) -> Vec<Problem> {
        let Compiled { json, shape, validator } = &*self.0;
        if !shape.admits(value) {
            return vec![Problem { pointer: String::new(), message: "is nested too deeply".to_owned() }];
        }
        if validator.is_valid(value) {
            return Vec::new();
        }
        let mut problems: Vec<Problem> = Vec::new();
        for problem in
            validator.iter_errors(value).take(MAX_COUNTED).flat_map(|error| problem::of_value(json, &error))
        {
            if !problems.contains(&problem) {
                problems.push(problem);
            }
        }
        let more = problems.len().saturating_sub(MAX_PROBLEMS);
        if more > 0 {
            problems.truncate(MAX_PROBLEMS);
            let noun = if more == 1 { "problem" } else { "problems" };
            problems.push(Problem { pointer: String::new(), message: format!("and {more} more {noun}") });
        }
        problems
    }

    /// As it was written.
    pub fn json(&self) -> &Value {
        &self.0.json
    }
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
