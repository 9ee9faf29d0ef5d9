//! Proposals of a host with its own loop: tool calls, turns and reports, in any combination.
//!
//! Each proposal is refused by one note, or accepted and settled by one note; until then its directives name it.
//! Within a batch the order is the model's; between proposals it is that of the events. A proposal waits for another
//! one only for a permit, a probe, or a person.

use super::super::directive::{Note, Outcome, ProposalFault, ProposalResult, SettledProposal};
use super::super::event::{DriveMode, ProposedCall, TurnProposal};
use super::super::machine::{NextMachine, OpenProposal, ProposalKind, repair_call};
use super::{Interpreter, RunStep, SplitState};
use crate::engine::ids::ProposalId;
use crate::engine::tracked::TrackedPart;
use crate::session::FinalReason;

/// The maximum number of calls in one proposal, and of waiting calls in total.
const MOST_CALLS: usize = 10_000;

impl Interpreter {
    /// The maximum number of open proposals. A host with more has a fault.
    pub const MOST_OPEN: usize = 1024;
}

impl RunStep<'_> {
    pub(super) fn tools_proposed(
        &mut self,
        mut calls: Vec<ProposedCall>,
        turn: Option<ProposalId>,
    ) -> NextMachine {
        // Waiting calls count, too: many small proposals would fill the queue like a large one.
        let waiting = self.state.queue.waiting().saturating_add(calls.len());
        let number = turn.map(|_| self.state.turns.turn_of(turn).map(|turn| turn.number));
        // Each fault has its own reason, so that a host can distinguish its own mistake from a limit.
        let fault = self.fault().or(match (calls.len(), number) {
            (0, _) => Some((ProposalFault::NoCalls, "there is no call in it".into())),
            (_, Some(None)) => {
                Some((ProposalFault::UnknownTurn, "there is no such turn whose reply was taken".into()))
            }
            _ if waiting > MOST_CALLS => {
                let message = format!("{waiting} calls would wait; {MOST_CALLS} may");
                Some((ProposalFault::TooManyCalls, message))
            }
            _ => None,
        });
        if let Some(fault) = fault {
            return self.refuse(fault);
        }
        // A host that proposes no turns begins one with each reply. Its only sign are calls while no proposal is
        // open. Calls that the host has started itself hold permits.
        let begins_turn =
            self.state.turn == 0 && self.state.proposals.is_empty() && self.state.queue.is_idle();
        let mut open = OpenProposal::of(ProposalKind::Tools, number.flatten().unwrap_or(self.state.turn));
        open.terms.of_turn = turn;
        self.open(open);
        let SplitState { mut run, batch, .. } = self.split();
        for proposal in &mut calls {
            // Repaired before they are examined, like the calls of a reply.
            repair_call(&mut proposal.call, &mut run.out);
        }
        if begins_turn {
            run.tools.begin_turn(&mut run.out);
        }
        // Announced with the first calls after the budget ended, since such a host begins no turns.
        if !run.ending.is_near()
            && let Some(why) = run.run_budget().out_of_budget()
        {
            run.force_final_turn(FinalReason::Budget, vec![why]);
        }
        batch.begin(calls, &mut run).into()
    }

    pub(super) fn turn_proposed(&mut self, proposal: &TurnProposal) -> NextMachine {
        let known = &self.state.context.targets;
        // A misspelt target would otherwise fall back to the models of the run without notice.
        let unknown = proposal.targets.iter().find(|target| !known.contains(target));
        let unknown = unknown.map(|target| {
            (
                ProposalFault::UnknownTarget,
                format!("the run has no model `{target}`; it has {}", known.join(", ")),
            )
        });
        if let Some(fault) = self.fault().or(unknown) {
            return self.refuse(fault);
        }
        let again = self.state.ending.is_now();
        // The final turn may be proposed again after a refused report; it stays the same turn, or the turn limit
        // would be exceeded.
        if !again {
            self.state.turn = self.state.turn.saturating_add(1);
        }
        self.open(OpenProposal::of_turn(proposal, self.state.turn));
        if again && self.state.ending.is_answered() {
            if let Err(then) = self.final_turn_again() {
                return then;
            }
        } else if !again {
            self.begin_turn();
        }
        let SplitState { mut run, model, .. } = self.split();
        if let Some(told) = run.turns.count_rounds(run.ending.is_near(), &mut run.out) {
            model.guidance.guide(told.class, told.text, &mut run.out);
        }
        // Zero if the host measures nothing: without a measurement nothing is reduced.
        self.turn_prepared(proposal.measure.unwrap_or_default())
    }

    /// Handles a final turn without a report: it counts as an attempt, and another one may follow.
    fn final_turn_again(&mut self) -> Result<(), NextMachine> {
        let SplitState { mut run, report, .. } = self.split();
        // If no report is required, a second final turn is refused.
        if run.policy().output().is_none() {
            self.state.proposals.remove(&self.current);
            let message = "the final turn was taken, and no report is due".to_owned();
            return Err(self.refuse((ProposalFault::FinalTurnOver, message)));
        }
        match report.on_other_calls(&mut run) {
            NextMachine::AfterReport => Ok(()),
            // A planner decides, or the run ends; in both cases this proposal ends.
            then => Err(then),
        }
    }

    pub(super) fn output_proposed(&mut self, output: String) -> NextMachine {
        if let Some(fault) = self.fault() {
            return self.refuse(fault);
        }
        self.open(OpenProposal::of(ProposalKind::Report, self.state.turn));
        let SplitState { mut run, model, report, .. } = self.split();
        report.on_text(output, &mut model.guidance, &mut run)
    }

    /// Handles the withdrawal of a proposal, or of one of its calls.
    pub(super) fn withdrawn(&mut self, proposal: ProposalId, call: Option<u32>) -> NextMachine {
        let call = call.map(|call| usize::try_from(call).unwrap_or(usize::MAX));
        let found = match (call, self.state.proposals.get_mut(&proposal)) {
            (Some(call), Some(open)) => open.batch.is_open(call),
            (None, Some(open)) => {
                // Marked first: whatever its calls answer now, the proposal ends as withdrawn.
                open.terms.withdrawn = true;
                true
            }
            (_, None) => false,
        };
        if !found {
            let what = if call.is_some() { "call" } else { "proposal" };
            self.split()
                .run
                .out
                .warn(format!("proposal {proposal}: no such {what} is open; nothing is withdrawn"));
            return NextMachine::Host;
        }
        self.current = proposal;
        let SplitState { mut run, batch, .. } = self.split();
        match run.terms.kind() {
            ProposalKind::Tools => batch.withdraw(call, &mut run).into(),
            ProposalKind::Own | ProposalKind::Turn { .. } | ProposalKind::Report => {
                // The call in flight will not be answered, so its possible cost is charged now.
                run.charge_unanswered();
                NextMachine::Settled(ProposalResult::Withdrawn)
            }
        }
    }

    /// Settles the current proposal.
    pub(super) fn settled(&mut self, result: ProposalResult) -> NextMachine {
        let proposal = self.current;
        let SplitState { mut run, model, report, .. } = self.split();
        run.out.about_all();
        // Timers and questions of a settled proposal would have no receiver.
        let open: Vec<_> = run.work.open(proposal).collect();
        for (work, _) in open {
            run.drop_work(work);
        }
        if let ProposalKind::Turn { .. } = run.terms.kind() {
            run.ending.turn_ended();
        }
        // The host has its own loop, so it gets the length of the delay instead of a timer.
        let (delay, why) = match run.terms.delay.take(&run.out) {
            Some((delay, _, why)) => (Some(delay), why),
            None => (None, Vec::new()),
        };
        let guidance = model.guidance.worst(run.policy().turn().guidance.max.value.get());
        let final_turn = run.ending.is_near().then(|| run.ending.reason()).flatten();
        run.out.note(Note::Settled(SettledProposal { proposal, result, delay, guidance, final_turn }), why);
        report.forget(proposal);
        // Accepted, but other proposals are still open: the run ends with the last of them.
        if let Some(output) = report.take_accepted() {
            self.state.closing = Some(Outcome::Reported { output });
        }
        self.state.proposals.remove(&proposal);
        self.current = ProposalId::NONE;
        if self.state.proposals.is_empty()
            && let Some(outcome) = self.state.closing.take()
        {
            self.finish(outcome, Vec::new());
        }
        NextMachine::Host
    }

    /// Gives free permits and questions to waiting calls of other proposals.
    pub(super) fn admit_others(&mut self) {
        let mut but = Some(self.current);
        // Repeated while something becomes free: a permit that is handed on may be refused and free again.
        while self.state.queue.take_freed() {
            let due = self.state.queue.due();
            for proposal in due.into_iter().filter(|due| but != Some(*due)) {
                // A call that starts may end the run (a planner, a failure).
                if self.state.is_over() {
                    return;
                }
                self.current = proposal;
                let SplitState { mut run, batch, .. } = self.split();
                let then = batch.start_waiting(&mut run).into();
                self.route(then);
            }
            // The proposal of the event was processed by its own machine; it takes part in later rounds.
            but = None;
        }
    }

    /// Why no proposal is accepted now.
    fn fault(&self) -> Option<(ProposalFault, String)> {
        let state = &*self.state;
        let (fault, message) = if state.run.is_empty() {
            (ProposalFault::NotStarted, "the run has not started")
        } else if state.is_over() {
            (ProposalFault::RunOver, "the run is over")
        } else if state.context.drive == DriveMode::Turns {
            (
                ProposalFault::InterpreterDrives,
                "the interpreter runs the loop of turns; start the run with `drive: calls`",
            )
        } else if state.closing.is_some() || state.report.is_accepted() {
            (
                ProposalFault::ReportAccepted,
                "a report was accepted: the run ends when everything open is settled",
            )
        } else if state.proposals.len() >= Interpreter::MOST_OPEN {
            let message = format!("{} proposals are open", Interpreter::MOST_OPEN);
            return Some((ProposalFault::TooManyOpen, message));
        } else {
            return None;
        };
        Some((fault, message.to_owned()))
    }

    /// Refuses the proposal of this event.
    pub(super) fn refuse(&mut self, (reason, message): (ProposalFault, String)) -> NextMachine {
        let proposal = ProposalId(self.state.seq);
        self.current = ProposalId::NONE;
        self.split().run.out.note(Note::ProposalRefused { proposal, reason, message }, Vec::new());
        NextMachine::Host
    }

    /// Refuses a proposal after the end of the run.
    pub(super) fn refuse_after_end(&mut self) {
        if let Some(fault) = self.fault() {
            let _ = self.refuse(fault);
        }
    }

    pub(super) fn open(&mut self, open: OpenProposal) {
        self.current = ProposalId(self.state.seq);
        self.state.proposals.insert(self.current, TrackedPart::new(open));
    }
}
