//! The arguments of a call as the JSON that events and schemas know.

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};
use serde::ser::{Error, Serialize, SerializeMap, Serializer};
use serde_json::Value;

/// The most levels: what is deeper is left to Python's own encoder.
const MOST_LEVELS: u8 = 64;

/// The JSON text of a plain value. `None`: Python's own encoder has to look at it, because there are subclasses in it, whole
/// numbers of more than 64 bits, keys that are no text, or what JSON does not have.
#[pyfunction]
pub(crate) fn json_text(value: &Bound<'_, PyAny>) -> Option<String> {
    serde_json::to_string(&PlainValue(value, MOST_LEVELS)).ok()
}

/// The same as a value.
pub(crate) fn json_value(value: &Bound<'_, PyAny>) -> Option<Value> {
    serde_json::to_value(PlainValue(value, MOST_LEVELS)).ok()
}

struct PlainValue<'a, 'py>(&'a Bound<'py, PyAny>, u8);

impl Serialize for PlainValue<'_, '_> {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        let Self(value, left) = self;
        let Some(left) = left.checked_sub(1) else { return Err(S::Error::custom("too deep")) };
        if let Ok(text) = value.cast_exact::<PyString>() {
            out.serialize_str(&text.to_cow().map_err(S::Error::custom)?)
        } else if value.is_none() {
            out.serialize_unit()
        } else if let Ok(truth) = value.cast_exact::<PyBool>() {
            out.serialize_bool(truth.is_true())
        } else if value.is_exact_instance_of::<PyInt>() {
            match value.extract::<i64>() {
                Ok(number) => out.serialize_i64(number),
                Err(_) => out.serialize_u64(value.extract().map_err(S::Error::custom)?),
            }
        } else if let Ok(number) = value.cast_exact::<PyFloat>() {
            let number = number.value();
            if number.is_finite() { out.serialize_f64(number) } else { Err(S::Error::custom("not finite")) }
        } else if let Ok(fields) = value.cast_exact::<PyDict>() {
            // Of a copy: without a global lock another thread may change what is walked over.
            let fields = fields.copy().map_err(S::Error::custom)?;
            let mut map = out.serialize_map(Some(fields.len()))?;
            for (name, field) in fields.iter() {
                let name = name.cast_exact::<PyString>().map_err(|_| S::Error::custom("a key is no text"))?;
                map.serialize_entry(&*name.to_cow().map_err(S::Error::custom)?, &PlainValue(&field, left))?;
            }
            map.end()
        } else if let Ok(items) = value.cast_exact::<PyList>() {
            out.collect_seq(items.iter().map(|item| Owned(item, left)))
        } else if let Ok(items) = value.cast_exact::<PyTuple>() {
            out.collect_seq(items.iter().map(|item| Owned(item, left)))
        } else {
            Err(S::Error::custom("no value of JSON"))
        }
    }
}

struct Owned<'py>(Bound<'py, PyAny>, u8);

impl Serialize for Owned<'_> {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        PlainValue(&self.0, self.1).serialize(out)
    }
}
