//! `unfazed context`: where the tokens of a conversation go, how much room is left of the window, and what would be cut next.

mod bar;
mod body;
mod forecast;
mod human;
mod json;
mod observations;
mod parts;
mod subject;

use std::path::PathBuf;

use self::forecast::BudgetForecast;
use self::subject::{ContextQuery, ContextSubject};
use super::exit::{CommandFailure, ExitStatus};
use super::format::OutputFormat;
use super::settings::CliSettings;
use super::{named, out};

/// Shows where the tokens go: the system, each tool, the messages, the reply, what is left of the window; when the
/// conversation is reduced, and what would be cut
#[derive(clap::Args)]
#[command(after_help = "Examples:
  unfazed context latest                                # a session, as it stands
  unfazed context agent.yaml                            # what an agent begins with
  unfazed context - --policy policy.yaml <request.json  # the body of a request, in either format
  unfazed context latest --format json | jq .free

Exit codes:
  0    all is well
  1    a server could not be asked, or a file has problems
  2    the command was not understood, or an input cannot be read
  3    there is nothing to count
  130  cancelled")]
pub(crate) struct ContextArgs {
    /// A session (its id, the beginning or the end of it, `latest`, or its file), an agent file, or the JSON body of a request
    /// to a model (chat completions, or Anthropic's messages), which is read from standard input for `-`.
    #[arg(value_name = "SOURCE")]
    source: String,
    /// The model whose window it is: a name of the agent file or, for a request, any name of a model.
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// The policy, instead of the one of the agent.
    #[arg(long, value_name = "FILE")]
    policy: Vec<PathBuf>,
    /// The profile of the policy that is chosen.
    #[arg(long, value_name = "NAME")]
    profile: Option<String>,
    /// How it is printed.
    #[arg(long, value_enum, default_value_t)]
    format: OutputFormat,
}

pub(crate) fn run(args: &ContextArgs, settings: &CliSettings) -> Result<ExitStatus, CommandFailure> {
    super::logs::start(settings)?;
    let profile = args.profile.as_deref().or(settings.profile.as_deref());
    let asked = ContextQuery {
        loader: named::chosen(args.profile.as_deref(), settings),
        policy: if args.policy.is_empty() { &settings.policy } else { &args.policy },
        profile: profile.is_some(),
        model: args.model.as_deref(),
        settings,
    };
    let subject = ContextSubject::find(&args.source, &asked)?;
    let forecast = subject.room.map(|room| BudgetForecast::of(&subject, room));
    match args.format {
        OutputFormat::Human => out::styled(&human::shown(&subject, forecast.as_ref()))?,
        OutputFormat::Json => out::raw(&format!("{:#}\n", json::document(&subject, forecast.as_ref())))?,
    }
    for failed in &subject.failed {
        out::tell(failed);
    }
    if subject.failed.is_empty() && subject.parts.used() == 0 {
        out::say(&format!("there is nothing to count: {} is empty\n", subject.title));
    }
    Ok(match (subject.failed.is_empty(), subject.parts.used()) {
        (false, _) => ExitStatus::Problem,
        (true, 0) => ExitStatus::Nothing,
        (true, _) => ExitStatus::Clean,
    })
}
