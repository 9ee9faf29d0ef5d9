//! One pool of pace: its limits, and when a call of it may start.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::adaptive_pace::AdaptivePace;
use super::learned_paces::LearnedPaces;
use super::outage_gate::{CallOutcome, OutageGate};
use crate::engine::ids::{ProposalId, WorkId};
use crate::engine::pace_clock::PaceClock;
use crate::engine::shared_pace::{PoolSharing, SharingScope};
use crate::policy::{PaceRate, ProbeRule};
use crate::time::{Instant, Nanos};

/// The tokens expected for a reply before any was seen.
// Most replies of agents are tool calls; the mean of the pool's replies replaces this soon.
const FIRST_REPLY: u64 = 500;
/// When a call asks again that waits for the end of others. An end makes it start earlier.
const ASK_AGAIN: Nanos = Nanos::from_secs(60);

/// The calls that share a pace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PacePool {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) requests: Option<PaceClock>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) tokens: Option<PaceClock>,
    /// What the answers of the provider say of its limits.
    #[serde(default, skip_serializing_if = "crate::session::is_default")]
    pub(super) learned: LearnedPaces,
    /// The rate that is tried after refusals.
    #[serde(default, skip_serializing_if = "crate::session::is_default")]
    pub(super) adaptive: AdaptivePace,
    /// How many calls may be in flight while the provider is down.
    #[serde(default, skip_serializing_if = "OutageGate::is_unused")]
    pub(super) gate: OutageGate,
    /// The end of the pause that a server asked for.
    #[serde(default, skip_serializing_if = "crate::session::is_default")]
    pub(super) held_until: Instant,
    /// The mean of the tokens of its replies; 0 before the first.
    #[serde(default, skip_serializing_if = "crate::session::is_default")]
    pub(super) mean_reply: u64,
    /// With whom it is shared; `None`: with nobody.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) sharing: Option<PoolSharing>,
    /// The waiting calls, the oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) waiting: Vec<WaitingCall>,
}

/// A call that waits for its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::engine) struct WaitingCall {
    pub(super) ticket: u64,
    pub(super) work: WorkId,
    /// The end of its wait.
    pub(super) until: Instant,
    pub(super) tokens: u64,
    pub(super) bounds: PaceBounds,
}

/// The limits that hold for a call. Others of its pool may have further ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PaceBounds {
    #[serde(default, skip_serializing_if = "crate::session::is_default")]
    pub(super) requests: bool,
    #[serde(default, skip_serializing_if = "crate::session::is_default")]
    pub(super) tokens: bool,
    #[serde(default, skip_serializing_if = "crate::session::is_default")]
    pub(super) learned: LearnedBound,
    #[serde(default, skip_serializing_if = "crate::session::is_default")]
    flight: FlightBounds,
}

/// Which limits hold that no policy has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::engine) enum LearnedBound {
    #[default]
    None,
    /// Those that answers state.
    Headers,
    /// A rate found from refusals, too.
    Refusals,
}

/// What limits the calls of a pool that are in flight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FlightBounds {
    /// So many may be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    concurrency: Option<u32>,
    /// One at a time while the provider fails every call.
    #[serde(default, skip_serializing_if = "crate::session::is_default")]
    gated: bool,
}

/// A model call in flight.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PacedCall {
    pub(super) pool: String,
    /// The tokens taken for it.
    pub(super) tokens: u64,
    /// When it began, if the limits in its answer count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) learns_since: Option<Instant>,
    /// Whether its tokens are in what its answer says is left.
    #[serde(default, skip_serializing_if = "crate::session::is_default")]
    pub(super) is_counted: bool,
    /// Whether its end moves the rate that is found from refusals.
    #[serde(default, skip_serializing_if = "crate::session::is_default")]
    pub(super) adapts: bool,
    /// Whether it waited for its turn.
    #[serde(default, skip_serializing_if = "crate::session::is_default")]
    pub(super) waited: bool,
    /// The epoch of the gate in which it began.
    #[serde(default, skip_serializing_if = "crate::session::is_default")]
    pub(super) epoch: u32,
}

/// The limits for a call.
#[derive(Clone, Debug)]
pub(in crate::engine) struct PaceTerms {
    /// The pool.
    pub(in crate::engine) pool: String,
    pub(in crate::engine) requests: Option<PaceRate>,
    pub(in crate::engine) tokens: Option<PaceRate>,
    /// What counts of the answers of the provider.
    pub(in crate::engine) learns: LearnedBound,
    /// The calls of the pool that may be in flight.
    pub(in crate::engine) concurrency: Option<u32>,
    /// When one call at a time is a probe.
    pub(in crate::engine) breaker: Option<ProbeRule>,
    /// With whom the pool is shared; `None`: with nobody.
    pub(in crate::engine) shared: Option<SharingScope>,
    /// The tokens of its request.
    pub(in crate::engine) request: u64,
    /// The longest it may wait.
    pub(in crate::engine) max_wait: Option<Nanos>,
}

/// What holds a call back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::engine) enum PaceRule {
    /// A server asked for a pause.
    Hint,
    Requests,
    Tokens,
    /// The provider said how much it allows.
    Learned,
    /// The provider refused calls.
    Refusals,
    /// As many calls are in flight as may be.
    Concurrency,
    /// The provider fails every call.
    Breaker,
}

/// When a call may start.
pub(super) struct PaceDue {
    pub(super) at: Instant,
    /// The limit that decides.
    pub(super) by: PaceRule,
    /// The calls before it.
    pub(super) ahead: usize,
    /// Whether the end of another call is what it waits for.
    pub(super) is_open: bool,
}

/// The calls of a pool that are in flight.
#[derive(Clone, Copy, Default)]
pub(super) struct PoolFlight {
    pub(super) all: u32,
    /// Those that began since the gate closed.
    pub(super) probes: u32,
}

impl PaceTerms {
    /// Whether there is any limit.
    pub(super) const fn are_limited(&self) -> bool {
        self.requests.is_some() || self.is_flight_kept()
    }

    /// Whether the end of the call says something to its pool.
    pub(super) const fn is_flight_kept(&self) -> bool {
        let learns = !matches!(self.learns, LearnedBound::None);
        self.tokens.is_some() || learns || self.concurrency.is_some() || self.breaker.is_some()
    }

    pub(super) const fn bounds(&self) -> PaceBounds {
        let Self { requests, tokens, learns, concurrency, breaker, .. } = self;
        PaceBounds {
            requests: requests.is_some(),
            tokens: tokens.is_some(),
            learned: *learns,
            flight: FlightBounds { concurrency: *concurrency, gated: breaker.is_some() },
        }
    }
}

impl WaitingCall {
    /// The call with another end of its wait.
    pub(in crate::engine) const fn until(self, until: Instant) -> Self {
        Self { until, ..self }
    }
}

impl PacePool {
    /// Takes over the rates of a call's rules.
    pub(super) fn follow(&mut self, terms: &PaceTerms, now: Instant) {
        if let Some(rule) = terms.breaker {
            self.gate.follow(rule);
        }
        self.share(terms.shared);
        let held = self.held_until;
        for (clock, rate) in [(&mut self.requests, terms.requests), (&mut self.tokens, terms.tokens)] {
            match (clock.as_mut(), rate) {
                (Some(clock), Some(rate)) => clock.follow(rate, now),
                (None, Some(rate)) => {
                    let mut new = PaceClock::new(rate, now);
                    // A pause that began before the rules were known ends one by one, too.
                    if held > now {
                        new.hold(held, now);
                    }
                    *clock = Some(new);
                }
                // Another call of the pool may have this limit; it does not hold for this one.
                (_, None) => {}
            }
        }
    }

    /// The calls in flight that count for a call: of most pools none is counted.
    pub(super) fn flight_for(
        &self,
        call: &WaitingCall,
        name: &str,
        calls: &BTreeMap<ProposalId, PacedCall>,
    ) -> PoolFlight {
        let is_limited = call.bounds.flight != FlightBounds::default();
        if is_limited { self.flight(name, calls) } else { PoolFlight::default() }
    }

    /// The calls in flight.
    pub(super) fn flight(&self, name: &str, calls: &BTreeMap<ProposalId, PacedCall>) -> PoolFlight {
        let mine = calls.values().filter(|call| call.pool == name);
        mine.fold(PoolFlight::default(), |PoolFlight { all, probes }, call| PoolFlight {
            all: all.saturating_add(1),
            probes: probes.saturating_add(u32::from(call.epoch == self.gate.epoch())),
        })
    }

    /// When a call may start.
    pub(super) fn due(&mut self, call: &WaitingCall, flight: PoolFlight, now: Instant) -> PaceDue {
        let before = self.waiting.iter().filter(|other| other.ticket < call.ticket);
        let (ahead, tokens) = before.fold((0_usize, 0_u64), |(calls, tokens), other| {
            (calls.saturating_add(1), tokens.saturating_add(other.tokens))
        });
        let mut latest = (self.held_until, PaceRule::Hint);
        let calls = (u64::try_from(ahead).unwrap_or(u64::MAX), 1);
        let tokens = (tokens, call.tokens);
        let PaceBounds { requests: by_calls, tokens: by_tokens, learned, flight: bounds } = call.bounds;
        let FlightBounds { concurrency, gated } = bounds;
        let adapts = learned == LearnedBound::Refusals;
        let learned = learned != LearnedBound::None;
        if learned && self.learned.spent_until > latest.0 {
            latest = (self.learned.spent_until, PaceRule::Learned);
        }
        let LearnedPaces { requests, tokens: learned_tokens, .. } = &mut self.learned;
        let limits = [
            (&mut self.requests, by_calls, calls, PaceRule::Requests),
            (&mut self.tokens, by_tokens, tokens, PaceRule::Tokens),
            (requests, learned, calls, PaceRule::Learned),
            (learned_tokens, learned, tokens, PaceRule::Learned),
            (self.adaptive.clock_mut(), adapts, calls, PaceRule::Refusals),
        ];
        for (clock, holds, (ahead, units), by) in limits {
            if let Some(clock) = clock.as_mut().filter(|_| holds) {
                // At the same time the pause counts: without it the clock would not stand still.
                let due = clock.due(ahead, units, now);
                if due > latest.0 {
                    latest = (due, by);
                }
            }
        }
        let gate = self.gate.window().filter(|_| gated);
        if let Some((_, probe_at)) = gate.filter(|(_, probe_at)| *probe_at > latest.0) {
            latest = (probe_at, PaceRule::Breaker);
        }
        // Calls before this one take their places first.
        let before = u32::try_from(ahead).unwrap_or(u32::MAX);
        let is_full = |most: u32, calls: u32| calls.saturating_add(before) >= most;
        let full = match concurrency {
            Some(most) if is_full(most, flight.all) => Some(PaceRule::Concurrency),
            _ => gate.filter(|(window, _)| is_full(*window, flight.probes)).map(|_| PaceRule::Breaker),
        };
        let again = now.saturating_add(ASK_AGAIN);
        match full.filter(|_| again > latest.0) {
            Some(by) => PaceDue { at: again, by, ahead, is_open: true },
            None => PaceDue { at: latest.0, by: latest.1, ahead, is_open: false },
        }
    }

    pub(super) fn take(&mut self, tokens: u64, now: Instant) {
        for clock in
            self.requests.iter_mut().chain(&mut self.learned.requests).chain(self.adaptive.clock_mut())
        {
            clock.take(1, now);
        }
        for clock in self.tokens.iter_mut().chain(&mut self.learned.tokens) {
            clock.take(tokens, now);
        }
        self.note_use((1, tokens), 0);
    }

    /// Moves the rate that is found from refusals after the end of a call. Returns whether it is decreased.
    pub(super) fn adapt(
        &mut self,
        call: &PacedCall,
        outcome: CallOutcome,
        is_reply: bool,
        now: Instant,
    ) -> bool {
        let Some(since) = call.learns_since.filter(|_| call.adapts) else { return false };
        if outcome == CallOutcome::Refused {
            return self.adaptive.refused(since, now);
        }
        if is_reply {
            let waited = call.waited || !self.waiting.is_empty();
            let most = self.requests.iter().chain(&self.learned.requests).map(PaceClock::rate);
            self.adaptive.answered(waited, most, now);
        }
        false
    }

    /// Holds all calls until then.
    pub(super) fn hold(&mut self, until: Instant, now: Instant) {
        self.held_until = self.held_until.max(until);
        for clock in self.clocks_mut() {
            clock.hold(until, now);
        }
    }

    fn clocks_mut(&mut self) -> impl Iterator<Item = &mut PaceClock> {
        let LearnedPaces { requests, tokens, .. } = &mut self.learned;
        let adaptive = self.adaptive.clock_mut();
        [&mut self.requests, &mut self.tokens, requests, tokens, adaptive].into_iter().flatten()
    }

    pub(super) const fn expected_reply(&self) -> u64 {
        if self.mean_reply == 0 { FIRST_REPLY } else { self.mean_reply }
    }

    /// Moves the mean by an eighth of the difference.
    // As TCP's smoothed round-trip time (RFC 6298): recent replies count more, and one long reply does not rule.
    pub(super) const fn learn_reply(&mut self, tokens: u64) {
        let mean = self.expected_reply();
        let eighth = mean.abs_diff(tokens).div_ceil(8);
        let next = if tokens > mean { mean.saturating_add(eighth) } else { mean.saturating_sub(eighth) };
        self.mean_reply = if next == 0 { 1 } else { next };
    }
}
