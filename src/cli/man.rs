//! `unfazed man`: the manual pages.

use std::path::PathBuf;

use super::exit::{Exit, Failed};

/// Writes the manual pages into a folder, one of the program and one of each command
#[derive(clap::Args)]
#[command(after_help = "Examples:
  unfazed man ~/.local/share/man/man1
  unfazed man . && man ./unfazed-check.1")]
pub(crate) struct Args {
    /// The folder. It is made if it is not there; pages that are there are written anew.
    dir: PathBuf,
}

pub(crate) fn run(args: &Args, command: clap::Command) -> Result<Exit, Failed> {
    let dir = args.dir.display();
    std::fs::create_dir_all(&args.dir).map_err(|error| Failed::io(format!("cannot make {dir}"), error))?;
    clap_mangen::generate_to(command, &args.dir)
        .map_err(|error| Failed::io(format!("cannot write the pages into {dir}"), error))?;
    Ok(Exit::Clean)
}
