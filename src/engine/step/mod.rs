//! The interpreter: one event in, directives out.

mod beside;
mod changed;
mod ending;
mod malformed;
mod paced;
mod plain;
mod proposed;
mod reply;
mod report_attempt;
mod sharing;
mod turn;

use super::ask::ApprovalAnswer;
use super::catalogue::{ToolCatalogue, ToolSpec};
use super::directive::{Directive, Directives, ProposalRef, ProposalResult};
use super::event::{DriveMode, Envelope, Event, ModelReply, RunStarted, ToolOutcome};
use super::failure::Failure;
use super::machine::{
    Batch, ModelTurn, NextMachine, OpenProposal, ReportSeries, RunParts, StepOutput, StepRules, WorkPurpose,
};
use super::state::State;
use crate::engine::ask::PlannerDecision;
use crate::engine::event::RunFacts;
use crate::engine::ids::{ProposalId, WorkId};
use crate::engine::measure::TurnMeasure;
use crate::engine::memo::Memo;
use crate::engine::tracked::TrackedPart;
use crate::policy::{ClassifiedFailure, Policy};
use crate::session::Message;

/// A policy and a set of tools, ready to decide.
///
/// Cheap to clone; holds no state. The same interpreter serves any number of runs.
#[derive(Clone, Debug)]
pub struct Interpreter {
    policy: Policy,
    tools: ToolCatalogue,
}

impl Interpreter {
    /// An interpreter of `policy` over `tools`.
    pub const fn new(policy: Policy, tools: ToolCatalogue) -> Self {
        Self { policy, tools }
    }

    /// The policy.
    pub const fn policy(&self) -> &Policy {
        &self.policy
    }

    /// The tools.
    pub const fn tools(&self) -> &ToolCatalogue {
        &self.tools
    }

    /// The tools as they are declared to a model, and after them the one that the final report is delivered by.
    pub fn offered(&self) -> Vec<ToolSpec> {
        let report = self.policy.output().map(|output| ToolSpec {
            name: output.tool.value.clone(),
            description: output.description.value.clone(),
            parameters: output.schema.value.json().clone(),
            effect: None,
        });
        self.tools.iter().cloned().chain(report).collect()
    }

    /// Takes one event and returns the directives that follow.
    ///
    /// A pure function of its arguments: no clock, no I/O, no random stream. An invalid event (a gap in the numbers,
    /// an answer to work that is not open) changes nothing and is reported as a warning.
    pub fn step(&self, state: &mut State, envelope: Envelope) -> Directives {
        let mut step = RunStep {
            policy: &self.policy,
            tools: &self.tools,
            state,
            directives: Vec::with_capacity(USUAL),
            current: ProposalId::NONE,
        };
        step.take(envelope);
        Directives(step.directives)
    }
}

/// The usual number of directives per step, for the initial capacity.
const USUAL: usize = 8;

/// One step in flight.
struct RunStep<'a> {
    policy: &'a Policy,
    tools: &'a ToolCatalogue,
    state: &'a mut State,
    directives: Vec<Directive>,
    /// The current proposal.
    current: ProposalId,
}

impl RunStep<'_> {
    fn take(&mut self, Envelope { seq, now, event }: Envelope) {
        // A gap means that the host lost an event: a further decision would lead to a state that its log cannot
        // rebuild.
        if seq != self.state.seq.saturating_add(1) {
            let last = self.state.seq;
            return self
                .split()
                .run
                .out
                .warn(format!("event {seq} does not follow event {last}; it is not used"));
        }
        self.state.seq = seq;
        self.state.failed = Memo::default();
        // Hosts resume on other machines, and clocks step back; an earlier time would lengthen waits and reopen
        // windows.
        self.state.now = self.state.now.max(now);
        // After the end nothing is decided, but proposals are answered, or a host would wait for ever.
        if self.state.is_over() {
            match event {
                // Shared state is kept even after the end, or the session's next run would report it again.
                Event::SharedChanged(known) => self.shared_changed(known),
                Event::ToolsProposed { .. } | Event::TurnProposed(_) | Event::OutputProposed { .. } => {
                    self.refuse_after_end();
                }
                _ => {}
            }
            return;
        }
        let then = self.decide(event);
        self.route(then);
        // Free permits and approval questions are handed on once, after all machines have finished.
        self.admit_others();
        self.start_paced();
    }

    fn decide(&mut self, event: Event) -> NextMachine {
        match event {
            Event::RunStarted(started) => self.run_started(started),
            Event::ToolsProposed { calls, turn } => self.tools_proposed(calls, turn),
            Event::TurnProposed(proposal) => self.turn_proposed(&proposal),
            Event::OutputProposed { output } => self.output_proposed(output),
            // Before the start there are no models, tools or time.
            _ if self.state.run.is_empty() => {
                self.split().run.out.warn("the run has not started; the event is not used");
                NextMachine::Host
            }
            Event::TurnPrepared { work, measure } => match self.claim(work) {
                Some(WorkPurpose::Prepare) => self.turn_prepared(measure),
                other => self.unasked(work, other),
            },
            Event::HistoryRepaired { work, repair } => match self.claim(work) {
                Some(WorkPurpose::Repair(what)) => {
                    let SplitState { mut run, model, .. } = self.split();
                    let target = model.series.target(run.targets);
                    model.history.on_repaired(what, repair, target, &mut model.guidance, &mut run)
                }
                other => self.unasked(work, other),
            },
            Event::ContextReduced { work, reduction } => match self.claim(work) {
                Some(WorkPurpose::Reduce(what)) => {
                    let SplitState { mut run, model, .. } = self.split();
                    model.window.on_reduced(what, reduction, &model.guidance, &mut run)
                }
                other => self.unasked(work, other),
            },
            Event::ModelResponded { work, reply } => self.reply_came(work, reply),
            Event::ModelFailed { work, failure } => self.failure_came(work, failure),
            Event::ToolFinished { work, outcome, run } => self.tool_finished(work, outcome, run),
            Event::TimerFired { work } => self.timer_fired(work),
            Event::PlannerDecided { work, decision } => self.planner_decided(work, decision),
            Event::Answered { work, answer } => self.answered(work, answer),
            Event::ProposalWithdrawn { proposal, call } => self.withdrawn(proposal, call),
            Event::PolicyChanged { policy: _ } => {
                self.policy_changed();
                NextMachine::Host
            }
            Event::ToolsChanged { tools } => {
                self.take_effects(tools);
                NextMachine::Host
            }
            Event::SharedChanged(known) => {
                self.shared_changed(known);
                NextMachine::Host
            }
            Event::StopRequested { reason } => self.stop_requested(reason),
            Event::Cancelled { reason } => NextMachine::stopped(reason),
        }
    }

    /// Runs one machine after the other, until the host has work to do or the run is over.
    fn route(&mut self, mut then: NextMachine) {
        // A loop instead of calls: a series of repairs and attempts may be long, and the stack must not grow with it.
        loop {
            let SplitState { mut run, model, report, batch } = self.split();
            then = match then {
                NextMachine::Host => return,
                NextMachine::Begin(measure) => model.window.begin(measure, &mut run),
                NextMachine::Choose(measure) => model.choose(measure, &mut run),
                NextMachine::Call => model.call(&mut run),
                NextMachine::Failed(failure, classified) => model.on_failure(&failure, classified, &mut run),
                NextMachine::Replied(reply) => SplitState { run, model, report, batch }.on_reply(*reply),
                // A host with its own loop begins turns itself; where the interpreter would begin one, the proposal
                // has ended.
                NextMachine::Turn | NextMachine::TurnWhenDue if run.context.drive == DriveMode::Calls => {
                    self.settled(ProposalResult::NoReply)
                }
                NextMachine::Turn => self.next_turn(),
                NextMachine::TurnWhenDue => self.next_turn_when_due(),
                NextMachine::Settled(settlement) => self.settled(settlement),
                NextMachine::Settle => batch.settle(report, &mut model.guidance, &mut run),
                NextMachine::AfterReport => self.after_report(),
                NextMachine::End(end) => match self.end_of_run(*end) {
                    Some(then) => then,
                    None => return,
                },
            };
        }
    }

    fn tool_finished(&mut self, work: WorkId, outcome: ToolOutcome, ran: RunFacts) -> NextMachine {
        let classified = match &outcome {
            ToolOutcome::Failed { failure, .. } => Some(self.classified(failure)),
            ToolOutcome::Ok { .. } | ToolOutcome::Done => None,
        };
        let pending = self.claim(work);
        let SplitState { mut run, batch, .. } = self.split();
        match pending {
            Some(WorkPurpose::Tool(slot)) => {
                batch.on_finished(slot, (outcome, classified), ran, &run);
                NextMachine::Settle
            }
            Some(WorkPurpose::Verify(slot)) => batch.on_verified(slot, outcome, &mut run).into(),
            other => self.unasked(work, other),
        }
    }

    fn timer_fired(&mut self, work: WorkId) -> NextMachine {
        let pending = self.claim(work);
        let SplitState { mut run, batch, .. } = self.split();
        match pending {
            Some(WorkPurpose::WaitModel) => NextMachine::Call,
            Some(WorkPurpose::WaitTool(slot)) => batch.run_tool(slot, Vec::new(), &mut run).into(),
            Some(WorkPurpose::WaitTurn) => NextMachine::Turn,
            other => self.unasked(work, other),
        }
    }

    fn planner_decided(&mut self, work: WorkId, decision: PlannerDecision) -> NextMachine {
        let pending = self.claim(work);
        let SplitState { mut run, model, report, batch } = self.split();
        match pending {
            Some(WorkPurpose::ConsultTool(slot)) => batch.on_decided(slot, decision, &mut run).into(),
            Some(WorkPurpose::ConsultModel) => model.on_decided(decision, &mut run),
            Some(WorkPurpose::ConsultOutput) => {
                if let Err(end) = report.on_decided(decision, &mut run) {
                    return end;
                }
                batch.on_report_decided();
                if batch.is_empty() { NextMachine::AfterReport } else { NextMachine::Settle }
            }
            other => self.unasked(work, other),
        }
    }

    fn answered(&mut self, work: WorkId, answer: ApprovalAnswer) -> NextMachine {
        let pending = self.claim(work);
        let SplitState { mut run, batch, .. } = self.split();
        // Freed even if the answer does not fit: otherwise the next question could wait for ever.
        run.queue.free_person();
        match pending {
            Some(WorkPurpose::Approve(slot)) => batch.on_approved(slot, answer, &mut run).into(),
            Some(WorkPurpose::ApproveAgain(slot)) => batch.on_approved_again(slot, answer, &mut run).into(),
            other => self.unasked(work, other),
        }
    }

    fn turn_prepared(&mut self, measure: TurnMeasure) -> NextMachine {
        let SplitState { mut run, model, .. } = self.split();
        // The measurement includes the messages added since the last one.
        run.terms.appended = 0;
        model.window.on_prepared();
        model.history.on_prepared(measure, &mut run)
    }

    fn reply_came(&mut self, work: WorkId, reply: ModelReply) -> NextMachine {
        let pending = self.claim(work);
        let SplitState { mut run, model, .. } = self.split();
        match pending {
            Some(WorkPurpose::Model) => {
                run.charge_reply(&reply);
                NextMachine::Replied(Box::new(reply))
            }
            Some(WorkPurpose::Summary(what)) => {
                run.charge_reply(&reply);
                let then = model.window.on_summary(what, &reply, &mut run);
                // The usage of a summary belongs to the run; otherwise a budget could be exceeded.
                if let Some(usage) = reply.usage {
                    *run.usage = run.usage.plus(usage);
                }
                then
            }
            other => self.unasked(work, other),
        }
    }

    fn failure_came(&mut self, work: WorkId, failure: Failure) -> NextMachine {
        let classified = self.classified(&failure);
        let pending = self.claim(work);
        let SplitState { mut run, model, .. } = self.split();
        match pending {
            Some(WorkPurpose::Model) => {
                run.charge_failure(&failure, classified.class);
                NextMachine::Failed(Box::new(failure), classified)
            }
            Some(WorkPurpose::Summary(what)) => {
                run.charge_failure(&failure, classified.class);
                model.window.on_no_summary(what, (&failure, classified.class), &mut run)
            }
            other => self.unasked(work, other),
        }
    }

    /// The class of the failure in an event, the only place where the policy's table is applied.
    fn classified(&mut self, failure: &Failure) -> ClassifiedFailure {
        let classified = failure.classified(self.policy);
        self.state.failed = Memo(Some(classified.class));
        classified
    }

    fn run_started(&mut self, started: RunStarted) -> NextMachine {
        // A second start would mix two runs in one state, so it is refused.
        if !self.state.run.is_empty() {
            self.split().run.out.warn("the run has already started; the event is not used");
            return NextMachine::Host;
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
        // The time budget counts from here, not from the first turn.
        self.state.spending.started = self.state.now;
        self.state.spending.prices = prices;
        let SplitState { mut run, .. } = self.split();
        run.models.take_windows(windows, &mut run.out);
        run.models.take_overheads(overheads, !tools.is_empty(), run.targets);
        self.take_effects(tools);
        // Slices of earlier runs of the session continue; only new ones get their initial value.
        self.state.slices.complete(self.policy.session());
        let SplitState { mut run, .. } = self.split();
        if !system.is_empty() {
            run.append(Message::System { text: system });
        }
        for message in history {
            run.append(message);
        }
        if !task.is_empty() {
            run.append(Message::user(task));
        }
        match drive {
            DriveMode::Turns => NextMachine::Turn,
            DriveMode::Calls => NextMachine::Host,
        }
    }

    /// Closes a piece of work, and makes its proposal the current one.
    fn claim(&mut self, work: WorkId) -> Option<WorkPurpose> {
        let (proposal, pending) = self.state.work.claim(work)?;
        // A call that waited for its turn asks for it again.
        if pending.is_wait() {
            self.state.pace.forget(work);
        }
        self.current = proposal;
        Some(pending)
    }

    /// Handles an answer that does not fit: the work stays open.
    fn unasked(&mut self, work: WorkId, claimed: Option<WorkPurpose>) -> NextMachine {
        // The work is still in flight, as if the answer had not come.
        if let Some(pending) = claimed {
            self.state.work.put_back(work, (self.current, pending));
            self.current = ProposalId::NONE;
        }
        self.split().run.out.warn(format!("nobody asked for this answer (work {}); it is not used", work.0));
        NextMachine::Host
    }
}

/// The state of a run, split into the machines of one turn and the shared parts.
struct SplitState<'s> {
    run: RunParts<'s>,
    model: &'s mut ModelTurn,
    report: &'s mut TrackedPart<ReportSeries>,
    batch: &'s mut Batch,
}

impl RunStep<'_> {
    fn split(&mut self) -> SplitState<'_> {
        let state = &mut *self.state;
        let open: &mut OpenProposal = match state.proposals.get_mut(&self.current) {
            Some(open) => open,
            None => &mut state.own,
        };
        let OpenProposal { targets, terms, model, batch } = open;
        let is_proposed = self.current != ProposalId::NONE;
        let rules = StepRules { policy: self.policy, tools: self.tools };
        let out = StepOutput {
            rules,
            now: state.now,
            slices: &mut state.slices,
            directives: &mut self.directives,
            of: is_proposed.then_some(ProposalRef { proposal: self.current, call: None }),
        };
        let run = RunParts {
            out,
            context: &state.context,
            id: &state.run,
            event: state.seq,
            proposal: self.current,
            turn: if is_proposed { terms.turn } else { state.turn },
            terms,
            targets: if targets.is_empty() { &state.context.targets } else { targets },
            work: &mut state.work,
            queue: &mut state.queue,
            pace: &mut state.pace,
            batches: &mut state.batches,
            turns: &mut state.turns,
            ending: &mut state.ending,
            tools: &mut state.tools,
            models: &mut state.models,
            budgets: &mut state.budgets,
            spending: &mut state.spending,
            loops: &mut state.loops,
            last: &mut state.last,
            usage: &mut state.usage,
        };
        SplitState { run, model, report: &mut state.report, batch }
    }
}
