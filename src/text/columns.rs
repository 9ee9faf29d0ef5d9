//! How wide text is where every character has its columns: some take two, some none.

use unicode_width::UnicodeWidthStr;

/// How many columns of a terminal a text takes.
///
/// ```
/// use unfazed::text::columns;
/// assert_eq!(columns("tool"), 4);
/// assert_eq!(columns("日本語"), 6);
/// ```
pub fn columns(text: &str) -> usize {
    text.width()
}

/// The text with blanks up to that many columns.
///
/// ```
/// use unfazed::text::padded;
/// assert_eq!(padded("tool", 6), "tool  ");
/// assert_eq!(padded("ツール", 7), "ツール ");
/// ```
pub fn padded(text: &str, width: usize) -> String {
    let mut padded = text.to_owned();
    padded.extend(core::iter::repeat_n(' ', width.saturating_sub(columns(text))));
    padded
}
