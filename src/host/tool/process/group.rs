//! The processes of one run: asked to end, then killed, all of them.

use std::pin::Pin;
use std::process::ExitStatus;
use std::time::Duration;

use futures_util::future::FusedFuture;
use tokio::process::Child;
use tokio::time::{sleep, timeout};

/// How often a group is looked at while it ends.
const LOOK: Duration = Duration::from_millis(5);

/// The process group of one run. Killed when dropped, unless it is to outlive the host.
pub(in crate::host::tool) struct ProcessGroup {
    /// `None`: gone, its number may belong to others by now.
    #[cfg(unix)]
    id: Option<rustix::process::Pid>,
    #[cfg(unix)]
    kept: bool,
    patience: GracePeriods,
}

/// How long processes are waited for.
#[derive(Clone, Copy, Debug)]
pub(in crate::host::tool) struct GracePeriods {
    /// From the request to end to the kill.
    pub(in crate::host::tool) grace: Duration,
    /// After the leader has ended, for those it left behind.
    pub(in crate::host::tool) linger: Duration,
}

impl ProcessGroup {
    /// After the leader has exited: lets what it left behind write out what it has, for a moment.
    pub(in crate::host::tool) async fn settle<P: FusedFuture<Output = ()>>(&self, mut pipes: Pin<&mut P>) {
        let settled = async {
            if !pipes.is_terminated() {
                pipes.as_mut().await;
            }
            while self.alive() {
                sleep(LOOK).await;
            }
        };
        let _ = timeout(self.linger(), settled).await;
    }

    /// Tells every process to end, waits for that as long as there is patience, kills what is left, and reaps the leader.
    /// Meanwhile the pipes are read, so that nobody hangs on a full one.
    pub(in crate::host::tool) async fn end<P: FusedFuture<Output = ()>>(
        &mut self,
        child: &mut Child,
        mut pipes: Pin<&mut P>,
    ) {
        self.terminate();
        let gone = async {
            let read = async {
                if !pipes.is_terminated() {
                    pipes.as_mut().await;
                }
            };
            let _ = tokio::join!(child.wait(), read);
        };
        let _ = timeout(self.patience.grace, gone).await;
        // The leader is gone and nobody holds its pipes. What still counts as alive is a process that closed
        // them, or one that is dead and that nobody has reaped; so there is no point in the whole grace.
        let rest = async {
            while self.alive() {
                sleep(LOOK).await;
            }
        };
        let _ = timeout(self.linger(), rest).await;
        self.kill(child);
        // A process the system does not let go is left to the runtime to reap.
        let GracePeriods { grace, linger } = self.patience;
        let _ = timeout(grace.max(linger), child.wait()).await;
        self.forget();
    }

    fn linger(&self) -> Duration {
        self.patience.grace.min(self.patience.linger)
    }
}

#[cfg(unix)]
impl ProcessGroup {
    /// The group that `child` leads.
    pub(in crate::host::tool) fn of(child: &Child, patience: GracePeriods) -> Self {
        let id = child.id().and_then(|id| i32::try_from(id).ok()).and_then(rustix::process::Pid::from_raw);
        Self { id, kept: false, patience }
    }

    /// From now on it is not killed when dropped.
    pub(super) fn keep(&mut self) {
        self.kept = true;
    }

    fn alive(&self) -> bool {
        self.id.is_some_and(|id| rustix::process::test_kill_process_group(id).is_ok())
    }

    fn terminate(&mut self) {
        self.signal(rustix::process::Signal::TERM);
    }

    fn kill(&mut self, _leader: &mut Child) {
        self.signal(rustix::process::Signal::KILL);
    }

    /// A group that cannot be signalled is gone.
    fn signal(&mut self, signal: rustix::process::Signal) {
        if let Some(id) = self.id
            && rustix::process::kill_process_group(id, signal).is_err()
        {
            self.forget();
        }
    }

    fn forget(&mut self) {
        self.id = None;
    }
}

#[cfg(unix)]
impl Drop for ProcessGroup {
    fn drop(&mut self) {
        if !self.kept {
            self.signal(rustix::process::Signal::KILL);
        }
    }
}

#[cfg(not(unix))]
impl ProcessGroup {
    /// There are no groups here: the leader alone is ended.
    pub(in crate::host::tool) fn of(_child: &Child, patience: GracePeriods) -> Self {
        Self { patience }
    }

    /// Nothing is killed here when dropped.
    pub(super) fn keep(&mut self) {}

    fn alive(&self) -> bool {
        false
    }

    fn terminate(&mut self) {}

    fn kill(&mut self, leader: &mut Child) {
        let _ = leader.start_kill();
    }

    fn forget(&mut self) {}
}

/// The signal that ended a process, for people.
#[cfg(unix)]
pub(in crate::host::tool) fn signal_of(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt;
    let Some(number) = status.signal() else { return "something unknown".to_owned() };
    let name = match number {
        1 => " (SIGHUP)",
        2 => " (SIGINT)",
        3 => " (SIGQUIT)",
        4 => " (SIGILL)",
        6 => " (SIGABRT)",
        8 => " (SIGFPE)",
        9 => " (SIGKILL)",
        11 => " (SIGSEGV)",
        13 => " (SIGPIPE)",
        14 => " (SIGALRM)",
        15 => " (SIGTERM)",
        _ => "",
    };
    format!("signal {number}{name}")
}

#[cfg(not(unix))]
pub(in crate::host::tool) fn signal_of(_status: ExitStatus) -> String {
    "the system".to_owned()
}
