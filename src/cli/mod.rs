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
mod http;
mod init;
mod lines;
mod logs;
mod look;
mod man;
mod mcp;
mod models;
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
mod serve;
mod sessions;
mod settings;
mod simulate;
mod status;
mod step;
mod table;
mod test;
mod text;
mod timeline;
mod tools;
mod tune;

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use exit::ExitStatus;

/// Keeps LLM agents going when tool calls and model turns go wrong: check YAML policies, see what they decide, run
/// agents under them.
#[derive(Parser)]
#[command(name = "unfazed", version, max_term_width = 100, after_help = AFTER_HELP)]
struct CommandLine {
    #[command(subcommand)]
    command: CliCommand,
    #[command(flatten)]
    settings: settings::GlobalFlags,
}

/// In the order of the help.
#[derive(Subcommand)]
enum CliCommand {
    Init(init::InitArgs),
    Check(check::CheckArgs),
    Test(test::TestArgs),
    Explain(explain::ExplainArgs),
    Rule(rule::RuleArgs),
    Run(run::RunArgs),
    Mcp(mcp::McpArgs),
    Serve(serve::ServeArgs),
    Step(step::StepArgs),
    Sessions(sessions::SessionsArgs),
    Context(context::ContextArgs),
    Tools(tools::ToolsArgs),
    Diff(diff::DiffArgs),
    Simulate(simulate::SimulateArgs),
    Tune(tune::TuneArgs),
    Replay(replay::ReplayArgs),
    Models(models::ModelsArgs),
    Schema(schema::SchemaArgs),
    Reference(reference::ReferenceArgs),
    Completions(completions::CompletionsArgs),
    Man(man::ManArgs),
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

/// Runs the `unfazed` command with the arguments and streams of this process. `src/main.rs` is nothing else.
pub fn run_command() -> ExitCode {
    let asked = help::command().try_get_matches().and_then(|matches| CommandLine::from_arg_matches(&matches));
    let cli = match asked {
        Ok(cli) => cli,
        Err(asked) if !asked.use_stderr() => {
            let printed = out::styled(&asked.render().ansi().to_string());
            return printed
                .map_or_else(|error| out::complain(&error, error.exit()), |()| ExitStatus::Clean.into());
        }
        Err(error) => {
            out::say(&error.render().ansi().to_string());
            return ExitStatus::Usage.into();
        }
    };
    let settings = match cli.settings.resolve() {
        Ok(settings) => settings,
        Err(error) => return out::complain(&error, ExitStatus::Usage),
    };
    settings.color.apply();
    let result = match cli.command {
        CliCommand::Check(args) => check::run(&args),
        CliCommand::Completions(args) => completions::run(&args, CommandLine::command()),
        CliCommand::Context(args) => context::run(&args, &settings),
        CliCommand::Diff(args) => diff::run(&args, &settings),
        CliCommand::Explain(args) => explain::run(&args, &settings),
        CliCommand::Init(args) => init::run(&args),
        CliCommand::Man(args) => man::run(&args, CommandLine::command()),
        CliCommand::Mcp(args) => mcp::run(&args, &settings),
        CliCommand::Models(args) => models::run(&args),
        CliCommand::Reference(args) => reference::run(&args),
        CliCommand::Replay(args) => replay::run(&args, &settings),
        CliCommand::Rule(args) => rule::run(&args),
        CliCommand::Run(args) => run::run(&args, &settings),
        CliCommand::Schema(args) => schema::run(&args),
        CliCommand::Serve(args) => serve::run(&args, &settings),
        CliCommand::Sessions(args) => sessions::run(&args, &settings),
        CliCommand::Simulate(args) => simulate::run(&args, &settings),
        CliCommand::Tune(args) => tune::run(&args, &settings),
        CliCommand::Step(args) => step::run(&args, &settings),
        CliCommand::Test(args) => test::run(&args),
        CliCommand::Tools(args) => tools::run(&args, &settings),
    };
    match result {
        Ok(exit) => exit.into(),
        Err(exit::CommandFailure::Cancelled) => {
            out::say("Cancelled\n");
            ExitStatus::Cancelled.into()
        }
        Err(error) => {
            let exit = error.exit();
            out::complain(&error, exit)
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
