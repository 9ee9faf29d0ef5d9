//! Decisions about repeated calls and results, shared by the interpreter and guards.

use core::num::NonZeroU32;

use serde_json::{Value, json};

use super::repeats::{LoopDetector, LoopPattern, LoopRepetition, LoopStage};
use crate::policy::{LoopGuardPolicy, LoopStages, Setting};

/// A detected repetition.
#[derive(Clone, Copy)]
pub(crate) struct FoundRepetition {
    pub(crate) pattern: LoopPattern,
    pub(crate) length: u32,
    pub(crate) count: u32,
    pub(crate) stage: LoopStage,
}

impl LoopDetector {
    /// The strictest stage that any pattern has reached with the latest call.
    pub(crate) fn worst(&self, guard: &LoopGuardPolicy, tool: u64, call: u64) -> Option<FoundRepetition> {
        let cycle = self.call_cycle();
        let counts = [
            (LoopPattern::SameCall, 1, self.same_calls(guard.count.value)),
            (
                LoopPattern::Cycle,
                cycle.map_or(0, |cycle| cycle.length),
                cycle.map_or(0, |cycle| cycle.rounds),
            ),
            (LoopPattern::SameResult, 1, self.results_of(call)),
            (LoopPattern::SameError, 1, self.errors_of(tool)),
        ];
        let mut worst: Option<FoundRepetition> = None;
        for (pattern, length, count) in counts {
            let Some(stage) = LoopStage::at(count, stages(guard, pattern)) else { continue };
            let told_already = match pattern {
                LoopPattern::SameCall => false,
                // Within a round there is no new finding; the model was warned when the last round was complete.
                LoopPattern::Cycle => cycle.is_some_and(|cycle| !cycle.completes),
                // The model was warned when the call ended; here only stages that block the next call count.
                LoopPattern::SameResult | LoopPattern::SameError => true,
            };
            // The strictest stage of all patterns decides. Of equal stages the first pattern is kept, so that one
            // warning names one pattern.
            if (stage > LoopStage::Nudge || !told_already) && worst.is_none_or(|worst| stage > worst.stage) {
                worst = Some(FoundRepetition { pattern, length, count, stage });
            }
        }
        worst
    }
}

impl FoundRepetition {
    /// The repetition of an end of a call. It only warns the model; the next call may be blocked.
    pub(crate) fn at_end(guard: &LoopGuardPolicy, pattern: LoopPattern, count: u32) -> Option<Self> {
        let nudge = stages(guard, pattern).nudge.value;
        // The call has already run, so only a warning is possible.
        let reached = nudge.is_some_and(|nudge| count >= nudge.get());
        reached.then_some(Self { pattern, length: 1, count, stage: LoopStage::Nudge })
    }

    /// The limit that the count reached.
    pub(crate) const fn limit(self, guard: &LoopGuardPolicy) -> &Setting<Option<NonZeroU32>> {
        let rules = stages(guard, self.pattern);
        match self.stage {
            LoopStage::Nudge => &rules.nudge,
            LoopStage::Block => &rules.block,
            LoopStage::FinalTurn => &rules.final_turn,
        }
    }

    /// The block stage, if this is the final-turn stage and the count has reached the block limit as well.
    pub(crate) fn blocks(self, guard: &LoopGuardPolicy) -> Option<Self> {
        let block = stages(guard, self.pattern).block.value?;
        let is_reached = self.stage == LoopStage::FinalTurn && self.count >= block.get();
        is_reached.then_some(Self { stage: LoopStage::Block, ..self })
    }

    /// The decision in the form for notes.
    pub(crate) fn of(self, call: &str, tool: &str) -> LoopRepetition {
        let Self { pattern, length, count, stage } = self;
        LoopRepetition { call: call.to_owned(), tool: tool.to_owned(), pattern, length, count, stage }
    }

    pub(crate) fn fact(self) -> String {
        let Self { pattern, length, count, .. } = self;
        match pattern {
            LoopPattern::SameCall => format!("the same call {count} times"),
            LoopPattern::Cycle => format!("{count} rounds of the same {length} calls"),
            LoopPattern::SameResult => format!("the same result {count} times"),
            LoopPattern::SameError => format!("the same failure {count} times"),
        }
    }

    /// The variables of its messages.
    pub(crate) fn vars(self, tool: &str) -> Value {
        json!({ "tool": tool, "count": self.count, "pattern": self.pattern, "length": self.length })
    }
}

/// The stages of a pattern.
pub(crate) const fn stages(guard: &LoopGuardPolicy, pattern: LoopPattern) -> &LoopStages {
    match pattern {
        LoopPattern::SameCall => &guard.same_call,
        LoopPattern::Cycle => &guard.cycle,
        LoopPattern::SameResult => &guard.same_result,
        LoopPattern::SameError => &guard.same_error,
    }
}

/// Whether any stage of the pattern has a limit.
pub(crate) const fn is_asked_for(guard: &LoopGuardPolicy, pattern: LoopPattern) -> bool {
    let LoopStages { nudge, block, final_turn } = stages(guard, pattern);
    nudge.value.is_some() || block.value.is_some() || final_turn.value.is_some()
}
