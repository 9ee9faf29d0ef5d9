//! `unfazed serve --demo`: the gateway before scripted models that fail now and then, asked all the time.

mod traffic;

use crate::cli::exit::CommandFailure;
use crate::host::agent_file::{FileGateway, GatewayFileError};
use crate::host::gateway::{Route, RouteTable};
use crate::host::scripted::Script;
use crate::policy::{Loader, Selector};
use crate::text::Report;

pub(in crate::cli::serve) use self::traffic::ask;

const POLICY: (&str, &str) = ("demo/policy.yaml", include_str!("policy.yaml"));
const MAIN: (&str, &str) = ("demo/main.yaml", include_str!("main.yaml"));
const SPARE: (&str, &str) = ("demo/spare.yaml", include_str!("spare.yaml"));
/// How often a script begins anew: for hours.
const ROUNDS: usize = 1_000;

/// The names that clients ask for, each with the models that they get.
const ROUTES: [(&str, &[&str]); 2] = [("gpt-5", &["main", "spare"]), ("gpt-5-mini", &["cheap"])];

/// The gateway of the demo.
pub(super) async fn gateway() -> Result<FileGateway, CommandFailure> {
    let models = [("main", MAIN), ("spare", SPARE), ("cheap", SPARE)];
    let models = models.map(|(name, file)| script(file).map(|script| (name.to_owned(), script)));
    let models = models
        .into_iter()
        .collect::<Result<Vec<_>, _>>()
        .map_err(|report| CommandFailure::Report(report.to_string()))?;
    let route = |(name, models): &(&str, &[&str])| {
        let models = models.iter().map(|model| (*model).to_owned()).collect();
        Some(Route { pattern: Selector::parse(name).ok()?, models })
    };
    let routes = RouteTable::new(ROUTES.iter().filter_map(route).collect());
    let (name, text) = POLICY;
    let policy = (name.to_owned(), text.as_bytes().to_vec());
    FileGateway::scripted(policy, &Loader::new(), models, routes)
        .await
        .map_err(|error: GatewayFileError| CommandFailure::Report(error.to_string()))
}

/// A script that is played again and again.
fn script((name, text): (&str, &str)) -> Result<Script, Report> {
    let script = Script::from_yaml(name, text.as_bytes())?;
    let replies = script.replies.iter().cycle().take(script.replies.len().saturating_mul(ROUNDS));
    Ok(Script { replies: replies.cloned().collect(), repeat_last: true, ..script })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Policy;

    #[test]
    fn its_files_have_no_problem() {
        let policy = Policy::from_yaml(POLICY.0, POLICY.1).unwrap();
        assert!(policy.warnings().is_none());
        for file in [MAIN, SPARE] {
            assert!(script(file).is_ok(), "{}", file.0);
        }
    }
}
