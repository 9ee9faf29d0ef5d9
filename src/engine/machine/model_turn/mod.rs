//! The model calls of one turn: a model is chosen and called until a reply is accepted.

mod exhausted;
mod failure;
mod pace;

use core::num::NonZeroU32;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::history_repairs::HistoryRepairs;
use super::model_series::ModelSeries;
use super::run_parts::RunParts;
use super::then::NextMachine;
use super::turn_guidance::TurnGuidance;
use super::turn_window::{TurnWindow, WindowFit};
use super::work_table::WorkPurpose;
use crate::engine::call_timeouts::CallTimeouts;
use crate::engine::directive::{CallModel, DecisionReason, Note, ToolChoice, Work};
use crate::engine::measure::TurnMeasure;
use crate::engine::retry;
use crate::engine::targets::passed_over;
use crate::policy::ModelPolicy;
use crate::session::{FinalReason, StopReason};

/// The model calls of a turn.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(in crate::engine) struct ModelTurn {
    #[serde(default, skip_serializing_if = "crate::session::is_default")]
    pub(in crate::engine) series: ModelSeries,
    #[serde(default, skip_serializing_if = "TurnGuidance::is_empty")]
    pub(in crate::engine) guidance: TurnGuidance,
    #[serde(default, skip_serializing_if = "HistoryRepairs::is_empty")]
    pub(in crate::engine) history: HistoryRepairs,
    #[serde(default, skip_serializing_if = "TurnWindow::is_empty")]
    pub(in crate::engine) window: TurnWindow,
}

impl ModelTurn {
    /// Chooses the first model of the turn that is not in cooldown and whose window is large enough.
    pub(in crate::engine) fn choose(&mut self, measure: TurnMeasure, run: &mut RunParts<'_>) -> NextMachine {
        let counted = measure.tokens();
        self.window.count(Some(counted));
        let fits = run.fits(measure);
        // A request that exceeds a window fails for certain and takes time, so such a model is skipped.
        let rules = run.policy().context();
        let open: Vec<bool> = fits.iter().map(|fit| fit.is_open(rules)).collect();
        let none = !fits.is_empty() && !open.contains(&true);
        // If no window is large enough, none is skipped: the final turn, without tools, may still fit one of them.
        self.series.begin(|place| none || open.get(place) != Some(&false), run);
        if none {
            too_large_for_all(&fits, run);
            return NextMachine::Call;
        }
        let next = self.series.target(run.targets);
        let remaining = self.series.remaining(run.targets);
        for fit in fits.iter().filter(|fit| !fit.is_open(rules)) {
            let tokens = self.window.sent(&fit.target, counted, run);
            let retry = passed_over(fit.target.clone(), next.cloned(), remaining, tokens, fit.learned());
            let why = fit.because(run.out.rules.policy, 0);
            run.out.note(Note::TurnRetry(retry), why.into_iter().collect());
        }
        NextMachine::Call
    }

    /// Requests one call of the current model.
    pub(in crate::engine) fn call(&mut self, run: &mut RunParts<'_>) -> NextMachine {
        // Checked again after each wait, as the deadline may have passed.
        if run.is_past_deadline() {
            return NextMachine::run_failed(StopReason::Deadline, Vec::new());
        }
        let Some(target) = self.series.target(run.targets).cloned() else {
            run.out.warn("the run has no model to call");
            return NextMachine::run_failed(StopReason::Attempts, Vec::new());
        };
        let policy = run.policy().model(&target);
        if run.is_proposal_late() {
            return self.not_called(&target, &policy, run);
        }
        // The rules may have changed during the wait. A granted attempt must not be made under rules that forbid it.
        if let Some((failed, reason)) = self.no_longer_retried(&target, &policy, run) {
            return self.exhausted(failed, reason, run);
        }
        let conversation = self.window.conversation(&self.guidance, run);
        let request = self.window.with_added(&target, conversation.tokens, run);
        let granted = match run.run_budget().grant(&target, request, || conversation) {
            Ok(granted) => granted,
            // Too little is left for an ordinary turn. The reserve for the final turn is left, so the final turn
            // comes now.
            Err(why) if !run.ending.is_now() => return self.end_with_final_turn(why, run),
            Err(why) => return NextMachine::run_failed(StopReason::RunBudget, vec![why]),
        };
        let input = granted.reservation.input;
        if let Some(then) = self.wait_for_turn((&target, &policy), input, run) {
            return then;
        }
        let last = run.ending.is_now();
        let call = self.request(target, &policy, granted.lowered.as_ref().map(|(most, _)| *most), run);
        self.series.called_in(run.turn);
        // A final turn, or one with hidden tools, sends other tools than were measured: its usage cannot be used for
        // calibration.
        if last || run.tools.hides_any() {
            self.window.count(None);
        }
        let why = granted.lowered.clone().map(|(_, why)| why);
        // Reserved with the call, since other calls may start before its usage is known.
        run.reserve(granted);
        run.ask(
            WorkPurpose::Model,
            |work| Work::CallModel(CallModel { work, ..call }),
            why.into_iter().collect(),
        );
        NextMachine::Host
    }

    /// The request to the current model.
    fn request(
        &mut self,
        target: String,
        policy: &Arc<ModelPolicy>,
        max_output: Option<u64>,
        run: &mut RunParts<'_>,
    ) -> CallModel {
        let (now, deadline, last) = (run.out.now, run.deadline(), run.ending.is_now());
        let started = self.series.begun(now).started;
        // The class of the last failure may have its own limit; the number shown must be the effective one.
        let rules = match self.series.last() {
            Some(failed) => policy.retry.for_class(failed.error_type),
            None => policy.retry.for_others(),
        };
        let output = run.policy().output().map(|output| output.tool.value.clone());
        // In the final turn tools are withheld: otherwise models call them instead of reporting (ai-agent restricts
        // the turn to the report, too).
        let mut tools = if last { Vec::new() } else { run.tools.shown_tools(&mut run.out) };
        tools.extend(output.clone());
        CallModel {
            work: crate::engine::ids::WorkId(0),
            turn: run.turn,
            attempt: self.series.attempt(),
            max_attempts: rules.max_attempts.value.limit(),
            target,
            tools,
            tool_choice: match output {
                // The report is a forced choice: with `auto` a model may answer in text, and no turn is left to ask
                // again.
                Some(tool) if last => ToolChoice::Tool(tool),
                _ => ToolChoice::Auto,
            },
            guidance: self.guidance.worst(run.policy().turn().guidance.max.value.get()),
            max_output,
            timeout: retry::attempt_timeout(&policy.retry, started, deadline, now),
            timeouts: CallTimeouts::from(&policy.timeouts),
        }
    }

    /// Makes this turn the final one because the budget is too small for it. If a model was already called in it, the
    /// next turn is the final one, so that no turn exceeds its attempts.
    pub(in crate::engine) fn end_with_final_turn(
        &mut self,
        why: DecisionReason,
        run: &mut RunParts<'_>,
    ) -> NextMachine {
        self.series.end();
        // A turn with a model call ends here; the next one is final, so that no turn exceeds its attempts.
        if self.series.was_called_in(run.turn) {
            run.force_final_turn(FinalReason::Budget, vec![why]);
            return NextMachine::TurnWhenDue;
        }
        run.end_with_this_turn(FinalReason::Budget, vec![why]);
        let measure = self.window.measure();
        // Messages added since the measurement are part of the request, too.
        let appended = core::mem::take(&mut run.terms.appended);
        let message_tokens = measure.message_tokens.saturating_add(appended);
        NextMachine::Begin(TurnMeasure { message_tokens, ..measure })
    }
}

/// Handles that no window is large enough. If the messages are too large, this turn becomes the final turn. If the
/// tools alone are too large, a warning is given and the call is made.
fn too_large_for_all(fits: &[WindowFit], run: &mut RunParts<'_>) {
    let mut rooms = fits.iter().filter_map(|fit| Some((&fit.target, fit.room?)));
    if run.ending.is_now() {
        let budget = fits.iter().any(WindowFit::is_by_budget);
        let whole = if budget { "what the budget of the run has left" } else { "every window" };
        let facts: Vec<String> = fits.iter().filter_map(WindowFit::computed).collect();
        run.out.warn(format!("the final turn is too large for {whole}: {}", facts.join("; ")));
    // The messages are not the cause, and a final turn without tools would hide the problem: the call is made, and
    // the provider decides (ai-agent: an overflow by schemas alone never forces the end).
    } else if let Some((target, room)) = rooms.find(|(_, room)| room.is_filled_by_tools()) {
        run.out.warn(format!(
            "the definitions of the tools alone are too large for the window of {target}: {room}"
        ));
    } else if run.policy().context().give_up_after.value == NonZeroU32::MAX {
        // Where no reduction is one too many, no turn ends the run either: the provider decides.
        let facts: Vec<String> = fits.iter().filter_map(WindowFit::computed).collect();
        run.out.warn(format!("the conversation is too large for every window: {}", facts.join("; ")));
    } else {
        // The messages are too large, but the report alone is still possible: this turn becomes the final one.
        let why = fits.iter().filter_map(|fit| fit.because(run.policy(), 0)).collect();
        run.end_with_this_turn(FinalReason::Context, why);
    }
}
