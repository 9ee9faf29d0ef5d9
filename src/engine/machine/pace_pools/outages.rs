//! What hosts tell each other of what holds the calls of pools.

use super::PacePools;
use crate::engine::provider_outages::PoolOutage;
use crate::time::Instant;

impl PacePools {
    /// What holds the calls of each pool, apart from its rates.
    #[cfg(feature = "serve")]
    pub(in crate::engine) fn outages(&self) -> std::collections::BTreeMap<String, PoolOutage> {
        let outage = |(name, pool): (&String, &super::PacePool)| {
            (name.clone(), PoolOutage { held_until: pool.held_until, probes: pool.gate.probes() })
        };
        self.pools.iter().map(outage).filter(|(_, outage)| *outage != PoolOutage::default()).collect()
    }

    /// Takes what another host has found.
    pub(in crate::engine) fn set_outage(&mut self, name: &str, outage: PoolOutage, now: Instant) {
        self.hold(name, None, outage.held_until, now);
        if outage.probes.is_none() && !self.pools.contains_key(name) {
            return;
        }
        let pool = self.pools.entry(name.to_owned()).or_default();
        if pool.gate.probes() != outage.probes {
            pool.gate.told(outage.probes, !pool.waiting.is_empty());
            // Those that wait for the end of another call may start now.
            self.freed = true;
        }
    }
}
