//! The log of a session: read, mended, folded and decided again.

use crate::engine::{Interpreter, Record, RecordLine, SessionFold, ToolCatalogue};
use crate::policy::Policy;
use crate::replay::Replay;
use crate::store::read_log;

/// What can be read of a log can be written and read again as the same. Whatever it says, it can be folded, and decided
/// again or not.
pub fn session_logs(data: &[u8]) {
    let mut lines = Vec::new();
    let mut records = Vec::new();
    let mut whole = true;
    for record in read_log(data) {
        match record {
            Ok(record) => {
                let line =
                    RecordLine::new(record.as_ref()).unwrap_or_else(|error| panic!("it was read: {error}"));
                lines.extend_from_slice(line.with_end().as_bytes());
                records.push(record);
            }
            Err(error) => {
                assert!(!error.to_string().is_empty(), "damage without a word");
                whole = false;
            }
        }
    }
    let again: Vec<Record> = read_log(lines.as_slice()).filter_map(Result::ok).collect();
    assert!(again == records, "what was read and written is read as something else");
    // A tail that was cut off changes nothing before it.
    lines.extend_from_slice(br#"{"v":1,"kind":"state","seq":"#);
    let torn = read_log(lines.as_slice()).filter_map(Result::ok).count();
    assert!(torn == records.len(), "a torn tail takes {} of {} records", records.len() - torn, records.len());
    let interpreter = Interpreter::new(Policy::builtin(), ToolCatalogue::default());
    let (mut fold, mut replay) = (SessionFold::new(), whole.then(|| Replay::new(Policy::builtin())));
    for record in records {
        if let Record::Event(envelope) = &record {
            fold.take(&interpreter, envelope.clone());
        }
        if replay.as_mut().is_some_and(|replay| replay.take(record).is_err()) {
            replay = None;
        }
    }
    let _ = (fold.into_parts(), replay.map(Replay::end));
}
