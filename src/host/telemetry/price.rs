//! What is known about a model besides how it is called, and what its tokens cost.

use core::fmt;

use serde::{Serialize, Serializer};

use crate::session::Usage;

/// What telemetry says about a model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModelFacts {
    /// Who serves it, by the names of OpenTelemetry's conventions where they have one: `openai`, `anthropic`.
    pub provider: String,
    /// Its name on the server.
    pub model: String,
    /// What its tokens cost, if that is known.
    pub price: Option<Price>,
}

/// What the tokens of a model cost: US dollars per million, in millionths of a dollar. So no float is needed, and
/// that is the same number as picodollars a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Price {
    /// Tokens of the request.
    pub input: u64,
    /// Tokens of the reply.
    pub output: u64,
    /// Tokens of the request that were read from a cache; `None`: as much as any other.
    pub cache_read: Option<u64>,
    /// Tokens of the request that were written into a cache; `None`: as much as any other.
    pub cache_write: Option<u64>,
}

/// An amount of money, in picodollars: millionths of a millionth of a US dollar.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cost(pub u64);

impl Price {
    /// What these tokens cost.
    pub(super) fn of(self, tokens: Usage) -> Cost {
        let cached = tokens.cache_read.saturating_add(tokens.cache_write);
        let parts = [
            (tokens.input.saturating_sub(cached), self.input),
            (tokens.output, self.output),
            (tokens.cache_read, self.cache_read.unwrap_or(self.input)),
            (tokens.cache_write, self.cache_write.unwrap_or(self.input)),
        ];
        let sum = parts
            .into_iter()
            .fold(0_u64, |sum, (tokens, price)| sum.saturating_add(tokens.saturating_mul(price)));
        Cost(sum)
    }
}

impl Cost {
    /// One of a US dollar.
    const DOLLAR: u64 = 1_000_000_000_000;

    /// Both together; saturating.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

/// In US dollars, exactly: `0.00125`.
impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0 / Self::DOLLAR)?;
        let rest = format!("{:012}", self.0 % Self::DOLLAR);
        match rest.trim_end_matches('0') {
            "" => Ok(()),
            digits => write!(f, ".{digits}"),
        }
    }
}

/// In US dollars, as a number that other programs can add up.
impl Serialize for Cost {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        // Shown, never computed with; what is shown reads back as the nearest there is.
        let dollars: f64 = self.to_string().parse().unwrap_or_default();
        to.serialize_f64(dollars)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRICE: Price =
        Price { input: 2_500_000, output: 10_000_000, cache_read: Some(250_000), cache_write: None };

    #[test]
    fn tokens_cost_what_the_price_says() {
        let usage = Usage { input: 1_000_000, output: 100_000, ..Usage::default() };
        assert_eq!(PRICE.of(usage).to_string(), "3.5");
        assert_eq!(PRICE.of(Usage { input: 1, ..Usage::default() }).to_string(), "0.0000025");
    }

    #[test]
    fn tokens_of_a_cache_have_a_price_of_their_own() {
        let tokens = Usage { input: 1_000_000, output: 0, cache_read: 800_000, cache_write: 100_000 };
        // 100 000 and the 100 000 written at 2.50, 800 000 at 0.25.
        assert_eq!(PRICE.of(tokens).to_string(), "0.7");
    }

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
    fn no_number_of_tokens_overflows() {
        let tokens = Usage { input: u64::MAX, output: u64::MAX, cache_read: u64::MAX, cache_write: 1 };
        assert_eq!(PRICE.of(tokens), Cost(u64::MAX));
    }
}
