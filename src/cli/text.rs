//! Foreign text on a terminal: one line, no control characters, a bounded length.

use crate::session::Usage;
use crate::text::columns;
use crate::time::Nanos;

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

/// The beginning of a text that fits into so many columns.
pub(crate) fn fit(text: &str, most: usize) -> String {
    if columns(text) <= most {
        return text.to_owned();
    }
    let mut fitting = String::new();
    let mut left = most.saturating_sub(1);
    for c in text.chars() {
        let Some(rest) = left.checked_sub(columns(c.encode_utf8(&mut [0; 4]))) else { break };
        left = rest;
        fitting.push(c);
    }
    if most > 0 {
        fitting.push('…');
    }
    fitting
}

/// A styled line in lines of at most `width` columns: it breaks between words, and in a word that alone is wider. The lines
/// after the first begin with `margin`.
pub(crate) fn wrap(line: &str, width: usize, margin: &str) -> String {
    let mut wrapped = WrappedText { text: String::new(), at: 0, has_words: false, width, margin };
    let (mut word, mut blanks) = (String::new(), 0);
    for c in line.chars() {
        if c == ' ' && !is_in_escape(&word) {
            wrapped.word(&std::mem::take(&mut word), &mut blanks);
            blanks += 1;
        } else {
            word.push(c);
        }
    }
    wrapped.word(&word, &mut blanks);
    wrapped.text
}

struct WrappedText<'a> {
    text: String,
    /// The columns of the last line.
    at: usize,
    /// Whether there is a word on it.
    has_words: bool,
    width: usize,
    margin: &'a str,
}

impl WrappedText<'_> {
    /// Adds a word behind so many blanks, which are left out where a line ends.
    fn word(&mut self, word: &str, blanks: &mut usize) {
        let wide = columns(&anstream::adapter::strip_str(word).to_string());
        if wide == 0 {
            self.text.push_str(word);
            return;
        }
        if self.at + *blanks + wide > self.width && self.has_words {
            self.next_line();
        } else {
            self.text.extend(std::iter::repeat_n(' ', *blanks));
            self.at += *blanks;
        }
        *blanks = 0;
        self.has_words = true;
        if self.at + wide <= self.width {
            self.text.push_str(word);
            self.at += wide;
            return;
        }
        let mut escape = false;
        for c in word.chars() {
            escape |= c == '\u{1b}';
            let wide = if escape { 0 } else { columns(c.encode_utf8(&mut [0; 4])) };
            escape &= c != 'm';
            if self.at + wide > self.width && self.at > columns(self.margin) {
                self.next_line();
            }
            self.text.push(c);
            self.at += wide;
            self.has_words = true;
        }
    }

    fn next_line(&mut self) {
        self.text.push('\n');
        self.text.push_str(self.margin);
        self.at = columns(self.margin);
        self.has_words = false;
    }
}

/// Whether a style has begun in the word and not ended.
fn is_in_escape(word: &str) -> bool {
    word.rfind('\u{1b}').is_some_and(|at| !word[at..].contains('m'))
}

/// A delay as people read it, in three digits.
pub(crate) fn delay(delay: Nanos) -> String {
    delay.rounded().to_string()
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
    fn a_line_is_wrapped_between_words_whatever_its_style() {
        let line = "  1.5s  \u{1b}[1mwaits\u{1b}[0m for model main; then attempt 2";
        assert_eq!(wrap(line, 80, "    "), line);
        let wrapped = wrap(line, 24, "        ");
        assert_eq!(
            wrapped,
            "  1.5s  \u{1b}[1mwaits\u{1b}[0m for model\n        main; then\n        attempt 2"
        );
        assert_eq!(wrap("abcdefghij", 4, " "), "abcd\n efg\n hij");
        // A word that is as long as the margin is a word all the same.
        assert_eq!(wrap("  calc                12", 20, "      "), "  calc\n      12");
        assert_eq!(wrap("abcdef      12", 5, " "), "abcde\n f\n 12");
        assert_eq!(wrap("日本語 日本", 6, ""), "日本語\n日本");
    }

    #[test]
    fn a_text_is_cut_to_its_columns() {
        assert_eq!(
            (fit("日本語", 6), fit("日本語", 5), fit("abc", 0)),
            ("日本語".into(), "日本…".into(), String::new())
        );
    }

    #[test]
    fn delays_are_shown_in_three_digits() {
        assert_eq!(delay(Nanos(982_887_852)), "983ms");
        assert_eq!(delay(Nanos(2_384_183_874)), "2.38s");
        assert_eq!(delay(Nanos(1_500)), "1500ns");
    }

    #[test]
    fn what_xml_cannot_hold_is_written_otherwise() {
        assert_eq!(xml("a<b & \"c\"\u{1b}[0m"), "a&lt;b &amp; &quot;c&quot;\\u{1b}[0m");
    }
}
