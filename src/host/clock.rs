//! Where the driver gets its time from.

use crate::time::{Instant, Nanos};

/// Wall time at the start, then the monotonic clock: it never runs backwards, and it stands still where tokio's
/// clock is paused.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    base: Instant,
    since: tokio::time::Instant,
}

impl Clock {
    /// A clock that starts at the system's wall time.
    pub fn system() -> Self {
        let wall = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        Self::starting_at(Instant(Nanos::from_std(wall).0))
    }

    /// A clock that starts at `base`, for runs that must be the same each time.
    pub fn starting_at(base: Instant) -> Self {
        Self { base, since: tokio::time::Instant::now() }
    }

    /// Now.
    pub fn now(&self) -> Instant {
        self.base.saturating_add(Nanos::from_std(self.since.elapsed()))
    }
}
