//! What is wrong with a value or a schema, in words that let the reader know what to change.

use jsonschema::error::{TypeKind, ValidationErrorKind as Kind};
use jsonschema::{JsonType, ReferencingError as Referencing, ValidationError};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::SchemaError;
use crate::text::did_you_mean::closest;
use crate::text::excerpt;

const MAX_QUOTED: usize = 80;
const MAX_LISTED: usize = 12;

/// One thing that is wrong with a value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SchemaProblem {
    /// JSON Pointer to the part of the value it is about; empty for the whole.
    pub pointer: String,
    /// What is wrong and what to change.
    pub message: String,
}

/// The problems for one error of the validator: usually one, several for several unknown fields.
pub(super) fn of_value(schema: &Value, error: &ValidationError<'_>) -> Vec<SchemaProblem> {
    let pointer = error.instance_path().as_str().to_owned();
    let messages = match error.kind() {
        Kind::AdditionalProperties { unexpected } | Kind::UnevaluatedProperties { unexpected } => {
            let allowed = allowed(schema, error.schema_path().as_str());
            // One problem for each field, so that each has its own suggestion.
            unexpected.iter().map(|name| not_allowed(name, &allowed)).collect()
        }
        _ => vec![message(schema, error)],
    };
    messages.into_iter().map(|message| SchemaProblem { pointer: pointer.clone(), message }).collect()
}

/// The whole value is of another type.
pub(super) fn of_type(wanted: JsonType, value: &Value) -> SchemaProblem {
    SchemaProblem { pointer: String::new(), message: other_type(&TypeKind::Single(wanted), value) }
}

fn other_type(wanted: &TypeKind, value: &Value) -> String {
    format!("expected {}, found {}", expected(wanted), with_kind(value))
}

/// Why something is not a schema.
pub(super) fn of_schema(schema: &Value, error: &ValidationError<'_>) -> SchemaError {
    let pointer = error.instance_path().as_str();
    let refuse = |message: String, help: Option<String>| SchemaError {
        message,
        pointer: Some(pointer.to_owned()).filter(|pointer| schema.pointer(pointer).is_some()),
        help,
    };
    if let Kind::Referencing(why) = error.kind() {
        return match why {
            Referencing::UnknownSpecification { specification } => refuse(
                format!("`{}` is no draft of JSON Schema", excerpt(specification, MAX_QUOTED)),
                Some(
                    "leave `$schema` out, or write `https://json-schema.org/draft/2020-12/schema`".to_owned(),
                ),
            ),
            Referencing::PointerToNowhere { pointer } => {
                refuse(format!("the reference `#{}` leads nowhere", excerpt(pointer, MAX_QUOTED)), None)
            }
            Referencing::Unretrievable { uri, .. } => refuse(
                format!("the reference to `{}` leads out of the schema", excerpt(uri, MAX_QUOTED)),
                Some("nothing is fetched: write it under `$defs` and refer to `#/$defs/name`".to_owned()),
            ),
            _ => refuse("a reference of the schema leads nowhere".to_owned(), None),
        };
    }
    let last = pointer.rsplit('/').next().unwrap_or("");
    let found = quoted(error.instance());
    match (last, error.instance().as_ref()) {
        ("type", Value::String(name)) => {
            let types = ["object", "array", "string", "integer", "number", "boolean", "null"];
            let help = closest(name, types).map_or_else(
                || format!("the types are {}", listed(types.iter().map(|name| format!("`{name}`")))),
                |meant| format!("did you mean `{meant}`?"),
            );
            refuse(format!("`{}` is not a type", excerpt(name, MAX_QUOTED)), Some(help))
        }
        ("pattern", Value::String(_)) => refuse(
            format!("the pattern {found} is not a regular expression"),
            Some("look-around and back-references are not known".to_owned()),
        ),
        ("required", _) => refuse(format!("`required` is a list of names, not {found}"), None),
        _ if matches!(error.kind(), Kind::AnyOf { .. } | Kind::OneOfNotValid { .. }) => {
            refuse(format!("`{last}` cannot be {found}"), None)
        }
        _ => refuse(format!("this is not a schema: {}", message(&Value::Null, error)), None),
    }
}

/// What is wrong, for every kind of error.
fn message(schema: &Value, error: &ValidationError<'_>) -> String {
    let found = quoted(error.instance());
    match error.kind() {
        Kind::Required { property } => {
            format!("`{}` is missing", excerpt(property.as_str().unwrap_or("?"), MAX_QUOTED))
        }
        Kind::Type { kind } => other_type(kind, error.instance()),
        Kind::Enum { options } => {
            let options = options.as_array().map(Vec::as_slice).unwrap_or_default();
            let list = listed(options.iter().map(quoted));
            let meant = error
                .instance()
                .as_str()
                .and_then(|text| closest(text, options.iter().filter_map(Value::as_str)));
            let meant = meant.map(|meant| format!("; did you mean \"{meant}\"?")).unwrap_or_default();
            format!("must be one of {list}, found {found}{meant}")
        }
        Kind::Constant { expected_value } => format!("must be {}, found {found}", quoted(expected_value)),
        Kind::Minimum { limit } => format!("must be at least {limit}, found {found}"),
        Kind::ExclusiveMinimum { limit } => format!("must be more than {limit}, found {found}"),
        Kind::Maximum { limit } => format!("must be at most {limit}, found {found}"),
        Kind::ExclusiveMaximum { limit } => format!("must be less than {limit}, found {found}"),
        Kind::MultipleOf { multiple_of } => format!("must be a multiple of {multiple_of}, found {found}"),
        Kind::MinLength { limit } => {
            format!("must have at least {}, found {found}", count(*limit, "character"))
        }
        Kind::MaxLength { limit } => {
            format!("must have at most {}, found {found}", count(*limit, "character"))
        }
        Kind::MinItems { limit } => format!("must have at least {}", count(*limit, "element")),
        Kind::MaxItems { limit } => format!("must have at most {}", count(*limit, "element")),
        Kind::AdditionalItems { limit } => format!("must have at most {limit} elements"),
        Kind::UnevaluatedItems { .. } => "has elements that are not allowed".to_owned(),
        Kind::MinProperties { limit } => format!("must have at least {}", count(*limit, "field")),
        Kind::MaxProperties { limit } => format!("must have at most {}", count(*limit, "field")),
        // The one keyword that is replaced here is `uniqueItems`.
        Kind::UniqueItems | Kind::Custom { .. } => "must not have the same element twice".to_owned(),
        Kind::Contains => "lacks an element of the required form".to_owned(),
        Kind::Pattern { pattern } => {
            format!("must match the pattern `{}`, found {found}", excerpt(pattern, MAX_QUOTED))
        }
        Kind::Format { format } => format!("must be a valid {format}, found {found}"),
        Kind::PropertyNames { error } => {
            format!("has a field with a name that is not allowed: {}", message(schema, error))
        }
        Kind::FalseSchema => "is not allowed".to_owned(),
        Kind::Not { .. } => "has a form that is ruled out".to_owned(),
        Kind::OneOfMultipleValid { .. } => {
            "fits more than one of the forms allowed; it must fit exactly one".to_owned()
        }
        Kind::AnyOf { context } | Kind::OneOfNotValid { context } => forms(schema, error, context),
        Kind::AdditionalProperties { unexpected } | Kind::UnevaluatedProperties { unexpected } => {
            let allowed = allowed(schema, error.schema_path().as_str());
            unexpected.first().map_or_else(String::new, |name| not_allowed(name, &allowed))
        }
        kind => format!("breaks the rule `{}`", excerpt(kind.keyword(), MAX_QUOTED)),
    }
}

/// A value that fits none of several forms: what is wrong with the one it is nearest to.
fn forms(schema: &Value, error: &ValidationError<'_>, context: &[Vec<ValidationError<'static>>]) -> String {
    let here = error.instance_path().as_str();
    let types: Vec<String> = context
        .iter()
        .filter_map(|errors| match errors.as_slice() {
            [one] if one.instance_path().as_str() == here => match one.kind() {
                Kind::Type { kind } => Some(expected(kind)),
                _ => None,
            },
            _ => None,
        })
        .collect();
    // Where every form wants another type, the types are all that matters.
    if types.len() == context.len() {
        return format!("expected {}, found {}", types.join(" or "), with_kind(error.instance()));
    }
    let other_type = |errors: &[ValidationError<'_>]| {
        errors
            .iter()
            .any(|error| matches!(error.kind(), Kind::Type { .. }) && error.instance_path().as_str() == here)
    };
    // A form of another type is not the one the writer meant; of the rest, the one with the fewest errors is.
    let nearest = context.iter().filter(|errors| !other_type(errors)).min_by_key(|errors| errors.len());
    let Some(first) = nearest.and_then(|errors| errors.first()) else {
        return format!("fits none of the {} forms allowed", context.len());
    };
    let place = first.instance_path().as_str();
    let place = place.strip_prefix(here).unwrap_or(place);
    let inner = match first.kind() {
        Kind::AnyOf { .. } | Kind::OneOfNotValid { .. } => "fits none of the forms allowed".to_owned(),
        _ => message(schema, first),
    };
    let at = if place.is_empty() { String::new() } else { format!("`{}` ", excerpt(place, MAX_QUOTED)) };
    format!("fits none of the {} forms allowed; in the nearest, {at}{inner}", context.len())
}

/// That there is no field of that name, and which there are.
pub(crate) fn not_allowed(name: &str, allowed: &[&str]) -> String {
    let name = excerpt(name, MAX_QUOTED);
    if allowed.is_empty() {
        return format!("`{name}` is not allowed");
    }
    let list = listed(allowed.iter().map(|name| format!("`{name}`")));
    let meant = closest(&name, allowed.iter().copied()).map(|meant| format!("; did you mean `{meant}`?"));
    format!("`{name}` is not allowed; allowed: {list}{}", meant.unwrap_or_default())
}

/// A name as a step of a JSON pointer.
// RFC 6901, section 3: `~` is escaped before `/`, or the `~` of `~1` would be escaped again.
pub(crate) fn pointer_step(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// The fields known to the schema that has the failed rule.
fn allowed<'a>(schema: &'a Value, rule: &str) -> Vec<&'a str> {
    let parent = rule.rsplit_once('/').map_or("", |(parent, _)| parent);
    let properties =
        schema.pointer(parent).and_then(|schema| schema.get("properties")).and_then(Value::as_object);
    properties.map(|properties| properties.keys().map(String::as_str).collect()).unwrap_or_default()
}

fn expected(kind: &TypeKind) -> String {
    match kind {
        TypeKind::Single(one) => one.to_string(),
        TypeKind::Multiple(several) => {
            several.iter().map(|one: JsonType| one.to_string()).collect::<Vec<_>>().join(" or ")
        }
    }
}

/// `string "3"`, `object`.
fn with_kind(value: &Value) -> String {
    let kind = match value {
        Value::Null => return "null".to_owned(),
        Value::Array(_) => return "array".to_owned(),
        Value::Object(_) => return "object".to_owned(),
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
    };
    format!("{kind} {}", quoted(value))
}

/// A value as JSON, cut; large ones by their kind.
fn quoted(value: &Value) -> String {
    match value {
        Value::String(text) => Value::String(excerpt(text, MAX_QUOTED)).to_string(),
        // Quoted as a whole it would cost tokens, and may hold what no log should show.
        Value::Array(_) => "an array".to_owned(),
        Value::Object(_) => "an object".to_owned(),
        other => other.to_string(),
    }
}

fn listed(names: impl ExactSizeIterator<Item = String>) -> String {
    let more = names.len().saturating_sub(MAX_LISTED);
    let mut list = names.take(MAX_LISTED).collect::<Vec<_>>().join(", ");
    if more > 0 {
        list = format!("{list} and {more} more");
    }
    list
}

fn count(number: u64, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}
