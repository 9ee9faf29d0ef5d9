//! Time as plain integers: the interpreter never asks what time it is, it is informed.

use core::fmt;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

const NANOS_PER_SEC: u64 = 1_000_000_000;
const NANOS_PER_MILLI: u64 = 1_000_000;

/// A length of time in whole nanoseconds. All arithmetic saturates; 2^64 ns are 584 years.
///
/// ```
/// use unfazed::time::Nanos;
/// assert_eq!(Nanos::from_millis(1500).to_string(), "1.5s");
/// assert_eq!(Nanos::MAX.saturating_add(Nanos::from_secs(1)), Nanos::MAX);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Nanos(pub u64);

/// A moment: nanoseconds since the Unix epoch, as the driver tells it. It never runs backwards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Instant(pub u64);

impl Nanos {
    /// No time at all. A wait of this length creates no timer.
    pub const ZERO: Self = Self(0);
    /// The longest representable length.
    pub const MAX: Self = Self(u64::MAX);

    /// `secs` seconds.
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(NANOS_PER_SEC))
    }

    /// `millis` milliseconds.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(NANOS_PER_MILLI))
    }

    /// Whether this is no time at all.
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// The sum, or [`Nanos::MAX`].
    #[must_use]
    pub const fn saturating_add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// The difference, or zero.
    #[must_use]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// The product, or [`Nanos::MAX`].
    #[must_use]
    pub const fn saturating_mul(self, factor: u64) -> Self {
        Self(self.0.saturating_mul(factor))
    }

    /// So many millionths of it, rounded down.
    #[must_use]
    pub fn share(self, ppm: u32) -> Self {
        let part = u128::from(self.0).saturating_mul(ppm.into()).div_euclid(1_000_000);
        Self(u64::try_from(part).unwrap_or(u64::MAX))
    }

    /// As the standard library's type, for drivers.
    pub const fn to_std(self) -> core::time::Duration {
        core::time::Duration::from_nanos(self.0)
    }

    /// From the standard library's type; saturates.
    pub fn from_std(duration: core::time::Duration) -> Self {
        Self(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
    }

    /// Whole milliseconds, for logs and reports.
    pub(crate) const fn millis(self) -> u64 {
        self.0.div_euclid(NANOS_PER_MILLI)
    }

    /// Seconds as a number, for people and reports only; the interpreter never computes with it.
    #[expect(clippy::cast_precision_loss, reason = "shown, never computed with")]
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / NANOS_PER_SEC as f64
    }
}

/// Saturates: what is longer than 584 years is that long.
impl From<core::time::Duration> for Nanos {
    fn from(duration: core::time::Duration) -> Self {
        Self::from_std(duration)
    }
}

impl From<Nanos> for core::time::Duration {
    fn from(nanos: Nanos) -> Self {
        nanos.to_std()
    }
}

impl Instant {
    /// The end of time.
    pub const MAX: Self = Self(u64::MAX);

    /// The moment `after` this one; saturates.
    #[must_use]
    pub const fn saturating_add(self, after: Nanos) -> Self {
        Self(self.0.saturating_add(after.0))
    }

    /// How long after `earlier` this is; zero if it is not.
    pub const fn since(self, earlier: Self) -> Nanos {
        Nanos(self.0.saturating_sub(earlier.0))
    }

    /// RFC 3339 in UTC with milliseconds: `2026-11-21T23:40:19.250Z`.
    pub fn to_rfc3339(self) -> String {
        let at = std::time::UNIX_EPOCH + core::time::Duration::from_nanos(self.0);
        humantime::format_rfc3339_millis(at).to_string()
    }
}

impl JsonSchema for Nanos {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Nanoseconds".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A length of time in whole nanoseconds.",
            "type": "integer",
            "minimum": 0,
            "examples": [1_500_000_000],
            "x-unit": "In nanoseconds.",
        })
    }
}

impl JsonSchema for Instant {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Instant".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A moment: whole nanoseconds since 1970-01-01T00:00:00Z.",
            "type": "integer",
            "minimum": 0,
            "examples": [1_767_225_600_000_000_000_u64],
            "x-unit": "In nanoseconds since 1970-01-01T00:00:00Z.",
        })
    }
}

impl Nanos {
    /// To three digits, for people: `945.071498ms` becomes `945ms`, and `639109h9m52s` becomes `639000h`.
    ///
    /// ```
    /// use unfazed::time::Nanos;
    /// assert_eq!(Nanos::from_secs(2_300_792_992).rounded().to_string(), "639000h");
    /// assert_eq!(Nanos::from_secs(99 * 3_600 + 1).rounded().to_string(), "98h53m20s");
    /// ```
    #[must_use]
    pub const fn rounded(self) -> Self {
        const HOUR: u64 = 3_600 * NANOS_PER_SEC;
        // From here on the hours alone have three digits.
        let mut unit = if self.0 >= 100 * HOUR { HOUR } else { 1 };
        while self.0 / unit >= 1000 {
            unit = unit.saturating_mul(10);
        }
        Self(self.0.saturating_add(unit / 2) / unit * unit)
    }
}

impl fmt::Display for Nanos {
    /// The shortest form a policy accepts: `0s`, `250ms`, `1.5s`, `1m30s`, `2h`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let secs = self.0 / NANOS_PER_SEC;
        let rest = self.0 % NANOS_PER_SEC;
        if secs == 0 && rest != 0 {
            return match rest {
                n if n % NANOS_PER_MILLI == 0 => write!(f, "{}ms", n / NANOS_PER_MILLI),
                n if n >= NANOS_PER_MILLI => write!(f, "{}ms", fraction(n, NANOS_PER_MILLI, 6)),
                n if n % 1000 == 0 => write!(f, "{}us", n / 1000),
                n => write!(f, "{n}ns"),
            };
        }
        let (hours, minutes, secs) = (secs / 3600, secs % 3600 / 60, secs % 60);
        if hours > 0 {
            write!(f, "{hours}h")?;
        }
        if minutes > 0 {
            write!(f, "{minutes}m")?;
        }
        if secs > 0 || rest > 0 || (hours == 0 && minutes == 0) {
            let n = secs * NANOS_PER_SEC + rest;
            write!(f, "{}s", fraction(n, NANOS_PER_SEC, 9))?;
        }
        Ok(())
    }
}

/// `n / unit` with as many decimals as it needs.
fn fraction(n: u64, unit: u64, digits: usize) -> String {
    let (whole, rest) = (n / unit, n % unit);
    if rest == 0 {
        return whole.to_string();
    }
    let decimals = format!("{rest:0digits$}");
    format!("{whole}.{}", decimals.trim_end_matches('0'))
}
