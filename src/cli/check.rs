//! `unfazed check`: all problems of policy, agent and script files at once.

use std::path::PathBuf;

use clap::ValueEnum;
use unfazed::host::PolicyFiles;
use unfazed::host::scripted::Script;
use unfazed::policy::{Loader, Report};

use super::exit::{self, Exit, Failed};
use super::named::{self, Kind};
use super::{files, out};

/// Checks policy, agent and script files, and the files an agent file names; prints every problem with its place
#[derive(clap::Args)]
#[command(after_help = "Examples:
  unfazed check policy.yaml
  unfazed check policies/ --format short
  unfazed check base.yaml team.yaml --together    # as layers of one policy")]
pub(crate) struct Args {
    /// Files, or folders whose `.yaml` and `.yml` files are checked.
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Takes all policy files as layers of one policy, the later above the earlier.
    #[arg(long)]
    together: bool,
    /// Checks policies with that profile only; all profiles are checked without it.
    #[arg(long, value_name = "NAME")]
    profile: Option<String>,
    /// How problems are printed.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    /// Counts warnings as problems.
    #[arg(long)]
    deny_warnings: bool,
    /// The most problems that are printed of each file or policy, errors before warnings.
    #[arg(long, value_name = "N", default_value_t = 100)]
    max_errors: usize,
}

/// How problems are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// With the lines they stand in, for people.
    #[default]
    Human,
    /// One line each.
    Short,
    /// One JSON document for all.
    Json,
}

pub(crate) fn run(args: &Args) -> Result<Exit, Failed> {
    let (paths, mut unreadable) = files::expand(&args.paths);
    let mut policies = Vec::new();
    let mut reports = Vec::new();
    for path in &paths {
        let bytes = match files::read(path) {
            Ok(bytes) => bytes,
            Err(error) => {
                unreadable.push(error);
                continue;
            }
        };
        let name = path.display().to_string();
        match named::kind(&bytes) {
            Kind::Agent => reports.extend(named::read(path, &bytes, &loader(args)).1),
            Kind::Script => reports.extend(Script::from_yaml(&name, &bytes).err()),
            Kind::Test => reports.extend(super::test::problems(&name, &bytes)),
            Kind::Policy if args.together => policies.push((name, bytes)),
            Kind::Policy => reports.extend(policy(args, vec![(name, bytes)])),
        }
    }
    if !policies.is_empty() {
        reports.extend(policy(args, policies));
    }
    let reports: Vec<_> =
        named::once(reports).into_iter().map(|report| report.at_most(args.max_errors)).collect();
    let errors = reports.iter().any(Report::has_errors);
    let warnings = reports.iter().any(|report| !report.is_empty());
    if !paths.is_empty() {
        print(&reports, args.format)?;
    }
    for error in &unreadable {
        exit::tell(error);
    }
    if !unreadable.is_empty() {
        return Ok(Exit::Usage);
    }
    if paths.is_empty() {
        out::say("nothing to check: there are no .yaml or .yml files there\n");
        return Ok(Exit::Nothing);
    }
    if args.format == Format::Human && !warnings {
        out::styled(&format!("{} file(s) checked, no problems\n", paths.len()))?;
    }
    Ok(if errors || (warnings && args.deny_warnings) { Exit::Problem } else { Exit::Clean })
}

/// Prints reports the way the user wants them.
fn print(reports: &[Report], format: Format) -> Result<(), Failed> {
    let mut text = String::new();
    match format {
        Format::Human => reports.iter().for_each(|report| text.push_str(&report.human(true))),
        Format::Short => {
            for report in reports {
                text.push_str(&report.to_string());
                text.push('\n');
            }
        }
        Format::Json => {
            let all: Vec<_> = reports.iter().map(Report::to_json).collect();
            return out::raw(&format!("{}\n", serde_json::json!({ "version": 1, "reports": all })));
        }
    }
    out::styled(&text)
}

/// Without a choice every profile is checked.
fn loader(args: &Args) -> Loader {
    match &args.profile {
        Some(name) => Loader::new().profile(name),
        None => Loader::new().every_profile(),
    }
}

fn policy(args: &Args, sources: Vec<(String, Vec<u8>)>) -> Option<Report> {
    match PolicyFiles::new().load_named(&loader(args), sources) {
        Ok(policy) => policy.warnings().cloned(),
        Err(report) => Some(report),
    }
}
