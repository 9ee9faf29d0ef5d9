//! A session as a story: what was said, and between it what happened and what was decided.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use unfazed::engine::{Event, Note, Order, Record, ToolOutcome};
use unfazed::host::Observer;
use unfazed::session::Message;
use unfazed::store::{SessionId, Store, StoreError};

use crate::cli::run::Timeline;
use crate::cli::status::Status;

/// A piece of the story.
pub(super) enum Piece {
    /// What happened, or was decided: styled lines as a run shows them.
    Decided(String),
    /// What was said.
    Said(Message),
    /// The log cannot be read on.
    Damaged(String),
}

/// What a timeline prints.
#[derive(Clone, Default)]
struct Paper(Arc<Mutex<Vec<u8>>>);

/// Reads the story of a session, piece by piece. With `why`, each decision with the lines of the policy that made it.
pub(super) fn read(
    store: &dyn Store,
    id: &SessionId,
    why: bool,
) -> Result<impl Iterator<Item = Piece>, StoreError> {
    let paper = Paper::default();
    let mut timeline = Timeline::new(paper.clone(), Status::none(), !why);
    let records = store.read(id)?;
    Ok(records.flat_map(move |record| match record {
        Ok(record) => step(record, &mut timeline, &paper),
        Err(error) => vec![Piece::Damaged(error.to_string())],
    }))
}

fn step(record: Record, timeline: &mut Timeline<Paper>, paper: &Paper) -> Vec<Piece> {
    let mut pieces = Vec::new();
    match record {
        Record::Event(envelope) => {
            let told = match &envelope.event {
                // These are followed by the whole of what was said.
                Event::ModelResponded { reply, .. } => !reply.calls.is_empty(),
                Event::ToolFinished { outcome, .. } => matches!(outcome, ToolOutcome::Failed { .. }),
                _ => true,
            };
            if told {
                timeline.event(&envelope);
            } else {
                timeline.at(envelope.now);
            }
            pieces.extend(paper.take());
        }
        Record::Directives { list, .. } => {
            for directive in list.0 {
                timeline.directive(&directive);
                pieces.extend(paper.take());
                if let Order::Note(Note::Append { message }) = directive.order {
                    pieces.push(Piece::Said(message));
                }
            }
        }
        Record::Session(_) | Record::State { .. } => {}
    }
    pieces
}

impl Paper {
    fn take(&self) -> Option<Piece> {
        let bytes = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        (!bytes.is_empty()).then(|| Piece::Decided(String::from_utf8_lossy(&bytes).into_owned()))
    }
}

impl Write for Paper {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
