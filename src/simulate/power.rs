//! Powers of two and logarithms in integers, so that they are the same on every machine.

/// One as a fixed-point number.
const ONE: u128 = 1 << 62;
/// The number of fractional bits of an exponent.
const BITS: u32 = 32;

/// The binary logarithm of `num / den`, times 2^32; zero if it is negative.
pub(super) fn log2(num: u64, den: u64) -> u64 {
    let mut rest = (u128::from(num) << 62).checked_div(den.into()).unwrap_or(ONE);
    if rest < ONE {
        return 0;
    }
    let whole = rest.ilog2() - 62;
    rest >>= whole;
    let mut log = u64::from(whole);
    for _ in 0..BITS {
        rest = (rest * rest) >> 62;
        log <<= 1;
        if rest >= ONE << 1 {
            rest >>= 1;
            log |= 1;
        }
    }
    log
}

/// `value` times two to the power of `exponent / 2^32`; saturates.
pub(super) fn times_power(value: u64, exponent: i64) -> u64 {
    let whole = exponent >> BITS;
    let part = exponent.rem_euclid(1 << BITS);
    let mut factor = ONE;
    // The square root of two, the root of that, and so on.
    let mut root = ONE << 1;
    for bit in (0..BITS).rev() {
        root = (root << 62).isqrt();
        if part >> bit & 1 == 1 {
            factor = (factor * root) >> 62;
        }
    }
    let product = u128::from(value) * factor;
    let shift = 62 - whole;
    let shifted = match u32::try_from(shift) {
        Ok(right) => product.checked_shr(right).unwrap_or(0),
        Err(_) => return if value == 0 { 0 } else { u64::MAX },
    };
    u64::try_from(shifted).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNIT: i64 = 1 << 32;

    #[test]
    fn logarithms_of_powers_are_whole() {
        assert_eq!(log2(8, 1), 3 << 32);
        assert_eq!(log2(1024, 1024), 0);
        assert_eq!(log2(3, 4), 0);
        assert_eq!(log2(u64::MAX, 1) >> 32, 63);
    }

    #[test]
    fn powers_are_those_of_floating_point() {
        for (value, exponent) in [(1_000_000_u64, 0.5), (4_000_000_000, 2.321_928), (9_000_000, -1.75)] {
            #[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "a test")]
            let found = times_power(value, (exponent * UNIT as f64) as i64) as f64;
            #[expect(clippy::cast_precision_loss, reason = "a test")]
            let wanted = value as f64 * f64::powf(2.0, exponent);
            assert!((found - wanted).abs() <= wanted / 1e9 + 1.0, "{value} {exponent}: {found} {wanted}");
        }
    }

    #[test]
    fn what_is_too_large_is_the_largest() {
        assert_eq!(times_power(5, 90 * UNIT), u64::MAX);
        assert_eq!(times_power(5, -90 * UNIT), 0);
        assert_eq!(times_power(0, 90 * UNIT), 0);
    }
}
