//! The interpreter: an event in, directives out, and a record of both for a session log.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use unfazed::Interpreter;
use unfazed::context::{ConversationMeasure, TokenEstimator, ToolForm};
use unfazed::engine::{Directive, DirectiveKind, Event};
use unfazed::session::Message;
use unfazed::time::Instant;

use crate::convert::{given, json, taken};
use crate::parts::{EngineParts, catalogue, event_of};
use crate::policy::Policy;

/// The interpreter of one session, for who drives it by hand: events in, directives out.
#[pyclass(frozen, module = "unfazed")]
pub(crate) struct Engine {
    parts: Mutex<EngineParts>,
}

#[pymethods]
impl Engine {
    #[new]
    #[pyo3(signature = (policy, tools=None, *, record=false))]
    fn new(policy: &Policy, tools: Option<&Bound<'_, PyAny>>, record: bool) -> PyResult<Self> {
        Ok(Self { parts: Mutex::new(EngineParts::new(policy, tools, record)?) })
    }

    /// Takes one event, and gives what is to be done about it. `now` is in nanoseconds since 1970 (UTC).
    fn step<'py>(&self, py: Python<'py>, event: &Bound<'py, PyAny>, now: u64) -> PyResult<Bound<'py, PyAny>> {
        if let Some(why) = Event::unknown_field(&json(event)?) {
            return Err(PyValueError::new_err(why));
        }
        let event = event_of(event, |said| self.lock().started(said))?;
        let directives = self.lock().step(event, Instant(now))?;
        given(py, &directives)
    }

    /// These are all the tools from now on. `now` is in nanoseconds since 1970 (UTC).
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

    /// The event that answers `prepare_turn` (how large the conversation is), `repair_history` (what makes it
    /// valid) or `reduce_context` (what makes it smaller); `None`: the directive needs more than the
    /// conversation.
    #[pyo3(signature = (directive, messages, *, model=None))]
    fn answer<'py>(
        &self,
        py: Python<'py>,
        directive: &Bound<'py, PyAny>,
        messages: &Bound<'py, PyAny>,
        model: Option<String>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let no_directive = |error: PyErr| {
            if error.is_instance_of::<PyValueError>(py) {
                PyValueError::new_err(format!("it is no directive: {}", error.value(py)))
            } else {
                error
            }
        };
        let work = match taken::<Directive>(directive).map_err(no_directive)?.order {
            DirectiveKind::Work(work) if work.is_pure() => work,
            DirectiveKind::Work(_) | DirectiveKind::Note(_) => return Ok(None),
        };
        let messages: Vec<Message> = taken(messages)?;
        let (policy, offered, model) = {
            let EngineParts { interpreter, state, .. } = &*self.lock();
            let model = model.unwrap_or_else(|| state.first_target().to_owned());
            (interpreter.policy().clone(), interpreter.offered(), model)
        };
        // A conversation may be long.
        let event = py.detach(|| {
            let counter = TokenEstimator::from(&policy.model(&model).tokens);
            let mut measure = ConversationMeasure::new(Arc::new(counter), ToolForm::Chat, &model);
            measure.set_tools(&offered);
            measure.take_up(&messages);
            measure.answer(&work, &messages, &policy)
        });
        event.map(|event| given(py, &event)).transpose()
    }

    /// The lines of the session log since they were taken last. They belong into a file before what was decided
    /// is done.
    fn take_records(&self) -> String {
        self.lock().take_records()
    }

    /// The digest of the state: the same wherever the same events led.
    fn digest(&self) -> String {
        self.lock().state.digest()
    }

    /// The number of the last event.
    #[getter]
    fn seq(&self) -> u64 {
        self.lock().state.seq
    }

    /// The id of the run; empty before the first.
    #[getter]
    fn run(&self) -> String {
        self.lock().state.run.clone()
    }

    /// Whether the run has ended.
    #[getter]
    fn is_over(&self) -> bool {
        self.lock().state.is_over()
    }

    /// Whether the final turn of the run is over.
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
