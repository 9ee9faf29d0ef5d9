//! `unfazed schema`: the JSON Schemas of the files people write and read.

mod editor;

use crate::analysis::CallFile;
use crate::engine::Record;
use crate::host::agent_file::AgentFile;
use crate::host::scripted::Script;
use crate::host::tools_file::ToolsFile;
use crate::simulate;
use clap::ValueEnum;
use serde_json::Value;

use super::exit::{CommandFailure, ExitStatus};
use super::generated::{FileSelection, GeneratedFiles};
use super::step;

/// Prints a JSON Schema, or writes all of them into a folder
#[derive(clap::Args)]
#[command(after_help = "Examples:
  unfazed schema policy > policy.schema.json
  unfazed schema --write schemas/
  unfazed schema --check schemas/      # exit code 1 if a file there is stale")]
pub(crate) struct SchemaArgs {
    #[command(flatten)]
    files: FileSelection<SchemaName>,
}

/// The schemas there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum SchemaName {
    /// Policy files.
    Policy,
    /// Agent files.
    Agent,
    /// Scripts of a scripted model.
    Script,
    /// Test files.
    Test,
    /// Calls for `unfazed explain --call`.
    Call,
    /// Files with the host's tools, for `check --tools`.
    Tools,
    /// Scenarios for `unfazed simulate --scenario`.
    Simulation,
    /// The lines of a session log.
    Session,
    /// The lines of `unfazed step`.
    Step,
}

pub(crate) fn run(args: &SchemaArgs) -> Result<ExitStatus, CommandFailure> {
    args.files.run()
}

impl SchemaName {
    fn json(self) -> Value {
        match self {
            Self::Policy => crate::policy::json_schema(),
            Self::Agent => AgentFile::json_schema(),
            Self::Script => Script::json_schema(),
            Self::Test => crate::cases::json_schema(),
            Self::Call => CallFile::json_schema(),
            Self::Tools => ToolsFile::json_schema(),
            Self::Simulation => simulate::json_schema(),
            Self::Session => Record::json_schema(),
            Self::Step => step::json_schema(),
        }
    }

    /// As it is written to a file: for editors, unless nobody edits what it describes.
    pub(super) fn document(self) -> Result<String, CommandFailure> {
        let json = self.json();
        let json = if matches!(self, Self::Session | Self::Step) { json } else { editor::prepared(json)? };
        Ok(format!("{json:#}\n"))
    }
}

impl GeneratedFiles for SchemaName {
    const COMMAND: &str = "unfazed schema";

    fn file(&self) -> &'static str {
        match self {
            Self::Policy => "policy.schema.json",
            Self::Agent => "agent.schema.json",
            Self::Script => "script.schema.json",
            Self::Test => "test.schema.json",
            Self::Call => "call.schema.json",
            Self::Tools => "tools.schema.json",
            Self::Simulation => "simulation.schema.json",
            Self::Session => "session.schema.json",
            Self::Step => "step.schema.json",
        }
    }

    fn text(&self) -> Result<String, CommandFailure> {
        self.document()
    }
}
