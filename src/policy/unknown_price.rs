//! A price that nobody says, where a run may cost so much at most.

use super::{Policy, Price};
use crate::text::Place;

/// The policy bounds what a run may cost (`limits.run.cost`), and the price of a model is unknown.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{place}: `cost` bounds what a run may spend, and the price of the model `{model}` is unknown; write `price` for it into the \
     policy or the agent file"
)]
pub struct UnknownPrice {
    /// The model.
    pub model: String,
    /// Where the budget is written.
    pub place: Place,
}

impl Policy {
    /// Whether the price of each of these models is known, if the policy bounds what a run may cost. A price beside a name
    /// is what the host knows; what the policy says overrides it.
    ///
    /// # Errors
    /// The first model whose price nobody says.
    pub fn prices<'m>(
        &self,
        models: impl IntoIterator<Item = (&'m str, Option<Price>)>,
    ) -> Result<(), UnknownPrice> {
        // Money cannot be counted without a price. Refusing the policy beats a run that spends without end.
        let Some(cost) = &self.run_limits().cost else { return Ok(()) };
        let unknown = |(model, known): &(&str, Option<Price>)| {
            known.is_none() && self.model(model).price.value.known().is_none()
        };
        match models.into_iter().find(unknown) {
            Some((model, _)) => Err(UnknownPrice { model: model.to_owned(), place: self.place(cost.origin) }),
            None => Ok(()),
        }
    }
}
