//! Foreign text on a terminal: one line, no control characters, a bounded length.

use unfazed::session::Usage;
use unfazed::time::Nanos;

/// The text in one line. Control characters, and so terminal escapes, are shown as what they are.
pub(crate) fn one_line(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.trim().chars() {
        match c {
            '\n' | '\r' | '\t' => {
                if !out.ends_with(' ') {
                    out.push(' ');
                }
            }
            c if misleads(c) => out.extend(c.escape_default()),
            c => out.push(c),
        }
    }
    out
}

/// The text with its lines. Other control characters, and so terminal escapes, are shown as what they are.
pub(crate) fn visible(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if misleads(c) && !matches!(c, '\n' | '\t') {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
    }
    out
}

/// Whether a terminal would do something else with it than show it: control characters, and those that turn the direction
/// of text, behind which other text can be made to look as if it stood elsewhere.
pub(crate) fn misleads(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Text as XML holds it. XML 1.0 has no way to write most control characters.
pub(crate) fn xml(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\n' | '\t' => out.push(c),
            '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            c if c.is_control() => out.extend(c.escape_default()),
            c => out.push(c),
        }
    }
    out
}

/// At most `most` characters of the text.
pub(crate) fn shorten(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

/// A delay as people read it: nothing finer than a millisecond, unless there is nothing else.
pub(crate) fn delay(delay: Nanos) -> String {
    const MILLI: u64 = 1_000_000;
    match delay.0 {
        nanos if nanos < MILLI => delay.to_string(),
        nanos => Nanos::from_millis(nanos.saturating_add(MILLI / 2) / MILLI).to_string(),
    }
}

/// Tokens, with those that a cache had.
pub(crate) fn tokens(usage: Usage) -> String {
    let Usage { input, output, cache_read, .. } = usage;
    let cached = if cache_read > 0 { format!(" ({cache_read} cached)") } else { String::new() };
    format!("{input} in{cached}, {output} out")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_of_foreign_text_do_not_reach_the_terminal() {
        assert_eq!(one_line("a\u{1b}[2Jb\r\n\n c"), "a\\u{1b}[2Jb  c");
    }

    #[test]
    fn lines_stay_and_escapes_are_shown() {
        assert_eq!(visible("a\n\tb\u{1b}]0;x\u{7}\u{9b}"), "a\n\tb\\u{1b}]0;x\\u{7}\\u{9b}");
    }

    #[test]
    fn text_cannot_be_turned_round() {
        assert_eq!(visible("pay \u{202e}001\u{2066} in"), "pay \\u{202e}001\\u{2066} in");
        assert_eq!(one_line("שלום\u{200f}"), "שלום\\u{200f}");
    }

    #[test]
    fn delays_are_shown_in_milliseconds() {
        assert_eq!(delay(Nanos(982_887_852)), "983ms");
        assert_eq!(delay(Nanos(2_384_183_874)), "2.384s");
        assert_eq!(delay(Nanos(1_500)), "1500ns");
    }

    #[test]
    fn long_text_is_cut_between_characters() {
        assert_eq!(shorten("äöü", 2), "äö…");
        assert_eq!(shorten("äöü", 3), "äöü");
    }

    #[test]
    fn what_xml_cannot_hold_is_written_otherwise() {
        assert_eq!(xml("a<b & \"c\"\u{1b}[0m"), "a&lt;b &amp; &quot;c&quot;\\u{1b}[0m");
    }
}
