//! `unfazed reference`: the pages of the guide that are made of what the product knows.

mod concerns;
pub(super) mod defaults;
mod errors;
mod flow;
mod page;
mod types;
pub(super) mod walk;

use clap::ValueEnum;

use super::exit::{Exit, Failed};
use super::generated::{Generated, Which};

/// Prints the reference of all keys of a policy, or of all error rows, as Markdown; or writes both into a folder
#[derive(clap::Args)]
#[command(after_help = "Examples:
  unfazed reference policy | less
  unfazed reference --write docs/
  unfazed reference --check docs/      # exit code 1 if a page there is stale")]
pub(crate) struct Args {
    #[command(flatten)]
    files: Which<Name>,
}

/// The pages there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Name {
    /// Every key of a policy: type, default, example, meaning, problems.
    Policy,
    /// The classes of errors, and the rows that tell what a failure is.
    Errors,
}

pub(crate) fn run(args: &Args) -> Result<Exit, Failed> {
    args.files.run()
}

impl Generated for Name {
    const COMMAND: &str = "unfazed reference";

    fn file(&self) -> &'static str {
        match self {
            Self::Policy => "policy-reference.md",
            Self::Errors => "error-tables.md",
        }
    }

    fn text(&self) -> Result<String, Failed> {
        match self {
            Self::Policy => page::policy(),
            Self::Errors => Ok(errors::page()),
        }
    }
}
