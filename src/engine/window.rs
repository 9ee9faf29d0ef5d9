//! How much room a conversation has in the window of a model.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::event::TurnMeasure;
use super::failure::Failure;
use super::reduce::ReducePlan;
use crate::policy::{ContextPolicy, ContextWindow, ModelPolicy, ReduceStep};
use crate::session::Reduction;

/// What there is of a window, in tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Room {
    window: u64,
    reply: u64,
    reserve: u64,
    safety: u64,
    tools: u64,
    messages: u64,
}

/// What is remembered of windows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Windows {
    /// The windows that providers told of, by refusing what did not fit, by the names of the models.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    learned: BTreeMap<String, u64>,
    /// How many reductions in a row gained nothing.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(super) in_vain: u32,
    /// Whether the conversation was reduced in this turn because a provider refused it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) asked: bool,
    /// The refusal, while the conversation is reduced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) refusal: Option<Failure>,
    /// What is left out when there is a summary of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) summary: Option<Box<Reduction>>,
    /// The conversation as it was measured last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) measured: Option<TurnMeasure>,
}

/// A reduction under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Reducing {
    /// The conversation as it is.
    pub(super) measure: TurnMeasure,
    /// How many tokens its messages had before the first step.
    pub(super) before: u64,
    /// The model whose window it is for.
    pub(super) target: usize,
    /// The step under way, from 0.
    pub(super) step: usize,
    /// Whether a provider has refused the conversation; if not, the turn begins after it.
    pub(super) refused: bool,
}

impl Room {
    /// What there is for that conversation in a window of so many tokens.
    pub(crate) fn of(rules: &ContextPolicy, model: &ModelPolicy, window: u64, measure: TurnMeasure) -> Self {
        Self {
            window,
            reply: model.output_reserve.value.get().into(),
            reserve: rules.reserve.value.of(window),
            safety: rules.safety.value.of(window),
            tools: measure.tool_tokens,
            messages: measure.message_tokens,
        }
    }

    /// The reply has no more than half of the window.
    pub(crate) fn with_half_for_the_reply(self) -> Self {
        Self { reply: self.reply.min(self.window / 2), ..self }
    }

    /// The most tokens that messages may have.
    pub(crate) const fn budget(&self) -> u64 {
        self.base().saturating_sub(self.tools)
    }

    /// The same without tools.
    const fn base(&self) -> u64 {
        let kept = self.reply.saturating_add(self.reserve).saturating_add(self.safety);
        self.window.saturating_sub(kept)
    }

    /// Whether the tools alone leave no room.
    pub(crate) const fn is_filled_by_tools(&self) -> bool {
        self.budget() == 0 && self.base() > 0 && self.tools > 0
    }

    /// How much room is left; `None`: the messages are too large.
    pub(crate) const fn left(&self) -> Option<u64> {
        self.budget().checked_sub(self.messages)
    }

    /// Whether the model can be asked.
    pub(crate) fn is_open(&self, rules: &ContextPolicy) -> bool {
        self.left().is_some_and(|left| left >= rules.gate.value.of(self.budget()).max(1))
    }

    /// Whether the conversation is to be reduced.
    pub(crate) fn is_short(&self, rules: &ContextPolicy) -> bool {
        self.left().is_none_or(|left| left < rules.evict_at.value.of(self.budget()))
    }

    /// What a step of a reduction is to come to; `None`: messages of so many tokens leave room enough without it. After a
    /// refusal the last resort goes as far as all others: nobody may know how much was too much.
    pub(crate) fn plan(
        &self,
        rules: &ContextPolicy,
        number: u32,
        step: &ReduceStep,
        tokens: u64,
        refused: bool,
    ) -> Option<ReducePlan> {
        let aim = self.aim(rules);
        let most = if refused { aim } else { self.most(rules) };
        let enough = if matches!(step, ReduceStep::Truncate { .. }) { most } else { aim };
        let (step, keep_task) = (step.clone(), rules.keep_task.value);
        (tokens > enough).then_some(ReducePlan { number, step, aim, most, input: None, keep_task })
    }

    /// How many tokens the messages may have, so that the conversation is not to be reduced.
    pub(crate) fn most(&self, rules: &ContextPolicy) -> u64 {
        self.budget().saturating_sub(rules.evict_at.value.of(self.budget()))
    }

    /// How many tokens the messages are to have after a reduction.
    pub(crate) fn aim(&self, rules: &ContextPolicy) -> u64 {
        self.budget().saturating_sub(rules.target.value.of(self.budget())).min(self.most(rules))
    }
}

impl fmt::Display for Room {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { window, reply, reserve, safety, tools, messages } = self;
        let budget = self.budget();
        write!(
            f,
            "window {window} - reply {reply} - reserve {reserve} - safety {safety} - tools {tools} = {budget} for \
             messages, which have {messages}"
        )
    }
}

impl Windows {
    /// Whether there is nothing to remember.
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    pub(super) const fn turn_begins(&mut self) {
        self.asked = false;
    }

    /// The window of a model: the smaller of the one the policy says and the one its provider told of.
    pub(super) fn of(&self, target: &str, policy: &ModelPolicy) -> Option<u64> {
        let told = match policy.context_window.value {
            ContextWindow::Tokens(tokens) => Some(tokens.get()),
            ContextWindow::Unknown => None,
        };
        told.into_iter().chain(self.learned.get(target).copied()).min()
    }

    /// Whether the window was told of by a provider.
    pub(super) fn is_learned(&self, target: &str, window: u64) -> bool {
        self.learned.get(target) == Some(&window)
    }

    /// A provider has refused what had `sent` tokens by our count, and `reply` more for the reply. Returns the window it has
    /// by our count.
    pub(super) fn learn(&mut self, target: &str, failure: &Failure, sent: u64, reply: u64) -> u64 {
        let whole = sent.saturating_add(reply);
        let told = match (failure.limit(), failure.size()) {
            // It counts other tokens than we do.
            (Some(limit), Some(size)) if size > sent => {
                let scaled = u128::from(limit).saturating_mul(sent.into()).checked_div(size.into());
                scaled.and_then(|scaled| u64::try_from(scaled).ok()).unwrap_or(limit)
            }
            (Some(limit), _) => limit,
            (None, _) => sent,
        };
        // What should have fitted did not.
        let window = if told >= whole { sent } else { told };
        let known = self.learned.entry(target.to_owned()).or_insert(window);
        *known = window.min(*known);
        *known
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
const fn is_zero(number: &u32) -> bool {
    *number == 0
}
