//! `unfazed reference`: the pages of the guide that are made of what the product knows.

mod concerns;
mod defaults;
mod errors;
mod flow;
mod page;
mod types;
mod walk;

use std::path::{Path, PathBuf};

use clap::ValueEnum;

use super::exit::{Exit, Failed};

/// Prints the reference of all keys of a policy, or of all error rows, as Markdown; or writes both into a folder
#[derive(clap::Args)]
#[command(after_help = "Examples:
  unfazed reference policy | less
  unfazed reference --write docs/
  unfazed reference --check docs/      # exit code 1 if a page there is stale")]
pub(crate) struct Args {
    /// Which one to print.
    #[arg(value_enum, required_unless_present_any = ["write", "check"])]
    name: Option<Name>,
    /// Writes all pages into this folder.
    #[arg(long, value_name = "DIR", conflicts_with = "check")]
    write: Option<PathBuf>,
    /// Compares all pages with the files in this folder.
    #[arg(long, value_name = "DIR")]
    check: Option<PathBuf>,
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
    if let Some(dir) = &args.write {
        std::fs::create_dir_all(dir)
            .map_err(|error| Failed::io(format!("cannot make {}", dir.display()), error))?;
        for name in Name::value_variants() {
            let path = name.path(dir);
            let what = format!("cannot write {}", path.display());
            std::fs::write(&path, name.text()?).map_err(|error| Failed::io(what, error))?;
        }
        return Ok(Exit::Clean);
    }
    if let Some(dir) = &args.check {
        return check(dir);
    }
    if let Some(name) = args.name {
        super::out::raw(&name.text()?)?;
    }
    Ok(Exit::Clean)
}

fn check(dir: &Path) -> Result<Exit, Failed> {
    let mut stale = Vec::new();
    for name in Name::value_variants() {
        let path = name.path(dir);
        let found = String::from_utf8(super::files::read(&path)?).unwrap_or_default();
        if found != name.text()? {
            stale.push(path.display().to_string());
        }
    }
    if stale.is_empty() {
        return Ok(Exit::Clean);
    }
    let write = format!("unfazed reference --write {}", dir.display());
    Err(Failed::Report(format!("stale: {}; write them anew with `{write}`", stale.join(", "))))
}

impl Name {
    fn text(self) -> Result<String, Failed> {
        match self {
            Self::Policy => page::policy(),
            Self::Errors => Ok(errors::page()),
        }
    }

    fn path(self, dir: &Path) -> PathBuf {
        dir.join(match self {
            Self::Policy => "policy-reference.md",
            Self::Errors => "error-tables.md",
        })
    }
}
