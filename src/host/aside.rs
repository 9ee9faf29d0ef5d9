//! What a run of a tool tells its host in addition to its outcome: how far it is, and what it made that is no text.

use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::time::Instant;

use crate::host::attached::{self, MediaType};
use crate::host::result_files::ResultFiles;

/// The least time between two reports of one run.
const PAUSE: Duration = Duration::from_millis(100);
/// The most characters of what it says.
const MOST_CHARS: usize = 200;
/// How much is kept for a host that has no time to listen; what comes then is lost.
const WAITING: usize = 64;
/// The most files of one run.
const MOST_FILES: u32 = 64;

/// Reports how far a tool is to the host. The default one drops its reports.
#[derive(Clone, Default)]
pub struct ProgressReporter(Option<Arc<ProgressSink>>);

struct ProgressSink {
    call: String,
    tool: String,
    sender: Sender<ToolProgress>,
    last: Mutex<Option<Instant>>,
    files: Option<RunFiles>,
}

/// Where a run keeps what is no text.
struct RunFiles {
    results: Arc<ResultFiles>,
    /// What the handles begin with, if the policy keeps all that the model is not shown.
    handle: Option<String>,
    kept: AtomicU32,
}

/// How far a run of a tool is, as the tool tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolProgress {
    /// The model's id of the call.
    pub call: String,
    /// The tool.
    pub tool: String,
    /// How far it is, in a few words.
    pub text: String,
}

/// The way of what runs say to the host.
#[derive(Clone, Debug)]
pub(super) struct ProgressChannel(Sender<ToolProgress>);

impl ProgressReporter {
    /// Reports how far the run is. Reports that come too often are dropped and long ones are cut, so that none holds the run up.
    pub fn progress(&self, text: &str) {
        let Some(sink) = &self.0 else { return };
        let now = Instant::now();
        let mut last_report = sink.last.lock().unwrap_or_else(PoisonError::into_inner);
        if last_report.is_some_and(|last| now.saturating_duration_since(last) < PAUSE) {
            return;
        }
        let text = text.chars().take(MOST_CHARS).collect();
        let progress = ToolProgress { call: sink.call.clone(), tool: sink.tool.clone(), text };
        if sink.sender.try_send(progress).is_ok() {
            *last_report = Some(now);
        }
    }

    /// Keeps what is no text as a sidecar file of the session, if the policy keeps what the model is not shown
    /// (`result.overflow: spill`), or if it is an image or a PDF, which models can be shown. Returns its handle.
    pub async fn keep(&self, media_type: &str, bytes: Vec<u8>) -> Option<String> {
        let files = self.0.as_ref()?.files.as_ref()?;
        let number = files.kept.fetch_add(1, Ordering::Relaxed);
        if number >= MOST_FILES {
            return None;
        }
        let handle = match &files.handle {
            Some(handle) => format!("{handle}-{number}"),
            None if bytes.len() <= attached::MOST_BYTES && MediaType::of(&bytes).is_some() => {
                attached::handle(&bytes)
            }
            None => return None,
        };
        let (results, named, media_type) =
            (Arc::clone(&files.results), handle.clone(), media_type.to_owned());
        let written =
            tokio::task::spawn_blocking(move || results.keep_file(&named, &media_type, &bytes)).await;
        match written.unwrap_or_else(|broken| Err(std::io::Error::other(broken))) {
            Ok(()) => Some(handle),
            Err(error) => {
                tracing::warn!(handle, error = %error, "result not kept");
                None
            }
        }
    }
}

impl ProgressChannel {
    /// The way, and its end.
    pub(super) fn new() -> (Self, Receiver<ToolProgress>) {
        let (sender, receiver) = channel(WAITING);
        (Self(sender), receiver)
    }

    /// The reporter of one run. What it makes is kept under handles that begin with `handle`; without one only what models can be
    /// shown is.
    pub(super) fn of(
        &self,
        call: &str,
        tool: &str,
        handle: Option<&str>,
        results: &Arc<ResultFiles>,
    ) -> ProgressReporter {
        let files = RunFiles {
            results: Arc::clone(results),
            handle: handle.map(str::to_owned),
            kept: AtomicU32::new(0),
        };
        ProgressReporter(Some(Arc::new(ProgressSink {
            call: call.to_owned(),
            tool: tool.to_owned(),
            sender: self.0.clone(),
            last: Mutex::default(),
            files: Some(files),
        })))
    }
}

impl fmt::Debug for ProgressReporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Aside").field(&self.0.as_ref().map(|sink| &sink.tool)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn who_talks_without_end_is_heard_now_and_then_and_briefly() {
        let (asides, mut reports) = ProgressChannel::new();
        let aside = asides.of("c1", "copy", None, &Arc::new(ResultFiles::new(None)));
        for _ in 0..1000 {
            aside.progress(&"far ".repeat(1000));
        }
        tokio::time::advance(PAUSE).await;
        aside.progress("done");
        let said: Vec<_> = std::iter::from_fn(|| reports.try_recv().ok()).map(|told| told.text).collect();
        assert_eq!(said, ["far ".repeat(50), "done".to_owned()]);
    }

    #[tokio::test]
    async fn what_is_kept_has_a_handle_and_there_is_an_end_to_it() {
        let dir = tempfile::tempdir().unwrap();
        let results = Arc::new(ResultFiles::new(Some(dir.path().to_owned())));
        let (asides, _heard) = ProgressChannel::new();
        let aside = asides.of("c1", "draw", Some("r1-0"), &results);
        assert_eq!(aside.keep("image/png", vec![1, 2]).await.as_deref(), Some("r1-0-0"));
        assert_eq!(aside.keep("text/../../x", vec![3]).await.as_deref(), Some("r1-0-1"));
        assert_eq!(std::fs::read(dir.path().join("r1-0-0.png")).unwrap(), [1, 2]);
        assert_eq!(std::fs::read(dir.path().join("r1-0-1.bin")).unwrap(), [3]);
        for _ in 2..MOST_FILES {
            assert!(aside.keep("", Vec::new()).await.is_some());
        }
        assert_eq!(aside.keep("", Vec::new()).await, None);
        let nowhere = asides.of("c1", "draw", None, &results);
        assert_eq!(nowhere.keep("image/png", vec![1]).await, None, "the policy keeps nothing");
    }
}
