//! The context budget of a model in a turn.

use std::sync::Arc;

use super::super::run_parts::RunParts;
use crate::engine::because::because;
use crate::engine::directive::DecisionReason;
use crate::engine::known_windows::{EffectiveWindow, WindowSource};
use crate::engine::measure::TurnMeasure;
use crate::engine::room::ContextBudget;
use crate::policy::{
    ContextPolicy, ContextWindow, ModelPolicy, Policy, RunLimits, Setting, estimated_tokens,
};

/// The context budget of a model in this turn.
pub(in crate::engine) struct WindowFit {
    pub(in crate::engine) target: String,
    pub(in crate::engine) policy: Arc<ModelPolicy>,
    window: EffectiveWindow,
    /// The budget in the provider's count; `None`: the context window is unknown.
    pub(in crate::engine) room: Option<ContextBudget>,
    /// The host's count in tokens, if the provider's differs.
    counted: Option<u64>,
    /// The budget of the run that is tighter than the window for the final turn.
    budget: Option<(&'static str, Setting<String>)>,
}

impl WindowFit {
    /// Whether the model can be called.
    pub(in crate::engine) fn is_open(&self, rules: &ContextPolicy) -> bool {
        self.room.is_none_or(|room| room.is_open(rules))
    }

    /// Whether a budget of the run is tighter than the window.
    pub(in crate::engine) const fn is_by_budget(&self) -> bool {
        self.budget.is_some()
    }

    /// How the budget is computed, with the name of the model.
    pub(in crate::engine) fn computed(&self) -> Option<String> {
        self.room.map(|room| format!("{}: {}", self.target, room.computed_from(self.whole())))
    }

    /// The rule that determines the budget, with all facts except the first `but`. `None` if the size comes from a
    /// refusal.
    pub(in crate::engine) fn because(&self, policy: &Policy, but: usize) -> Option<DecisionReason> {
        // A size learned from a refusal is below the policy's value, so no other value there would change the
        // decision.
        if self.learned().is_some() {
            return None;
        }
        let (rule, setting) = self.setting();
        Some(because(policy, rule, &setting, self.facts().skip(but)))
    }

    /// The window, if its size comes from a refusal.
    pub(in crate::engine) fn learned(&self) -> Option<String> {
        let is_learned = !self.is_by_budget() && self.window.source == Some(WindowSource::Refusal);
        is_learned.then(|| self.window.fact()).flatten()
    }

    /// The rule that determines the budget, and its value.
    fn setting(&self) -> (&'static str, Setting<String>) {
        self.budget.clone().unwrap_or_else(|| {
            let (rule, setting) = self.window.setting(&self.policy);
            (rule, setting.map(|window| window.to_string()))
        })
    }

    /// The quantity that the budget is computed from.
    const fn whole(&self) -> &'static str {
        if self.is_by_budget() { "left of the budget" } else { "window" }
    }

    /// The facts about the window and the count.
    fn facts(&self) -> impl Iterator<Item = String> {
        let room = self.room.map(|room| room.computed_from(self.whole()));
        let counted = self.counted.map(|tokens| format!("{tokens} tokens as counted here"));
        [room, counted, self.window.fact()].into_iter().flatten()
    }
}

/// Context budgets.
impl RunParts<'_> {
    /// The context budgets of all models.
    pub(in crate::engine) fn fits(&self, measure: TurnMeasure) -> Vec<WindowFit> {
        self.targets.iter().map(|target| self.fit(target, measure)).collect()
    }

    /// The context budget of one model.
    pub(in crate::engine) fn fit(&self, target: &str, measure: TurnMeasure) -> WindowFit {
        let measure = self.sent_in_turn(measure);
        let policy = self.policy().model(target);
        let window = self.models.window(target, &policy);
        let measure = self.models.with_overhead(target, measure);
        // In the provider's count, as its window and limits are.
        let expected = self.models.expected_measure(target, measure);
        let room = match window.window {
            ContextWindow::Tokens(tokens) => {
                Some(ContextBudget::of(self.policy().context(), &policy, tokens.get(), expected))
            }
            ContextWindow::Unknown => None,
        };
        let mut room = if window.has_own_reserve(expected) {
            room
        } else {
            room.map(ContextBudget::with_half_for_the_reply)
        };
        let mut budget = None;
        if let Some((left, rule, setting)) = self.run_budget().left_for_the_end(target)
            // The tighter of window and budget decides, and is named.
            && room.is_none_or(|room| left < room.window)
        {
            room = Some(
                ContextBudget::of(self.policy().context(), &policy, left, expected)
                    .with_reply(RunLimits::LEAST_REPLY),
            );
            budget = Some((rule, setting));
        }
        // Shown only if the two counts differ.
        let counted = (expected != measure).then_some(measure.tokens());
        WindowFit { target: target.to_owned(), policy, window, room, counted, budget }
    }

    /// The measure of the request: in the final turn the report is the only tool.
    pub(in crate::engine) fn sent_in_turn(&self, measure: TurnMeasure) -> TurnMeasure {
        // The final turn has no tools but the report, so a conversation that is too large for others may fit.
        if !self.ending.is_now() {
            return measure;
        }
        let report = self.policy().output().map_or(0, |output| {
            let schema = estimated_tokens(&output.schema.value.json().to_string());
            // Thirty tokens for the frame around a tool: its name, keys and brackets.
            schema.saturating_add(estimated_tokens(&output.description.value)).saturating_add(30)
        });
        TurnMeasure { tool_tokens: report.min(measure.tool_tokens), ..measure }
    }
}
