//! The modes of syncing a log to the disk.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::host::agent_file::{FileAgent, FsyncEntry};

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

impl FsyncMode {
    /// The mode of `session.fsync` in an agent file.
    pub fn of_agent(agent: &FileAgent) -> Self {
        match agent.file().session.fsync {
            FsyncEntry::Never => Self::Never,
            FsyncEntry::Turn => Self::Turn,
            FsyncEntry::Event => Self::Event,
        }
    }
}
