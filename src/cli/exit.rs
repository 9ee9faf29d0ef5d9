//! How a command ends.

use std::process::ExitCode;

/// How a command ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExitStatus {
    /// All is well.
    Clean,
    /// A problem in the user's files, or a run that failed.
    Problem,
    /// The command was not understood, or an input cannot be read.
    Usage,
    /// Nothing to do.
    Nothing,
    /// A run failed: a provider does not take the key, or refuses permission.
    Auth,
    /// A run failed: the quota or the money is gone.
    Quota,
    /// A run failed: all attempts at something are used up.
    Retries,
    /// A run failed: the conversation or a reply is too large for the model.
    TokenLimit,
    /// A run failed: there is no report after the final turn.
    MaxTurns,
    /// A run failed: it has no time left.
    Deadline,
    /// A run failed: a budget of it (`limits.run`) is used up.
    Budget,
    /// Cancelled.
    Cancelled,
}

/// A command that could not do its work.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CommandFailure {
    /// An input or output that cannot be used.
    #[error("{what}: {}", crate::host::file_error(source))]
    Io {
        /// What was tried: `cannot read policy.yaml`.
        what: String,
        /// Why it failed.
        source: std::io::Error,
    },
    /// The user's files have problems, which have been printed.
    #[error("{0}")]
    Report(String),
    /// Anything else that stops the command.
    #[error("{0}")]
    Stopped(String),
    /// The command makes no sense as it was given.
    #[error("{0}")]
    Usage(String),
    /// A signal came before it was done.
    #[error("cancelled")]
    Cancelled,
}

impl CommandFailure {
    pub(crate) fn io(what: impl Into<String>, source: std::io::Error) -> Self {
        Self::Io { what: what.into(), source }
    }

    pub(crate) fn exit(&self) -> ExitStatus {
        match self {
            Self::Io { .. } | Self::Usage(_) => ExitStatus::Usage,
            Self::Report(_) | Self::Stopped(_) => ExitStatus::Problem,
            Self::Cancelled => ExitStatus::Cancelled,
        }
    }
}

impl From<ExitStatus> for ExitCode {
    fn from(exit: ExitStatus) -> Self {
        Self::from(match exit {
            ExitStatus::Clean => 0,
            ExitStatus::Problem => 1,
            ExitStatus::Usage => 2,
            ExitStatus::Nothing => 3,
            ExitStatus::Auth => 10,
            ExitStatus::Quota => 11,
            ExitStatus::Retries => 12,
            ExitStatus::TokenLimit => 13,
            ExitStatus::MaxTurns => 14,
            ExitStatus::Deadline => 15,
            ExitStatus::Budget => 16,
            ExitStatus::Cancelled => 130,
        })
    }
}
