//! `unfazed reference`: the pages of the guide that are made of what the product knows.

mod concerns;
pub(super) mod defaults;
mod errors;
mod flow;
mod page;
mod types;
pub(super) mod walk;

use clap::ValueEnum;

use super::exit::{CommandFailure, ExitStatus};
use super::generated::{FileSelection, GeneratedFiles};

/// Prints the reference of all keys of a policy, or of all error rows, as Markdown; or writes both into a folder
#[derive(clap::Args)]
#[command(after_help = "Examples:
  unfazed reference policy | less
  unfazed reference --write docs/
  unfazed reference --check docs/      # exit code 1 if a page there is stale")]
pub(crate) struct ReferenceArgs {
    #[command(flatten)]
    files: FileSelection<PageName>,
}

/// The pages there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum PageName {
    /// Every key of a policy: type, default, example, meaning, problems.
    Policy,
    /// The classes of errors, and the rows that tell what a failure is.
    Errors,
}

pub(crate) fn run(args: &ReferenceArgs) -> Result<ExitStatus, CommandFailure> {
    args.files.run()
}

impl GeneratedFiles for PageName {
    const COMMAND: &str = "unfazed reference";

    fn file(&self) -> &'static str {
        match self {
            Self::Policy => "policy-reference.md",
            Self::Errors => "error-tables.md",
        }
    }

    fn text(&self) -> Result<String, CommandFailure> {
        match self {
            Self::Policy => page::policy(),
            Self::Errors => Ok(errors::page()),
        }
    }
}
