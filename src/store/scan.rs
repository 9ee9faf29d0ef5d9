//! Iterates over the lines of a log, and determines how it ends. Lines are read on demand.

use std::io::{BufRead, Read};

use super::error::ReadError;
use super::mend::{parse, without_zeros};
use crate::ErrorCause;
use crate::engine::{LineChecksum, MAX_LINE, Record, RecordError, verify};

/// The minimum number of zero bytes among text that counts as left by a crash, which destroys whole sectors.
const FEWEST_ZEROS: usize = 16;

/// A line of a log whose checksum was verified.
#[derive(Clone, Copy, Debug)]
pub struct VerifiedLine<'a> {
    kind: LineKind,
    json: &'a [u8],
}

/// The kind of a line, from its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineKind {
    /// The header.
    Session,
    /// An event.
    Event,
    /// Directives.
    Directives,
    /// The digest of the state.
    State,
}

/// How the log ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LogEnd {
    /// With a whole record and its line end.
    Whole,
    /// With a whole record whose line end is missing.
    Unended,
    /// With a piece of a record.
    Torn,
    /// With a line that cannot be read.
    Damaged,
}

/// The lines of a log.
#[derive(Debug)]
pub(super) struct LogScan<R> {
    reader: R,
    buffer: Vec<u8>,
    line: u64,
    whole: u64,
    appended: u64,
    end: Option<LogEnd>,
}

impl<R: BufRead> LogScan<R> {
    pub(super) const fn new(reader: R) -> Self {
        Self { reader, buffer: Vec::new(), line: 0, whole: 0, appended: 0, end: None }
    }

    /// How the log ends, once it was read completely.
    pub(super) const fn end(&self) -> Option<LogEnd> {
        self.end
    }

    /// The position of the end of the last whole record, in bytes.
    pub(super) const fn whole(&self) -> u64 {
        self.whole
    }

    /// The bytes up to the end of the last append that is whole: directives are written with the state they led to.
    pub(super) const fn appended(&self) -> u64 {
        self.appended
    }

    /// The next line, and what it is; `None`: there is none. A last line that was cut off is left out.
    pub(super) fn next(&mut self) -> Option<Result<VerifiedLine<'_>, ReadError>> {
        if self.end.is_some() {
            return None;
        }
        match self.advance() {
            Ok(Some(kind)) => Some(Ok(VerifiedLine { kind, json: without_zeros(&self.buffer) })),
            Ok(None) => None,
            Err(error) => {
                self.end = Some(LogEnd::Damaged);
                Some(Err(error))
            }
        }
    }

    /// The line that was read last cannot be understood.
    pub(super) fn damaged(&mut self, source: RecordError) -> ReadError {
        self.end = Some(LogEnd::Damaged);
        ReadError::Damaged { line: self.line, source }
    }

    fn advance(&mut self) -> Result<Option<LineKind>, ReadError> {
        let length = self.read_line()?;
        if length == 0 {
            self.end = Some(if self.line == 0 { LogEnd::Torn } else { LogEnd::Whole });
            return if self.line == 0 { Err(self.no_record("it is empty")) } else { Ok(None) };
        }
        let ended = self.buffer.ends_with(b"\n");
        let line = without_zeros(&self.buffer);
        // A whole record ends with `}`. What else follows it was its line end, of which a byte was changed.
        if !ended && !line.ends_with(b"}") && parse(line).is_ok() {
            return Err(ReadError::Damaged { line: self.line + 1, source: RecordError::Changed });
        }
        let kind = match kind(line) {
            // What a crash leaves behind must not be taken for a whole record.
            Some(kind) if ended && !line.contains(&0) => match verify(line) {
                Ok(LineChecksum::Matches) => kind,
                // Lines of this version always have a checksum, so one without was changed.
                Ok(LineChecksum::None) | Err(_) => {
                    return Err(ReadError::Damaged { line: self.line + 1, source: RecordError::Changed });
                }
            },
            _ => match parse(line) {
                Ok(record) => kind_of(&record),
                // A crash can leave half a line at the end of a log, and it is dropped. Half a header means there is
                // no session.
                Err(RecordError::Malformed(_)) if self.line > 0 && self.is_torn_here(ended)? => {
                    self.end = Some(LogEnd::Torn);
                    return Ok(None);
                }
                Err(source) => return Err(ReadError::Damaged { line: self.line + 1, source }),
            },
        };
        match (kind, self.line) {
            (LineKind::Session, 0) => {}
            (_, 0) => return Err(self.no_record("the log does not begin with a header")),
            (LineKind::Session, _) => return Err(self.no_record("there is a second header")),
            _ => {}
        }
        self.line += 1;
        self.whole += length;
        // Directives and the state they led to are one append, so directives alone at the end were cut off.
        if kind != LineKind::Directives {
            self.appended = self.whole;
        }
        if !ended {
            self.end = Some(LogEnd::Unended);
        }
        Ok(Some(kind))
    }

    /// Reads a line into the buffer. Returns how many bytes it has in the log.
    fn read_line(&mut self) -> Result<u64, ReadError> {
        self.buffer.clear();
        let mut length = 0;
        loop {
            let read = self.reader.by_ref().take(MAX_LINE).read_until(b'\n', &mut self.buffer);
            let read = read.map_err(|source| ReadError::Io { after: self.line, source })? as u64;
            length += read;
            if read < MAX_LINE || self.buffer.ends_with(b"\n") {
                return Ok(length);
            }
            // A file system may leave any number of zeros behind.
            if !without_zeros(&self.buffer).is_empty() {
                return Err(self.no_record(&format!("it is longer than {MAX_LINE} bytes")));
            }
            self.buffer.clear();
        }
    }

    /// Whether a line that cannot be read is where a crash has cut the log off: it has no end, or it has zero bytes in it
    /// and there is no record after it.
    fn is_torn_here(&mut self, ended: bool) -> Result<bool, ReadError> {
        if !ended {
            // A whole record and one byte more: that byte was its line end.
            let whole = self.buffer.split_last().map(|(_, line)| verify(without_zeros(line)));
            return Ok(whole != Some(Ok(LineChecksum::Matches)));
        }
        if !self.buffer.contains(&0) || has_lone_zeros(&self.buffer) {
            return Ok(false);
        }
        let line = std::mem::take(&mut self.buffer);
        let mut torn = true;
        while torn && self.read_line()? > 0 {
            // A whole record behind it means damage in the middle of the log, which must not be cut off.
            torn = parse(without_zeros(&self.buffer)).is_err();
        }
        self.buffer = line;
        Ok(torn)
    }

    fn no_record(&self, why: &str) -> ReadError {
        ReadError::Damaged { line: self.line + 1, source: RecordError::Malformed(ErrorCause::new(why)) }
    }
}

/// Whether a line of text has fewer zero bytes in a row than a crash leaves behind.
fn has_lone_zeros(line: &[u8]) -> bool {
    let text = line.iter().any(|byte| !matches!(byte, 0 | b'\n'));
    text && line.split(|byte| *byte != 0).any(|zeros| (1..FEWEST_ZEROS).contains(&zeros.len()))
}

/// What a line is, if it begins as lines of this version do.
fn kind(line: &[u8]) -> Option<LineKind> {
    let rest = line.strip_prefix(br#"{"v":2,"kind":""#)?;
    let kinds: [(&[u8], LineKind); 3] = [
        (b"event\",", LineKind::Event),
        (b"directives\",", LineKind::Directives),
        (b"state\",", LineKind::State),
    ];
    kinds.into_iter().find(|(name, _)| rest.starts_with(name)).map(|(_, kind)| kind)
}

const fn kind_of(record: &Record) -> LineKind {
    match record {
        Record::Session(_) => LineKind::Session,
        Record::Event(_) => LineKind::Event,
        Record::Directives { .. } => LineKind::Directives,
        Record::State { .. } => LineKind::State,
    }
}

impl<'a> VerifiedLine<'a> {
    /// The line of a record, as stores show it to [`Store::open_with`](super::Store::open_with).
    ///
    /// # Errors
    /// It is no record, or not as it was written.
    pub fn parse(json: &'a [u8]) -> Result<Self, RecordError> {
        parse(json).map(|record| Self { kind: kind_of(&record), json })
    }

    /// What it is.
    pub const fn kind(&self) -> LineKind {
        self.kind
    }

    /// The record as it was written: JSON.
    pub const fn json(&self) -> &'a [u8] {
        self.json
    }
}
