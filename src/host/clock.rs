//! Where the driver gets its time from.

use std::time::SystemTime;

use uuid::{NoContext, Timestamp, Uuid};

use crate::time::{Instant, Nanos};

/// Wall time at the start, then the monotonic clock: it never runs backwards, and it stops where tokio's
/// clock is paused.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    base: Instant,
    since: std::time::Instant,
}

impl Clock {
    /// A clock that starts at the system's wall time.
    pub fn system() -> Self {
        let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Self::starting_at(Instant(Nanos::from_std(wall).0))
    }

    /// A clock that starts at `base`, for runs that must be the same each time.
    pub fn starting_at(base: Instant) -> Self {
        Self { base, since: tokio::time::Instant::now().into_std() }
    }

    /// Now.
    pub fn now(&self) -> Instant {
        let now = tokio::time::Instant::now().into_std();
        self.base.saturating_add(Nanos::from_std(now.saturating_duration_since(self.since)))
    }
}

/// A new UUID of version 7. Later ones sort after earlier ones.
pub(crate) fn new_uuid() -> Uuid {
    new_uuid_at(SystemTime::now())
}

/// At a time before 1970, to which a clock may be set, `Uuid::now_v7` panics: such a clock counts as 1970.
fn new_uuid_at(now: SystemTime) -> Uuid {
    match now.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(_) => Uuid::now_v7(),
        Err(_) => Uuid::new_v7(Timestamp::from_unix(NoContext, 0, 0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_before_1970_makes_ids_too() {
        let then = SystemTime::UNIX_EPOCH - std::time::Duration::from_secs(1);
        assert_ne!(new_uuid_at(then), new_uuid_at(then));
    }
}
