//! Latency distributions as piecewise linear curves.

use schemars::{Schema, SchemaGenerator, json_schema};

use super::power::{log2, times_power};
use crate::policy::decode::{Decode, NodeReader, SchemaOf, union};
use crate::text::yaml::{YamlData, YamlNode};
use crate::text::{Code, Diagnostic, parse_duration};
use crate::time::Nanos;

/// The normal distribution: cumulative probabilities in parts per million, with quantiles in millionths of the
/// standard deviation above the mean. The lower half is the mirror image.
const NORMAL: [(u32, i64); 25] = [
    (500_000, 0),
    (550_000, 125_661),
    (600_000, 253_347),
    (650_000, 385_320),
    (700_000, 524_401),
    (750_000, 674_490),
    (800_000, 841_621),
    (850_000, 1_036_433),
    (900_000, 1_281_552),
    (925_000, 1_439_531),
    (950_000, 1_644_854),
    (960_000, 1_750_686),
    (970_000, 1_880_794),
    (980_000, 2_053_749),
    (985_000, 2_170_090),
    (990_000, P99),
    (993_000, 2_457_263),
    (995_000, 2_575_829),
    (997_000, 2_747_781),
    (998_000, 2_878_162),
    (999_000, 3_090_232),
    (999_500, 3_290_527),
    (999_800, 3_540_084),
    (999_900, 3_719_016),
    (999_990, 4_264_891),
];
const P99: i64 = 2_326_348;

/// The same for the exponential distribution, in millionths of its mean.
const EXPONENTIAL: [(u32, u64); 34] = [
    (0, 0),
    (50_000, 51_293),
    (100_000, 105_361),
    (150_000, 162_519),
    (200_000, 223_144),
    (250_000, 287_682),
    (300_000, 356_675),
    (350_000, 430_783),
    (400_000, 510_826),
    (450_000, 597_837),
    (500_000, 693_147),
    (550_000, 798_508),
    (600_000, 916_291),
    (650_000, 1_049_822),
    (700_000, 1_203_973),
    (750_000, 1_386_294),
    (800_000, 1_609_438),
    (850_000, 1_897_120),
    (875_000, 2_079_442),
    (900_000, 2_302_585),
    (925_000, 2_590_267),
    (950_000, 2_995_732),
    (960_000, 3_218_876),
    (970_000, 3_506_558),
    (980_000, 3_912_023),
    (985_000, 4_199_705),
    (990_000, 4_605_170),
    (993_000, 4_961_845),
    (995_000, 5_298_317),
    (997_000, 5_809_143),
    (998_000, 6_214_608),
    (999_000, 6_907_755),
    (999_900, 9_210_340),
    (999_990, 11_512_925),
];

const MILLION: u32 = 1_000_000;

/// A latency distribution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LatencyModel {
    /// The cumulative distribution: the share in parts of 2^32, and the time; rising.
    points: Box<[(u32, Nanos)]>,
}

union! {
    /// How long something takes: a time, or one of these.
    #[derive(Copy)]
    enum LatencyRule by kind {
        /// Always the same.
        Constant = "constant" {
            /// The time.
            /// Example: `2s`
            time: Nanos,
        },
        /// Anything between two times.
        Uniform = "uniform" {
            /// The shortest.
            /// Example: `1s`
            min: Nanos,
            /// The longest.
            /// Example: `3s`
            max: Nanos,
        },
        /// Mostly short, now and then long.
        Exponential = "exponential" {
            /// The mean.
            /// Example: `2s`
            mean: Nanos,
        },
        /// As answers of models take: half of them at most the median, 99 of a hundred at most `p99`.
        Lognormal = "lognormal" {
            /// The median.
            /// Example: `4s`
            median: Nanos,
            /// What 99 of a hundred stay within.
            /// Example: `20s`
            p99: Nanos,
        },
    }
}

impl LatencyModel {
    /// A constant latency.
    pub(crate) fn constant(time: Nanos) -> Self {
        Self { points: [(0, time)].into() }
    }

    fn of(rule: LatencyRule) -> Self {
        match rule {
            LatencyRule::Constant { time } => Self::constant(time),
            LatencyRule::Uniform { min, max } => Self { points: [(0, min), (u32::MAX, max)].into() },
            LatencyRule::Exponential { mean } => Self {
                points: EXPONENTIAL
                    .iter()
                    .map(|(ppm, millionths)| (part(*ppm), times(mean, *millionths)))
                    .collect(),
            },
            LatencyRule::Lognormal { median, p99 } => Self::lognormal(median, p99),
        }
    }

    fn lognormal(median: Nanos, p99: Nanos) -> Self {
        let log = i128::from(log2(p99.0, median.0));
        let at = |deviations: i64| {
            let exponent = log.saturating_mul(deviations.into()).div_euclid(P99.into());
            Nanos(times_power(median.0, i64::try_from(exponent).unwrap_or(i64::MAX)))
        };
        let below = NORMAL.iter().rev().map(|(ppm, deviations)| (part(MILLION - ppm), at(-deviations)));
        let above = NORMAL.iter().skip(1).map(|(ppm, deviations)| (part(*ppm), at(*deviations)));
        Self { points: below.chain(above).collect() }
    }

    /// The latency for a random number.
    pub(crate) fn draw(&self, number: u64) -> Nanos {
        let share = u32::try_from(number >> 32).unwrap_or(u32::MAX);
        let after = self.points.partition_point(|(at, _)| *at <= share);
        let (before, after) =
            (after.checked_sub(1).and_then(|before| self.points.get(before)), self.points.get(after));
        match (before, after) {
            (Some((from, low)), Some((to, high))) => {
                let (done, whole) = (u128::from(share - from), u128::from(to - from));
                let more = u128::from(high.0.saturating_sub(low.0)) * done / whole;
                low.saturating_add(Nanos(u64::try_from(more).unwrap_or(u64::MAX)))
            }
            (Some((_, time)), None) | (None, Some((_, time))) => *time,
            (None, None) => Nanos::ZERO,
        }
    }
}

impl Decode for LatencyModel {
    const NAME: Option<&'static str> = Some("Latency");

    fn decode(node: &YamlNode, reader: &mut NodeReader<'_>) -> Option<Self> {
        let rule = match &node.data {
            YamlData::Map(_) => LatencyRule::decode(node, reader)?,
            YamlData::Text(text)
                if parse_duration(text).is_err() && !text.starts_with(|c: char| c.is_ascii_digit()) =>
            {
                return reader.wrong_type(
                    node,
                    "a duration such as `2s`, or `{kind: lognormal, median: 4s, p99: 20s}`",
                );
            }
            _ => LatencyRule::Constant { time: Nanos::decode(node, reader)? },
        };
        let problem = match &rule {
            LatencyRule::Uniform { min, max } if min > max => Some("`min` is longer than `max`"),
            LatencyRule::Lognormal { median, p99 } if median > p99 => Some("`median` is longer than `p99`"),
            LatencyRule::Lognormal { median, .. } if median.is_zero() => Some("`median` is no time at all"),
            _ => None,
        };
        if let Some(problem) = problem {
            reader.report(Diagnostic::error(Code::CONTRADICTION, node.span, problem));
            return None;
        }
        Some(Self::of(rule))
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        let time = generator.subschema_for::<SchemaOf<Nanos>>();
        let rule = generator.subschema_for::<SchemaOf<LatencyRule>>();
        json_schema!({
            "description": "How long something takes: a time, or a distribution.",
            "anyOf": [time, rule],
            "examples": ["2s", {"kind": "lognormal", "median": "4s", "p99": "20s"}],
        })
    }
}

/// Converts parts per million to parts of 2^32.
fn part(ppm: u32) -> u32 {
    let part = (u64::from(ppm) << 32) / u64::from(MILLION);
    u32::try_from(part).unwrap_or(u32::MAX)
}

fn times(time: Nanos, millionths: u64) -> Nanos {
    let product = u128::from(time.0) * u128::from(millionths) / u128::from(MILLION);
    Nanos(u64::try_from(product).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Seed;

    /// The median and the 99th percentile, in milliseconds.
    fn middle_and_p99(rule: LatencyRule) -> (u64, u64) {
        let latency = LatencyModel::of(rule);
        let seed = Seed::new(1, "test", "latency");
        let mut times: Vec<u64> = (0..40_000).map(|n| latency.draw(seed.draw(n)).0 / 1_000_000).collect();
        times.sort_unstable();
        (times[20_000], times[39_600])
    }

    fn near(found: u64, wanted: u64) -> bool {
        found.abs_diff(wanted) * 20 <= wanted
    }

    #[test]
    fn a_lognormal_has_its_median_and_its_p99() {
        let rule = LatencyRule::Lognormal { median: Nanos::from_secs(4), p99: Nanos::from_secs(30) };
        let (median, p99) = middle_and_p99(rule);
        assert!(near(median, 4_000) && near(p99, 30_000), "{median} {p99}");
    }

    #[test]
    fn an_exponential_has_its_mean() {
        let (median, p99) = middle_and_p99(LatencyRule::Exponential { mean: Nanos::from_secs(10) });
        assert!(near(median, 6_931) && near(p99, 46_052), "{median} {p99}");
    }

    #[test]
    fn a_uniform_stays_within_its_ends() {
        let latency = LatencyModel::of(LatencyRule::Uniform { min: Nanos(100), max: Nanos(200) });
        assert_eq!((latency.draw(0), latency.draw(u64::MAX)), (Nanos(100), Nanos(200)));
        assert_eq!(latency.draw(u64::MAX / 2), Nanos(149));
    }

    #[test]
    fn the_same_number_has_the_same_time_for_ever() {
        let rule = LatencyRule::Lognormal { median: Nanos::from_secs(2), p99: Nanos::from_secs(9) };
        let latency = LatencyModel::of(rule);
        let times = [0, 1 << 62, 1 << 63, 3 << 62, u64::MAX].map(|number| latency.draw(number).0);
        assert_eq!(times, [126_910_126, 1_293_125_700, 2_000_000_000, 3_093_280_102, 31_518_367_429]);
        assert_eq!(LatencyModel::constant(Nanos(7)).draw(u64::MAX), Nanos(7));
    }

    #[test]
    #[expect(clippy::cast_precision_loss, reason = "a test")]
    fn the_table_is_that_of_the_logarithm() {
        for (ppm, millionths) in EXPONENTIAL {
            let exact = -(1.0 - f64::from(ppm) / 1e6).ln() * 1e6;
            assert!((exact - millionths as f64).abs() < 1.0, "{ppm}");
        }
    }
}
