//! What the last run of a session came to. The log says it: what is kept beside it may be newer than a log that lost its
//! end.

use crate::engine::{DirectiveKind, Event, Note, Outcome, Record};
use crate::store::SessionId;

use super::failed;
use super::open_store::OpenStore;
use crate::cli::exit::CommandFailure;

/// How far the last run got.
pub(in crate::cli) enum LastRun {
    /// There was none.
    None,
    /// It has not ended.
    Open,
    /// It has ended.
    Over(Outcome),
}

impl LastRun {
    /// Reads the log.
    pub(in crate::cli) fn of(store: &OpenStore, id: &SessionId) -> Result<Self, CommandFailure> {
        let mut last = Self::None;
        for record in store.read(id).map_err(|error| failed(&error))? {
            match record.map_err(|error| failed(&error))? {
                Record::Event(envelope) if matches!(envelope.event, Event::RunStarted(_)) => {
                    last = Self::Open;
                }
                Record::Directives { list, .. } => {
                    for directive in list.0 {
                        if let DirectiveKind::Note(Note::Finish { outcome }) = directive.order {
                            last = Self::Over(outcome);
                        }
                    }
                }
                _ => {}
            }
        }
        Ok(last)
    }
}
