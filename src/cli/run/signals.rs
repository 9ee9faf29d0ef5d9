//! The signals that stop a run: the first asks it to end, the second kills what it has going, the third gives up on it.
//! What only prepares a run is given up at the first.

use crate::host::StopSwitch;
use tokio_util::sync::CancellationToken;

use crate::cli::exit::CommandFailure;

#[cfg(unix)]
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Ctrl-C, and on Unix SIGTERM and SIGHUP, as they come.
pub(crate) struct StopSignals {
    #[cfg(unix)]
    streams: Vec<Signal>,
}

impl StopSignals {
    /// Does the work, unless a signal comes before it is done: then it is dropped, which kills every process group it has
    /// going.
    pub(crate) async fn unless_heard<T>(
        &mut self,
        work: impl Future<Output = Result<T, CommandFailure>>,
    ) -> Result<T, CommandFailure> {
        tokio::select! {
            biased;
            () = self.next() => Err(CommandFailure::Cancelled),
            done = work => done,
        }
    }

    /// Passes the first signal on to the graceful stop, the second to the one that kills, and the third to `leave`.
    pub(crate) async fn pass_on(mut self, stop: StopSwitch, leave: CancellationToken) {
        for token in [stop.graceful, stop.kill, leave] {
            self.next().await;
            token.cancel();
        }
    }
}

#[cfg(unix)]
impl StopSignals {
    /// Listens from now on: two presses of Ctrl-C in quick succession count as two.
    pub(crate) fn listen() -> Self {
        let mut kinds = vec![SignalKind::interrupt(), SignalKind::terminate()];
        if !hangups_are_ignored() {
            kinds.push(SignalKind::hangup());
        }
        Self { streams: kinds.into_iter().filter_map(|kind| signal(kind).ok()).collect() }
    }

    async fn next(&mut self) {
        let streams = &mut self.streams;
        std::future::poll_fn(|cx| {
            let came = streams.iter_mut().any(|stream| stream.poll_recv(cx).is_ready());
            if came { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
        })
        .await;
    }
}

/// Whether who started this wants it to survive the terminal, as `nohup` does. Known on Linux only.
#[cfg(unix)]
fn hangups_are_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 1 == 1)
}

#[cfg(not(unix))]
impl StopSignals {
    /// Listens from now on.
    pub(crate) fn listen() -> Self {
        Self {}
    }

    async fn next(&mut self) {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
