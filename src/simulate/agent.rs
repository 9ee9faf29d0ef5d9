//! One agent: runs, one after the other, each driven by the interpreter's own step.

use std::collections::VecDeque;

use super::chance::Chance;
use super::errand::{Errand, Next};
use super::figures::{Ended, EndedBy};
use super::scenario::Scenario;
use super::service::{Call, Served};
use super::world::Shared;
use crate::engine::{
    Answer, CallModel, Directives, Drive, Envelope, Event, ModelReply, Note, Order, ReduceContext,
    RunStarted, RunTool, State, Summarize, ToolOutcome, TurnMeasure, Work, WorkId,
};
use crate::policy::Seed;
use crate::session::{HistoryRepair, Reduction, Usage};
use crate::time::{Instant, Nanos};

/// More events than any run needs; beyond, it is taken to have no end, and to have failed. Tests do not wait so long.
const MOST_EVENTS: u64 = if cfg!(test) { 5_000 } else { 100_000 };
/// An agent whose run took no time at all rests as long as this.
const LEAST_REST: Nanos = Nanos::from_secs(1);

/// An agent.
#[derive(Debug)]
pub(super) struct Agent {
    number: u32,
    seed: Seed,
    models: Vec<Chance>,
    tools: Vec<Chance>,
    pauses: Chance,
    state: State,
    errand: Errand,
    /// How many runs it has begun.
    run: u32,
    began: Instant,
    /// The turn under way, and when it began.
    turn: Option<(u32, Instant)>,
    /// Answers that take no time.
    at_once: VecDeque<Event>,
    /// Work that is not wanted any more.
    dropped: Vec<WorkId>,
}

/// What comes of a piece of work, and how long it takes.
#[derive(Debug)]
pub(super) struct Answered {
    pub(super) takes: Nanos,
    pub(super) event: Event,
}

impl Agent {
    pub(super) fn new(scenario: &Scenario, number: u32) -> Self {
        let chance = |kind: &str, name: &str| Chance::new(scenario.seed, &format!("{kind} {name}"), number);
        Self {
            number,
            seed: Seed::new(scenario.seed, "agent", &number.to_string()),
            models: scenario.models.iter().map(|model| chance("model", &model.service.name)).collect(),
            tools: scenario.tools.iter().map(|tool| chance("tool", &tool.service.name)).collect(),
            pauses: chance("pause", ""),
            state: State::new(),
            errand: Errand::default(),
            run: 0,
            began: Instant::default(),
            turn: None,
            at_once: VecDeque::new(),
            dropped: Vec::new(),
        }
    }

    /// The number of its run.
    pub(super) const fn run(&self) -> u32 {
        self.run
    }

    /// Begins a run. How long it rests afterwards, if it is over at once and another one follows.
    pub(super) fn begin(&mut self, shared: &mut Shared<'_>, answers: &mut Vec<Answered>) -> Option<Nanos> {
        let scenario = shared.scenario;
        if shared.since() >= scenario.duration {
            return None;
        }
        self.run = self.run.saturating_add(1);
        self.began = shared.now;
        self.state = State::new();
        self.errand.begin(scenario);
        let started = RunStarted {
            run: format!("{}-{}", self.number, self.run),
            policy: shared.interpreter.policy().digest().to_owned(),
            seed: self.seed.draw(self.run),
            drive: Drive::Turns,
            task: "Do it.".to_owned(),
            targets: scenario.models.iter().map(|model| model.service.name.clone()).collect(),
            tools: scenario.tools.iter().map(|tool| tool.facts.clone()).collect(),
            deadline: scenario.deadline.map(|length| shared.now.saturating_add(length)),
            ..RunStarted::default()
        };
        self.at_once.push_back(Event::RunStarted(started));
        self.go_on(shared, answers)
    }

    /// Takes the answer to work of the run of that number. How long it rests, if the run is over and another one follows.
    pub(super) fn take(
        &mut self,
        shared: &mut Shared<'_>,
        run: u32,
        event: Event,
        answers: &mut Vec<Answered>,
    ) -> Option<Nanos> {
        let dropped = event.work().is_some_and(|work| self.dropped.contains(&work));
        if run != self.run || self.is_done() || dropped {
            return None;
        }
        self.at_once.push_back(event);
        self.go_on(shared, answers)
    }

    fn go_on(&mut self, shared: &mut Shared<'_>, answers: &mut Vec<Answered>) -> Option<Nanos> {
        while let Some(event) = self.at_once.pop_front() {
            self.step(shared, event, answers);
            if self.is_done() {
                self.at_once.clear();
                self.dropped.clear();
                answers.clear();
                return self.end(shared);
            }
        }
        None
    }

    /// Whether its run is over, or was given up.
    const fn is_done(&self) -> bool {
        self.state.is_over() || self.state.seq >= MOST_EVENTS
    }

    fn step(&mut self, shared: &mut Shared<'_>, event: Event, answers: &mut Vec<Answered>) {
        let envelope = Envelope { seq: self.state.seq.saturating_add(1), now: shared.now, event };
        let Directives(directives) = shared.interpreter.step(&mut self.state, envelope);
        let figures = &mut shared.tally.figures;
        figures.steps = figures.steps.saturating_add(1);
        figures.decisions =
            figures.decisions.saturating_add(u64::try_from(directives.len()).unwrap_or(u64::MAX));
        for directive in directives {
            match directive.order {
                Order::Work(work) => answers.extend(self.work(shared, work)),
                Order::Note(note) => self.note(shared.scenario, note),
            }
        }
    }

    fn note(&mut self, scenario: &Scenario, note: Note) {
        match note {
            Note::ToolEnded { call, error_type: None, .. } => self.errand.went_well(&call),
            Note::ToolEnded { call, error_type: Some(class), .. }
            | Note::Refused { call, error_type: class, .. } => {
                self.errand.went_wrong(&call, class, scenario.work.again);
            }
            Note::Dropped { work } => self.dropped.push(work),
            _ => {}
        }
    }

    /// Does a piece of work. What takes no time is answered in the same moment.
    fn work(&mut self, shared: &mut Shared<'_>, work: Work) -> Option<Answered> {
        let at_once = match work {
            Work::CallModel(call) => return Some(self.call_model(shared, call)),
            Work::RunTool(run) => return Some(self.run_tool(shared, run)),
            Work::Summarize(work) => return Some(self.summarize(shared, work)),
            Work::Wait(wait) => {
                shared.tally.slept(wait.delay);
                return Some(Answered { takes: wait.delay, event: wait.fired() });
            }
            Work::PrepareTurn(turn) => {
                self.turn_begins(shared, Some(turn.turn));
                turn.prepared(self.measure(shared.scenario))
            }
            Work::RepairHistory(work) => work.repaired(HistoryRepair::default()),
            Work::ReduceContext(work) => self.reduced(shared.scenario, work),
            Work::Consult(consult) => consult.decided(shared.scenario.planner),
            Work::Ask(ask) => {
                ask.answered(if shared.scenario.approve { Answer::Approve } else { Answer::Refuse })
            }
        };
        self.at_once.push_back(at_once);
        None
    }

    fn call_model(&mut self, shared: &mut Shared<'_>, call: CallModel) -> Answered {
        let scenario = shared.scenario;
        let (next, first) = self.errand.next(scenario, &call);
        let has_calls = matches!(next, Next::Calls(_)) || shared.report.is_some();
        let asked = Call { whole: call.timeout, steps: call.timeouts, has_calls };
        let (Served { takes, fault }, usage) = self.ask(shared, &call.target, first, asked);
        let answer = self.errand.reply(scenario, shared.report.as_deref(), &next, usage, fault);
        self.errand.called(answer.is_ok());
        let event = match answer {
            Ok(reply) => call.responded(reply),
            Err(failure) => call.failed(failure),
        };
        Answered { takes, event }
    }

    fn summarize(&mut self, shared: &mut Shared<'_>, work: Summarize) -> Answered {
        let asked = Call { whole: work.timeout, steps: work.timeouts, has_calls: false };
        let (Served { takes, fault }, usage) = self.ask(shared, &work.target, false, asked);
        let event = if let Some(fault) = fault {
            work.failed(fault.failure())
        } else {
            let text = "So far all went well.".to_owned();
            work.responded(ModelReply { text, usage: Some(usage), ..ModelReply::default() })
        };
        Answered { takes, event }
    }

    /// What becomes of a call of a model, and the tokens its answer reports.
    fn ask(&mut self, shared: &mut Shared<'_>, target: &str, first: bool, asked: Call) -> (Served, Usage) {
        let since = shared.since();
        shared.tally.model_called(since, first);
        let rules = &shared.scenario.models;
        let place = rules.iter().position(|model| model.service.name == target).unwrap_or(0);
        let draws = self.models.get_mut(place).map(Chance::next);
        match (shared.models.get_mut(place), rules.get(place), draws) {
            (Some(model), Some(rules), Some(draws)) => (model.call(since, draws, asked), rules.usage),
            // Only models of the scenario are called, and each has all of these.
            _ => (Served::default(), Usage::default()),
        }
    }

    fn run_tool(&mut self, shared: &mut Shared<'_>, run: RunTool) -> Answered {
        let (since, rules) = (shared.since(), &shared.scenario.tools);
        let first = self.errand.runs(&run.call);
        shared.tally.tool_ran(first);
        let place = rules.iter().position(|tool| tool.service.name == run.tool);
        let chance = place.and_then(|place| self.tools.get_mut(place)).map(Chance::next);
        let service = place.and_then(|place| shared.tools.get_mut(place));
        let called = Call { whole: run.timeout, ..Call::default() };
        let served = service.zip(chance).map(|(service, draws)| service.call(since, draws, called));
        let Served { takes, fault } = served.unwrap_or_default();
        let outcome = if let Some(fault) = fault {
            fault.outcome()
        } else {
            let result = place.and_then(|place| rules.get(place)).map(|tool| tool.result.clone());
            ToolOutcome::Ok { data: result.unwrap_or_default() }
        };
        Answered { takes, event: run.finished(outcome) }
    }

    /// The conversation before a turn, as large as the scenario says.
    fn measure(&self, scenario: &Scenario) -> TurnMeasure {
        let tokens = scenario.models.first().map_or(0, |model| model.usage.input);
        let messages = u64::from(self.state.turn).saturating_mul(2);
        TurnMeasure { messages, message_tokens: tokens, ..TurnMeasure::default() }
    }

    /// There is no conversation that could be made smaller.
    fn reduced(&self, scenario: &Scenario, work: ReduceContext) -> Event {
        let TurnMeasure { messages, message_tokens, .. } = self.measure(scenario);
        work.reduced(Reduction { messages, message_tokens, ..Reduction::default() })
    }

    /// Another turn begins, or none: the one before it is over.
    fn turn_begins(&mut self, shared: &mut Shared<'_>, turn: Option<u32>) {
        let same = self.turn.is_some_and(|(number, _)| Some(number) == turn);
        if same {
            return;
        }
        let over = core::mem::replace(&mut self.turn, turn.map(|turn| (turn, shared.now)));
        if let Some((_, began)) = over {
            shared.tally.turn(shared.now.since(began));
        }
    }

    fn end(&mut self, shared: &mut Shared<'_>) -> Option<Nanos> {
        self.turn_begins(shared, None);
        let ended = self.state.outcome.as_ref().map_or(Ended::Failed, |outcome| self.errand.ended(outcome));
        let since = shared.since();
        shared.tally.run_ended(since, ended, self.state.usage);
        if ended == Ended::Failed {
            shared.tally.run_failed(EndedBy::of(self.state.outcome.as_ref()));
        }
        let scenario = shared.scenario;
        let least = if self.began == shared.now { LEAST_REST } else { Nanos::ZERO };
        let rest = scenario.pause.draw(self.pauses.next().time()).max(least);
        let more = scenario.runs.is_none_or(|most| self.run < most);
        (more && since.saturating_add(rest) < scenario.duration).then_some(rest)
    }
}
