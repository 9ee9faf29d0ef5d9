//! The runs of a tool that are under way, so that no more of them can fail than its breaker allows.

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU32, Ordering};

use tokio::sync::Notify;

/// How many runs are under way, and those who wait for one of them to end.
#[derive(Default)]
pub(super) struct Seats {
    taken: AtomicU32,
    waiting: AtomicU32,
    left: Notify,
}

/// A run under way. Dropped, it makes room for the next.
pub(super) struct Seat<'a>(Option<&'a Seats>);

impl Seats {
    /// A seat, if `is_full` does not say that so many are taken as may be.
    #[inline]
    pub(super) fn take(&self, is_full: impl Fn(u32) -> bool) -> Option<Seat<'_>> {
        let next = |taken: u32| (!is_full(taken)).then(|| taken.saturating_add(1));
        let before = self.taken.fetch_update(Ordering::SeqCst, Ordering::SeqCst, next);
        before.is_ok().then(|| Seat(Some(self)))
    }

    /// A seat while no failure is known: as many as may fail.
    #[inline]
    pub(super) fn take_of(&self, most: Option<NonZeroU32>) -> Option<Seat<'_>> {
        match most {
            Some(most) => self.take(|taken| taken >= most.get()),
            None => Some(Seat(None)),
        }
    }

    /// Asks again whenever somebody has left, until there is an answer.
    pub(super) async fn wait_for<T>(&self, mut ask: impl FnMut() -> Option<T>) -> T {
        if let Some(answer) = ask() {
            return answer;
        }
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let _waits = Waits(self);
        loop {
            let mut left = std::pin::pin!(self.left.notified());
            // Who leaves between the question and the wait is heard.
            left.as_mut().enable();
            if let Some(answer) = ask() {
                return answer;
            }
            left.await;
        }
    }
}

impl Drop for Seat<'_> {
    #[inline]
    fn drop(&mut self) {
        let Some(seats) = self.0 else { return };
        seats.taken.fetch_sub(1, Ordering::SeqCst);
        if seats.waiting.load(Ordering::SeqCst) > 0 {
            seats.left.notify_waiters();
        }
    }
}

/// Somebody waits.
struct Waits<'a>(&'a Seats);

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::SeqCst);
    }
}
