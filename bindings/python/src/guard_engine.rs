//! The interpreter as guards drive it: they read little of what it says, and most of their calls are alike.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyList;
use serde::Deserialize;
use serde::de::IntoDeserializer;
use serde::de::value::Error as ValueError;
use unfazed::Interpreter;
use unfazed::engine::{Directives, Event, PlainEnd, ProposedCall, RunFacts, ToolOutcome, WorkId};
use unfazed::session::ToolCall;
use unfazed::time::Instant;

use crate::arguments::json_value;
use crate::brief::read_by_guards;
use crate::convert::{given, taken};
use crate::parts::{EngineParts, catalogue, event_of};
use crate::plain::{GivenArguments, PlainEntry, PlainTerms, PlainTools};
use crate::policy::Policy;
use crate::resumed::ResumedSession;

/// `closely` of its methods: all directives are given, whole; else those that a guard reads.
#[pyclass(frozen, module = "unfazed._unfazed")]
pub(crate) struct GuardEngine {
    parts: Mutex<GuardParts>,
}

struct GuardParts {
    engine: EngineParts,
    plain: PlainTools,
}

#[pymethods]
impl GuardEngine {
    #[new]
    #[pyo3(signature = (policy, tools, *, record))]
    fn new(policy: &Policy, tools: &Bound<'_, PyAny>, record: bool) -> PyResult<Self> {
        let engine = EngineParts::new(policy, Some(tools), record)?;
        Ok(Self { parts: Mutex::new(GuardParts { engine, plain: PlainTools::default() }) })
    }

    /// The session of a log, and what is to be known of it.
    #[staticmethod]
    fn resume<'py>(py: Python<'py>, policy: &Policy, log: &[u8]) -> PyResult<(Self, Bound<'py, PyAny>)> {
        let policy = &policy.policy;
        let session = py.detach(|| ResumedSession::read(policy, log))?;
        let facts = given(py, &session.facts())?;
        let engine = session.engine();
        Ok((Self { parts: Mutex::new(GuardParts { engine, plain: PlainTools::default() }) }, facts))
    }

    fn step<'py>(
        &self,
        py: Python<'py>,
        event: &Bound<'py, PyAny>,
        now: u64,
        closely: bool,
    ) -> PyResult<Bound<'py, PyList>> {
        let event = event_of(event, |said| self.lock().engine.started(said))?;
        self.take_event(py, event, now, closely)
    }

    fn propose_call<'py>(
        &self,
        py: Python<'py>,
        id: String,
        name: String,
        arguments: Option<String>,
        now: u64,
        closely: bool,
    ) -> PyResult<Bound<'py, PyList>> {
        let opaque = arguments.is_none();
        let call = ToolCall { id, name, arguments: arguments.unwrap_or_default() };
        let calls = vec![ProposedCall { call, policy: None, opaque }];
        self.take_event(py, Event::ToolsProposed { calls, turn: None }, now, closely)
    }

    fn tool_done<'py>(
        &self,
        py: Python<'py>,
        work: u64,
        now: u64,
        closely: bool,
    ) -> PyResult<Bound<'py, PyList>> {
        let work = WorkId::deserialize(work.into_deserializer())
            .map_err(|error: ValueError| PyValueError::new_err(error.to_string()))?;
        let event = Event::ToolFinished { work, outcome: ToolOutcome::Done, run: RunFacts::default() };
        self.take_event(py, event, now, closely)
    }

    fn plain_terms(&self, tool: &str) -> Option<(Option<u32>, Option<u64>)> {
        let parts = self.lock();
        let terms = PlainTerms::of(parts.engine.interpreter.policy(), tool);
        // A call without a step is in no record.
        terms.filter(|_| !parts.engine.is_recorded()).map(|terms| (terms.max_attempts, terms.timeout))
    }

    fn enter(&self, tool: &str, arguments: &Bound<'_, PyAny>) -> Option<PlainEntry> {
        let given = if arguments.is_none() {
            GivenArguments::Nothing
        } else {
            json_value(arguments).map_or(GivenArguments::Unread, |read| GivenArguments::Read(Arc::new(read)))
        };
        let GuardParts { engine, plain } = &mut *self.lock();
        plain.enter(engine, tool, given)
    }

    fn leave<'py>(
        &self,
        py: Python<'py>,
        tool: &str,
        succeeded: bool,
        now: u64,
        closely: bool,
    ) -> PyResult<Option<Bound<'py, PyList>>> {
        let end = if succeeded { PlainEnd::Succeeded } else { PlainEnd::Dropped };
        let left = {
            let GuardParts { engine, plain } = &mut *self.lock();
            plain.leave(engine, tool, (end, Instant(now)))
        };
        left.map(|directives| read_by_guards(py, &directives, closely)).transpose()
    }

    fn adopt<'py>(
        &self,
        py: Python<'py>,
        tool: &str,
        entry: &PlainEntry,
        outcome: &Bound<'py, PyAny>,
        now: u64,
        closely: bool,
    ) -> PyResult<(u64, Bound<'py, PyList>)> {
        let outcome = taken(outcome)?;
        let (proposal, directives) = {
            let GuardParts { engine, plain } = &mut *self.lock();
            plain.adopt(engine, (tool, entry), outcome, Instant(now))
        };
        Ok((proposal.0, read_by_guards(py, &directives, closely)?))
    }

    fn set_tools<'py>(
        &self,
        py: Python<'py>,
        tools: &Bound<'py, PyAny>,
        now: u64,
    ) -> PyResult<Bound<'py, PyList>> {
        let policy = self.lock().engine.interpreter.policy().clone();
        let tools = catalogue(&policy, tools)?;
        let directives = self.lock().engine.set_tools(Interpreter::new(policy, tools), Instant(now))?;
        read_by_guards(py, &directives, false)
    }

    fn take_records(&self) -> String {
        self.lock().engine.take_records()
    }

    /// Whether the final turn of the run is over.
    #[getter]
    fn had_final_turn(&self) -> bool {
        self.lock().engine.state.has_had_final_turn()
    }

    fn digest(&self) -> String {
        self.lock().engine.state.digest()
    }

    #[getter]
    fn seq(&self) -> u64 {
        self.lock().engine.state.seq
    }
}

impl GuardEngine {
    /// No code of Python runs while it is held.
    fn lock(&self) -> MutexGuard<'_, GuardParts> {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take_event<'py>(
        &self,
        py: Python<'py>,
        event: Event,
        now: u64,
        closely: bool,
    ) -> PyResult<Bound<'py, PyList>> {
        let directives = self.lock().step(event, Instant(now))?;
        read_by_guards(py, &directives, closely)
    }
}

impl GuardParts {
    fn step(&mut self, event: Event, now: Instant) -> PyResult<Directives> {
        self.plain.before(&mut self.engine.state, &event);
        self.engine.step(event, now)
    }
}
