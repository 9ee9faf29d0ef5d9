//! The help of the program: its commands in the order in which people meet them.

use std::fmt::Write as _;

use clap::{Command, CommandFactory};

use super::CommandLine;
use super::out;
use super::text::wrap;

/// The commands, by what they are for.
const GROUPS: [(&str, &[&str]); 4] = [
    ("Write policies", &["init", "check", "test", "explain", "rule"]),
    ("Run agents", &["run", "mcp", "serve", "step", "sessions", "context", "tools"]),
    ("Change policies", &["diff", "simulate", "tune", "replay"]),
    ("Set up and look up", &["models", "schema", "reference", "completions", "man"]),
];
/// The widest line.
const WIDEST: usize = 100;

/// The command line, with a help that groups the commands.
pub(super) fn command() -> Command {
    let command = CommandLine::command();
    let groups = groups(&command, out::width().map_or(WIDEST, |width| width.min(WIDEST)));
    let header = *command.get_styles().get_header();
    command.help_template(format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{groups}{header}Options:{header:#}\n{{options}}{{after-help}}"
    ))
}

fn groups(command: &Command, width: usize) -> String {
    let (header, literal) = (*command.get_styles().get_header(), *command.get_styles().get_literal());
    let longest =
        GROUPS.iter().flat_map(|(_, names)| *names).map(|name| name.len()).max().unwrap_or_default();
    let margin = " ".repeat(longest + 4);
    let mut text = String::new();
    for (title, names) in GROUPS {
        let _ = writeln!(text, "{header}{title}:{header:#}");
        for name in names {
            let about = command.find_subcommand(name).and_then(Command::get_about).map(ToString::to_string);
            let line = format!("  {literal}{name:<longest$}{literal:#}  {}", about.unwrap_or_default());
            let _ = writeln!(text, "{}", wrap(&line, width, &margin));
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_command_stands_in_one_group_and_init_is_the_first() {
        let command = CommandLine::command();
        let real: BTreeSet<&str> = command.get_subcommands().map(Command::get_name).collect();
        let named: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        assert_eq!(named.iter().copied().collect::<BTreeSet<_>>(), real);
        assert_eq!((named.len(), named.first()), (real.len(), Some(&"init")));
        // Pages of manuals and completions have the same order.
        assert_eq!(command.get_subcommands().map(Command::get_name).collect::<Vec<_>>(), named);
    }

    #[test]
    fn the_help_names_every_command_with_what_it_does() {
        let help = command().render_help().to_string();
        assert!(help.contains("Write policies:\n  init         Writes a commented policy"), "{help}");
        for command in CommandLine::command().get_subcommands() {
            let about = command.get_about().unwrap().to_string();
            let begins: String = about.chars().take(30).collect();
            assert!(help.contains(&begins), "{begins}");
        }
    }

    #[test]
    fn the_list_of_commands_fits_a_narrow_terminal() {
        let text = anstream::adapter::strip_str(&groups(&CommandLine::command(), 50)).to_string();
        assert!(text.lines().all(|line| line.chars().count() <= 50), "{text}");
        assert!(text.contains("\n               "), "{text}");
    }
}
