//! One simulated agent: consecutive runs, each driven by the interpreter's own step.

use core::num::NonZeroU32;

use super::chance::ServiceChance;
use super::errand::{NextReply, ScriptedWorkload};
use super::figures::{EndedBy, RunEnd};
use super::limits::CallUse;
use super::scenario::Scenario;
use super::service::{ServedCall, ServiceCall};
use super::shared::SharedServices;
use crate::cases::{VirtualRun, is_answer};
use crate::engine::{
    ApprovalAnswer, CallModel, DirectiveKind, Directives, DriveMode, Event, Failure, ModelReply, Note,
    ReduceContext, RunStarted, RunTool, SharedSubject, SummarizeMessages, ToolOutcome, TurnMeasure, Work,
};
use crate::policy::{ErrorClass, Seed};
use crate::session::{ContextReduction, HistoryRepair, Usage};
use crate::time::{Instant, Nanos};

/// The maximum number of events of a run; a longer run counts as endless and failed. Tests use a smaller limit.
const MOST_EVENTS: u64 = if cfg!(test) { 5_000 } else { 100_000 };
/// The minimum pause of an agent after a run that took no time.
const LEAST_REST: Nanos = Nanos::from_secs(1);

/// An agent.
#[derive(Debug)]
pub(super) struct SimulatedAgent {
    number: u32,
    seed: Seed,
    pauses: ServiceChance,
    run: VirtualRun,
    models: Vec<ServiceChance>,
    tools: Vec<ServiceChance>,
    errand: ScriptedWorkload,
    /// The turn in flight, and its start.
    turn: Option<(u32, Instant)>,
    /// The number of runs begun.
    runs: u32,
    began: Instant,
    /// The number of the last event before the run.
    before: u64,
    /// What the run has waited for.
    waited: Nanos,
    /// The last request of a model that was answered badly, and how.
    answered_badly: Option<(SentRequest, ErrorClass)>,
    /// The start of the next run, if none is in flight.
    begins: Option<Instant>,
}

/// What makes two requests of a run the same: the model, the turn, the most tokens of the reply, and the guidance.
type SentRequest = (usize, u32, Option<u64>, Vec<String>);

impl SimulatedAgent {
    pub(super) fn new(scenario: &Scenario, number: u32, begins: Instant) -> Self {
        let chance =
            |kind: &str, name: &str| ServiceChance::new(scenario.seed(), &format!("{kind} {name}"), number);
        Self {
            number,
            seed: Seed::new(scenario.seed(), "agent", &number.to_string()),
            pauses: chance("pause", ""),
            run: VirtualRun::default(),
            models: scenario.models.iter().map(|model| chance("model", &model.service.name)).collect(),
            tools: scenario.tools.iter().map(|tool| chance("tool", &tool.service.name)).collect(),
            errand: ScriptedWorkload::default(),
            turn: None,
            runs: 0,
            began: Instant::default(),
            before: 0,
            waited: Nanos::ZERO,
            answered_badly: None,
            begins: Some(begins),
        }
    }

    /// The time of the next event.
    pub(super) fn due(&self) -> Option<Instant> {
        self.begins.or_else(|| self.run.due())
    }

    /// Processes all events that are due now.
    pub(super) fn play(&mut self, shared: &mut SharedServices<'_>) {
        while self.due().is_some_and(|due| due <= shared.now) {
            let event = match self.begins.take() {
                Some(_) => self.begin(shared),
                None => self.run.next(),
            };
            let Some(event) = event else { return };
            self.look_at_shared(shared);
            self.step(shared, event);
            self.tell_others(shared);
            if self.run.state.is_over() || self.run.state.seq.saturating_sub(self.before) >= MOST_EVENTS {
                self.run.cancel();
                self.begins = self.end(shared).map(|rest| shared.now.saturating_add(rest));
            }
        }
    }

    /// Begins a run, if there is time for one.
    fn begin(&mut self, shared: &SharedServices<'_>) -> Option<Event> {
        let scenario = shared.scenario;
        if !scenario.has_run_after(self.runs, shared.since()) {
            return None;
        }
        let in_session = scenario.file.session_runs.map_or(1, NonZeroU32::get);
        let is_next = !self.runs.is_multiple_of(in_session);
        self.runs = self.runs.saturating_add(1);
        self.began = shared.now;
        self.run = if is_next { self.run.next_run() } else { VirtualRun::default() };
        self.before = self.run.state.seq;
        (self.waited, self.answered_badly) = (Nanos::ZERO, None);
        self.errand.begin(scenario);
        Some(Event::RunStarted(RunStarted {
            run: format!("{}-{}", self.number, self.runs),
            policy: shared.interpreter.policy().digest().to_owned(),
            seed: self.seed.draw(self.runs),
            drive: DriveMode::Turns,
            task: "Do it.".to_owned(),
            targets: scenario.models.iter().map(|model| model.service.name.clone()).collect(),
            tools: scenario.tools.iter().map(|tool| tool.facts.clone()).collect(),
            deadline: scenario.file.deadline.map(|length| shared.now.saturating_add(length.0)),
            ..RunStarted::default()
        }))
    }

    /// Ends a run, finished or abandoned. Returns the pause before the next run, if one follows.
    fn end(&mut self, shared: &mut SharedServices<'_>) -> Option<Nanos> {
        self.turn_begins(shared, None);
        let outcome = self.run.state.outcome.as_ref();
        let ended = outcome.map_or(RunEnd::Failed, |outcome| self.errand.ended(outcome));
        let since = shared.since();
        shared.tally.run_ended(since, ended, self.run.state.usage);
        shared.tally.run_waited(self.waited);
        if ended == RunEnd::Failed {
            shared.tally.run_failed(EndedBy::of(outcome));
        }
        let scenario = shared.scenario;
        let least = if self.began == shared.now { LEAST_REST } else { Nanos::ZERO };
        let rest = scenario.file.pause.draw(self.pauses.next().time()).max(least);
        scenario.has_run_after(self.runs, since.saturating_add(rest)).then_some(rest)
    }

    /// Takes what the other agents have reported, as a host does that looks before each event.
    fn look_at_shared(&mut self, shared: &mut SharedServices<'_>) {
        // Before the start there are no models whose pools could be shared.
        if shared.known.is_some() && !self.run.state.is_over() && self.run.state.seq > 0 {
            let subjects = shared.interpreter.sharing(&self.run.state);
            self.share(shared, &subjects);
        }
    }

    /// Reports what has happened to what agents share.
    fn tell_others(&mut self, shared: &mut SharedServices<'_>) {
        if shared.known.is_some() {
            let subjects = shared.interpreter.unshared(&self.run.state);
            self.share(shared, &subjects);
        }
    }

    fn share(&mut self, shared: &mut SharedServices<'_>, subjects: &[SharedSubject]) {
        let told = shared.tell(&self.run.state, subjects);
        if !told.is_empty() {
            self.step(shared, Event::SharedChanged(told));
        }
    }

    fn step(&mut self, shared: &mut SharedServices<'_>, event: Event) {
        let envelope = self.run.envelope(shared.now, event);
        let Directives(directives) = self.run.step(&shared.interpreter, envelope);
        let figures = &mut shared.tally.figures;
        figures.steps = figures.steps.saturating_add(1);
        figures.decisions =
            figures.decisions.saturating_add(u64::try_from(directives.len()).unwrap_or(u64::MAX));
        for directive in directives {
            match directive.order {
                DirectiveKind::Work(work) => self.work(shared, work),
                DirectiveKind::Note(note) => self.note(shared.scenario, note),
            }
        }
    }

    fn note(&mut self, scenario: &Scenario, note: Note) {
        match note {
            Note::ToolEnded { call, error_type: None, .. } => self.errand.went_well(&call),
            Note::ToolEnded { call, error_type: Some(class), .. }
            | Note::Refused { call, error_type: class, .. } => {
                self.errand.went_wrong(&call, class, scenario.file.work.repeat_failed);
            }
            Note::Dropped { work } => self.run.withdraw(work),
            _ => {}
        }
    }

    /// Begins a piece of work. Immediate answers come before answers that take time, even if that time is zero.
    fn work(&mut self, shared: &mut SharedServices<'_>, work: Work) {
        let takes_time =
            matches!(work, Work::CallModel(_) | Work::RunTool(_) | Work::Summarize(_) | Work::Wait(_));
        let (takes, event) = match work {
            Work::CallModel(call) => self.call_model(shared, call),
            Work::RunTool(run) => self.run_tool(shared, run),
            Work::Summarize(work) => self.summarize(shared, work),
            Work::Wait(wait) => {
                shared.tally.slept(wait.delay);
                self.waited = self.waited.saturating_add(wait.delay);
                (wait.delay, wait.fired())
            }
            Work::PrepareTurn(turn) => {
                self.turn_begins(shared, Some(turn.turn));
                (Nanos::ZERO, turn.prepared(self.measure(shared.scenario)))
            }
            Work::RepairHistory(work) => (Nanos::ZERO, work.repaired(HistoryRepair::default())),
            Work::ReduceContext(work) => (Nanos::ZERO, self.reduced(shared.scenario, work)),
            Work::Consult(consult) => (Nanos::ZERO, consult.decided(shared.scenario.file.planner)),
            Work::Ask(ask) => {
                let approve = shared.scenario.file.approve;
                let answer = if approve { ApprovalAnswer::Approve } else { ApprovalAnswer::Refuse };
                (Nanos::ZERO, ask.answered(answer))
            }
        };
        self.run.begin(shared.now.saturating_add(takes), takes_time.into(), event);
    }

    fn call_model(&mut self, shared: &mut SharedServices<'_>, call: CallModel) -> (Nanos, Event) {
        let scenario = shared.scenario;
        let (next, first) = self.errand.next(scenario, &call);
        let has_calls = matches!(next, NextReply::Calls(_)) || shared.report.is_some();
        let place = shared.place(&call.target);
        let request = (place, call.turn, call.max_output, call.guidance.clone());
        let again = self.answered_badly.as_ref().filter(|(before, _)| *before == request);
        let asked = ServiceCall {
            whole: call.timeout,
            steps: call.timeouts,
            has_calls,
            again: again.map(|(_, class)| *class),
            ..ServiceCall::default()
        };
        let (ServedCall { takes, fault, stated: limits }, usage) = self.ask(shared, place, first, asked);
        if let Some(fault) = fault.filter(|fault| is_answer(fault.class)) {
            self.answered_badly = Some((request, fault.class));
        }
        let answer = self.errand.reply(scenario, shared.report.as_deref(), &next, usage, fault);
        self.errand.called(answer.is_ok());
        let event = match answer {
            Ok(reply) => call.responded(ModelReply { limits, ..reply }),
            Err(failure) => call.failed(Failure { limits, ..failure }),
        };
        (takes, event)
    }

    fn summarize(&mut self, shared: &mut SharedServices<'_>, work: SummarizeMessages) -> (Nanos, Event) {
        let asked = ServiceCall { whole: work.timeout, steps: work.timeouts, ..ServiceCall::default() };
        let place = shared.place(&work.target);
        let (ServedCall { takes, fault, .. }, usage) = self.ask(shared, place, false, asked);
        let event = if let Some(fault) = fault {
            work.failed(fault.failure())
        } else {
            let text = "So far all went well.".to_owned();
            work.responded(ModelReply { text, usage: Some(usage), ..ModelReply::default() })
        };
        (takes, event)
    }

    /// The result of a model call, and the reported tokens.
    fn ask(
        &mut self,
        shared: &mut SharedServices<'_>,
        place: usize,
        first: bool,
        asked: ServiceCall,
    ) -> (ServedCall, Usage) {
        let since = shared.since();
        shared.tally.model_called(since, first);
        let rules = &shared.scenario.models;
        let draws = self.models.get_mut(place).map(ServiceChance::next);
        let turns = self.turns_before();
        match (shared.models.get_mut(place), rules.get(place), draws) {
            (Some(model), Some(rules), Some(draws)) => {
                let usage = rules.usage_after(turns);
                let used = CallUse { input: usage.input, output: usage.output };
                (model.call(since, draws, ServiceCall { used, ..asked }), usage)
            }
            // Only models of the scenario are called, and each has all of these.
            _ => (ServedCall::default(), Usage::default()),
        }
    }

    fn run_tool(&mut self, shared: &mut SharedServices<'_>, run: RunTool) -> (Nanos, Event) {
        let (since, rules) = (shared.since(), &shared.scenario.tools);
        let first = self.errand.runs(&run.call);
        shared.tally.tool_ran(first);
        let place = rules.iter().position(|tool| tool.service.name == run.tool);
        let chance = place.and_then(|place| self.tools.get_mut(place)).map(ServiceChance::next);
        let service = place.and_then(|place| shared.tools.get_mut(place));
        let called = ServiceCall { whole: run.timeout, ..ServiceCall::default() };
        let served = service.zip(chance).map(|(service, draws)| service.call(since, draws, called));
        let ServedCall { takes, fault, .. } = served.unwrap_or_default();
        let outcome = if let Some(fault) = fault {
            fault.outcome()
        } else {
            let result = place.and_then(|place| rules.get(place)).map(|tool| tool.result.clone());
            ToolOutcome::Ok { data: result.unwrap_or_default() }
        };
        (takes, run.finished(outcome))
    }

    /// The measure of the conversation before a turn, as in the scenario.
    fn measure(&self, scenario: &Scenario) -> TurnMeasure {
        let turns = self.turns_before();
        let tokens = scenario.models.first().map_or(0, |model| model.usage_after(turns).input);
        let messages = self.turn.map_or(0, |(turn, _)| u64::from(turn).saturating_mul(2));
        TurnMeasure { messages, message_tokens: tokens, ..TurnMeasure::default() }
    }

    /// The number of turns that have made the conversation longer.
    fn turns_before(&self) -> u32 {
        self.turn.map_or(0, |(turn, _)| turn.saturating_sub(1))
    }

    /// Answers a reduction: the simulated conversation cannot be reduced.
    fn reduced(&self, scenario: &Scenario, work: ReduceContext) -> Event {
        let TurnMeasure { messages, message_tokens, .. } = self.measure(scenario);
        work.reduced(ContextReduction { messages, message_tokens, ..ContextReduction::default() })
    }

    /// Ends the turn in flight, and begins another one, if there is one.
    fn turn_begins(&mut self, shared: &mut SharedServices<'_>, turn: Option<u32>) {
        let same = self.turn.is_some_and(|(number, _)| Some(number) == turn);
        if same {
            return;
        }
        let over = core::mem::replace(&mut self.turn, turn.map(|turn| (turn, shared.now)));
        if let Some((_, began)) = over {
            shared.tally.turn(shared.now.since(began));
        }
    }
}
