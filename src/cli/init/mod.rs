//! `unfazed init`: a first policy with a first test, and the schemas that make editors complete their keys.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::exit::{CommandFailure, ExitStatus};
use super::out;
use super::schema::SchemaName;

/// What a duration is.
const DURATION: &str = "A duration is a number with a unit: `500ms`, `30s`, `2m`, `1h30m`.";
const POLICY: &str = include_str!("policy.yaml");
const TEST: &str = include_str!("policy.test.yaml");

/// Writes a commented policy, a test of it, and the schemas for editors into a folder
#[derive(clap::Args)]
#[command(after_help = "Examples:
  unfazed init
  unfazed init policies/
  unfazed init --force      # overwrites what is there")]
pub(crate) struct InitArgs {
    /// The folder; it is made if it is not there.
    #[arg(value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    /// Overwrites files that are there already.
    #[arg(long)]
    force: bool,
}

pub(crate) fn run(args: &InitArgs) -> Result<ExitStatus, CommandFailure> {
    // What is written here needs no path.
    let dir = args.dir.strip_prefix(".").unwrap_or(&args.dir);
    let files = [
        ("policy.yaml", POLICY.to_owned()),
        ("policy.test.yaml", TEST.to_owned()),
        ("policy.schema.json", for_editors(&SchemaName::Policy.document()?)),
        ("test.schema.json", for_editors(&SchemaName::Test.document()?)),
    ];
    let files = files.map(|(name, text)| (dir.join(name), text));
    if !args.force {
        // Whatever has that name counts, a link that leads nowhere too.
        let there = files.iter().filter(|(path, _)| path.symlink_metadata().is_ok());
        let there: Vec<_> = there.map(|(path, _)| path.display().to_string()).collect();
        if !there.is_empty() {
            let there = there.join(", ");
            return Err(CommandFailure::Stopped(format!(
                "nothing is written, as there is already {there}; --force overwrites"
            )));
        }
    }
    fs::create_dir_all(&args.dir)
        .map_err(|error| CommandFailure::io(format!("cannot make {}", args.dir.display()), error))?;
    for (path, text) in &files {
        write(path, text, args.force)
            .map_err(|error| CommandFailure::io(format!("cannot write {}", path.display()), error))?;
    }
    let policy = dir.join("policy.yaml");
    let (policy, dir) = (policy.display(), args.dir.display());
    let told: Vec<String> = files.iter().map(|(path, _)| format!("wrote {}", path.display())).collect();
    let told = told.join("\n");
    out::styled(&format!(
        "{told}

next: unfazed check {policy}
      unfazed test {dir}
      unfazed explain get_weather {policy}
"
    ))?;
    Ok(ExitStatus::Clean)
}

/// A schema with what editors say of a duration that is none, in the place of a pattern of 600 characters. The keyword is one of
/// VS Code's JSON service, which the YAML language server has too; strict validators refuse it, so that published schemas
/// are without.
fn for_editors(schema: &str) -> String {
    let Ok(mut schema) = serde_json::from_str::<Value>(schema) else { return schema.to_owned() };
    for name in ["Duration", "PositiveDuration"] {
        if let Some(Value::Object(duration)) = schema.pointer_mut(&format!("/$defs/{name}")) {
            duration.insert("patternErrorMessage".to_owned(), DURATION.into());
        }
    }
    format!("{schema:#}\n")
}

/// Writes a file; unless it may be overwritten, only if nothing has that name.
fn write(path: &Path, text: &str, force: bool) -> std::io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true);
    let mut file =
        if force { options.create(true).truncate(true) } else { options.create_new(true) }.open(path)?;
    file.write_all(text.as_bytes())
}
