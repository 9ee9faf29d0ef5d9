//! The end of a run: on request, or without a report.

use serde_json::json;

use super::super::ask::ApprovalAnswer;
use super::super::because::{ShownValue, because};
use super::super::directive::{DecisionReason, Note, Outcome, ProposalResult};
use super::super::event::{DriveMode, FinishReason};
use super::super::machine::{NextMachine, ProposalKind, RunEnd, WorkPurpose};
use super::{RunStep, SplitState};
use crate::engine::ids::ProposalId;
use crate::policy::{ErrorClass, OnStop};
use crate::session::{FailureReason, FailureReport, FinalReason, ReportSource, RetryExhausted, StopReason};

impl RunStep<'_> {
    /// Ends the run; with a host's own loop, a good end waits until its other proposals are settled.
    pub(super) fn end_of_run(&mut self, end: RunEnd) -> Option<NextMachine> {
        match end {
            // Other proposals of a host with its own loop may still have results, so the run ends when they are
            // settled.
            RunEnd::Finished(outcome) if self.current != ProposalId::NONE => {
                self.state.closing = Some(outcome);
                Some(NextMachine::Settled(ProposalResult::Accepted))
            }
            // One failed turn is no reason to drop what else the host has in flight; the host learns of it by the note of
            // exhaustion, and may end its loop.
            RunEnd::Failed(..) if self.is_turn_among_others() => {
                Some(NextMachine::Settled(ProposalResult::NoReply))
            }
            end => {
                self.end(end);
                None
            }
        }
    }

    /// Whether the current proposal is a turn, and others are open beside it.
    fn is_turn_among_others(&mut self) -> bool {
        let is_turn = matches!(self.split().run.terms.kind(), ProposalKind::Turn { .. });
        is_turn && self.state.proposals.keys().any(|open| *open != self.current)
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

    /// Handles a request to stop: no wait continues, and work in flight may end.
    pub(super) fn stop_requested(&mut self, reason: String) -> NextMachine {
        let on_stop = &self.policy.turn().on_stop;
        // A host with its own loop ends its loop itself; the interpreter must not add a turn.
        if on_stop.value == OnStop::End || self.state.context.drive == DriveMode::Calls {
            return NextMachine::stopped(reason);
        }
        let why = because(self.policy, "turn.on_stop", &on_stop.map(ShownValue), [reason.clone()]);
        let SplitState { mut run, .. } = self.split();
        // A final turn in flight may end by itself. It has nothing left to do only if all work in flight is waiting.
        if !run.force_final_turn(FinalReason::UserStop, vec![why])
            && !run.work.any(|_, pending| !pending.is_wait())
        {
            // The final turn waited for another attempt. A stop was requested, so the wait and the run end.
            return NextMachine::stopped(reason);
        }
        // Waits end at once (ai-agent's `sleepWithAbort`): a user who stops a run does not want to wait for a
        // backoff.
        run.terms.delay.forget();
        run.ending.ask_to_stop(reason);
        let mut then = NextMachine::Host;
        for (work, pending) in run.work.open(ProposalId::NONE).collect::<Vec<_>>() {
            match pending {
                WorkPurpose::WaitTurn | WorkPurpose::WaitModel => {
                    let SplitState { mut run, model, .. } = self.split();
                    run.drop_work(work);
                    // The final turn is a new request with its own attempts.
                    model.series.end();
                    then = NextMachine::Turn;
                }
                WorkPurpose::WaitTool(slot) => {
                    let SplitState { mut run, model, report, batch } = self.split();
                    run.drop_work(work);
                    then = match batch.interrupt(slot, &mut run) {
                        Ok(()) => batch.settle(report, &mut model.guidance, &mut run),
                        Err(end) => end,
                    };
                }
                WorkPurpose::Approve(slot) => {
                    // No question is asked any more; the call is refused with the other waiting ones.
                    let SplitState { mut run, batch, .. } = self.split();
                    run.drop_work(work);
                    batch.ask_later(slot, &mut run);
                }
                WorkPurpose::ApproveAgain(_) => self.split().run.drop_work(work),
                // Work in flight may end: an interrupted tool leaves an unknown effect.
                WorkPurpose::Prepare
                | WorkPurpose::Repair(_)
                | WorkPurpose::Reduce(_)
                | WorkPurpose::Summary(_)
                | WorkPurpose::Model
                | WorkPurpose::Tool(_)
                | WorkPurpose::ConsultTool(_)
                | WorkPurpose::ConsultModel
                | WorkPurpose::Verify(_)
                | WorkPurpose::ConsultOutput => {}
            }
        }
        let SplitState { mut run, batch, .. } = self.split();
        if batch.is_empty() || matches!(then, NextMachine::End(_)) {
            return then;
        }
        // Waiting calls are refused now, so that the batch ends without a question.
        if let Err(end) = batch.start_waiting(&mut run) {
            return end;
        }
        match batch.waits_for_a_person(&run) {
            // An open question counts as not answered.
            Some(slot) => batch.on_approved_again(slot, ApprovalAnswer::None, &mut run).into(),
            None => NextMachine::Settle,
        }
    }

    /// Ends the run without a report, unless a text that is valid as the report was set aside.
    pub(super) fn failed_for_good(&mut self, exhausted: RetryExhausted, why: Vec<DecisionReason>) {
        // A text that is valid as the report is better than a failure.
        if let Some(output) = self.state.report.take_pending() {
            let turn = self.policy.turn();
            let why = vec![because(self.policy, "turn.report_from_text", &turn.report_from_text, [])];
            let source = ReportSource::Pending;
            self.split().run.out.note(Note::OutputAccepted { output: output.clone(), source }, why);
            return self.finish(Outcome::Reported { output }, Vec::new());
        }
        // A refused report that counts as an attempt of its turn ends as `model`, though the report failed.
        let last = exhausted.attempts.last().map(|attempt| attempt.error_type);
        let action = match last {
            Some(ErrorClass::InvalidOutput) => "output",
            _ => exhausted.action.as_str(),
        };
        let past_deadline = self.split().run.is_past_deadline();
        let reason = match (action, exhausted.reason) {
            (_, StopReason::RunBudget) => FailureReason::BudgetExhausted,
            // The budget had announced the final turn, so its end is attributed to the budget.
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

    /// The failure report in place of a report.
    fn no_report(&mut self, reason: FailureReason) -> FailureReport {
        let turn = self.policy.turn();
        let (last_error_type, last_error) = self.state.last.error.clone().unzip();
        let max_turns = turn.max_turns.value.get();
        let why = match (reason, self.state.ending.reason()) {
            // The final turn had another cause than the turn limit, which is more useful to people.
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
