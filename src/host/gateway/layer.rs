//! The layers that a gateway puts around the files of its policy: what holds of any run that has no end, and what its clients expect
//! where the files say nothing.

use core::fmt::Write as _;

use serde_json::Value;

use crate::host::{PolicyFiles, PolicyFilesError};
use crate::policy::{Loader, Policy, RunLimits};

/// What the layer is called where origins are shown.
const NAME: &str = "unfazed serve";
/// What that below the files is called.
const BELOW: &str = "unfazed serve, by itself";
/// The rule of the built-in policy, but for `above_max`: a client waits for its answer, and its SDK knows how to obey a long wait.
const DELAYS: &[u8] =
    b"version: 1\nretry: {server_delay: {mode: floor, max: 1m, above_max: next_target, spread: 0.1}}\n";

/// A policy under which no gateway can be.
#[derive(Debug, thiserror::Error)]
pub(crate) enum GatewayPolicyError {
    /// The files cannot be used.
    #[error(transparent)]
    Files(#[from] PolicyFilesError),
    /// They bound what a run may do.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    RunLimits(Vec<RunLimit>),
}

/// A bound of what a run may do.
#[derive(Debug, thiserror::Error)]
#[error("`limits.{rule}` bounds a run, and a gateway is one run as long as it serves; remove it ({place})")]
pub(crate) struct RunLimit {
    /// The path of the value below `limits`.
    rule: &'static str,
    /// Where it is written.
    place: String,
}

/// The policy of these files, as they are named and read, for a gateway to these models: no turn is the last, waits of one request are none of another,
/// what went out is not taken back, and a request that is given up ends no other one.
///
/// # Errors
/// The files have mistakes, or bound what a run may do.
pub(crate) fn gateway_policy<'m>(
    files: &mut PolicyFiles,
    loader: &Loader,
    mut named: Vec<(String, Vec<u8>)>,
    models: impl IntoIterator<Item = &'m str>,
) -> Result<Policy, GatewayPolicyError> {
    named.insert(0, (BELOW.to_owned(), DELAYS.to_vec()));
    named.push((NAME.to_owned(), layer(models).into_bytes()));
    let policy = files.load_named(loader, named).map_err(PolicyFilesError::Report)?;
    let turns = &policy.turn().max_turns;
    let RunLimits { time, tokens, cost, model_calls, tool_calls } = policy.run_limits();
    let limits = [
        time.as_ref().map(|limit| ("run.time", limit.origin)),
        tokens.as_ref().map(|limit| ("run.tokens", limit.origin)),
        cost.as_ref().map(|limit| ("run.cost", limit.origin)),
        model_calls.as_ref().map(|limit| ("run.model_calls", limit.origin)),
        tool_calls.as_ref().map(|limit| ("run.tool_calls", limit.origin)),
        (turns.value.get() < u32::MAX).then_some(("max_turns", turns.origin)),
    ];
    let limit = |(rule, origin)| RunLimit { rule, place: policy.place(origin).to_string() };
    let limits: Vec<RunLimit> = limits.into_iter().flatten().map(limit).collect();
    if limits.is_empty() { Ok(policy) } else { Err(GatewayPolicyError::RunLimits(limits)) }
}

fn layer<'m>(models: impl IntoIterator<Item = &'m str>) -> String {
    let mut text = format!(
        "version: 1\nturn: {{max_turns: {most}, run_delay: unlimited, after_partial: fail}}\n\
         context: {{compact_at_free: 1 tokens, give_up_after: {most}}}\nmodels:\n",
        most = u32::MAX
    );
    for model in models {
        // By its own name, which is the most specific selector there is.
        let _ = writeln!(text, "  {}: {{on_exhausted: tell_model}}", Value::from(model));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::AboveMax;

    fn above_max(file: &str) -> AboveMax {
        let named = vec![("policy.yaml".to_owned(), file.as_bytes().to_vec())];
        let policy = gateway_policy(&mut PolicyFiles::new(), &Loader::new(), named, ["main"]).unwrap();
        policy
            .model("main")
            .retry
            .for_class(crate::policy::ErrorClass::RateLimit)
            .server_delay
            .value
            .above_max
    }

    #[test]
    fn a_wait_that_is_too_long_is_the_clients_unless_the_files_say_otherwise() {
        assert_eq!(above_max("version: 1\n"), AboveMax::NextTarget);
        let rule = "retry: {server_delay: {mode: floor, max: 1m, above_max: clamp}}";
        assert_eq!(above_max(&format!("version: 1\n{rule}\n")), AboveMax::Clamp);
        assert_eq!(above_max(&format!("version: 1\nmodels: {{'*': {{{rule}}}}}\n")), AboveMax::Clamp);
    }
}
