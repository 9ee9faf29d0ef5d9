//! What ends a call from outside: the run is stopped, or a time is over.

use std::future::Future;

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
    let time_is_over = tokio::task::unconstrained(async {
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
}
