//! What hosts share of a pool: what its calls have taken of its rates, and the pause that a server asked for.
//!
//! A host decides by its own clock and reports what its calls take at once. So hosts that start calls at the same time can
//! exceed a rate by what starts before they have received each other's reports; it is a debt of the common clock, and
//! later calls of all of them start later.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::pace_clock::PaceClock;
use crate::policy::PaceScope;
use crate::session::is_default;
use crate::time::Instant;

/// Who shares something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SharingScope {
    /// The runs of this process.
    Process,
    /// The runs of all hosts.
    Hosts,
}

/// What all hosts know of a pool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct SharedPace {
    /// The clock of its requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) requests: Option<PaceClock>,
    /// The clock of its tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tokens: Option<PaceClock>,
    /// The end of the pause that a server asked for, in nanoseconds since 1970; 0: none did.
    #[serde(skip_serializing_if = "is_default")]
    pub(super) held_until: Instant,
    /// What calls of this host have taken of it that the others had not received before.
    #[serde(skip_serializing_if = "is_default")]
    pub(super) reported: PaceUse,
}

/// With whom a pool is shared, and what the others have not received.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PoolSharing {
    pub(super) scope: SharingScope,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(super) unreported: PaceUse,
}

/// What calls have taken of a pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub(super) struct PaceUse {
    /// The requests.
    #[serde(skip_serializing_if = "is_default")]
    pub(super) requests: u64,
    /// The tokens.
    #[serde(skip_serializing_if = "is_default")]
    pub(super) tokens: u64,
    /// The tokens that were not used after all.
    #[serde(skip_serializing_if = "is_default")]
    pub(super) returned: u64,
    /// The end of a pause, in nanoseconds since 1970.
    #[serde(skip_serializing_if = "is_default")]
    pub(super) held_until: Instant,
}

impl PoolSharing {
    pub(super) fn new(scope: SharingScope) -> Self {
        Self { scope, unreported: PaceUse::default() }
    }
}

impl PaceUse {
    /// What is left of it once the others have received that much.
    pub(super) fn without(self, reported: Self) -> Self {
        let is_held = self.held_until > reported.held_until;
        Self {
            requests: self.requests.saturating_sub(reported.requests),
            tokens: self.tokens.saturating_sub(reported.tokens),
            returned: self.returned.saturating_sub(reported.returned),
            held_until: if is_held { self.held_until } else { Instant::default() },
        }
    }
}

impl SharedPace {
    /// The form for other hosts.
    pub(super) fn for_others(&self) -> Self {
        Self { reported: PaceUse::default(), ..self.clone() }
    }
}

impl SharingScope {
    /// Who shares a pace of that scope; `None`: nobody.
    pub(in crate::engine) const fn of(scope: PaceScope) -> Option<Self> {
        match scope {
            PaceScope::Run => None,
            PaceScope::Process => Some(Self::Process),
            PaceScope::Shared => Some(Self::Hosts),
        }
    }
}

/// The clock that others know, with what was taken of the own one and returned to it since.
///
/// What counts of it is at most a burst, or what the own clock still waits for: the rate has released the rest since. So a
/// host that could not report for an hour does not hold the others up for what it took in that hour.
pub(super) fn joined(
    known: Option<PaceClock>,
    own: Option<&PaceClock>,
    (taken, returned): (u64, u64),
    now: Instant,
) -> Option<PaceClock> {
    // All that was taken of the own clock is in it.
    let Some(mut all) = known else { return own.cloned() };
    let net = taken.saturating_sub(returned);
    if let Some(own) = own {
        all.follow(own.rate(), now);
        if net > 0 {
            all.take(net.min(own.most_due(now)), now);
        }
    }
    all.give_back(returned.saturating_sub(taken));
    Some(all)
}

/// Whether a clock stands otherwise than the own one; one that does not exist has all of its units.
pub(super) fn is_other(all: Option<&PaceClock>, own: Option<&PaceClock>, now: Instant) -> bool {
    match (all, own) {
        (Some(all), Some(own)) => !all.stands_as(own, now),
        (Some(all), None) => !all.stands_as(&PaceClock::new(all.rate(), now), now),
        (None, _) => false,
    }
}
