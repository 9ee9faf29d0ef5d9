//! The policies that are played, each by the name it was given.

use std::path::{Path, PathBuf};

use unfazed::policy::{Diagnostic, Loader, Policy};

use super::Args;
use crate::cli::exit::Failed;
use crate::cli::settings::Settings;
use crate::cli::{named, policies};

/// What the names of policies that ship with the product begin with.
const BUILTIN: &str = "builtin:";

/// A policy, and how it was named.
pub(super) struct Subject {
    pub(super) name: String,
    pub(super) policy: Policy,
}

/// Loads all policies that are named, or prints what is wrong with the first that cannot be used.
pub(super) fn load(args: &Args, settings: &Settings) -> Result<Vec<Subject>, Failed> {
    let loader = named::loader(args.profile.as_deref().or(settings.profile.as_deref()));
    if !args.policies.is_empty() {
        return args.policies.iter().map(|name| one(name, &loader)).collect();
    }
    if settings.policy.is_empty() {
        return Ok(vec![one("builtin:default", &loader)?]);
    }
    let name = settings.policy.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join("+");
    let (policy, _) = policies::load(&settings.policy, &loader)?;
    Ok(vec![Subject { name, policy }])
}

fn one(name: &str, loader: &Loader) -> Result<Subject, Failed> {
    // What ships with the product has no profiles.
    let plain = Loader::new();
    let loader = if name.starts_with(BUILTIN) { &plain } else { loader };
    let policy = match name.strip_prefix(BUILTIN) {
        Some("default") => policies::load(&[], loader)?.0,
        Some(_) => {
            // As a file that does nothing else than extend it.
            let text = format!("version: 1\nextends: {}\n", serde_json::Value::from(name));
            let file = ("--".to_owned(), text.into_bytes());
            let mut nowhere = |_: &str, path: &str| Err(format!("there is no `{path}`"));
            loader
                .load_with(&mut nowhere, vec![file])
                .map_err(|report| Failed::Usage(said(name, report.diagnostics().first())))?
        }
        None => policies::load(&layers(name), loader)?.0,
    };
    Ok(Subject { name: name.to_owned(), policy })
}

/// What is wrong with a name, in one line.
fn said(name: &str, problem: Option<&Diagnostic>) -> String {
    let Some(problem) = problem else { return format!("there is no policy `{name}`") };
    let meant = problem.fix.iter().map(|fix| format!("did you mean `{}`?", fix.text));
    let help = meant.chain(problem.help.iter().cloned());
    core::iter::once(problem.message.clone()).chain(help).collect::<Vec<_>>().join("; ")
}

/// The files of one policy: those between `+`, unless there is a file of the whole name.
fn layers(name: &str) -> Vec<PathBuf> {
    if Path::new(name).exists() {
        return vec![PathBuf::from(name)];
    }
    name.split('+').map(PathBuf::from).collect()
}
