//! A session as a story: the messages, and between it what happened and what was decided.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use crate::engine::{DirectiveKind, Event, Note, Record, ToolOutcome};
use crate::host::Observer;
use crate::session::Message;
use crate::store::{SessionId, StoreError};

use super::open_store::OpenStore;
use crate::cli::status::StatusLine;
use crate::cli::timeline::RunTimeline;

/// A piece of the story.
pub(super) enum TranscriptPiece {
    /// What happened, or was decided: styled lines as a run shows them.
    Decided(String),
    /// The messages.
    Said(Message),
    /// The log cannot be read on.
    Damaged(String),
}

/// What a timeline prints.
#[derive(Clone, Default)]
struct TimelinePaper(Arc<Mutex<Vec<u8>>>);

/// Reads the story of a session, piece by piece. With `why`, each decision with the lines of the policy that made it.
pub(super) fn read(
    store: &OpenStore,
    id: &SessionId,
    why: bool,
) -> Result<impl Iterator<Item = TranscriptPiece>, StoreError> {
    let paper = TimelinePaper::default();
    let mut timeline = RunTimeline::new(paper.clone(), StatusLine::none(), !why);
    let records = store.read(id)?;
    Ok(records.flat_map(move |record| match record {
        Ok(record) => step(record, &mut timeline, &paper),
        Err(error) => vec![TranscriptPiece::Damaged(error.to_string())],
    }))
}

fn step(
    record: Record,
    timeline: &mut RunTimeline<TimelinePaper>,
    paper: &TimelinePaper,
) -> Vec<TranscriptPiece> {
    let mut pieces = Vec::new();
    match record {
        Record::Event(envelope) => {
            let told = match &envelope.event {
                // These are followed by the all messages.
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
                if let DirectiveKind::Note(Note::Append { message }) = directive.order {
                    pieces.push(TranscriptPiece::Said(message));
                }
            }
        }
        Record::Session(_) | Record::State { .. } => {}
    }
    pieces
}

impl TimelinePaper {
    fn take(&self) -> Option<TranscriptPiece> {
        let bytes = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        (!bytes.is_empty()).then(|| TranscriptPiece::Decided(String::from_utf8_lossy(&bytes).into_owned()))
    }
}

impl Write for TimelinePaper {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
