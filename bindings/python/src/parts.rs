//! An interpreter with the state of its session, and the records of what it has decided.

use std::sync::LazyLock;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use serde_json::{Map, Value, json};
use unfazed::Interpreter;
use unfazed::engine::{
    Directives, Envelope, Event, LogHeader, RecordLine, RecordRef, State, ToolCatalogue, ToolFacts, ToolSpec,
};
use unfazed::text::{Schema, SchemaError, SchemaProblem};
use unfazed::time::Instant;

use crate::convert::{json as json_of, taken};
use crate::policy::Policy;

/// What a host may say of a tool.
static TOOL: LazyLock<Result<Schema, SchemaError>> = LazyLock::new(|| {
    let text = json!({"type": "string"});
    let effects = ["read_only", "idempotent", "non_idempotent", "unknown"];
    Schema::compile(&json!({
        "type": "object",
        "properties": {"name": text, "description": text, "parameters": {}, "effect": {"enum": effects}},
        "required": ["name", "parameters"],
        "additionalProperties": false,
    }))
});

pub(crate) struct EngineParts {
    pub(crate) interpreter: Interpreter,
    pub(crate) state: State,
    /// The lines that nobody has taken yet; `None`: nothing is recorded.
    records: Option<String>,
}

impl EngineParts {
    pub(crate) fn new(policy: &Policy, tools: Option<&Bound<'_, PyAny>>, record: bool) -> PyResult<Self> {
        let policy = policy.policy.clone();
        let tools = tools.map(|tools| catalogue(&policy, tools)).transpose()?.unwrap_or_default();
        let interpreter = Interpreter::new(policy, tools);
        Ok(Self { interpreter, state: State::new(), records: record.then(String::new) })
    }

    /// A session that continues, and is recorded on.
    pub(crate) fn resumed(interpreter: Interpreter, state: State) -> Self {
        Self { interpreter, state, records: Some(String::new()) }
    }

    /// Adds the policy and the tools there are to the event that begins a run.
    pub(crate) fn started(&self, event: Value) -> PyResult<Event> {
        let said = if let Value::Object(said) = event { said } else { Map::new() };
        let usual = [("seed", json!(0)), ("drive", json!("calls")), ("targets", json!([]))];
        let own = [("policy", json!(self.interpreter.policy().digest())), ("tools", json!(self.facts()))];
        let named = |(name, value): (&str, Value)| (name.to_owned(), value);
        let fields: Map<_, _> =
            usual.into_iter().map(named).chain(said).chain(own.into_iter().map(named)).collect();
        serde_json::from_value(fields.into()).map_err(|error| PyValueError::new_err(error.to_string()))
    }

    pub(crate) fn set_tools(&mut self, interpreter: Interpreter, now: Instant) -> PyResult<Directives> {
        let had = self.facts();
        self.interpreter = interpreter;
        let tools = self.facts();
        if had == tools || self.state.run.is_empty() || self.state.is_over() {
            // The run that is to begin has them.
            return Ok(Directives::default());
        }
        self.step(Event::ToolsChanged { tools }, now)
    }

    pub(crate) fn step(&mut self, event: Event, now: Instant) -> PyResult<Directives> {
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
        if self.is_recorded() {
            let (policy, hash) = (self.interpreter.policy().clone(), self.state.digest());
            self.record(RecordRef::Directives { seq, policy: policy.digest(), list: &list })?;
            self.record(RecordRef::State { seq, hash: &hash })?;
        }
        Ok(list)
    }

    pub(crate) const fn is_recorded(&self) -> bool {
        self.records.is_some()
    }

    /// The lines of the session log since they were taken last.
    pub(crate) fn take_records(&mut self) -> String {
        self.records.as_mut().map(std::mem::take).unwrap_or_default()
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

/// The event that a dict says. `lock` is asked for the engine only if the event begins a run: no code of Python runs while
/// it is held.
pub(crate) fn event_of(
    event: &Bound<'_, PyAny>,
    started: impl FnOnce(Value) -> PyResult<Event>,
) -> PyResult<Event> {
    let is_start = event.get_item("event").is_ok_and(|name| name.eq("run_started").unwrap_or(false));
    if is_start { started(json_of(event)?) } else { taken(event) }
}

/// The tools, which have to fit the policy.
pub(crate) fn catalogue(policy: &unfazed::Policy, tools: &Bound<'_, PyAny>) -> PyResult<ToolCatalogue> {
    let given: Vec<Value> = taken(tools)?;
    if let Some(why) = given.iter().enumerate().find_map(mistake_of_tool) {
        return Err(PyValueError::new_err(why));
    }
    let specs: Vec<ToolSpec> =
        serde_json::from_value(given.into()).map_err(|error| PyValueError::new_err(error.to_string()))?;
    let tools = ToolCatalogue::new(specs).map_err(|error| PyValueError::new_err(error.to_string()))?;
    tools.fits(policy).map_err(|error| PyValueError::new_err(error.to_string()))?;
    Ok(tools)
}

/// What is wrong with a tool as the host has declared it, by its name, or by its number if it has none.
fn mistake_of_tool((index, tool): (usize, &Value)) -> Option<String> {
    let problems = TOOL.as_ref().ok()?.problems(tool);
    if problems.is_empty() {
        return None;
    }
    let name = tool.get("name").and_then(Value::as_str).map(|name| format!("the tool `{name}`"));
    let name = name.unwrap_or_else(|| format!("tool {} of the list", index.saturating_add(1)));
    let said: Vec<String> = problems.iter().map(problem).collect();
    Some(format!("{name} cannot be used: {}", said.join("; ")))
}

fn problem(SchemaProblem { pointer, message }: &SchemaProblem) -> String {
    if pointer.is_empty() { message.clone() } else { format!("{pointer}: {message}") }
}
