//! The amounts spent from a run's budgets, and the amount that one call may use.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::engine::ids::ProposalId;
use crate::policy::{Cost, Price};
use crate::session::Usage;
use crate::time::{Instant, Nanos};

/// The minimum reply tokens for a final turn: with less it is not worth its request.
const LEAST: u64 = 64;
/// The minimum tokens for the results of a reply before the final turn.
const RESULTS: u64 = 1024;

/// The amounts spent in a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunSpending {
    /// Tokens of requests and replies, as reported by providers or else as counted here.
    #[serde(skip_serializing_if = "crate::session::is_default")]
    pub tokens: u64,
    /// The cost of model calls, in picodollars; models without a price are not included.
    #[serde(skip_serializing_if = "crate::session::is_default")]
    pub(super) picodollars: u64,
    /// Model calls; every attempt and every summary counts.
    #[serde(skip_serializing_if = "crate::session::is_default")]
    pub model_calls: u32,
    /// Tool calls that ran.
    #[serde(skip_serializing_if = "crate::session::is_default")]
    pub tool_calls: u32,
    /// The time spent waiting for models.
    #[serde(skip_serializing_if = "crate::session::is_default")]
    pub waited: Nanos,
    /// When the run began.
    pub(super) started: Instant,
    /// When its final turn began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) ending: Option<Instant>,
    /// The reservations for model calls in flight; each proposal has at most one.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) reserved: BTreeMap<ProposalId, CallReservation>,
    /// The prices that the host found.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) prices: BTreeMap<String, Price>,
}

/// The reservation for a model call until its usage is known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct CallReservation {
    /// The model.
    pub(super) target: String,
    /// The counted tokens of the request.
    pub(super) input: u64,
    /// The maximum tokens of the reply.
    pub(super) output: u64,
}

/// The cost of a token in the unit of a budget: one token, or picodollars.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TokenRate {
    pub(super) input: u64,
    pub(super) output: u64,
}

/// A request with its rates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RatedRequest {
    pub(super) tokens: u64,
    pub(super) rate: TokenRate,
    /// The minimum reply that is worth a request.
    pub(super) floor: u64,
}

impl RunSpending {
    /// The cost of model calls; models without a price are not included.
    pub const fn cost(&self) -> Cost {
        Cost(self.picodollars)
    }

    /// The tokens reserved for model calls in flight: their requests, and their maximum replies.
    pub fn reserved(&self) -> Usage {
        self.reserved.values().map(CallReservation::usage).fold(Usage::default(), Usage::plus)
    }

    /// The duration of the run until `now`, rounded up to whole milliseconds.
    pub const fn time(&self, now: Instant) -> Nanos {
        Nanos::from_millis(now.since(self.started).0.div_ceil(1_000_000))
    }

    /// Whether nothing was spent.
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Counts a model call and reserves its tokens.
    pub(super) fn reserve(&mut self, proposal: ProposalId, kept: CallReservation) {
        // Counted when it is made: a failed call counts as well, and several may be in flight.
        self.model_calls = self.model_calls.saturating_add(1);
        self.reserved.insert(proposal, kept);
    }

    /// Counts a tool call that starts.
    pub(super) const fn count_tool_call(&mut self) {
        self.tool_calls = self.tool_calls.saturating_add(1);
    }

    /// Subtracts a counted tool call that does not run.
    pub(super) const fn uncount_tool_call(&mut self) {
        self.tool_calls = self.tool_calls.saturating_sub(1);
    }

    /// Charges used tokens.
    pub(super) fn charge(&mut self, usage: Usage, price: Option<Price>) {
        self.tokens = self.tokens.saturating_add(usage.total());
        let cost = price.map_or(0, |price| usage.cost(price).0);
        self.picodollars = self.picodollars.saturating_add(cost);
    }
}

impl CallReservation {
    /// The maximum usage of the call.
    pub(super) fn usage(&self) -> Usage {
        Usage { input: self.input, output: self.output, ..Usage::default() }
    }
}

impl TokenRate {
    /// The rate for a budget of tokens.
    pub(super) const TOKENS: Self = Self { input: 1, output: 1 };

    /// The maximum rate for tokens of this price.
    pub(super) fn of(price: Price) -> Self {
        // The higher of the prices (cached or not): a budget must hold in the worst case.
        Self { input: price.most_of_input(), output: price.most_of_output() }
    }

    /// The larger of both.
    pub(super) fn max(self, other: Self) -> Self {
        Self { input: self.input.max(other.input), output: self.output.max(other.output) }
    }
}

impl RatedRequest {
    /// The maximum reply tokens in the final turn if `left` is left; `None`: not enough for one.
    pub(super) fn most_of_final(self, left: u64) -> Option<u64> {
        let rest = u128::from(left).checked_sub(product(self.tokens, self.rate.input))?;
        Some(divided(rest, self.rate.output.into())).filter(|most| *most >= self.floor.min(LEAST))
    }

    /// The maximum reply tokens before the final turn, whose request `end` then includes this reply and its results.
    /// `None`: not enough for one.
    pub(super) fn most_before(self, end: Self, left: u64) -> Option<u64> {
        // The results of this reply are part of the final request, so tokens for some of them are reserved.
        let end_input = product(end.tokens.saturating_add(RESULTS), end.rate.input);
        let kept = end_input.saturating_add(product(end.floor, end.rate.output));
        let taken = product(self.tokens, self.rate.input).saturating_add(kept);
        let rest = u128::from(left).checked_sub(taken)?;
        // A token of this reply is paid twice: as output now, and as input of the final turn.
        let each = u128::from(self.rate.output).saturating_add(end.rate.input.into());
        Some(divided(rest, each)).filter(|most| *most >= self.floor)
    }

    /// The requirement of [`Self::most_of_final`], for people.
    pub(super) fn needs_as_final(self) -> String {
        let least = self.floor.min(LEAST);
        format!("the call takes {} tokens for its request, and {least} at least for its reply", self.tokens)
    }

    /// The requirement of [`Self::most_before`], for people.
    pub(super) fn needs_before(self, end: Self) -> String {
        let kept = end.tokens.saturating_add(RESULTS).saturating_add(end.floor);
        format!(
            "the call takes {} tokens for its request, and {} at least for its reply, which the final turn sends again; {kept} \
             more are kept for the final turn",
            self.tokens, self.floor
        )
    }

    /// The maximum tokens of the final request if `left` is left and its reply has the minimum size.
    pub(super) fn most_of_request(self, left: u64) -> u64 {
        let rest = u128::from(left).saturating_sub(product(self.floor, self.rate.output));
        divided(rest, self.rate.input.into())
    }
}

fn product(tokens: u64, rate: u64) -> u128 {
    u128::from(tokens).saturating_mul(rate.into())
}

/// The quotient; unlimited for a price of zero.
fn divided(rest: u128, each: u128) -> u64 {
    // A price of zero uses nothing of the budget, so it sets no limit.
    rest.checked_div(each).map_or(u64::MAX, |most| u64::try_from(most).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn after_a_turn_there_is_enough_for_the_final_one(
            tokens in 0u64..200_000, left in 0u64..2_000_000_000_000, floor in 1u64..2_000,
            prices in prop::array::uniform4(0u64..20_000_000), results in 0u64..=RESULTS,
        ) {
            let [input, output, end_input, end_output] = prices;
            let turn = RatedRequest { tokens, rate: TokenRate { input, output }, floor };
            let end = RatedRequest { rate: TokenRate { input: end_input, output: end_output }, ..turn };
            let Some(reply) = turn.most_before(end, left) else { return Ok(()) };
            prop_assert!(reply >= floor);
            // A price of zero has no maximum.
            let reply = reply.min(1_000_000);
            let spent = product(tokens, input) + product(reply, output);
            prop_assert!(spent <= u128::from(left));
            let left = u64::try_from(u128::from(left) - spent).unwrap();
            let end = RatedRequest { tokens: tokens + reply + results, ..end };
            prop_assert!(end.most_of_final(left).is_some_and(|most| most >= floor));
            prop_assert!(end.most_of_request(left) >= end.tokens);
        }

        #[test]
        fn a_final_turn_spends_no_more_than_is_left(
            tokens in 0u64..200_000, left in 0u64..2_000_000_000_000, input in 0u64..20_000_000, output in 1u64..20_000_000,
        ) {
            let end = RatedRequest { tokens, rate: TokenRate { input, output }, floor: 1024 };
            if let Some(reply) = end.most_of_final(left) {
                prop_assert!(product(tokens, input) + product(reply, output) <= u128::from(left));
            }
        }
    }
}
