//! `unfazed explain`: the effective policy, with the place of every value that won and every one that lost.

mod failure;

use std::path::{Path, PathBuf};

use crate::analysis;
use crate::analysis::{CallFile, ComparedNames, PolicyExplanation};
use crate::engine::ToolCatalogue;
use crate::host::agent_file::AgentFile;
use crate::policy::Policy;
use anstyle::{AnsiColor, Style};
use clap::ValueEnum;

use super::exit::{CommandFailure, ExitStatus};
use super::settings::CliSettings;
use super::{files, named, out, policies};

const BOLD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();
const GOOD: Style = AnsiColor::Green.on_default();

/// Some flags take the place of the name.
const USAGE: &str = "unfazed explain [OPTIONS] <NAME> [POLICY]...
       unfazed explain [OPTIONS] --output|--turn|--history|--context|--bounds [POLICY]...";

/// Shows the effective policy of a tool, a model or the report: values, origins, delays, what is done about an error,
/// worst case, bounds of a run
#[derive(clap::Args)]
#[command(override_usage = USAGE, after_help = "Examples:
  unfazed explain lookup_price policy.yaml
  unfazed explain lookup_price policy.yaml --all       # the built-in values too
  unfazed explain --model main base.yaml team.yaml
  unfazed explain lookup_price agent.yaml --call call.yaml
  unfazed explain lookup_price policy.yaml --key retry.max_attempts
  unfazed explain --model main policy.yaml --error rate_limit
  unfazed explain --model main policy.yaml --status 429 --code insufficient_quota
  unfazed explain --model main policy.yaml --status 429 --body answer.json
  unfazed explain --bounds agent.yaml
  unfazed explain --output policy.yaml --format json")]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub(crate) struct ExplainArgs {
    /// The tool, or with --model the model; left out with --output, --turn, --history, --context,
    /// --bounds.
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
    #[arg(long, conflicts_with_all = ["model", "turn", "bounds"])]
    output: bool,
    /// Shows the loop of turns instead; all names are policy files.
    #[arg(long, conflicts_with_all = ["model", "bounds"])]
    turn: bool,
    /// Shows what is done about a history that providers refuse instead; all names are policy files.
    #[arg(long, conflicts_with_all = ["model", "output", "turn", "bounds"])]
    history: bool,
    /// Shows what is done so that conversations stay within windows instead; all names are policy files.
    #[arg(long, conflicts_with_all = ["model", "output", "turn", "history", "bounds"])]
    context: bool,
    /// Shows the most that a run can cost instead; all names are policy files.
    #[arg(long, conflicts_with_all = ["model", "call", "key", "error"])]
    bounds: bool,
    /// Shows the policy for one call of the tool, and whether it would run: a file with `arguments` and, if the
    /// planner says something, `planner`.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["model", "output", "turn", "history", "context"])]
    call: Option<PathBuf>,
    /// Shows this value or block alone: `retry.max_attempts`, `retry`.
    #[arg(long, value_name = "PATH")]
    key: Option<String>,
    /// Shows every value, those of the built-in policy too, and the table of waits.
    #[arg(long)]
    all: bool,
    /// How many attempts a tool makes itself in each run, for the retry amplification.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    inner: u32,
    /// The profile of the policy that is chosen.
    #[arg(long, value_name = "NAME")]
    profile: Option<String>,
    /// How it is printed.
    #[arg(long, value_enum, default_value_t)]
    format: ExplainFormat,
    // Its heading holds for all that follows.
    #[command(flatten)]
    failure: failure::FailureQuery,
}

/// How an explanation is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum ExplainFormat {
    /// For people.
    #[default]
    Human,
    /// As JSON.
    Json,
    /// The effective values alone, as a policy file.
    Yaml,
}

pub(crate) fn run(args: &ExplainArgs, settings: &CliSettings) -> Result<ExitStatus, CommandFailure> {
    let mut paths = args.policy.clone();
    let mut name = args.name.clone();
    if args.output || args.turn || args.history || args.context || args.bounds {
        paths.splice(0..0, name.take().map(PathBuf::from));
    } else if let Some(file) = name.as_deref().filter(|name| is_file(name)) {
        let message = format!(
            "`{file}` is a file, not a name; name the tool first: `unfazed explain TOOL {file}`, \
             or use --model, --output, --turn, --history, --context, --bounds"
        );
        return Err(CommandFailure::Usage(message));
    }
    if name.as_deref() == Some("") {
        return Err(CommandFailure::Usage("NAME is empty; no tool and no model has such a name".into()));
    }
    if paths.is_empty() {
        paths.clone_from(&settings.policy);
    }
    if args.format == ExplainFormat::Yaml && (args.bounds || args.failure.is_asked()) {
        return Err(CommandFailure::Usage(
            "only values are printed as a policy; use --format human or json".into(),
        ));
    }
    let loader = named::chosen(args.profile.as_deref(), settings);
    let (policy, agent) = policies::load_for(&paths, &loader, args.format == ExplainFormat::Json)?;
    if args.bounds {
        return bounds(args, &policy, agent.as_ref());
    }
    let explanation = explain(args, &policy, agent.as_ref(), name.as_deref())?;
    let explanation = policy.with_budgets(explanation);
    if let Some(answer) = args.failure.answer(&policy, &explanation)? {
        return match args.format {
            ExplainFormat::Json => out::raw(&format!("{:#}\n", answer.to_json())),
            ExplainFormat::Human | ExplainFormat::Yaml => out::styled(&coloured(&answer.human())),
        }
        .map(|()| ExitStatus::Clean);
    }
    if let Some(key) = &args.key {
        let part = explanation.only(key).map_err(|error| CommandFailure::Usage(error.to_string()))?;
        return print(args, &part, None);
    }
    // What a run may cost is a matter of the tool, not of one call.
    let bounds = name.filter(|_| args.call.is_none()).map(|name| {
        let mut names = names(agent.as_ref());
        let of = if args.model { &mut names.models } else { &mut names.tools };
        *of = vec![name];
        policy.bounds(&names, args.inner)
    });
    let bounds = bounds.and_then(|bounds| {
        let model =
            bounds.models.first().filter(|_| args.model).map(|model| (model.to_string(), model.to_json()));
        model.or_else(|| bounds.tools.first().map(|tool| (tool.to_string(), tool.to_json())))
    });
    print(args, &explanation, bounds)
}

/// Explains what was asked for.
fn explain(
    args: &ExplainArgs,
    policy: &Policy,
    agent: Option<&AgentFile>,
    name: Option<&str>,
) -> Result<PolicyExplanation, CommandFailure> {
    Ok(match name {
        None if args.output => policy.explain_output().ok_or_else(|| {
            CommandFailure::Stopped("the policy asks for no report: it has no `output:`".into())
        })?,
        None if args.turn => analysis::explain_turn(policy),
        None if args.history => analysis::explain_history(policy),
        None if args.context => analysis::explain_context(policy),
        None => {
            return Err(CommandFailure::Usage(
                "name a tool: `unfazed explain TOOL [POLICY]`; or use --output, --turn, --history, --context, --bounds"
                    .into(),
            ));
        }
        Some(name) if args.model => {
            note(name, "model", agent.map(|agent| agent.models.keys()));
            policy.explain_model(name)
        }
        Some(name) => {
            note(name, "tool", agent.map(|agent| agent.tools.keys()));
            match &args.call {
                None => policy.explain_tool(name),
                Some(path) => {
                    let call = CallFile::read(&path.display().to_string(), &files::read(path)?);
                    let call = call
                        .map_err(|report| {
                            policies::reported_as(&[report], args.format == ExplainFormat::Json)
                        })?
                        .value;
                    analysis::explain_call(
                        policy,
                        catalogue(agent),
                        name,
                        &call.arguments,
                        call.planner.as_ref(),
                    )
                }
            }
        }
    })
}

/// The tools whose arguments an agent file describes.
fn catalogue(agent: Option<&AgentFile>) -> ToolCatalogue {
    let tools = agent.into_iter().flat_map(|agent| &agent.tools);
    let tools = tools.filter_map(|(name, entry)| entry.spec(name));
    ToolCatalogue::new(tools).unwrap_or_default()
}

/// Prints an explanation, and what can be said of a whole run: a line, and for machines.
fn print(
    args: &ExplainArgs,
    explanation: &PolicyExplanation,
    bounds: Option<(String, serde_json::Value)>,
) -> Result<ExitStatus, CommandFailure> {
    let (line, bounds) = bounds.unzip();
    match args.format {
        ExplainFormat::Human if args.all || args.key.is_some() => {
            out::styled(&coloured(&format!("{}{}", explanation.human(), line.unwrap_or_default())))?;
        }
        ExplainFormat::Human => out::styled(&coloured(&explanation.brief()))?,
        ExplainFormat::Json => {
            let mut json = explanation.to_json();
            if let (Some(bounds), Some(object)) = (bounds, json.as_object_mut()) {
                object.insert("bounds".into(), bounds);
            }
            out::raw(&format!("{json:#}\n"))?;
        }
        ExplainFormat::Yaml => out::raw(&explanation.to_yaml())?,
    }
    Ok(ExitStatus::Clean)
}

/// With the values that won and those that lost told apart.
fn coloured(text: &str) -> String {
    let style = |line: &str| {
        let words = line.trim_start();
        match line.len() - words.len() {
            0 => BOLD,
            6 if words.starts_with("won ") => GOOD,
            6 if words.starts_with("lost ") => DIM,
            _ => Style::new(),
        }
    };
    let lines: Vec<String> = text
        .lines()
        .map(|line| {
            let style = style(line);
            format!("{style}{line}{style:#}\n")
        })
        .collect();
    lines.concat()
}

fn bounds(
    args: &ExplainArgs,
    policy: &Policy,
    agent: Option<&AgentFile>,
) -> Result<ExitStatus, CommandFailure> {
    let bounds = policy.bounds(&names(agent), args.inner);
    match args.format {
        ExplainFormat::Json => out::raw(&format!("{:#}\n", bounds.to_json()))?,
        ExplainFormat::Human | ExplainFormat::Yaml => out::styled(&coloured(&bounds.human()))?,
    }
    Ok(ExitStatus::Clean)
}

/// The tools and models of an agent.
fn names(agent: Option<&AgentFile>) -> ComparedNames {
    agent.map_or_else(ComparedNames::default, |agent| ComparedNames {
        tools: agent.tools.keys().cloned().collect(),
        models: agent.models.keys().cloned().collect(),
    })
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
