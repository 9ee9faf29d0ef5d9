//! Recorded sessions as a scenario.

use std::fs::{self, File};
use std::io::BufReader;
use std::path::{Path, PathBuf};

use crate::cli::exit::CommandFailure;
use crate::cli::out;
use crate::cli::text::one_line;
use crate::policy::Policy;
use crate::store::read_log;
use crate::tune::{OpenSession, SessionSamples};

/// The scenario of all sessions in a folder, as a file. What cannot be read of a session is left out, said on standard error.
pub(super) fn scenario(folder: &Path, policy: &Policy) -> Result<String, CommandFailure> {
    let cannot = |error| CommandFailure::io(format!("cannot read {}", folder.display()), error);
    let entries = fs::read_dir(folder).map_err(cannot)?;
    let mut logs: Vec<PathBuf> =
        entries.map(|entry| Ok(entry?.path())).collect::<Result<_, _>>().map_err(cannot)?;
    logs.retain(|path| path.extension().is_some_and(|extension| extension == "jsonl"));
    logs.sort();
    let mut samples = SessionSamples::default();
    for path in &logs {
        let name = path.display().to_string();
        let file =
            File::open(path).map_err(|error| CommandFailure::io(format!("cannot read {name}"), error))?;
        let mut session = OpenSession::default();
        for record in read_log(BufReader::new(file)) {
            match record {
                Ok(record) => samples.take(&mut session, record, policy),
                Err(error) => {
                    out::say(&format!("warning: the rest of {} is left out: {error}\n", one_line(&name)));
                    break;
                }
            }
        }
    }
    samples.scenario(&folder.display().to_string()).ok_or_else(|| {
        CommandFailure::Usage(format!(
            "{} has no session with a run that called a model; `unfazed run --sessions DIR` records some",
            folder.display()
        ))
    })
}
