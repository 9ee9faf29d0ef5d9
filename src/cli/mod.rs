//! The command line: one file per command, and what they share.

mod check;
mod completions;
mod context;
mod diff;
mod exit;
mod explain;
mod files;
mod format;
mod generated;
mod help;
mod init;
mod logs;
mod man;
mod named;
mod out;
mod pages;
mod policies;
mod question;
mod reference;
mod replay;
mod rule;
mod run;
mod runtime;
mod schema;
mod sessions;
mod settings;
mod simulate;
mod status;
mod table;
mod test;
mod text;
mod tools;

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use exit::Exit;

/// Keeps LLM agents going when tool calls and model turns go wrong: check YAML policies, see what they decide, run
/// agents under them.
#[derive(Parser)]
#[command(name = "unfazed", version, max_term_width = 100, after_help = AFTER_HELP)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    settings: settings::Flags,
}

/// In the order of the help.
#[derive(Subcommand)]
enum Command {
    Init(init::Args),
    Check(check::Args),
    Test(test::Args),
    Explain(explain::Args),
    Rule(rule::Args),
    Run(run::Args),
    Sessions(sessions::Args),
    Context(context::Args),
    Tools(tools::Args),
    Diff(diff::Args),
    Simulate(simulate::Args),
    Replay(replay::Args),
    Schema(schema::Args),
    Reference(reference::Args),
    Completions(completions::Args),
    Man(man::Args),
}

const AFTER_HELP: &str = "Examples:
  unfazed init                                     # a policy and a first test
  unfazed check policy.yaml
  unfazed explain lookup_price policy.yaml
  unfazed simulate policy.yaml --tool search --outcomes 'timeout x2, ok'
  unfazed tools agent.yaml
  unfazed run agent.yaml --task 'find the cheapest flight'
  unfazed sessions show latest
  unfazed context latest
  unfazed replay latest --policy new.yaml

Exit codes:
  0    all is well
  1    a problem in your files, or a run that failed
  2    the command was not understood, or an input cannot be read
  3    nothing to do
  130  cancelled
`unfazed run --help` has those of runs that failed.";

/// Runs the command that was asked for.
pub(crate) fn main() -> ExitCode {
    let asked = help::command().try_get_matches().and_then(|matches| Cli::from_arg_matches(&matches));
    let cli = match asked {
        Ok(cli) => cli,
        Err(asked) if !asked.use_stderr() => {
            let printed = out::styled(&asked.render().ansi().to_string());
            return printed
                .map_or_else(|error| exit::complain(&error, error.exit()), |()| Exit::Clean.into());
        }
        Err(error) => {
            out::say(&error.render().ansi().to_string());
            return Exit::Usage.into();
        }
    };
    let settings = match cli.settings.resolve() {
        Ok(settings) => settings,
        Err(error) => return exit::complain(&error, Exit::Usage),
    };
    settings.color.apply();
    let result = match cli.command {
        Command::Check(args) => check::run(&args),
        Command::Completions(args) => completions::run(&args, Cli::command()),
        Command::Context(args) => context::run(&args, &settings),
        Command::Diff(args) => diff::run(&args, &settings),
        Command::Explain(args) => explain::run(&args, &settings),
        Command::Init(args) => init::run(&args),
        Command::Man(args) => man::run(&args, Cli::command()),
        Command::Reference(args) => reference::run(&args),
        Command::Replay(args) => replay::run(&args, &settings),
        Command::Rule(args) => rule::run(&args),
        Command::Run(args) => run::run(&args, &settings),
        Command::Schema(args) => schema::run(&args),
        Command::Sessions(args) => sessions::run(&args, &settings),
        Command::Simulate(args) => simulate::run(&args, &settings),
        Command::Test(args) => test::run(&args),
        Command::Tools(args) => tools::run(&args, &settings),
    };
    match result {
        Ok(exit) => exit.into(),
        Err(exit::Failed::Cancelled) => {
            out::say("Cancelled\n");
            Exit::Cancelled.into()
        }
        Err(error) => {
            let exit = error.exit();
            exit::complain(&error, exit)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every command, with those below it.
    fn all(command: clap::Command) -> Vec<clap::Command> {
        let below = command.get_subcommands().cloned().flat_map(all).collect::<Vec<_>>();
        [vec![command], below].concat()
    }

    fn built() -> Vec<clap::Command> {
        let mut command = help::command();
        command.build();
        all(command)
    }

    #[test]
    fn no_line_of_an_example_is_wider_than_the_help() {
        for command in built() {
            let text = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            for line in text.lines().filter(|line| line.starts_with("  ")) {
                assert!(line.chars().count() <= 100, "{}: {line}", command.get_name());
            }
        }
    }

    #[test]
    fn no_heading_of_a_help_comes_twice() {
        for mut command in built() {
            let help = command.render_long_help().to_string();
            let mut headings: Vec<_> =
                help.lines().filter(|line| !line.starts_with(' ') && line.ends_with(':')).collect();
            let count = headings.len();
            headings.sort_unstable();
            headings.dedup();
            assert_eq!(headings.len(), count, "{help}");
        }
    }
}
