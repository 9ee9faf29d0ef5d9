//! The end of a run: it is asked for, or there is no report.

use serde_json::json;

use super::super::ask::Answer;
use super::super::because::{Shown, because};
use super::super::directive::{Because, Note, Outcome, ProposalId, Settlement};
use super::super::event::{Drive, FinishReason};
use super::super::machine::{Pending, RunEnd, Then};
use super::{Split, Step};
use crate::policy::{ErrorClass, OnStop};
use crate::session::{FailureReason, FailureReport, FinalReason, ReportSource, RetryExhausted, StopReason};

impl Step<'_> {
    /// Ends the run; that of a host with its own loop as soon as its other proposals are settled, if it ends well.
    pub(super) fn end_of_run(&mut self, end: RunEnd) -> Option<Then> {
        match end {
            RunEnd::Finished(outcome) if self.current != ProposalId::NONE => {
                self.state.closing = Some(outcome);
                Some(Then::Settled(Settlement::Accepted))
            }
            end => {
                self.end(end);
                None
            }
        }
    }

    fn end(&mut self, end: RunEnd) {
        match end {
            RunEnd::Finished(outcome) => self.finish(outcome, Vec::new()),
            RunEnd::Failed(exhausted, why) => self.failed_for_good(exhausted, why),
            RunEnd::Stopped(reason) => {
                let report = self.no_report(FailureReason::Stopped);
                self.finish(Outcome::Stopped { reason, report }, Vec::new());
            }
        }
    }

    /// The run is asked to end: nothing more is waited for, and what is under way may end.
    pub(super) fn stop_requested(&mut self, reason: String) -> Then {
        let on_stop = &self.policy.turn().on_stop;
        if on_stop.value == OnStop::End || self.state.context.drive == Drive::Calls {
            return Then::stopped(reason);
        }
        let why = because(self.policy, "turn.on_stop", &on_stop.map(Shown), [reason.clone()]);
        let Split { mut run, .. } = self.split();
        if !run.force_last_turn(FinalReason::UserStop, vec![why])
            && !run.work.any(|_, pending| !pending.is_wait())
        {
            // The last turn was waiting for another attempt.
            return Then::stopped(reason);
        }
        run.terms.delay.forget();
        run.ending.ask_to_stop(reason);
        let mut then = Then::Host;
        for (work, pending) in run.work.open(ProposalId::NONE).collect::<Vec<_>>() {
            match pending {
                Pending::WaitTurn | Pending::WaitModel => {
                    let Split { mut run, model, .. } = self.split();
                    run.drop_work(work);
                    model.series.end();
                    then = Then::Turn;
                }
                Pending::WaitTool(slot) => {
                    let Split { mut run, model, report, batch } = self.split();
                    run.drop_work(work);
                    then = match batch.interrupt(slot, &mut run) {
                        Ok(()) => batch.settle(report, &mut model.guidance, &mut run),
                        Err(end) => end,
                    };
                }
                Pending::Approve(slot) => {
                    let Split { mut run, batch, .. } = self.split();
                    run.drop_work(work);
                    batch.ask_later(slot, &mut run);
                }
                Pending::ApproveAgain(_) => self.split().run.drop_work(work),
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
        let Split { mut run, batch, .. } = self.split();
        if batch.is_empty() || matches!(then, Then::End(_)) {
            return then;
        }
        // What waits is refused now, and nobody is asked any more.
        if let Err(end) = batch.start_waiting(&mut run) {
            return end;
        }
        match batch.waits_for_a_person(&run) {
            Some(slot) => batch.on_approved_again(slot, Answer::None, &mut run).into(),
            None => Then::Settle,
        }
    }

    /// Ends the run for want of a report, unless a text was set aside that holds as one.
    pub(super) fn failed_for_good(&mut self, exhausted: RetryExhausted, why: Vec<Because>) {
        if let Some(output) = self.state.report.take_pending() {
            let turn = self.policy.turn();
            let why = vec![because(self.policy, "turn.pending_report", &turn.pending_report, [])];
            let source = ReportSource::Pending;
            self.split().run.out.note(Note::OutputAccepted { output: output.clone(), source }, why);
            return self.finish(Outcome::Reported { output }, Vec::new());
        }
        // Reports that do not hold may have been attempts at the model.
        let last = exhausted.attempts.last().map(|attempt| attempt.error_type);
        let action = match last {
            Some(ErrorClass::InvalidOutput) => "output",
            _ => exhausted.action.as_str(),
        };
        let past_deadline = self.split().run.is_past_deadline();
        let reason = match (action, exhausted.reason) {
            (_, StopReason::RunBudget) => FailureReason::BudgetExhausted,
            ("run" | "output", _) | (_, StopReason::Deadline)
                if self.state.ending.reason() == Some(FinalReason::Budget) && !past_deadline =>
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
        let (last_error_type, last_error) = self.state.last.error.clone().unzip();
        let max_turns = turn.max_turns.value.get();
        let why = match (reason, self.state.ending.reason()) {
            // The turn that was the last was it for another reason.
            (FailureReason::MaxTurnsExhausted, Some(forced)) => forced.name(),
            _ => reason.name(),
        };
        let vars = json!({
            "reason": why, "turns": self.state.turn, "max_turns": max_turns,
            "attempts": self.state.report.refused(), "error_type": last_error_type, "last_error": last_error,
        });
        FailureReport {
            reason,
            text: self.split().run.out.say(&turn.messages.no_report, vars),
            turns_completed: self.state.turn,
            max_turns,
            final_report_attempts: self.state.report.refused(),
            forced_final_reason: self.state.ending.reason(),
            last_stop_reason: self.state.last.finish.as_ref().map(finish_name),
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
