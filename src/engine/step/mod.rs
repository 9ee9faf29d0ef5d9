//! The interpreter: one event in, directives out.

mod approval;
mod batch;
mod budget;
mod changed;
mod context;
mod doubt;
mod examine;
mod exhausted;
mod final_turn;
mod guidance;
mod history;
mod malformed;
mod model_retry;
mod output;
mod queue;
mod reply;
mod report_attempt;
mod results;
mod results_room;
mod retract;
mod rounds;
mod sharing;
mod spending;
mod summary;
mod tokens;
mod turn;

use serde_json::Value;

use super::budget::Budgets;
use super::catalogue::Catalogue;
use super::directive::{Because, Directive, Directives, Note, Order, Outcome, Work, WorkId};
use super::event::{Drive, Envelope, Event, RunStarted};
use super::machine::{Failed, FinalTurn, ModelHealth, Out, Rules, ToolHealth, repair_call};
use super::metric::MetricName;
use super::repeats::LoopDetector;
use super::state::{Batch, Pending, State};
use crate::policy::{Policy, RetryPolicy, Seed, Setting, Template, Trigger};
use crate::session::{Message, ReducerError};

/// A policy and a set of tools, ready to decide.
///
/// Cheap to clone; holds no state. The same interpreter serves any number of runs.
#[derive(Clone, Debug)]
pub struct Interpreter {
    policy: Policy,
    tools: Catalogue,
}

impl Interpreter {
    /// An interpreter of `policy` over `tools`.
    pub const fn new(policy: Policy, tools: Catalogue) -> Self {
        Self { policy, tools }
    }

    /// The policy.
    pub const fn policy(&self) -> &Policy {
        &self.policy
    }

    /// The tools.
    pub const fn tools(&self) -> &Catalogue {
        &self.tools
    }

    /// Takes one event and says what to do.
    ///
    /// A pure function of its arguments: no clock, no I/O, no random stream. An event that cannot be used (a gap
    /// in the numbers, an answer to work nobody asked for) changes nothing and is reported as a warning.
    pub fn step(&self, state: &mut State, envelope: Envelope) -> Directives {
        let mut step =
            Step { policy: &self.policy, tools: &self.tools, state, directives: Vec::with_capacity(USUAL) };
        step.take(envelope);
        Directives(step.directives)
    }
}

/// So many directives are given at once, mostly; they are large.
const USUAL: usize = 8;

/// One step under way.
struct Step<'a> {
    policy: &'a Policy,
    tools: &'a Catalogue,
    state: &'a mut State,
    directives: Vec<Directive>,
}

impl Step<'_> {
    fn take(&mut self, Envelope { seq, now, event }: Envelope) {
        if seq != self.state.seq.saturating_add(1) {
            let last = self.state.seq;
            return self.warn(format!("event {seq} does not follow event {last}; it is not used"));
        }
        self.state.seq = seq;
        self.state.now = self.state.now.max(now);
        if self.state.is_over() {
            // What this run has told the others, the next one need not tell again.
            if let Event::SharedChanged(known) = event {
                self.shared_changed(known);
            }
            return;
        }
        match event {
            Event::RunStarted(started) => self.run_started(started),
            _ if self.state.run.is_empty() => self.warn("the run has not started; the event is not used"),
            Event::TurnPrepared { work, measure } => match self.claim(work) {
                Some(Pending::Prepare) => {
                    self.state.spending.appended = 0;
                    self.turn_prepared(measure);
                }
                other => self.unasked(work, other),
            },
            Event::HistoryRepaired { work, repair } => match self.claim(work) {
                Some(Pending::Repair(what)) => self.history_repaired(what, repair),
                other => self.unasked(work, other),
            },
            Event::ContextReduced { work, reduction } => match self.claim(work) {
                Some(Pending::Reduce(what)) => self.context_reduced(what, reduction),
                other => self.unasked(work, other),
            },
            Event::ModelResponded { work, reply } => match self.claim(work) {
                Some(Pending::Model) => {
                    self.charge_reply(&reply);
                    self.model_responded(reply);
                }
                Some(Pending::Summary(what)) => {
                    self.charge_reply(&reply);
                    self.summarized(what, &reply);
                }
                other => self.unasked(work, other),
            },
            Event::ModelFailed { work, failure } => match self.claim(work) {
                Some(Pending::Model) => {
                    self.charge_failure(&failure);
                    self.model_failed(&failure);
                }
                Some(Pending::Summary(what)) => {
                    self.charge_failure(&failure);
                    self.not_summarized(what, &failure);
                }
                other => self.unasked(work, other),
            },
            Event::ToolFinished { work, outcome, run } => match self.claim(work) {
                Some(Pending::Tool(slot)) => self.tool_finished(slot, outcome, run),
                Some(Pending::Verify(slot)) => self.verified(slot, outcome),
                other => self.unasked(work, other),
            },
            Event::TimerFired { work } => match self.claim(work) {
                Some(Pending::WaitModel) => self.call_model(),
                Some(Pending::WaitTool(slot)) => {
                    self.run_tool(slot, Vec::new());
                    self.settle();
                }
                Some(Pending::WaitTurn) => self.next_turn(),
                other => self.unasked(work, other),
            },
            Event::PlannerDecided { work, decision } => match self.claim(work) {
                Some(Pending::ConsultTool(slot)) => self.tool_decided(slot, decision),
                Some(Pending::ConsultModel) => self.model_decided(decision),
                Some(Pending::ConsultOutput) => self.output_decided(decision),
                other => self.unasked(work, other),
            },
            Event::Answered { work, answer } => match self.claim(work) {
                Some(Pending::Approve(slot)) => self.approved(slot, answer),
                Some(Pending::ApproveAgain(slot)) => self.approved_again(slot, answer),
                other => self.unasked(work, other),
            },
            Event::ToolsProposed { mut calls } => {
                if self.host_drives("tool calls") {
                    for proposal in &mut calls {
                        repair_call(&mut proposal.call, &mut self.parts().out);
                    }
                    self.begin_turn_of_tools();
                    self.begin_batch(calls);
                }
            }
            Event::OutputProposed { output } => {
                if self.host_drives("a report") {
                    self.text_proposed(output);
                }
            }
            Event::PolicyChanged { policy: _ } => self.policy_changed(),
            Event::ToolsChanged { tools } => self.take_effects(tools),
            Event::SharedChanged(known) => self.shared_changed(known),
            Event::StopRequested { reason } => self.stop_requested(reason),
            Event::Cancelled { reason } => self.stopped(reason),
        }
    }

    fn run_started(&mut self, started: RunStarted) {
        if !self.state.run.is_empty() {
            return self.warn("the run has already started; the event is not used");
        }
        let RunStarted {
            run,
            policy: _,
            seed,
            drive,
            system,
            history,
            task,
            targets,
            windows,
            overheads,
            prices,
            tools,
            deadline,
        } = started;
        self.state.run = run;
        self.state.context.seed = seed;
        self.state.context.drive = drive;
        self.state.context.targets = targets;
        self.state.context.deadline = deadline;
        self.state.spending.started = self.state.now;
        self.state.spending.prices = prices;
        let Parts { mut out, models, .. } = self.parts();
        models.take_windows(windows, &mut out);
        self.state.models.take_overheads(overheads, !tools.is_empty(), &self.state.context.targets);
        self.take_effects(tools);
        // Those of runs of the session before this one go on.
        self.state.slices.complete(self.policy.session());
        if !system.is_empty() {
            self.append(Message::System { text: system });
        }
        for message in history {
            self.append(message);
        }
        if !task.is_empty() {
            self.append(Message::user(task));
        }
        match drive {
            Drive::Turns => self.next_turn(),
            Drive::Calls => {}
        }
    }

    /// Ends the run. Calls without a result get one, so that the history stays valid.
    fn finish(&mut self, outcome: Outcome, because: Vec<Because>) {
        self.close_batch();
        // What calls answer that are no longer settled depends on who was quicker.
        self.state.spending.appended = 0;
        self.charge_unanswered();
        self.state.work.clear();
        self.state.model_turn.series = None;
        self.state.outcome = Some(outcome.clone());
        self.note(Note::Finish { outcome }, because);
    }

    fn claim(&mut self, work: WorkId) -> Option<Pending> {
        self.state.work.remove(&work)
    }

    /// An answer that does not fit: the work stays as it was.
    fn unasked(&mut self, work: WorkId, claimed: Option<Pending>) {
        if let Some(pending) = claimed {
            self.state.work.insert(work, pending);
        }
        self.warn(format!("nobody asked for this answer (work {}); it is not used", work.0));
    }

    fn host_drives(&mut self, what: &str) -> bool {
        // Without calls under way there may still be a question to the planner.
        let idle = self.state.batch.slots.is_empty() && self.state.work.is_empty();
        let ok = self.state.context.drive == Drive::Calls && idle;
        if !ok {
            self.warn(format!(
                "{what} cannot be proposed now: the interpreter drives the run, or work is under way"
            ));
        }
        ok
    }

    fn ask(&mut self, work: Work, because: Vec<Because>) {
        self.directives.push(Directive { order: Order::Work(work), because });
    }

    fn append(&mut self, message: Message) {
        self.appended(&message);
        self.note(Note::Append { message }, Vec::new());
    }

    fn seed(&self, scope: &str, call: &str) -> Seed {
        Seed::new(self.state.context.seed, scope, call)
    }
}

/// What a step lends to its machines: each gets its own state, and the output.
struct Parts<'p> {
    out: Out<'p>,
    ending: &'p mut FinalTurn,
    tools: &'p mut ToolHealth,
    models: &'p mut ModelHealth,
    budgets: &'p mut Budgets,
    loops: &'p mut LoopDetector,
    batch: &'p mut Batch,
}

impl Step<'_> {
    const fn rules(&self) -> Rules<'_> {
        Rules { policy: self.policy, tools: self.tools }
    }

    fn parts(&mut self) -> Parts<'_> {
        let State { now, slices, ending, tools, lately: loops, models, budgets, batch, .. } =
            &mut *self.state;
        let rules = Rules { policy: self.policy, tools: self.tools };
        let out = Out { rules, now: *now, slices, directives: &mut self.directives };
        Parts { out, ending, tools, models, budgets, loops, batch }
    }

    fn begin_turn_of_tools(&mut self) {
        let Parts { mut out, tools, .. } = self.parts();
        tools.begin_turn(&mut out);
    }

    fn shown_tools(&mut self) -> Vec<String> {
        let Parts { mut out, tools, .. } = self.parts();
        tools.shown_tools(&mut out)
    }

    fn note(&mut self, note: Note, because: Vec<Because>) {
        self.parts().out.note(note, because);
    }

    fn warn(&mut self, message: impl Into<String>) {
        self.parts().out.warn(message);
    }

    fn count(&mut self, name: MetricName, subject: String, value: u64) {
        self.parts().out.count(name, subject, value);
    }

    fn say(&mut self, template: &Setting<Template>, vars: Value) -> String {
        self.parts().out.say(template, vars)
    }

    fn reduce(&mut self, trigger: Trigger, event: impl FnOnce() -> Value) -> Option<ReducerError> {
        self.parts().out.reduce(trigger, event)
    }

    fn feedback(&mut self, retry: &RetryPolicy, failed: &Failed<'_>) -> Option<ReducerError> {
        self.parts().out.feedback(retry, failed)
    }
}
