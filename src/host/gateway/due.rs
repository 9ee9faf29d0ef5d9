//! A future that is polled only when something that it waits for has happened.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::task::AtomicWaker;

/// A future that is polled only when it is due. hyper asks a body for more behind each piece until nothing is there, and to poll all that a
/// turn waits for takes longer than to read the piece (`benches/gateway.py`).
pub(super) struct DueFuture<T> {
    future: Pin<Box<dyn Future<Output = T> + Send>>,
    alarm: Arc<Alarm>,
    waker: Waker,
}

/// Whether the future is due, and whom to call then.
struct Alarm {
    is_due: AtomicBool,
    task: AtomicWaker,
}

impl<T> DueFuture<T> {
    /// It is due at first.
    pub(super) fn new(future: Pin<Box<dyn Future<Output = T> + Send>>) -> Self {
        let alarm = Arc::new(Alarm { is_due: AtomicBool::new(true), task: AtomicWaker::new() });
        Self { future, waker: Arc::clone(&alarm).into(), alarm }
    }
}

impl<T> Future for DueFuture<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        // Registered before it looks, so that no call is missed.
        self.alarm.task.register(context.waker());
        if !self.alarm.is_due.swap(false, Ordering::AcqRel) {
            return Poll::Pending;
        }
        let Self { future, waker, .. } = &mut *self;
        future.as_mut().poll(&mut Context::from_waker(waker))
    }
}

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.is_due.store(true, Ordering::Release);
        self.task.wake();
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use futures_util::FutureExt;
    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn it_is_polled_when_it_is_due_and_not_before() {
        let (polls, (sender, mut receiver)) = (Arc::new(AtomicBool::new(false)), oneshot::channel());
        let polled = Arc::clone(&polls);
        let mut due = DueFuture::new(Box::pin(poll_fn(move |context| {
            polled.store(true, Ordering::Relaxed);
            receiver.poll_unpin(context)
        })));
        let was_polled = |due: &mut DueFuture<_>| {
            let ended = due.now_or_never();
            (ended, polls.swap(false, Ordering::Relaxed))
        };
        assert_eq!(was_polled(&mut due), (None, true));
        assert_eq!(was_polled(&mut due), (None, false));
        sender.send(3).unwrap();
        assert_eq!(was_polled(&mut due), (Some(Ok(3)), true));
    }

    #[tokio::test]
    async fn the_task_is_called_that_polled_last() {
        let (sender, receiver) = oneshot::channel();
        let mut due = DueFuture::new(receiver.boxed());
        assert!((&mut due).now_or_never().is_none());
        let waits = tokio::spawn(due);
        tokio::task::yield_now().await;
        sender.send(3).unwrap();
        assert_eq!(waits.await.unwrap(), Ok(3));
    }
}
