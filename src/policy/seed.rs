//! Randomness that is counted, not streamed: each number depends on what it is for and on nothing drawn before.

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// The source of jitter of one call. The same run, scope and call give the same numbers on every machine, in
/// any order.
///
/// The key is `xxh3_64(call, seed = xxh3_64(scope, seed = run_seed))`; the number of an attempt is the
/// `splitmix64` finaliser of `key + attempt · 0x9E3779B97F4A7C15`, modulo 2^64.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Seed(u64);

const GOLDEN_GAMMA: u64 = 0x9E37_79B9_7F4A_7C15;

impl Seed {
    /// The source of the call `call` in `scope` of the run seeded with `run_seed`.
    pub fn new(run_seed: u64, scope: &str, call: &str) -> Self {
        // One hash feeds the other, so scope `a` with call `bc` differs from scope `ab` with call `c`.
        Self(xxh3_64_with_seed(call.as_bytes(), xxh3_64_with_seed(scope.as_bytes(), run_seed)))
    }

    /// The number of `attempt`, uniform over all of `u64`.
    #[inline]
    pub const fn draw(self, attempt: u32) -> u64 {
        // A counter and not a stream: the number of one attempt must not depend on draws made elsewhere, or one call
        // could not be replayed alone. splitmix64: Steele, Lea, Flood, "Fast Splittable Pseudorandom Number
        // Generators", 2014.
        let z = self.0.wrapping_add((attempt as u64).wrapping_mul(GOLDEN_GAMMA));
        let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// These numbers are a promise: recorded sessions are decided again with them.
    const GOLDEN: [(u64, &str, &str, u32, u64); 6] = [
        (0, "", "", 0, 14_384_184_110_763_947_509),
        (0, "", "", 1, 6_445_301_042_246_839_685),
        (42, "tool", "call_1", 1, 13_855_769_823_851_729_295),
        (42, "tool", "call_1", 2, 17_351_504_955_142_308_966),
        (42, "model", "turn-7", 1, 13_823_861_977_824_056_702),
        (u64::MAX, "tool", "größe", u32::MAX, 10_588_950_017_398_288_672),
    ];

    #[test]
    fn the_numbers_never_change() {
        for (run, scope, call, attempt, number) in GOLDEN {
            assert_eq!(Seed::new(run, scope, call).draw(attempt), number, "{run} {scope} {call} {attempt}");
        }
    }

    #[test]
    fn splitmix64_agrees_with_its_published_sequence() {
        let key = Seed(1_234_567);
        assert_eq!(key.draw(1), 6_457_827_717_110_365_317);
        assert_eq!(key.draw(2), 3_203_168_211_198_807_973);
        assert_eq!(key.draw(3), 9_817_491_932_198_370_423);
    }

    #[test]
    fn xxh3_agrees_with_other_implementations_of_it() {
        let mut bytes = 42_u64.to_le_bytes().to_vec();
        bytes.extend(1_u32.to_le_bytes());
        assert_eq!(xxh3_64_with_seed(&bytes, 0), 4_649_871_637_038_350_393);
        assert_eq!(xxh3_64_with_seed(b"", 0), 0x2D06_8005_38D3_94C2);
    }

    #[test]
    fn scope_and_call_do_not_run_together() {
        assert_ne!(Seed::new(1, "ab", "c"), Seed::new(1, "a", "bc"));
    }

    proptest! {
        #[test]
        fn another_attempt_another_number(run: u64, attempt: u32) {
            let seed = Seed::new(run, "tool", "call");
            prop_assert_ne!(seed.draw(attempt), seed.draw(attempt.wrapping_add(1)));
            prop_assert_eq!(seed.draw(attempt), Seed::new(run, "tool", "call").draw(attempt));
        }
    }
}
