//! A task that notifies itself while it runs is run again at once. hyper asks for the body of a request so, once a request. By itself tokio
//! puts such a task behind all others and calls another thread for it, which costs more than a relayed request has to.

use core::future::poll_fn;
use core::pin::pin;
use core::sync::atomic::{AtomicU8, Ordering};
use core::task::{Context, Poll, Waker};
use std::sync::Arc;
use std::task::Wake;

use futures_util::task::AtomicWaker;

/// So often in a row; then the others have their turn.
const MOST_IN_A_ROW: u8 = 8;

/// It waits, and whatever notifies it calls the runtime.
const WAITS: u8 = 0;
const RUNS: u8 = 1;
/// It was notified while it ran.
const AGAIN: u8 = 2;

#[derive(Default)]
struct OwnWaker {
    state: AtomicU8,
    runtime: AtomicWaker,
}

impl Wake for OwnWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let noticed = |state| (state != WAITS).then_some(AGAIN);
        if self.state.fetch_update(Ordering::AcqRel, Ordering::Acquire, noticed).is_err() {
            self.runtime.wake();
        }
    }
}

/// Runs `task` to its end, and again at once where it notifies itself.
pub(super) async fn rerun_at_once<T>(task: impl Future<Output = T>) -> T {
    let mut task = pin!(task);
    let own = Arc::new(OwnWaker::default());
    let waker = Waker::from(Arc::clone(&own));
    poll_fn(|context| {
        own.runtime.register(context.waker());
        for _ in 0..MOST_IN_A_ROW {
            own.state.store(RUNS, Ordering::Release);
            if let Poll::Ready(done) = task.as_mut().poll(&mut Context::from_waker(&waker)) {
                return Poll::Ready(done);
            }
            if own.state.compare_exchange(RUNS, WAITS, Ordering::AcqRel, Ordering::Acquire).is_ok() {
                return Poll::Pending;
            }
        }
        own.state.store(WAITS, Ordering::Release);
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await
}

#[cfg(test)]
mod tests {
    use core::cell::Cell;

    use futures_util::task::noop_waker_ref;

    use super::*;

    /// Notifies itself so often before it is done, and counts how often it ran.
    fn notifying(times: u32, runs: &Cell<u32>) -> impl Future<Output = ()> {
        poll_fn(move |context| {
            runs.set(runs.get() + 1);
            if runs.get() > times {
                return Poll::Ready(());
            }
            context.waker().wake_by_ref();
            Poll::Pending
        })
    }

    /// Counts how often it is called.
    #[derive(Default)]
    struct CountedWaker(AtomicU8);

    impl Wake for CountedWaker {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_task_that_notifies_itself_runs_again_at_once() {
        let runs = Cell::new(0);
        let mut task = pin!(rerun_at_once(notifying(3, &runs)));
        assert!(task.as_mut().poll(&mut Context::from_waker(noop_waker_ref())).is_ready());
        assert_eq!(runs.get(), 4);
    }

    #[test]
    fn one_that_always_does_lets_others_run() {
        let (runs, counted) = (Cell::new(0), Arc::new(CountedWaker::default()));
        let waker = Waker::from(Arc::clone(&counted));
        let mut task = pin!(rerun_at_once(notifying(u32::MAX, &runs)));
        assert!(task.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        assert_eq!((runs.get(), counted.0.load(Ordering::Relaxed)), (u32::from(MOST_IN_A_ROW), 1));
    }

    #[test]
    fn what_notifies_it_later_calls_the_runtime() {
        let (counted, kept) = (Arc::new(CountedWaker::default()), Cell::new(None::<Waker>));
        let waker = Waker::from(Arc::clone(&counted));
        let keeps = poll_fn(|context| {
            kept.set(Some(context.waker().clone()));
            Poll::<()>::Pending
        });
        let mut task = pin!(rerun_at_once(keeps));
        for expected in 1..3 {
            assert!(task.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
            kept.take().unwrap().wake();
            assert_eq!(counted.0.load(Ordering::Relaxed), expected);
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn no_notice_of_another_thread_is_lost() {
        let (sent, mut received) = tokio::sync::mpsc::channel(1);
        let sending = tokio::spawn(async move {
            for piece in 0..10_000 {
                sent.send(piece).await.unwrap();
            }
        });
        let reading = rerun_at_once(async {
            let mut sum = 0u64;
            while let Some(piece) = received.recv().await {
                sum += piece;
            }
            sum
        });
        assert_eq!(reading.await, 49_995_000);
        sending.await.unwrap();
    }
}
