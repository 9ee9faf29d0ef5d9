//! How much of a streamed answer has come.

/// What has come of a streamed answer.
#[derive(Debug, Default)]
pub(crate) struct StreamTally {
    /// How many characters of text, of reasoning and of tool calls have come.
    pub(crate) received: u64,
    /// About how many bytes are kept of what has come.
    pub(crate) kept: usize,
    /// Whether a call of a tool has begun.
    pub(crate) has_calls: bool,
    /// The text that has come since it was taken last.
    pub(crate) fresh: String,
}
