//! When a model goes round in circles: what is counted, and at which count it is told, held back, and made to end.

use core::num::NonZeroU32;

use super::{Setting, Template};

/// What is done about a model that repeats itself.
#[derive(Clone, Debug)]
pub struct LoopGuardPolicy {
    /// `false`: calls of the tool are not looked at, and do not interrupt a row of others.
    pub enabled: Setting<bool>,
    /// Which equal calls count together.
    pub count: Setting<Repeats>,
    /// The same tool with the same arguments.
    pub same_call: Stages,
    /// The same failure of the tool in a row, whatever the arguments.
    pub same_error: Stages,
    /// The same call with the same result.
    pub same_result: Stages,
    /// Two to five calls again and again; rounds are counted.
    pub cycle: Stages,
    /// What the model is told with the result. Variables: `tool`, `count`, `pattern`, `length`.
    pub nudge_message: Setting<Template>,
    /// What the model is told instead of a run. Variables as above.
    pub block_message: Setting<Template>,
}

/// At which count what is done; `None`: never.
#[derive(Clone, Copy, Debug)]
pub struct Stages {
    /// The model is told.
    pub nudge: Setting<Option<NonZeroU32>>,
    /// The call does not run.
    pub block: Setting<Option<NonZeroU32>>,
    /// The call does not run, and the next turn is the last.
    pub final_turn: Setting<Option<NonZeroU32>>,
}

/// Which equal calls count together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Repeats {
    /// Those that no other call stands between.
    InARow,
    /// All among the last hundred calls.
    InAll,
}
