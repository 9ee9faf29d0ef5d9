//! `unfazed completions`: what a shell completes.

use clap_complete::Shell;

use super::exit::{CommandFailure, ExitStatus};

/// Prints the completions of a shell
#[derive(clap::Args)]
#[command(after_help = "Examples:
  unfazed completions bash > ~/.local/share/bash-completion/completions/unfazed
  unfazed completions zsh > ~/.zfunc/_unfazed
  unfazed completions fish > ~/.config/fish/completions/unfazed.fish")]
pub(crate) struct CompletionsArgs {
    /// The shell.
    #[arg(value_enum)]
    shell: Shell,
}

pub(crate) fn run(args: &CompletionsArgs, mut command: clap::Command) -> Result<ExitStatus, CommandFailure> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut command, "unfazed", &mut text);
    super::out::raw(&String::from_utf8_lossy(&text))?;
    Ok(ExitStatus::Clean)
}
