//! The log of a session as bytes, as it would stand in a file: read piece by piece.

use std::io::{self, Read};
use std::sync::Arc;

use super::link::Link;
use crate::store::SessionId;

/// So many lines are read at once.
const PIECE: i64 = 64;

const READ: &str =
    "select seq, line from unfazed_record where session = $1 and seq >= $2 order by seq limit $3";

/// The lines of a log, one after the other.
pub(super) struct Lines {
    link: Arc<Link>,
    id: SessionId,
    /// The first line that has not been read.
    next: i64,
    piece: Vec<u8>,
    at: usize,
    ended: bool,
}

impl Lines {
    pub(super) const fn new(link: Arc<Link>, id: SessionId) -> Self {
        Self { link, id, next: 0, piece: Vec::new(), at: 0, ended: false }
    }

    fn read_on(&mut self) -> io::Result<()> {
        let values = vec![Box::new(self.id.to_string()) as _, Box::new(self.next) as _, Box::new(PIECE) as _];
        let rows = self.link.rows(READ, values).map_err(|trouble| io::Error::other(trouble.why))?;
        self.piece.clear();
        self.at = 0;
        self.ended = rows.is_empty();
        for row in rows {
            let (seq, line): (i64, String) = (row.get(0), row.get(1));
            if seq != self.next {
                return Err(io::Error::other(format!("line {} is missing", self.next + 1)));
            }
            self.next += 1;
            self.piece.extend(line.into_bytes());
            self.piece.push(b'\n');
        }
        Ok(())
    }
}

impl Read for Lines {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.at >= self.piece.len() && !self.ended {
            self.read_on()?;
        }
        let rest = self.piece.get(self.at..).unwrap_or_default();
        let count = rest.len().min(into.len());
        for (to, from) in into.iter_mut().zip(rest) {
            *to = *from;
        }
        self.at += count;
        Ok(count)
    }
}
