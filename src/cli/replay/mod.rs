//! `unfazed replay`: decides recorded sessions again, by the policy that decided or by another one.

mod human;
mod json;
mod meant;
mod rules;

use std::path::PathBuf;

use crate::replay::{DecisionPart, NotReplayable, Replay, ReplayReport};
use crate::store::SessionId;

use super::exit::{CommandFailure, ExitStatus};
use super::format::OutputFormat;
use super::out;
use super::sessions::SessionFilter;
use super::settings::CliSettings;
use meant::NamedSession;
use rules::{DecidingPolicy, PolicyCache};

/// Decides recorded sessions again, by their policy or by another one, and says where something else is decided
#[derive(clap::Args)]
#[command(after_help = "Examples:
  unfazed replay latest                            # by the policy of its agent file
  unfazed replay 1f0a7c --policy new.yaml          # where a new policy would decide otherwise
  unfazed replay --since 7d --policy new.yaml      # the same of all sessions of a week
  unfazed replay --all --exit-code --format json   # ends with 1 if anything differs
  unfazed replay logs/ --policy policy.yaml        # a folder of sessions of another host
  unfazed replay latest --earlier before.yaml      # the policy before it was changed

A SESSION is the id of a session, the beginning or the end of it, `latest`, a `.jsonl` file, or a folder of them.")]
pub(crate) struct ReplayArgs {
    /// The sessions.
    #[arg(value_name = "SESSION", required_unless_present_any = ["all", "agent", "status", "since", "before"])]
    sessions: Vec<String>,
    /// All sessions there are.
    #[arg(long, conflicts_with = "sessions")]
    all: bool,
    #[command(flatten)]
    filter: SessionFilter,
    /// The folder of the sessions, instead of the one of the settings.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// The policy that decides, in place of the one of the session's agent file: a policy file, several of which are layers
    /// of one policy, or an agent file.
    #[arg(long, value_name = "FILE")]
    policy: Vec<PathBuf>,
    /// A policy that was in effect before the policy of the session was changed: what it decided then, it decides again. A policy
    /// file or an agent file; for each earlier policy once.
    #[arg(long, value_name = "FILE")]
    earlier: Vec<PathBuf>,
    /// The profile that is chosen, in place of the one of the session.
    #[arg(long, value_name = "NAME")]
    profile: Option<String>,
    /// Passes over decisions that differ in nothing but these: `because` (the reasons), `bounds` (how many attempts there are
    /// said to be), `texts` (texts for models and people), `times` (waits and time limits). What another policy decided
    /// is always compared without the first two.
    #[arg(long, value_name = "PARTS", value_delimiter = ',', value_parser = part)]
    ignore: Vec<DecisionPart>,
    /// Ends with 1 if anything differs.
    #[arg(long)]
    exit_code: bool,
    /// How it is printed.
    #[arg(long, value_enum, default_value_t)]
    format: OutputFormat,
}

/// A session, and what came of it.
struct ReplayEntry {
    id: SessionId,
    title: String,
    /// The files of `--earlier` whose policies decided nothing in it.
    idle: Vec<PathBuf>,
    result: Result<ReplayReport, String>,
}

pub(crate) fn run(args: &ReplayArgs, settings: &CliSettings) -> Result<ExitStatus, CommandFailure> {
    let (meant, several) = meant::sessions(args, settings)?;
    if meant.is_empty() {
        out::say("no such sessions\n");
        return Ok(ExitStatus::Nothing);
    }
    let mut rules = PolicyCache::new(&args.policy, &args.earlier, args.profile.as_deref(), settings)?;
    let mut entries = Vec::with_capacity(meant.len());
    for one in meant {
        let result = decide(args, &one, &mut rules);
        if !several && let Err(error) = result {
            return Err(error);
        }
        let (result, idle) = match result {
            Ok((found, idle)) => (Ok(found), idle),
            Err(CommandFailure::Report(_)) => (Err("its policy has mistakes".to_owned()), Vec::new()),
            Err(error) => (Err(error.to_string()), Vec::new()),
        };
        entries.push(ReplayEntry { id: one.id, title: one.title, idle, result });
    }
    match args.format {
        OutputFormat::Human if several => out::styled(&human::table(&entries))?,
        OutputFormat::Human => {
            for entry in &entries {
                out::styled(&human::page(entry))?;
            }
        }
        OutputFormat::Json => out::raw(&format!("{:#}\n", json::document(&entries)))?,
    }
    let unusable = entries.iter().any(|entry| entry.result.is_err());
    let differs = |entry: &ReplayEntry| entry.result.as_ref().is_ok_and(|found| found.divergence().is_some());
    let differs = args.exit_code && entries.iter().any(differs);
    Ok(if unusable || differs { ExitStatus::Problem } else { ExitStatus::Clean })
}

/// What came of a session, and the files of `--earlier` whose policies decided nothing in it.
fn decide(
    args: &ReplayArgs,
    one: &NamedSession,
    rules: &mut PolicyCache<'_>,
) -> Result<(ReplayReport, Vec<PathBuf>), CommandFailure> {
    let stopped = |error: &dyn std::fmt::Display| CommandFailure::Stopped(error.to_string());
    if let Some(damage) = &one.damage {
        return Err(stopped(damage));
    }
    let DecidingPolicy { policy, earlier } = rules.of(one)?;
    let digests: Vec<String> = earlier.iter().map(|policy| policy.digest().to_owned()).collect();
    let records = one.store.read(&one.id).map_err(|error| stopped(&error))?;
    let parts = args.ignore.iter().copied().collect();
    let replay = Replay::new(policy).earlier(earlier).pass_over(parts);
    let found = replay.all(records).map_err(|error| match error {
        // It names the session.
        NotReplayable::Read(error) => stopped(&error),
        NotReplayable::Decide(error) => stopped(&format!("session {}: {error}", one.id)),
    })?;
    let decided = |digest: &String| found.by.iter().any(|(by, _)| by == digest);
    let idle = args.earlier.iter().zip(&digests).filter(|(_, digest)| !decided(digest));
    let idle = idle.map(|(file, _)| file.clone()).collect();
    Ok((found, idle))
}

/// Whether the policy that decided from that event on decides about it again. After the first difference nobody does.
fn decides_again(found: &ReplayReport, policy: &str, from: u64) -> bool {
    let reached = found.divergence().is_none_or(|divergence| divergence.seq >= from);
    reached && (policy == found.policy || found.again.contains(policy))
}

fn part(name: &str) -> Result<DecisionPart, String> {
    name.parse().map_err(|error: crate::replay::UnknownPart| error.to_string())
}
