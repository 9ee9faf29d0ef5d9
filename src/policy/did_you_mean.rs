//! "Did you mean": the known name nearest to a misspelt one.

/// Longer names are not compared; nobody misspells them by a letter or two.
const LONGEST: usize = 64;

/// The candidate a person most likely meant by `name`, if one is near enough.
pub fn closest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let length = name.chars().count();
    if length == 0 || length > LONGEST {
        return None;
    }
    let tolerance = (length / 3).max(1);
    candidates
        .into_iter()
        .filter(|candidate| candidate.len() <= LONGEST)
        .map(|candidate| (distance(name, candidate), candidate))
        .filter(|(distance, _)| *distance <= tolerance && *distance < length)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Edits between the two, a swap of neighbours counting once; case and separators not at all.
fn distance(a: &str, b: &str) -> usize {
    strsim::osa_distance(&fold(a), &fold(b))
}

fn fold(name: &str) -> String {
    name.chars().filter(|c| !matches!(c, '-' | '_' | '.' | ' ')).flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::closest;

    #[test]
    fn a_slip_finds_the_name_meant() {
        let names = ["args", "tool", "attempt"];
        assert_eq!(closest("arsg", names), Some("args"));
        assert_eq!(closest("Tool", names), Some("tool"));
        assert_eq!(closest("atempt", names), Some("attempt"));
        assert_eq!(closest("maxAttempts", ["max_attempts"]), Some("max_attempts"));
        assert_eq!(closest("http_get", ["http.get", "file.get"]), Some("http.get"));
    }

    #[test]
    fn a_name_unlike_all_finds_none() {
        assert_eq!(closest("budget", ["args", "tool"]), None);
        assert_eq!(closest("", ["a"]), None);
        assert_eq!(closest("b", ["a"]), None);
        assert_eq!(closest(&"a".repeat(100_000), ["a"]), None);
    }

    #[test]
    fn the_nearest_wins_and_ties_go_to_the_first() {
        assert_eq!(closest("cap", ["cab", "cap", "map"]), Some("cap"));
        assert_eq!(closest("xap", ["cap", "map"]), Some("cap"));
    }
}
