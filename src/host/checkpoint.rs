//! Where a session stood when its log ended.

use crate::engine::{DriveMode, Envelope, Event, RunTool, State, ToolFacts, Work};
use crate::session::Message;

/// Where a session stood when its log ended. Nothing, if it is new.
#[derive(Debug, Default)]
pub struct SessionCheckpoint {
    /// The state.
    pub state: State,
    /// The conversation.
    pub messages: Vec<Message>,
    /// The work that was begun and has no answer, in the order in which it was asked for.
    pub open: Vec<Work>,
    /// An event that is in the log, and about which nothing was decided yet.
    pub untaken: Option<Envelope>,
    /// Digest of the policy that decided last; empty: none did.
    pub policy: String,
    /// The tools as the log tells them last.
    pub tools: Vec<ToolFacts>,
}

/// Whether these are the same tools in the same order: what was written down of each does not matter.
pub(crate) fn same_tools(before: &[ToolFacts], now: &[ToolFacts]) -> bool {
    // By their digests: sessions of earlier versions have no schemas, and their tools are the same all the same.
    before.iter().map(|tool| &tool.digest).eq(now.iter().map(|tool| &tool.digest))
}

impl SessionCheckpoint {
    /// Whether there is no run to continue with.
    pub fn is_over(&self) -> bool {
        self.untaken.is_none() && (self.state.run.is_empty() || self.state.is_over())
    }

    /// Whether the run to continue with is driven by a host with a loop of its own.
    pub fn is_driven(&self) -> bool {
        let drive = match &self.untaken {
            Some(Envelope { event: Event::RunStarted(started), .. }) => started.drive,
            _ => self.state.drive(),
        };
        !self.is_over() && drive == DriveMode::Calls
    }

    /// The tools that were running when the log ended: it is unknown what they did.
    pub fn unknown(&self) -> impl Iterator<Item = &RunTool> {
        self.open.iter().filter_map(|work| match work {
            Work::RunTool(run) => Some(run),
            _ => None,
        })
    }
}
