//! What a process prints, in bounded memory: the beginning of its output, the end of its complaints.

use std::collections::VecDeque;

use tokio::io::{AsyncRead, AsyncReadExt};

/// Reads to the end, piece by piece.
pub(in crate::host::tool) async fn drain<R: AsyncRead + Unpin>(pipe: Option<R>, mut each: impl FnMut(&[u8])) {
    let Some(mut pipe) = pipe else { return };
    let mut buffer = vec![0; 16 * 1024];
    while let Ok(read) = pipe.read(&mut buffer).await {
        if read == 0 {
            return;
        }
        each(&buffer[..read]);
    }
}

/// The first bytes, and how many there were in all.
pub(in crate::host::tool) struct CaptureHead {
    bytes: Vec<u8>,
    most: usize,
    seen: u64,
}

/// The last bytes.
pub(in crate::host::tool) struct CaptureTail {
    bytes: VecDeque<u8>,
    most: usize,
}

impl CaptureHead {
    pub(in crate::host::tool) fn new(most: usize) -> Self {
        Self { bytes: Vec::new(), most, seen: 0 }
    }

    pub(in crate::host::tool) fn push(&mut self, bytes: &[u8]) {
        let room = self.most.saturating_sub(self.bytes.len()).min(bytes.len());
        self.bytes.extend_from_slice(&bytes[..room]);
        self.seen = self.seen.saturating_add(bytes.len() as u64);
    }

    /// All that was kept. Bytes that are no UTF-8 are shown as U+FFFD.
    pub(in crate::host::tool) fn text(&self) -> String {
        let whole = if self.cut().is_some() { whole_chars(&self.bytes) } else { &self.bytes };
        String::from_utf8_lossy(whole).into_owned()
    }

    /// The last of what was kept.
    pub(in crate::host::tool) fn last(&self, most: usize) -> String {
        let mut tail = CaptureTail::new(most);
        tail.push(&self.bytes);
        tail.text()
    }

    /// How many bytes there were.
    pub(super) const fn seen(&self) -> u64 {
        self.seen
    }

    /// How many bytes were kept of how many, if not all were.
    pub(in crate::host::tool) fn cut(&self) -> Option<(usize, u64)> {
        (self.seen > self.bytes.len() as u64).then_some((self.bytes.len(), self.seen))
    }
}

impl CaptureTail {
    pub(in crate::host::tool) fn new(most: usize) -> Self {
        Self { bytes: VecDeque::new(), most }
    }

    pub(in crate::host::tool) fn push(&mut self, bytes: &[u8]) {
        let bytes = &bytes[bytes.len().saturating_sub(self.most)..];
        let over = (self.bytes.len() + bytes.len()).saturating_sub(self.most);
        self.bytes.drain(..over);
        self.bytes.extend(bytes);
    }

    /// What was kept, without the white space around it.
    pub(in crate::host::tool) fn text(&self) -> String {
        // A character that the cut went through is left out.
        let bytes = self.bytes.iter().copied();
        let bytes: Vec<u8> = if self.bytes.len() < self.most {
            bytes.collect()
        } else {
            bytes.skip_while(|byte| byte & 0b1100_0000 == 0b1000_0000).collect()
        };
        String::from_utf8_lossy(&bytes).trim().to_owned()
    }
}

/// Without the character at the end that the cut went through, if it did.
fn whole_chars(bytes: &[u8]) -> &[u8] {
    for back in 1..=bytes.len().min(3) {
        let at = bytes.len() - back;
        let needed = match bytes[at] {
            0b1100_0000..=0b1101_1111 => 2,
            0b1110_0000..=0b1110_1111 => 3,
            0b1111_0000..=0b1111_0111 => 4,
            0b1000_0000..=0b1011_1111 => continue,
            _ => return bytes,
        };
        return if needed > back { &bytes[..at] } else { bytes };
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_head_keeps_the_first_bytes_and_counts_all() {
        let mut head = CaptureHead::new(5);
        for piece in ["abc", "def", "ghi"] {
            head.push(piece.as_bytes());
        }
        assert_eq!((head.text(), head.cut()), ("abcde".to_owned(), Some((5, 9))));
        assert_eq!(head.last(2), "de");
    }

    #[test]
    fn the_tail_keeps_the_last_bytes() {
        let mut tail = CaptureTail::new(5);
        for piece in ["abc", "def", "a longer piece"] {
            tail.push(piece.as_bytes());
        }
        assert_eq!(tail.text(), "piece");
    }

    #[test]
    fn a_cut_leaves_no_broken_character() {
        for most in 0..=8 {
            let (mut head, mut tail) = (CaptureHead::new(most), CaptureTail::new(most));
            for pipe in ["ü€", "😀x"] {
                head.push(pipe.as_bytes());
                tail.push(pipe.as_bytes());
            }
            assert!(!head.text().contains('\u{fffd}'), "{most}: {}", head.text());
            assert!(!tail.text().contains('\u{fffd}'), "{most}: {}", tail.text());
        }
    }
}
