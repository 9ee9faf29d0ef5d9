//! Prepares messages for a search for sentences: only the start, in lower case, and only if it contains a digit.

/// The maximum length of the searched start, in characters.
// Providers put the numbers first, and a message may quote a whole request.
const MOST_CHARS: usize = 4096;
/// The number of bytes searched for a digit at once.
const STRIDE: usize = 64;
/// The maximum length in bytes for which the standard library's search is vectorized.
const QUICK: usize = 32;

/// The start of a message in lower case; `None`: it contains no digit.
pub(in crate::engine) fn with_number(message: &str) -> Option<String> {
    // An early exit within a chunk would prevent vectorization; most messages contain no digit.
    let digit = |bytes: &[u8]| bytes.iter().fold(false, |found, byte| found | byte.is_ascii_digit());
    if !message.as_bytes().chunks(STRIDE).any(digit) {
        return None;
    }
    let end = match message.len() {
        0..=MOST_CHARS => message.len(),
        length => message.char_indices().nth(MOST_CHARS).map_or(length, |(end, _)| end),
    };
    Some(message.get(..end)?.to_ascii_lowercase())
}

/// Whether `text` contains `part`. Like `contains`, but fast for long parts too.
pub(in crate::engine) fn holds(text: &str, part: &str) -> bool {
    // The start is rare, so the slow search seldom runs.
    part.get(..QUICK).is_none_or(|start| text.contains(start)) && text.contains(part)
}
