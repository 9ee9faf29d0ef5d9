//! What ends a call from outside: the run is stopped, or a time is over.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;

use tokio::task::unconstrained;
use tokio::time::{Instant, Sleep, sleep_until};

use crate::engine::{CallTimeouts, Failure};
use crate::host::port::ModelRequest;
use crate::policy::ErrorClass;
use crate::time::Nanos;

/// The result of `attempt`, unless the request is cancelled or takes too long; then `attempt` is dropped at once
/// and all it holds with it.
pub(crate) async fn within<T>(
    request: &ModelRequest<'_>,
    attempt: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    // An attempt that never waits uses up the budget tokio gives a task, and the timer must fire all the same.
    let time_is_over = unconstrained(async {
        match request.timeout {
            Some(timeout) => {
                tokio::time::sleep(timeout).await;
                Nanos::from(timeout)
            }
            None => std::future::pending().await,
        }
    });
    tokio::select! {
        // Cancelled first: nobody wants a result that arrives at the same moment.
        biased;
        () = request.cancel.cancelled() => {
            Err(Failure::of(ErrorClass::Cancelled, "the model call was cancelled"))
        }
        result = attempt => result,
        timeout = time_is_over => Err(not_whole(timeout)),
    }
}

/// A time limit that each piece of an answer moves. The timer is set anew when it fires, not with each piece.
#[derive(Default)]
pub(super) struct MovingLimit {
    timer: Option<Pin<Box<Sleep>>>,
}

impl MovingLimit {
    /// What `work` comes to; `None`: it is not done at that time.
    pub(super) async fn within<T>(&mut self, until: Instant, work: impl Future<Output = T>) -> Option<T> {
        let mut work = pin!(work);
        poll_fn(|context| {
            if let Poll::Ready(done) = work.as_mut().poll(context) {
                return Poll::Ready(Some(done));
            }
            let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(until)));
            if timer.deadline() > until {
                timer.as_mut().reset(until);
            }
            // An answer whose pieces are always there uses up the budget tokio gives a task, and the timer must fire all the same.
            while pin!(unconstrained(timer.as_mut())).poll(context).is_ready() {
                if timer.deadline() >= until {
                    return Poll::Ready(None);
                }
                timer.as_mut().reset(until);
            }
            Poll::Pending
        })
        .await
    }
}

/// The whole answer was not there in time.
pub(crate) fn not_whole(timeout: Nanos) -> Failure {
    too_slow(format!("no complete answer within {timeout}"))
}

/// There was no connection in time.
pub(super) fn no_connection(server: &str, timeouts: CallTimeouts) -> Failure {
    too_slow(format!("no connection to {server} {}", limit(timeouts.connect)))
}

/// Nothing of the answer was there in time.
pub(crate) fn no_first_token(timeouts: CallTimeouts) -> Failure {
    too_slow(format!("no first token of the answer {}", limit(timeouts.first_token)))
}

/// The answer had begun, and nothing more of it came.
pub(crate) fn stalled(timeouts: CallTimeouts) -> Failure {
    too_slow(format!("the answer stalled: nothing came {}", limit(timeouts.idle)))
}

fn limit(timeout: Option<Nanos>) -> String {
    timeout.map_or_else(|| "in time".to_owned(), |timeout| format!("within {timeout}"))
}

fn too_slow(message: String) -> Failure {
    Failure::of(ErrorClass::Timeout, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::model::fuzzed::request;

    #[tokio::test]
    async fn an_attempt_that_always_has_something_to_do_ends_in_time() {
        let timeout = Some(core::time::Duration::from_millis(5));
        let request = ModelRequest { timeout, ..request(&[]) };
        let busy = async {
            for _ in 0..u32::MAX {
                tokio::task::consume_budget().await;
            }
            Ok(())
        };
        let failure = within(&request, busy).await.unwrap_err();
        assert_eq!(failure.class, Some(ErrorClass::Timeout));
    }

    #[tokio::test(start_paused = true)]
    async fn a_limit_moves_with_each_piece() {
        const SECOND: core::time::Duration = core::time::Duration::from_secs(1);
        let (mut limit, start) = (MovingLimit::default(), Instant::now());
        for _ in 0..4 {
            let until = Instant::now() + 5 * SECOND;
            assert_eq!(limit.within(until, tokio::time::sleep(3 * SECOND)).await, Some(()));
        }
        let until = Instant::now() + 5 * SECOND;
        assert_eq!(limit.within(until, std::future::pending::<()>()).await, None);
        assert_eq!(start.elapsed().as_secs(), 17);
        // It may also come earlier than it was.
        let far = Instant::now() + 60 * SECOND;
        assert_eq!(limit.within(far, tokio::time::sleep(SECOND)).await, Some(()));
        let until = Instant::now() + SECOND;
        assert_eq!(limit.within(until, std::future::pending::<()>()).await, None);
        assert_eq!(start.elapsed().as_secs(), 19);
    }

    #[tokio::test]
    async fn a_limit_ends_pieces_that_always_come() {
        let mut limit = MovingLimit::default();
        let until = Instant::now() + core::time::Duration::from_millis(5);
        let busy = async {
            for _ in 0..u32::MAX {
                tokio::task::consume_budget().await;
            }
        };
        assert_eq!(limit.within(until, busy).await, None);
    }
}
