//! Manual pages and completions: they know every command.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::command;

fn unfazed(args: &[&str]) -> Output {
    command::unfazed(Path::new("."), args).output().unwrap()
}

fn said(args: &[&str]) -> String {
    let output = unfazed(args);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The commands that `--help` lists, but for `help` itself.
fn commands() -> Vec<String> {
    let help = said(&["--help"]);
    let lines =
        help.lines().skip_while(|line| !line.starts_with("Write")).take_while(|line| *line != "Options:");
    let listed = lines.filter_map(|line| line.strip_prefix("  ").filter(|rest| !rest.starts_with(' ')));
    let first = listed.filter_map(|line| line.split_whitespace().next()).map(str::to_owned);
    let commands: Vec<String> = first.filter(|name| name != "help").collect();
    assert!(commands.len() >= 14, "only {commands:?} were found");
    commands
}

#[test]
fn the_completions_of_every_shell_know_every_command() {
    let commands = commands();
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = said(&["completions", shell]);
        let missing: Vec<_> = commands.iter().filter(|command| !script.contains(command.as_str())).collect();
        assert!(missing.is_empty(), "{shell}: {missing:?}");
    }
}

#[test]
fn bash_reads_its_completions() {
    let script = said(&["completions", "bash"]);
    let mut bash = Command::new("bash").arg("-n").stdin(Stdio::piped()).spawn().unwrap();
    std::io::Write::write_all(&mut bash.stdin.take().unwrap(), script.as_bytes()).unwrap();
    assert!(bash.wait().unwrap().success());
}

#[test]
fn a_shell_that_is_not_known_is_a_mistake() {
    let output = unfazed(&["completions", "tcsh"]);
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn every_command_has_a_page_with_its_examples() {
    let dir = tempfile::tempdir().unwrap();
    let man1 = dir.path().join("man/man1");
    let listed = said(&["man", man1.to_str().unwrap()]);
    let page =
        |name: String| fs::read_to_string(man1.join(&name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    assert_eq!(listed.lines().count(), fs::read_dir(&man1).unwrap().count(), "{listed}");
    for command in commands() {
        assert!(listed.contains(&format!("wrote {}/unfazed-{command}.1\n", man1.display())), "{listed}");
        let page = page(format!("unfazed-{command}.1"));
        let (_, examples) =
            page.split_once(".SH EXAMPLES\n.nf\n").unwrap_or_else(|| panic!("{command} shows none"));
        assert!(examples.starts_with("  ") && examples.contains(&format!("unfazed {command}")), "{command}");
        assert_eq!(page.matches("\n.nf\n").count(), page.matches("\n.fi\n").count(), "{command}");
        assert!(!page.contains(".SH EXTRA"), "{command}");
    }
    let main = page("unfazed.1".to_owned());
    assert!(main.contains(".SH EXIT STATUS\n.nf\n  0"), "{main}");
}

#[test]
fn a_folder_that_cannot_be_made_is_told() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let output = unfazed(&["man", file.path().join("man").to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("cannot make"), "{said}");
}
