//! The context budget: the tokens a conversation may use in the window of a model.

use std::fmt;

use super::reduce::ReducePlan;
use crate::engine::measure::TurnMeasure;
use crate::policy::{ContextPolicy, ModelPolicy, ReduceStep, ResultsRoom};

/// The parts of a context window, in tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ContextBudget {
    /// The whole window.
    pub window: u64,
    /// The reserve for the reply.
    pub reply: u64,
    /// The additional reserve.
    pub reserve: u64,
    /// The safety margin, in case there are more tokens than were counted.
    pub safety: u64,
    /// The definitions of the tools.
    pub tools: u64,
    /// The messages.
    pub messages: u64,
}

impl ContextBudget {
    /// The context budget of a conversation in a window of `window` tokens.
    pub(crate) fn of(rules: &ContextPolicy, model: &ModelPolicy, window: u64, measure: TurnMeasure) -> Self {
        Self {
            window,
            // A request may say how long its reply is at most: providers hold that against the window.
            reply: measure.reply_tokens.unwrap_or_else(|| model.output_reserve.value.get().into()),
            // Shares are of the whole window, so that they do not depend on each other.
            reserve: rules.reserve.value.of(window),
            safety: rules.safety.value.of(window),
            tools: measure.tool_tokens,
            messages: measure.message_tokens,
        }
    }

    /// Limits the reserve for the reply to half of the window.
    #[must_use]
    pub(crate) fn with_half_for_the_reply(self) -> Self {
        // A window from another source may be smaller than the reserve chosen for another model; half is left for the
        // request.
        Self { reply: self.reply.min(self.window / 2), ..self }
    }

    /// Limits the reserve for the reply to `most` tokens.
    #[must_use]
    pub(crate) fn with_reply(self, most: u64) -> Self {
        Self { reply: self.reply.min(most), ..self }
    }

    /// The maximum tokens of the messages.
    pub(crate) const fn budget(&self) -> u64 {
        self.base().saturating_sub(self.tools)
    }

    /// The same without tools.
    const fn base(&self) -> u64 {
        let kept = self.reply.saturating_add(self.reserve).saturating_add(self.safety);
        self.window.saturating_sub(kept)
    }

    /// Whether the tools alone leave no free tokens.
    pub(crate) const fn is_filled_by_tools(&self) -> bool {
        // Without tools there would be free tokens, so shortening messages cannot help.
        self.budget() == 0 && self.base() > 0 && self.tools > 0
    }

    /// The free tokens; `None`: the messages are too large.
    pub(crate) const fn left(&self) -> Option<u64> {
        self.budget().checked_sub(self.messages)
    }

    /// The minimum of free tokens for a call of the model.
    pub(crate) fn min_free(&self, rules: &ContextPolicy) -> u64 {
        // At least one token: a request of exactly the whole budget leaves nothing for an estimate that is one too
        // low.
        rules.min_free.value.of(self.budget()).max(1)
    }

    /// Whether the model can be called.
    pub(crate) fn is_open(&self, rules: &ContextPolicy) -> bool {
        self.left().is_some_and(|left| left >= self.min_free(rules))
    }

    /// The number of free tokens below which the conversation is reduced. Never less than `min_free`: no model is
    /// skipped before a reduction was tried.
    pub(crate) fn compact_at_free(&self, rules: &ContextPolicy) -> u64 {
        let budget = self.budget();
        // Never below `min_free`. LocalCowork's eviction began at 1,000 free tokens, while its loop ended at 1,500,
        // so it never ran.
        rules.compact_at_free.value.of(budget).max(rules.min_free.value.of(budget))
    }

    /// Whether the conversation must be reduced.
    pub(crate) fn is_short(&self, rules: &ContextPolicy) -> bool {
        self.left().is_none_or(|left| left < self.compact_at_free(rules))
    }

    /// The plan of a reduction step; `None`: with messages of this size it is not needed. After a refusal the last
    /// resort has the same target as the other steps, since the real limit may be unknown.
    pub(crate) fn plan(
        &self,
        rules: &ContextPolicy,
        number: u32,
        step: &ReduceStep,
        tokens: u64,
        refused: bool,
    ) -> Option<ReducePlan> {
        let aim = self.aim(rules);
        // After a refusal the numbers were wrong, so the last resort has the same target as the other steps.
        let most = if refused { aim } else { self.most(rules) };
        // Truncation loses content for ever, so it frees only what is needed.
        let enough = if matches!(step, ReduceStep::Truncate { .. }) { most } else { aim };
        let (step, keep_task) = (step.clone(), rules.keep_last_user_message.value);
        (tokens > enough).then_some(ReducePlan { number, step, aim, most, input: None, keep_task })
    }

    /// The maximum tokens for the results of one reply's calls after these messages; `None`: unlimited.
    pub(crate) fn for_results(&self, rules: &ContextPolicy) -> Option<u64> {
        let budget = self.budget();
        let open = budget.saturating_sub(self.min_free(rules));
        match rules.results.value {
            ResultsRoom::Unlimited => None,
            ResultsRoom::Reduced if !rules.reduce.value.is_empty() => {
                // A reduction would come before the next call, so results may use the tokens that it frees.
                let others = self.messages.min(self.aim(rules));
                Some(open.min(self.most(rules)).saturating_sub(others))
            }
            ResultsRoom::Left | ResultsRoom::Reduced => Some(open.saturating_sub(self.messages)),
        }
    }

    /// The maximum tokens of the messages for which no reduction is needed.
    pub(crate) fn most(&self, rules: &ContextPolicy) -> u64 {
        self.budget().saturating_sub(self.compact_at_free(rules))
    }

    /// The target tokens of the messages after a reduction.
    pub(crate) fn aim(&self, rules: &ContextPolicy) -> u64 {
        // More is freed than needed, or the next turn would reduce again; never less, or it would not help.
        self.budget().saturating_sub(rules.target_free.value.of(self.budget())).min(self.most(rules))
    }
}

impl fmt::Display for ContextBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.computed_from("window"))
    }
}

impl ContextBudget {
    /// How the budget is computed, where `whole` names the total.
    pub(crate) fn computed_from(&self, whole: &str) -> String {
        let Self { window, reply, reserve, safety, tools, messages } = self;
        let budget = self.budget();
        format!(
            "{whole} {window} - reply {reply} - reserve {reserve} - safety {safety} - tools {tools} = {budget} for \
             messages, which have {messages}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Policy;

    #[test]
    fn what_a_request_says_of_its_reply_takes_the_place_of_the_reserve() {
        let policy = Policy::builtin();
        let (rules, model) = (policy.context(), policy.model("m"));
        let reserve = u64::from(model.output_reserve.value.get());
        let room = |window, reply_tokens| {
            let measure = TurnMeasure { message_tokens: 1000, reply_tokens, ..TurnMeasure::default() };
            ContextBudget::of(rules, &model, window, measure)
        };
        for (said, reply) in [(None, reserve), (Some(100), 100), (Some(12_000), 12_000)] {
            assert_eq!(room(20_000, said).reply, reply);
        }
        // A window that the reserve fills has room, too, and one that seemed large enough has none.
        assert_eq!(room(reserve, None).budget(), 0);
        assert!(room(reserve, Some(100)).is_open(rules) && room(13_500, None).is_open(rules));
        assert!(!room(13_500, Some(12_500)).is_open(rules));
    }
}
