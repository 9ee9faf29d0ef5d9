//! The lines of standard input, each of a bounded length.

use std::io::{self, BufRead, Read};

/// The most bytes of a line: a longer one is skipped, so that nobody can fill the memory with one.
pub(super) const MOST: usize = 16 << 20;
/// The most bytes of the first line of `step`, which may have a whole session.
pub(super) const MOST_OF_HELLO: usize = 64 << 20;

/// How much is kept of a line that is too long.
const HEAD: usize = 4 << 10;

/// A line that was read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum InputLine {
    /// Its bytes.
    Whole(Vec<u8>),
    /// It has more bytes than a line may have: the first of them.
    TooLong(Vec<u8>),
}

/// The next line that is not blank, and its number, from 1; `None` at the end of the input.
pub(super) fn next(input: &mut impl BufRead, number: &mut u64, most: usize) -> io::Result<Option<InputLine>> {
    loop {
        let mut line = Vec::new();
        let limit = u64::try_from(most).unwrap_or(u64::MAX).saturating_add(1);
        if input.by_ref().take(limit).read_until(b'\n', &mut line)? == 0 {
            return Ok(None);
        }
        *number += 1;
        if line.last() != Some(&b'\n') && line.len() > most {
            skip(input)?;
            line.truncate(HEAD);
            line.shrink_to_fit();
            return Ok(Some(InputLine::TooLong(line)));
        }
        if !line.trim_ascii().is_empty() {
            return Ok(Some(InputLine::Whole(line)));
        }
    }
}

/// Reads to the end of the line, and keeps nothing of it.
fn skip(input: &mut impl BufRead) -> io::Result<()> {
    loop {
        let read = input.fill_buf()?;
        if read.is_empty() {
            return Ok(());
        }
        let end = read.iter().position(|byte| *byte == b'\n');
        let used = end.map_or(read.len(), |at| at + 1);
        input.consume(used);
        if end.is_some() {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_is_too_long_is_skipped_and_the_next_one_is_read() {
        let mut input = &b"\n one \nfar too long\n12345\r\nlast"[..];
        let (mut number, mut read) = (0, Vec::new());
        while let Some(line) = next(&mut input, &mut number, 7).unwrap() {
            read.push((number, line));
        }
        let whole = |text: &str| InputLine::Whole(text.into());
        assert_eq!(
            read,
            [
                (2, whole(" one \n")),
                (3, InputLine::TooLong(b"far too ".to_vec())),
                (4, whole("12345\r\n")),
                (5, whole("last"))
            ]
        );
    }
}
