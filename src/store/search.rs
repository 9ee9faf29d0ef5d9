//! Looking for text in the messages of sessions. A log in which the text does not stand at all is not read as one.

use std::fs::{self, File};
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use regex::bytes::{Regex, RegexBuilder};

use super::read_log;
use crate::engine::{DirectiveKind, Note, Record};
use crate::session::Message;

/// The most threads that look.
const MOST_THREADS: usize = 8;

/// A text that is looked for in messages, in capital letters or not.
#[derive(Clone, Debug)]
pub(crate) struct TextQuery {
    /// As it is written in a message.
    text: Option<Regex>,
    /// As it is written in a log.
    written: Option<Regex>,
}

impl TextQuery {
    /// Looks for that text.
    pub(crate) fn new(text: &str) -> Self {
        // In a log the text is as JSON writes it, with escapes.
        let written = serde_json::to_string(text).unwrap_or_default();
        let written = written.trim_start_matches('"').strip_suffix('"').unwrap_or_default().to_owned();
        Self { text: literal(text), written: literal(&written) }
    }

    /// Whether that text contains it.
    pub(crate) fn is_in(&self, text: &str) -> bool {
        self.text.as_ref().is_some_and(|wanted| wanted.is_match(text.as_bytes()))
    }

    /// Which of the logs contain it. Those that cannot be read are passed over.
    pub(super) fn files(&self, logs: &[PathBuf]) -> Vec<bool> {
        // Logs differ in size, so each thread takes the next one and has no fixed share.
        let next = AtomicUsize::new(0);
        let threads =
            std::thread::available_parallelism().map_or(1, |threads| threads.get().min(MOST_THREADS));
        let found: Vec<usize> = std::thread::scope(|scope| {
            let look = || {
                let (mut found, mut bytes) = (Vec::new(), Vec::new());
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(log) = logs.get(index) else { return found };
                    if self.file(log, &mut bytes) {
                        found.push(index);
                    }
                }
            };
            let threads: Vec<_> = (0..threads).map(|_| scope.spawn(look)).collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap_or_default()).collect()
        });
        let mut all = vec![false; logs.len()];
        for index in found {
            all[index] = true;
        }
        all
    }

    fn file(&self, log: &Path, bytes: &mut Vec<u8>) -> bool {
        /// A larger log is read as one at once.
        const LARGE: u64 = 64 << 20;
        let Some(stat) = fs::metadata(log).ok().filter(fs::Metadata::is_file) else { return false };
        let Ok(mut file) = File::open(log) else { return false };
        if stat.len() > LARGE {
            return self.log(BufReader::new(file));
        }
        bytes.clear();
        file.by_ref().take(LARGE).read_to_end(bytes).is_ok()
            // Most logs do not have the text at all. Searching their bytes costs far less than reading their
            // records.
            && self.written.as_ref().is_some_and(|wanted| wanted.is_match(bytes))
            && self.log(bytes.as_slice())
    }

    fn log(&self, log: impl std::io::BufRead) -> bool {
        read_log(log).map_while(Result::ok).any(|record| self.is_in_record(&record))
    }

    /// Whether a message that the record adds contains it.
    pub(crate) fn is_in_record(&self, record: &Record) -> bool {
        let Record::Directives { list, .. } = record else { return false };
        list.0.iter().any(|directive| match &directive.order {
            DirectiveKind::Note(Note::Append { message }) => self.message(message),
            _ => false,
        })
    }

    /// Whether what the user, a model or a tool said contains it. Instructions are the same in every session.
    fn message(&self, message: &Message) -> bool {
        match message {
            Message::System { .. } => false,
            Message::User { text, .. } | Message::Tool { text, .. } => self.is_in(text),
            Message::Assistant { text, calls, .. } => {
                self.is_in(text) || calls.iter().any(|call| self.is_in(&call.arguments))
            }
        }
    }
}

/// The text itself, whatever it holds; `None`: it is too long to be looked for.
fn literal(text: &str) -> Option<Regex> {
    RegexBuilder::new(&regex::escape(text)).case_insensitive(true).build().ok()
}
