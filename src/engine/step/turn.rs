//! The loop of turns: what follows a turn, a report or an answer.

use super::super::directive::{Because, Note, Outcome, PrepareTurn, ProposalId, Settled, Settlement, Work};
use super::super::event::Drive;
use super::super::machine::{Pending, Then, out_of_turns};
use super::{Split, Step};
use crate::session::{FinalReason, StopReason};

impl Step<'_> {
    /// Begins the next turn, or ends the run if there is a report.
    pub(super) fn next_turn(&mut self) -> Then {
        let Split { run, report, .. } = self.split();
        if let Some(output) = report.take_accepted() {
            return Then::finished(Outcome::Reported { output });
        }
        if run.is_past_deadline() {
            return Then::run_failed(StopReason::Deadline, Vec::new());
        }
        let why = if run.ending.is_now() {
            Vec::new()
        } else {
            self.state.turn = self.state.turn.saturating_add(1);
            self.begin_turn()
        };
        let Split { mut run, .. } = self.split();
        let (turn, last) = (run.turn, run.ending.is_now());
        let max_turns = run.policy().turn().max_turns.value.get();
        let prepare = |work| Work::PrepareTurn(PrepareTurn { work, turn, max_turns, last });
        run.ask(Pending::Prepare, prepare, why);
        Then::Host
    }

    /// Another turn begins. Returns why it is the last, if it is.
    pub(super) fn begin_turn(&mut self) -> Vec<Because> {
        let Split { mut run, .. } = self.split();
        run.tools.begin_turn(&mut run.out);
        let mut why: Vec<Because> = out_of_turns(run.policy(), run.turn).into_iter().collect();
        let mut reason = FinalReason::MaxTurns;
        if why.is_empty() && !run.ending.is_near() {
            reason = FinalReason::Budget;
            why.extend(run.run_budget().out_of_budget());
        }
        if !why.is_empty() || run.ending.is_next() {
            run.begin_last_turn(reason, why.clone());
        }
        why
    }

    /// Waits until what was scheduled may start; then comes the next turn.
    pub(super) fn next_turn_when_due(&mut self) -> Then {
        let Split { mut run, report, .. } = self.split();
        match run.terms.delay.take(&run.out) {
            Some((delay, subject, why)) if !report.is_accepted() && run.ending.stop().is_none() => {
                run.wait(Pending::WaitTurn, delay, subject, why);
                Then::Host
            }
            _ => Then::Turn,
        }
    }

    /// Continues after a report or a text that did not come as a tool call.
    pub(super) fn after_report(&mut self) -> Then {
        match self.state.context.drive {
            Drive::Turns => Then::TurnWhenDue,
            Drive::Calls if self.state.report.is_accepted_of(self.current) => {
                Then::Settled(Settlement::Accepted)
            }
            Drive::Calls => Then::Settled(Settlement::Refused),
        }
    }

    /// The turn that is about to begin is the last if the new rules say so. One that was announced as the last
    /// stays it: the model has been told.
    pub(super) fn last_turn_by_new_rules(&mut self) {
        let Split { mut run, .. } = self.split();
        let prepared = run.work.any(|_, pending| matches!(pending, Pending::Prepare));
        if prepared
            && !run.ending.is_now()
            && let Some(why) = out_of_turns(run.policy(), run.turn)
        {
            run.begin_last_turn(FinalReason::MaxTurns, vec![why]);
        }
    }

    /// Ends the run. Calls without a result get one, so that the history stays valid.
    pub(super) fn finish(&mut self, outcome: Outcome, because: Vec<Because>) {
        self.close(ProposalId::NONE);
        let open: Vec<ProposalId> = self.state.proposals.keys().copied().collect();
        for proposal in open {
            self.close(proposal);
            let Split { mut run, .. } = self.split();
            run.out.about_all();
            let (result, guidance) = (Settlement::Closed, Vec::new());
            let settled = Settled { proposal, result, delay: None, guidance, final_turn: None };
            run.out.note(Note::Settled(settled), Vec::new());
        }
        self.current = ProposalId::NONE;
        self.state.proposals.clear();
        self.state.queue.clear();
        self.state.work.clear();
        self.state.outcome = Some(outcome.clone());
        self.split().run.out.note(Note::Finish { outcome }, because);
    }

    /// The run ends: the calls of a proposal get their results, and its attempts are over.
    fn close(&mut self, proposal: ProposalId) {
        self.current = proposal;
        let Split { mut run, model, batch, .. } = self.split();
        batch.close(&mut run);
        // What calls answer that are no longer settled depends on who was quicker.
        run.terms.appended = 0;
        run.charge_unanswered();
        model.series.end();
    }
}
