//! A case that is played: the interpreter, a host of no substance, and a time that jumps from one event to the next.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::Arc;

use serde_json::Value;

use super::answered::TimedAnswer;
use super::longest::{is_answer, longest};
use super::outcome::OutcomeRule;
use super::record::CaseRecord;
use super::tokens::{CaseCounter, CaseTokens};
use super::virtual_run::VirtualRun;
use crate::context::{CheckedHistory, TokenLedger, reduce, repair, tool_tokens};
use crate::engine::{
    ApprovalAnswer, AskPerson, CallModel, ConsultPlanner, DirectiveKind, Directives, DriveMode, EffectState,
    Event, Failure, Interpreter, KnownWindow, ModelReply, Note, PlannerDecision, ProposedCall, ResultSpill,
    RunFacts, RunStarted, RunTool, SummarizeMessages, ToolCatalogue, ToolFacts, ToolOutcome, TurnMeasure,
    WindowSource, Work,
};
use crate::host::known_window;
use crate::host::offered;
use crate::host::scripted::{Script, ScriptState, play};
use crate::policy::{CallOverride, ErrorClass, LayerKind, MalformedCalls, Policy};
use crate::session::{Message, ToolCall, splice};
use crate::time::{Instant, Nanos};

/// More events than any case needs; beyond, the run is taken to have no end.
const MOST_EVENTS: u64 = 50_000;

/// When a call of a model ends, and how.
type ModelEnd = (Nanos, Result<ModelReply, Failure>);

/// Everything a case needs to be played.
#[derive(Clone, Debug)]
pub(crate) struct CaseSetup {
    pub(crate) policy: Policy,
    pub(crate) tools: ToolCatalogue,
    pub(crate) outcomes: BTreeMap<String, Arc<[OutcomeRule]>>,
    /// The tools whose outcomes the case itself says; those of the file are for all its cases.
    pub(crate) own: HashSet<String>,
    pub(crate) plot: CasePlot,
    pub(crate) models: Vec<String>,
    pub(crate) windows: BTreeMap<String, KnownWindow>,
    pub(crate) system: String,
    pub(crate) history: Vec<Message>,
    pub(crate) task: String,
    pub(crate) order: Vec<u32>,
    pub(crate) layers: HashMap<String, CallOverride>,
    pub(crate) decisions: Vec<PlannerDecision>,
    pub(crate) answers: Vec<TimedAnswer>,
    pub(crate) cancel: Option<Nanos>,
    pub(crate) stop: Option<Nanos>,
    pub(crate) resume_at: Vec<u64>,
    pub(crate) start: Instant,
    pub(crate) deadline: Option<Nanos>,
    pub(crate) seed: u64,
    pub(crate) tokens: CaseTokens,
}

/// What happens to the agent.
#[derive(Clone, Debug)]
pub(crate) enum CasePlot {
    /// Calls of tools, one after the other.
    Calls(Vec<PlannedCall>),
    /// A run with a scripted model.
    Run(Arc<Script>),
    /// A run whose calls of models end like that.
    Turn(Arc<[OutcomeRule]>),
}

/// A call of a tool.
#[derive(Clone, Debug)]
pub(crate) struct PlannedCall {
    pub(crate) tool: String,
    pub(crate) arguments: String,
    pub(crate) outcomes: Option<Arc<[OutcomeRule]>>,
    pub(crate) after: Nanos,
}

/// Plays a case to its end.
pub(crate) fn run(setup: &CaseSetup) -> CaseRecord {
    let mut stage = CaseStage::new(setup);
    match &setup.plot {
        CasePlot::Run(_) | CasePlot::Turn(_) => {
            stage.start(DriveMode::Turns);
            stage.play();
        }
        CasePlot::Calls(calls) => {
            stage.start(DriveMode::Calls);
            for (index, call) in calls.iter().enumerate() {
                if stage.run.state.is_over() {
                    break;
                }
                stage.pass(call.after);
                if let Some(outcomes) = &call.outcomes {
                    let before = stage.outcomes.insert(call.tool.clone(), OutcomeQueue::of(outcomes, true));
                    stage.left(&call.tool, before.as_ref());
                }
                let proposal = ToolCall {
                    id: format!("call_{}", index.saturating_add(1)),
                    name: call.tool.clone(),
                    arguments: call.arguments.clone(),
                };
                let calls = vec![stage.planned(proposal)];
                stage.tell(Event::ToolsProposed { calls, turn: None });
                stage.play();
            }
        }
    }
    stage.leftovers();
    stage.record.end(stage.run.state, stage.messages, stage.now.since(setup.start));
    stage.record
}

/// A case in flight.
struct CaseStage<'a> {
    setup: &'a CaseSetup,
    interpreter: Interpreter,
    run: VirtualRun,
    now: Instant,
    messages: Vec<Message>,
    counter: CaseCounter,
    ledger: TokenLedger,
    script: Option<ScriptState>,
    turn: Option<OutcomeQueue>,
    outcomes: BTreeMap<String, OutcomeQueue>,
    decisions: VecDeque<PlannerDecision>,
    answers: VecDeque<TimedAnswer>,
    /// The places of the calls in flight in their reply, from 1.
    places: HashMap<String, u32>,
    cancelled: bool,
    asked_to_stop: bool,
    /// The numbers of `order` and of `resume_at` that came to be.
    ordered: BTreeSet<u32>,
    resumed: BTreeSet<u64>,
    record: CaseRecord,
}

/// Outcomes that are used up one after the other.
struct OutcomeQueue {
    rules: Arc<[OutcomeRule]>,
    at: usize,
    used: u32,
    /// Whether the case itself says them.
    own: bool,
}

impl OutcomeQueue {
    fn of(rules: &Arc<[OutcomeRule]>, own: bool) -> Self {
        Self { rules: Arc::clone(rules), at: 0, used: 0, own }
    }

    /// The numbers of the outcomes that no run came to, from 1. One that may be repeated needs to come but once.
    fn unused(&self) -> core::ops::RangeInclusive<usize> {
        let begun = self.at.saturating_add(usize::from(self.used > 0));
        begun.saturating_add(1)..=self.rules.len()
    }

    fn next(&mut self) -> Option<(ToolOutcome, Option<Nanos>)> {
        let rule = self.rules.get(self.at)?;
        self.used = self.used.saturating_add(1);
        if self.used >= rule.times {
            self.used = 0;
            self.at = self.at.saturating_add(1);
        }
        Some((rule.outcome.clone(), rule.takes))
    }
}

impl<'a> CaseStage<'a> {
    fn new(setup: &'a CaseSetup) -> Self {
        let (script, turn) = match &setup.plot {
            CasePlot::Run(script) => (Some(ScriptState::new(Arc::clone(script))), None),
            CasePlot::Turn(rules) => (None, Some(OutcomeQueue::of(rules, false))),
            CasePlot::Calls(_) => (None, None),
        };
        let queue = |(tool, rules): (&String, &Arc<[OutcomeRule]>)| {
            (tool.clone(), OutcomeQueue::of(rules, setup.own.contains(tool)))
        };
        let interpreter = Interpreter::new(setup.policy.clone(), setup.tools.clone());
        let offered = offered(&interpreter);
        let first = setup.models.first().map_or("", String::as_str);
        let counter = CaseCounter::new(setup.tokens, &setup.policy.model(first).tokens, first);
        let declared = || tool_tokens(&counter, &offered.iter().collect::<Vec<_>>());
        let mut ledger = TokenLedger::default();
        ledger.set_tools(setup.tokens.tools.unwrap_or_else(declared));
        Self {
            setup,
            interpreter,
            run: VirtualRun::default(),
            now: setup.start,
            messages: Vec::new(),
            counter,
            ledger,
            script,
            turn,
            outcomes: setup.outcomes.iter().map(queue).collect(),
            decisions: setup.decisions.iter().copied().collect(),
            answers: setup.answers.iter().copied().collect(),
            places: HashMap::new(),
            cancelled: false,
            asked_to_stop: false,
            ordered: BTreeSet::new(),
            resumed: BTreeSet::new(),
            record: CaseRecord::new(setup.start),
        }
    }

    fn start(&mut self, drive: DriveMode) {
        let tools = self.setup.tools.iter().map(ToolFacts::from).collect();
        self.tell(Event::RunStarted(RunStarted {
            run: "case".to_owned(),
            policy: self.setup.policy.digest().to_owned(),
            seed: self.setup.seed,
            drive,
            system: self.setup.system.clone(),
            history: self.setup.history.clone(),
            task: self.setup.task.clone(),
            targets: self.setup.models.clone(),
            windows: self.windows(),
            overheads: BTreeMap::new(),
            prices: BTreeMap::new(),
            tools,
            deadline: self.setup.deadline.map(|length| self.setup.start.saturating_add(length)),
        }));
    }

    /// How large the windows are: as the case says, else as a host finds out without asking a server. What the built-in
    /// policy assumes is left aside, for the models of most cases are made up.
    fn windows(&self) -> BTreeMap<String, KnownWindow> {
        let own = |model: &String| {
            let policy = self.setup.policy.model(model);
            let known = || known_window(&policy, None, None, model);
            let is_said = |known: &KnownWindow| {
                known.source != WindowSource::Assumed
                    || policy.assumed_window.origin.scope != LayerKind::Builtin
            };
            let said = self.setup.windows.get(model).copied();
            Some((model.clone(), said.or_else(|| known().filter(is_said))?))
        };
        self.setup.models.iter().filter_map(own).collect()
    }

    /// Ends one piece of work after the other, until there is none.
    fn play(&mut self) {
        while !self.run.state.is_over()
            && let Some(due) = self.run.due()
        {
            if self.stop_before(due) || self.cancel_before(due) {
                continue;
            }
            if self.run.state.seq >= MOST_EVENTS {
                let found = format!("the run has no end: it was given up after {MOST_EVENTS} events");
                return self.record.problem(found);
            }
            self.now = self.now.max(due);
            if let Some(event) = self.run.next() {
                self.tell(event);
            }
        }
    }

    /// Stops the run if that is due at or before `due`.
    fn cancel_before(&mut self, due: Instant) -> bool {
        let Some(at) = self.reached(self.setup.cancel.filter(|_| !self.cancelled), due) else { return false };
        self.cancelled = true;
        self.now = self.now.max(at);
        self.run.cancel();
        self.tell(Event::Cancelled { reason: "stopped by the user".to_owned() });
        true
    }

    /// Asks the run to end if that is due at or before `due`. What is in flight continues.
    fn stop_before(&mut self, due: Instant) -> bool {
        let Some(at) = self.reached(self.setup.stop.filter(|_| !self.asked_to_stop), due) else {
            return false;
        };
        self.asked_to_stop = true;
        self.now = self.now.max(at);
        self.tell(Event::StopRequested { reason: "stopped by the user".to_owned() });
        true
    }

    /// The time so long after the start, if it is at or before `due`.
    fn reached(&self, after: Option<Nanos>, due: Instant) -> Option<Instant> {
        after.map(|after| self.setup.start.saturating_add(after)).filter(|at| *at <= due)
    }

    fn pass(&mut self, time: Nanos) {
        let until = self.now.saturating_add(time);
        if !self.stop_before(until) && !self.cancel_before(until) {
            self.now = until;
        }
    }

    /// Tells the interpreter one event and sets going what it asks for.
    fn tell(&mut self, event: Event) {
        if self.run.state.is_over() {
            return;
        }
        if let Event::ModelResponded { reply: ModelReply { calls, .. }, .. }
        | Event::ToolsProposed { calls, .. } = &event
        {
            let places = calls.iter().zip(1..);
            self.places = places.map(|(proposal, place)| (proposal.call.id.clone(), place)).collect();
        }
        let envelope = self.run.envelope(self.now, event);
        self.record.event(&envelope);
        let Directives(list) = self.run.step(&self.interpreter, envelope);
        for directive in list {
            self.record.directive(self.now, &directive);
            match directive.order {
                DirectiveKind::Note(Note::Append { message }) => {
                    self.ledger.append(&self.counter, &message);
                    self.messages.push(message);
                }
                DirectiveKind::Note(Note::Splice { splices }) => {
                    splice(&mut self.messages, &splices);
                    self.ledger.splice(&self.counter, &splices);
                }
                DirectiveKind::Note(Note::Dropped { work }) => self.run.withdraw(work),
                DirectiveKind::Note(_) => {}
                DirectiveKind::Work(work) => self.begin(work),
            }
        }
        if self.setup.resume_at.contains(&self.run.state.seq) && !self.run.state.is_over() {
            self.resume();
        }
    }

    /// The conversation before a turn. What the interpreter makes is valid, so only what the case brings is looked at.
    fn measured(&self) -> TurnMeasure {
        let brought = !self.setup.history.is_empty();
        let drops = self.setup.policy.turn().malformed_calls.value == MalformedCalls::Drop;
        self.ledger.measure(if brought { CheckedHistory::default().faults(&self.messages, drops) } else { 0 })
    }

    fn planned(&self, call: ToolCall) -> ProposedCall {
        let policy = self.setup.layers.get(&call.name).cloned();
        ProposedCall { policy, ..call.into() }
    }

    fn begin(&mut self, work: Work) {
        // A host that resumes after a restart reads the work that was open.
        if !self.setup.resume_at.is_empty() && again(&work).ok().as_ref() != Some(&work) {
            self.record.problem("the work that was read back is not the one that was written".to_owned());
        }
        let place = match &work {
            Work::RunTool(run) => self.places.get(&run.call).copied().unwrap_or_default(),
            _ => 0,
        };
        let Some((takes, event)) = self.work(work) else { return };
        let order = self.setup.order.iter().position(|listed| *listed == place && place > 0);
        self.ordered.extend(order.map(|_| place));
        // What is not in the list comes after all that is, as it was begun.
        let rank = order.unwrap_or(if place > 0 { usize::MAX } else { 0 });
        self.run.begin(self.now.saturating_add(takes), rank, event);
    }

    fn work(&mut self, work: Work) -> Option<(Nanos, Event)> {
        let at_once = match work {
            Work::PrepareTurn(turn) => turn.prepared(self.measured()),
            Work::RepairHistory(work) => {
                let repair = repair(&self.messages, work.orphan_calls, work.malformed_calls);
                work.repaired(repair)
            }
            Work::ReduceContext(work) => {
                let weights = self.ledger.weights();
                let reduction =
                    reduce(&self.setup.policy, &work.plan, &self.messages, weights, &self.counter);
                work.reduced(reduction)
            }
            Work::Summarize(work) => {
                let (takes, result) = self.summarize(&work)?;
                let event = match result {
                    Ok(reply) => work.responded(reply),
                    Err(failure) => work.failed(failure),
                };
                return Some((takes, event));
            }
            Work::CallModel(call) => {
                let (takes, result) = self.call_model(&call)?;
                let event = match result {
                    Ok(reply) => call.responded(reply),
                    Err(failure) => call.failed(failure),
                };
                return Some((takes, event));
            }
            Work::RunTool(run) => {
                let (takes, outcome) = self.run_tool(&run)?;
                let handle = run.spill.as_ref().filter(|spill| spills(&outcome, spill));
                let facts =
                    RunFacts { handle: handle.map(|spill| spill.handle.clone()), ..RunFacts::default() };
                return Some((takes, run.finished_with(outcome, facts)));
            }
            Work::Wait(wait) => return Some((wait.delay, wait.fired())),
            Work::Ask(ask) => {
                let (takes, answer) = self.ask(&ask)?;
                return Some((takes, ask.answered(answer)));
            }
            Work::Consult(consult) => {
                let decision = self.consult(&consult)?;
                consult.decided(decision)
            }
        };
        Some((Nanos::ZERO, at_once))
    }

    fn call_model(&mut self, call: &CallModel) -> Option<ModelEnd> {
        if let Some(queue) = &mut self.turn {
            let (outcome, takes) = queue.next()?;
            let report = self.setup.policy.output().map(|output| output.tool.value.as_str());
            return Some(turned(call, report, outcome, takes));
        }
        let Some(script) = &mut self.script else {
            self.record.problem("a model is called, but the case has no `replies`".to_owned());
            return None;
        };
        let told = Message::of_guidance(&call.guidance);
        let guided = told.is_some();
        self.messages.extend(told);
        let played = play(script, &call.target, &self.messages);
        if guided {
            self.messages.pop();
        }
        let (takes, mut result) = self.checked(played.ends(call.timeout, call.timeouts))?;
        if let Ok(reply) = &mut result {
            for proposal in &mut reply.calls {
                proposal.policy = self.setup.layers.get(&proposal.call.name).cloned();
            }
        }
        Some((takes, result))
    }

    fn summarize(&mut self, work: &SummarizeMessages) -> Option<ModelEnd> {
        let script = self.script.as_mut()?;
        let played = play(script, &work.target, &[Message::user(work.prompt.clone())]);
        self.checked(played.ends(work.timeout, work.timeouts))
    }

    /// Every call has to end.
    fn checked(&mut self, ended: Option<ModelEnd>) -> Option<ModelEnd> {
        if ended.is_none() {
            self.record.problem("the model never answers, and nothing ends the call".to_owned());
        }
        ended
    }

    fn run_tool(&mut self, run: &RunTool) -> Option<(Nanos, ToolOutcome)> {
        let Some((outcome, takes)) = self.outcomes.get_mut(&run.tool).and_then(OutcomeQueue::next) else {
            self.record.problem(format!(
                "`{}` runs (call {}, attempt {}), but the case has no outcome left for it; add one to `outcomes`",
                run.tool, run.call, run.attempt
            ));
            return None;
        };
        let (end, late) = ends(takes, run.timeout, &outcome);
        if late {
            let message = format!("`{}` gave no answer within {end}", run.tool);
            let failure = Failure::of(ErrorClass::Timeout, message);
            return Some((end, ToolOutcome::Failed { failure, effect: EffectState::Unknown }));
        }
        Some((end, outcome))
    }

    /// Who does not answer is waited for as long as the policy says.
    fn ask(&mut self, ask: &AskPerson) -> Option<(Nanos, ApprovalAnswer)> {
        let Some(TimedAnswer { answer, takes }) = self.answers.pop_front() else {
            self.record.problem(format!(
                "a person is asked about `{}`, but the case has no answer left for it; add one to `answers`",
                ask.tool
            ));
            return None;
        };
        let longest = ask.timeout.filter(|timeout| *timeout <= takes || answer == ApprovalAnswer::None);
        Some(longest.map_or((takes, answer), |timeout| (timeout, ApprovalAnswer::None)))
    }

    fn consult(&mut self, consult: &ConsultPlanner) -> Option<PlannerDecision> {
        let decision = self.decisions.pop_front();
        if decision.is_none() {
            let action = &consult.exhausted.action;
            self.record.problem(format!(
                "the planner is asked about {action}, but the case has no decision left for it; \
                 add one to `planner.decisions`"
            ));
        }
        decision
    }

    /// Writes the state down and reads it back, as after a restart.
    fn resume(&mut self) {
        let before = self.run.state.digest();
        match again(&self.run.state) {
            Ok(state) => self.run.state = state,
            Err(error) => return self.record.problem(format!("the state cannot be read back: {error}")),
        }
        if self.run.state.digest() != before {
            self.record.problem("the state that was read back is not the one that was written".to_owned());
        }
        self.interpreter = Interpreter::new(self.setup.policy.clone(), self.setup.tools.clone());
        self.resumed.insert(self.run.state.seq);
        self.record.resumed(self.run.state.seq);
    }

    /// Writes down what the case says and what never came to be.
    fn leftovers(&mut self) {
        for (tool, queue) in core::mem::take(&mut self.outcomes) {
            self.left(&tool, Some(&queue));
        }
        let given = self.setup.answers.len();
        let unused = given.saturating_sub(self.answers.len())..given;
        self.record.unused.extend(unused.map(|number| format!("answer {}", number.saturating_add(1))));
        let replies = self.script.iter().flat_map(ScriptState::unused);
        self.record.unused.extend(replies.map(|number| format!("reply {number}")));
        let decided = self.setup.decisions.len().saturating_sub(self.decisions.len());
        let decisions = self.setup.decisions.iter().zip(1..).skip(decided);
        self.record.unused.extend(decisions.map(|(_, number)| format!("decision {number} of the planner")));
        let mut layers: Vec<&String> = self.setup.layers.keys().collect();
        layers.retain(|tool| !self.record.tools.contains(*tool));
        layers.sort();
        self.record.unused.extend(layers.iter().map(|tool| format!("the planner's layer for `{tool}`")));
        let asked =
            [("cancel", self.setup.cancel, self.cancelled), ("stop", self.setup.stop, self.asked_to_stop)];
        for (name, at, reached) in asked {
            if let Some(at) = at.filter(|_| !reached) {
                let end = self.now.since(self.setup.start);
                self.record.unreached(format!("`{name}` is at {at}, but all is over at {end}"));
            }
        }
        for seq in self.setup.resume_at.iter().filter(|seq| !self.resumed.contains(seq)) {
            let last = self.run.state.seq;
            let why =
                if *seq == last { "that ends the run".into() } else { format!("the last is event {last}") };
            self.record.unreached(format!("`resume_at` names event {seq}, but {why}"));
        }
        for place in self.setup.order.iter().filter(|place| !self.ordered.contains(place)) {
            self.record.unreached(format!("`order` names call {place}, but no such call runs"));
        }
    }

    /// Writes down the outcomes of a tool that the case says, and that no run came to.
    fn left(&mut self, tool: &str, queue: Option<&OutcomeQueue>) {
        let unused = queue.filter(|queue| queue.own).into_iter().flat_map(OutcomeQueue::unused);
        self.record.unused.extend(unused.map(|number| format!("outcome {number} of `{tool}`")));
    }
}

fn again<T: serde::Serialize + serde::de::DeserializeOwned>(value: &T) -> Result<T, serde_json::Error> {
    serde_json::from_slice(&serde_json::to_vec(value)?)
}

/// When a call of a model ends that is to end like that, and how. A good answer delivers the report if one is due.
fn turned(
    call: &CallModel,
    report: Option<&str>,
    outcome: ToolOutcome,
    takes: Option<Nanos>,
) -> (Nanos, Result<ModelReply, Failure>) {
    let is_answered = match &outcome {
        ToolOutcome::Ok { .. } | ToolOutcome::Done => true,
        ToolOutcome::Failed { failure, .. } => failure.class.is_some_and(is_answer),
    };
    let bound = longest(call.timeout, call.timeouts, is_answered);
    let (end, late) = ends(takes, bound, &outcome);
    let result = match outcome {
        _ if late => Err(Failure::of(ErrorClass::Timeout, format!("no answer within {end}"))),
        ToolOutcome::Failed { failure, .. } => Err(failure),
        ToolOutcome::Ok { data } => Ok(said(report, &data)),
        ToolOutcome::Done => Ok(said(report, &Value::Null)),
    };
    (end, result)
}

/// When something ends that has so long, and whether it is ended for that. An outcome that is a timeout by itself comes at the
/// bound at the latest, and there if the case does not say when.
fn ends(takes: Option<Nanos>, bound: Option<Nanos>, outcome: &ToolOutcome) -> (Nanos, bool) {
    let Some(bound) = bound else { return (takes.unwrap_or_default(), false) };
    let is_timeout = matches!(
        outcome,
        ToolOutcome::Failed { failure, .. } if failure.class == Some(ErrorClass::Timeout)
    );
    let takes = takes.unwrap_or(if is_timeout { bound } else { Nanos::ZERO });
    (takes.min(bound), takes >= bound && !is_timeout)
}

fn said(report: Option<&str>, data: &Value) -> ModelReply {
    let Some(tool) = report else {
        let text = data.as_str().map_or_else(|| data.to_string(), str::to_owned);
        return ModelReply { text, ..ModelReply::default() };
    };
    let arguments = if data.is_object() { data.to_string() } else { "{}".to_owned() };
    let call = ToolCall { id: "call_1".to_owned(), name: tool.to_owned(), arguments };
    ModelReply { calls: vec![call.into()], ..ModelReply::default() }
}

/// Whether a host would keep that.
fn spills(outcome: &ToolOutcome, spill: &ResultSpill) -> bool {
    match outcome {
        ToolOutcome::Ok { data: Value::String(text) } => !spill.over.holds(text),
        ToolOutcome::Ok { data } => !spill.over.holds(&data.to_string()),
        ToolOutcome::Done | ToolOutcome::Failed { .. } => false,
    }
}

/// Arguments as a model would write them.
pub(crate) fn arguments(value: Option<&Value>) -> String {
    match value {
        None => "{}".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
    }
}
