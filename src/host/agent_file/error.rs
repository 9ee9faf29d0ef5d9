//! Why an agent file cannot be run.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::PathBuf;

use crate::ErrorCause;
#[cfg(feature = "mcp")]
use crate::host::McpError;
use crate::host::{PolicyFilesError, file_error};
use crate::text::Report;

/// Why an agent file cannot be run. It shows no key and no header.
#[derive(Debug)]
#[non_exhaustive]
pub enum AgentFileError {
    /// The file cannot be read.
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Mistakes in the file and in those it names, and the keys and headers that are missing: each at its place.
    Mistakes(Vec<Report>),
    /// The files of the policy, which are watched, cannot be loaded.
    Policy(PolicyFilesError),
    /// A model cannot be set up.
    Model {
        /// Its name in the file.
        name: String,
        /// Why.
        source: ErrorCause,
    },
    /// MCP servers that do not start. Those that did were shut down.
    #[cfg(feature = "mcp")]
    Servers(Vec<McpError>),
}

impl AgentFileError {
    pub(super) fn model(name: &str, source: impl Into<ErrorCause>) -> Self {
        Self::Model { name: name.to_owned(), source: source.into() }
    }
}

impl From<Report> for AgentFileError {
    fn from(report: Report) -> Self {
        Self::Mistakes(vec![report])
    }
}

impl fmt::Display for AgentFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read { path, source } => {
                write!(f, "cannot read {}: {}", path.display(), file_error(source))
            }
            Self::Mistakes(reports) => lines(f, reports),
            Self::Policy(error) => error.fmt(f),
            Self::Model { name, source } => write!(f, "model `{name}`: {source}"),
            #[cfg(feature = "mcp")]
            Self::Servers(failed) => lines(f, failed),
        }
    }
}

/// What there are several of, its source is the first of.
impl Error for AgentFileError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Read { source, .. } => Some(source),
            Self::Mistakes(reports) => Some(reports.first()?),
            Self::Policy(error) => Some(error),
            Self::Model { source, .. } => Some(&**source),
            #[cfg(feature = "mcp")]
            Self::Servers(failed) => Some(failed.first()?),
        }
    }
}

fn lines(f: &mut fmt::Formatter<'_>, parts: &[impl fmt::Display]) -> fmt::Result {
    for (at, part) in parts.iter().enumerate() {
        let between = if at > 0 { "\n" } else { "" };
        write!(f, "{between}{part}")?;
    }
    Ok(())
}
