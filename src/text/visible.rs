//! Text from files in messages of one line: nothing in it commands a terminal or begins a line of its own.

use core::fmt::Write as _;
use std::borrow::Cow;

/// The text with every character that is not seen, but does something, as an escape such as `\\u001b`.
pub(crate) fn visible(text: &str) -> Cow<'_, str> {
    if !text.contains(acts) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' => shown.push_str("\\n"),
            '\r' => shown.push_str("\\r"),
            '\t' => shown.push_str("\\t"),
            c if acts(c) => {
                // Writing into a string does not fail.
                let _ = write!(shown, "\\u{:04x}", u32::from(c));
            }
            c => shown.push(c),
        }
    }
    Cow::Owned(shown)
}

/// Control characters, breaks of lines and paragraphs, and what turns the direction of writing.
fn acts(c: char) -> bool {
    c.is_control()
        // Marks of direction can make a line read otherwise than it is ("Trojan Source", CVE-2021-42574).
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_acts_on_a_terminal_is_written_as_an_escape() {
        assert_eq!(visible("a\u{1b}[31m\nb"), "a\\u001b[31m\\nb");
        assert_eq!(visible("price in CHF"), "price in CHF");
    }
}
