//! Tools that a server declares and that cannot be used as they are declared.

/// The most characters of a name or a message that are kept: both may hold what the server wrote.
const MOST_CHARS: usize = 300;

/// A tool of a server that is left out, or whose description is cut.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct McpToolIssue {
    /// What the server calls the tool.
    pub tool: String,
    /// Why.
    pub reason: McpIssueReason,
    /// The same in a sentence.
    pub message: String,
}

/// Why a tool is left out or cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, unfazed_macros::Named)]
#[non_exhaustive]
pub enum McpIssueReason {
    /// It declares no `inputSchema`.
    NoInputSchema,
    /// Its `inputSchema` is not a JSON Schema.
    InvalidInputSchema,
    /// Its `inputSchema` is too large.
    InputSchemaTooLarge,
    /// Its declaration is nested too deep.
    NestedTooDeep,
    /// Its declaration cannot be read.
    UnreadableDeclaration,
    /// The server has listed a tool of that name before.
    DuplicateName,
    /// Its description is too long, and cut. The only reason for which a tool is not left out.
    DescriptionTooLong,
}

impl McpIssueReason {
    /// Whether the tool is left out; otherwise its description is cut.
    pub const fn leaves_out(self) -> bool {
        !matches!(self, Self::DescriptionTooLong)
    }
}

impl McpToolIssue {
    pub(super) fn new(tool: &str, reason: McpIssueReason, message: &str) -> Self {
        Self { tool: bounded(tool), reason, message: bounded(message) }
    }
}

fn bounded(text: &str) -> String {
    match text.char_indices().nth(MOST_CHARS) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}
