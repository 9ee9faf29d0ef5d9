//! Sentences are looked for in the start of a message, in lower case, and only if it holds a number at all.

/// The most of a message that is looked at.
// Providers put the numbers at the beginning, and a message may quote a whole request.
const MOST_CHARS: usize = 4096;
/// How many bytes are looked at for a digit at a time.
const STRIDE: usize = 64;
/// Up to this length the standard library looks for a text many bytes at a time.
const QUICK: usize = 32;

/// The start of a message in lower case; `None`: it holds no digit.
pub(in crate::engine) fn with_number(message: &str) -> Option<String> {
    // An early exit inside would keep the compiler from looking at many bytes at once; most messages hold no digit.
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

/// Whether a text holds a part. As `contains`, and quick for long parts too.
pub(in crate::engine) fn holds(text: &str, part: &str) -> bool {
    // The start is rare enough: the slow search runs only where it was found.
    part.get(..QUICK).is_none_or(|start| text.contains(start)) && text.contains(part)
}
