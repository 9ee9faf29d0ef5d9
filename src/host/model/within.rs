//! The two things that end a call from outside: the run is stopped, or the time is over.

use std::future::Future;

use crate::engine::Failure;
use crate::host::port::ModelRequest;
use crate::policy::ErrorClass;

/// The result of `attempt`, unless the request is cancelled or takes too long; then `attempt` is dropped at once
/// and all it holds with it.
pub(crate) async fn within<T>(
    request: &ModelRequest<'_>,
    attempt: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    let time_is_over = async {
        match request.timeout {
            Some(timeout) => {
                tokio::time::sleep(timeout.to_std()).await;
                timeout
            }
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        biased;
        () = request.cancel.cancelled() => {
            Err(Failure::of(ErrorClass::Cancelled, "the model call was cancelled"))
        }
        result = attempt => result,
        timeout = time_is_over => {
            Err(Failure::of(ErrorClass::Timeout, format!("no complete answer within {timeout}")))
        }
    }
}
