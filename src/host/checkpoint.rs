//! Where a session stood when its log ended.

use serde::Deserialize;

use crate::engine::{DriveMode, Envelope, Event, Interpreter, RunTool, State, ToolFacts, Work};
use crate::session::Message;

/// Where a session stood when its log ended. Nothing, if it is new.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
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

/// What the interpreter does not know yet: that its policy, or its tools, are others than those that decided last.
pub(crate) fn rule_changes(
    interpreter: &Interpreter,
    policy: &str,
    tools: &[ToolFacts],
) -> impl Iterator<Item = Event> + use<> {
    let now = interpreter.policy().digest();
    let policy =
        (!policy.is_empty() && policy != now).then(|| Event::PolicyChanged { policy: now.to_owned() });
    let now: Vec<ToolFacts> = interpreter.tools().iter().map(ToolFacts::from).collect();
    let tools = (!same_tools(&now, tools)).then_some(Event::ToolsChanged { tools: now });
    policy.into_iter().chain(tools)
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
