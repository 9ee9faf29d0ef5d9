//! Work that blocks or takes long, off the threads of the runtime: other runs continue meanwhile.

/// Does the work on a thread for such work. It is done to its end, also if nobody waits for it any more.
pub(crate) async fn off_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime shuts down: this task ends, too.
            Err(_) => std::future::pending().await,
        },
    }
}
