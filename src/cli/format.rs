//! How most commands print what they found.

use clap::ValueEnum;

/// How it is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum OutputFormat {
    /// For people.
    #[default]
    Human,
    /// One JSON document.
    Json,
}
