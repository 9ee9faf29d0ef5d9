//! `unfazed check`: all problems of policy, agent and script files at once, and the likely mistakes of their policies.

mod agents;
mod fix;
mod github;
mod sarif;
mod unified;

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use crate::analysis::{CallFile, KnownTool, LintOptions};
use crate::context::ModelCatalogue;
use crate::engine::ToolSpec;
use crate::host::PolicyFiles;
use crate::host::agent_file::{AgentFile, NamedAgent, tls_report};
use crate::host::scripted::Script;
use crate::policy::{Effect, Loader};
use crate::simulate::Scenario;
use crate::text::{GivenHelps, Report};
use clap::ValueEnum;
use clap::builder::RangedU64ValueParser;

use self::agents::CheckedAgents;
use self::fix::FixedFile;
use super::exit::{CommandFailure, ExitStatus};
use super::named::{self, FileKind};
use super::run::ToolIssue;
use super::{files, out, policies};

/// So many codes are named.
const MOST_CODES: usize = 8;

/// Checks policy, agent, script, test and scenario files, and the files an agent file names; prints every problem with its place
#[derive(clap::Args)]
#[command(after_help = "Examples:
  unfazed check policy.yaml
  unfazed check policies/ --deny-warnings --format github
  unfazed check policy.yaml --tools tools.json
  unfazed check base.yaml team.yaml --together    # as layers of one policy
  unfazed check policies/ --fix           # repairs what can be meant in one way only
  unfazed check policies/ --fix --diff    # shows the repairs, and writes nothing

`unfazed rule` lists everything that is looked for. A comment keeps a warning quiet:
  # unfazed: ignore[W0205] why it is meant

Exit codes:
  0    no problem, or none is left after --fix; warnings are none without --deny-warnings
  1    a problem; with --diff: something to repair, or an error that is left
  2    the command was not understood, or a file cannot be read or written
  3    there is nothing to check")]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub(crate) struct CheckArgs {
    /// Files, or folders whose `.yaml` and `.yml` files are checked.
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Takes all policy files as layers of one policy, the later above the earlier.
    #[arg(long)]
    together: bool,
    /// Checks policies with that profile only; all profiles are checked without it.
    #[arg(long, value_name = "NAME")]
    profile: Option<String>,
    /// The host's tools and models, as JSON: their names, effects, arguments and own retries; or what `unfazed tools AGENT
    /// --format json` prints.
    #[arg(long, value_name = "FILE")]
    tools: Option<PathBuf>,
    /// The most attempts that one call may lead to, over all layers (W0202).
    #[arg(long, value_name = "N", default_value_t = LintOptions::MOST_ATTEMPTS, value_parser = clap::value_parser!(u32).range(1..))]
    most_attempts: u32,
    /// Repairs what can be meant in one way only, in the files themselves. Comments, layout and every other value stay.
    #[arg(long)]
    fix: bool,
    /// Prints the repairs as a unified diff, and writes nothing.
    #[arg(long)]
    diff: bool,
    /// How problems are printed.
    #[arg(long, value_enum, default_value_t)]
    format: ProblemFormat,
    /// Counts warnings as problems.
    #[arg(long)]
    deny_warnings: bool,
    /// The most problems that are printed of each file or policy, errors before warnings.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = RangedU64ValueParser::<usize>::new().range(1..))]
    max_errors: usize,
}

/// How problems are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProblemFormat {
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

pub(crate) fn run(args: &CheckArgs) -> Result<ExitStatus, CommandFailure> {
    let (paths, mut unreadable) = files::expand(&args.paths);
    let mut seen: HashSet<PathBuf> = paths.iter().map(|path| files::one(path)).collect();
    let mut policies = Vec::new();
    let mut reports = Vec::new();
    let options = match &args.tools {
        Some(path) => known(path, &mut reports)?,
        None => LintOptions::default(),
    };
    let options = LintOptions { most_attempts: args.most_attempts, ..options };
    let agents = CheckedAgents::among(&paths);
    let checker = FileChecker { args, options: &options, agents: &agents };
    let repaired = if args.fix || args.diff { fix::repair(&paths, &checker) } else { Vec::new() };
    if args.diff {
        return checker.preview(&paths, &repaired);
    }
    for fixed in &repaired {
        fixed.write()?;
        out::say(&format!("repaired {}: {}\n", fixed.name(), counted(fixed.count(), "problem")));
    }
    for path in &paths {
        let bytes = match files::read(path) {
            Ok(bytes) => bytes,
            Err(error) => {
                unreadable.push(error);
                continue;
            }
        };
        if args.together && named::kind(&bytes) == FileKind::Policy {
            policies.push((path.display().to_string(), bytes));
            continue;
        }
        let (found, named) = checker.look(path, &bytes);
        seen.extend(named);
        reports.extend(found);
    }
    if !policies.is_empty() {
        reports.extend(checker.policy(policies));
    }
    let reports: Vec<_> =
        named::once(reports).into_iter().map(|report| report.at_most(args.max_errors)).collect();
    let errors = reports.iter().any(Report::has_errors);
    let warnings = reports.iter().any(|report| !report.is_empty());
    print(&reports, &unreadable, args.format)?;
    for error in &unreadable {
        out::tell(error);
    }
    if !unreadable.is_empty() {
        return Ok(ExitStatus::Usage);
    }
    if paths.is_empty() {
        out::say("nothing to check: there are no .yaml or .yml files there\n");
        return Ok(ExitStatus::Nothing);
    }
    if args.format == ProblemFormat::Human && !warnings {
        let (count, plural) = (seen.len(), if seen.len() == 1 { "" } else { "s" });
        out::styled(&format!("{count} file{plural} checked, no problems\n"))?;
    }
    let problem = errors || (warnings && args.deny_warnings);
    // Those who read SARIF take another exit code for a check that did not work.
    Ok(if problem && args.format != ProblemFormat::Sarif { ExitStatus::Problem } else { ExitStatus::Clean })
}

/// What is looked for, and what is known.
struct FileChecker<'c> {
    args: &'c CheckArgs,
    options: &'c LintOptions,
    agents: &'c CheckedAgents,
}

impl FileChecker<'_> {
    /// The mistakes, and the likely ones, in a file and those it names; with the files it names.
    fn look(&self, path: &Path, bytes: &[u8]) -> (Vec<Report>, Vec<PathBuf>) {
        let name = path.display().to_string();
        let found = match named::kind(bytes) {
            FileKind::Agent => {
                let (named, mut found) = NamedAgent::read(path, bytes, &self.loader());
                let Some(named) = named else { return (self.mistaken(path, bytes, found), Vec::new()) };
                found.extend(tls_report(path, &named.file));
                found.extend(named.gateway_problem());
                found.push(self.lint(&named));
                return (found, named.paths().iter().map(|path| files::one(path)).collect());
            }
            FileKind::Script => Script::from_yaml(&name, bytes).err().into_iter().collect(),
            FileKind::Call => CallFile::read(&name, bytes).err().into_iter().collect(),
            FileKind::Models => ModelCatalogue::read(&name, bytes).err().into_iter().collect(),
            FileKind::Scenario => Scenario::read(&name, bytes).err().into_iter().collect(),
            FileKind::Test => super::test::problems(&name, bytes),
            FileKind::Policy => self.policy(vec![(name, bytes.to_vec())]),
        };
        (found, Vec::new())
    }

    /// What is wrong with an agent whose policy has mistakes: slips of the names it has show all the same. What else the
    /// policy may offer it is not known then.
    fn mistaken(&self, path: &Path, bytes: &[u8], found: Vec<Report>) -> Vec<Report> {
        let (file, _) = AgentFile::read_rest(&path.display().to_string(), bytes);
        let Some(file) = file else { return found };
        let names_are_known = self.options.names.is_some() || self.options.tools.is_some();
        let mut found = if names_are_known {
            found
        } else {
            let options = LintOptions { names: Some(agents::own(&file.value)), ..self.options.clone() };
            NamedAgent::read(path, bytes, &self.loader().with_lints(options)).1
        };
        found.extend(tls_report(path, &file));
        found
    }

    /// Without a choice every profile is checked.
    fn loader(&self) -> Loader {
        let loader = Loader::new().with_lints(self.options.clone());
        match &self.args.profile {
            Some(name) => loader.profile(name).profile_from("`--profile`"),
            None => loader.every_profile(),
        }
    }

    /// What the policy of an agent hardly means, and which names in it the agent does not have. Unless servers bring
    /// further tools, the file tells which there are; what `--tools` tells is what counts.
    fn lint(&self, named: &NamedAgent) -> Report {
        let mut options = self.options.clone();
        if options.names.is_none() && options.tools.is_none() {
            options.names = Some(self.agents.names(named));
        }
        if named.file.value.mcp.is_empty() {
            let tools = named.tools();
            let known = |tool: &ToolSpec| KnownTool {
                name: tool.name.clone(),
                effect: tool.effect.unwrap_or(Effect::Unknown),
                inner_retries: 0,
                arguments: None,
                schema: Some(tool.parameters.clone()),
            };
            options.witnesses = Some(tools.iter().map(|tool| known(tool.spec())).collect());
        }
        options.short_budget = named.short_budget();
        named.policy.lint(&options)
    }

    /// What is wrong with a policy, or what it hardly means.
    fn policy(&self, sources: Vec<(String, Vec<u8>)>) -> Vec<Report> {
        match PolicyFiles::new().load_named(&self.loader(), sources) {
            Ok(policy) => policy.warnings().cloned().into_iter().chain([policy.lint(self.options)]).collect(),
            Err(report) => vec![report],
        }
    }

    /// Prints what a repair would write. There is something to do if there is a repair, or an error without one.
    fn preview(&self, paths: &[PathBuf], repaired: &[FixedFile]) -> Result<ExitStatus, CommandFailure> {
        let diffs: String = repaired.iter().map(FixedFile::diff).collect();
        out::raw(&diffs)?;
        let read = |path: &PathBuf| Some((path.clone(), files::read(path).ok()?));
        let broken = paths.iter().filter_map(read).any(|(path, bytes)| {
            let (reports, _) = self.look(&path, &bytes);
            reports.iter().any(Report::has_errors)
        });
        Ok(if broken || !repaired.is_empty() { ExitStatus::Problem } else { ExitStatus::Clean })
    }
}

/// `3 files`.
fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// How many problems there are, how many of them `--fix` repairs, and where to read on.
fn summary(reports: &[Report]) -> Option<String> {
    let (errors, warnings) = reports
        .iter()
        .map(Report::count)
        .fold((0, 0), |(errors, warnings), (more, others)| (errors + more, warnings + others));
    let kinds = [(errors, "error"), (warnings, "warning")];
    let kinds: Vec<String> =
        kinds.into_iter().filter(|(count, _)| *count > 0).map(|(count, what)| counted(count, what)).collect();
    let all = || reports.iter().flat_map(|report| report.all().iter().map(move |problem| (report, problem)));
    let files: HashSet<String> =
        all().map(|(report, problem)| report.sources().place_of(problem.span).file).collect();
    let repairs = all().filter(|(_, problem)| problem.fix.is_some()).count();
    let repairs = match repairs {
        0 => String::new(),
        1 => "; `--fix` repairs 1 of them".to_owned(),
        count => format!("; `--fix` repairs {count} of them"),
    };
    let mut codes: Vec<String> = all().map(|(_, problem)| problem.code.to_string()).collect();
    codes.sort_unstable();
    codes.dedup();
    let more = match codes.as_slice() {
        [] => return None,
        [one] => format!("`unfazed rule {one}` says more"),
        [shown @ .., _] if codes.len() > MOST_CODES => {
            let shown = &shown[..MOST_CODES];
            format!("`unfazed rule CODE` says more: {} and others", shown.join(", "))
        }
        all => format!("`unfazed rule CODE` says more: {}", all.join(", ")),
    };
    let found = format!("{} in {}", kinds.join(" and "), counted(files.len(), "file"));
    Some(format!("{found}{repairs}\n{more}\n"))
}

/// Prints reports the way the user wants them. What could not be read is reported to people elsewhere.
fn print(reports: &[Report], unread: &[CommandFailure], format: ProblemFormat) -> Result<(), CommandFailure> {
    let mut text = String::new();
    match format {
        ProblemFormat::Human => {
            let (mut said, width) = (GivenHelps::default(), out::width());
            text.extend(reports.iter().map(|report| report.human_within(true, width, &mut said)));
            text.extend(summary(reports));
        }
        ProblemFormat::Short => {
            let mut said = GivenHelps::default();
            text.extend(reports.iter().map(|report| report.lines(&mut said)));
        }
        ProblemFormat::Json => {
            return out::raw(&format!("{}\n", policies::document(reports, unread)));
        }
        ProblemFormat::Sarif => return out::raw(&format!("{:#}\n", sarif::log(reports))),
        ProblemFormat::Github => return out::raw(&github::commands(reports)),
    }
    out::styled(&text)
}

/// What the host has. Mistakes in the file are reported with all others, and nothing is known then.
fn known(path: &Path, reports: &mut Vec<Report>) -> Result<LintOptions, CommandFailure> {
    let bytes = files::read(path)?;
    super::run::tell_issues(&issues(&bytes));
    Ok(match LintOptions::read_tools(&path.display().to_string(), &bytes) {
        Ok(options) => options,
        Err(report) => {
            reports.push(report);
            LintOptions::default()
        }
    })
}

/// The tools that an agent's servers declare and it cannot use, if that is what `unfazed tools` printed.
fn issues(bytes: &[u8]) -> Vec<ToolIssue> {
    #[derive(serde::Deserialize)]
    struct PrintedProblem {
        #[serde(default)]
        issues: Vec<ToolIssue>,
    }
    serde_json::from_slice::<PrintedProblem>(bytes).map(|printed| printed.issues).unwrap_or_default()
}
