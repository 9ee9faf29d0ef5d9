//! The policies that are played, each by the name it was given.

use crate::policy::{Loader, Policy};

use super::SimulateArgs;
use crate::cli::exit::CommandFailure;
use crate::cli::settings::CliSettings;
use crate::cli::{named, policies};

/// A policy, and how it was named.
pub(super) struct NamedPolicy {
    pub(super) name: String,
    pub(super) policy: Policy,
}

/// Loads all policies that are named, or prints what is wrong with the first that cannot be used.
pub(super) fn load(args: &SimulateArgs, settings: &CliSettings) -> Result<Vec<NamedPolicy>, CommandFailure> {
    let loader = named::chosen(args.profile.as_deref(), settings);
    if !args.policies.is_empty() {
        return args.policies.iter().map(|name| one(name, &loader)).collect();
    }
    if settings.policy.is_empty() {
        return Ok(vec![one("builtin:default", &loader)?]);
    }
    let name = settings.policy.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join("+");
    let (policy, _) = policies::load(&settings.policy, &loader)?;
    Ok(vec![NamedPolicy { name, policy }])
}

fn one(name: &str, loader: &Loader) -> Result<NamedPolicy, CommandFailure> {
    let (policy, _) = policies::load(&policies::layers(name), loader)?;
    Ok(NamedPolicy { name: name.to_owned(), policy })
}
