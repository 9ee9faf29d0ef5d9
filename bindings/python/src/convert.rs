//! Values of Python as values of Rust, and back.

use pyo3::exceptions::{PyOverflowError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyFloat, PyInt, PyList, PyTuple};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

/// The most levels of a value, as in the lines of `unfazed step`: what is taken can be recorded and read again.
const MOST_LEVELS: usize = 100;

/// A value of Python as one of Rust.
pub(crate) fn taken<T: DeserializeOwned>(value: &Bound<'_, PyAny>) -> PyResult<T> {
    is_kept(value, MOST_LEVELS)?;
    pythonize::depythonize(value).map_err(|error| PyValueError::new_err(error.to_string()))
}

/// A value of Python as JSON.
pub(crate) fn json(value: &Bound<'_, PyAny>) -> PyResult<Value> {
    taken(value)
}

/// A value of Rust as one of Python.
pub(crate) fn given<'py, T: Serialize + ?Sized>(py: Python<'py>, value: &T) -> PyResult<Bound<'py, PyAny>> {
    Ok(pythonize::pythonize(py, value)?)
}

/// Refuses what is nested deeper than that many levels, as it would not fit the stack, and numbers that would not stay what
/// they are.
fn is_kept(value: &Bound<'_, PyAny>, left: usize) -> PyResult<()> {
    let Some(left) = left.checked_sub(1) else {
        let message = format!("the value is nested deeper than {MOST_LEVELS} levels; flatten it");
        return Err(PyOverflowError::new_err(message));
    };
    if let Ok(fields) = value.cast::<PyDict>() {
        // Of a copy: without a global lock another thread may change what is walked over.
        fields.copy()?.iter().try_for_each(|(_, field)| is_kept(&field, left))
    } else if let Ok(items) = value.cast::<PyList>() {
        items.iter().try_for_each(|item| is_kept(&item, left))
    } else if let Ok(items) = value.cast::<PyTuple>() {
        items.iter().try_for_each(|item| is_kept(&item, left))
    } else if value.cast::<PyFloat>().is_ok_and(|number| !number.value().is_finite()) {
        Err(PyValueError::new_err(format!("`{value}` is no number of JSON; give it as a text")))
    } else if value.cast::<PyInt>().is_ok()
        && value.extract::<i64>().is_err()
        && value.extract::<u64>().is_err()
    {
        // Not shown: Python makes no text of very long ones.
        Err(PyValueError::new_err("an integer does not fit into 64 bits; give it as a text"))
    } else {
        Ok(())
    }
}
