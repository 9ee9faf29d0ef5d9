//! The interpreter of unfazed as a module of Python: policies, and a machine that takes events and gives directives.
//!
//! It has no clock, no threads and no waits: those are Python's. `unfazed/_unfazed.pyi` says what each part is for.

mod arguments;
mod brief;
mod convert;
mod engine;
mod failure;
mod files;
mod guard_engine;
mod parts;
mod plain;
mod policy;
mod resumed;

use pyo3::prelude::*;

/// Policies and the interpreter; `unfazed` is what programs import. All its objects are frozen or have a lock, so it does
/// without Python's global one.
#[pymodule(gil_used = false)]
mod _unfazed {
    #[pymodule_export]
    use super::arguments::json_text;
    #[pymodule_export]
    use super::engine::Engine;
    #[pymodule_export]
    use super::failure::{failure_of_answer, failure_of_body, mistake_of_class};
    #[pymodule_export]
    use super::guard_engine::GuardEngine;
    #[pymodule_export]
    use super::plain::PlainEntry;
    #[pymodule_export]
    use super::policy::{Diagnostic, Policy};
}
