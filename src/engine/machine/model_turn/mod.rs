//! The calls of models in one turn: the model is chosen, called, and called again until a reply is taken.

mod exhausted;
mod failure;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub(in crate::engine) use failure::FailedCall;

use super::history_repairs::HistoryRepairs;
use super::model_series::ModelSeries;
use super::run_parts::RunParts;
use super::then::Then;
use super::turn_guidance::TurnGuidance;
use super::turn_window::{TurnWindow, WindowFit};
use super::work_table::Pending;
use crate::engine::call_timeouts::CallTimeouts;
use crate::engine::directive::{Because, CallModel, Note, ToolChoice, Work};
use crate::engine::event::TurnMeasure;
use crate::engine::retry;
use crate::engine::targets::passed_over;
use crate::policy::ModelPolicy;
use crate::session::{FinalReason, StopReason};

/// The calls of models in a turn.
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
    /// Chooses the model the turn begins with: the first that does not rest and whose window is large enough.
    pub(in crate::engine) fn choose(&mut self, measure: TurnMeasure, run: &mut RunParts<'_>) -> Then {
        let counted = measure.tokens();
        self.window.count(Some(counted));
        let fits = run.fits(measure);
        let rules = run.policy().context();
        let open: Vec<bool> = fits.iter().map(|fit| fit.is_open(rules)).collect();
        let none = !fits.is_empty() && !open.contains(&true);
        // A window that is too small for all may still be enough for the last turn.
        self.series.begin(|place| none || open.get(place) != Some(&false), run);
        if none {
            too_large_for_all(&fits, run);
            return Then::Call;
        }
        let next = self.series.target(run.targets);
        let remaining = self.series.remaining(run.targets);
        for fit in fits.iter().filter(|fit| !fit.is_open(rules)) {
            let tokens = self.window.sent(&fit.target, counted, run);
            let retry = passed_over(fit.target.clone(), next.cloned(), remaining, tokens);
            run.out.note(Note::TurnRetry(retry), vec![fit.because(run.out.rules.policy, 0)]);
        }
        Then::Call
    }

    /// Asks for one call of the model that is due.
    pub(in crate::engine) fn call(&mut self, run: &mut RunParts<'_>) -> Then {
        if run.is_past_deadline() {
            return Then::run_failed(StopReason::Deadline, Vec::new());
        }
        let Some(target) = self.series.target(run.targets).cloned() else {
            run.out.warn("the run has no model to call");
            return Then::run_failed(StopReason::Attempts, Vec::new());
        };
        let policy = run.policy().model(&target);
        if let Some((failed, reason)) = self.no_longer_retried(&target, &policy, run) {
            return self.exhausted(failed, reason, run);
        }
        let conversation = self.window.conversation(&self.guidance, run);
        let request = self.window.with_added(&target, conversation.tokens, run);
        let granted = match run.run_budget().grant(&target, request, || conversation) {
            Ok(granted) => granted,
            Err(why) if !run.ending.is_now() => return self.end_with_final_turn(why, run),
            Err(why) => return Then::run_failed(StopReason::RunBudget, vec![why]),
        };
        let last = run.ending.is_now();
        let call = self.request(target, &policy, granted.lowered.as_ref().map(|(most, _)| *most), run);
        self.series.called_in(run.turn);
        if last || run.tools.hides_any() {
            self.window.count(None);
        }
        let why = granted.lowered.clone().map(|(_, why)| why);
        run.reserve(granted);
        run.ask(
            Pending::Model,
            |work| Work::CallModel(CallModel { work, ..call }),
            why.into_iter().collect(),
        );
        Then::Host
    }

    /// What is asked of the model that is due.
    fn request(
        &mut self,
        target: String,
        policy: &Arc<ModelPolicy>,
        max_output: Option<u64>,
        run: &mut RunParts<'_>,
    ) -> CallModel {
        let (now, deadline, last) = (run.out.now, run.deadline(), run.ending.is_now());
        let started = self.series.begun(now).started;
        let rules = match self.series.last() {
            Some(failed) => policy.retry.for_class(failed.error_type),
            None => policy.retry.for_others(),
        };
        let output = run.policy().output().map(|output| output.tool.value.clone());
        let mut tools = if last { Vec::new() } else { run.tools.shown_tools(&mut run.out) };
        tools.extend(output.clone());
        CallModel {
            work: super::super::directive::WorkId(0),
            turn: run.turn,
            attempt: self.series.attempt(),
            max_attempts: rules.max_attempts.value.limit(),
            target,
            tools,
            tool_choice: match output {
                Some(tool) if last => ToolChoice::Tool(tool),
                _ => ToolChoice::Auto,
            },
            guidance: self.guidance.worst(run.policy().turn().guidance.most.value.get()),
            max_output,
            timeout: retry::attempt_timeout(&policy.retry, started, deadline, now),
            timeouts: CallTimeouts::from(&policy.timeouts),
        }
    }

    /// There is not enough left for this turn as it is: it is the final one; or the next one is, if a model was called in
    /// this one, so that the attempts of a turn are no more than they may be.
    pub(in crate::engine) fn end_with_final_turn(&mut self, why: Because, run: &mut RunParts<'_>) -> Then {
        self.series.end();
        if self.series.was_called_in(run.turn) {
            run.force_last_turn(FinalReason::Budget, vec![why]);
            return Then::TurnWhenDue;
        }
        run.end_with_this_turn(FinalReason::Budget, vec![why]);
        let measure = self.window.measure();
        let appended = core::mem::take(&mut run.terms.appended);
        let message_tokens = measure.message_tokens.saturating_add(appended);
        Then::Begin(TurnMeasure { message_tokens, ..measure })
    }
}

/// No window is large enough. If that is for the messages, this turn is the last and allows only the report; if the
/// tools alone are too large, it is said, and their provider has to decide.
fn too_large_for_all(fits: &[WindowFit], run: &mut RunParts<'_>) {
    let mut rooms = fits.iter().filter_map(|fit| Some((&fit.target, fit.room?)));
    if run.ending.is_now() {
        let budget = fits.iter().any(WindowFit::is_by_budget);
        let whole = if budget { "what the budget of the run has left" } else { "every window" };
        let facts: Vec<String> = fits.iter().filter_map(WindowFit::computed).collect();
        run.out.warn(format!("the last turn is too large for {whole}: {}", facts.join("; ")));
    } else if let Some((target, room)) = rooms.find(|(_, room)| room.is_filled_by_tools()) {
        run.out.warn(format!(
            "the definitions of the tools alone are too large for the window of {target}: {room}"
        ));
    } else {
        let why = fits.iter().map(|fit| fit.because(run.policy(), 0)).collect();
        run.end_with_this_turn(FinalReason::Context, why);
    }
}
