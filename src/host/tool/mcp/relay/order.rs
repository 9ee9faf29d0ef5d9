//! The order of the client's requests: what comes first begins first, though each has a task of its own.
//!
//! Threads take tasks up in any order, and a read that overtakes the write before it finds nothing.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

/// Those that have not begun, by their numbers.
#[derive(Debug, Default)]
pub(super) struct RequestOrder(Mutex<OrderParts>);

#[derive(Debug, Default)]
struct OrderParts {
    next: u64,
    /// With the signal to one that waits.
    open: BTreeMap<u64, Option<oneshot::Sender<()>>>,
}

/// The turn of a request; dropped, it is that of the next one.
#[derive(Debug)]
pub(super) struct RequestTurn {
    order: Arc<RequestOrder>,
    number: u64,
}

impl RequestOrder {
    /// Takes a turn behind all that are open.
    pub(super) fn enter(self: &Arc<Self>) -> RequestTurn {
        let mut parts = self.parts();
        let number = parts.next;
        parts.next = number.saturating_add(1);
        parts.open.insert(number, None);
        drop(parts);
        RequestTurn { order: Arc::clone(self), number }
    }

    fn parts(&self) -> MutexGuard<'_, OrderParts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RequestTurn {
    /// Waits until all that came before have begun, or have gone.
    pub(super) async fn comes(&self) {
        let waiting = {
            let mut parts = self.order.parts();
            if parts.open.keys().next() == Some(&self.number) {
                return;
            }
            let (signal, signalled) = oneshot::channel();
            parts.open.insert(self.number, Some(signal));
            signalled
        };
        // Whoever leaves before gives the signal.
        let _ = waiting.await;
    }
}

impl Drop for RequestTurn {
    fn drop(&mut self) {
        let mut parts = self.order.parts();
        parts.open.remove(&self.number);
        if let Some(signal) = parts.open.values_mut().next().and_then(Option::take) {
            let _ = signal.send(());
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn requests_begin_in_the_order_in_which_they_came() {
        let order = Arc::new(RequestOrder::default());
        let [first, second, third, fourth] = [(); 4].map(|()| order.enter());
        assert!(first.comes().now_or_never().is_some());
        let mut last = std::pin::pin!(fourth.comes());
        assert!(last.as_mut().now_or_never().is_none());
        // One that leaves early holds nobody up.
        drop(second);
        assert!(last.as_mut().now_or_never().is_none());
        drop(first);
        assert!(third.comes().now_or_never().is_some());
        drop(third);
        assert!(last.now_or_never().is_some());
    }
}
