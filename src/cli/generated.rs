//! Files that the product writes about itself, and the flags of the commands that print, write and compare them.

use std::path::{Path, PathBuf};

use clap::ValueEnum;

use super::exit::{CommandFailure, ExitStatus};

/// A set of files that one command makes.
pub(super) trait GeneratedFiles: ValueEnum + 'static {
    /// The command that makes them.
    const COMMAND: &str;

    /// What the file is called in its folder.
    fn file(&self) -> &'static str;

    /// What stands in it.
    fn text(&self) -> Result<String, CommandFailure>;
}

/// Which of the files, and what is done with them.
#[derive(clap::Args)]
pub(super) struct FileSelection<G: GeneratedFiles + Clone + Send + Sync> {
    /// Which one to print.
    #[arg(value_enum, required_unless_present_any = ["write", "check"])]
    name: Option<G>,
    /// Writes all of them into this folder.
    #[arg(long, value_name = "DIR", conflicts_with = "check")]
    write: Option<PathBuf>,
    /// Compares all of them with the files in this folder.
    #[arg(long, value_name = "DIR")]
    check: Option<PathBuf>,
}

impl<G: GeneratedFiles + Clone + Send + Sync> FileSelection<G> {
    pub(super) fn run(&self) -> Result<ExitStatus, CommandFailure> {
        if let Some(dir) = &self.write {
            write::<G>(dir)
        } else if let Some(dir) = &self.check {
            check::<G>(dir)
        } else if let Some(name) = &self.name {
            super::out::raw(&name.text()?)?;
            Ok(ExitStatus::Clean)
        } else {
            Ok(ExitStatus::Clean)
        }
    }
}

fn write<G: GeneratedFiles>(dir: &Path) -> Result<ExitStatus, CommandFailure> {
    std::fs::create_dir_all(dir)
        .map_err(|error| CommandFailure::io(format!("cannot make {}", dir.display()), error))?;
    for file in G::value_variants() {
        let path = dir.join(file.file());
        let what = format!("cannot write {}", path.display());
        std::fs::write(&path, file.text()?).map_err(|error| CommandFailure::io(what, error))?;
        super::out::styled(&format!("wrote {}\n", path.display()))?;
    }
    Ok(ExitStatus::Clean)
}

fn check<G: GeneratedFiles>(dir: &Path) -> Result<ExitStatus, CommandFailure> {
    let mut stale = Vec::new();
    for file in G::value_variants() {
        let path = dir.join(file.file());
        if super::files::read(&path)? != file.text()?.as_bytes() {
            stale.push(path.display().to_string());
        }
    }
    if stale.is_empty() {
        return Ok(ExitStatus::Clean);
    }
    let write = format!("{} --write {}", G::COMMAND, dir.display());
    Err(CommandFailure::Report(format!("stale: {}; write them anew with `{write}`", stale.join(", "))))
}
