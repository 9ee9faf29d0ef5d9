//! When a log is forced to the disk.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::host::agent_file::FsyncEntry;

/// When what was written is made safe against a loss of power. A killed process loses nothing either way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FsyncMode {
    /// Whenever the system sees fit.
    Never,
    /// At the end of every turn.
    #[default]
    Turn,
    /// After every event.
    Event,
}

impl From<FsyncEntry> for FsyncMode {
    fn from(entry: FsyncEntry) -> Self {
        match entry {
            FsyncEntry::Never => Self::Never,
            FsyncEntry::Turn => Self::Turn,
            FsyncEntry::Event => Self::Event,
        }
    }
}
