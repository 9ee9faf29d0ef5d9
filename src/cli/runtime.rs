//! Where the work of the commands runs that wait for servers, models and tools.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::{Builder, Handle, Runtime};

use super::exit::CommandFailure;

/// The longest that what the work left behind is waited for.
const PATIENCE: Duration = Duration::from_secs(2);

/// Does the work to its end. The tasks it left behind are dropped, and what the system is asked for is not waited for
/// without end: looking up the name of a server that nobody waits for any more may take long.
pub(super) fn block_on<T>(
    work: impl Future<Output = Result<T, CommandFailure>>,
) -> Result<T, CommandFailure> {
    let runtime = Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| CommandFailure::io("cannot start", error))?;
    let result = runtime.block_on(work);
    runtime.shutdown_timeout(PATIENCE);
    result
}

/// Waits for one thing after the other, within the work of a command or without it.
#[derive(Clone)]
pub(in crate::cli) struct Waiting(Option<Arc<Runtime>>);

impl Waiting {
    /// On the runtime of the command, if it has begun one, or on one of its own.
    pub(in crate::cli) fn new() -> Result<Self, CommandFailure> {
        if Handle::try_current().is_ok() {
            return Ok(Self(None));
        }
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| CommandFailure::io("cannot start", error))?;
        Ok(Self(Some(Arc::new(runtime))))
    }

    /// What comes of it.
    pub(in crate::cli) fn wait<T>(&self, work: impl Future<Output = T>) -> T {
        match &self.0 {
            Some(runtime) => runtime.block_on(work),
            None => tokio::task::block_in_place(|| Handle::current().block_on(work)),
        }
    }
}
