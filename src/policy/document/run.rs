//! `limits.run:` what a run may spend.

use core::num::{NonZeroU32, NonZeroU64};

use super::lasting::NonZeroTime;
use super::price::CostLimit;
use crate::policy::decode::{Spanned, record};
use crate::policy::{LayerKind, RunLimits, Setting};
use crate::time::Nanos;

record! {
    /// What a run may spend, from its start to its end, however often it is resumed. The final turn comes while enough is
    /// left for it. Of each the tightest value of all layers wins.
    /// Example: `{"time": "30m", "tokens": 200000, "cost": 0.50}`
    #[part(true)]
    pub(crate) struct RunLimitsRule {
        /// The longest a run may take. A share of it is kept for the final turn.
        /// Checks: W0256.
        /// Example: `30m`
        pub(crate) time: Option<Spanned<NonZeroTime<Nanos>>>,
        /// The most tokens of requests and replies together.
        /// Checks: W0256.
        /// Example: `200000`
        pub(crate) tokens: Option<Spanned<NonZeroU64>>,
        /// The most US dollars that all calls of models may cost together. Every model needs a price.
        /// Checks: P0206, W0256.
        /// Example: `0.50`
        pub(crate) cost: Option<Spanned<CostLimit>>,
        /// The most calls of models; every attempt and every summary is one.
        /// Checks: W0256.
        /// Example: `40`
        pub(crate) model_calls: Option<Spanned<NonZeroU32>>,
        /// The most calls of tools that run, however often each is attempted. What is beyond gets a result that says so.
        /// Example: `100`
        pub(crate) tool_calls: Option<Spanned<u32>>,
    }
}

impl RunLimits {
    /// Adds one more layer: the tighter value holds.
    pub(crate) fn fold(&mut self, rule: &RunLimitsRule) {
        let RunLimitsRule { time, tokens, cost, model_calls, tool_calls } = rule;
        tighter(&mut self.time, *time, |time| time.0);
        tighter(&mut self.tokens, *tokens, NonZeroU64::get);
        tighter(&mut self.cost, *cost, |cost| cost.0);
        tighter(&mut self.model_calls, *model_calls, NonZeroU32::get);
        tighter(&mut self.tool_calls, *tool_calls, |calls| calls);
    }

    /// These, and of what they say nothing about, `below`: the built-in values are only what holds without others.
    pub(crate) fn or(self, below: &Self) -> Self {
        Self {
            time: self.time.or(below.time),
            tokens: self.tokens.or(below.tokens),
            cost: self.cost.or(below.cost),
            model_calls: self.model_calls.or(below.model_calls),
            tool_calls: self.tool_calls.or(below.tool_calls),
        }
    }
}

fn tighter<T: Copy, V: Copy + Ord>(
    held: &mut Option<Setting<V>>,
    said: Option<Spanned<T>>,
    value: impl Fn(T) -> V,
) {
    let Some(said) = said else { return };
    let value = value(said.value);
    if held.as_ref().is_none_or(|held| value < held.value) {
        *held = Some(Setting::new(value, said.span.origin(LayerKind::Limit)));
    }
}
