//! A place in a text.

use serde::de::IgnoredAny;
use serde_json::{Deserializer, StreamDeserializer, de::StrRead};

/// What is left of a text. Methods that return `None` or `false` leave it as it was.
#[derive(Clone, Copy)]
pub(super) struct TextCursor<'t>(&'t str);

impl<'t> TextCursor<'t> {
    pub(super) const fn new(text: &'t str) -> Self {
        Self(text)
    }

    pub(super) const fn rest(self) -> &'t str {
        self.0
    }

    /// Skips `length` bytes and returns them.
    pub(super) fn skip(&mut self, length: usize) -> Option<&'t str> {
        let (skipped, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(skipped)
    }

    pub(super) fn skip_space(&mut self) {
        self.0 = self.0.trim_start();
    }

    /// Skips `mark`, if it comes next.
    pub(super) fn take(&mut self, mark: &str) -> bool {
        match self.0.strip_prefix(mark) {
            Some(rest) => {
                self.0 = rest;
                true
            }
            None => false,
        }
    }

    /// Skips everything up to `mark` and the mark, and returns what was before it.
    pub(super) fn until(&mut self, mark: &str) -> Option<&'t str> {
        let (before, rest) = self.0.split_once(mark)?;
        self.0 = rest;
        Some(before)
    }

    /// As [`until`](Self::until), but `mark` is at most 256 characters away.
    // A text of nothing but `<a ` must not be searched to its end for each of them.
    pub(super) fn until_near(&mut self, mark: &str) -> Option<&'t str> {
        let end = self.0.char_indices().nth(256).map_or(self.0.len(), |(at, _)| at);
        let at = self.0.get(..end)?.find(mark)?;
        let before = self.skip(at)?;
        self.take(mark);
        Some(before)
    }

    /// Skips the characters of a name, and returns it if it is not empty.
    // The names that OpenAI and Anthropic allow, and those of MCP servers with their dots and slashes.
    pub(super) fn name(&mut self) -> Option<&'t str> {
        let is_of_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '/');
        let end = self.0.find(|c| !is_of_name(c)).unwrap_or(self.0.len());
        if end == 0 { None } else { self.skip(end) }
    }

    /// Skips one value of strict JSON and returns its text.
    pub(super) fn json(&mut self) -> Option<&'t str> {
        self.skip_space();
        let mut values: StreamDeserializer<'_, StrRead<'_>, IgnoredAny> =
            Deserializer::from_str(self.0).into_iter();
        values.next()?.ok()?;
        let end = values.byte_offset();
        self.skip(end)
    }
}
