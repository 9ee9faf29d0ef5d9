//! `unfazed tune`: better values for keys of a policy, found by simulation.

mod json;
mod plot;
mod recorded;
mod table;
mod words;
mod written;

use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};

use crate::policy::{Loader, Policy};
use crate::simulate::Scenario;
use crate::text::{Code, Diagnostic, Problems, Report, Sources, Span};
use crate::tune::{
    PlayLedger, RangeError, SearchSize, TuneError, TuneObjective, TuneResult, TuneScenario, TuneSearch,
    TuneSubject, TunedFigure, TunedKey, TunedPoint,
};

use super::exit::{CommandFailure, ExitStatus};
use super::format::OutputFormat;
use super::settings::CliSettings;
use super::simulate::PlayProgress;
use super::{files, named, out, policies, simulate};

/// Searches better values for keys of a policy by playing scenarios under it, and writes the best ones as a policy
#[derive(clap::Args)]
#[command(after_help = "Examples:
  unfazed tune policy.yaml --scenario outage.yaml --vary 'models.*.retry.max_attempts=2..16'
  unfazed tune policy.yaml --scenario a.yaml --scenario b.yaml --hold-out c.yaml \\
      --vary 'models.*.retry.backoff.cap=1s..1m' --vary 'turn.targets.fallback=rotate|exhausted' \\
      --objective success,p99 --write tuned.yaml --plot frontier.svg

A range is LOW..HIGH of whole numbers, durations or fractions, or the values themselves, between `|`. Exit code 3: no
better values were found. docs/tune.md describes the search.")]
pub(crate) struct TuneArgs {
    /// The policy, as in `unfazed simulate`: a file, `base.yaml+team.yaml`, or what ships with the product.
    #[arg(value_name = "POLICY")]
    policy: String,
    /// What the policy meets: a scenario file. Several count together, the worst one first.
    #[arg(long, value_name = "FILE", required_unless_present = "from")]
    scenario: Vec<PathBuf>,
    /// A folder with recorded sessions: what they met is one more scenario.
    #[arg(long, value_name = "DIR")]
    from: Option<PathBuf>,
    /// Writes the scenario of the recorded sessions into this file.
    #[arg(long, value_name = "FILE", requires = "from")]
    write_scenario: Option<PathBuf>,
    /// A key and the values that are tried: `models.*.retry.max_attempts=2..16`.
    #[arg(long, value_name = "KEY=RANGE", required = true)]
    vary: Vec<String>,
    /// What counts, the most important first; what is left out does not count.
    #[arg(
        long,
        value_name = "LIST",
        value_enum,
        value_delimiter = ',',
        default_value = "success,goodput,calls,p99"
    )]
    objective: Vec<TunedFigure>,
    /// A scenario that the search does not see; the policy and the chosen point are played under it afterwards.
    #[arg(long, value_name = "FILE")]
    hold_out: Vec<PathBuf>,
    /// How many points are tried first; their children are as many again.
    #[arg(long, value_name = "N", default_value_t = 48, value_parser = clap::value_parser!(u32).range(2..=2_000))]
    points: u32,
    /// How many seeds the last round has.
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(2..=1_000))]
    seeds: u32,
    /// The seed of the search.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Keeps every play in this file, and takes those that are in it already: a search that was stopped continues.
    #[arg(long, value_name = "FILE")]
    resume: Option<PathBuf>,
    /// Writes the chosen point into this file, as a policy with comments.
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,
    /// Writes a plot of the frontier into this file, as SVG.
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    /// The profile of the policy that is chosen.
    #[arg(long, value_name = "NAME")]
    profile: Option<String>,
    /// How it is printed.
    #[arg(long, value_enum, default_value_t)]
    format: OutputFormat,
}

/// A search, what it came to, and how both policies do where it did not look.
struct TunedPolicy<'a, 's> {
    args: &'a TuneArgs,
    subject: &'a TuneSubject<'s>,
    objective: TuneObjective,
    scenarios: &'a [TuneScenario],
    result: TuneResult,
    /// The scenarios held out: the policy, then the chosen point.
    held_out: Vec<(String, [crate::tune::PointMeasure; 2])>,
}

/// The width of the bar.
const BAR: usize = 20;

pub(crate) fn run(args: &TuneArgs, settings: &CliSettings) -> Result<ExitStatus, CommandFailure> {
    let loader = named::chosen(args.profile.as_deref(), settings);
    let layers = policies::layers(&args.policy);
    let sources = policies::sources(&layers)?;
    let load = |layer: Option<&str>| load(&loader, &sources, layer);
    let base = load(None).map_err(|report| policies::reported(&[report]))?;
    let keys = keys(&args.vary)?;
    let subject = TuneSubject::new(base, keys, |layer| load(Some(layer)));
    let wrong = (0..args.vary.len()).filter_map(|key| subject.problem(key).map(|found| (key, found)));
    let wrong: Vec<Report> =
        wrong.map(|(key, (value, report))| refused(args, &subject, key, value, &report)).collect();
    if !wrong.is_empty() {
        return Err(policies::reported(&wrong));
    }
    let (mut scenarios, held_out) = (scenarios(&args.scenario)?, scenarios(&args.hold_out)?);
    if let Some(folder) = &args.from {
        let text = recorded::scenario(folder, &subject.base)?;
        if let Some(path) = &args.write_scenario {
            save(path, &text)?;
        }
        let scenario = Scenario::read(&folder.display().to_string(), text.as_bytes());
        let scenario = scenario.map_err(|report| policies::reported(&[report]))?;
        scenarios.push(TuneScenario::new(scenario, text.as_bytes()));
    }
    for scenario in scenarios.iter().chain(&held_out) {
        simulate::fits(&scenario.scenario, &args.policy, &subject.base)?;
    }
    let tuned = search(args, &subject, &scenarios, &held_out)?;
    if let Some(path) = &args.plot {
        save(path, &plot::svg(&tuned))?;
    }
    if let (Some(path), Some(point)) = (&args.write, tuned.chosen()) {
        save(path, &written::policy(&tuned, point, path, &layers))?;
    }
    match args.format {
        OutputFormat::Human => out::styled(&table::page(&tuned))?,
        OutputFormat::Json => out::raw(&format!("{:#}\n", json::document(&tuned)))?,
    }
    Ok(if tuned.chosen().is_some() { ExitStatus::Clean } else { ExitStatus::Nothing })
}

/// The policy with one more layer above it.
fn load(loader: &Loader, sources: &[(String, Vec<u8>)], layer: Option<&str>) -> Result<Policy, Report> {
    let above = layer.map(|layer| ("--vary".to_owned(), layer.as_bytes().to_vec()));
    crate::host::PolicyFiles::new().load_named(loader, sources.iter().cloned().chain(above).collect())
}

fn keys(vary: &[String]) -> Result<Vec<TunedKey>, CommandFailure> {
    let (mut keys, mut wrong): (Vec<TunedKey>, Vec<Report>) = (Vec::new(), Vec::new());
    for text in vary {
        let known = |key: &TunedKey| keys.iter().any(|known| known.name == key.name);
        match TunedKey::read(text) {
            Ok(key) if known(&key) => wrong.push(at_vary(
                text,
                &RangeError {
                    from: 0,
                    to: key.name.len(),
                    message: format!("`{}` is varied twice", key.name),
                    help: "give all its values in one `--vary`",
                },
                Code::DUPLICATE_KEY,
            )),
            Ok(key) => keys.push(key),
            Err(error) => wrong.push(at_vary(text, &error, Code::WRONG_TYPE)),
        }
    }
    if wrong.is_empty() { Ok(keys) } else { Err(policies::reported(&wrong)) }
}

/// What is wrong with a `--vary`, at its place in it.
fn at_vary(text: &str, error: &RangeError, code: Code) -> Report {
    let mut sources = Sources::new();
    let source = sources.add("--vary", text);
    let place = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
    let span = Span::new(source, place(error.from), place(error.to));
    let mut problems = Problems::default();
    problems.push(Diagnostic::error(code, span, error.message.clone()).help(error.help));
    problems.into_report(sources)
}

/// What the policy says of a value of a key, at the key or at the range.
fn refused(args: &TuneArgs, subject: &TuneSubject<'_>, key: usize, value: usize, report: &Report) -> Report {
    let (text, tuned) = (&args.vary[key], &subject.keys[key]);
    let mut sources = Sources::new();
    let source = sources.add("--vary", text.as_str());
    let place = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
    let range = place(text.find('=').map_or(0, |at| at + 1));
    let mut problems = Problems::default();
    for found in report.diagnostics() {
        let is_key = found.code == Code::UNKNOWN_FIELD;
        let span = if is_key {
            Span::new(source, 0, range.saturating_sub(1))
        } else {
            Span::new(source, range, place(text.len()))
        };
        let value = &tuned.values[value];
        let message = if is_key || found.message.contains(value.as_str()) {
            found.message.clone()
        } else {
            format!("`{value}`: {}", found.message)
        };
        let problem = Diagnostic::error(found.code, span, message).help_if(found.help.first().cloned());
        problems.push(match &found.label {
            Some(label) => problem.label(label.clone()),
            None => problem,
        });
    }
    problems.into_report(sources)
}

fn scenarios(paths: &[PathBuf]) -> Result<Vec<TuneScenario>, CommandFailure> {
    let read = |path: &PathBuf| {
        let bytes = files::read(path)?;
        let scenario = Scenario::read(&path.display().to_string(), &bytes);
        let scenario = scenario.map_err(|report| policies::reported(&[report]))?;
        Ok(TuneScenario::new(scenario, &bytes))
    };
    paths.iter().map(read).collect()
}

fn search<'a, 's>(
    args: &'a TuneArgs,
    subject: &'a TuneSubject<'s>,
    scenarios: &'a [TuneScenario],
    held_out: &[TuneScenario],
) -> Result<TunedPolicy<'a, 's>, CommandFailure> {
    let mut shown = PlayProgress::start();
    let size = SearchSize { points: args.points, seeds: args.seeds, seed: args.seed };
    let all = size.plays(scenarios.len(), subject.keys.len());
    let plays = PlayLedger::new(move |done| shown.say(|| progress(done, all)));
    let mut plays = match &args.resume {
        Some(path) => kept_in(plays, path)?,
        None => plays,
    };
    let objective = TuneObjective::new(&args.objective);
    let search = TuneSearch { subject, scenarios, objective: &objective, size };
    let stopped = |error: TuneError| CommandFailure::Stopped(error.to_string());
    let result = search.run(&mut plays).map_err(stopped)?;
    let mut held = Vec::new();
    if let Some(point) = result.chosen.as_ref().and_then(|chosen| result.frontier.get(chosen.at)) {
        for scenario in held_out {
            let name = scenario.scenario.name().to_owned();
            held.push((name, search.compare(&mut plays, point, scenario).map_err(stopped)?));
        }
    }
    drop(plays);
    Ok(TunedPolicy { args, subject, objective, scenarios, result, held_out: held })
}

/// The ledger with what a file keeps, and new plays kept there.
fn kept_in<'a>(plays: PlayLedger<'a>, path: &Path) -> Result<PlayLedger<'a>, CommandFailure> {
    let cannot = |what: &str, error| CommandFailure::io(format!("cannot {what} {}", path.display()), error);
    let known = match fs::read_to_string(path) {
        Ok(known) => known,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(cannot("read", error)),
    };
    let file = OpenOptions::new().create(true).append(true).open(path);
    let mut file = file.map_err(|error| cannot("write", error))?;
    // A line that was cut off is not continued.
    if !known.is_empty() && !known.ends_with('\n') {
        std::io::Write::write_all(&mut file, b"\n").map_err(|error| cannot("write", error))?;
    }
    Ok(plays.kept_in(&known, file))
}

fn save(path: &Path, text: &str) -> Result<(), CommandFailure> {
    fs::write(path, text)
        .map_err(|error| CommandFailure::io(format!("cannot write {}", path.display()), error))
}

impl TunedPolicy<'_, '_> {
    /// The point that is recommended, if any is better than the policy as it is.
    fn chosen(&self) -> Option<&TunedPoint> {
        self.result.frontier.get(self.result.chosen.as_ref()?.at)
    }

    /// The values of a point, by the names of their keys.
    fn values<'p>(&'p self, point: &'p TunedPoint) -> impl Iterator<Item = (&'p TunedKey, &'p str)> {
        let set = self.subject.keys.iter().zip(&point.point);
        set.filter_map(|(key, value)| Some((key, key.values.get((*value)?)?.as_str())))
    }
}

/// A bar of how many plays are over, of about so many.
fn progress(done: usize, all: usize) -> String {
    // A search that takes longer than expected is nearly over until it is.
    let full = (done * BAR / all.max(1)).min(BAR - 1);
    format!("[{}{}] {done} of about {} plays", "#".repeat(full), "-".repeat(BAR - full), all.max(done))
}

#[cfg(test)]
mod tests {
    use super::progress;

    #[test]
    fn the_bar_is_never_full_while_something_is_played() {
        assert_eq!(progress(50, 200), "[#####---------------] 50 of about 200 plays");
        assert_eq!(progress(300, 200), "[###################-] 300 of about 300 plays");
    }
}
