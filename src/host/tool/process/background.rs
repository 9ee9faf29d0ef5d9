//! Commands that continue in the background: who they are, what they print, and their end.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use indexmap::IndexMap;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use super::group;
use super::running::{PrintedOutput, RunOutcome, RunningProcess};
use crate::time::Nanos;

/// How long the mark in a handle is.
const MARK: usize = 6;

/// The commands of an agent that continue in the background. Cheap to clone; clones share them.
///
/// A [`ProcessTool`](crate::host::ProcessTool) that was given them puts its commands here when their time is up and
/// it learns that; [`BackgroundProcesses::tool`] has tools that look at them and stop them. Each ends with the run it belongs to
/// unless it is to be kept.
#[derive(Clone)]
pub struct BackgroundProcesses(Arc<Mutex<ProcessTable>>);

struct ProcessTable {
    most: usize,
    /// What every handle ends with. An earlier run of the session has handed out others.
    mark: String,
    begun: u64,
    entries: IndexMap<String, ProcessEntry>,
}

/// A command in the background, or one that was.
#[derive(Clone)]
pub(super) struct ProcessEntry {
    tool: String,
    id: Option<u32>,
    prints: PrintedOutput,
    ending: watch::Receiver<Option<ProcessEnd>>,
    /// Fires when the run it belongs to is over; `None`: it is kept.
    run: Option<CancellationToken>,
    stop: CancellationToken,
}

/// How a command ended.
#[derive(Clone, Debug)]
struct ProcessEnd {
    status: &'static str,
    code: Option<i32>,
    signal: Option<String>,
}

impl BackgroundProcesses {
    /// None yet, and at most so many at the same time.
    pub fn new(most: usize) -> Self {
        // The end of such an id is random.
        let id = crate::host::new_uuid().simple().to_string();
        let mark = id.chars().skip(id.len().saturating_sub(MARK)).collect();
        Self(Arc::new(Mutex::new(ProcessTable { most, mark, begun: 0, entries: IndexMap::new() })))
    }

    /// Ends when nothing is alive any more of the runs that are over.
    pub async fn settled(&self) {
        let over = |entry: &&ProcessEntry| entry.run.as_ref().is_some_and(CancellationToken::is_cancelled);
        let over: Vec<ProcessEntry> = self.lock().entries.values().filter(over).cloned().collect();
        for entry in over {
            entry.over().await;
        }
    }

    /// Takes over a command whose time is up and gives it a handle; gives it back if there are as many as may be.
    pub(super) fn adopt(
        &self,
        mut running: RunningProcess,
        tool: &str,
        run: &CancellationToken,
        keep: bool,
    ) -> Result<String, Box<RunningProcess>> {
        let (sender, ending) = watch::channel(None);
        let stop = if keep { CancellationToken::new() } else { run.child_token() };
        let entry = ProcessEntry {
            tool: tool.to_owned(),
            id: running.id(),
            prints: running.prints(),
            ending,
            run: (!keep).then(|| run.clone()),
            stop: stop.clone(),
        };
        let handle = {
            let mut table = self.lock();
            if table.running() >= table.most {
                return Err(Box::new(running));
            }
            table.add(entry)
        };
        if keep {
            running.keep();
        }
        let watch = async move {
            let ended = running.ended(&stop, None).await;
            running.close(&ended).await;
            sender.send_replace(Some(ProcessEnd::of(&ended)));
        };
        tokio::spawn(watch.in_current_span());
        Ok(handle)
    }

    pub(super) fn get(&self, handle: &str) -> Option<ProcessEntry> {
        self.lock().entries.get(handle).cloned()
    }

    /// Whether it gave that handle to somebody.
    pub(super) fn gave(&self, handle: &str) -> bool {
        let mark = handle.rsplit_once('-').map(|(_, mark)| mark);
        mark == Some(self.lock().mark.as_str())
    }

    pub(super) fn handles(&self) -> Vec<String> {
        self.lock().entries.keys().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, ProcessTable> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ProcessTable {
    fn running(&self) -> usize {
        self.entries.values().filter(|entry| entry.runs()).count()
    }

    /// Those that ended longest ago are forgotten first.
    fn add(&mut self, entry: ProcessEntry) -> String {
        while self.entries.len() >= self.most.saturating_mul(2) {
            let Some(ended) = self.entries.values().position(|entry| !entry.runs()) else { break };
            self.entries.shift_remove_index(ended);
        }
        self.begun = self.begun.saturating_add(1);
        let handle = format!("{}-{}-{}", entry.tool, self.begun, self.mark);
        self.entries.insert(handle.clone(), entry);
        handle
    }
}

impl ProcessEntry {
    fn runs(&self) -> bool {
        self.ending.borrow().is_none()
    }

    /// Ends when it has ended, with all its processes.
    pub(super) async fn over(&self) {
        // Without a sender nobody watches it any more, so it is over as well.
        let _ = self.ending.clone().wait_for(Option::is_some).await;
    }

    /// Asks it to end.
    pub(super) fn stop(&self) {
        self.stop.cancel();
    }

    /// How it is, for the model.
    pub(super) fn shown(&self, handle: &str) -> Value {
        let printed = self.prints.lock();
        let ending = self.ending.borrow().clone();
        let mut shown = json!({
            "handle": handle, "tool": self.tool, "process_id": self.id,
            "status": ending.as_ref().map_or("running", |ending| ending.status),
        });
        if let Some(ProcessEnd { code, signal, .. }) = ending {
            if let Some(code) = code {
                shown["exit_code"] = code.into();
            }
            if let Some(signal) = signal {
                shown["signal"] = signal.into();
            }
        }
        shown["printed_bytes"] = printed.first.seen().into();
        shown["output"] = printed.last.text().into();
        let complained = printed.complained.text();
        if !complained.is_empty() {
            shown["errors"] = complained.into();
        }
        shown
    }
}

impl ProcessEnd {
    fn of(ended: &RunOutcome) -> Self {
        let (status, code, signal) = match ended {
            RunOutcome::Exit(Ok(status)) => match status.code() {
                Some(code) => ("exited", Some(code), None),
                None => ("killed", None, Some(group::signal_of(*status))),
            },
            RunOutcome::Exit(Err(_)) => ("unknown", None, None),
            RunOutcome::Timeout(_) | RunOutcome::Cancelled => ("stopped", None, None),
        };
        Self { status, code, signal }
    }
}

/// What the model learns of a command that continues.
pub(super) fn goes_on(handle: &str, id: Option<u32>, prints: &PrintedOutput, after: Nanos) -> Value {
    json!({
        "status": "running",
        "handle": handle,
        "process_id": id,
        "note": format!("It did not end within {after} and continues in the background."),
        "output": prints.lock().last.text(),
    })
}

impl fmt::Debug for BackgroundProcesses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Processes").field(&self.handles()).finish()
    }
}
