//! `unfazed man`: the manual pages.

use std::path::{Path, PathBuf};

use clap_mangen::Man;

use super::exit::{CommandFailure, ExitStatus};

/// Writes the manual pages into a folder, one of the program and one of each command
#[derive(clap::Args)]
#[command(after_help = "Examples:
  unfazed man ~/.local/share/man/man1
  unfazed man . && man ./unfazed-check.1")]
pub(crate) struct ManArgs {
    /// The folder. It is made if it is not there; pages that are there are written anew.
    dir: PathBuf,
}

pub(crate) fn run(args: &ManArgs, command: clap::Command) -> Result<ExitStatus, CommandFailure> {
    let dir = args.dir.display();
    std::fs::create_dir_all(&args.dir)
        .map_err(|error| CommandFailure::io(format!("cannot make {dir}"), error))?;
    let mut command = command.disable_help_subcommand(true);
    command.build();
    let mut written = Vec::new();
    write(&command, &args.dir, &mut written)
        .map_err(|error| CommandFailure::io(format!("cannot write the pages into {dir}"), error))?;
    for path in &written {
        super::out::styled(&format!("wrote {}\n", path.display()))?;
    }
    Ok(ExitStatus::Clean)
}

/// The page of a command, and those of the commands below it.
fn write(command: &clap::Command, dir: &Path, written: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        write(below, dir, written)?;
    }
    let page = Man::new(command.clone()).source(concat!("unfazed ", env!("CARGO_PKG_VERSION")));
    let mut text = Vec::new();
    page.render(&mut text)?;
    let path = dir.join(page.get_filename());
    std::fs::write(&path, laid_out(&String::from_utf8_lossy(&text)))?;
    written.push(path);
    Ok(())
}

/// A page whose examples and exit codes are sections of their own, with their lines as they are in the help: what is
/// indented there would be filled like prose.
fn laid_out(page: &str) -> String {
    let (mut out, mut after_help, mut as_it_is) = (String::new(), false, false);
    for line in page.lines() {
        after_help = if line.starts_with(".SH ") { line == ".SH EXTRA" } else { after_help };
        let indented = after_help && line.starts_with("  ");
        if indented != as_it_is && !(after_help && line.is_empty()) {
            out.push_str(if indented { ".nf\n" } else { ".fi\n" });
            as_it_is = indented;
        }
        match line {
            ".SH EXTRA" => continue,
            "Examples:" if after_help => out.push_str(".SH EXAMPLES"),
            "Exit codes:" if after_help => out.push_str(".SH EXIT STATUS"),
            "" if after_help => out.push_str(".PP"),
            line => out.push_str(line),
        }
        out.push('\n');
    }
    if as_it_is {
        out.push_str(".fi\n");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::laid_out;

    #[test]
    fn examples_keep_their_lines_and_prose_is_filled() {
        let page = ".SH OPTIONS\n.TP\n  indented\n.SH EXTRA\nExamples:\n  unfazed a    # why\n  unfazed b\n\nWords of\n\
                    more lines.\n\nExit codes:\n  0  well\n.SH VERSION\nv1\n";
        assert_eq!(
            laid_out(page),
            ".SH OPTIONS\n.TP\n  indented\n.SH EXAMPLES\n.nf\n  unfazed a    # why\n  unfazed b\n.PP\n.fi\nWords of\n\
             more lines.\n.PP\n.SH EXIT STATUS\n.nf\n  0  well\n.fi\n.SH VERSION\nv1\n"
        );
    }

    #[test]
    fn a_page_that_ends_with_examples_ends_their_block() {
        assert_eq!(laid_out(".SH EXTRA\nExamples:\n  unfazed a\n"), ".SH EXAMPLES\n.nf\n  unfazed a\n.fi\n");
    }
}
