//! A bar of parts: so many characters for each as it has of the whole.

/// So many characters has a bar.
pub(super) const WIDTH: u64 = 60;

/// A bar of the parts, each by its sign. Every character is the part that has its middle.
pub(super) fn bar(parts: &[(char, u64)]) -> String {
    let all = parts.iter().fold(0_u128, |all, (_, tokens)| all + u128::from(*tokens));
    (0..u128::from(WIDTH))
        .filter_map(|place| {
            let middle = (2 * place + 1) * all / (2 * u128::from(WIDTH));
            let mut end = 0;
            parts.iter().find_map(|(sign, tokens)| {
                end += u128::from(*tokens);
                (middle < end).then_some(*sign)
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_has_its_share() {
        let bar = bar(&[('a', 25), ('b', 50), ('c', 0), ('.', 25)]);
        assert_eq!(bar, format!("{}{}{}", "a".repeat(15), "b".repeat(30), ".".repeat(15)));
    }

    #[test]
    fn the_largest_numbers_make_a_bar_and_none_makes_none() {
        assert_eq!(bar(&[('a', u64::MAX), ('b', u64::MAX)]).len(), 60);
        assert_eq!(bar(&[('a', 0)]), "");
    }
}
