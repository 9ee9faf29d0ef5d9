//! The log of a session as bytes, as it would stand in a file: read piece by piece, on a thread that may block.

use std::io::{self, Read};

use tokio::runtime::Handle;

use super::link::DatabaseLink;
use crate::store::SessionId;

/// So many lines are read at once.
const PIECE: i64 = 64;

const READ: &str =
    "select seq, line from unfazed_record where session = $1 and seq >= $2 order by seq limit $3";

/// The lines of a log, one after the other.
pub(super) struct LogLines {
    link: DatabaseLink,
    /// Of the runtime whose connections are used.
    runtime: Handle,
    id: SessionId,
    /// The first line that has not been read.
    next: i64,
    piece: Vec<u8>,
    at: usize,
    ended: bool,
}

impl LogLines {
    pub(super) fn new(link: DatabaseLink, id: SessionId) -> Self {
        Self { link, runtime: Handle::current(), id, next: 0, piece: Vec::new(), at: 0, ended: false }
    }

    fn read_on(&mut self) -> io::Result<()> {
        let values = vec![Box::new(self.id.to_string()) as _, Box::new(self.next) as _, Box::new(PIECE) as _];
        let rows = self.runtime.block_on(self.link.rows(READ, values)).map_err(io::Error::other)?;
        self.piece.clear();
        self.at = 0;
        self.ended = rows.is_empty();
        for row in rows {
            let (seq, line): (i64, String) = (row.get(0), row.get(1));
            // A gap would make the rest of the log look sound.
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

impl Read for LogLines {
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
