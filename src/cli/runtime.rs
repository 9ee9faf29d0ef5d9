//! Where the work of the commands runs that wait for servers, models and tools.

use std::time::Duration;

use super::exit::Failed;

/// The longest that what the work left behind is waited for.
const PATIENCE: Duration = Duration::from_secs(2);

/// Does the work to its end. The tasks it left behind are dropped, and what the system is asked for is not waited for
/// without end: looking up the name of a server that nobody waits for any more may take long.
pub(super) fn block_on<T>(work: impl Future<Output = Result<T, Failed>>) -> Result<T, Failed> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failed::io("cannot start", error))?;
    let result = runtime.block_on(work);
    runtime.shutdown_timeout(PATIENCE);
    result
}
