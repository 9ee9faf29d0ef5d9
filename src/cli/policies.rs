//! The policies a command is about: files that are named, or those that an agent file names.

use std::path::PathBuf;

use unfazed::host::PolicyFiles;
use unfazed::host::agent_file::AgentFile;
use unfazed::policy::{Loader, Policy, Report};

use super::exit::Failed;
use super::named::{self, Kind};
use super::{files, out};

/// Loads policy files as layers of one policy, or prints what is wrong with them. An agent file stands for the
/// policies it names.
pub(crate) fn load(paths: &[PathBuf], loader: &Loader) -> Result<(Policy, Option<AgentFile>), Failed> {
    let mut sources = Vec::new();
    for path in paths {
        let bytes = files::read(path)?;
        if named::kind(&bytes) != Kind::Agent {
            sources.push((path.display().to_string(), bytes));
            continue;
        }
        if paths.len() > 1 {
            let path = path.display();
            return Err(Failed::Usage(format!(
                "{path} is an agent file, which names its policies itself; give it alone, or policies alone"
            )));
        }
        let (named, reports) = named::read(path, &bytes, loader);
        return match named {
            Some(named) => Ok((named.policy, Some(named.file.value))),
            None => Err(reported(&named::once(reports))),
        };
    }
    PolicyFiles::new()
        .load_named(loader, sources)
        .map(|policy| (policy, None))
        .map_err(|report| reported(&[report]))
}

/// Prints reports on standard error; there is nothing to add.
pub(crate) fn reported(reports: &[Report]) -> Failed {
    for report in reports {
        out::say(&report.human(true));
    }
    Failed::Report(String::new())
}
