//! A session whose last run is over. A run that was killed as it ended may never have printed what it came to.

use crate::store::FsyncMode;
use serde_json::json;

use super::{RunFormat, closing, ended, print};
use crate::cli::exit::{CommandFailure, ExitStatus};
use crate::cli::out;
use crate::cli::sessions::{FoundSession, LastRun, failed};
use crate::cli::text::tokens;

/// Prints the outcome of the last run, and ends with its exit code.
pub(super) fn show(found: &FoundSession, format: RunFormat) -> Result<ExitStatus, CommandFailure> {
    let store = found.place.open(FsyncMode::Turn)?;
    let id = &found.id;
    let LastRun::Over(outcome) = LastRun::of(&store, id)? else {
        return Err(CommandFailure::Usage(format!(
            "no run of session {id} has ended; give it a task: unfazed run --resume {id} '...'"
        )));
    };
    let meta = store.info(id).map_err(|error| failed(&error))?.meta;
    let session = store.place_of(id);
    match format {
        RunFormat::Human => {
            let status = meta.status.name();
            out::say(&format!(
                "the last run of session {id} is over ({status}); it came to this. For another run give it a task: unfazed run \
                 --resume {id} '...'\n\n"
            ));
            let printed = print(&outcome, &[], None);
            out::say_raw(&format!(
                "turns    {}\ntokens   {}\n{}",
                meta.turns,
                tokens(meta.tokens),
                closing::session(&session, id.as_str())
            ));
            printed?;
        }
        RunFormat::Json => {
            let line = json!({
                "v": 1, "kind": "result", "outcome": outcome, "turns": meta.turns, "tokens": meta.tokens, "session": session,
            });
            out::raw(&format!("{line}\n"))?;
        }
    }
    Ok(ended::exit(&outcome))
}
