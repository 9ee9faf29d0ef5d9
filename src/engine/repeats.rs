//! A bounded memory of hashes of calls, failures and results, for loop detection.

use std::collections::VecDeque;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use unfazed_macros::Named;

use crate::policy::{LoopStages, RepeatScope};

/// The maximum number of calls remembered.
// The state is written into the log, so this memory is bounded.
const CALLS: usize = 100;
/// The maximum number of tools with a remembered failure, and of calls with a remembered result.
const STREAKS: usize = 64;
/// The maximum length of a cycle, in calls.
pub(super) const LONGEST: usize = 5;

/// What was decided about a call that repeats itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LoopRepetition {
    /// The model's id of the call.
    /// Example: `call_5`
    pub call: String,
    /// The tool.
    /// Example: `lookup_price`
    pub tool: String,
    /// What is repeated.
    pub pattern: LoopPattern,
    /// How many calls are repeated: 1, or the length of the cycle.
    /// Example: `1`
    pub length: u32,
    /// How often there was the same, this time included.
    /// Example: `5`
    pub count: u32,
    /// What is done.
    pub stage: LoopStage,
}

/// What is repeated.
///
/// Example: `same_call`
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Named)]
#[serde(rename_all = "snake_case")]
pub enum LoopPattern {
    /// The same tool with the same arguments.
    SameCall,
    /// Two to five calls.
    Cycle,
    /// The same call with the same result.
    SameResult,
    /// The same failure of a tool.
    SameError,
}

/// What is done about it.
///
/// Example: `block`
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema, Named)]
#[serde(rename_all = "snake_case")]
pub enum LoopStage {
    /// The model is informed.
    Nudge,
    /// The call does not run.
    Block,
    /// The call does not run, and the next turn is the last.
    FinalTurn,
}

/// The recent calls, failures and results.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LoopDetector {
    /// The hashes of the last calls, oldest first.
    calls: VecDeque<u64>,
    /// For each cycle length: the number of consecutive calls equal to the call that many places before.
    rows: [u32; LONGEST],
    /// By tool: the last failure, and its consecutive count.
    errors: VecDeque<CallStreak>,
    /// By call: the last result, and its consecutive count.
    results: VecDeque<CallStreak>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct CallStreak {
    of: u64,
    what: u64,
    count: u32,
}

/// A cycle that the last call continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CallCycle {
    pub(super) length: u32,
    /// The number of complete rounds.
    pub(super) rounds: u32,
    /// Whether the last call completed a round.
    pub(super) completes: bool,
}

impl LoopDetector {
    /// Records a call.
    pub(crate) fn called(&mut self, call: u64) {
        // With a counter per length, a call costs five comparisons in a run of any length. Comparing windows of the
        // history would take quadratic time.
        for (length, row) in (0..).zip(&mut self.rows) {
            let before = self.calls.iter().rev().nth(length);
            *row = if before == Some(&call) { row.saturating_add(1) } else { 0 };
        }
        self.calls.push_back(call);
        if self.calls.len() > CALLS {
            self.calls.pop_front();
        }
    }

    /// The count of the last call, itself included.
    pub(crate) fn same_calls(&self, count: RepeatScope) -> u32 {
        match count {
            RepeatScope::Consecutive => self.rows.first().map_or(1, |row| row.saturating_add(1)),
            // LocalCowork counts any earlier call of the message, whatever came in between.
            RepeatScope::Cumulative => {
                let last = self.calls.back();
                let same = self.calls.iter().filter(|call| Some(*call) == last).count();
                u32::try_from(same).unwrap_or(u32::MAX)
            }
        }
    }

    /// The shortest cycle of at least two different calls that has at least two rounds.
    pub(crate) fn call_cycle(&self) -> Option<CallCycle> {
        (2_u32..).zip(self.rows.iter().skip(1)).find_map(|(length, row)| {
            let rounds = row.checked_div(length)?.saturating_add(1);
            let completes = row.checked_rem(length) == Some(0);
            // Four calls A B A B are two rounds of length two, not one of length four: only the shortest length
            // counts.
            (rounds > 1 && !self.is_shorter(length)).then_some(CallCycle { length, rounds, completes })
        })
    }

    /// Whether the last `length` calls are themselves rounds of a shorter cycle.
    fn is_shorter(&self, length: u32) -> bool {
        (1..length).zip(&self.rows).any(|(shorter, row)| {
            length.checked_rem(shorter) == Some(0) && *row >= length.saturating_sub(shorter)
        })
    }

    /// Records a failure of a tool. Returns its consecutive count.
    pub(crate) fn failed(&mut self, tool: u64, error: u64) -> u32 {
        again(&mut self.errors, tool, error)
    }

    /// Whether any tool has failed recently.
    pub(crate) fn knows_failures(&self) -> bool {
        !self.errors.is_empty()
    }

    /// Records a success of the tool.
    pub(crate) fn recovered(&mut self, tool: u64) {
        self.errors.retain(|streak| streak.of != tool);
    }

    /// Records the result of a call. Returns its consecutive count.
    pub(crate) fn resulted(&mut self, call: u64, result: u64) -> u32 {
        again(&mut self.results, call, result)
    }

    /// The consecutive count of the tool's last failure.
    pub(crate) fn errors_of(&self, tool: u64) -> u32 {
        count(&self.errors, tool)
    }

    /// The consecutive count of the call's last result.
    pub(crate) fn results_of(&self, call: u64) -> u32 {
        count(&self.results, call)
    }

    /// Counts a call that was blocked because of earlier failures or results as one more of them.
    pub(crate) fn held_back(&mut self, pattern: LoopPattern, tool: u64, call: u64) {
        let (streaks, of) = match pattern {
            LoopPattern::SameError => (&mut self.errors, tool),
            LoopPattern::SameResult => (&mut self.results, call),
            LoopPattern::SameCall | LoopPattern::Cycle => return,
        };
        // The call does not run, so nothing else counts it, and a persistent model would stay at this stage.
        if let Some(streak) = streaks.iter_mut().find(|streak| streak.of == of) {
            streak.count = streak.count.saturating_add(1);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl LoopStage {
    /// The stage that a count has reached, if any.
    pub(crate) fn at(count: u32, stages: &LoopStages) -> Option<Self> {
        let reached = |limit: Option<core::num::NonZeroU32>| limit.is_some_and(|limit| count >= limit.get());
        // One count may have reached several stages; the strictest decides.
        if reached(stages.final_turn.value) {
            Some(Self::FinalTurn)
        } else if reached(stages.block.value) {
            Some(Self::Block)
        } else {
            reached(stages.nudge.value).then_some(Self::Nudge)
        }
    }
}

/// Counts `what` for `of`; the oldest entry is removed when there are too many.
fn again(streaks: &mut VecDeque<CallStreak>, of: u64, what: u64) -> u32 {
    let place = streaks.iter().position(|streak| streak.of == of);
    // Another result resets the count: polling that returns something new is progress. LocalCowork only compares
    // calls, which makes polling impossible.
    let known = place.and_then(|place| streaks.remove(place)).filter(|streak| streak.what == what);
    let count = known.map_or(1, |streak| streak.count.saturating_add(1));
    streaks.push_back(CallStreak { of, what, count });
    // Arguments can vary without end, so the oldest entry is removed.
    if streaks.len() > STREAKS {
        streaks.pop_front();
    }
    count
}

fn count(streaks: &VecDeque<CallStreak>, of: u64) -> u32 {
    streaks.iter().find(|streak| streak.of == of).map_or(0, |streak| streak.count)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The shortest block of two to five calls, not made of a shorter one, that ends the calls at least twice.
    fn told_naively(calls: &[u64]) -> Option<(usize, usize)> {
        (2..=LONGEST).find_map(|length| {
            let block = calls.len().checked_sub(length).map(|from| &calls[from..])?;
            let made_of_shorter =
                (1..length).any(|d| length % d == 0 && block.chunks(d).all(|chunk| chunk == &block[..d]));
            let rounds = calls.rchunks_exact(length).take_while(|chunk| *chunk == block).count();
            (rounds > 1 && !made_of_shorter).then_some((length, rounds))
        })
    }

    proptest! {
        #[test]
        fn a_cycle_is_found_where_its_definition_finds_one(
            calls in prop_oneof![
                prop::collection::vec(0_u64..3, 0..40),
                (prop::collection::vec(0_u64..4, 1..7), 1_usize..9, prop::collection::vec(0_u64..4, 0..3))
                    .prop_map(|(block, times, end)| [block.repeat(times), end].concat()),
            ]
        ) {
            let mut lately = LoopDetector::default();
            for (end, call) in calls.iter().enumerate() {
                lately.called(*call);
                let found = lately.call_cycle().map(|cycle| (cycle.length as usize, cycle.rounds as usize));
                prop_assert_eq!(found, told_naively(&calls[..=end]));
            }
        }

        #[test]
        fn equal_calls_are_counted_as_the_definition_says(calls in prop::collection::vec(0_u64..3, 1..150)) {
            let mut lately = LoopDetector::default();
            for (end, call) in calls.iter().enumerate() {
                lately.called(*call);
                let so_far = &calls[..=end];
                let row = so_far.iter().rev().take_while(|other| *other == call).count();
                let all = so_far.iter().rev().take(CALLS).filter(|other| *other == call).count();
                prop_assert_eq!(lately.same_calls(RepeatScope::Consecutive) as usize, row);
                prop_assert_eq!(lately.same_calls(RepeatScope::Cumulative) as usize, all);
            }
        }

        #[test]
        fn no_number_of_calls_and_tools_makes_it_grow(calls in prop::collection::vec(0_u64..10_000, 0..500)) {
            let mut lately = LoopDetector::default();
            for call in calls {
                lately.called(call);
                lately.failed(call, 1);
                lately.resulted(call, 1);
            }
            prop_assert!(lately.calls.len() <= CALLS && lately.errors.len() <= STREAKS);
            prop_assert!(lately.results.len() <= STREAKS);
        }
    }

    #[test]
    fn another_failure_and_a_success_begin_the_count_anew() {
        let mut lately = LoopDetector::default();
        assert_eq!([lately.failed(1, 7), lately.failed(1, 7), lately.failed(2, 7)], [1, 2, 1]);
        assert_eq!(lately.failed(1, 8), 1);
        lately.failed(1, 8);
        lately.recovered(1);
        assert_eq!([lately.failed(1, 8), lately.errors_of(2)], [1, 1]);
    }
}
