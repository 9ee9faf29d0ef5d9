//! `tools.*.loop_guard:`: what is done about a model that repeats itself.

use serde_json::json;

use super::retry::Failures;
use super::text::{Text, variables};
use crate::policy::decode::choice_of;
use crate::policy::merge::{layer, plain_leaf};
use crate::policy::{LoopGuardPolicy, Repeats, Stages};

variables! {
    /// What is known of a call that repeats itself.
    Repeated = ["tool", "count", "pattern", "length"];
}

layer! {
    /// What is done about a model that repeats itself.
    pub(crate) struct LoopGuardLayer => MergedLoopGuard {
        leaves {
            /// Whether calls of the tool are looked at. If not, they do not interrupt a row of others either: for tools
            /// that are asked again and again until something happens.
            /// Example: `false`
            enabled: bool,
            /// Which equal calls count together.
            count: Repeats,
        }
        blocks {
            /// The same tool with the same arguments. The order of keys, white space, and calls that did not run make
            /// no difference.
            same_call: StagesLayer => MergedStages,
            /// The same failure of the tool in a row, whatever the arguments.
            same_error: StagesLayer => MergedStages,
            /// The same call with the same result; other calls may stand between.
            same_result: StagesLayer => MergedStages,
            /// Two to five different calls again and again. Counted are the rounds.
            cycle: StagesLayer => MergedStages,
            /// What the model is told.
            messages: LoopMessagesLayer => MergedLoopMessages,
        }
    }
}

layer! {
    /// At which count what is done.
    pub(crate) struct StagesLayer => MergedStages {
        leaves {
            /// From this count on the model is told with the results, or `never`.
            /// Example: `3`
            nudge: Failures,
            /// From this count on the call does not run, or `never`.
            /// Example: `5`
            block: Failures,
            /// From this count on the call does not run and the next turn is the last, or `never`.
            /// Example: `8`
            final_turn: Failures,
        }
    }
}

layer! {
    /// What the model is told when it repeats itself.
    pub(crate) struct LoopMessagesLayer => MergedLoopMessages {
        leaves {
            /// Guidance with the results.
            /// Example: `{{ tool }} was called {{ count }} times like this. Go another way.`
            nudge: Text<Repeated>,
            /// The result of a call that did not run.
            /// Example: `{{ tool }} did not run: it was called {{ count }} times like this.`
            block: Text<Repeated>,
        }
    }
}

impl MergedLoopGuard {
    /// The plain values; `None` if the layers leave one open, which the built-in default does not.
    pub(crate) fn policy(&self) -> Option<LoopGuardPolicy> {
        Some(LoopGuardPolicy {
            enabled: self.enabled.setting()?,
            count: self.count.setting()?,
            same_call: self.same_call.stages()?,
            same_error: self.same_error.stages()?,
            same_result: self.same_result.stages()?,
            cycle: self.cycle.stages()?,
            nudge_message: self.messages.nudge.setting()?,
            block_message: self.messages.block.setting()?,
        })
    }
}

impl MergedStages {
    fn stages(&self) -> Option<Stages> {
        Some(Stages {
            nudge: self.nudge.setting()?,
            block: self.block.setting()?,
            final_turn: self.final_turn.setting()?,
        })
    }
}

choice_of! {
    /// Which equal calls count together.
    Repeats {
        /// Those that no other call stands between.
        InARow = "in_a_row",
        /// All among the last hundred calls.
        InAll = "in_all",
    }
}

plain_leaf! {
    Repeats => |value| json!(value),
}
