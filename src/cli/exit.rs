//! How a command ends.

use std::fmt::Display;
use std::process::ExitCode;

use anstyle::{AnsiColor, Style};

const BAD: Style = AnsiColor::Red.on_default().bold();

/// How a command ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
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
    /// A run failed: there is no report after the last turn.
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
pub(crate) enum Failed {
    /// An input or output that cannot be used.
    #[error("{what}: {}", unfazed::host::file_error(source))]
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

impl Failed {
    pub(crate) fn io(what: impl Into<String>, source: std::io::Error) -> Self {
        Self::Io { what: what.into(), source }
    }

    pub(crate) fn exit(&self) -> Exit {
        match self {
            Self::Io { .. } | Self::Usage(_) => Exit::Usage,
            Self::Report(_) | Self::Stopped(_) => Exit::Problem,
            Self::Cancelled => Exit::Cancelled,
        }
    }
}

/// Prints an error and ends with `exit`. What has been printed already is not printed again.
pub(crate) fn complain(error: &dyn Display, exit: Exit) -> ExitCode {
    tell(error);
    exit.into()
}

/// Prints an error, unless it was printed already.
pub(crate) fn tell(error: &dyn Display) {
    let text = error.to_string();
    if !text.is_empty() {
        super::out::say(&format!("{BAD}error{BAD:#}: {text}\n"));
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Clean => 0,
            Exit::Problem => 1,
            Exit::Usage => 2,
            Exit::Nothing => 3,
            Exit::Auth => 10,
            Exit::Quota => 11,
            Exit::Retries => 12,
            Exit::TokenLimit => 13,
            Exit::MaxTurns => 14,
            Exit::Deadline => 15,
            Exit::Budget => 16,
            Exit::Cancelled => 130,
        })
    }
}
