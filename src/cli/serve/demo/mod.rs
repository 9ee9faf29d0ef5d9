//! `unfazed serve --demo`: the gateway before scripted models that fail now and then, asked all the time.

mod traffic;

use crate::cli::exit::CommandFailure;
use crate::host::agent_file::{FileGateway, GatewayFileError};
use crate::host::gateway::{Route, RouteTable};
use crate::host::scripted::Script;
use crate::policy::{Loader, Selector};

pub(in crate::cli::serve) use self::traffic::ask;

const POLICY: (&str, &str) = ("demo/policy.yaml", include_str!("policy.yaml"));
const MAIN: (&str, &str) = ("demo/main.yaml", include_str!("main.yaml"));
const SPARE: (&str, &str) = ("demo/spare.yaml", include_str!("spare.yaml"));

/// The names that clients ask for, each with the models that they get.
const ROUTES: [(&str, &[&str]); 2] = [("gpt-5", &["main", "spare"]), ("gpt-5-mini", &["cheap"])];

/// The gateway of the demo.
pub(super) async fn gateway() -> Result<FileGateway, CommandFailure> {
    let models = [("main", MAIN), ("spare", SPARE), ("cheap", SPARE)];
    let models = models.map(|(name, (file, text))| {
        Script::from_yaml(file, text.as_bytes()).map(|script| (name.to_owned(), script))
    });
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Policy;

    #[test]
    fn its_files_have_no_problem() {
        let policy = Policy::from_yaml(POLICY.0, POLICY.1).unwrap();
        assert!(policy.warnings().is_none());
        for (name, text) in [MAIN, SPARE] {
            let script = Script::from_yaml(name, text.as_bytes()).unwrap();
            assert!(script.repeat || script.repeat_last, "{name} ends");
        }
    }
}
