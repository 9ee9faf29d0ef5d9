//! The written form of a line of a session log. Only this module writes lines, so every line has a version and a
//! checksum and can be read again.

use serde::Serialize;

use super::depth::levels;
use super::directive::Directives;
use super::event::Envelope;
use super::log::{CHECKSUM, CLOSE, LogHeader, RECORD_VERSION, RecordRef, checksum};
use crate::ErrorCause;

/// The maximum length of a line in bytes; readers refuse longer ones.
pub(crate) const MAX_LINE: u64 = 64 * 1024 * 1024;
/// The maximum nesting of a record; readers refuse deeper ones.
// serde_json reads 128 levels (its recursion limit); the rest is for additions around a record in later versions.
const MAX_DEPTH: usize = 120;

/// A finished line of a session log: a record as JSON, with its version and its checksum.
///
/// A store keeps it as it is, and gives it back as it is.
///
/// ```
/// use unfazed::engine::{Record, RecordLine, RecordRef};
/// let line = RecordLine::new(RecordRef::State { seq: 7, hash: "beef" })?;
/// assert!(line.as_str().starts_with(r#"{"v":2,"kind":"state","seq":7,"#));
/// assert_eq!(Record::parse(line.as_str().as_bytes())?, Record::State { seq: 7, hash: "beef".into() });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordLine(String);

/// Why a record cannot be written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RecordLineError {
    /// The record is too long.
    #[error("a record is longer than {MAX_LINE} bytes")]
    TooLong,
    /// The record is nested too deep.
    #[error("a record is nested deeper than {MAX_DEPTH} levels")]
    TooDeep,
    /// The record cannot be represented as JSON.
    #[error(transparent)]
    NotJson(ErrorCause),
}

#[derive(Serialize)]
struct LineOut<'a> {
    v: u32,
    kind: &'static str,
    #[serde(flatten)]
    body: RecordBody<'a>,
}

/// The fields of a record. Only lines are serialized, never records without version and checksum.
#[derive(Serialize)]
#[serde(untagged)]
enum RecordBody<'a> {
    Session(&'a LogHeader),
    Event(&'a Envelope),
    Directives { seq: u64, policy: &'a str, list: &'a Directives },
    State { seq: u64, hash: &'a str },
}

impl RecordLine {
    /// Makes the line of a record.
    ///
    /// # Errors
    /// The record is too long or too deep to be read again, or cannot be represented as JSON.
    pub fn new(record: RecordRef<'_>) -> Result<Self, RecordLineError> {
        let (kind, body) = match record {
            RecordRef::Session(header) => ("session", RecordBody::Session(header)),
            RecordRef::Event(envelope) => ("event", RecordBody::Event(envelope)),
            RecordRef::Directives { seq, policy, list } => {
                ("directives", RecordBody::Directives { seq, policy, list })
            }
            RecordRef::State { seq, hash } => ("state", RecordBody::State { seq, hash }),
        };
        let mut line = serde_json::to_string(&LineOut { v: RECORD_VERSION, kind, body })
            .map_err(|error| RecordLineError::NotJson(error.into()))?;
        // The checksum is inside the object, so the closing brace is written after it.
        line.pop();
        let checksum = checksum(line.as_bytes());
        for part in [CHECKSUM, &checksum, CLOSE, "\n"] {
            line.push_str(part);
        }
        if u64::try_from(line.len()).is_ok_and(|length| length >= MAX_LINE) {
            return Err(RecordLineError::TooLong);
        }
        if levels(line.as_bytes()) > MAX_DEPTH {
            return Err(RecordLineError::TooDeep);
        }
        Ok(Self(line))
    }

    /// The nesting of a JSON text, counted without parsing. Brackets within strings do not count.
    pub fn levels(text: &[u8]) -> usize {
        levels(text)
    }

    /// The line without its line end.
    pub fn as_str(&self) -> &str {
        self.0.trim_end()
    }

    /// The line with its line end.
    pub fn with_end(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Event, RunFacts, ToolOutcome, WorkId};
    use super::*;
    use crate::engine::Record;
    use crate::time::Instant;
    use serde_json::{Value, json};

    /// A record with so many levels.
    fn deep(levels: usize) -> Result<RecordLine, RecordLineError> {
        // The record, its outcome and its data are three.
        let data = (3..levels).fold(json!(1), |inner, _| Value::Array(vec![inner]));
        let outcome = ToolOutcome::Ok { data: json!({ "data": data }) };
        let event = Event::ToolFinished { work: WorkId(1), outcome, run: RunFacts::default() };
        RecordLine::new(RecordRef::Event(&Envelope { seq: 1, now: Instant(0), event }))
    }

    #[test]
    fn the_deepest_line_that_is_made_can_be_read() {
        let line = deep(MAX_DEPTH).unwrap();
        assert_eq!(levels(line.as_str().as_bytes()), MAX_DEPTH);
        assert!(Record::parse(line.as_str().as_bytes()).is_ok());
        let error = deep(MAX_DEPTH + 1).unwrap_err();
        assert_eq!(error.to_string(), "a record is nested deeper than 120 levels");
    }

    #[test]
    fn a_line_too_long_to_be_read_again_is_not_made() {
        let hash = "h".repeat(64 * 1024 * 1024);
        let error = RecordLine::new(RecordRef::State { seq: 1, hash: &hash }).unwrap_err();
        assert_eq!(error.to_string(), "a record is longer than 67108864 bytes");
    }
}
