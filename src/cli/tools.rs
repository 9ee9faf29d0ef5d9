//! `unfazed tools`: the tools an agent has, its servers asked.

use std::fmt::Write as _;
use std::path::PathBuf;

use crate::policy::Effect;
use anstyle::{AnsiColor, Style};
use serde_json::{Value, json};

use super::exit::{CommandFailure, ExitStatus};
use super::format::OutputFormat;
use super::run::{OfferedTool, ToolInventory};
use super::settings::CliSettings;
use super::table::{TableCell, TableColumn, TextTable};
use super::text::one_line;
use super::{named, out, runtime};

const WARN: Style = AnsiColor::Yellow.on_default();

/// Lists the tools of an agent: what kind each is, what a run does to the world, what its definition costs, where it
/// comes from; MCP servers are started and asked
#[derive(clap::Args)]
#[command(after_help = "Examples:
  unfazed tools agent.yaml
  unfazed tools agent.yaml --format json | jq '.tools[] | select(.kind == \"mcp\")'

Exit codes:
  0    all is well
  1    a server could not be asked, or a file has problems
  2    the command was not understood, or an input cannot be read
  3    the agent has no tools
  130  cancelled")]
pub(crate) struct ToolsArgs {
    /// The agent file.
    #[arg(value_name = "AGENT")]
    agent: PathBuf,
    /// The profile of the policy that is chosen.
    #[arg(long, value_name = "NAME")]
    profile: Option<String>,
    /// How they are printed; in JSON with their descriptions and parameters.
    #[arg(long, value_enum, default_value_t)]
    format: OutputFormat,
}

pub(crate) fn run(args: &ToolsArgs, settings: &CliSettings) -> Result<ExitStatus, CommandFailure> {
    super::logs::start(settings)?;
    let loader = named::chosen(args.profile.as_deref(), settings);
    let inventory = runtime::block_on(ToolInventory::take(&args.agent, &loader))?;
    match args.format {
        OutputFormat::Human => out::styled(&table(&inventory.tools))?,
        OutputFormat::Json => out::raw(&format!("{:#}\n", document(&inventory)))?,
    }
    for failed in &inventory.failed {
        out::tell(failed);
    }
    Ok(match (inventory.failed.is_empty(), inventory.tools.is_empty()) {
        (false, _) => ExitStatus::Problem,
        (true, true) => ExitStatus::Nothing,
        (true, false) => ExitStatus::Clean,
    })
}

fn table(tools: &[OfferedTool]) -> String {
    if tools.is_empty() {
        return "the agent has no tools\n".to_owned();
    }
    let column = |(heading, right)| TableColumn { heading, right };
    let row = |tool: &OfferedTool| {
        let style = match tool.effect {
            Effect::ReadOnly | Effect::Idempotent => Style::new(),
            Effect::NonIdempotent | Effect::Unknown => WARN,
        };
        vec![
            one_line(&tool.spec.name).into(),
            tool.kind.to_owned().into(),
            TableCell::styled(tool.effect.name().to_owned(), style),
            tool.tokens.to_string().into(),
            one_line(&tool.from).into(),
        ]
    };
    let headings = [("tool", false), ("kind", false), ("effect", false), ("tokens", true), ("from", false)];
    let table = TextTable {
        columns: headings.map(column).into(),
        rows: tools.iter().map(row).collect(),
        // Where it comes from is shown whole.
        cut: false,
    };
    let mut text = table.render(out::width());
    let (count, all) = (tools.len(), total(tools));
    let plural = if count == 1 { "tool" } else { "tools" };
    let _ = writeln!(text, "\n{count} {plural}, {all} tokens");
    text
}

fn document(inventory: &ToolInventory) -> Value {
    let tools = inventory.tools.iter().map(|tool| {
        json!({
            "name": tool.spec.name, "kind": tool.kind, "effect": tool.effect.name(), "tokens": tool.tokens,
            "from": tool.from, "description": tool.spec.description, "parameters": tool.spec.parameters,
        })
    });
    json!({
        "v": 1, "tools": tools.collect::<Vec<_>>(), "models": inventory.models, "tokens": total(&inventory.tools),
        "failed": inventory.failed, "unasked": inventory.unasked, "issues": inventory.issues,
    })
}

fn total(tools: &[OfferedTool]) -> u64 {
    tools.iter().map(|tool| tool.tokens).fold(0, u64::saturating_add)
}
