//! Files that are looked at again while a command serves.

use core::time::Duration;

/// How often.
const EVERY: Duration = Duration::from_secs(1);

/// Takes what `poll` finds new in the files of `watch`, as long as it is polled itself.
pub(in crate::cli) async fn look_again<W, T>(
    mut watch: W,
    poll: fn(&mut W) -> Option<T>,
    mut take: impl FnMut(T),
) where
    W: Send + 'static,
    T: Send + 'static,
{
    let mut tick = tokio::time::interval(EVERY);
    loop {
        tick.tick().await;
        // Files are read off the threads that serve.
        let looked = tokio::task::spawn_blocking(move || {
            let found = poll(&mut watch);
            (watch, found)
        });
        let Ok((back, found)) = looked.await else { return };
        watch = back;
        if let Some(found) = found {
            take(found);
        }
    }
}
