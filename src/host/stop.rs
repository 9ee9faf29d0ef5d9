//! How a run is stopped from outside.

use tokio_util::sync::CancellationToken;

/// The ways to stop a run. Cheap to clone; clones share them.
///
/// A [`CancellationToken`] alone stops it now.
#[derive(Clone, Debug, Default)]
pub struct StopSwitch {
    /// Asks the run to end: nothing is waited for any more, and the policy's `turn.on_stop` says whether there is a final
    /// turn.
    pub graceful: CancellationToken,
    /// Ends the run now: its processes are asked to end and have their grace for it.
    pub now: CancellationToken,
    /// Ends the run now and kills its processes at once.
    pub kill: CancellationToken,
}

impl StopSwitch {
    /// Nothing stops the run yet.
    pub fn new() -> Self {
        Self::default()
    }
}

impl From<CancellationToken> for StopSwitch {
    fn from(now: CancellationToken) -> Self {
        Self { now, ..Self::default() }
    }
}
