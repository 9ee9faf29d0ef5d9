//! The places of the calls of a batch: who has one, who waits for one, and about whom a person is still to be asked.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde::{Deserialize, Serialize};

/// The calls of a batch that have a place, and those that wait.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Gate {
    /// How many calls have a place, by tool.
    places: BTreeMap<String, u32>,
    /// How many have one in all.
    taken: u32,
    /// The slots of the calls that wait for a place, by tool, in the order of the batch.
    waiting: BTreeMap<String, VecDeque<usize>>,
    /// The slots about which a person is to be asked as soon as nobody is asked about another.
    unasked: BTreeSet<usize>,
}

/// The place that a call has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Place {
    /// It runs as any other.
    Run,
    /// It is a probe of a half-open breaker: a lease that is settled or given back.
    Probe,
}

impl Gate {
    /// A call of the tool gets a place.
    pub(super) fn enter(&mut self, tool: &str) {
        let count = self.places.entry(tool.to_owned()).or_default();
        *count = count.saturating_add(1);
        self.taken = self.taken.saturating_add(1);
    }

    /// A call of the tool that had a place needs it no more.
    pub(super) fn leave(&mut self, tool: &str) {
        let Some(count) = self.places.get_mut(tool) else { return };
        *count = count.saturating_sub(1);
        if *count == 0 {
            self.places.remove(tool);
        }
        self.taken = self.taken.saturating_sub(1);
    }

    /// How many calls have a place.
    pub(super) const fn taken(&self) -> u32 {
        self.taken
    }

    /// How many calls of the tool have one.
    pub(super) fn of_tool(&self, tool: &str) -> u32 {
        self.places.get(tool).copied().unwrap_or_default()
    }

    /// The call of the tool in that slot waits for a place.
    pub(super) fn wait(&mut self, tool: &str, slot: usize) {
        self.waiting.entry(tool.to_owned()).or_default().push_back(slot);
    }

    /// The first slot that waits for a place, but for those of some tools.
    pub(super) fn first(&self, but: &BTreeSet<String>) -> Option<usize> {
        let heads = self.waiting.iter().filter(|(tool, _)| !but.contains(*tool));
        heads.filter_map(|(_, slots)| slots.front().copied()).min()
    }

    /// The first slot of the tool that waits for a place waits no more.
    pub(super) fn release(&mut self, tool: &str) {
        let Some(slots) = self.waiting.get_mut(tool) else { return };
        slots.pop_front();
        if slots.is_empty() {
            self.waiting.remove(tool);
        }
    }

    /// A person is to be asked about a slot.
    pub(super) fn put_question(&mut self, slot: usize) {
        self.unasked.insert(slot);
    }

    /// The first slot a person is to be asked about; it is no more.
    pub(super) fn next_question(&mut self) -> Option<usize> {
        self.unasked.pop_first()
    }

    /// Whether nobody has a place or waits.
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_that_waits_is_the_first_of_the_batch_whatever_its_tool() {
        let mut gate = Gate::default();
        for (tool, slot) in [("b", 1), ("a", 2), ("b", 3)] {
            gate.wait(tool, slot);
        }
        let none = BTreeSet::new();
        assert_eq!(gate.first(&none), Some(1));
        assert_eq!(gate.first(&BTreeSet::from(["b".to_owned()])), Some(2));
        gate.release("b");
        assert_eq!(gate.first(&none), Some(2));
    }

    #[test]
    fn a_place_that_is_left_leaves_nothing_behind() {
        let mut gate = Gate::default();
        gate.enter("a");
        gate.enter("a");
        assert_eq!((gate.taken(), gate.of_tool("a"), gate.of_tool("b")), (2, 2, 0));
        gate.leave("a");
        gate.leave("a");
        gate.leave("b");
        assert!(gate.is_empty());
    }
}
