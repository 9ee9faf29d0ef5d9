//! The facts given at the start of a run.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::engine::event::DriveMode;
use crate::policy::Effect;
use crate::time::Instant;

/// The facts given at the start of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(in crate::engine) struct RunContext {
    pub(in crate::engine) seed: u64,
    pub(in crate::engine) drive: DriveMode,
    pub(in crate::engine) targets: Vec<String>,
    pub(in crate::engine) deadline: Option<Instant>,
    pub(in crate::engine) effects: BTreeMap<String, Effect>,
}
