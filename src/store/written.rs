//! Records as they are written: only what every reader takes.

use super::scan::MAX_LINE;
use crate::engine::RecordRef;

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
    if depth(line) > MAX_DEPTH {
        return Err(format!("a record is nested deeper than {MAX_DEPTH} levels"));
    }
    Ok(())
}

/// How deep the brackets of one line of JSON are nested.
fn depth(line: &[u8]) -> usize {
    let (mut now, mut most, mut text, mut escaped) = (0_usize, 0, false, false);
    for byte in line {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if text => escaped = true,
            b'"' => text = !text,
            b'[' | b'{' if !text => {
                now += 1;
                most = most.max(now);
            }
            b']' | b'}' if !text => now = now.saturating_sub(1),
            _ => {}
        }
    }
    most
}
