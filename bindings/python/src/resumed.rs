//! A session as its log has it, for a guard that continues it.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use serde_json::{Value, json};
use unfazed::Interpreter;
use unfazed::engine::{
    Envelope, Event, ProposalId, Record, RunStarted, SessionFold, State, ToolCatalogue, ToolFacts, ToolSpec,
    Work,
};

use crate::parts::EngineParts;

/// What a log has of its session.
pub(crate) struct ResumedSession {
    state: State,
    /// Under the policy, with the tools there were last.
    interpreter: Interpreter,
    /// The tools that were running.
    interrupted: Vec<Value>,
    /// The id in the first line.
    run: String,
    /// How many calls were proposed.
    calls: usize,
    /// The bytes up to the last decision that is written down whole. What follows has led to nothing.
    whole: usize,
}

/// A log while it is read.
struct LogReading<'p> {
    policy: &'p unfazed::Policy,
    interpreter: Interpreter,
    fold: SessionFold,
    /// The event about which nothing is decided yet.
    pending: Option<Envelope>,
    run: String,
    calls: usize,
}

impl LogReading<'_> {
    /// Takes a line. Returns whether a decision ends with it.
    fn line(&mut self, line: &[u8]) -> Result<bool, String> {
        match Record::parse(line).map_err(|error| error.to_string())? {
            Record::Session(header) => self.run = header.run,
            Record::Event(envelope) => self.pending = Some(envelope),
            Record::Directives { policy: decided, .. } => {
                let own = self.policy.digest();
                if decided != own {
                    return Err(format!(
                        "the policy {decided} has decided, and not {own}; continue it under that one"
                    ));
                }
            }
            Record::State { hash, .. } => {
                let Some(envelope) = self.pending.take() else { return Ok(false) };
                self.event(envelope)?;
                if self.fold.state().digest() != hash {
                    return Err(
                        "the events lead to another state; another version of unfazed wrote it".to_owned()
                    );
                }
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn event(&mut self, envelope: Envelope) -> Result<(), String> {
        match &envelope.event {
            Event::RunStarted(RunStarted { tools, .. }) | Event::ToolsChanged { tools } => {
                self.interpreter = Interpreter::new(self.policy.clone(), catalogue(tools)?);
            }
            Event::ToolsProposed { calls, .. } => self.calls = self.calls.saturating_add(calls.len()),
            _ => {}
        }
        self.fold.take(&self.interpreter, envelope);
        Ok(())
    }
}

impl ResumedSession {
    /// Takes the events of the log again, and compares each state with the one that is written down.
    pub(crate) fn read(policy: &unfazed::Policy, log: &[u8]) -> PyResult<Self> {
        let interpreter = Interpreter::new(policy.clone(), ToolCatalogue::default());
        let (fold, pending, run, calls) = (SessionFold::new(), None, String::new(), 0);
        let mut reading = LogReading { policy, interpreter, fold, pending, run, calls };
        let (mut read, mut whole) = (0_usize, 0);
        // A line that was not written to its end is none.
        let lines = log.split_inclusive(|byte| *byte == b'\n').take_while(|line| line.ends_with(b"\n"));
        for (number, line) in (1_usize..).zip(lines) {
            read = read.saturating_add(line.len());
            let ended = reading.line(line.trim_ascii_end());
            if ended.map_err(|why| PyValueError::new_err(format!("line {number}: {why}")))? {
                whole = read;
            }
        }
        // One that broke off in its first line is as good as none. Another file is not to be lost.
        if read == 0 && !is_begun(log) {
            return Err(PyValueError::new_err("line 1: it is no session log"));
        }
        let LogReading { interpreter, fold, run, calls, .. } = reading;
        let interrupted = fold.open().filter_map(interrupted).collect();
        let (state, ..) = fold.into_parts();
        Ok(Self { state, interpreter, interrupted, run, calls, whole })
    }

    /// What a guard knows of it; the stub of the module names the fields.
    pub(crate) fn facts(&self) -> Value {
        let Self { state, interpreter, interrupted, run, calls, whole } = self;
        let open: Vec<ProposalId> = state.open_proposals().collect();
        let tools: Vec<&ToolSpec> = interpreter.tools().iter().collect();
        json!({
            "run": run, "tools": tools, "interrupted": interrupted, "open": open, "calls": calls, "whole": whole,
            "is_running": !state.run.is_empty() && !state.is_over(),
        })
    }

    /// The engine that continues it.
    pub(crate) fn engine(self) -> EngineParts {
        EngineParts::resumed(self.interpreter, self.state)
    }
}

/// Whether a log may begin so.
fn is_begun(line: &[u8]) -> bool {
    let begin = br#"{"v":"#;
    line.starts_with(begin) || begin.starts_with(line)
}

/// What was running of a tool when the log ended.
fn interrupted(work: &Work) -> Option<Value> {
    let Work::RunTool(run) = work else { return None };
    let (tool, call, arguments, key) = (&run.tool, &run.call, &run.arguments, &run.idempotency_key);
    Some(json!({ "tool": tool, "call": call, "arguments": arguments, "idempotency_key": key }))
}

/// The tools of an event. Descriptions are not written down, and decide nothing.
fn catalogue(facts: &[ToolFacts]) -> Result<ToolCatalogue, String> {
    let specs = facts.iter().map(|tool| {
        let ToolFacts { name, effect, parameters, .. } = tool.clone();
        let parameters = parameters.ok_or_else(|| format!("it has no schema of the tool `{name}`"))?;
        Ok(ToolSpec { name, description: String::new(), parameters, effect })
    });
    ToolCatalogue::new(specs.collect::<Result<Vec<_>, String>>()?).map_err(|error| error.to_string())
}
