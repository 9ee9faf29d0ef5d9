//! How wide text is where every character has its columns: some take two, some none.

use unicode_width::UnicodeWidthStr;

/// How many columns of a terminal a text takes.
pub(crate) fn columns(text: &str) -> usize {
    text.width()
}

/// The text with blanks up to that many columns.
pub(crate) fn padded(text: &str, width: usize) -> String {
    let mut padded = text.to_owned();
    padded.extend(core::iter::repeat_n(' ', width.saturating_sub(columns(text))));
    padded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_characters_take_two_columns() {
        assert_eq!(columns("tool"), 4);
        assert_eq!(columns("日本語"), 6);
        assert_eq!(padded("tool", 6), "tool  ");
        assert_eq!(padded("ツール", 7), "ツール ");
    }
}
