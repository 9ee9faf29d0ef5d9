//! `unfazed simulate`: what policies make of failures, before there are any: of one call or turn, and of many agents.

mod json;
mod plot;
mod progress;
mod spread;
mod story;
mod subject;
mod table;

use core::num::NonZeroU32;
use std::path::{Path, PathBuf};

use crate::policy::{Effect, Policy};
use crate::simulate::{Scenario, SimulationFigures};

use super::exit::{CommandFailure, ExitStatus};
use super::format::OutputFormat;
use super::settings::CliSettings;
use super::text::one_line;
use super::{files, named, out, policies};
pub(crate) use progress::PlayProgress;
use spread::SeedFigures;
use subject::NamedPolicy;

/// Plays what may happen under policies: one call or turn with given outcomes, or many agents that share models and tools
/// that fail; in virtual time, the same for the same seed
#[derive(clap::Args)]
#[command(after_help = "Examples:
  unfazed simulate policy.yaml --tool search --outcomes 'timeout x2, ok' --effect read_only
  unfazed simulate --model main --model spare --outcomes '429 retry-after 3, overloaded x9'
  unfazed simulate old.yaml new.yaml --scenario outage.yaml
  unfazed simulate builtin:default policy.yaml --scenario outage.yaml --plot outage.svg
  unfazed simulate old.yaml new.yaml --scenario outage.yaml --runs 10 --seeds 30
  unfazed simulate base.yaml+team.yaml --scenario outage.yaml --seed 7 --format json

A POLICY is a file, an agent file, `builtin:default`, or `builtin:presets/NAME`; `base.yaml+team.yaml` are layers of one
policy, the later above the earlier. Several are played side by side. docs/simulate.md describes scenarios.")]
pub(crate) struct SimulateArgs {
    /// The policies; the built-in one without any.
    #[arg(value_name = "POLICY")]
    policies: Vec<String>,
    /// The tool that is called once.
    #[arg(long, value_name = "NAME", requires = "outcomes", conflicts_with_all = ["model", "scenario"])]
    tool: Option<String>,
    /// The model that is asked in one turn; several, in order of preference, if it is given more than once.
    #[arg(long, value_name = "NAME", requires = "outcomes", conflicts_with = "scenario")]
    model: Vec<String>,
    /// How the attempts end, in order; the last one again and again: `ok`, a class or an HTTP status, and what `unfazed
    /// test` takes besides (`429 retry-after 3`, `timeout takes 2s x3`).
    #[arg(long, value_name = "LIST", conflicts_with = "scenario")]
    outcomes: Option<String>,
    /// What the tool itself says a run does to the world.
    #[arg(long, value_name = "EFFECT", requires = "tool", conflicts_with_all = ["model", "scenario"], value_parser = effect)]
    effect: Option<Effect>,
    /// The arguments the tool is called with, as JSON.
    #[arg(long, value_name = "JSON", requires = "tool", conflicts_with_all = ["model", "scenario"], value_parser = json)]
    arguments: Option<serde_json::Value>,
    /// What many agents meet: a scenario file. Several are played one after the other.
    #[arg(long, value_name = "FILE")]
    scenario: Vec<PathBuf>,
    /// The seed of all that is left to chance, instead of the scenario's; 1 for one call or turn.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// So many seeds, from `--seed` or the scenario's on: the table has means, and how far they may be off.
    #[arg(long, value_name = "N", requires = "scenario", conflicts_with_all = ["outcomes", "plot"], value_parser = clap::value_parser!(u32).range(2..=10_000))]
    seeds: Option<u32>,
    /// So many runs of each agent, however long they take, instead of all that begin within `duration`: every policy has the same
    /// number of runs.
    #[arg(long, value_name = "N", requires = "scenario", conflicts_with = "outcomes")]
    runs: Option<NonZeroU32>,
    /// How many agents there are, instead of the scenario's number.
    #[arg(long, value_name = "N", requires = "scenario", conflicts_with = "outcomes", value_parser = clap::value_parser!(u32).range(1..=i64::from(Scenario::MOST_AGENTS)))]
    agents: Option<u32>,
    /// Writes a plot of success and load over time into this file, as SVG.
    #[arg(long, value_name = "FILE", requires = "scenario", conflicts_with = "outcomes")]
    plot: Option<PathBuf>,
    /// The profile of the policies that is chosen.
    #[arg(long, value_name = "NAME")]
    profile: Option<String>,
    /// How it is printed.
    #[arg(long, value_enum, default_value_t)]
    format: OutputFormat,
}

/// A scenario, and what it came to under each policy.
struct PlayedScenario {
    scenario: Scenario,
    results: Vec<(String, SimulationFigures)>,
    /// With several seeds, what each policy came to over all of them; `results` has the first.
    spread: Vec<(String, SeedFigures)>,
}

pub(crate) fn run(args: &SimulateArgs, settings: &CliSettings) -> Result<ExitStatus, CommandFailure> {
    let subjects = subject::load(args, settings)?;
    if let Some(outcomes) = &args.outcomes {
        return story::run(args, &subjects, outcomes);
    }
    if args.scenario.is_empty() {
        return Err(CommandFailure::Usage(
            "say what happens: `--tool NAME --outcomes 'timeout x2, ok'`, `--model NAME --outcomes …` or `--scenario FILE`"
                .into(),
        ));
    }
    if args.plot.is_some() && args.scenario.len() > 1 {
        return Err(CommandFailure::Usage("a plot is of one scenario; give one `--scenario`".into()));
    }
    let all: Vec<PlayedScenario> =
        args.scenario.iter().map(|path| play(args, path, &subjects)).collect::<Result<_, _>>()?;
    if let (Some(path), Some(played)) = (&args.plot, all.first()) {
        let what = format!("cannot write {}", path.display());
        std::fs::write(path, plot::svg(played)).map_err(|error| CommandFailure::io(what, error))?;
    }
    match args.format {
        OutputFormat::Human => out::styled(&all.iter().map(table::table).collect::<Vec<_>>().join("\n"))?,
        OutputFormat::Json => out::raw(&format!("{:#}\n", json::document(&all)))?,
    }
    Ok(ExitStatus::Clean)
}

fn play(
    args: &SimulateArgs,
    path: &Path,
    subjects: &[NamedPolicy],
) -> Result<PlayedScenario, CommandFailure> {
    let name = path.display().to_string();
    let bytes = files::read(path)?;
    let scenario = Scenario::read(&name, &bytes).map_err(|report| {
        if !named::is_policy(path, &bytes) {
            return policies::reported(&[report]);
        }
        let message =
            "is a policy; give it as POLICY, and a scenario with --scenario; docs/simulate.md has one";
        CommandFailure::Usage(format!("{name} {message}"))
    })?;
    let scenario = match args.seed {
        Some(seed) => scenario.with_seed(seed),
        None => scenario,
    };
    let scenario = match args.agents {
        Some(agents) => scenario.with_agents(agents),
        None => scenario,
    };
    let scenario = match args.runs {
        Some(runs) => scenario.with_runs(runs),
        None => scenario,
    };
    let (mut results, mut spread) = (Vec::with_capacity(subjects.len()), Vec::new());
    for NamedPolicy { name: policy, policy: rules } in subjects {
        fits(&scenario, policy, rules)?;
        let mut over_seeds = Vec::new();
        for seed in (scenario.seed()..).take(args.seeds.unwrap_or(1) as usize) {
            let mut progress = PlayProgress::start();
            let seeded = scenario.clone().with_seed(seed);
            let figures = seeded
                .play_telling(rules, |over| progress.told(&name, policy, over))
                .map_err(|error| CommandFailure::Stopped(format!("{name} under {policy}: {error}")))?;
            over_seeds.push(figures);
        }
        if args.seeds.is_some() {
            spread.push((policy.clone(), SeedFigures::of(&over_seeds)));
        }
        results.extend(over_seeds.into_iter().next().map(|figures| (policy.clone(), figures)));
    }
    Ok(PlayedScenario { scenario, results, spread })
}

/// Whether the prices that a policy counts are known. Says so if no report of the scenario is one by the policy: then that is
/// why runs fail, and not what they meet.
pub(crate) fn fits(scenario: &Scenario, policy: &str, rules: &Policy) -> Result<(), CommandFailure> {
    scenario.prices(rules).map_err(|error| CommandFailure::Stopped(error.to_string()))?;
    let problems = scenario.problems_of_report(rules);
    let Some(problem) = problems.first() else { return Ok(()) };
    let place = if problem.pointer.is_empty() { String::new() } else { format!("{}: ", problem.pointer) };
    out::say(&format!(
        "warning: the report of {} does not hold by the `output` of {}, so every run fails: {place}{}\n  \
         = help: write one that holds, as `work: {{report: …}}`\n",
        one_line(scenario.name()),
        one_line(policy),
        one_line(&problem.message),
    ));
    Ok(())
}

fn json(text: &str) -> Result<serde_json::Value, String> {
    serde_json::from_str(text)
        .map_err(|error| format!("not JSON: {error}; write such as '{{\"query\": \"tea\"}}'"))
}

fn effect(word: &str) -> Result<Effect, String> {
    serde_json::from_value(word.into())
        .map_err(|_| "write `read_only`, `idempotent`, `non_idempotent` or `unknown`".to_owned())
}
