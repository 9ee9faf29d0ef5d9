//! The facts of a failure: what an answer of a server says. Its class is the policy's to say.

use pyo3::prelude::*;
use unfazed::engine::{Failure, ReplyHeaders};
use unfazed::policy::ErrorClass;
use unfazed::time::Instant;

use crate::convert::given;

#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "pyo3 makes it of a list")]
#[pyo3(signature = (status, headers, body, now))]
pub(crate) fn failure_of_answer<'py>(
    py: Python<'py>,
    status: u16,
    headers: Vec<(String, String)>,
    body: &[u8],
    now: u64,
) -> PyResult<Bound<'py, PyAny>> {
    let headers = ReplyHeaders::new(headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())));
    given(py, &Failure::from_answer(status, &headers, body, || Instant(now)))
}

#[pyfunction]
pub(crate) fn failure_of_body<'py>(py: Python<'py>, body: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    given(py, &Failure::from_body(body))
}

/// What is wrong with the name of an error class. `None`: there is such a class.
#[pyfunction]
pub(crate) fn mistake_of_class(name: &str) -> Option<String> {
    ErrorClass::parse(name).err().map(|error| error.to_string())
}
