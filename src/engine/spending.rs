//! What a run has spent of its budgets, and how much of what is left one call may have.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::engine::ids::ProposalId;
use crate::policy::{Cost, Price};
use crate::session::Usage;
use crate::time::{Instant, Nanos};

/// With less for its reply no final turn is begun: what it could still say is not worth its request.
const LEAST: u64 = 64;
/// So many tokens the results of a reply have at least before the final turn.
const RESULTS: u64 = 1024;

/// What a run has spent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunSpending {
    /// Tokens of requests and replies: as providers report them, and where nobody reports them as they are counted here.
    #[serde(skip_serializing_if = "crate::session::is_default")]
    pub tokens: u64,
    /// What the calls of models cost, in picodollars; those of models without a price are not in it.
    #[serde(skip_serializing_if = "crate::session::is_default")]
    pub(super) picodollars: u64,
    /// Calls of models; every attempt and every summary is one.
    #[serde(skip_serializing_if = "crate::session::is_default")]
    pub model_calls: u32,
    /// Calls of tools that ran.
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
    /// What is kept for the calls of models in flight, of which each proposal has one at most.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) reserved: BTreeMap<ProposalId, CallReservation>,
    /// What the host found out about prices.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) prices: BTreeMap<String, Price>,
}

/// What is kept for a call of a model until it says what it used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct CallReservation {
    /// The model.
    pub(super) target: String,
    /// Tokens of the request, as they are counted.
    pub(super) input: u64,
    /// The most tokens of the reply.
    pub(super) output: u64,
}

/// What a token takes of a budget: one of tokens, or so many picodollars of money.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TokenRate {
    pub(super) input: u64,
    pub(super) output: u64,
}

/// A request, and what its tokens take of a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RatedRequest {
    pub(super) tokens: u64,
    pub(super) rate: TokenRate,
    /// The least that is worth asking for as a reply.
    pub(super) floor: u64,
}

impl RunSpending {
    /// What the calls of models cost; those of models without a price are not in it.
    pub const fn cost(&self) -> Cost {
        Cost(self.picodollars)
    }

    /// The tokens that are reserved for the calls of models in flight: of their requests, and of their replies at most.
    pub fn reserved(&self) -> Usage {
        self.reserved.values().map(CallReservation::usage).fold(Usage::default(), Usage::plus)
    }

    /// How long the run takes until then, in whole milliseconds.
    pub const fn time(&self, now: Instant) -> Nanos {
        Nanos::from_millis(now.since(self.started).0.div_ceil(1_000_000))
    }

    /// Whether nothing is to be remembered.
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// A call of a model is made.
    pub(super) fn reserve(&mut self, proposal: ProposalId, kept: CallReservation) {
        // Counted when it is made: a call that fails has been made, too, and several may be in flight.
        self.model_calls = self.model_calls.saturating_add(1);
        self.reserved.insert(proposal, kept);
    }

    /// A call of a tool begins.
    pub(super) const fn count_tool_call(&mut self) {
        self.tool_calls = self.tool_calls.saturating_add(1);
    }

    /// A call of a tool that was counted does not run after all.
    pub(super) const fn uncount_tool_call(&mut self) {
        self.tool_calls = self.tool_calls.saturating_sub(1);
    }

    /// These tokens were used.
    pub(super) fn charge(&mut self, usage: Usage, price: Option<Price>) {
        self.tokens = self.tokens.saturating_add(usage.total());
        let cost = price.map_or(0, |price| usage.cost(price).0);
        self.picodollars = self.picodollars.saturating_add(cost);
    }
}

impl CallReservation {
    /// The most that the call uses.
    pub(super) fn usage(&self) -> Usage {
        Usage { input: self.input, output: self.output, ..Usage::default() }
    }
}

impl TokenRate {
    /// Of a budget of tokens.
    pub(super) const TOKENS: Self = Self { input: 1, output: 1 };

    /// The most that tokens of that price take.
    pub(super) fn of(price: Price) -> Self {
        // The dearer of the prices there are (cached or not): a budget must hold in the worst case.
        Self { input: price.most_of_input(), output: price.most_of_output() }
    }

    /// The larger of both.
    pub(super) fn max(self, other: Self) -> Self {
        Self { input: self.input.max(other.input), output: self.output.max(other.output) }
    }
}

impl RatedRequest {
    /// The most tokens of its reply if it is the final turn and `left` is left; `None`: not enough for one.
    pub(super) fn most_of_final(self, left: u64) -> Option<u64> {
        let rest = u128::from(left).checked_sub(product(self.tokens, self.rate.input))?;
        Some(divided(rest, self.rate.output.into())).filter(|most| *most >= self.floor.min(LEAST))
    }

    /// The most tokens of its reply if the final turn is to come after it: its reply, and the results it asks for, are
    /// a part of the request of `end` then. `None`: not enough for one.
    pub(super) fn most_before(self, end: Self, left: u64) -> Option<u64> {
        // The results of this reply are a part of the final request, so tokens for some of them are kept.
        let end_input = product(end.tokens.saturating_add(RESULTS), end.rate.input);
        let kept = end_input.saturating_add(product(end.floor, end.rate.output));
        let taken = product(self.tokens, self.rate.input).saturating_add(kept);
        let rest = u128::from(left).checked_sub(taken)?;
        // A token of this reply is paid twice: as output now, and as input of the final turn that sends it again.
        let each = u128::from(self.rate.output).saturating_add(end.rate.input.into());
        Some(divided(rest, each)).filter(|most| *most >= self.floor)
    }

    /// What [`Self::most_of_final`] asks for, for people.
    pub(super) fn needs_as_final(self) -> String {
        let least = self.floor.min(LEAST);
        format!("the call takes {} tokens for its request, and {least} at least for its reply", self.tokens)
    }

    /// What [`Self::most_before`] asks for, for people.
    pub(super) fn needs_before(self, end: Self) -> String {
        let kept = end.tokens.saturating_add(RESULTS).saturating_add(end.floor);
        format!(
            "the call takes {} tokens for its request, and {} at least for its reply, which the final turn sends again; {kept} \
             more are kept for the final turn",
            self.tokens, self.floor
        )
    }

    /// How many tokens the final request may have if `left` is left and its reply keeps the floor.
    pub(super) fn most_of_request(self, left: u64) -> u64 {
        let rest = u128::from(left).saturating_sub(product(self.floor, self.rate.output));
        divided(rest, self.rate.input.into())
    }
}

fn product(tokens: u64, rate: u64) -> u128 {
    u128::from(tokens).saturating_mul(rate.into())
}

/// How many there are; what costs nothing has no end.
fn divided(rest: u128, each: u128) -> u64 {
    // A price of zero takes nothing of the budget, so it sets no limit.
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
            // A price of nothing has no most.
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
