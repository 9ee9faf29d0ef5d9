//! The loop of turns: what follows a turn, a report or an answer.

use super::super::directive::{
    DecisionReason, Note, Outcome, PrepareTurn, ProposalResult, SettledProposal, Work,
};
use super::super::event::DriveMode;
use super::super::machine::{NextMachine, WorkPurpose, out_of_turns};
use super::{RunStep, SplitState};
use crate::engine::ids::ProposalId;
use crate::session::{FinalReason, StopReason};

impl RunStep<'_> {
    /// Begins the next turn, or ends the run if there is a report.
    pub(super) fn next_turn(&mut self) -> NextMachine {
        let SplitState { run, report, .. } = self.split();
        if let Some(output) = report.take_accepted() {
            return NextMachine::finished(Outcome::Reported { output });
        }
        // Checked before a turn is prepared: the preparation costs a measurement, and the turn could not be called.
        if run.is_past_deadline() {
            return NextMachine::run_failed(StopReason::Deadline, Vec::new());
        }
        // A repeated final turn is the same turn: it has been announced and counted.
        let why = if run.ending.is_now() {
            Vec::new()
        } else {
            self.state.turn = self.state.turn.saturating_add(1);
            self.begin_turn()
        };
        let SplitState { mut run, .. } = self.split();
        let (turn, last) = (run.turn, run.ending.is_now());
        let max_turns = run.policy().turn().max_turns.value.get();
        let prepare = |work| Work::PrepareTurn(PrepareTurn { work, turn, max_turns, last });
        run.ask(WorkPurpose::Prepare, prepare, why);
        NextMachine::Host
    }

    /// Begins another turn. Returns why it is the final one, if it is.
    pub(super) fn begin_turn(&mut self) -> Vec<DecisionReason> {
        let SplitState { mut run, .. } = self.split();
        run.tools.begin_turn(&mut run.out);
        let mut why: Vec<DecisionReason> = out_of_turns(run.policy(), run.turn).into_iter().collect();
        let mut reason = FinalReason::MaxTurns;
        // An announced final turn already has its reason; the budget adds none.
        if why.is_empty() && !run.ending.is_near() {
            reason = FinalReason::Budget;
            why.extend(run.run_budget().out_of_budget());
        }
        if !why.is_empty() || run.ending.is_next() {
            run.begin_final_turn(reason, why.clone());
        }
        why
    }

    /// Waits for the scheduled delay; then the next turn follows.
    pub(super) fn next_turn_when_due(&mut self) -> NextMachine {
        let SplitState { mut run, report, .. } = self.split();
        match run.terms.delay.take(&run.out) {
            // With an accepted report, or after a request to stop, there is nothing to wait for.
            Some((delay, subject, why)) if !report.is_accepted() && run.ending.stop().is_none() => {
                run.wait(WorkPurpose::WaitTurn, delay, subject, why);
                NextMachine::Host
            }
            _ => NextMachine::Turn,
        }
    }

    /// Continues after a report or a text that did not come as a tool call.
    pub(super) fn after_report(&mut self) -> NextMachine {
        match self.state.context.drive {
            DriveMode::Turns => NextMachine::TurnWhenDue,
            // Of this proposal: another one may have delivered the report meanwhile.
            DriveMode::Calls if self.state.report.is_accepted_of(self.current) => {
                NextMachine::Settled(ProposalResult::Accepted)
            }
            DriveMode::Calls => NextMachine::Settled(ProposalResult::Refused),
        }
    }

    /// Makes the turn about to begin the final one if the new rules say so. An announced final turn stays final: the
    /// model has been informed.
    pub(super) fn final_turn_by_new_rules(&mut self) {
        let SplitState { mut run, .. } = self.split();
        let prepared = run.work.any(|_, pending| matches!(pending, WorkPurpose::Prepare));
        // Only before the call: a turn in flight was sent with other tools, and cannot become the final one.
        if prepared
            && !run.ending.is_now()
            && let Some(why) = out_of_turns(run.policy(), run.turn)
        {
            run.begin_final_turn(FinalReason::MaxTurns, vec![why]);
        }
    }

    /// Ends the run. Calls without a result get one, so that the history stays valid.
    pub(super) fn finish(&mut self, outcome: Outcome, because: Vec<DecisionReason>) {
        // Own calls come first, then those of proposals in the order of their ids, so that logs do not depend on
        // timing.
        self.close(ProposalId::NONE);
        let open: Vec<ProposalId> = self.state.proposals.keys().copied().collect();
        for proposal in open {
            self.close(proposal);
            let SplitState { mut run, .. } = self.split();
            run.out.about_all();
            let (result, guidance) = (ProposalResult::Closed, Vec::new());
            let settled = SettledProposal { proposal, result, delay: None, guidance, final_turn: None };
            // The host waits for each proposal; each must be answered.
            run.out.note(Note::Settled(settled), Vec::new());
        }
        self.current = ProposalId::NONE;
        self.state.proposals.clear();
        self.state.queue.clear();
        self.state.pace.clear();
        self.state.work.clear();
        self.state.outcome = Some(outcome.clone());
        self.split().run.out.note(Note::Finish { outcome }, because);
    }

    /// Ends a proposal with the run: its calls get their results, and its attempts end.
    fn close(&mut self, proposal: ProposalId) {
        self.current = proposal;
        let SplitState { mut run, model, batch, .. } = self.split();
        batch.close(&mut run);
        // Which calls had ended at the end of the run depends on timing, so their results must not change the
        // measured size.
        run.terms.appended = 0;
        // A call in flight is charged for its request, as its usage will not be reported.
        run.charge_unanswered();
        model.series.end();
    }
}
