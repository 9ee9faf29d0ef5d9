//! Reading a log back, record by record, in bounded memory.

use std::io::{self, BufRead, Read};

use crate::engine::{Record, RecordError};

/// The longest line that is read.
pub(super) const MAX_LINE: u64 = 64 * 1024 * 1024;

/// Why a log cannot be read on.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The system cannot read it.
    #[error("cannot read on after line {after}: {source}")]
    Io {
        /// The last line that could be read.
        after: u64,
        /// What the system says.
        source: io::Error,
    },
    /// A line is no record.
    #[error("line {line}: {source}")]
    Damaged {
        /// 1-based line.
        line: u64,
        /// What is wrong with it.
        source: RecordError,
    },
}

/// The records of a log, in order; see [`read_log`].
#[derive(Debug)]
pub struct Records<R> {
    reader: R,
    line: u64,
    whole: u64,
    end: Option<End>,
}

/// How the log ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// With a whole record and its line end.
    Whole,
    /// With a whole record whose line end is missing.
    Unended,
    /// With a piece of a record.
    Torn,
    /// With a line that cannot be read.
    Damaged,
}

/// The records of a log. The first is the header. A last line that was cut off is left out without a word, as a
/// process that is killed leaves one; anything else that is no record ends the reading with an error.
///
/// ```
/// let log = br#"{"v":1,"kind":"session","format":1,"run":"r","policy":"p","created":0}
/// {"v":1,"kind":"state","seq":1,"ha"#;
/// let records: Vec<_> = unfazed::store::read_log(&log[..]).collect::<Result<_, _>>()?;
/// assert_eq!(records.len(), 1);
/// # Ok::<(), unfazed::store::ReadError>(())
/// ```
pub fn read_log<R: BufRead>(reader: R) -> Records<R> {
    Records { reader, line: 0, whole: 0, end: None }
}

impl<R: BufRead> Records<R> {
    /// How the log ended, once it has been read to its end.
    pub(super) fn end(&self) -> Option<End> {
        self.end
    }

    /// The bytes up to the end of the last whole record.
    pub(super) fn whole(&self) -> u64 {
        self.whole
    }

    fn read(&mut self) -> Result<Option<Record>, ReadError> {
        let mut line = Vec::new();
        let read = self.reader.by_ref().take(MAX_LINE).read_until(b'\n', &mut line);
        let length = read.map_err(|source| ReadError::Io { after: self.line, source })? as u64;
        if length == 0 {
            self.end = Some(if self.line == 0 { End::Torn } else { End::Whole });
            return if self.line == 0 { Err(self.damaged("it is empty")) } else { Ok(None) };
        }
        let ended = line.ends_with(b"\n");
        if !ended && length == MAX_LINE {
            return Err(self.damaged(&format!("it is longer than {MAX_LINE} bytes")));
        }
        let record = match Record::parse(&line) {
            Ok(record) => record,
            // The tail of a log that was cut off; but a log without a header is none.
            Err(RecordError::Malformed(_)) if !ended && self.line > 0 => {
                self.end = Some(End::Torn);
                return Ok(None);
            }
            Err(source) => return Err(ReadError::Damaged { line: self.line + 1, source }),
        };
        match (&record, self.line) {
            (Record::Session(_), 0) => {}
            (_, 0) => return Err(self.damaged("the log does not begin with a header")),
            (Record::Session(_), _) => return Err(self.damaged("there is a second header")),
            _ => {}
        }
        self.line += 1;
        self.whole += length;
        if !ended {
            self.end = Some(End::Unended);
        }
        Ok(Some(record))
    }

    fn damaged(&self, why: &str) -> ReadError {
        ReadError::Damaged { line: self.line + 1, source: RecordError::Malformed(why.to_owned()) }
    }
}

impl<R: BufRead> Iterator for Records<R> {
    type Item = Result<Record, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.end.is_some() {
            return None;
        }
        let next = self.read();
        if next.is_err() {
            self.end = Some(End::Damaged);
        }
        next.transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::LogHeader;
    use crate::time::Instant;

    fn log(states: u64) -> Vec<u8> {
        let mut lines = Vec::new();
        let header = Record::Session(LogHeader::new("run", "policy", Instant(0)));
        let states = (1..=states).map(|seq| Record::State { seq, hash: format!("hash {seq}") });
        for record in std::iter::once(header).chain(states) {
            record.as_ref().write_to(&mut lines).unwrap();
        }
        lines
    }

    fn error(log: &[u8]) -> String {
        read_log(log).find_map(Result::err).unwrap().to_string()
    }

    #[test]
    fn a_log_cut_anywhere_reads_up_to_the_last_whole_record() {
        let log = log(3);
        let header = log.iter().position(|byte| *byte == b'\n').unwrap();
        for cut in header..=log.len() {
            let mut records = read_log(&log[..cut]);
            let read = records.by_ref().map(Result::unwrap).count();
            let lines = log[..cut].split(|byte| *byte == b'\n').filter(|line| line.ends_with(b"}")).count();
            assert_eq!(read, lines, "cut at {cut}");
            assert!(records.whole() <= cut as u64);
        }
    }

    #[test]
    fn a_log_without_a_whole_header_is_none() {
        assert_eq!(error(b""), "line 1: it is not a record: it is empty");
        assert_eq!(
            error(br#"{"v":1,"kind":"ses"#),
            "line 1: it is not a record: EOF while parsing a string at line 1 column 18"
        );
        assert_eq!(
            error(br#"{"v":1,"kind":"state","seq":1,"hash":""}"#),
            "line 1: it is not a record: the log does not begin with a header"
        );
    }

    #[test]
    fn damage_in_the_middle_is_reported_and_ends_the_reading() {
        let mut log = log(1);
        log.extend(b"\0\0\0\n");
        log.extend(br#"{"v":1,"kind":"state","seq":2,"hash":""}"#);
        let mut records = read_log(&log[..]);
        assert!(records.by_ref().take(2).all(|record| record.is_ok()));
        assert!(records.next().unwrap().unwrap_err().to_string().starts_with("line 3: it is not a record"));
        assert!(records.next().is_none());
    }

    #[test]
    fn a_second_header_is_damage() {
        let twice = [log(0), log(0)].concat();
        assert_eq!(error(&twice), "line 2: it is not a record: there is a second header");
    }

    #[test]
    fn an_endless_line_is_refused() {
        let endless = io::BufReader::new(io::repeat(b'x'));
        let error = read_log(endless).find_map(Result::err).unwrap().to_string();
        assert_eq!(error, "line 1: it is not a record: it is longer than 67108864 bytes");
    }
}
