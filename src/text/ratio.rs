//! Decimal numbers kept exactly, so that delays are the same on every machine.

use core::fmt;
use core::str::FromStr;

use super::excerpt::excerpt;

/// The finest part that can be written.
const DECIMALS: u32 = 3;
const LARGEST: u64 = 1000;

/// A growth factor of at least one, exact: `2`, `1.5`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GrowthFactor {
    num: u64,
    den: u64,
}

/// Why a text is not a factor or a fraction, and what to write.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct RatioError {
    /// What is wrong.
    pub message: String,
    /// What to write instead.
    pub help: Option<String>,
}

impl GrowthFactor {
    /// The factor one.
    pub const ONE: Self = Self { num: 1, den: 1 };
    /// The factor two.
    pub const TWO: Self = Self { num: 2, den: 1 };

    /// `num / den` in lowest terms; `None` below 1, above 1000 or finer than a thousandth.
    pub fn new(num: u64, den: u64) -> Option<Self> {
        let divisor = gcd(num, den);
        let (num, den) = (num.checked_div(divisor)?, den.checked_div(divisor)?);
        let fits =
            den >= 1 && den <= 10_u64.pow(DECIMALS) && num >= den && num <= den.saturating_mul(LARGEST);
        fits.then_some(Self { num, den })
    }

    /// The numerator, in lowest terms.
    pub const fn num(self) -> u64 {
        self.num
    }

    /// The denominator, in lowest terms; never zero.
    pub const fn den(self) -> u64 {
        self.den
    }
}

impl FromStr for GrowthFactor {
    type Err = RatioError;

    fn from_str(text: &str) -> Result<Self, RatioError> {
        let thousandths = decimal(text, DECIMALS).map_err(|help| refuse(text, "factor", help))?;
        Self::new(thousandths, 10_u64.pow(DECIMALS))
            .ok_or_else(|| refuse(text, "factor", "a factor lies between 1 and 1000, such as `2` or `1.5`"))
    }
}

/// A fraction above 0 and at most 1, such as `0.2`, in parts per million.
///
/// # Errors
/// If `text` is not such a fraction.
pub(crate) fn parse_ppm(text: &str) -> Result<u32, RatioError> {
    const WHOLE: u64 = 1_000_000;
    let ppm = decimal(text, 6).map_err(|help| refuse(text, "fraction", help))?;
    u32::try_from(ppm)
        .ok()
        .filter(|_| (1..=WHOLE).contains(&ppm))
        .ok_or_else(|| refuse(text, "fraction", "a fraction lies above 0 and at most at 1, such as `0.2`"))
}

/// An amount of US dollars of at most six decimals, in millionths.
///
/// # Errors
/// If `text` is no such amount.
pub(crate) fn parse_millionths(text: &str) -> Result<u64, RatioError> {
    decimal(text, 6).map_err(|help| refuse(text, "price", help))
}

/// `text` times `10^decimals`, exactly.
fn decimal(text: &str, decimals: u32) -> Result<u64, &'static str> {
    const HELP: &str = "write a plain number, such as `2` or `1.5`";
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    // Eighteen digits always fit into 64 bits.
    let digits = |s: &str| !s.is_empty() && s.len() <= 18 && s.bytes().all(|b| b.is_ascii_digit());
    if !digits(whole) || !digits(part) {
        return Err(HELP);
    }
    // `1.500` is as exact as `1.5`.
    let part = part.trim_end_matches('0');
    let missing =
        u32::try_from(part.len()).ok().and_then(|n| decimals.checked_sub(n)).ok_or("write fewer decimals")?;
    let part = if part.is_empty() { 0 } else { part.parse::<u64>().map_err(|_| HELP)? };
    let whole = whole.parse::<u64>().map_err(|_| HELP)?;
    Ok(whole
        .saturating_mul(10_u64.saturating_pow(decimals))
        .saturating_add(part.saturating_mul(10_u64.saturating_pow(missing))))
}

fn refuse(text: &str, what: &str, help: &str) -> RatioError {
    RatioError { message: format!("`{}` is not a {what}", excerpt(text, 40)), help: Some(help.to_owned()) }
}

fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a.checked_rem(b).unwrap_or(0));
    }
    a
}

impl fmt::Display for GrowthFactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = self.num.checked_div(self.den).unwrap_or(0);
        let rest = self.num.checked_rem(self.den).unwrap_or(0);
        let thousandths = rest.saturating_mul(1000).checked_div(self.den).unwrap_or(0);
        if thousandths == 0 {
            return write!(f, "{whole}");
        }
        write!(f, "{whole}.{}", format!("{thousandths:03}").trim_end_matches('0'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn decimals_are_kept_exactly() {
        for (text, num, den) in
            [("2", 2, 1), ("1.5", 3, 2), ("1", 1, 1), ("1.001", 1001, 1000), ("2.50", 5, 2)]
        {
            let ratio: GrowthFactor = text.parse().unwrap();
            assert_eq!((ratio.num(), ratio.den()), (num, den), "{text}");
        }
    }

    #[test]
    fn what_is_no_factor_is_refused() {
        for text in
            ["0.5", "0", "-2", "1e3", "1001", "1.0001", ".5", "2.", "", "two", "NaN", "99999999999999999999"]
        {
            assert!(text.parse::<GrowthFactor>().is_err(), "{text}");
        }
        assert_eq!(GrowthFactor::new(1, 0), None);
        assert_eq!(GrowthFactor::new(0, 0), None);
        let error = "0.5".parse::<GrowthFactor>().unwrap_err();
        assert_eq!(error.message, "`0.5` is not a factor");
        assert_eq!(error.help.unwrap(), "a factor lies between 1 and 1000, such as `2` or `1.5`");
    }

    #[test]
    fn an_amount_is_kept_to_the_millionth() {
        for (text, millionths) in [("2.50", 2_500_000), ("0", 0), ("0.000001", 1), ("75", 75_000_000)] {
            assert_eq!(parse_millionths(text), Ok(millionths));
        }
        for text in ["-1", "1e3", "0.0000001", "", "1,5", "$2"] {
            assert!(parse_millionths(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_fraction_is_counted_in_millionths() {
        assert_eq!(parse_ppm("0.2"), Ok(200_000));
        assert_eq!(parse_ppm("1"), Ok(1_000_000));
        assert_eq!(parse_ppm("0.000001"), Ok(1));
        for text in ["0", "0.0", "1.1", "-0.1", "0.0000001", "20%"] {
            assert!(parse_ppm(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_shown_is_read_back(thousandths in 1000u64..=1_000_000) {
            let ratio = GrowthFactor::new(thousandths, 1000).unwrap();
            prop_assert_eq!(ratio.to_string().parse::<GrowthFactor>(), Ok(ratio));
        }
    }
}
