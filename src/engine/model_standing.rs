//! How a model stands with a run: its cooldown, and the pace of its calls.

use super::machine::pool_of_model;
pub use super::machine::{PaceStanding, RateStanding};
use super::state::State;
use crate::policy::ModelPolicy;
use crate::time::Instant;

/// How a model stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModelStanding {
    /// The end of its cooldown; `None`: it is in none.
    pub cooldown_until: Option<Instant>,
    /// The pace of its calls; `None`: they have no limit.
    pub pace: Option<PaceStanding>,
}

impl State {
    /// How a model stands under that policy.
    pub fn model_standing(&self, target: &str, policy: &ModelPolicy, now: Instant) -> ModelStanding {
        ModelStanding {
            cooldown_until: self.models.rests_until(target, policy, now),
            pace: self.pace.standing(pool_of_model(target, policy), now),
        }
    }
}
