//! `unfazed diff`: what two policies do differently, for every tool, model, field and class of errors.

use std::path::PathBuf;

use clap::ValueEnum;
use unfazed::policy::Names;

use super::exit::{Exit, Failed};
use super::settings::Settings;
use super::{named, out, policies};

/// Shows what two policies do differently: looser, tighter or changed, with the place of each value on both sides
#[derive(clap::Args)]
#[command(after_help = "Examples:
  unfazed diff old.yaml new.yaml
  unfazed diff old.yaml new.yaml --tool http.post --exit-code
  unfazed diff agent.yaml new-agent.yaml --format json")]
pub(crate) struct Args {
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
    /// The profile that is chosen in both.
    #[arg(long, value_name = "NAME")]
    profile: Option<String>,
    /// Ends with 1 if there are differences.
    #[arg(long)]
    exit_code: bool,
    /// How it is printed.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// How differences are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people.
    #[default]
    Human,
    /// As JSON.
    Json,
}

pub(crate) fn run(args: &Args, settings: &Settings) -> Result<Exit, Failed> {
    let loader = named::loader(args.profile.as_deref().or(settings.profile.as_deref()));
    let mut names = Names { tools: args.tools.clone(), models: args.models.clone() };
    let mut load = |path: &PathBuf| {
        let (policy, agent) = policies::load(std::slice::from_ref(path), &loader)?;
        if let Some(agent) = agent {
            names.tools.extend(agent.tools.keys().cloned());
            names.models.extend(agent.models.keys().cloned());
        }
        Ok::<_, Failed>(policy)
    };
    let (old, new) = (load(&args.old)?, load(&args.new)?);
    let found = old.diff(&new, &names);
    match args.format {
        Format::Human => out::styled(&found.human())?,
        Format::Json => out::raw(&format!("{:#}\n", found.to_json()))?,
    }
    Ok(if args.exit_code && !found.is_empty() { Exit::Problem } else { Exit::Clean })
}
