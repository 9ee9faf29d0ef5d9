//! The permits of a run's calls: the waiting calls, the number of permits per tool, and the calls that need a
//! person's approval.
//!
//! The calls of a tool get permits strictly in the order of their proposals, across all batches. So no two batches
//! wait for each other: the oldest call without a result never waits for a permit that a younger call of its tool
//! holds.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde::{Deserialize, Serialize};

use crate::engine::ids::ProposalId;

/// The calls of a run that hold or await a permit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::engine) struct CallQueue {
    /// The number of permits in use, by tool.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    places: BTreeMap<String, u32>,
    /// The calls that wait for a permit, by tool, in the order of their proposals.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    waiting: BTreeMap<String, VecDeque<CallKey>>,
    /// The calls that wait for a question to a person, one at a time.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    unasked: BTreeSet<CallKey>,
    /// Whether a permit was returned or a question was answered in this step.
    #[serde(skip)]
    freed: bool,
}

/// A call: its batch, and its slot in the batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(in crate::engine) struct CallKey(pub(in crate::engine) ProposalId, pub(in crate::engine) usize);

/// The kind of permit that a call holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::engine) enum CallPermit {
    /// An ordinary permit.
    Run,
    /// A probe of a half-open breaker; it must be settled or returned.
    Probe,
}

impl CallQueue {
    /// Gives a call of the tool a permit.
    pub(in crate::engine) fn enter(&mut self, tool: &str) {
        let count = self.places.entry(tool.to_owned()).or_default();
        *count = count.saturating_add(1);
    }

    /// Returns the permit of a call of the tool.
    pub(in crate::engine) fn leave(&mut self, tool: &str) {
        let Some(count) = self.places.get_mut(tool) else { return };
        // Only noted: at the end of the step the other batches are processed in the order of their ids.
        self.freed = true;
        *count = count.saturating_sub(1);
        // An entry of zero would make the state differ from one that never had the call.
        if *count == 0 {
            self.places.remove(tool);
        }
    }

    /// The number of permits in use for the tool.
    pub(super) fn of_tool(&self, tool: &str) -> u32 {
        self.places.get(tool).copied().unwrap_or_default()
    }

    /// Whether no permit is in use.
    pub(in crate::engine) fn is_idle(&self) -> bool {
        self.places.is_empty()
    }

    /// Whether no call of the tool holds or awaits a permit.
    pub(in crate::engine) fn is_free(&self, tool: &str) -> bool {
        !self.places.contains_key(tool) && !self.waiting.contains_key(tool)
    }

    /// Adds a call of the tool to the waiting calls.
    pub(super) fn wait(&mut self, tool: &str, call: CallKey) {
        self.waiting.entry(tool.to_owned()).or_default().push_back(call);
    }

    /// The first waiting call of a batch that no call of another batch precedes; the tools in `but` are skipped.
    pub(super) fn first(&self, batch: ProposalId, but: &BTreeSet<String>) -> Option<usize> {
        // Queues are per tool, so that a tool without a free permit delays its own calls only. Within a tool calls
        // wait in the order of their proposals, so that no batch starves.
        let heads = self.waiting.iter().filter(|(tool, _)| !but.contains(*tool));
        let heads = heads.filter_map(|(_, calls)| calls.front());
        // The lowest slot comes first: calls start in the order of the reply as far as permits allow.
        heads.filter(|call| call.0 == batch).map(|call| call.1).min()
    }

    /// Removes a call of the tool from the waiting calls.
    pub(super) fn release(&mut self, tool: &str, call: CallKey) {
        let Some(calls) = self.waiting.get_mut(tool) else { return };
        self.freed = true;
        // Usually the first call leaves; only withdrawn calls need a search.
        if calls.front() == Some(&call) {
            calls.pop_front();
        } else {
            calls.retain(|waiting| *waiting != call);
        }
        if calls.is_empty() {
            self.waiting.remove(tool);
        }
    }

    /// Adds a call that needs a person's approval.
    pub(super) fn put_question(&mut self, call: CallKey) {
        self.unasked.insert(call);
    }

    /// Takes the batch's first call that needs approval, unless a call of another batch comes first.
    pub(super) fn next_question(&mut self, batch: ProposalId) -> Option<usize> {
        // Questions follow the order of the calls; an earlier batch comes first.
        let first = self.unasked.first().filter(|call| call.0 == batch)?.1;
        self.unasked.pop_first();
        Some(first)
    }

    /// Removes the question about a call.
    pub(super) fn drop_question(&mut self, call: CallKey) {
        self.unasked.remove(&call);
        self.freed = true;
    }

    /// Notes that no question is open.
    pub(in crate::engine) const fn free_person(&mut self) {
        self.freed = true;
    }

    /// Whether a permit was returned or a question was answered since the last check.
    pub(in crate::engine) const fn take_freed(&mut self) -> bool {
        core::mem::replace(&mut self.freed, false)
    }

    /// The batches whose calls are first in line, for a permit or for a question.
    pub(in crate::engine) fn due(&self) -> BTreeSet<ProposalId> {
        let heads = self.waiting.values().filter_map(VecDeque::front);
        heads.chain(self.unasked.first()).map(|call| call.0).collect()
    }

    /// The number of calls that wait, for a permit or for a question.
    pub(in crate::engine) fn waiting(&self) -> usize {
        self.waiting.values().map(VecDeque::len).fold(self.unasked.len(), usize::saturating_add)
    }

    /// Clears the queue at the end of the run.
    pub(in crate::engine) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Whether no call holds a permit or waits.
    pub(in crate::engine) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: ProposalId = ProposalId(1);
    const B: ProposalId = ProposalId(2);

    #[test]
    fn the_first_that_waits_is_the_first_of_the_batch_whatever_its_tool() {
        let mut queue = CallQueue::default();
        for (tool, slot) in [("b", 1), ("a", 2), ("b", 3)] {
            queue.wait(tool, CallKey(A, slot));
        }
        let none = BTreeSet::new();
        assert_eq!(queue.first(A, &none), Some(1));
        assert_eq!(queue.first(A, &BTreeSet::from(["b".to_owned()])), Some(2));
        queue.release("b", CallKey(A, 1));
        assert_eq!(queue.first(A, &none), Some(2));
    }

    #[test]
    fn a_call_waits_behind_those_of_its_tool_in_older_batches() {
        let mut queue = CallQueue::default();
        queue.wait("a", CallKey(A, 1));
        queue.wait("a", CallKey(B, 0));
        queue.wait("b", CallKey(B, 1));
        let none = BTreeSet::new();
        assert_eq!(queue.first(B, &none), Some(1));
        queue.release("a", CallKey(A, 1));
        assert_eq!(queue.first(B, &none), Some(0));
        assert_eq!(queue.due(), BTreeSet::from([B]));
    }

    #[test]
    fn a_call_that_is_withdrawn_waits_no_more() {
        let mut queue = CallQueue::default();
        queue.wait("a", CallKey(A, 0));
        queue.wait("a", CallKey(B, 0));
        queue.release("a", CallKey(B, 0));
        queue.release("a", CallKey(A, 0));
        assert!(queue.take_freed());
        assert!(queue.is_empty());
    }

    #[test]
    fn a_place_that_is_left_leaves_nothing_behind() {
        let mut queue = CallQueue::default();
        queue.enter("a");
        queue.enter("a");
        assert_eq!((queue.of_tool("a"), queue.of_tool("b")), (2, 0));
        queue.leave("a");
        queue.leave("a");
        queue.leave("b");
        assert!(queue.take_freed());
        assert!(queue.is_empty());
    }
}
