//! Drives the interpreter by hand: the test is the host.

use std::collections::BTreeMap;
use std::sync::{LazyLock, Mutex};

use serde_json::{Value, json};
use unfazed::engine::{
    CallModel, Directive, DirectiveKind, Directives, DriveMode, Envelope, Event, Failure, Interpreter,
    ModelReply, Note, Outcome, ProposalFault, ProposalId, ProposedCall, Record, RecordLine, RecordRef,
    RunStarted, RunTool, SettledProposal, State, ToolCatalogue, ToolFacts, ToolOutcome, ToolSpec,
    TurnMeasure, WaitWork, Work,
};
use unfazed::policy::{ErrorClass, Policy};
use unfazed::session::{Message, RetryExhausted, RetryFeedback, ToolCall};
use unfazed::time::{Instant, Nanos};

/// A run in flight, and everything it was informed to do.
pub(crate) struct Host {
    interpreter: Interpreter,
    pub(crate) state: State,
    pub(crate) now: Instant,
    pub(crate) notes: Vec<Note>,
    pub(crate) because: Vec<String>,
    work: Vec<Work>,
}

/// Whatever happens in these tests can be written down as the published schema of session logs says.
fn holds_schema(record: RecordRef<'_>) {
    static SCHEMA: LazyLock<jsonschema::Validator> =
        LazyLock::new(|| jsonschema::validator_for(&Record::json_schema()).unwrap());
    let line = RecordLine::new(record).unwrap();
    let line: Value = serde_json::from_str(line.as_str()).unwrap();
    let problems: Vec<_> = SCHEMA.iter_errors(&line).map(|error| error.to_string()).collect();
    assert!(problems.is_empty(), "{line}: {problems:#?}");
}

/// The policy of that text, read once.
fn load(text: &str) -> Policy {
    static READ: Mutex<BTreeMap<String, Policy>> = Mutex::new(BTreeMap::new());
    let mut read = READ.lock().unwrap();
    if let Some(policy) = read.get(text) {
        return policy.clone();
    }
    let policy = Policy::from_yaml("policy.yaml", text).unwrap_or_else(|report| panic!("{report}"));
    read.insert(text.to_owned(), policy.clone());
    policy
}

/// A tool that takes `{"n": integer}`.
pub(crate) fn tool(name: &str) -> ToolSpec {
    ToolSpec {
        name: name.into(),
        description: String::new(),
        parameters: json!({
            "type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"],
            "additionalProperties": false,
        }),
        effect: None,
    }
}

impl Host {
    /// A host that runs its own loop.
    pub(crate) fn calls(policy: &str, tools: &[&str]) -> Self {
        Self::started(policy, tools, DriveMode::Calls)
    }

    /// The same, with these models.
    pub(crate) fn calls_of(policy: &str, tools: &[&str], targets: &[&str]) -> Self {
        Self::started_with(policy, tools, DriveMode::Calls, targets)
    }

    /// A run that the interpreter drives, with one model called `main`.
    pub(crate) fn turns(policy: &str, tools: &[&str]) -> Self {
        Self::started(policy, tools, DriveMode::Turns)
    }

    fn started(policy: &str, tools: &[&str], drive: DriveMode) -> Self {
        Self::started_with(policy, tools, drive, &["main"])
    }

    fn started_with(policy: &str, tools: &[&str], drive: DriveMode, targets: &[&str]) -> Self {
        let policy = load(policy);
        let specs: Vec<ToolSpec> = tools.iter().map(|name| tool(name)).collect();
        let catalogue = ToolCatalogue::new(specs.clone()).unwrap();
        let interpreter = Interpreter::new(policy, catalogue);
        let now = Instant(1_700_000_000_000_000_000);
        let (notes, because, work) = (Vec::new(), Vec::new(), Vec::new());
        let mut host = Self { interpreter, state: State::new(), now, notes, because, work };
        host.tell(Event::RunStarted(RunStarted {
            run: "run-1".into(),
            policy: String::new(),
            seed: 1,
            drive,
            system: String::new(),
            history: Vec::new(),
            task: "do it".into(),
            targets: targets.iter().map(|&target| target.to_owned()).collect(),
            windows: BTreeMap::new(),
            overheads: BTreeMap::new(),
            prices: BTreeMap::new(),
            tools: specs.iter().map(ToolFacts::from).collect(),
            deadline: None,
        }));
        host
    }

    pub(crate) fn tell(&mut self, event: Event) {
        let envelope = Envelope { seq: self.state.seq + 1, now: self.now, event };
        holds_schema(RecordRef::Event(&envelope));
        let list = self.interpreter.step(&mut self.state, envelope);
        holds_schema(RecordRef::Directives { seq: self.state.seq, policy: "p", list: &list });
        let Directives(list) = list;
        for Directive { order, because, .. } in list {
            self.because.extend(because.iter().map(|b| format!("{}={} {}", b.rule, b.value, b.place)));
            match order {
                DirectiveKind::Work(work) => self.work.push(work),
                DirectiveKind::Note(note) => self.notes.push(note),
            }
        }
    }

    /// How the proposal ended.
    pub(crate) fn settled(&self, proposal: ProposalId) -> Option<&SettledProposal> {
        let mut ends = self.notes.iter().filter_map(|note| match note {
            Note::Settled(settled) if settled.proposal == proposal => Some(settled),
            _ => None,
        });
        let end = ends.next();
        assert_eq!(ends.next(), None, "a proposal has one end");
        end
    }

    /// Why the proposal was not taken.
    pub(crate) fn refused(&self, proposal: ProposalId) -> Option<ProposalFault> {
        self.notes.iter().find_map(|note| match note {
            Note::ProposalRefused { proposal: of, reason, .. } if *of == proposal => Some(*reason),
            _ => None,
        })
    }

    /// Proposes something, and says under which number.
    pub(crate) fn offer(&mut self, event: Event) -> ProposalId {
        self.tell(event);
        ProposalId(self.state.seq)
    }

    /// The next piece of work; there must be one.
    pub(crate) fn work(&mut self) -> Work {
        assert!(!self.work.is_empty(), "no work is asked for; notes: {:#?}", self.notes);
        self.work.remove(0)
    }

    pub(crate) fn idle(&self) -> bool {
        self.work.is_empty()
    }

    pub(crate) fn propose(&mut self, calls: &[(&str, &str, Value)]) {
        self.tell(Event::ToolsProposed { calls: proposals(calls), turn: None });
    }

    pub(crate) fn run_tool(&mut self) -> RunTool {
        match self.work() {
            Work::RunTool(run) => run,
            other => panic!("expected a tool run, found {other:?}"),
        }
    }

    /// The next tool run, if one is asked for.
    pub(crate) fn next_tool(&mut self) -> Option<RunTool> {
        match self.work.first() {
            Some(Work::RunTool(_)) => Some(self.run_tool()),
            _ => None,
        }
    }

    pub(crate) fn wait(&mut self) -> WaitWork {
        match self.work() {
            Work::Wait(wait) => wait,
            other => panic!("expected a wait, found {other:?}"),
        }
    }

    /// Sits a wait out and says how long it was.
    pub(crate) fn sleep(&mut self) -> Nanos {
        let wait = self.wait();
        let delay = wait.delay;
        self.now = self.now.saturating_add(delay);
        self.tell(wait.fired());
        delay
    }

    /// Measures the conversation and gives the model call that follows.
    pub(crate) fn model_call(&mut self) -> CallModel {
        let work = match self.work() {
            Work::PrepareTurn(turn) => {
                self.tell(turn.prepared(TurnMeasure::default()));
                self.work()
            }
            other => other,
        };
        match work {
            Work::CallModel(call) => call,
            other => panic!("expected a model call, found {other:?}"),
        }
    }

    pub(crate) fn model_call_tools(&mut self) -> Vec<String> {
        self.model_call().tools
    }

    pub(crate) fn model_says(&mut self, text: &str) {
        let call = self.model_call();
        self.tell(call.responded(ModelReply { text: text.into(), ..ModelReply::default() }));
    }

    pub(crate) fn model_calls(&mut self, calls: &[(&str, &str, Value)]) {
        let call = self.model_call();
        self.tell(call.responded(ModelReply { calls: proposals(calls), ..ModelReply::default() }));
    }

    pub(crate) fn model_fails(&mut self, failure: Failure) {
        let call = self.model_call();
        self.tell(call.failed(failure));
    }

    pub(crate) fn tool_fails(&mut self, class: ErrorClass) {
        let run = self.run_tool();
        self.tell(run.finished(failed(class)));
    }

    pub(crate) fn tool_succeeds(&mut self, data: Value) {
        let run = self.run_tool();
        self.tell(run.finished(ToolOutcome::Ok { data }));
    }

    pub(crate) fn feedback(&self) -> Vec<RetryFeedback> {
        self.state.slices().feedback().collect()
    }

    /// What the model learns, message by message, except by itself.
    pub(crate) fn told(&self) -> Vec<String> {
        let told = self.notes.iter().filter_map(|note| match note {
            Note::Append { message: Message::Assistant { .. } } => None,
            Note::Append { message } => Some(message.text().to_owned()),
            _ => None,
        });
        told.collect()
    }

    pub(crate) fn last_told(&self) -> String {
        self.told().pop().unwrap_or_default()
    }

    pub(crate) fn exhausted(&self) -> Option<&RetryExhausted> {
        self.notes.iter().rev().find_map(|note| match note {
            Note::Exhausted { exhausted, .. } => Some(exhausted),
            _ => None,
        })
    }

    pub(crate) fn outcome(&self) -> Option<&Outcome> {
        self.state.outcome.as_ref()
    }

    pub(crate) fn warnings(&self) -> Vec<&str> {
        let warnings = self.notes.iter().filter_map(|note| match note {
            Note::Warning { message } => Some(message.as_str()),
            _ => None,
        });
        warnings.collect()
    }
}

pub(crate) fn failed(class: ErrorClass) -> ToolOutcome {
    let effect = unfazed::engine::EffectState::Started;
    ToolOutcome::Failed { failure: Failure::of(class, "it broke"), effect }
}

pub(crate) fn proposals(calls: &[(&str, &str, Value)]) -> Vec<ProposedCall> {
    let call = |(id, name, arguments): &(&str, &str, Value)| ToolCall {
        id: (*id).into(),
        name: (*name).into(),
        // A string is sent as it is, so that a test can send what is no JSON.
        arguments: arguments.as_str().map_or_else(|| arguments.to_string(), str::to_owned),
    };
    calls.iter().map(|one| ProposedCall::from(call(one))).collect()
}
