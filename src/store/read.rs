//! Reads a log, record by record, in bounded memory.

use std::io::BufRead;

use super::error::ReadError;
use super::mend::parse;
use super::scan::LogScan;
use crate::engine::Record;

/// The records of a log, in order; see [`read_log`].
#[derive(Debug)]
pub struct LogRecords<R> {
    scan: LogScan<R>,
}

/// The records of a log. The first is the header. A last line that was cut off, or zeros that a crash has left at the
/// end, are ignored; any other invalid line ends the reading with an error.
///
/// ```
/// let log = br#"{"v":1,"kind":"session","format":1,"run":"r","policy":"p","created":0}
/// {"v":1,"kind":"state","seq":1,"ha"#;
/// let records: Vec<_> = unfazed::store::read_log(&log[..]).collect::<Result<_, _>>()?;
/// assert_eq!(records.len(), 1);
/// # Ok::<(), unfazed::store::ReadError>(())
/// ```
pub fn read_log<R: BufRead>(reader: R) -> LogRecords<R> {
    LogRecords { scan: LogScan::new(reader) }
}

impl<R: BufRead> Iterator for LogRecords<R> {
    type Item = Result<Record, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        let parsed = match self.scan.next()? {
            Ok(line) => parse(line.json()),
            Err(error) => return Some(Err(error)),
        };
        Some(parsed.map_err(|source| self.scan.damaged(source)))
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::super::scan::LogEnd;
    use super::*;
    use crate::engine::{LogHeader, RecordLine};
    use crate::time::Instant;

    fn log(states: u64) -> Vec<u8> {
        let mut lines = Vec::new();
        let header = Record::Session(LogHeader::new("run", "policy", Instant(0)));
        let states = (1..=states).map(|seq| Record::State { seq, hash: format!("hash {seq}") });
        for record in std::iter::once(header).chain(states) {
            lines.extend_from_slice(RecordLine::new(record.as_ref()).unwrap().with_end().as_bytes());
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
            assert!(records.scan.whole() <= cut as u64);
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
    fn zeros_that_a_crash_has_left_at_the_end_are_left_out() {
        // A crash destroys whole sectors of a line of text.
        let sector = [&b"{\"v\":1,"[..], &[0; 512], b"\"hash\":\"\"}\n"].concat();
        for end in [&b"\0\0\0"[..], b"\0\0\n", &sector, b"\0\n\0\0\n{\"v\""] {
            let log = [&log(2)[..], end].concat();
            let mut records = read_log(&log[..]);
            assert_eq!(records.by_ref().map(Result::unwrap).count(), 3, "{end:?}");
            assert_eq!(records.scan.end(), Some(LogEnd::Torn));
        }
    }

    #[test]
    fn zeros_before_a_record_are_passed_over() {
        let mut log = log(1);
        log.extend(b"\0\0{\"v\":1,\"kind\":\"state\",\"seq\":2,\"hash\":\"\"}\n");
        assert_eq!(read_log(&log[..]).map(Result::unwrap).count(), 3);
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
