//! Deterministic random numbers: they only depend on the seed and on an agent's own calls.

use crate::policy::Seed;

/// The number of random numbers per call.
const EACH: u32 = 4;

/// The random numbers of one agent for one service.
#[derive(Clone, Copy, Debug)]
pub(super) struct ServiceChance {
    seed: Seed,
    calls: u32,
}

/// The random numbers of one call.
#[derive(Clone, Copy, Debug)]
pub(super) struct CallDraws {
    seed: Seed,
    first: u32,
}

impl ServiceChance {
    pub(super) fn new(seed: u64, service: &str, agent: u32) -> Self {
        Self { seed: Seed::new(seed, service, &agent.to_string()), calls: 0 }
    }

    /// The random numbers of the next call.
    pub(super) const fn next(&mut self) -> CallDraws {
        let first = self.calls.wrapping_mul(EACH);
        self.calls = self.calls.wrapping_add(1);
        CallDraws { seed: self.seed, first }
    }
}

impl CallDraws {
    /// The number that selects the fault.
    pub(super) const fn fault(self) -> u64 {
        self.number(0)
    }

    /// The number that decides whether a window of the trace applies.
    pub(super) const fn window(self) -> u64 {
        self.number(1)
    }

    /// The number that determines the duration.
    pub(super) const fn time(self) -> u64 {
        self.number(2)
    }

    /// The number that decides whether the load makes it fail.
    pub(super) const fn load(self) -> u64 {
        self.number(3)
    }

    /// The number that decides whether the cause of a bad answer persists. It is the other half of that of the load.
    pub(super) const fn again(self) -> u64 {
        self.number(3).rotate_left(32)
    }

    const fn number(self, which: u32) -> u64 {
        self.seed.draw(self.first.wrapping_add(which))
    }
}

/// Whether an event with this rate, in parts per million, happens for this number.
pub(super) const fn strikes(ppm: u32, number: u64) -> bool {
    // The upper half of the number, as a share of 2^32, is compared with the rate: no rounding can reach a rate of
    // one.
    (number >> 32) * 1_000_000 < (ppm as u64) << 32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_always_happens_happens_and_what_never_does_does_not() {
        for number in [0, u64::MAX, 1 << 63] {
            assert!(strikes(1_000_000, number));
            assert!(!strikes(0, number));
        }
    }

    #[test]
    fn a_third_is_a_third() {
        let mut chance = ServiceChance::new(7, "model main", 3);
        let struck = (0..30_000).filter(|_| strikes(333_333, chance.next().fault())).count();
        assert!((9_700..10_300).contains(&struck), "{struck}");
    }

    #[test]
    fn agents_and_services_have_chances_of_their_own() {
        let first = |service, agent| ServiceChance::new(1, service, agent).next().fault();
        assert_eq!(first("model main", 1), first("model main", 1));
        assert_ne!(first("model main", 1), first("model main", 2));
        assert_ne!(first("model main", 1), first("tool main", 1));
    }
}
