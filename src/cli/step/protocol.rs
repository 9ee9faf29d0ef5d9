//! The lines of `unfazed step`: requests of the host, and an answer to each.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use schemars::{JsonSchema, generate::SchemaSettings};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_path_to_error::{Path, Segment};

use crate::engine::{Directives, DriveMode, Event, KnownWindow, RequestOverhead, RunStarted, ToolSpec};
use crate::policy::Price;
use crate::policy::decode::complete;
use crate::session::Message;
use crate::text::{Schema, SchemaPart, SchemaProblem, did_you_mean, is_meant, pointer_step};
use crate::time::Instant;

/// The version of the lines.
pub(super) const VERSION: u32 = 1;

/// The answer to a line of the host.
/// Example: `{"kind": "error", "line": 3, "column": 8, "message": "expected value"}`
#[derive(Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(super) enum StepAnswer {
    /// The answer to `hello`.
    Ready(ReadyAnswer),
    /// The answer to `start`, `event` and `tools`.
    Directives(DirectivesAnswer),
    /// The answer to `save`.
    Saved(SavedAnswer),
    /// The answer to a line that cannot be used: nothing has changed.
    Error(ErrorAnswer),
}

/// A line of the host. The first one is `hello`.
/// Example: `{"kind": "save"}`
#[derive(JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[expect(dead_code, reason = "only its schema is of use: what is wrong with a request is found by its kind")]
enum StepRequest {
    /// Who speaks, and about which tools; the first line.
    Hello(HelloRequest),
    /// A run begins.
    Start(StartRequest),
    /// Something happened.
    #[schemars(extend("unevaluatedProperties" = false))]
    Event(EventRequest),
    /// There are other tools from now on.
    Tools(ToolsRequest),
    /// Asks for what it takes to continue in another process.
    Save(SaveRequest),
}

/// A line of `unfazed step`: one of the host, or the answer to it.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only its schema is of use")]
enum StepLine {
    /// A line of the host.
    Request(StepRequest),
    /// The answer to it.
    Answer(StepAnswer),
}

/// The first line: who speaks, and about which tools.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct HelloRequest {
    /// The version of the lines: 1.
    pub(super) v: u32,
    /// The tools that the model may call.
    /// Example: `[{"name": "lookup_price", "parameters": {"type": "object"}}]`
    #[serde(default)]
    pub(super) tools: Vec<ToolSpec>,
    /// What `saved` had, to continue there.
    /// Example: `0f3c0e9a7d1b4c2e {}`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) saved: Option<String>,
    /// With `--resume`, the `seq` of the last answer that was read: `list` begins with what was decided since.
    /// Example: `7`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) read: Option<u64>,
    /// When it is, in nanoseconds since the Unix epoch; without it the clock of this process counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) now: Option<Instant>,
}

/// A run begins.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct StartRequest {
    /// The id of the run; without it one is made up.
    /// Example: `order-4711`
    #[serde(default)]
    pub(super) run: Option<String>,
    /// Who runs the loop of turns; without it the host does (`calls`).
    #[serde(default)]
    pub(super) drive: Option<DriveMode>,
    /// The seed of every jittered delay.
    #[serde(default)]
    pub(super) seed: u64,
    /// Instructions above the conversation.
    #[serde(default)]
    pub(super) system: String,
    /// A conversation there was before, which continues with the task.
    #[serde(default)]
    pub(super) history: Vec<Message>,
    /// What the user wants.
    #[serde(default)]
    pub(super) task: String,
    /// The models, by the names the policy's selectors match, in order of preference.
    /// Example: `["main", "spare"]`
    #[serde(default)]
    pub(super) targets: Vec<String>,
    /// How large the windows of the models are, as far as the host found out.
    #[serde(default)]
    pub(super) windows: BTreeMap<String, KnownWindow>,
    /// What the providers of the models are documented to add to each request, in tokens.
    #[serde(default)]
    pub(super) overheads: BTreeMap<String, RequestOverhead>,
    /// What the tokens of the models cost, in millionths of a dollar per million.
    #[serde(default)]
    pub(super) prices: BTreeMap<String, Price>,
    /// No attempt starts after this, in nanoseconds since the Unix epoch.
    #[serde(default)]
    pub(super) deadline: Option<Instant>,
    /// When it is; without it the clock of this process counts.
    #[serde(default)]
    pub(super) now: Option<Instant>,
}

/// Something happened: one of the events of `docs/events.md`, but `run_started`, `policy_changed` and `tools_changed`.
#[derive(Serialize, Deserialize, JsonSchema)]
pub(super) struct EventRequest {
    /// The number that the event has to get; a line with another one than the next is refused. Without it the event gets the
    /// next one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) seq: Option<u64>,
    /// When it happened; without it the clock of this process counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) now: Option<Instant>,
    #[serde(flatten)]
    pub(super) event: Event,
}

/// Other tools from now on.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ToolsRequest {
    /// All tools that the model may call.
    /// Example: `[{"name": "lookup_price", "parameters": {"type": "object"}}]`
    pub(super) tools: Vec<ToolSpec>,
    /// When it is; without it the clock of this process counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) now: Option<Instant>,
}

/// Asks for what it takes to continue.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SaveRequest {}

/// Who answers, and where the session stands.
#[derive(Serialize, JsonSchema)]
pub(super) struct ReadyAnswer {
    /// The version of the lines: 1.
    pub(super) v: u32,
    /// The version of unfazed.
    /// Example: `0.1.0`
    pub(super) version: String,
    /// The digest of the policy that decides.
    /// Example: `5f3c0e9a7d1b4c2e8f6a0b9d3e7c1a5f`
    pub(super) policy: String,
    /// The id of the session that is written, with `--record` and `--resume`.
    /// Example: `0199a1b2-7c3d-7e4f-8a5b-6c7d8e9f0a1b`
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) session: Option<String>,
    /// The id of the run that is under way, or was the last one, if a session continues.
    /// Example: `order-4711`
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) run: Option<String>,
    /// The number of the last event.
    pub(super) seq: u64,
    /// The tools as they are declared to the model, the one of the final report among them.
    /// Example: `[{"name": "lookup_price", "description": "", "parameters": {"type": "object"}}]`
    pub(super) tools: Vec<ToolSpec>,
    /// The work that was asked for before, and has no answer. The host still owes it.
    #[schemars(with = "Directives")]
    pub(super) open: Vec<Value>,
    /// The conversation so far, if a session continues and its conversation is kept here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) messages: Option<Vec<Message>>,
    /// What was decided since the answer that was `read` last, and about another policy or other tools than before.
    #[schemars(with = "Directives")]
    pub(super) list: Vec<Value>,
}

/// What was decided about an event.
#[derive(Serialize, JsonSchema)]
pub(super) struct DirectivesAnswer {
    /// The number of the last event that was taken: the request's own, or one of those that this process answered by itself.
    pub(super) seq: u64,
    /// What the host does, in order.
    #[schemars(with = "Directives")]
    pub(super) list: Vec<Value>,
    /// The conversation as the model is to see it, if `list` has a `call_model` of the drive `turns`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) messages: Option<Vec<Message>>,
    /// The digest of the state: processes with equal digests decide equally.
    /// Example: `5f3c0e9a7d1b4c2e8f6a0b9d3e7c1a5f`
    pub(super) state: String,
}

/// What it takes to continue in another process.
#[derive(Serialize, JsonSchema)]
pub(super) struct SavedAnswer {
    /// For `saved` of the next `hello`: a text, so that no reader of JSON changes its numbers.
    /// Example: `0f3c0e9a7d1b4c2e {}`
    pub(super) saved: String,
}

/// A line that cannot be used.
#[derive(Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub(super) struct ErrorAnswer {
    /// The number of the line, from 1.
    pub(super) line: u64,
    /// The column of the mistake, from 1, in bytes: where a line stops being JSON, or has an integer of more than 64 bits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) column: Option<usize>,
    /// The JSON pointer to the mistake, in a line that is JSON.
    /// Example: `/calls/0/name`
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) pointer: Option<String>,
    /// What is wrong.
    /// Example: `the next event is 8, not 5`
    pub(super) message: String,
}

impl StartRequest {
    /// The beginning of the run. The policy and the tools are those of the process.
    pub(super) fn started(self, session: Option<&str>) -> RunStarted {
        let id = || session.map_or_else(|| crate::host::new_uuid().to_string(), str::to_owned);
        RunStarted {
            run: self.run.unwrap_or_else(id),
            drive: self.drive.unwrap_or(DriveMode::Calls),
            seed: self.seed,
            system: self.system,
            history: self.history,
            task: self.task,
            targets: self.targets,
            windows: self.windows,
            overheads: self.overheads,
            prices: self.prices,
            deadline: self.deadline,
            ..RunStarted::default()
        }
    }
}

impl ErrorAnswer {
    /// A mistake that is nowhere in particular.
    pub(super) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), ..Self::default() }
    }

    /// A mistake there.
    pub(super) fn at(pointer: impl Into<String>, message: impl Into<String>) -> Self {
        Self { pointer: Some(pointer.into()), ..Self::new(message) }
    }
}

/// The JSON Schema (2020-12) of a line.
pub(crate) fn json_schema() -> Value {
    let generator = SchemaSettings::draft2020_12().into_generator();
    complete(generator.into_root_schema_for::<StepLine>().to_value())
}

/// The JSON Schema of a line of the host.
static REQUESTS: LazyLock<Value> = LazyLock::new(|| {
    SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<StepRequest>().to_value()
});

/// The event, or the field at whatever depth, that there is not in a line of that kind.
pub(super) fn unknown_name(kind: &str, fields: &Value) -> Option<ErrorAnswer> {
    let root = &*REQUESTS;
    let kinds = root.get("oneOf")?.as_array()?;
    let part = kinds.iter().find(|one| one.pointer("/properties/kind/const") == Some(&kind.into()))?;
    let event = if kind == "event" { unknown_event(root, fields) } else { None };
    event.or_else(|| {
        let (pointer, message) = SchemaPart { root, part }.unknown_field(fields, "")?;
        Some(ErrorAnswer::at(pointer, message))
    })
}

/// What a host does instead of an event that is not its own.
pub(super) fn instead_of(event: &str) -> Option<&'static str> {
    Some(match event {
        "run_started" => "a run begins with a line of the kind `start`",
        "tools_changed" => "other tools come with a line of the kind `tools`",
        "policy_changed" => {
            "the policy is the one that this process was started with; `save` the session, and continue it in another process"
        }
        _ => return None,
    })
}

/// What is wrong with a request that could not be read: where the schema finds something, or what the reader of JSON says.
pub(super) fn mistake(request: &Value, error: &serde_path_to_error::Error<serde_json::Error>) -> ErrorAnswer {
    let narrowed = narrowed(&REQUESTS, &REQUESTS, request);
    let problems = Schema::compile(&narrowed).map(|schema| schema.problems(request)).unwrap_or_default();
    match problems.into_iter().next() {
        Some(SchemaProblem { pointer, message }) => ErrorAnswer::at(pointer, message),
        None => ErrorAnswer::at(pointer(error.path()), in_words(&error.inner().to_string())),
    }
}

/// A path as a JSON pointer.
fn pointer(path: &Path) -> String {
    let steps = path.iter().filter_map(|step| match step {
        Segment::Seq { index } => Some(format!("/{index}")),
        Segment::Map { key } => Some(format!("/{}", pointer_step(key))),
        Segment::Enum { .. } | Segment::Unknown => None,
    });
    steps.collect()
}

/// What the reader of JSON says, without the names of types: hosts are written in other languages.
fn in_words(text: &str) -> String {
    let plain = |word| match word {
        "u8" | "u16" | "u32" | "u64" | "u128" | "usize" | "i64" => "a whole number",
        "f64" => "a number",
        word => word,
    };
    text.split(' ').map(plain).collect::<Vec<_>>().join(" ")
}

/// That there is no such event.
fn unknown_event(root: &Value, request: &Value) -> Option<ErrorAnswer> {
    let events = root.pointer("/$defs/EventRequest/oneOf")?.as_array()?;
    let names = events.iter().filter_map(|event| event.pointer("/properties/event/const")?.as_str());
    let name = request.get("event")?.as_str()?;
    let names: Vec<&str> = names.collect();
    if names.contains(&name) {
        return None;
    }
    let near = did_you_mean(name, names);
    let near = near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
    Some(ErrorAnswer::at("/event", format!("there is no event `{}`{near}", shortened(name))))
}

/// The schema of what the value says it is: of the alternatives, the one whose words it has (`kind`, `event`).
fn narrowed(root: &Value, schema: &Value, value: &Value) -> Value {
    let Value::Object(schema) = schema else { return schema.clone() };
    let (mut narrow, mut all) = (schema.clone(), Vec::new());
    let alternatives = schema.get("oneOf").and_then(Value::as_array);
    if let Some(meant) = alternatives.and_then(|all| all.iter().find(|one| is_meant(one, value))) {
        narrow.shift_remove("oneOf");
        all.push(narrowed(root, meant, value));
    }
    let name = schema.get("$ref").and_then(Value::as_str).and_then(|name| name.strip_prefix("#/$defs/"));
    let defined = name.and_then(|name| root.get("$defs")?.get(name));
    if let Some(defined) = defined.filter(|defined| defined.get("oneOf").is_some()) {
        narrow.shift_remove("$ref");
        all.push(narrowed(root, defined, value));
    }
    if !all.is_empty() {
        narrow.insert("allOf".into(), all.into());
    }
    for (key, inner) in narrow.get_mut("properties").and_then(Value::as_object_mut).into_iter().flatten() {
        if let Some(value) = value.get(key) {
            *inner = narrowed(root, inner, value);
        }
    }
    Value::Object(narrow)
}

/// A name as a message shows it: it may be of any length.
pub(super) fn shortened(name: &str) -> String {
    name.chars().take(64).collect()
}
