//! The places of the calls of a run: who waits for one, how many calls of each tool have one, and about which call a person
//! is to be asked.
//!
//! The calls of a tool get their places strictly in the order in which they were proposed, whatever batch they are of. So
//! no two batches wait for each other: the oldest call without its result never waits for a place that a younger call of
//! its tool has.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde::{Deserialize, Serialize};

use crate::engine::ids::ProposalId;

/// The calls of a run that have a place, and those that wait.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::engine) struct CallQueue {
    /// How many calls have a place, by tool.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    places: BTreeMap<String, u32>,
    /// The calls that wait for a place, by tool, in the order in which they were proposed.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    waiting: BTreeMap<String, VecDeque<CallKey>>,
    /// The calls about which a person is to be asked as soon as nobody is asked about another.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    unasked: BTreeSet<CallKey>,
    /// Whether a place, or a person, has become free in this step.
    #[serde(skip)]
    freed: bool,
}

/// A call: its batch, and its slot there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(in crate::engine) struct CallKey(pub(in crate::engine) ProposalId, pub(in crate::engine) usize);

/// The place that a call has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::engine) enum CallPermit {
    /// It runs as any other.
    Run,
    /// It is a probe of a half-open breaker: a lease that is settled or given back.
    Probe,
}

impl CallQueue {
    /// A call of the tool gets a place.
    pub(in crate::engine) fn enter(&mut self, tool: &str) {
        let count = self.places.entry(tool.to_owned()).or_default();
        *count = count.saturating_add(1);
    }

    /// A call of the tool that had a place needs it no more.
    pub(in crate::engine) fn leave(&mut self, tool: &str) {
        let Some(count) = self.places.get_mut(tool) else { return };
        // Noted, not acted upon: other batches are looked at once, at the end of the step, in the order of their ids.
        self.freed = true;
        *count = count.saturating_sub(1);
        // An entry of zero would make the state differ from one that never had the call.
        if *count == 0 {
            self.places.remove(tool);
        }
    }

    /// How many calls of the tool have a place.
    pub(super) fn of_tool(&self, tool: &str) -> u32 {
        self.places.get(tool).copied().unwrap_or_default()
    }

    /// Whether no call has a place.
    pub(in crate::engine) fn is_idle(&self) -> bool {
        self.places.is_empty()
    }

    /// Whether no call of the tool has a place or waits for one.
    pub(in crate::engine) fn is_free(&self, tool: &str) -> bool {
        !self.places.contains_key(tool) && !self.waiting.contains_key(tool)
    }

    /// The call of the tool waits for a place.
    pub(super) fn wait(&mut self, tool: &str, call: CallKey) {
        self.waiting.entry(tool.to_owned()).or_default().push_back(call);
    }

    /// The first call of a batch that waits for a place and for no call of another batch, but for those of some tools.
    pub(super) fn first(&self, batch: ProposalId, but: &BTreeSet<String>) -> Option<usize> {
        // By tool, so that a tool without a free permit holds up its own calls only. Within a tool the order is that
        // of the proposals, or a batch could starve.
        let heads = self.waiting.iter().filter(|(tool, _)| !but.contains(*tool));
        let heads = heads.filter_map(|(_, calls)| calls.front());
        // The first slot of them: calls begin in the order of the reply as far as permits allow.
        heads.filter(|call| call.0 == batch).map(|call| call.1).min()
    }

    /// A call of the tool waits for a place no more.
    pub(super) fn release(&mut self, tool: &str, call: CallKey) {
        let Some(calls) = self.waiting.get_mut(tool) else { return };
        self.freed = true;
        // Mostly the first one leaves, so the queue is searched for withdrawn calls alone.
        if calls.front() == Some(&call) {
            calls.pop_front();
        } else {
            calls.retain(|waiting| *waiting != call);
        }
        if calls.is_empty() {
            self.waiting.remove(tool);
        }
    }

    /// A person is to be asked about a call.
    pub(super) fn put_question(&mut self, call: CallKey) {
        self.unasked.insert(call);
    }

    /// The first call of the batch a person is to be asked about, unless one of another batch is before it; it is no more.
    pub(super) fn next_question(&mut self, batch: ProposalId) -> Option<usize> {
        // Questions are asked in the order of the calls; a batch must not be asked about before an earlier one.
        let first = self.unasked.first().filter(|call| call.0 == batch)?.1;
        self.unasked.pop_first();
        Some(first)
    }

    /// Nobody is to be asked about a call any more.
    pub(super) fn drop_question(&mut self, call: CallKey) {
        self.unasked.remove(&call);
        self.freed = true;
    }

    /// Nobody is asked any more.
    pub(in crate::engine) const fn free_person(&mut self) {
        self.freed = true;
    }

    /// Whether a place, or a person, has become free since this was asked last.
    pub(in crate::engine) const fn take_freed(&mut self) -> bool {
        core::mem::replace(&mut self.freed, false)
    }

    /// The batches whose calls wait for no call of another one: for a place, or for a person.
    pub(in crate::engine) fn due(&self) -> BTreeSet<ProposalId> {
        let heads = self.waiting.values().filter_map(VecDeque::front);
        heads.chain(self.unasked.first()).map(|call| call.0).collect()
    }

    /// How many calls wait: for a place, and for a question.
    pub(in crate::engine) fn waiting(&self) -> usize {
        self.waiting.values().map(VecDeque::len).fold(self.unasked.len(), usize::saturating_add)
    }

    /// The run is over.
    pub(in crate::engine) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Whether nobody has a place or waits.
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
