//! `unfazed schema`: the JSON Schemas of the files people write and read.

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use serde_json::Value;
use unfazed::engine::Record;
use unfazed::host::agent_file::AgentFile;
use unfazed::host::scripted::Script;
use unfazed::host::tools_file::ToolsFile;
use unfazed::policy::CallFile;
use unfazed::simulate;

use super::exit::{Exit, Failed};

/// Prints a JSON Schema, or writes all of them into a folder
#[derive(clap::Args)]
#[command(after_help = "Examples:
  unfazed schema policy > policy.schema.json
  unfazed schema --write schemas/
  unfazed schema --check schemas/      # exit code 1 if a file there is stale")]
pub(crate) struct Args {
    /// Which one to print.
    #[arg(value_enum, required_unless_present_any = ["write", "check"])]
    name: Option<Name>,
    /// Writes all schemas into this folder.
    #[arg(long, value_name = "DIR", conflicts_with = "check")]
    write: Option<PathBuf>,
    /// Compares all schemas with the files in this folder.
    #[arg(long, value_name = "DIR")]
    check: Option<PathBuf>,
}

/// The schemas there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Name {
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
}

pub(crate) fn run(args: &Args) -> Result<Exit, Failed> {
    if let Some(dir) = &args.write {
        std::fs::create_dir_all(dir)
            .map_err(|error| Failed::io(format!("cannot make {}", dir.display()), error))?;
        for name in Name::value_variants() {
            let path = name.path(dir);
            let what = format!("cannot write {}", path.display());
            std::fs::write(&path, name.text()).map_err(|error| Failed::io(what, error))?;
        }
        return Ok(Exit::Clean);
    }
    if let Some(dir) = &args.check {
        let mut stale = Vec::new();
        for name in Name::value_variants() {
            let path = name.path(dir);
            let found = String::from_utf8(super::files::read(&path)?).unwrap_or_default();
            if found != name.text() {
                stale.push(path.display().to_string());
            }
        }
        if stale.is_empty() {
            return Ok(Exit::Clean);
        }
        let write = format!("unfazed schema --write {}", dir.display());
        return Err(Failed::Report(format!("stale: {}; write them anew with `{write}`", stale.join(", "))));
    }
    if let Some(name) = args.name {
        super::out::raw(&name.text())?;
    }
    Ok(Exit::Clean)
}

impl Name {
    fn json(self) -> Value {
        match self {
            Self::Policy => unfazed::policy::json_schema(),
            Self::Agent => AgentFile::json_schema(),
            Self::Script => Script::json_schema(),
            Self::Test => unfazed::cases::json_schema(),
            Self::Call => CallFile::json_schema(),
            Self::Tools => ToolsFile::json_schema(),
            Self::Simulation => simulate::json_schema(),
            Self::Session => Record::json_schema(),
        }
    }

    /// As it is written to a file.
    pub(super) fn text(self) -> String {
        format!("{:#}\n", self.json())
    }

    fn path(self, dir: &Path) -> PathBuf {
        dir.join(match self {
            Self::Policy => "policy.schema.json",
            Self::Agent => "agent.schema.json",
            Self::Script => "script.schema.json",
            Self::Test => "test.schema.json",
            Self::Call => "call.schema.json",
            Self::Tools => "tools.schema.json",
            Self::Simulation => "simulation.schema.json",
            Self::Session => "session.schema.json",
        })
    }
}
