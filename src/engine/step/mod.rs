//! The interpreter: one event in, directives out.

mod changed;
mod ending;
mod malformed;
mod proposed;
mod reply;
mod report_attempt;
mod sharing;
mod turn;

use super::ask::Answer;
use super::catalogue::Catalogue;
use super::directive::{Decision, Directive, Directives, Of, ProposalId, Settlement, WorkId};
use super::event::{Drive, Envelope, Event, ModelReply, RunStarted, ToolOutcome, TurnMeasure};
use super::failure::Failure;
use super::machine::{Batch, ModelTurn, OpenProposal, Out, Pending, ReportSeries, Rules, RunParts, Then};
use super::result::RunFacts;
use super::state::{State, Tracked};
use crate::policy::Policy;
use crate::session::Message;

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
        let mut step = Step {
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

/// So many directives are given at once, mostly; they are large.
const USUAL: usize = 8;

/// One step under way.
struct Step<'a> {
    policy: &'a Policy,
    tools: &'a Catalogue,
    state: &'a mut State,
    directives: Vec<Directive>,
    /// The proposal that is decided about.
    current: ProposalId,
}

impl Step<'_> {
    fn take(&mut self, Envelope { seq, now, event }: Envelope) {
        if seq != self.state.seq.saturating_add(1) {
            let last = self.state.seq;
            return self
                .split()
                .run
                .out
                .warn(format!("event {seq} does not follow event {last}; it is not used"));
        }
        self.state.seq = seq;
        self.state.now = self.state.now.max(now);
        if self.state.is_over() {
            match event {
                // What this run has told the others, the next one need not tell again.
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
        self.admit_others();
    }

    fn decide(&mut self, event: Event) -> Then {
        match event {
            Event::RunStarted(started) => self.run_started(started),
            Event::ToolsProposed { calls, turn } => self.tools_proposed(calls, turn),
            Event::TurnProposed(proposal) => self.turn_proposed(&proposal),
            Event::OutputProposed { output } => self.output_proposed(output),
            _ if self.state.run.is_empty() => {
                self.split().run.out.warn("the run has not started; the event is not used");
                Then::Host
            }
            Event::TurnPrepared { work, measure } => match self.claim(work) {
                Some(Pending::Prepare) => self.turn_prepared(measure),
                other => self.unasked(work, other),
            },
            Event::HistoryRepaired { work, repair } => match self.claim(work) {
                Some(Pending::Repair(what)) => {
                    let Split { mut run, model, .. } = self.split();
                    let target = model.series.target(run.targets);
                    model.history.on_repaired(what, repair, target, &mut model.guidance, &mut run)
                }
                other => self.unasked(work, other),
            },
            Event::ContextReduced { work, reduction } => match self.claim(work) {
                Some(Pending::Reduce(what)) => {
                    let Split { mut run, model, .. } = self.split();
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
                Then::Host
            }
            Event::ToolsChanged { tools } => {
                self.take_effects(tools);
                Then::Host
            }
            Event::SharedChanged(known) => {
                self.shared_changed(known);
                Then::Host
            }
            Event::StopRequested { reason } => self.stop_requested(reason),
            Event::Cancelled { reason } => Then::stopped(reason),
        }
    }

    /// Asks one machine after the other, until the host has work to do or the run is over.
    fn route(&mut self, mut then: Then) {
        loop {
            let Split { mut run, model, report, batch } = self.split();
            then = match then {
                Then::Host => return,
                Then::Begin(measure) => model.window.begin(measure, &mut run),
                Then::Choose(measure) => model.choose(measure, &mut run),
                Then::Call => model.call(&mut run),
                Then::Failed(failure) => model.on_failure(&failure, &mut run),
                Then::Replied(reply) => Split { run, model, report, batch }.on_reply(*reply),
                Then::Turn | Then::TurnWhenDue if run.context.drive == Drive::Calls => {
                    self.settled(Settlement::NoReply)
                }
                Then::Turn => self.next_turn(),
                Then::TurnWhenDue => self.next_turn_when_due(),
                Then::Settled(settlement) => self.settled(settlement),
                Then::Settle => batch.settle(report, &mut model.guidance, &mut run),
                Then::AfterReport => self.after_report(),
                Then::End(end) => match self.end_of_run(*end) {
                    Some(then) => then,
                    None => return,
                },
            };
        }
    }

    fn tool_finished(&mut self, work: WorkId, outcome: ToolOutcome, ran: RunFacts) -> Then {
        let pending = self.claim(work);
        let Split { mut run, batch, .. } = self.split();
        match pending {
            Some(Pending::Tool(slot)) => {
                batch.on_finished(slot, outcome, ran, &run);
                Then::Settle
            }
            Some(Pending::Verify(slot)) => batch.on_verified(slot, outcome, &mut run).into(),
            other => self.unasked(work, other),
        }
    }

    fn timer_fired(&mut self, work: WorkId) -> Then {
        let pending = self.claim(work);
        let Split { mut run, batch, .. } = self.split();
        match pending {
            Some(Pending::WaitModel) => Then::Call,
            Some(Pending::WaitTool(slot)) => batch.run_tool(slot, Vec::new(), &mut run).into(),
            Some(Pending::WaitTurn) => Then::Turn,
            other => self.unasked(work, other),
        }
    }

    fn planner_decided(&mut self, work: WorkId, decision: Decision) -> Then {
        let pending = self.claim(work);
        let Split { mut run, model, report, batch } = self.split();
        match pending {
            Some(Pending::ConsultTool(slot)) => batch.on_decided(slot, decision, &mut run).into(),
            Some(Pending::ConsultModel) => model.on_decided(decision, &mut run),
            Some(Pending::ConsultOutput) => {
                if let Err(end) = report.on_decided(decision, &mut run) {
                    return end;
                }
                batch.on_report_decided();
                if batch.is_empty() { Then::AfterReport } else { Then::Settle }
            }
            other => self.unasked(work, other),
        }
    }

    fn answered(&mut self, work: WorkId, answer: Answer) -> Then {
        let pending = self.claim(work);
        let Split { mut run, batch, .. } = self.split();
        run.queue.free_person();
        match pending {
            Some(Pending::Approve(slot)) => batch.on_approved(slot, answer, &mut run).into(),
            Some(Pending::ApproveAgain(slot)) => batch.on_approved_again(slot, answer, &mut run).into(),
            other => self.unasked(work, other),
        }
    }

    fn turn_prepared(&mut self, measure: TurnMeasure) -> Then {
        let Split { mut run, model, .. } = self.split();
        run.terms.appended = 0;
        model.window.on_prepared();
        model.history.on_prepared(measure, &mut run)
    }

    fn reply_came(&mut self, work: WorkId, reply: ModelReply) -> Then {
        let pending = self.claim(work);
        let Split { mut run, model, .. } = self.split();
        match pending {
            Some(Pending::Model) => {
                run.charge_reply(&reply);
                Then::Replied(Box::new(reply))
            }
            Some(Pending::Summary(what)) => {
                run.charge_reply(&reply);
                let then = model.window.on_summary(what, &reply, &mut run);
                if let Some(usage) = reply.usage {
                    *run.usage = run.usage.plus(usage);
                }
                then
            }
            other => self.unasked(work, other),
        }
    }

    fn failure_came(&mut self, work: WorkId, failure: Failure) -> Then {
        let pending = self.claim(work);
        let Split { mut run, model, .. } = self.split();
        match pending {
            Some(Pending::Model) => {
                run.charge_failure(&failure);
                Then::Failed(Box::new(failure))
            }
            Some(Pending::Summary(what)) => {
                run.charge_failure(&failure);
                model.window.on_no_summary(what, &failure, &mut run)
            }
            other => self.unasked(work, other),
        }
    }

    fn run_started(&mut self, started: RunStarted) -> Then {
        if !self.state.run.is_empty() {
            self.split().run.out.warn("the run has already started; the event is not used");
            return Then::Host;
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
        let Split { mut run, .. } = self.split();
        run.models.take_windows(windows, &mut run.out);
        run.models.take_overheads(overheads, !tools.is_empty(), run.targets);
        self.take_effects(tools);
        // Those of runs of the session before this one go on.
        self.state.slices.complete(self.policy.session());
        let Split { mut run, .. } = self.split();
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
            Drive::Turns => Then::Turn,
            Drive::Calls => Then::Host,
        }
    }

    /// Closes a piece of work: what follows is about its proposal.
    fn claim(&mut self, work: WorkId) -> Option<Pending> {
        let (proposal, pending) = self.state.work.claim(work)?;
        self.current = proposal;
        Some(pending)
    }

    /// An answer that does not fit: the work stays as it was.
    fn unasked(&mut self, work: WorkId, claimed: Option<Pending>) -> Then {
        if let Some(pending) = claimed {
            self.state.work.put_back(work, (self.current, pending));
            self.current = ProposalId::NONE;
        }
        self.split().run.out.warn(format!("nobody asked for this answer (work {}); it is not used", work.0));
        Then::Host
    }
}

/// The state of a run, split: the machines of one turn, and what all of them share.
struct Split<'s> {
    run: RunParts<'s>,
    model: &'s mut ModelTurn,
    report: &'s mut Tracked<ReportSeries>,
    batch: &'s mut Batch,
}

impl Step<'_> {
    fn split(&mut self) -> Split<'_> {
        let state = &mut *self.state;
        let open: &mut OpenProposal = match state.proposals.get_mut(&self.current) {
            Some(open) => open,
            None => &mut state.own,
        };
        let OpenProposal { targets, terms, model, batch } = open;
        let is_proposed = self.current != ProposalId::NONE;
        let rules = Rules { policy: self.policy, tools: self.tools };
        let out = Out {
            rules,
            now: state.now,
            slices: &mut state.slices,
            directives: &mut self.directives,
            of: is_proposed.then_some(Of { proposal: self.current, call: None }),
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
        Split { run, model, report: &mut state.report, batch }
    }
}
