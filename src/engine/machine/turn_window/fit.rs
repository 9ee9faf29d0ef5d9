//! How much room a model has for the conversation of a turn.

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

/// What a model has room for in this turn.
pub(in crate::engine) struct WindowFit {
    pub(in crate::engine) target: String,
    pub(in crate::engine) policy: Arc<ModelPolicy>,
    window: EffectiveWindow,
    /// In tokens as its provider counts them; `None`: its window is unknown.
    pub(in crate::engine) room: Option<ContextBudget>,
    /// How many tokens the host counted, if the provider counts others.
    counted: Option<u64>,
    /// The budget of the run that leaves the final turn less than the window.
    budget: Option<(&'static str, Setting<String>)>,
}

impl WindowFit {
    /// Whether the model can be asked.
    pub(in crate::engine) fn is_open(&self, rules: &ContextPolicy) -> bool {
        self.room.is_none_or(|room| room.is_open(rules))
    }

    /// Whether a budget of the run leaves less than the window.
    pub(in crate::engine) const fn is_by_budget(&self) -> bool {
        self.budget.is_some()
    }

    /// How the room is computed, with the name of the model.
    pub(in crate::engine) fn computed(&self) -> Option<String> {
        self.room.map(|room| format!("{}: {}", self.target, room.computed_from(self.whole())))
    }

    /// The rule that says how much the model has room for, with all facts but so many. None does where the provider said it
    /// itself.
    pub(in crate::engine) fn because(&self, policy: &Policy, but: usize) -> Option<DecisionReason> {
        // What a refusal taught is below whatever the policy says, so no other value there would change the decision.
        if self.learned().is_some() {
            return None;
        }
        let (rule, setting) = self.setting();
        Some(because(policy, rule, &setting, self.facts().skip(but)))
    }

    /// The window, where the provider said how large it is when it refused a request.
    pub(in crate::engine) fn learned(&self) -> Option<String> {
        let is_learned = !self.is_by_budget() && self.window.source == Some(WindowSource::Refusal);
        is_learned.then(|| self.window.fact()).flatten()
    }

    /// The rule that says how much the model has room for, and its value.
    fn setting(&self) -> (&'static str, Setting<String>) {
        self.budget.clone().unwrap_or_else(|| {
            let (rule, setting) = self.window.setting(&self.policy);
            (rule, setting.map(|window| window.to_string()))
        })
    }

    /// What the room is computed from.
    const fn whole(&self) -> &'static str {
        if self.is_by_budget() { "left of the budget" } else { "window" }
    }

    /// What is known of the window and of the count.
    fn facts(&self) -> impl Iterator<Item = String> {
        let room = self.room.map(|room| room.computed_from(self.whole()));
        let counted = self.counted.map(|tokens| format!("{tokens} tokens as counted here"));
        [room, counted, self.window.fact()].into_iter().flatten()
    }
}

/// Room.
impl RunParts<'_> {
    /// Every model, and the room it has for the conversation.
    pub(in crate::engine) fn fits(&self, measure: TurnMeasure) -> Vec<WindowFit> {
        self.targets.iter().map(|target| self.fit(target, measure)).collect()
    }

    /// The room that one model has for the conversation.
    pub(in crate::engine) fn fit(&self, target: &str, measure: TurnMeasure) -> WindowFit {
        let measure = self.sent_in_turn(measure);
        let policy = self.policy().model(target);
        let window = self.models.window(target, &policy);
        let measure = self.models.with_overhead(target, measure);
        // In the provider's count: its window and its limits are in that one.
        let expected = self.models.expected_measure(target, measure);
        let room = match window.window {
            ContextWindow::Tokens(tokens) => {
                Some(ContextBudget::of(self.policy().context(), &policy, tokens.get(), expected))
            }
            ContextWindow::Unknown => None,
        };
        // Only a policy that names the window has also chosen a reserve for the reply that fits it. For a window from
        // elsewhere half of it at most is kept.
        let fitted = window.source == Some(WindowSource::Policy);
        let mut room = if fitted { room } else { room.map(ContextBudget::with_half_for_the_reply) };
        let mut budget = None;
        if let Some((left, rule, setting)) = self.run_budget().left_for_the_end(target)
            // The tighter of window and budget decides, and is the one that is named.
            && room.is_none_or(|room| left < room.window)
        {
            room = Some(
                ContextBudget::of(self.policy().context(), &policy, left, expected)
                    .with_reply(RunLimits::LEAST_REPLY),
            );
            budget = Some((rule, setting));
        }
        // Shown only where the two counts differ.
        let counted = (expected != measure).then_some(measure.tokens());
        WindowFit { target: target.to_owned(), policy, window, room, counted, budget }
    }

    /// What is sent: in the final turn no tool but the one of the report.
    pub(in crate::engine) fn sent_in_turn(&self, measure: TurnMeasure) -> TurnMeasure {
        // The final turn has no tools but the report, so a conversation that was too large for the others may fit.
        if !self.ending.is_now() {
            return measure;
        }
        let report = self.policy().output().map_or(0, |output| {
            let schema = estimated_tokens(&output.schema.value.json().to_string());
            // Thirty tokens for the frame around a tool: its name, its keys and brackets.
            schema.saturating_add(estimated_tokens(&output.description.value)).saturating_add(30)
        });
        TurnMeasure { tool_tokens: report.min(measure.tool_tokens), ..measure }
    }
}
