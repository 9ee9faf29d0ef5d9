//! `unfazed check`: all problems of policy, agent and script files at once, and what their policies hardly mean.

mod github;
mod sarif;

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use clap::builder::RangedU64ValueParser;
use unfazed::context::ModelCatalogue;
use unfazed::engine::ToolSpec;
use unfazed::host::PolicyFiles;
use unfazed::host::scripted::Script;
use unfazed::host::tools_file::ToolsFile;
use unfazed::policy::{CallFile, Effect, KnownTool, LintOptions, Loader, Report};
use unfazed::simulate::Scenario;

use super::exit::{self, Exit, Failed};
use super::named::{self, Kind, Named};
use super::{files, out, policies};

/// Checks policy, agent, script, test and scenario files, and the files an agent file names; prints every problem with its place
#[derive(clap::Args)]
#[command(after_help = "Examples:
  unfazed check policy.yaml
  unfazed check policies/ --deny-warnings --format github
  unfazed check policy.yaml --tools tools.json
  unfazed check base.yaml team.yaml --together    # as layers of one policy

`unfazed rule` lists everything that is looked for. A comment keeps a warning quiet:
  # unfazed: ignore[W0205] why it is meant")]
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
    /// The host's tools and models, as JSON: their names, effects, arguments and own retries.
    #[arg(long, value_name = "FILE")]
    tools: Option<PathBuf>,
    /// The most attempts that one call may lead to, over all layers (W0202).
    #[arg(long, value_name = "N", default_value_t = LintOptions::MOST_ATTEMPTS, value_parser = clap::value_parser!(u32).range(1..))]
    most_attempts: u32,
    /// How problems are printed.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    /// Counts warnings as problems.
    #[arg(long)]
    deny_warnings: bool,
    /// The most problems that are printed of each file or policy, errors before warnings.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = RangedU64ValueParser::<usize>::new().range(1..))]
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
    /// SARIF 2.1.0, for code scanning. The exit code is 0 whatever is found.
    Sarif,
    /// Annotations of GitHub Actions.
    Github,
}

pub(crate) fn run(args: &Args) -> Result<Exit, Failed> {
    let (paths, mut unreadable) = files::expand(&args.paths);
    let mut checked: HashSet<PathBuf> = paths.iter().map(|path| files::one(path)).collect();
    let mut policies = Vec::new();
    let mut reports = Vec::new();
    let options = match &args.tools {
        Some(path) => known(path, &mut reports)?,
        None => LintOptions::default(),
    };
    let options = LintOptions { most_attempts: args.most_attempts, ..options };
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
            Kind::Agent => {
                let (named, found) = named::read(path, &bytes, &loader(args, &options));
                reports.extend(found);
                if let Some(named) = named {
                    checked.extend(named.paths(path).iter().map(|path| files::one(path)));
                    reports.push(lint(&named, path, options.clone()));
                }
            }
            Kind::Script => reports.extend(Script::from_yaml(&name, &bytes).err()),
            Kind::Call => reports.extend(CallFile::read(&name, &bytes).err()),
            Kind::Models => reports.extend(ModelCatalogue::read(&name, &bytes).err()),
            Kind::Scenario => reports.extend(Scenario::read(&name, &bytes).err()),
            Kind::Test => reports.extend(super::test::problems(&name, &bytes)),
            Kind::Policy if args.together => policies.push((name, bytes)),
            Kind::Policy => reports.extend(policy(args, &options, vec![(name, bytes)])),
        }
    }
    if !policies.is_empty() {
        reports.extend(policy(args, &options, policies));
    }
    let reports: Vec<_> =
        named::once(reports).into_iter().map(|report| report.at_most(args.max_errors)).collect();
    let errors = reports.iter().any(Report::has_errors);
    let warnings = reports.iter().any(|report| !report.is_empty());
    print(&reports, &unreadable, args.format)?;
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
        let (count, plural) = (checked.len(), if checked.len() == 1 { "" } else { "s" });
        out::styled(&format!("{count} file{plural} checked, no problems\n"))?;
    }
    let problem = errors || (warnings && args.deny_warnings);
    // Those who read SARIF take another exit code for a check that did not work.
    Ok(if problem && args.format != Format::Sarif { Exit::Problem } else { Exit::Clean })
}

/// Prints reports the way the user wants them. What could not be read is told to people elsewhere.
fn print(reports: &[Report], unread: &[Failed], format: Format) -> Result<(), Failed> {
    let mut text = String::new();
    match format {
        Format::Human => {
            text.extend(reports.iter().map(|report| report.human(true)));
            let first = reports.iter().find_map(|report| report.diagnostics().first());
            text.extend(first.map(|first| format!("`unfazed rule {}` says more\n", first.code)));
        }
        Format::Short => {
            for report in reports {
                text.push_str(&report.to_string());
                text.push('\n');
            }
        }
        Format::Json => {
            return out::raw(&format!("{}\n", policies::document(reports, unread)));
        }
        Format::Sarif => return out::raw(&format!("{:#}\n", sarif::log(reports))),
        Format::Github => return out::raw(&github::commands(reports)),
    }
    out::styled(&text)
}

/// Without a choice every profile is checked.
fn loader(args: &Args, options: &LintOptions) -> Loader {
    let loader = Loader::new().with_lints(options.clone());
    match &args.profile {
        Some(name) => loader.profile(name).profile_from("`--profile`"),
        None => loader.every_profile(),
    }
}

/// What the policy of an agent hardly means. Unless servers bring further tools, the file tells which there are.
fn lint(named: &Named, path: &Path, mut options: LintOptions) -> Report {
    if named.file.value.mcp.is_empty() {
        let tools = super::run::tools(&named.file.value, path.parent().unwrap_or(Path::new("")));
        let known = |tool: &ToolSpec| KnownTool {
            name: tool.name.clone(),
            effect: tool.effect.unwrap_or(Effect::Unknown),
            inner_retries: 0,
            arguments: None,
        };
        options.witnesses = Some(tools.iter().map(|tool| known(tool.spec())).collect());
    }
    named.policy.lint(&options)
}

/// What is wrong with a policy, or what it hardly means.
fn policy(args: &Args, options: &LintOptions, sources: Vec<(String, Vec<u8>)>) -> Vec<Report> {
    match PolicyFiles::new().load_named(&loader(args, options), sources) {
        Ok(policy) => policy.warnings().cloned().into_iter().chain([policy.lint(options)]).collect(),
        Err(report) => vec![report],
    }
}

/// What the host has. Mistakes in the file are reported with all others, and nothing is known then.
fn known(path: &Path, reports: &mut Vec<Report>) -> Result<LintOptions, Failed> {
    let bytes = files::read(path)?;
    Ok(match ToolsFile::read(&path.display().to_string(), &bytes) {
        Ok(file) => file.value.lint_options(),
        Err(report) => {
            reports.push(report);
            LintOptions::default()
        }
    })
}
