//! Where the work of the commands runs that wait for servers, models and tools.

use super::exit::Failed;

/// Does the work to its end.
pub(super) fn block_on<T>(work: impl Future<Output = Result<T, Failed>>) -> Result<T, Failed> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failed::io("cannot start", error))?;
    runtime.block_on(work)
}
