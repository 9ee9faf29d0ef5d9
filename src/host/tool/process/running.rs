//! One run of a command in flight: its processes, its pipes, and what it has printed so far.

use std::io;
use std::process::ExitStatus;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::FutureExt;
use futures_util::future::Fuse;
use tokio::io::AsyncWriteExt;
use tokio::process::Child;
use tokio_util::sync::CancellationToken;

use super::capture::{CaptureHead, CaptureTail, drain};
use super::group::{GracePeriods, ProcessGroup};
use crate::host::BoxFuture;
use crate::host::tool::expiry;
use crate::time::Nanos;

/// The most bytes of standard error that are kept for the error's text: the last ones.
pub(super) const STDERR_BYTES: usize = 4 * 1024;

/// A run in flight. Dropped, it kills its processes.
pub(super) struct RunningProcess {
    child: Child,
    group: ProcessGroup,
    feed: Fuse<BoxFuture<'static, ()>>,
    pipes: Fuse<BoxFuture<'static, ()>>,
    printed: PrintedOutput,
}

/// How a run came to its end.
#[derive(Debug)]
pub(super) enum RunOutcome {
    Exit(io::Result<ExitStatus>),
    Timeout(Nanos),
    Cancelled,
}

/// What was printed so far; clones share it.
#[derive(Clone)]
pub(super) struct PrintedOutput(Arc<Mutex<KeptOutput>>);

/// What is kept of it.
pub(super) struct KeptOutput {
    /// The beginning of the output.
    pub(super) first: CaptureHead,
    /// The end of the output.
    pub(super) last: CaptureTail,
    /// The end of the complaints.
    pub(super) complained: CaptureTail,
}

/// How much of the output is kept.
#[derive(Clone, Copy)]
pub(super) struct OutputLimits {
    /// Of its beginning.
    pub(super) first: usize,
    /// Of its end.
    pub(super) last: usize,
}

impl PrintedOutput {
    pub(super) fn lock(&self) -> MutexGuard<'_, KeptOutput> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RunningProcess {
    /// Takes a process that was just started, gives it its arguments, and reads what it prints.
    pub(super) fn new(
        mut child: Child,
        arguments: Option<String>,
        kept: OutputLimits,
        patience: GracePeriods,
    ) -> Self {
        let group = ProcessGroup::of(&child, patience);
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let printed = PrintedOutput(Arc::new(Mutex::new(KeptOutput {
            first: CaptureHead::new(kept.first),
            last: CaptureTail::new(kept.last),
            complained: CaptureTail::new(STDERR_BYTES),
        })));
        let feed: BoxFuture<'static, ()> = Box::pin(async move {
            if let (Some(mut stdin), Some(arguments)) = (stdin, arguments) {
                // A command need not read its arguments: a closed pipe is no failure.
                let _ = stdin.write_all(arguments.as_bytes()).await;
            }
        });
        let (out, err) = (printed.clone(), printed.clone());
        let pipes: BoxFuture<'static, ()> = Box::pin(async move {
            let output = drain(stdout, |bytes| {
                let mut printed = out.lock();
                printed.first.push(bytes);
                printed.last.push(bytes);
            });
            let complaints = drain(stderr, |bytes| err.lock().complained.push(bytes));
            tokio::join!(output, complaints);
        });
        Self { child, group, feed: feed.fuse(), pipes: pipes.fuse(), printed }
    }

    /// The number of the process; `None`: it has ended.
    pub(super) fn id(&self) -> Option<u32> {
        self.child.id()
    }

    /// What it has printed.
    pub(super) fn prints(&self) -> PrintedOutput {
        self.printed.clone()
    }

    /// From now on its processes continue when it is dropped.
    pub(super) fn keep(&mut self) {
        self.group.keep();
    }

    /// Feeds it and reads what it prints until it exits, is to be cancelled, or the time is up. May be asked again.
    pub(super) async fn ended(&mut self, cancel: &CancellationToken, timeout: Option<Nanos>) -> RunOutcome {
        let Self { child, feed, pipes, .. } = self;
        tokio::select! {
            biased;
            status = child.wait() => RunOutcome::Exit(status),
            () = cancel.cancelled() => RunOutcome::Cancelled,
            () = expiry(timeout.map(Into::into)) => RunOutcome::Timeout(timeout.unwrap_or_default()),
            never = forever(async { tokio::join!(feed, pipes) }) => match never {},
        }
    }

    /// Ends all its processes. Of a command that has exited, what it printed is read to the end first.
    pub(super) async fn close(&mut self, ended: &RunOutcome) {
        let Self { child, group, pipes, .. } = self;
        let mut pipes = std::pin::Pin::new(pipes);
        if matches!(ended, RunOutcome::Exit(_)) {
            group.settle(pipes.as_mut()).await;
        }
        group.end(child, pipes).await;
    }
}

/// Does the work, then never ends.
pub(in crate::host::tool) async fn forever<T>(work: impl Future<Output = T>) -> std::convert::Infallible {
    work.await;
    std::future::pending().await
}
