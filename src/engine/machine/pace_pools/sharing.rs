//! The pools that hosts share, brought together with what the others know.

use super::PacePools;
use crate::engine::machine::pace_pool::PacePool;
use crate::engine::shared_pace::{PaceUse, PoolSharing, SharedPace, SharingScope, is_other, joined};
use crate::time::Instant;

impl PacePools {
    /// The pools that are shared.
    pub(in crate::engine) fn shared(&self) -> impl Iterator<Item = (&String, SharingScope)> {
        self.pools.iter().filter_map(|(name, pool)| Some((name, pool.sharing.as_ref()?.scope)))
    }

    /// Whether others have not received all that happened to a pool.
    pub(in crate::engine) fn has_news(&self, name: &str) -> bool {
        self.pools.get(name).is_some_and(PacePool::has_news)
    }

    /// What all know of a pool once they have received what happened here; and whether that is more than is known here.
    pub(in crate::engine) fn told_to(
        &self,
        name: &str,
        others: Option<SharedPace>,
        now: Instant,
    ) -> (SharedPace, bool) {
        let unused = PacePool::default();
        let pool = self.pools.get(name).unwrap_or(&unused);
        let SharedPace { requests, tokens, held_until, .. } = others.unwrap_or_default();
        let used = pool.unreported();
        let mut all = SharedPace {
            requests: joined(requests, pool.requests.as_ref(), (used.requests, 0), now),
            tokens: joined(tokens, pool.tokens.as_ref(), (used.tokens, used.returned), now),
            held_until: held_until.max(used.held_until),
            reported: used,
        };
        if used.held_until > held_until.max(now) {
            for clock in all.requests.iter_mut().chain(&mut all.tokens) {
                clock.hold(used.held_until, now);
            }
        }
        let is_new = all.held_until > pool.held_until.max(now)
            || is_other(all.requests.as_ref(), pool.requests.as_ref(), now)
            || is_other(all.tokens.as_ref(), pool.tokens.as_ref(), now);
        (all, is_new)
    }

    /// Takes what all know of a pool.
    pub(in crate::engine) fn set_shared(&mut self, name: &str, known: SharedPace, now: Instant) {
        let SharedPace { requests, tokens, held_until, reported } = known;
        let pool = self.pools.entry(name.to_owned()).or_default();
        // Calls may have started since it was reported.
        let rest = pool.unreported().without(reported);
        if let Some(sharing) = &mut pool.sharing {
            sharing.unreported = rest;
        }
        for (clock, known, used) in [
            (&mut pool.requests, requests, (rest.requests, 0)),
            (&mut pool.tokens, tokens, (rest.tokens, rest.returned)),
        ] {
            if known.is_some() {
                *clock = joined(known, clock.as_ref(), used, now);
            }
        }
        let held_until = held_until.max(rest.held_until);
        if held_until > now {
            pool.hold(held_until, now);
        }
        if !pool.waiting.is_empty() {
            self.freed = true;
        }
        self.forget_if_idle(name, now);
    }
}

impl PacePool {
    /// Shares it from now on, if the rules of a call say so.
    pub(in crate::engine::machine) fn share(&mut self, with: Option<SharingScope>) {
        if let Some(scope) = with {
            self.sharing.get_or_insert_with(|| PoolSharing::new(scope)).scope = scope;
        }
    }

    /// Notes what a call has taken, and what it has not used, for those who share the pool.
    pub(in crate::engine::machine) fn note_use(&mut self, (requests, tokens): (u64, u64), returned: u64) {
        let Some(sharing) = &mut self.sharing else { return };
        let used = &mut sharing.unreported;
        if self.requests.is_some() {
            used.requests = used.requests.saturating_add(requests);
        }
        if self.tokens.is_some() {
            used.tokens = used.tokens.saturating_add(tokens);
            used.returned = used.returned.saturating_add(returned);
        }
    }

    /// Notes a pause that a server asked for.
    pub(super) fn note_pause(&mut self, until: Instant) {
        if let Some(PoolSharing { unreported, .. }) = &mut self.sharing {
            unreported.held_until = unreported.held_until.max(until);
        }
    }

    fn unreported(&self) -> PaceUse {
        self.sharing.as_ref().map_or_else(PaceUse::default, |sharing| sharing.unreported)
    }

    pub(super) fn has_news(&self) -> bool {
        self.unreported() != PaceUse::default()
    }
}

#[cfg(test)]
mod tests {
    use core::num::NonZeroU32;

    use proptest::prelude::*;

    use super::*;
    use crate::engine::ids::ProposalId;
    use crate::engine::machine::pace_pool::{LearnedBound, PaceTerms};
    use crate::engine::machine::pace_pools::{PaceAnswer, PaceTicket};
    use crate::policy::PaceRate;
    use crate::time::Nanos;

    const POOL: &str = "model main";

    const fn secs(secs: u64) -> Instant {
        Instant(Nanos::from_secs(secs).0)
    }

    fn rate(limit: u32, per: u64, burst: u32) -> PaceRate {
        let number = |number| NonZeroU32::new(number).unwrap();
        PaceRate { limit: number(limit), per: Nanos::from_secs(per), burst: number(burst) }
    }

    fn terms(requests: Option<PaceRate>, tokens: Option<PaceRate>) -> PaceTerms {
        PaceTerms {
            pool: POOL.into(),
            requests,
            tokens,
            learns: LearnedBound::None,
            concurrency: None,
            breaker: None,
            shared: Some(SharingScope::Hosts),
            request: 100,
            max_wait: None,
        }
    }

    /// Whether a call starts now.
    fn starts(pools: &mut PacePools, terms: &PaceTerms, now: Instant) -> Result<(), Instant> {
        match pools.ask(terms, &mut PaceTicket::default(), None, now) {
            PaceAnswer::Started => Ok(()),
            PaceAnswer::Later { until, .. } | PaceAnswer::TooLate { until, .. } => Err(until),
        }
    }

    /// A host reports, and takes what all know.
    fn tell(pools: &mut PacePools, all: &mut Option<SharedPace>, now: Instant) {
        let (known, _) = pools.told_to(POOL, all.clone(), now);
        *all = Some(known.for_others());
        pools.set_shared(POOL, known, now);
    }

    #[test]
    fn a_call_of_one_host_takes_the_place_of_another() {
        let terms = terms(Some(rate(2, 60, 2)), None);
        let (mut one, mut other, mut all) = (PacePools::default(), PacePools::default(), None);
        assert_eq!(starts(&mut one, &terms, secs(0)), Ok(()));
        tell(&mut one, &mut all, secs(0));
        tell(&mut other, &mut all, secs(1));
        assert_eq!(starts(&mut other, &terms, secs(1)), Ok(()));
        tell(&mut other, &mut all, secs(1));
        tell(&mut one, &mut all, secs(2));
        assert_eq!(starts(&mut one, &terms, secs(2)), Err(secs(30)));
        assert!(!one.has_news(POOL) && !other.has_news(POOL));
    }

    #[test]
    fn what_starts_while_hosts_report_becomes_a_debt_of_all() {
        let terms = terms(Some(rate(1, 10, 1)), None);
        let (mut one, mut other, mut all) = (PacePools::default(), PacePools::default(), None);
        assert_eq!(starts(&mut one, &terms, secs(0)), Ok(()));
        assert_eq!(starts(&mut other, &terms, secs(0)), Ok(()));
        tell(&mut one, &mut all, secs(0));
        tell(&mut other, &mut all, secs(0));
        assert_eq!(starts(&mut other, &terms, secs(0)), Err(secs(20)));
    }

    #[test]
    fn a_call_that_starts_while_a_report_is_under_way_is_reported_later() {
        let terms = terms(Some(rate(10, 10, 10)), None);
        let (mut one, mut all) = (PacePools::default(), None);
        assert_eq!(starts(&mut one, &terms, secs(0)), Ok(()));
        let (known, _) = one.told_to(POOL, None, secs(0));
        assert_eq!(starts(&mut one, &terms, secs(0)), Ok(()));
        one.set_shared(POOL, known.clone(), secs(0));
        assert!(one.has_news(POOL));
        all.clone_from(&Some(known.for_others()));
        tell(&mut one, &mut all, secs(0));
        assert_eq!(all.unwrap().requests.unwrap().free(secs(0)), 8);
    }

    #[test]
    fn what_was_taken_long_before_it_is_reported_holds_nobody_up() {
        let terms = terms(Some(rate(1, 1, 2)), None);
        let (mut one, mut other, mut all) = (PacePools::default(), PacePools::default(), None);
        tell(&mut one, &mut all, secs(0));
        assert_eq!(starts(&mut other, &terms, secs(0)), Ok(()));
        tell(&mut other, &mut all, secs(0));
        // The place where hosts meet is away for an hour.
        for at in 1..3600 {
            assert_eq!(starts(&mut one, &terms, secs(at)), Ok(()));
        }
        tell(&mut one, &mut all, secs(3600));
        tell(&mut other, &mut all, secs(3600));
        assert_eq!(starts(&mut other, &terms, secs(3600)), Err(secs(3601)));
    }

    #[test]
    fn a_pause_holds_the_calls_of_all_and_they_start_one_by_one() {
        let terms = terms(Some(rate(60, 60, 60)), None);
        let (mut one, mut other, mut all) = (PacePools::default(), PacePools::default(), None);
        one.hold(POOL, terms.shared, secs(9), secs(0));
        tell(&mut one, &mut all, secs(0));
        tell(&mut other, &mut all, secs(1));
        assert_eq!(starts(&mut other, &terms, secs(1)), Err(secs(9)));
        assert_eq!(starts(&mut other, &terms, secs(9)), Ok(()));
        assert_eq!(starts(&mut other, &terms, secs(9)), Err(secs(10)));
    }

    #[test]
    fn tokens_that_a_reply_did_not_use_are_free_for_all() {
        let terms = terms(None, Some(rate(600, 60, 600)));
        let (mut one, mut other, mut all) = (PacePools::default(), PacePools::default(), None);
        let answer = one.ask(&terms, &mut PaceTicket::default(), Some(ProposalId(1)), secs(0));
        assert_eq!(answer, PaceAnswer::Started);
        tell(&mut one, &mut all, secs(0));
        tell(&mut other, &mut all, secs(0));
        assert_eq!(starts(&mut other, &terms, secs(0)), Err(secs(60)));
        let outcome = crate::engine::machine::outage_gate::CallOutcome::Answered;
        one.ended(ProposalId(1), (outcome, Some(0), None), secs(0));
        tell(&mut one, &mut all, secs(0));
        tell(&mut other, &mut all, secs(0));
        assert_eq!(starts(&mut other, &terms, secs(0)), Ok(()));
    }

    proptest! {
        /// Hosts that report before and after each call exceed a rate no more than one host does.
        #[test]
        fn hosts_that_report_at_once_are_like_one(
            calls in proptest::collection::vec((0usize..3, 0u64..20_000_000_000), 1..80),
            limit in 1u32..20, per in 1u64..60, burst in 1u32..10,
        ) {
            let terms = terms(Some(rate(limit, per, burst)), None);
            let (mut hosts, mut all, mut single) = (vec![PacePools::default(); 3], None, PacePools::default());
            let mut now = Instant(0);
            for (host, pause) in calls {
                now = now.saturating_add(Nanos(pause));
                let host = &mut hosts[host];
                tell(host, &mut all, now);
                prop_assert_eq!(starts(host, &terms, now), starts(&mut single, &terms, now));
                tell(host, &mut all, now);
            }
        }

        /// However late hosts report, nothing that was taken is lost.
        #[test]
        fn what_calls_take_adds_up(acts in proptest::collection::vec((0usize..3, any::<bool>()), 1..60)) {
            let terms = terms(Some(rate(1000, 60, 1000)), None);
            let (mut hosts, mut all, mut taken) = (vec![PacePools::default(); 3], None, 0);
            for (host, tells) in acts {
                if tells {
                    tell(&mut hosts[host], &mut all, secs(1));
                } else if starts(&mut hosts[host], &terms, secs(1)).is_ok() {
                    taken += 1;
                }
            }
            for host in &mut hosts {
                tell(host, &mut all, secs(1));
            }
            let free = all.unwrap().requests.map_or(1000, |clock| clock.free(secs(1)));
            prop_assert_eq!(free, 1000 - taken);
        }
    }
}
