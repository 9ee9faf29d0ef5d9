//! The budgets of a run: what it may spend at most before its final turn has to come.

use serde_json::Value;

use super::key_value::KeyValue;
use super::{Cost, Setting};
use crate::time::Nanos;

/// The budgets of a run. What is `None` has no bound.
#[derive(Clone, Debug, Default)]
pub struct RunLimits {
    /// The longest a run may take, from its start.
    pub time: Option<Setting<Nanos>>,
    /// The most tokens of requests and replies together.
    pub tokens: Option<Setting<u64>>,
    /// The most that all calls of models may cost together.
    pub cost: Option<Setting<Cost>>,
    /// The most calls of models; every attempt and every summary is one.
    pub model_calls: Option<Setting<u32>>,
    /// The most calls of tools that run, however often each is attempted.
    pub tool_calls: Option<Setting<u32>>,
}

impl RunLimits {
    /// So many tokens of a reply the final turn has at least, and every turn before it.
    pub const LEAST_REPLY: u64 = 1024;

    /// The share of a time budget that is kept for the final turn: a tenth, but ten seconds at least and five minutes at
    /// most, and never more than half.
    pub fn share_of_the_end(time: Nanos) -> Nanos {
        let tenth = time.share(100_000);
        tenth.clamp(Nanos::from_secs(10), Nanos::from_secs(300)).min(time.share(500_000))
    }

    /// Whether nothing has a bound.
    pub const fn is_empty(&self) -> bool {
        let Self { time, tokens, cost, model_calls, tool_calls } = self;
        time.is_none() && tokens.is_none() && cost.is_none() && model_calls.is_none() && tool_calls.is_none()
    }

    /// Every budget there is, by its path.
    pub(crate) fn each(&self) -> Vec<(&'static str, KeyValue)> {
        fn limit<V: Copy + PartialOrd + 'static>(
            limit: Option<&Setting<V>>,
            show: impl Fn(V) -> Value,
        ) -> Option<KeyValue> {
            limit.map(|limit| KeyValue::limit(limit.value, show(limit.value), limit.origin))
        }
        let Self { time, tokens, cost, model_calls, tool_calls } = self;
        let all = [
            ("run.time", limit(time.as_ref(), |time| time.to_string().into())),
            ("run.tokens", limit(tokens.as_ref(), Value::from)),
            ("run.cost", limit(cost.as_ref(), dollars)),
            ("run.model_calls", limit(model_calls.as_ref(), Value::from)),
            ("run.tool_calls", limit(tool_calls.as_ref(), Value::from)),
        ];
        all.into_iter().filter_map(|(name, limit)| Some((name, limit?))).collect()
    }
}

/// An amount as policies write it: a number of US dollars.
pub(crate) fn dollars(cost: Cost) -> Value {
    serde_json::to_value(cost).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenth_of_the_time_is_kept_for_the_end() {
        for (time, kept) in [(4, 2), (30, 10), (600, 60), (1800, 180), (86_400, 300)] {
            assert_eq!(
                RunLimits::share_of_the_end(Nanos::from_secs(time)),
                Nanos::from_secs(kept),
                "{time} s"
            );
        }
    }
}
