//! How long to wait before the next attempt: integers only, the same on every machine.

use std::sync::Arc;

use super::Seed;
use crate::text::GrowthFactor;
use crate::time::Nanos;

/// The delay before each next attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// How the delay grows from attempt to attempt.
    pub shape: BackoffShape,
    /// No delay is longer, jitter included.
    pub cap: Option<Nanos>,
    /// How the delay is spread.
    pub jitter: Jitter,
}

/// How the delay grows from attempt to attempt; `n` is the 1-based attempt that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BackoffShape {
    /// Always `delay`.
    Constant {
        /// Every delay.
        delay: Nanos,
    },
    /// `base + step · (n - 1)`.
    Linear {
        /// The first delay.
        base: Nanos,
        /// What each further attempt adds.
        step: Nanos,
    },
    /// `base · factor^(n - 1)`.
    Exponential {
        /// The first delay.
        base: Nanos,
        /// What each further attempt multiplies by.
        factor: GrowthFactor,
    },
    /// `base` times 1, 1, 2, 3, 5, 8, …
    Fibonacci {
        /// The first delay.
        base: Nanos,
    },
    /// The delays as listed; the last one repeats.
    Schedule {
        /// One per attempt.
        delays: Arc<[Nanos]>,
    },
}

/// How the delay is spread, so that many callers do not come back at once. `u` is uniform in `[0, 1)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Jitter {
    /// Not at all.
    None,
    /// `u · delay`.
    Full,
    /// `delay / 2 + u · delay / 2`.
    Equal,
    /// From `delay · (1 - f)` to `delay · (1 + f)`, with the delay first held to `cap / (1 + f)`: nothing is
    /// above the cap and nothing piles up at it.
    PlusMinus {
        /// `f` in parts per million, at most a million.
        ppm: u32,
    },
    /// `base + u · (3 · previous - base)`, where the first `previous` is `base`; the shape gives only the base.
    Decorrelated,
}

const WHOLE_PPM: u64 = 1_000_000;
/// One more than the largest number that is drawn.
const WHOLE_DRAW: u128 = 1 << 64;
/// Tripling saturates before this, whatever the base.
const DECORRELATED_STEPS: u32 = 64;

impl Backoff {
    /// The wait after `attempt`, counted from 1, has failed.
    #[inline]
    pub fn delay(&self, attempt: u32, seed: Seed) -> Nanos {
        self.delay_with(attempt, || seed)
    }

    /// As [`delay`](Self::delay); `seed` is asked for only if there is jitter.
    #[inline]
    pub fn delay_with(&self, attempt: u32, seed: impl FnOnce() -> Seed) -> Nanos {
        // The usual wait of a tool at hand. Nothing grows or spreads it.
        if matches!(self.shape, BackoffShape::Constant { delay: Nanos::ZERO }) {
            return Nanos::ZERO;
        }
        self.jittered(attempt, || {
            let seed = seed();
            move |attempt| u128::from(seed.draw(attempt))
        })
    }

    /// The shortest wait possible after `attempt`, and the one that all possible ones stay below, or are equal to
    /// where nothing is drawn.
    pub fn bounds(&self, attempt: u32) -> (Nanos, Nanos) {
        // Every delay grows with its draw, so the smallest draw and one more than the largest give the bounds.
        (self.jittered(attempt, || |_| 0), self.jittered(attempt, || |_| WHOLE_DRAW))
    }

    /// As [`bounds`](Self::bounds), where the delay that the shape gives is known.
    fn bounds_of(&self, attempt: u32, raw: u64) -> (Nanos, Nanos) {
        let cap = self.cap.unwrap_or(Nanos::MAX).0;
        match self.jitter.range(raw.min(cap), cap) {
            Some((least, width)) => (Nanos(least), Nanos(least.saturating_add(width))),
            None => self.bounds(attempt),
        }
    }

    /// What the bounds become in the end, if attempts continue for ever: as [`bounds`](Self::bounds) of the last attempt there is,
    /// without all those before it.
    pub(crate) fn limits(&self) -> (Nanos, Nanos) {
        self.bounds_of(u32::MAX, self.shape.limit())
    }

    /// The middle of the waits after `attempt`: as likely exceeded as not. With decorrelated jitter, the wait
    /// if every draw were a middle one.
    pub fn median(&self, attempt: u32) -> Nanos {
        self.jittered(attempt, || |_| WHOLE_DRAW / 2)
    }

    /// Grows with every number drawn, which is what makes [`bounds`](Self::bounds) exact. `source` is asked for
    /// the numbers only if the delay depends on them.
    #[inline]
    fn jittered<D: Fn(u32) -> u128>(&self, attempt: u32, source: impl FnOnce() -> D) -> Nanos {
        let cap = self.cap.unwrap_or(Nanos::MAX).0;
        // Attempt 1 is the first. A 0 counts as it, so that no delay is computed for an attempt before the first.
        let attempt = attempt.max(1);
        match self.jitter.range(self.shape.raw(attempt, cap), cap) {
            // An empty range needs no draw, so policies without jitter never make a seed.
            Some((least, 0)) => Nanos(least),
            Some((least, width)) => Nanos(least.saturating_add(part(width, source()(attempt)))),
            None => Nanos(self.decorrelated(attempt, cap, source())),
        }
    }

    /// The delay with [`Jitter::Decorrelated`].
    #[inline(never)]
    fn decorrelated(&self, attempt: u32, cap: u64, draw: impl Fn(u32) -> u128) -> u64 {
        // AWS, "Exponential Backoff And Jitter": sleep = min(cap, random_between(base, previous · 3)). The previous
        // delay is computed again from the draws and not stored, so a replayed call needs no state but its attempt.
        let base = self.shape.base();
        // Only the last 64 attempts are chained, which bounds the cost of one delay. The largest draws have
        // saturated by then, as 3^41 exceeds 2^64.
        let from = attempt.saturating_sub(DECORRELATED_STEPS.saturating_sub(1)).max(1);
        (from..=attempt).fold(base, |previous, attempt| {
            let width = previous.saturating_mul(3).saturating_sub(base);
            base.saturating_add(part(width, draw(attempt))).min(cap)
        })
    }
}

impl Jitter {
    /// The shortest wait and how much longer it may be, where the shape gives `delay`, at most `cap`. `None`: the wait
    /// depends on the one before it.
    #[inline]
    fn range(self, delay: u64, cap: u64) -> Option<(u64, u64)> {
        match self {
            Self::None => Some((delay, 0)),
            // AWS, "Exponential Backoff And Jitter", names these two. The cap is applied before the draw: applied
            // after it, many draws would become the cap, and callers would return at the same instant.
            Self::Full => Some((0, delay)),
            Self::Equal => Some((delay / 2, delay.div_ceil(2))),
            Self::PlusMinus { ppm } => Some(around(delay, cap, ppm)),
            Self::Decorrelated => None,
        }
    }
}

impl BackoffShape {
    /// The delay after `attempt >= 1`, at most `cap`.
    #[inline]
    fn raw(&self, attempt: u32, cap: u64) -> u64 {
        let retries = attempt.saturating_sub(1);
        let delay = match self {
            Self::Constant { delay } => delay.0,
            // Whole factors are the common case and need one saturating power. Delays that wrapped have become
            // negative elsewhere (Polly issue 2163).
            Self::Exponential { base, factor } if factor.den() == 1 => {
                base.0.saturating_mul(factor.num().saturating_pow(retries))
            }
            Self::Linear { .. }
            | Self::Exponential { .. }
            | Self::Fibonacci { .. }
            | Self::Schedule { .. } => self.grown(retries, cap),
        };
        delay.min(cap)
    }

    /// Any shape after so many retries; [`raw`](Self::raw) deals with the common ones before.
    #[inline(never)]
    fn grown(&self, retries: u32, cap: u64) -> u64 {
        match self {
            Self::Constant { delay } => delay.0,
            Self::Linear { base, step } => base.0.saturating_add(step.0.saturating_mul(u64::from(retries))),
            Self::Exponential { base, factor } => power(base.0, *factor, retries, cap),
            Self::Fibonacci { base } => fibonacci(base.0, retries, cap),
            Self::Schedule { delays } => {
                let index = usize::try_from(retries).unwrap_or(usize::MAX);
                // The last delay repeats. If the list ended the attempts, two keys would limit their number.
                delays.get(index).or(delays.last()).map_or(0, |delay| delay.0)
            }
        }
    }

    /// The delay after the last attempt there is.
    fn limit(&self) -> u64 {
        match self {
            Self::Exponential { base, factor } if factor.den() > 1 => {
                // After 128 steps the exact fraction no longer fits 128 bits. A series that still grows then grows
                // for ever.
                let mut power = PowerSeries::new(base.0, *factor, u64::MAX);
                for _ in 0..128_u32 {
                    if power.stands {
                        return power.value();
                    }
                    power.step();
                }
                if power.stands { power.value() } else { u64::MAX }
            }
            Self::Fibonacci { base } if base.0 > 0 => u64::MAX,
            shape => shape.raw(u32::MAX, u64::MAX),
        }
    }

    /// The first delay.
    fn base(&self) -> u64 {
        match self {
            Self::Constant { delay: base }
            | Self::Linear { base, .. }
            | Self::Exponential { base, .. }
            | Self::Fibonacci { base } => base.0,
            Self::Schedule { delays } => delays.first().map_or(0, |delay| delay.0),
        }
    }
}

/// The bounds of the waits after one attempt after the other, each in a step from those before it.
#[derive(Clone, Debug)]
pub(crate) struct WaitBounds<'b> {
    backoff: &'b Backoff,
    attempt: u32,
    grown: GrownDelay,
}

#[derive(Clone, Debug)]
enum GrownDelay {
    /// It takes no more than one step from the beginning.
    Plain,
    Power(PowerSeries),
    Fibonacci(u64, u64),
}

impl<'b> WaitBounds<'b> {
    /// Before the first attempt.
    pub(crate) fn new(backoff: &'b Backoff) -> Self {
        let grown = match &backoff.shape {
            BackoffShape::Exponential { base, factor } if factor.den() > 1 => {
                GrownDelay::Power(PowerSeries::new(base.0, *factor, u64::MAX))
            }
            BackoffShape::Fibonacci { base } => GrownDelay::Fibonacci(base.0, base.0),
            _ => GrownDelay::Plain,
        };
        Self { backoff, attempt: 0, grown }
    }

    /// The shortest and the longest wait after the next attempt.
    pub(crate) fn next(&mut self) -> (Nanos, Nanos) {
        self.attempt = self.attempt.saturating_add(1);
        let raw = match &mut self.grown {
            GrownDelay::Plain => self.backoff.shape.raw(self.attempt, u64::MAX),
            GrownDelay::Power(power) => {
                let value = power.value();
                power.step();
                value
            }
            GrownDelay::Fibonacci(current, next) => {
                let value = *current;
                (*current, *next) = (*next, current.saturating_add(*next));
                value
            }
        };
        self.backoff.bounds_of(self.attempt, raw)
    }
}

/// `base · factor^n`, rounded down, for one `n` after the other. Exact as long as numerator and denominator fit 128 bits, from
/// there on rounded down at each step; never falling in between.
#[derive(Clone, Debug)]
struct PowerSeries {
    factor: GrowthFactor,
    cap: u128,
    num: u128,
    den: u128,
    /// It changes no more.
    stands: bool,
}

impl PowerSeries {
    fn new(base: u64, factor: GrowthFactor, cap: u64) -> Self {
        Self { factor, cap: cap.into(), num: base.into(), den: 1, stands: base == 0 }
    }

    fn whole(&self) -> u128 {
        self.num.checked_div(self.den).unwrap_or(0)
    }

    fn value(&self) -> u64 {
        u64::try_from(self.whole()).unwrap_or(u64::MAX)
    }

    fn step(&mut self) {
        let value = self.whole();
        if self.stands || value >= self.cap {
            self.stands = true;
            return;
        }
        let (num, den) = (u128::from(self.factor.num()), u128::from(self.factor.den()));
        let grown = self.num.checked_mul(num).zip(self.den.checked_mul(den));
        // From here on each step rounds down. Rounding down keeps the series from falling.
        (self.num, self.den) = grown.unwrap_or_else(|| (value.saturating_mul(num), den));
        // A rounded step that changes nothing will change nothing later, so the loops over steps may end.
        self.stands = grown.is_none() && self.whole() == value;
    }
}

/// `base · factor^times`, rounded down, at most `cap`.
fn power(base: u64, factor: GrowthFactor, times: u32, cap: u64) -> u64 {
    let mut power = PowerSeries::new(base, factor, cap);
    // With `max_attempts: unlimited` the attempt may be in the billions; the loop ends once the value no longer changes.
    for _ in 0..times {
        if power.stands {
            break;
        }
        power.step();
    }
    power.value().min(cap)
}

/// `base` times the Fibonacci number after `retries` steps from the first, at most `cap`.
fn fibonacci(base: u64, retries: u32, cap: u64) -> u64 {
    let (mut current, mut next) = (base, base);
    for _ in 0..retries {
        // Same here: the cap, or a base of zero, ends the loop long before the attempt does.
        if current >= cap || next == 0 {
            break;
        }
        (current, next) = (next, current.saturating_add(next));
    }
    current
}

/// `u · whole` for the `u` that `draw` stands for: in `[0, 1)`, and one for [`WHOLE_DRAW`].
#[inline]
fn part(whole: u64, draw: u128) -> u64 {
    // Multiply-high maps 64 random bits to a range without floats and without division, so every machine gets the
    // same delay (Lemire, "Fast Random Integer Generation in an Interval", 2019).
    let product = u128::from(whole).saturating_mul(draw);
    u64::try_from(product >> 64).unwrap_or(u64::MAX)
}

/// The range of [`Jitter::PlusMinus`]. Never inlined, so that the common jitters stay a short stretch of integer code.
#[inline(never)]
fn around(delay: u64, cap: u64, ppm: u32) -> (u64, u64) {
    let ppm = u64::from(ppm).min(WHOLE_PPM);
    // The delay is lowered before it is spread. Clamping the spread delay instead would send all callers above the
    // cap back at one instant.
    let delay = delay.min(scale(cap, WHOLE_PPM, WHOLE_PPM.saturating_add(ppm)));
    let least = scale(delay, WHOLE_PPM.saturating_sub(ppm), WHOLE_PPM);
    (least, scale(delay, ppm.saturating_mul(2), WHOLE_PPM))
}

/// `whole · num / den`, rounded down.
fn scale(whole: u64, num: u64, den: u64) -> u64 {
    // The product of two 64-bit numbers needs 128 bits.
    let product = u128::from(whole).saturating_mul(u128::from(num));
    u64::try_from(product.checked_div(u128::from(den)).unwrap_or(0)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SEED: u64 = 42;

    fn secs(n: u64) -> Nanos {
        Nanos::from_secs(n)
    }

    fn backoff(shape: BackoffShape) -> Backoff {
        Backoff { shape, cap: None, jitter: Jitter::None }
    }

    fn exponential(base: Nanos, factor: &str) -> BackoffShape {
        BackoffShape::Exponential { base, factor: factor.parse().unwrap() }
    }

    fn delays(backoff: &Backoff, attempts: core::ops::RangeInclusive<u32>) -> Vec<String> {
        attempts.map(|n| backoff.delay(n, Seed::new(SEED, "tool", "call")).to_string()).collect()
    }

    #[test]
    fn each_shape_grows_as_it_says() {
        for (shape, expected) in [
            (BackoffShape::Constant { delay: secs(2) }, ["2s", "2s", "2s", "2s", "2s"]),
            (BackoffShape::Linear { base: secs(1), step: secs(3) }, ["1s", "4s", "7s", "10s", "13s"]),
            (exponential(secs(1), "2"), ["1s", "2s", "4s", "8s", "16s"]),
            (exponential(secs(1), "1.5"), ["1s", "1.5s", "2.25s", "3.375s", "5.0625s"]),
            (exponential(secs(1), "1"), ["1s", "1s", "1s", "1s", "1s"]),
            (BackoffShape::Fibonacci { base: secs(1) }, ["1s", "1s", "2s", "3s", "5s"]),
            (
                BackoffShape::Schedule { delays: [secs(1), secs(5), secs(9)].into() },
                ["1s", "5s", "9s", "9s", "9s"],
            ),
            (BackoffShape::Schedule { delays: [].into() }, ["0s"; 5]),
        ] {
            assert_eq!(delays(&backoff(shape), 1..=5), expected);
        }
    }

    #[test]
    fn the_cap_holds() {
        let capped = Backoff { cap: Some(secs(5)), ..backoff(exponential(secs(1), "2")) };
        assert_eq!(delays(&capped, 1..=5), ["1s", "2s", "4s", "5s", "5s"]);
    }

    #[test]
    fn the_last_attempt_there_is_waits_the_cap() {
        let shapes = [
            BackoffShape::Linear { base: secs(1), step: secs(10) },
            exponential(secs(1), "10"),
            exponential(secs(1), "1.001"),
            BackoffShape::Fibonacci { base: secs(1) },
        ];
        for shape in shapes {
            let capped = Backoff { cap: Some(secs(100)), ..backoff(shape.clone()) };
            assert_eq!(capped.delay(u32::MAX, Seed::new(0, "", "")), secs(100), "{shape:?}");
            assert!(backoff(shape).delay(u32::MAX, Seed::new(0, "", "")) > secs(100));
        }
        let uncapped = backoff(exponential(secs(1), "10"));
        assert_eq!(uncapped.delay(u32::MAX, Seed::new(0, "", "")), Nanos::MAX);
    }

    #[test]
    fn nothing_times_anything_is_nothing() {
        for shape in [
            exponential(Nanos::ZERO, "2"),
            exponential(Nanos::ZERO, "1.5"),
            BackoffShape::Fibonacci { base: Nanos::ZERO },
        ] {
            assert_eq!(backoff(shape).delay(u32::MAX, Seed::new(0, "", "")), Nanos::ZERO);
        }
    }

    #[test]
    fn attempt_zero_is_the_first() {
        assert_eq!(delays(&backoff(exponential(secs(1), "2")), 0..=1), ["1s", "1s"]);
    }

    #[test]
    fn each_jitter_keeps_its_range() {
        for (jitter, expected) in [
            (Jitter::None, ("8s", "8s", "8s")),
            (Jitter::Full, ("0s", "4s", "8s")),
            (Jitter::Equal, ("4s", "6s", "8s")),
            (Jitter::PlusMinus { ppm: 250_000 }, ("6s", "8s", "10s")),
            (Jitter::Decorrelated, ("1s", "9.125s", "1m21s")),
        ] {
            let backoff = Backoff { shape: exponential(secs(1), "2"), cap: None, jitter };
            let (least, most) = backoff.bounds(4);
            let (least, median, most) = (least.to_string(), backoff.median(4).to_string(), most.to_string());
            assert_eq!((&*least, &*median, &*most), expected, "{jitter:?}");
        }
    }

    #[test]
    fn a_growing_jitter_does_not_pile_up_at_the_cap() {
        let backoff = Backoff {
            shape: BackoffShape::Constant { delay: secs(10) },
            cap: Some(secs(10)),
            jitter: Jitter::PlusMinus { ppm: 250_000 },
        };
        assert_eq!(backoff.bounds(1), (secs(6), secs(10)));
        assert_eq!(backoff.median(1), secs(8));
    }

    #[test]
    fn decorrelated_jitter_is_the_same_whenever_it_is_asked() {
        let backoff = Backoff {
            shape: BackoffShape::Constant { delay: secs(1) },
            cap: Some(secs(60)),
            jitter: Jitter::Decorrelated,
        };
        let forwards: Vec<_> = (1..=100).map(|n| backoff.delay(n, Seed::new(7, "tool", "a"))).collect();
        let mut backwards: Vec<_> =
            (1..=100).rev().map(|n| backoff.delay(n, Seed::new(7, "tool", "a"))).collect();
        backwards.reverse();
        assert_eq!(forwards, backwards);
        assert!(forwards.windows(2).any(|pair| pair[0] != pair[1]));
    }

    fn nanos() -> impl Strategy<Value = Nanos> {
        prop_oneof![any::<u64>(), 0..10_000_000_000_u64, 0..1000_u64].prop_map(Nanos)
    }

    fn any_shape() -> impl Strategy<Value = BackoffShape> {
        prop_oneof![
            nanos().prop_map(|delay| BackoffShape::Constant { delay }),
            (nanos(), nanos()).prop_map(|(base, step)| BackoffShape::Linear { base, step }),
            (nanos(), 1000..=1_000_000_u64).prop_map(|(base, n)| BackoffShape::Exponential {
                base,
                factor: GrowthFactor::new(n, 1000).unwrap()
            }),
            (nanos(), 1000..=1010_u64).prop_map(|(base, n)| BackoffShape::Exponential {
                base,
                factor: GrowthFactor::new(n, 1000).unwrap()
            }),
            nanos().prop_map(|base| BackoffShape::Fibonacci { base }),
            prop::collection::vec(nanos(), 0..5)
                .prop_map(|delays| BackoffShape::Schedule { delays: delays.into() }),
        ]
    }

    fn any_jitter() -> impl Strategy<Value = Jitter> {
        prop_oneof![
            Just(Jitter::None),
            Just(Jitter::Full),
            Just(Jitter::Equal),
            (0..=1_000_000_u32).prop_map(|ppm| Jitter::PlusMinus { ppm }),
            Just(Jitter::Decorrelated),
        ]
    }

    fn any_backoff() -> impl Strategy<Value = Backoff> {
        (any_shape(), prop::option::of(nanos()), any_jitter()).prop_map(|(shape, cap, jitter)| Backoff {
            shape,
            cap,
            jitter,
        })
    }

    fn attempt() -> impl Strategy<Value = u32> {
        prop_oneof![1..200_u32, any::<u32>()]
    }

    proptest! {
        #[test]
        fn never_above_the_cap_and_always_within_bounds(backoff in any_backoff(), n in attempt(), run: u64) {
            let delay = backoff.delay(n, Seed::new(run, "tool", "call"));
            let (least, most) = backoff.bounds(n);
            prop_assert!(least <= delay && delay <= most, "{least} {delay} {most}");
            prop_assert!(least <= backoff.median(n) && backoff.median(n) <= most);
            prop_assert!(most <= backoff.cap.unwrap_or(Nanos::MAX));
        }

        #[test]
        fn without_jitter_never_shorter_than_before(shape in any_shape(), cap in prop::option::of(nanos()), n in attempt()) {
            prop_assume!(!matches!(shape, BackoffShape::Schedule { .. }));
            let backoff = Backoff { shape, cap, jitter: Jitter::None };
            let seed = Seed::new(0, "", "");
            prop_assert!(backoff.delay(n, seed) <= backoff.delay(n.saturating_add(1), seed));
        }

        #[test]
        fn one_step_after_the_other_and_the_end_are_as_if_each_were_asked_for(backoff in any_backoff(), n in 1..300_u32) {
            let mut waiting = WaitBounds::new(&backoff);
            for attempt in 1..=n {
                prop_assert_eq!(waiting.next(), backoff.bounds(attempt), "{}", attempt);
            }
            prop_assert_eq!(backoff.limits(), backoff.bounds(u32::MAX));
        }

        #[test]
        fn the_same_seed_gives_the_same_delay(backoff in any_backoff(), n in attempt(), run: u64) {
            let delay = || backoff.delay(n, Seed::new(run, "model", "turn"));
            prop_assert_eq!(delay(), delay());
        }

        #[test]
        fn another_seed_differs_somewhere(jitter in any_jitter(), run: u64) {
            prop_assume!(!matches!(jitter, Jitter::None | Jitter::PlusMinus { ppm: 0..=1000 }));
            let backoff = Backoff { shape: BackoffShape::Constant { delay: secs(1) }, cap: None, jitter };
            let of = |run: u64| (1..=8).map(|n| backoff.delay(n, Seed::new(run, "tool", "call"))).collect::<Vec<_>>();
            prop_assert_ne!(of(run), of(run.wrapping_add(1)));
        }
    }
}
