//! An answer in lines, laid out while its pieces come.

use crate::cli::text::misleads;

/// How many spaces a tabulator is.
const TAB: usize = 4;

/// What has come of an answer: whole lines are handed on, the last one grows.
#[derive(Debug)]
pub(crate) struct StreamedAnswer {
    /// The most columns of a line.
    width: usize,
    line: String,
    /// How many columns `line` takes.
    columns: usize,
}

impl StreamedAnswer {
    /// The beginning of an answer in lines of that width.
    pub(crate) const fn new(width: usize) -> Self {
        Self { width, line: String::new(), columns: 0 }
    }

    /// What follows goes into lines of that width.
    pub(crate) const fn resize(&mut self, width: usize) {
        self.width = width;
    }

    /// Takes the next piece. Returns the lines that are whole now. Control characters, and so terminal escapes, are shown
    /// as what they are.
    pub(crate) fn push(&mut self, piece: &str) -> Vec<String> {
        let mut whole = Vec::new();
        for c in piece.chars() {
            match c {
                '\n' => whole.push(self.end()),
                '\r' => {}
                '\t' => (0..TAB).for_each(|_| self.put(' ', &mut whole)),
                c if misleads(c) => c.escape_default().for_each(|c| self.put(c, &mut whole)),
                c => self.put(c, &mut whole),
            }
        }
        whole
    }

    /// The line that grows.
    pub(crate) fn line(&self) -> &str {
        &self.line
    }

    /// Ends the line that grows.
    pub(crate) fn end(&mut self) -> String {
        self.columns = 0;
        std::mem::take(&mut self.line).trim_end().to_owned()
    }

    fn put(&mut self, c: char, whole: &mut Vec<String>) {
        if self.columns + columns(c) > self.width {
            let rest = if c == ' ' { String::new() } else { self.begun(columns(c)) };
            whole.push(self.end());
            self.columns = rest.chars().map(columns).sum();
            self.line = rest;
            if c == ' ' {
                return;
            }
        }
        self.line.push(c);
        self.columns += columns(c);
    }

    /// Takes what was begun of a word from the line. A word that leaves no room for so many columns more is cut.
    fn begun(&mut self, more: usize) -> String {
        let word = self.line.rfind(' ').map_or(self.line.len(), |space| space + 1);
        let fits = |word: &str| word.chars().map(columns).sum::<usize>() + more <= self.width;
        if self.line.get(word..).is_some_and(fits) { self.line.split_off(word) } else { String::new() }
    }
}

/// How many columns a character takes.
fn columns(c: char) -> usize {
    crate::text::columns(c.encode_utf8(&mut [0; 4]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The lines of an answer that comes in these pieces.
    fn lines(width: usize, pieces: &[&str]) -> Vec<String> {
        let mut answer = StreamedAnswer::new(width);
        let mut lines: Vec<String> = pieces.iter().flat_map(|piece| answer.push(piece)).collect();
        lines.push(answer.end());
        lines
    }

    #[test]
    fn a_word_that_does_not_fit_begins_a_line_though_its_beginning_had_come() {
        assert_eq!(lines(10, &["one two th", "ree four"]), ["one two", "three four"]);
    }

    #[test]
    fn lines_follow_the_width_of_the_terminal() {
        let mut answer = StreamedAnswer::new(20);
        assert_eq!(answer.push("one two three "), Vec::<String>::new());
        answer.resize(10);
        assert_eq!(answer.push("four fifths"), ["one two three", "four"]);
        assert_eq!(answer.end(), "fifths");
    }

    #[test]
    fn lines_of_the_answer_stay() {
        assert_eq!(lines(10, &["a\r\n\n", "  b\n\tc"]), ["a", "", "  b", "    c"]);
    }

    #[test]
    fn a_word_that_fits_nowhere_is_cut() {
        assert_eq!(lines(4, &["abcdefghij k"]), ["abcd", "efgh", "ij k"]);
        assert_eq!(lines(4, &["日本語です"]), ["日本", "語で", "す"]);
    }

    #[test]
    fn escapes_are_shown_as_what_they_are() {
        assert_eq!(lines(40, &["a\u{1b}[2Jb"]), ["a\\u{1b}[2Jb"]);
    }

    proptest! {
        #[test]
        fn no_line_is_too_long_and_nothing_is_lost(text in "[ a-z日\n]{0,200}", width in 4usize..20, cut in 0usize..200) {
            let cut = text.char_indices().nth(cut).map_or(text.len(), |(at, _)| at);
            let lines = lines(width, &[&text[..cut], &text[cut..]]);
            for line in &lines {
                prop_assert!(line.chars().map(columns).sum::<usize>() <= width, "{line:?}");
            }
            let letters = |text: &str| text.chars().filter(|c| !c.is_whitespace()).collect::<String>();
            prop_assert_eq!(letters(&lines.concat()), letters(&text));
        }
    }
}
