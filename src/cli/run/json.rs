//! A run as JSON lines: each event, then each directive it led to, then the call of a model it ended; then the result.
//! Between them what tools say about how far they are and, if that is wanted, the pieces of streamed answers.

use std::sync::{Arc, Mutex, PoisonError};

use super::spent;
use crate::engine::{Directive, Envelope, Event, RunStarted};
use crate::host::{
    ModelAttempt, Observer, PolicyFilesError, RunReport, SessionCheckpoint, SharedStateError, ToolProgress,
};
use serde_json::{Value, json};

use crate::cli::exit::CommandFailure;
use crate::cli::out;

/// Prints one event or directive a line.
#[derive(Default)]
pub(crate) struct JsonLines {
    seq: u64,
    /// Digest of the effective policy.
    policy: String,
    /// Whether pieces of answers are printed.
    stream: bool,
    failed: WriteFailure,
}

/// The first line that could not be written, if there is one.
pub(crate) type WriteFailure = Arc<Mutex<Option<CommandFailure>>>;

impl JsonLines {
    /// Prints answers while they come if `stream` says so.
    pub(crate) fn new(stream: bool) -> Self {
        Self { stream, ..Self::default() }
    }

    /// What could not be written, once the run is over: it is no reason to stop the run.
    pub(crate) fn unwritten(&self) -> WriteFailure {
        Arc::clone(&self.failed)
    }

    fn line(&mut self, kind: &str, value: Value) {
        let mut line = json!({ "v": 1, "kind": kind, "seq": self.seq });
        if let (Some(line), Value::Object(fields)) = (line.as_object_mut(), value) {
            line.extend(fields);
        }
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        if failed.is_none() {
            *failed = out::raw(&format!("{line}\n")).err();
        }
    }
}

impl Observer for JsonLines {
    fn resumed(&mut self, past: &SessionCheckpoint) {
        (self.seq, self.policy) = (past.state.seq, past.policy.clone());
        let unknown: Vec<&str> = past.unknown().map(|run| run.call.as_str()).collect();
        let line =
            json!({ "run": past.state.run, "messages": past.messages.len(), "unknown_calls": unknown });
        self.line("resumed", line);
    }

    fn event(&mut self, envelope: &Envelope) {
        self.seq = envelope.seq;
        if let Event::RunStarted(RunStarted { policy, .. }) | Event::PolicyChanged { policy } =
            &envelope.event
        {
            self.policy.clone_from(policy);
        }
        self.line("event", serde_json::to_value(envelope).unwrap_or_default());
    }

    fn directive(&mut self, directive: &Directive) {
        let mut line = serde_json::to_value(directive).unwrap_or_default();
        if let Some(line) = line.as_object_mut() {
            line.insert("policy".into(), self.policy.clone().into());
        }
        self.line("directive", line);
    }

    fn streamed(&mut self, text: &str) {
        if self.stream {
            self.line("streamed", json!({ "text": text }));
        }
    }

    fn progressed(&mut self, progress: &ToolProgress) {
        let ToolProgress { call, tool, text } = progress;
        self.line("progress", json!({ "call": call, "tool": tool, "text": text }));
    }

    fn attempt(&mut self, attempt: &ModelAttempt) {
        self.line("attempt", serde_json::to_value(attempt).unwrap_or_default());
    }

    fn on_reload_error(&mut self, error: &PolicyFilesError) {
        self.line("reload_failed", json!({ "message": error.to_string() }));
    }

    fn on_shared_error(&mut self, error: &SharedStateError) {
        self.line("shared_failed", json!({ "message": error.to_string() }));
    }
}

/// The last line: how it ended.
pub(crate) fn result(report: &RunReport, session: &str) -> Value {
    let mut line = json!({
        "v": 1,
        "kind": "result",
        "outcome": report.outcome,
        "turns": report.state.turn,
        "tokens": report.state.usage,
        "spent": spent::json(report),
        "slices": report.state.slices(),
        "metrics": report.metrics.snapshot(),
        "state": report.state.digest(),
        "session": session,
    });
    if let (Some(line), Some(cost)) = (line.as_object_mut(), report.cost) {
        line.insert("cost_usd".into(), json!(cost));
    }
    if let (Some(line), Some(partial)) = (line.as_object_mut(), &report.partial) {
        line.insert("partial".into(), json!(partial));
    }
    line
}
