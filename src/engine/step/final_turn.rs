//! The last turn, which allows only the final report, and the end of a run that has none.

use serde_json::json;

use super::super::ask::Answer;
use super::super::because::{Shown, because};
use super::super::directive::{Because, Note, Outcome};
use super::super::event::{Drive, FinishReason};
use super::super::machine::out_of_turns;
use super::super::state::{Pending, SlotPhase};
use super::{Parts, Step};
use crate::policy::{ErrorClass, OnStop};
use crate::session::{FailureReason, FailureReport, FinalReason, ReportSource, RetryExhausted, StopReason};

impl Step<'_> {
    /// The turn that is about to begin is the last if the new rules say so. One that was announced as the last
    /// stays it: the model has been told.
    pub(super) fn last_turn_by_new_rules(&mut self) {
        let prepared = self.state.work.values().any(|pending| matches!(pending, Pending::Prepare));
        if prepared
            && !self.state.ending.is_now()
            && let Some(why) = out_of_turns(self.policy, self.state.turn)
        {
            self.begin_last_turn(FinalReason::MaxTurns, vec![why]);
        }
    }

    /// The turn that begins is the last: the model has nothing but the report to deliver.
    pub(super) fn begin_last_turn(&mut self, reason: FinalReason, why: Vec<Because>) {
        self.state.spending.ending.get_or_insert(self.state.now);
        let turn = self.state.turn;
        let Parts { mut out, ending, .. } = self.parts();
        let message = ending.begin(reason, turn, why, &mut out);
        self.append(message);
    }

    /// The turn under way is the last: it has nothing but the report to deliver, whatever was announced.
    pub(super) fn end_with_this_turn(&mut self, reason: FinalReason, why: Vec<Because>) {
        self.state.spending.ending.get_or_insert(self.state.now);
        let turn = self.state.turn;
        let Parts { mut out, ending, .. } = self.parts();
        let message = ending.begin_early(reason, turn, why, &mut out);
        self.append(message);
    }

    /// The next turn is the last. `false`: this one is already.
    pub(super) fn force_last_turn(&mut self, reason: FinalReason, why: Vec<Because>) -> bool {
        let turn = self.state.turn;
        let Parts { mut out, ending, .. } = self.parts();
        ending.force(reason, turn, why, &mut out)
    }

    /// A report was delivered and refused: if the policy says so, the turns that are left are taken away.
    pub(super) fn report_attempted(&mut self) {
        self.state.report.refused = self.state.report.refused.saturating_add(1);
        let turn = self.policy.turn();
        let left = turn.max_turns.value.get().saturating_sub(self.state.turn);
        if turn.collapse.value && left > 1 && self.state.context.drive == Drive::Turns {
            let why =
                because(self.policy, "turn.collapse", &turn.collapse, [format!("{left} turns were left")]);
            self.force_last_turn(FinalReason::ReportAttempt, vec![why]);
        }
    }

    /// The run is asked to end: nothing more is waited for, and what is under way may end.
    pub(super) fn stop_requested(&mut self, reason: String) {
        let on_stop = &self.policy.turn().on_stop;
        if on_stop.value == OnStop::End || self.state.context.drive == Drive::Calls {
            return self.stopped(reason);
        }
        let why = because(self.policy, "turn.on_stop", &on_stop.map(Shown), [reason.clone()]);
        if !self.force_last_turn(FinalReason::UserStop, vec![why]) && !self.is_working() {
            // The last turn was waiting for another attempt.
            return self.stopped(reason);
        }
        self.state.pace.hold = None;
        self.state.ending.ask_to_stop(reason);
        let waits: Vec<_> = self.state.work.iter().map(|(work, pending)| (*work, *pending)).collect();
        for (work, pending) in waits {
            match pending {
                Pending::WaitTurn | Pending::WaitModel => {
                    self.drop_work(work);
                    self.state.model_turn.series = None;
                    self.next_turn();
                }
                Pending::WaitTool(slot) => {
                    self.drop_work(work);
                    self.interrupt(slot);
                }
                Pending::Approve(slot) => {
                    self.drop_work(work);
                    self.set_phase(slot, SlotPhase::Unasked);
                    self.state.batch.gate.put_question(slot);
                }
                Pending::ApproveAgain(_) => self.drop_work(work),
                Pending::Prepare
                | Pending::Repair(_)
                | Pending::Reduce(_)
                | Pending::Summary(_)
                | Pending::Model
                | Pending::Tool(_)
                | Pending::ConsultTool(_)
                | Pending::ConsultModel
                | Pending::Verify(_)
                | Pending::ConsultOutput => {}
            }
        }
        if self.state.batch.slots.is_empty() {
            return;
        }
        // What waits is refused now, and nobody is asked any more.
        self.start_waiting();
        match self.waits_for_a_person() {
            Some(slot) => self.approved_again(slot, Answer::None),
            None => self.settle(),
        }
    }

    /// Whether something other than a wait is under way.
    fn is_working(&self) -> bool {
        self.state
            .work
            .values()
            .any(|pending| !matches!(pending, Pending::WaitTurn | Pending::WaitModel | Pending::WaitTool(_)))
    }

    fn drop_work(&mut self, work: super::super::directive::WorkId) {
        self.state.work.remove(&work);
        self.note(Note::Dropped { work }, Vec::new());
    }

    /// Ends the run at once.
    pub(super) fn stopped(&mut self, reason: String) {
        let report = self.no_report(FailureReason::Stopped);
        self.finish(Outcome::Stopped { reason, report }, Vec::new());
    }

    /// Ends the run for want of a report, unless a text was set aside that holds as one.
    pub(super) fn failed_for_good(&mut self, exhausted: RetryExhausted, why: Vec<Because>) {
        if let Some(output) = self.state.report.pending.take() {
            let turn = self.policy.turn();
            let why = vec![because(self.policy, "turn.pending_report", &turn.pending_report, [])];
            let source = ReportSource::Pending;
            self.note(Note::OutputAccepted { output: output.clone(), source }, why);
            return self.finish(Outcome::Reported { output }, Vec::new());
        }
        // Reports that do not hold may have been attempts at the model.
        let last = exhausted.attempts.last().map(|attempt| attempt.error_type);
        let action = match last {
            Some(ErrorClass::InvalidOutput) => "output",
            _ => exhausted.action.as_str(),
        };
        let reason = match (action, exhausted.reason) {
            (_, StopReason::RunBudget) => FailureReason::BudgetExhausted,
            ("run" | "output", _) | (_, StopReason::Deadline)
                if self.state.ending.reason() == Some(FinalReason::Budget) && !self.is_past_deadline() =>
            {
                FailureReason::BudgetExhausted
            }
            (_, StopReason::Deadline) => FailureReason::DeadlineExceeded,
            ("run", _) => FailureReason::MaxTurnsExhausted,
            ("output", _) if self.state.ending.reason() == Some(FinalReason::MaxTurns) => {
                FailureReason::MaxTurnsExhausted
            }
            _ => FailureReason::SessionFailed,
        };
        let report = self.no_report(reason);
        self.finish(Outcome::Failed { exhausted, report }, why);
    }

    /// What there is instead of a report.
    fn no_report(&mut self, reason: FailureReason) -> FailureReport {
        let turn = self.policy.turn();
        let (last_error_type, last_error) = self.state.last_error.clone().unzip();
        let max_turns = turn.max_turns.value.get();
        let why = match (reason, self.state.ending.reason()) {
            // The turn that was the last was it for another reason.
            (FailureReason::MaxTurnsExhausted, Some(forced)) => forced.name(),
            _ => reason.name(),
        };
        let vars = json!({
            "reason": why, "turns": self.state.turn, "max_turns": max_turns,
            "attempts": self.state.report.refused, "error_type": last_error_type, "last_error": last_error,
        });
        FailureReport {
            reason,
            text: self.say(&turn.no_report_message, vars),
            turns_completed: self.state.turn,
            max_turns,
            final_report_attempts: self.state.report.refused,
            forced_final_reason: self.state.ending.reason(),
            last_stop_reason: self.state.model_turn.last_finish.as_ref().map(finish_name),
            last_error_type,
            last_error,
        }
    }
}

fn finish_name(finish: &FinishReason) -> String {
    match finish {
        FinishReason::Stop => "stop",
        FinishReason::ToolCalls => "tool_calls",
        FinishReason::Length => "length",
        FinishReason::ContextWindow => "context_window",
        FinishReason::ContentFilter => "content_filter",
        FinishReason::Unsaid => "unsaid",
        FinishReason::Other(name) => name,
    }
    .to_owned()
}
