//! The interpreter: an event in, directives out, and a record of both for a session log.

use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use serde_json::{Map, Value, json};
use unfazed::Interpreter;
use unfazed::engine::{
    Directives, Envelope, Event, LogHeader, RecordLine, RecordRef, State, ToolCatalogue, ToolFacts, ToolSpec,
};
use unfazed::time::Instant;

use crate::convert::{given, json as json_of, taken};
use crate::policy::Policy;

#[pyclass(frozen, module = "unfazed")]
pub(crate) struct Engine {
    parts: Mutex<EngineParts>,
}

struct EngineParts {
    interpreter: Interpreter,
    state: State,
    /// The lines that nobody has taken yet; `None`: nothing is recorded.
    records: Option<String>,
}

#[pymethods]
impl Engine {
    #[new]
    #[pyo3(signature = (policy, tools=None, *, record=false))]
    fn new(policy: &Policy, tools: Option<&Bound<'_, PyAny>>, record: bool) -> PyResult<Self> {
        let policy = policy.policy.clone();
        let tools = tools.map(|tools| catalogue(&policy, tools)).transpose()?.unwrap_or_default();
        let interpreter = Interpreter::new(policy, tools);
        let parts = EngineParts { interpreter, state: State::new(), records: record.then(String::new) };
        Ok(Self { parts: Mutex::new(parts) })
    }

    fn step<'py>(&self, py: Python<'py>, event: &Bound<'py, PyAny>, now: u64) -> PyResult<Bound<'py, PyAny>> {
        let is_start = event.get_item("event").is_ok_and(|name| name.eq("run_started").unwrap_or(false));
        let event = if is_start {
            let said = json_of(event)?;
            self.lock().started(said)?
        } else {
            taken(event)?
        };
        let directives = self.lock().step(event, Instant(now))?;
        given(py, &directives)
    }

    fn set_tools<'py>(
        &self,
        py: Python<'py>,
        tools: &Bound<'py, PyAny>,
        now: u64,
    ) -> PyResult<Bound<'py, PyAny>> {
        let policy = self.lock().interpreter.policy().clone();
        let tools = catalogue(&policy, tools)?;
        let directives = self.lock().set_tools(Interpreter::new(policy, tools), Instant(now))?;
        given(py, &directives)
    }

    fn take_records(&self) -> String {
        self.lock().records.as_mut().map(std::mem::take).unwrap_or_default()
    }

    fn digest(&self) -> String {
        self.lock().state.digest()
    }

    #[getter]
    fn seq(&self) -> u64 {
        self.lock().state.seq
    }

    #[getter]
    fn run(&self) -> String {
        self.lock().state.run.clone()
    }

    #[getter]
    fn is_over(&self) -> bool {
        self.lock().state.is_over()
    }

    #[getter]
    fn had_final_turn(&self) -> bool {
        self.lock().state.has_had_final_turn()
    }

    fn __repr__(&self) -> String {
        let parts = self.lock();
        format!("Engine(run={:?}, seq={})", parts.state.run, parts.state.seq)
    }
}

impl Engine {
    /// No code of Python runs while it is held.
    fn lock(&self) -> MutexGuard<'_, EngineParts> {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl EngineParts {
    /// The event that begins a run, with the policy and the tools there are.
    fn started(&self, event: Value) -> PyResult<Event> {
        let said = if let Value::Object(said) = event { said } else { Map::new() };
        let usual = [("seed", json!(0)), ("drive", json!("calls")), ("targets", json!([]))];
        let own = [("policy", json!(self.interpreter.policy().digest())), ("tools", json!(self.facts()))];
        let named = |(name, value): (&str, Value)| (name.to_owned(), value);
        let fields: Map<_, _> =
            usual.into_iter().map(named).chain(said).chain(own.into_iter().map(named)).collect();
        serde_json::from_value(fields.into()).map_err(|error| PyValueError::new_err(error.to_string()))
    }

    fn set_tools(&mut self, interpreter: Interpreter, now: Instant) -> PyResult<Directives> {
        self.interpreter = interpreter;
        if self.state.run.is_empty() || self.state.is_over() {
            // The run that is to begin has them.
            return Ok(Directives::default());
        }
        let tools = self.facts();
        self.step(Event::ToolsChanged { tools }, now)
    }

    fn step(&mut self, event: Event, now: Instant) -> PyResult<Directives> {
        let (is_first, seq) = (self.state.seq == 0, self.state.seq.saturating_add(1));
        if let Event::RunStarted(started) = &event {
            if !self.state.run.is_empty() && !self.state.is_over() {
                let message = format!("the run `{}` is not over; `cancelled` ends it", self.state.run);
                return Err(PyValueError::new_err(message));
            }
            if is_first {
                let header = LogHeader::new(&*started.run, self.interpreter.policy().digest(), now);
                self.record(RecordRef::Session(&header))?;
            } else {
                self.state = self.state.next_run();
            }
        } else if self.state.run.is_empty() {
            return Err(PyValueError::new_err("there is no run yet; `run_started` begins one"));
        }
        let envelope = Envelope { seq, now, event };
        // What cannot be recorded cannot be decided again, so it is not taken.
        self.record(RecordRef::Event(&envelope))?;
        let list = self.interpreter.step(&mut self.state, envelope);
        let (policy, hash) = (self.interpreter.policy().clone(), self.recorded_digest());
        self.record(RecordRef::Directives { seq, policy: policy.digest(), list: &list })?;
        self.record(RecordRef::State { seq, hash: &hash })?;
        Ok(list)
    }

    fn recorded_digest(&self) -> String {
        if self.records.is_some() { self.state.digest() } else { String::new() }
    }

    fn record(&mut self, record: RecordRef<'_>) -> PyResult<()> {
        let Some(records) = &mut self.records else { return Ok(()) };
        let line = RecordLine::new(record).map_err(|error| PyValueError::new_err(error.to_string()))?;
        records.push_str(line.with_end());
        Ok(())
    }

    fn facts(&self) -> Vec<ToolFacts> {
        self.interpreter.tools().iter().map(ToolFacts::from).collect()
    }
}

/// The tools, which have to fit the policy.
fn catalogue(policy: &unfazed::Policy, tools: &Bound<'_, PyAny>) -> PyResult<ToolCatalogue> {
    let specs: Vec<ToolSpec> = taken(tools)?;
    let tools = ToolCatalogue::new(specs).map_err(|error| PyValueError::new_err(error.to_string()))?;
    tools.fits(policy).map_err(|error| PyValueError::new_err(error.to_string()))?;
    Ok(tools)
}
