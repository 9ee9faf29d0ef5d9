//! `unfazed diff`: what two policies do differently, for every tool, model, field and class of errors.

use std::fmt::Write as _;
use std::path::PathBuf;

use crate::analysis::{ComparedNames, PolicyComparison};
use crate::policy::Policy;
use anstyle::{AnsiColor, Style};

use super::exit::{CommandFailure, ExitStatus};
use super::format::OutputFormat;
use super::settings::CliSettings;
use super::{named, out, policies};

const BOLD: Style = Style::new().bold();
const LOOSER: Style = AnsiColor::Yellow.on_default();
const TIGHTER: Style = AnsiColor::Green.on_default();
const CHANGED: Style = AnsiColor::Cyan.on_default();

/// Shows what two policies do differently: looser, tighter or changed, with the place of each value on both sides
#[derive(clap::Args)]
#[command(after_help = "Examples:
  unfazed diff old.yaml new.yaml
  unfazed diff old.yaml new.yaml --tool http_post --exit-code
  unfazed diff agent.yaml new-agent.yaml --format json")]
pub(crate) struct DiffArgs {
    /// The policy as it was, with the files it extends; or an agent file, whose policies are taken.
    #[arg(value_name = "OLD")]
    old: PathBuf,
    /// The policy as it will be; likewise.
    #[arg(value_name = "NEW")]
    new: PathBuf,
    /// Compares this tool too, besides those the policies speak of.
    #[arg(long = "tool", value_name = "NAME")]
    tools: Vec<String>,
    /// Compares this model too.
    #[arg(long = "model", value_name = "NAME")]
    models: Vec<String>,
    /// The profile that is chosen in both. Left out: each that either has is compared, too.
    #[arg(long, value_name = "NAME")]
    profile: Option<String>,
    /// Ends with 1 if there are differences.
    #[arg(long)]
    exit_code: bool,
    /// How it is printed.
    #[arg(long, value_enum, default_value_t)]
    format: OutputFormat,
}

pub(crate) fn run(args: &DiffArgs, settings: &CliSettings) -> Result<ExitStatus, CommandFailure> {
    let chosen = args.profile.as_deref().or(settings.profile.as_deref());
    let loader = named::chosen(args.profile.as_deref(), settings);
    let json = args.format == OutputFormat::Json;
    if args.tools.iter().chain(&args.models).any(String::is_empty) {
        return Err(CommandFailure::Usage("a name is empty; no tool and no model has such a name".into()));
    }
    let mut names = ComparedNames { tools: args.tools.clone(), models: args.models.clone() };
    let mut load = |path: &PathBuf| {
        let (policy, agent) = policies::load_for(std::slice::from_ref(path), &loader, json)?;
        if let Some(agent) = agent {
            names.tools.extend(agent.tools.keys().cloned());
            names.models.extend(agent.models.keys().cloned());
        }
        Ok::<_, CommandFailure>(policy)
    };
    let (old, new) = (load(&args.old)?, load(&args.new)?);
    let found = old.diff(&new, &names);
    let profiles = if chosen.is_none() { of_profiles(args, &old, &new, &names, &found)? } else { Vec::new() };
    match args.format {
        OutputFormat::Human => out::styled(&coloured(&human(&found, &profiles)))?,
        OutputFormat::Json => {
            let mut json = found.to_json();
            if let (Some(fields), false) = (json.as_object_mut(), profiles.is_empty()) {
                let each = profiles.iter().map(|(name, found)| (name.clone(), found.to_json()));
                fields.insert("profiles".to_owned(), each.collect::<serde_json::Map<_, _>>().into());
            }
            out::raw(&format!("{json:#}\n"))?;
        }
    }
    let same = found.is_empty() && profiles.iter().all(|(_, found)| found.is_empty());
    Ok(if args.exit_code && !same { ExitStatus::Problem } else { ExitStatus::Clean })
}

/// What each profile of either side does differently, besides what is reported without one. A side that does not have it
/// is taken without a profile.
fn of_profiles(
    args: &DiffArgs,
    old: &Policy,
    new: &Policy,
    names: &ComparedNames,
    plain: &PolicyComparison,
) -> Result<Vec<(String, PolicyComparison)>, CommandFailure> {
    let added = new.profiles().iter().filter(|name| !old.profiles().contains(name));
    let mut all = Vec::new();
    for name in old.profiles().iter().chain(added) {
        let with = |policy: &Policy, path: &PathBuf| {
            if !policy.profiles().contains(name) {
                return Ok(policy.clone());
            }
            let json = args.format == OutputFormat::Json;
            let loaded = policies::load_for(std::slice::from_ref(path), &named::loader(Some(name)), json);
            loaded.map(|(policy, _)| policy)
        };
        let (old, new) = (with(old, &args.old)?, with(new, &args.new)?);
        all.push((name.clone(), old.diff(&new, names).without(plain)));
    }
    Ok(all)
}

/// With the verdicts told apart.
fn coloured(text: &str) -> String {
    let line = |line: &str| {
        let words = line.trim_start();
        let indent = &line[..line.len() - words.len()];
        let verdicts = [("looser ", LOOSER), ("tighter ", TIGHTER), ("changed ", CHANGED)];
        let verdict = verdicts.iter().find(|(verdict, _)| words.starts_with(verdict));
        match verdict.filter(|_| !indent.is_empty()) {
            Some((verdict, style)) => {
                let (verdict, rest) = words.split_at(verdict.len());
                format!("{indent}{style}{verdict}{style:#}{rest}\n")
            }
            None if indent.is_empty() => format!("{BOLD}{line}{BOLD:#}\n"),
            None => format!("{line}\n"),
        }
    };
    text.lines().map(line).collect()
}

/// Without profiles the differences alone; otherwise each part with what it is about.
fn human(found: &PolicyComparison, profiles: &[(String, PolicyComparison)]) -> String {
    let differ: Vec<_> = profiles.iter().filter(|(_, found)| !found.is_empty()).collect();
    let mut text = if differ.is_empty() { String::new() } else { "without a profile\n\n".to_owned() };
    text.push_str(&found.human());
    for (name, found) in &differ {
        let _ = write!(text, "\nwith the profile {name}, besides\n\n{}", found.human());
    }
    if differ.is_empty() && !profiles.is_empty() {
        let names: Vec<&str> = profiles.iter().map(|(name, _)| name.as_str()).collect();
        let _ = writeln!(text, "no further difference with each profile: {}", names.join(", "));
    }
    text
}
