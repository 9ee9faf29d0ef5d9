//! One run of a command under way: its processes, its pipes, and what it has printed so far.

use std::io;
use std::process::ExitStatus;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::FutureExt;
use futures_util::future::Fuse;
use tokio::io::AsyncWriteExt;
use tokio::process::Child;
use tokio_util::sync::CancellationToken;

use super::capture::{Head, Tail, drain};
use super::group::{Group, Patience};
use crate::host::BoxFuture;
use crate::host::tool::expiry;
use crate::time::Nanos;

/// The most bytes of standard error that are kept for the error's text: the last ones.
pub(super) const STDERR_BYTES: usize = 4 * 1024;

/// A run under way. Dropped, it kills its processes.
pub(super) struct Running {
    child: Child,
    group: Group,
    feed: Fuse<BoxFuture<'static, ()>>,
    pipes: Fuse<BoxFuture<'static, ()>>,
    printed: Prints,
}

/// How a run came to its end.
#[derive(Debug)]
pub(super) enum Ended {
    Exit(io::Result<ExitStatus>),
    Timeout(Nanos),
    Cancelled,
}

/// What was printed so far; clones share it.
#[derive(Clone)]
pub(super) struct Prints(Arc<Mutex<Printed>>);

/// What is kept of it.
pub(super) struct Printed {
    /// The beginning of the output.
    pub(super) first: Head,
    /// The end of the output.
    pub(super) last: Tail,
    /// The end of the complaints.
    pub(super) complained: Tail,
}

/// How much of the output is kept.
#[derive(Clone, Copy)]
pub(super) struct Kept {
    /// Of its beginning.
    pub(super) first: usize,
    /// Of its end.
    pub(super) last: usize,
}

impl Prints {
    pub(super) fn lock(&self) -> MutexGuard<'_, Printed> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Running {
    /// Takes a process that was just started, gives it its arguments, and reads what it prints.
    pub(super) fn new(mut child: Child, arguments: Option<String>, kept: Kept, patience: Patience) -> Self {
        let group = Group::of(&child, patience);
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let printed = Prints(Arc::new(Mutex::new(Printed {
            first: Head::new(kept.first),
            last: Tail::new(kept.last),
            complained: Tail::new(STDERR_BYTES),
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
    pub(super) fn prints(&self) -> Prints {
        self.printed.clone()
    }

    /// From now on its processes go on when it is dropped.
    pub(super) fn keep(&mut self) {
        self.group.keep();
    }

    /// Feeds it and reads what it prints until it exits, is to be cancelled, or the time is up. May be asked again.
    pub(super) async fn ended(&mut self, cancel: &CancellationToken, timeout: Option<Nanos>) -> Ended {
        let Self { child, feed, pipes, .. } = self;
        tokio::select! {
            biased;
            status = child.wait() => Ended::Exit(status),
            () = cancel.cancelled() => Ended::Cancelled,
            () = expiry(timeout) => Ended::Timeout(timeout.unwrap_or_default()),
            never = forever(async { tokio::join!(feed, pipes) }) => match never {},
        }
    }

    /// Ends all its processes. Of a command that has exited, what it printed is read to the end first.
    pub(super) async fn close(&mut self, ended: &Ended) {
        let Self { child, group, pipes, .. } = self;
        let mut pipes = std::pin::Pin::new(pipes);
        if matches!(ended, Ended::Exit(_)) {
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
