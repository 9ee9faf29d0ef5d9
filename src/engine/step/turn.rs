//! The loop of turns: what follows a turn, a report or an answer.

use super::super::directive::{Note, Outcome, PrepareTurn, Work};
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
        let mut why = Vec::new();
        if !run.ending.is_now() {
            self.state.turn = self.state.turn.saturating_add(1);
            let Split { mut run, .. } = self.split();
            run.tools.begin_turn(&mut run.out);
            why.extend(out_of_turns(run.policy(), run.turn));
            let mut reason = FinalReason::MaxTurns;
            if why.is_empty() && !run.ending.is_near() {
                reason = FinalReason::Budget;
                why.extend(run.run_budget().out_of_budget());
            }
            if !why.is_empty() || run.ending.is_next() {
                run.begin_last_turn(reason, why.clone());
            }
        }
        let Split { mut run, .. } = self.split();
        let (turn, last) = (run.turn, run.ending.is_now());
        let max_turns = run.policy().turn().max_turns.value.get();
        let prepare = |work| Work::PrepareTurn(PrepareTurn { work, turn, max_turns, last });
        run.ask(Pending::Prepare, prepare, why);
        Then::Host
    }

    /// Waits until what was scheduled may start; then comes the next turn.
    pub(super) fn next_turn_when_due(&mut self) -> Then {
        let Split { mut run, report, .. } = self.split();
        match run.turns.take_hold(&run.out) {
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
            Drive::Calls => match self.state.report.take_accepted() {
                Some(output) => Then::finished(Outcome::Reported { output }),
                None => Then::Host,
            },
        }
    }

    /// The turn that is about to begin is the last if the new rules say so. One that was announced as the last
    /// stays it: the model has been told.
    pub(super) fn last_turn_by_new_rules(&mut self) {
        let Split { mut run, .. } = self.split();
        let prepared = run.work.any(|pending| matches!(pending, Pending::Prepare));
        if prepared
            && !run.ending.is_now()
            && let Some(why) = out_of_turns(run.policy(), run.turn)
        {
            run.begin_last_turn(FinalReason::MaxTurns, vec![why]);
        }
    }

    /// Ends the run. Calls without a result get one, so that the history stays valid.
    pub(super) fn finish(&mut self, outcome: Outcome, because: Vec<super::super::directive::Because>) {
        let Split { mut run, model, batch, .. } = self.split();
        batch.close(&mut run);
        // What calls answer that are no longer settled depends on who was quicker.
        run.spending.appended = 0;
        run.charge_unanswered();
        run.work.clear();
        model.series.end();
        self.state.outcome = Some(outcome.clone());
        self.split().run.out.note(Note::Finish { outcome }, because);
    }
}
