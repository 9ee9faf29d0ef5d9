//! When a model goes round in circles: what is counted, and at which count it is told, held back, and made to end.

/// Which equal calls count together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, PartialOrd)]
#[serde(rename_all = "snake_case")]
pub enum Repeats {
    /// Those that no other call stands between.
    InARow,
    /// All among the last hundred calls.
    InAll,
}
