//! Policies: loaded, explained, checked.

use std::path::PathBuf;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use unfazed::analysis::LintOptions;
use unfazed::policy::{Loader, UnansweredMode};
use unfazed::text::Report;

use crate::files;

pyo3::import_exception!(unfazed._raised, PolicyError);

#[pyclass(frozen, module = "unfazed")]
pub(crate) struct Policy {
    pub(crate) policy: unfazed::Policy,
}

#[pyclass(frozen, get_all, module = "unfazed")]
pub(crate) struct Diagnostic {
    file: String,
    line: u32,
    column: u32,
    code: String,
    severity: String,
    message: String,
    help: Vec<String>,
}

#[pymethods]
impl Policy {
    #[staticmethod]
    #[expect(clippy::needless_pass_by_value, reason = "pyo3 makes it of a tuple")]
    #[pyo3(signature = (*paths, profile=None))]
    fn load(paths: Vec<PathBuf>, profile: Option<String>) -> PyResult<Self> {
        let named = paths.iter().map(|path| files::named(path)).collect::<PyResult<Vec<_>>>()?;
        let loaded = loader(profile).load_with(&mut files::extended, named);
        Ok(Self { policy: loaded.map_err(|report| refused(&report))? })
    }

    #[staticmethod]
    #[pyo3(signature = (text, name="policy.yaml".to_owned(), *, profile=None))]
    fn from_yaml(text: &str, name: String, profile: Option<String>) -> PyResult<Self> {
        let loaded = loader(profile).load(vec![(name, text)]);
        Ok(Self { policy: loaded.map_err(|report| refused(&report))? })
    }

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

    fn check(&self) -> Vec<Diagnostic> {
        let lints = self.policy.lint(&LintOptions::default());
        self.policy.warnings().into_iter().chain([&lints]).flat_map(diagnostics).collect()
    }

    #[getter]
    fn approves_unanswered(&self) -> bool {
        self.policy.turn().approval.unanswered.value == UnansweredMode::Approve
    }

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
            help: found.help.clone(),
        }
    })
}
