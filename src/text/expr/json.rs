//! JSON into expressions and back. Whole numbers stay whole.

use std::collections::HashMap;

use cel::common::types::{
    CelBool, CelDouble, CelInt, CelList, CelMap, CelMapKey, CelNull, CelString, CelUInt,
};
use cel::common::value::{CowVal, Val};
use cel::objects::Key;
use cel::{ExecutionError, Value as Cel};
use serde_json::{Map, Number, Value};

const MAX_DEPTH: usize = 128;
const MAX_VALUES: usize = 100_000;
/// The largest result of an expression, in bytes.
pub(super) const MAX_RESULT: usize = 16 << 20;
/// What a value takes in addition to its text.
const VALUE_BYTES: usize = 8;

/// How much JSON one evaluation may still take in.
pub(super) struct JsonBudget {
    values: usize,
    depth: usize,
}

impl Default for JsonBudget {
    fn default() -> Self {
        Self { values: MAX_VALUES, depth: MAX_DEPTH }
    }
}

impl JsonBudget {
    fn enter(&mut self) -> Result<(), String> {
        // Arguments come from models and results from tools, so both have bounds before anything is copied.
        self.values = self.values.checked_sub(1).ok_or("the data is too large for an expression")?;
        self.depth = self.depth.checked_sub(1).ok_or("the data is nested too deeply for an expression")?;
        Ok(())
    }

    const fn leave(&mut self) {
        self.depth = self.depth.saturating_add(1);
    }
}

/// `value` for an expression; texts are borrowed.
pub(super) fn to_cel<'v>(value: &'v Value, budget: &mut JsonBudget) -> Result<Box<dyn Val + 'v>, String> {
    budget.enter()?;
    let value: Box<dyn Val + 'v> = match value {
        Value::Null => Box::new(CelNull),
        Value::Bool(value) => Box::new(CelBool::from(*value)),
        // As whole numbers where they are: as floats, ids above 2^53 would lose their last digits.
        Value::Number(number) => match (number.as_i64(), number.as_u64(), number.as_f64()) {
            (Some(number), ..) => Box::new(CelInt::from(number)),
            (_, Some(number), _) => Box::new(CelUInt::from(number)),
            (_, _, number) => Box::new(CelDouble::from(number.unwrap_or(f64::NAN))),
        },
        Value::String(text) => Box::new(CelString::from(text.as_str())),
        Value::Array(elements) => {
            let elements = elements.iter().map(|element| to_cel(element, budget));
            Box::new(CelList::from(elements.collect::<Result<Vec<_>, _>>()?))
        }
        Value::Object(entries) => {
            let entries = entries.iter().map(|(key, value)| {
                to_cel(value, budget).map(|value| (CelMapKey::String(CelString::from(key.as_str())), value))
            });
            Box::new(CelMap::from(entries.collect::<Result<HashMap<_, _>, _>>()?))
        }
    };
    budget.leave();
    Ok(value)
}

/// Takes from the budget what [`to_cel`] takes for that value.
pub(super) fn measure(value: &Value, budget: &mut JsonBudget) -> Result<(), String> {
    budget.enter()?;
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        Value::Array(elements) => elements.iter().try_for_each(|element| measure(element, budget))?,
        Value::Object(entries) => entries.values().try_for_each(|value| measure(value, budget))?,
    }
    budget.leave();
    Ok(())
}

/// A copy with the keys of maps in their order, as [`from_cel`] gives a value back.
pub(super) fn in_order(value: &Value) -> Value {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
        Value::Array(elements) => Value::Array(elements.iter().map(in_order).collect()),
        Value::Object(entries) => {
            let mut entries: Vec<(&String, &Value)> = entries.iter().collect();
            entries.sort_unstable_by_key(|(key, _)| *key);
            Value::Object(entries.into_iter().map(|(key, value)| (key.clone(), in_order(value))).collect())
        }
    }
}

/// The result of an expression as JSON; the keys of maps in their order. Many parts of it may be one text, which is only copied
/// here: `left` bytes may be.
pub(super) fn from_cel(value: &Cel, left: &mut usize) -> Result<Value, String> {
    let mut copy = |bytes: usize| {
        *left = left
            .checked_sub(bytes.saturating_add(VALUE_BYTES))
            .ok_or_else(|| format!("the result is larger than {} MiB", MAX_RESULT >> 20))?;
        Ok::<(), String>(())
    };
    copy(if let Cel::String(text) = value { text.len() } else { 0 })?;
    Ok(match value {
        Cel::Null => Value::Null,
        Cel::Bool(value) => Value::Bool(*value),
        Cel::Int(number) => Value::from(*number),
        Cel::UInt(number) => Value::from(*number),
        Cel::Float(number) => {
            // JSON has no NaN and no infinity (RFC 8259, section 6).
            Value::Number(Number::from_f64(*number).ok_or("the result is not a finite number")?)
        }
        Cel::String(text) => Value::String(text.to_string()),
        Cel::List(elements) => {
            Value::Array(elements.iter().map(|element| from_cel(element, left)).collect::<Result<_, _>>()?)
        }
        Cel::Map(map) => {
            let mut entries: Vec<(&Key, &Cel)> = map.map.iter().collect();
            entries.sort_by_key(|(key, _)| *key);
            let entries = entries.into_iter();
            let entries =
                entries.map(|(key, value)| from_cel(value, left).map(|value| (key.to_string(), value)));
            Value::Object(entries.collect::<Result<Map<_, _>, _>>()?)
        }
        _ => return Err("the result cannot be kept as JSON".to_owned()),
    })
}

/// What a loop over a list walks.
pub(super) fn each_element<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Result<CowVal<'b, 'v>, ExecutionError> {
    args.into_iter().next().ok_or(ExecutionError::MissingArgumentOrTarget)
}

/// What a loop over a map walks: its keys, in their order instead of the map's accidental one.
#[expect(clippy::needless_pass_by_value, reason = "the type every function of an expression has")]
pub(super) fn each_key<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Result<CowVal<'b, 'v>, ExecutionError> {
    let map = args.first().and_then(|map| map.downcast_ref::<CelMap<'_>>());
    let map = map.ok_or(ExecutionError::MissingArgumentOrTarget)?;
    // The order of the hash table would differ from run to run, and with it the result.
    let mut keys: Vec<Key> = map.inner().keys().map(|key| Key::from(key.clone())).collect();
    keys.sort();
    let keys = keys.into_iter().map(|key| Box::<dyn Val>::try_from(Cel::from(key)));
    Ok(CowVal::owned(CelList::from(keys.collect::<Result<Vec<_>, _>>()?)))
}

/// What `value` is, for people.
pub(crate) const fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "a map",
    }
}
