//! How many runs of each tool are under way in a batch, and which calls wait because another failure could be one too
//! many for the breaker.

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};

/// The calls of a batch that run, and those that are held back.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Gate {
    /// How many runs of a tool are under way.
    under_way: BTreeMap<String, u32>,
    /// The slots of the calls that wait, by tool, in the order of the batch.
    held: BTreeMap<String, VecDeque<usize>>,
}

impl Gate {
    /// A run of the tool begins.
    pub(super) fn enter(&mut self, tool: &str) {
        let count = self.under_way.entry(tool.to_owned()).or_default();
        *count = count.saturating_add(1);
    }

    /// A call of the tool that ran is over.
    pub(super) fn leave(&mut self, tool: &str) {
        if let Some(count) = self.under_way.get_mut(tool) {
            *count = count.saturating_sub(1);
        }
    }

    /// The call of the tool in that slot has to wait.
    pub(super) fn hold(&mut self, tool: &str, slot: usize) {
        self.held.entry(tool.to_owned()).or_default().push_back(slot);
    }

    /// The call of the tool that waits longest, if one does.
    pub(super) fn first(&self, tool: &str) -> Option<usize> {
        self.held.get(tool)?.front().copied()
    }

    /// The call of the tool that waits longest waits no more.
    pub(super) fn release(&mut self, tool: &str) {
        if let Some(held) = self.held.get_mut(tool) {
            held.pop_front();
        }
    }

    /// How many runs of the tool are under way.
    pub(super) fn under_way(&self, tool: &str) -> u32 {
        self.under_way.get(tool).copied().unwrap_or_default()
    }

    /// Whether nothing runs or waits.
    pub(super) fn is_empty(&self) -> bool {
        self.under_way.is_empty() && self.held.is_empty()
    }
}
