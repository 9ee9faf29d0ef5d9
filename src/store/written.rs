//! Records as they are written: only what every reader takes.

use super::scan::MAX_LINE;
use crate::engine::{RecordRef, levels};

/// The deepest JSON that is written: readers refuse what is deeper.
pub(super) const MAX_DEPTH: usize = 120;

/// Adds the line of a record. After an error, which says why, the lines may hold a part of it.
pub(super) fn add(record: RecordRef<'_>, lines: &mut Vec<u8>) -> Result<(), String> {
    let start = lines.len();
    record.write_to(lines).map_err(|error| error.to_string())?;
    // What no reader would take must not get into the log.
    let line = lines.get(start..).unwrap_or_default();
    if line.len() as u64 >= MAX_LINE {
        return Err(format!("a record is longer than {MAX_LINE} bytes"));
    }
    if levels(line) > MAX_DEPTH {
        return Err(format!("a record is nested deeper than {MAX_DEPTH} levels"));
    }
    Ok(())
}
