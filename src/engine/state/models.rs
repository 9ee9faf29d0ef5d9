//! What a session knows of its models, from one turn to the next.

use serde::{Deserialize, Serialize};

use crate::engine::known_windows::KnownWindows;
use crate::engine::overhead::Overheads;
use crate::engine::scales::Scales;
use crate::engine::targets::Resting;

/// Cooldowns, windows and token counts of all models.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(in crate::engine) struct ModelHealth {
    /// Models that are passed over for a while.
    #[serde(default, skip_serializing_if = "Resting::is_empty")]
    pub(in crate::engine) resting: Resting,
    /// How large their windows are.
    #[serde(default, skip_serializing_if = "KnownWindows::is_empty")]
    pub(in crate::engine) known_windows: KnownWindows,
    /// What providers add to each request, as far as it was known when the run began.
    #[serde(default, skip_serializing_if = "Overheads::is_empty")]
    pub(in crate::engine) overheads: Overheads,
    /// What was learned from the tokens that providers report.
    #[serde(default, skip_serializing_if = "Scales::is_empty")]
    pub(in crate::engine) scales: Scales,
}

impl ModelHealth {
    /// What the next run of the session begins with: a cooldown ends with its run.
    pub(in crate::engine) fn next_run(&self) -> Self {
        Self {
            resting: Resting::default(),
            known_windows: self.known_windows.next_run(),
            overheads: self.overheads.clone(),
            scales: self.scales.clone(),
        }
    }
}
