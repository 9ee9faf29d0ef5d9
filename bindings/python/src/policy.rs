//! Policies: loaded, explained, checked.

use std::path::PathBuf;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use unfazed::analysis::LintOptions;
use unfazed::policy::{Loader, UnansweredMode};
use unfazed::text::Report;

use crate::files;

pyo3::import_exception!(unfazed._raised, PolicyError);

/// A policy that is loaded and checked. It does not change, and any number of guards may share it.
#[pyclass(frozen, module = "unfazed")]
pub(crate) struct Policy {
    pub(crate) policy: unfazed::Policy,
}

/// A mistake, or a likely one, in a policy.
#[pyclass(frozen, get_all, module = "unfazed")]
pub(crate) struct Diagnostic {
    /// The file, as it was named.
    file: String,
    /// The line, from 1.
    line: u32,
    /// The column, from 1, in characters.
    column: u32,
    /// The stable code, such as `P0101`; `unfazed rule CODE` explains it.
    code: String,
    /// `error` or `warning`.
    severity: String,
    /// What is wrong, in one line.
    message: String,
    /// What to do about it.
    help: Vec<String>,
}

#[pymethods]
impl Policy {
    /// Loads the files in order, later ones above earlier ones, and those that they extend.
    #[staticmethod]
    #[expect(clippy::needless_pass_by_value, reason = "pyo3 makes it of a tuple")]
    #[pyo3(signature = (*paths, profile=None))]
    fn load(paths: Vec<PathBuf>, profile: Option<String>) -> PyResult<Self> {
        let named = paths.iter().map(|path| files::named(path)).collect::<PyResult<Vec<_>>>()?;
        let loaded = loader(profile).load_with(&mut files::extended, named);
        Ok(Self { policy: loaded.map_err(|report| refused(&report))? })
    }

    /// Loads a text. `name` is what its places are called.
    #[staticmethod]
    #[pyo3(signature = (text, name="policy.yaml".to_owned(), *, profile=None))]
    fn from_yaml(text: &str, name: String, profile: Option<String>) -> PyResult<Self> {
        let loaded = loader(profile).load_with(&mut files::none_beside_a_text, vec![(name, text)]);
        Ok(Self { policy: loaded.map_err(|report| refused(&report))? })
    }

    /// Why the rules for a tool or a model, or without one for the turns, are what they are: each value with the
    /// file, line and column it comes from.
    #[pyo3(signature = (*, tool=None, model=None))]
    fn explain(&self, tool: Option<&str>, model: Option<&str>) -> PyResult<String> {
        Ok(match (tool, model) {
            (Some(tool), None) => self.policy.explain_tool(tool),
            (None, Some(model)) => self.policy.explain_model(model),
            (None, None) => self.policy.explain_turn(),
            (Some(_), Some(_)) => {
                return Err(PyValueError::new_err("name a tool or a model, not both"));
            }
        }
        .to_string())
    }

    /// The likely mistakes, as `unfazed check` lists them.
    fn check(&self) -> Vec<Diagnostic> {
        let lints = self.policy.lint(&LintOptions::default());
        self.policy.warnings().into_iter().chain([&lints]).flat_map(diagnostics).collect()
    }

    /// Whether a question that nobody answers counts as agreed to: `turn.approval.unanswered`.
    #[getter]
    fn approves_unanswered(&self) -> bool {
        self.policy.turn().approval.unanswered.value == UnansweredMode::Approve
    }

    /// What tells this policy from every other one: 32 hexadecimal digits.
    #[getter]
    fn digest(&self) -> &str {
        self.policy.digest()
    }

    fn __repr__(&self) -> String {
        format!("Policy(digest={:?})", self.policy.digest())
    }
}

#[pymethods]
impl Diagnostic {
    #[new]
    fn new(
        file: String,
        line: u32,
        column: u32,
        code: String,
        severity: String,
        message: String,
        help: Vec<String>,
    ) -> Self {
        Self { file, line, column, code, severity, message, help }
    }

    /// What it is made of again, in another process.
    fn __getnewargs__(&self) -> (&str, u32, u32, &str, &str, &str, Vec<String>) {
        let Self { file, line, column, code, severity, message, help } = self;
        (file, *line, *column, code, severity, message, help.clone())
    }

    fn __str__(&self) -> String {
        let Self { file, line, column, code, severity, message, .. } = self;
        format!("{file}:{line}:{column}: {severity}[{code}]: {message}")
    }

    fn __repr__(&self) -> String {
        format!("Diagnostic({})", self.__str__())
    }
}

fn loader(profile: Option<String>) -> Loader {
    match profile {
        Some(name) => Loader::new().profile(name).profile_from("`profile`"),
        None => Loader::new(),
    }
}

/// The exception for a policy that cannot be used.
fn refused(report: &Report) -> PyErr {
    let diagnostics: Vec<Diagnostic> = diagnostics(report).collect();
    PolicyError::new_err((report.to_string(), diagnostics))
}

fn diagnostics(report: &Report) -> impl Iterator<Item = Diagnostic> {
    report.diagnostics().iter().map(|found| {
        let place = report.sources().place_of(found.span);
        Diagnostic {
            file: place.file.clone(),
            line: place.line,
            column: place.column,
            code: found.code.as_str().to_owned(),
            severity: found.severity.to_string(),
            message: found.message.clone(),
            help: found.label.iter().chain(&found.help).cloned().collect(),
        }
    })
}
