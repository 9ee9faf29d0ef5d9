//! The policies a command is about: files that are named, those that an agent file names, or those that ship with the product.

use std::path::{Path, PathBuf};

use crate::host::PolicyFiles;
use crate::host::agent_file::{AgentFile, NamedAgent};
use crate::policy::{Loader, Policy};
use crate::text::{Diagnostic, GivenHelps, Report};
use serde_json::{Value, json};

use super::exit::CommandFailure;
use super::named::{self, FileKind};
use super::{files, out};

/// What the names of policies that ship with the product begin with.
const BUILTIN: &str = "builtin:";

/// Loads policy files as layers of one policy, or prints what is wrong with them. An agent file stands for the
/// policies it names; `builtin:default` and `builtin:presets/NAME` are what they are in `extends`.
pub(crate) fn load(
    paths: &[PathBuf],
    loader: &Loader,
) -> Result<(Policy, Option<AgentFile>), CommandFailure> {
    load_for(paths, loader, false)
}

/// As [`load`]; for machines what is wrong, or cannot be read, is printed as `check --format json` prints it.
pub(crate) fn load_for(
    paths: &[PathBuf],
    loader: &Loader,
    json: bool,
) -> Result<(Policy, Option<AgentFile>), CommandFailure> {
    // What ships with the product has no profiles.
    let plain = Loader::new();
    let loader =
        if !paths.is_empty() && paths.iter().all(|path| builtin(path).is_some()) { &plain } else { loader };
    let mut sources = Vec::new();
    for path in paths {
        if let Some(name) = builtin(path) {
            sources.extend(shipped(name)?);
            continue;
        }
        let bytes = match files::read(path) {
            Ok(bytes) => bytes,
            Err(error) if json => {
                out::raw(&format!("{}\n", document(&[], std::slice::from_ref(&error))))?;
                return Err(error);
            }
            Err(error) => return Err(error),
        };
        if named::kind(&bytes) != FileKind::Agent {
            sources.push((path.display().to_string(), bytes));
            continue;
        }
        if paths.len() > 1 {
            let path = path.display();
            return Err(CommandFailure::Usage(format!(
                "{path} is an agent file, which names its policies itself; give it alone, or policies alone"
            )));
        }
        let (named, reports) = NamedAgent::read(path, &bytes, loader);
        return match named {
            Some(named) => Ok((named.policy, Some(named.file.value))),
            None => Err(reported_as(&named::once(reports), json)),
        };
    }
    PolicyFiles::new()
        .load_named(loader, sources)
        .map(|policy| (policy, None))
        .map_err(|report| reported_as(&[report], json))
}

/// The files of one policy: those between `+`, unless there is a file of the whole name.
pub(crate) fn layers(name: &str) -> Vec<PathBuf> {
    if Path::new(name).exists() {
        return vec![PathBuf::from(name)];
    }
    name.split('+').map(PathBuf::from).collect()
}

/// The texts of policy files, to be loaded together with further layers.
pub(crate) fn sources(paths: &[PathBuf]) -> Result<Vec<(String, Vec<u8>)>, CommandFailure> {
    let mut sources = Vec::new();
    for path in paths {
        if let Some(name) = builtin(path) {
            sources.extend(shipped(name)?);
            continue;
        }
        let bytes = files::read(path)?;
        if let Some(what) = named::other_kind(path, &bytes).filter(|what| *what != named::POLICY) {
            return Err(CommandFailure::Usage(format!("{} is {what}, and no policy", path.display())));
        }
        if named::kind(&bytes) == FileKind::Agent {
            let message = "is an agent file; give the policies that it names";
            return Err(CommandFailure::Usage(format!("{} {message}", path.display())));
        }
        sources.push((path.display().to_string(), bytes));
    }
    Ok(sources)
}

/// Prints reports on standard error.
pub(crate) fn say(reports: &[Report]) {
    let mut said = GivenHelps::default();
    for report in reports {
        out::say(&report.human_within(true, out::width_of_errors(), &mut said));
    }
}

/// Prints reports on standard error; there is nothing to add.
pub(crate) fn reported(reports: &[Report]) -> CommandFailure {
    say(reports);
    CommandFailure::Report(String::new())
}

/// As [`reported`], or for machines: all reports as one document on standard output.
pub(crate) fn reported_as(reports: &[Report], json: bool) -> CommandFailure {
    if !json {
        return reported(reports);
    }
    match out::raw(&format!("{}\n", document(reports, &[]))) {
        Ok(()) => CommandFailure::Report(String::new()),
        Err(failed) => failed,
    }
}

/// Reports as one JSON document, with what could not be read.
pub(crate) fn document(reports: &[Report], unread: &[CommandFailure]) -> Value {
    let reports: Vec<Value> = reports.iter().map(Report::to_json).collect();
    let unread: Vec<Value> = unread.iter().map(|error| json!({"message": error.to_string()})).collect();
    json!({"version": 1, "reports": reports, "unread": unread})
}

/// The name of a policy that ships with the product, if it is one.
fn builtin(path: &Path) -> Option<&str> {
    path.to_str().filter(|name| name.starts_with(BUILTIN) && !path.exists())
}

/// The layer of such a policy: a file that does nothing else than extend it. The default is under every policy.
fn shipped(name: &str) -> Result<Option<(String, Vec<u8>)>, CommandFailure> {
    if name.strip_prefix(BUILTIN) == Some("default") {
        return Ok(None);
    }
    let text = format!("version: 1\nextends: {}\n", Value::from(name));
    let file = (name.to_owned(), text.into_bytes());
    let mut nowhere = |_: &str, path: &str| Err(format!("there is no `{path}`"));
    let found = Loader::new().load_with(&mut nowhere, vec![file.clone()]);
    found
        .map(|_| Some(file))
        .map_err(|report| CommandFailure::Usage(said(name, report.diagnostics().first())))
}

/// What is wrong with a name, in one line.
fn said(name: &str, problem: Option<&Diagnostic>) -> String {
    let Some(problem) = problem else { return format!("there is no policy `{name}`") };
    let meant = problem.fix.iter().map(|fix| format!("did you mean `{}`?", fix.text));
    let help = meant.chain(problem.help.iter().cloned());
    core::iter::once(problem.message.clone()).chain(help).collect::<Vec<_>>().join("; ")
}
