//! `unfazed explain`: the effective policy, with the place of every value that won and every one that lost.

use std::path::{Path, PathBuf};

use clap::ValueEnum;

use super::exit::{Exit, Failed};
use super::settings::Settings;
use super::{named, out, policies};

/// Shows the effective policy of a tool, a model or the report: values, origins, delays, worst case
#[derive(clap::Args)]
#[command(after_help = "Examples:
  unfazed explain lookup_price policy.yaml
  unfazed explain --model main base.yaml team.yaml
  unfazed explain lookup_price agent.yaml
  unfazed explain --output policy.yaml --format json")]
pub(crate) struct Args {
    /// The tool, or with --model the model; left out with --output, --turn.
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// The policy files, the later ones above the earlier ones, or an agent file, whose policies are taken; the
    /// built-in policy alone without any.
    #[arg(value_name = "POLICY")]
    policy: Vec<PathBuf>,
    /// NAME is a model.
    #[arg(long)]
    model: bool,
    /// Shows the final report instead; all names are policy files.
    #[arg(long, conflicts_with_all = ["model", "turn"])]
    output: bool,
    /// Shows the loop of turns instead; all names are policy files.
    #[arg(long, conflicts_with = "model")]
    turn: bool,
    /// The profile of the policy that is chosen.
    #[arg(long, value_name = "NAME")]
    profile: Option<String>,
    /// How it is printed.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// How an explanation is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people.
    #[default]
    Human,
    /// As JSON.
    Json,
    /// The effective values alone, as a policy file.
    Yaml,
}

pub(crate) fn run(args: &Args, settings: &Settings) -> Result<Exit, Failed> {
    let mut paths = args.policy.clone();
    let mut name = args.name.clone();
    if args.output || args.turn {
        paths.splice(0..0, name.take().map(PathBuf::from));
    } else if let Some(file) = name.as_deref().filter(|name| is_file(name)) {
        let message = format!(
            "`{file}` is a file, not a name; name the tool first: `unfazed explain TOOL {file}`, \
             or use --model, --output, --turn"
        );
        return Err(Failed::Usage(message));
    }
    if paths.is_empty() {
        paths.clone_from(&settings.policy);
    }
    let loader = named::loader(args.profile.as_deref().or(settings.profile.as_deref()));
    let (policy, agent) = policies::load(&paths, &loader)?;
    let explanation = match name {
        None if args.output => policy
            .explain_output()
            .ok_or_else(|| Failed::Stopped("the policy asks for no report: it has no `output:`".into()))?,
        None if args.turn => policy.explain_turn(),
        None => {
            return Err(Failed::Usage(
                "name a tool: `unfazed explain TOOL [POLICY]`; or use --output, --turn".into(),
            ));
        }
        Some(name) if args.model => {
            note(&name, "model", agent.as_ref().map(|agent| agent.models.keys()));
            policy.explain_model(&name)
        }
        Some(name) => {
            note(&name, "tool", agent.as_ref().map(|agent| agent.tools.keys()));
            policy.explain_tool(&name)
        }
    };
    match args.format {
        Format::Human => out::styled(&explanation.human())?,
        Format::Json => out::raw(&format!("{:#}\n", explanation.to_json()))?,
        Format::Yaml => out::raw(&explanation.to_yaml())?,
    }
    Ok(Exit::Clean)
}

/// Whether a name is a file's: somebody forgot the name.
fn is_file(name: &str) -> bool {
    let path = Path::new(name);
    path.extension().is_some_and(|ext| ext == "yaml" || ext == "yml") || path.is_file()
}

/// Says so if the agent has nothing of that name: the answer is then about what patterns say.
fn note<'a>(name: &str, what: &str, known: Option<impl Iterator<Item = &'a String>>) {
    let Some(known) = known.map(|known| known.map(String::as_str).collect::<Vec<_>>()) else { return };
    if !known.contains(&name) {
        let known = known.join(", ");
        out::say(&format!(
            "note: the agent has no {what} `{name}` (it has: {known}); only what holds for any name and pattern \
             applies to it\n"
        ));
    }
}
