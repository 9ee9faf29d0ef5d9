//! The cooldowns of models: who rests, and until when.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::policy::{CooldownScope, ModelPolicy, TimeBound};
use crate::time::{Instant, Nanos};

/// The longest that a model rests because it asked for it. Who asks for centuries has computed it wrongly, and of a quota of months
/// one call a day is lost.
const LONGEST_REST: Nanos = Nanos::from_secs(86_400);

/// Cooldowns, by model or provider.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct TargetCooldowns(BTreeMap<String, Instant>);

impl TargetCooldowns {
    /// Whether there is no cooldown.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a model is in cooldown at `now`.
    pub(crate) fn holds(&self, target: &str, policy: &ModelPolicy, now: Instant) -> bool {
        self.0.get(&cooldown_key(target, policy)).is_some_and(|until| *until > now)
    }

    /// The end of the cooldown of a model; `None`: it is in none.
    pub(crate) fn until(&self, target: &str, policy: &ModelPolicy, now: Instant) -> Option<Instant> {
        self.0.get(&cooldown_key(target, policy)).copied().filter(|until| *until > now)
    }

    /// Starts a cooldown; `asked` is the server delay. Returns its end.
    pub(crate) fn add(
        &mut self,
        target: &str,
        policy: &ModelPolicy,
        asked: Option<Nanos>,
        now: Instant,
    ) -> Option<Instant> {
        let until = match policy.cooldown.value {
            TimeBound::Unlimited => Instant::MAX,
            // A cooldown of zero disables it, including server delays.
            TimeBound::Within(Nanos::ZERO) => return None,
            // The longer one counts: a model that asks for a minute refuses again after ten seconds.
            TimeBound::Within(length) => {
                now.saturating_add(asked.unwrap_or_default().min(LONGEST_REST).max(length))
            }
        };
        // Old entries are removed here, so the map stays as small as the list of models.
        self.0.retain(|_, until| *until > now);
        self.0.insert(cooldown_key(target, policy), until);
        Some(until)
    }

    /// The ends of all cooldowns, by [`cooldown_key`].
    #[cfg(feature = "serve")]
    pub(crate) fn all(&self) -> impl Iterator<Item = (&str, Instant)> {
        self.0.iter().map(|(name, until)| (name.as_str(), *until))
    }

    /// Sets the end of a cooldown; one that is past ends it.
    pub(crate) fn set(&mut self, name: String, until: Instant, now: Instant) {
        if until > now {
            self.0.insert(name, until);
        } else {
            self.0.remove(&name);
        }
    }

    /// Ends the cooldown of a model, or of its provider, after a reply.
    pub(crate) fn end(&mut self, target: &str, policy: &ModelPolicy) {
        // A reply proves that the provider accepts calls again; waiting for the end of the cooldown would only cost
        // quality.
        self.0.remove(&cooldown_key(target, policy));
    }
}

/// The name under which a cooldown is kept, and the pace of a provider.
pub(super) fn cooldown_key(target: &str, policy: &ModelPolicy) -> String {
    // The prefixes distinguish a model and a provider with the same name.
    match &policy.provider.value {
        CooldownScope::Own => format!("model {target}"),
        CooldownScope::Named(name) => format!("provider {name}"),
    }
}
