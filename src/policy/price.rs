//! What the tokens of a model cost, in whole numbers: no float, and nothing is rounded.

use core::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};

/// What the tokens of a model cost: US dollars per million, in millionths of a dollar. That is the same number as
/// picodollars a token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Price {
    /// Tokens of the request.
    /// Example: `2500000`
    pub input: u64,
    /// Tokens of the reply.
    /// Example: `10000000`
    pub output: u64,
    /// Tokens of the request that were read from a cache; `None`: as much as any other.
    /// Example: `250000`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_read: Option<u64>,
    /// Tokens of the request that were written into a cache; `None`: as much as any other.
    /// Example: `3125000`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_write: Option<u64>,
    /// Tokens of the reply that are reasoning; `None`: as much as any other.
    /// Example: `10000000`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<u64>,
}

/// What a policy says of the price of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelPrice {
    /// This.
    Known(Price),
    /// Nothing.
    Unknown,
}

/// An amount of money, in picodollars: millionths of a millionth of a US dollar. It saturates at some 18 million dollars.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cost(pub u64);

impl ModelPrice {
    /// The price, if it is known.
    pub const fn known(self) -> Option<Price> {
        match self {
            Self::Known(price) => Some(price),
            Self::Unknown => None,
        }
    }
}

impl Price {
    /// The most that one token of a request costs.
    pub fn most_of_input(self) -> u64 {
        // Writing to a cache may cost more than plain input (1.25 times at Anthropic), so a reservation takes the
        // highest.
        let cached = [self.cache_read, self.cache_write].into_iter().flatten();
        cached.fold(self.input, u64::max)
    }

    /// The most that one token of a reply costs.
    pub fn most_of_output(self) -> u64 {
        self.reasoning.map_or(self.output, |reasoning| reasoning.max(self.output))
    }
}

impl Cost {
    /// One US dollar.
    pub const DOLLAR: u64 = 1_000_000_000_000;

    /// What so many tokens at so many picodollars each cost together.
    pub fn of(parts: impl IntoIterator<Item = (u64, u64)>) -> Self {
        let sum = parts.into_iter().fold(0_u128, |sum, (tokens, price)| {
            sum.saturating_add(u128::from(tokens).saturating_mul(u128::from(price)))
        });
        Self(u64::try_from(sum).unwrap_or(u64::MAX))
    }

    /// Both together; saturating.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

/// In US dollars, exactly: `0.00125`.
impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.div_euclid(Self::DOLLAR))?;
        let rest = format!("{:012}", self.0.rem_euclid(Self::DOLLAR));
        match rest.trim_end_matches('0') {
            "" => Ok(()),
            digits => write!(f, ".{digits}"),
        }
    }
}

/// In US dollars, as a number that other programs can add up.
impl Serialize for Cost {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        // Only shown and never computed with, so the nearest float is good enough.
        let dollars: f64 = self.to_string().parse().unwrap_or_default();
        to.serialize_f64(dollars)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cost_is_a_number_for_other_programs() {
        assert_eq!(serde_json::to_string(&Cost(1_250_000_000)).unwrap(), "0.00125");
        assert_eq!(serde_json::to_string(&Cost::default()).unwrap(), "0.0");
        assert_eq!(
            (Cost::default().to_string(), Cost(3 * Cost::DOLLAR).to_string()),
            ("0".into(), "3".into())
        );
    }

    #[test]
    fn the_dearest_kind_of_token_is_what_is_reserved_for() {
        let plain = Price { input: 3, output: 15, ..Price::default() };
        assert_eq!((plain.most_of_input(), plain.most_of_output()), (3, 15));
        let cached = Price { cache_read: Some(1), cache_write: Some(4), reasoning: Some(20), ..plain };
        assert_eq!((cached.most_of_input(), cached.most_of_output()), (4, 20));
    }
}
