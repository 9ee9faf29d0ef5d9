//! What `server.py` notes of itself, and what became of its processes.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// Where servers note what happens to them. What they started ends with a test that fails.
pub(crate) struct Notes(TempDir);

impl Notes {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn folder(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder().join("notes")
    }

    pub(crate) fn all(&self) -> Vec<String> {
        std::fs::read_to_string(self.path()).unwrap_or_default().lines().map(str::to_owned).collect()
    }

    /// Every process that was noted.
    pub(crate) fn pids(&self) -> Vec<u32> {
        let notes = self.all();
        let of = |note: &String| note.strip_prefix("started ").or(note.strip_prefix("child "))?.parse().ok();
        notes.iter().filter_map(of).collect()
    }

    /// Waits until so many notes begin like that.
    pub(crate) async fn wait_for(&self, note: &str, times: usize) {
        let seen = || self.all().iter().filter(|said| said.starts_with(note)).count() >= times;
        until(seen, &format!("`{note}` is not noted")).await;
    }

    /// Waits until nothing is left of what was noted.
    pub(crate) async fn all_gone(&self) {
        let pids = self.pids();
        assert!(!pids.is_empty());
        until(|| !pids.iter().any(|pid| lives(*pid)), "processes are left").await;
    }
}

impl Drop for Notes {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for pid in self.pids().into_iter().filter(|pid| lives(*pid)) {
                let _ = Command::new("kill").args(["-KILL", &pid.to_string()]).status();
            }
        }
    }
}

/// The server that plays them all.
pub(crate) fn server() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/host/mcp/server.py")
}

pub(crate) fn signal(name: &str, pid: u32) {
    let sent = Command::new("kill").args([&format!("-{name}"), &pid.to_string()]).status();
    assert!(sent.unwrap().success());
}

async fn until(mut happened: impl FnMut() -> bool, otherwise: &str) {
    let end = Instant::now() + Duration::from_secs(30);
    while !happened() {
        assert!(Instant::now() < end, "{otherwise}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Whether the process is there and is not a dead one that nobody has reaped.
fn lives(pid: u32) -> bool {
    let status = Command::new("ps").args(["-o", "stat=", "-p", &pid.to_string()]).output().unwrap();
    let state = String::from_utf8_lossy(&status.stdout).trim().to_owned();
    !state.is_empty() && !state.starts_with('Z')
}
