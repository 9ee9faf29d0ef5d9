//! "Did you mean": the known name nearest to a misspelt one.

/// The maximum length of names that are compared.
const LONGEST: usize = 64;
/// Fewer letters are short for nothing.
const SHORTEST: usize = 3;
/// Words of more letters than this are known though two of them are wrong.
const LONG_WORD: usize = 5;

/// The candidate a person most likely meant by `name`, if one is near enough.
pub(crate) fn closest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let length = name.chars().count();
    if length == 0 || length > LONGEST {
        return None;
    }
    // A common part says little: `connection_error` is no slip of `execution_error`. A long name may have more wrong
    // letters, as in rustc (`edit_distance`).
    let tolerance = |candidate: &str| (own(name, candidate).chars().count() / 3).max(length / 5).max(1);
    let candidates: Vec<&str> =
        candidates.into_iter().filter(|candidate| candidate.len() <= LONGEST).collect();
    let near = candidates
        .iter()
        .map(|candidate| (distance(name, candidate), *candidate))
        .filter(|(distance, candidate)| *distance <= tolerance(candidate) && *distance < length)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate);
    near.or_else(|| shortened(name, &candidates))
}

/// The only candidate that begins with `name`: `expo` is short for `exponential`.
fn shortened<'a>(name: &str, candidates: &[&'a str]) -> Option<&'a str> {
    let begin = Some(fold(name)).filter(|begin| begin.len() >= SHORTEST)?;
    let mut longer = candidates.iter().filter(|candidate| fold(candidate).starts_with(&begin));
    match (longer.next(), longer.next()) {
        (Some(only), None) => Some(only),
        _ => None,
    }
}

/// Whether `meant` is all that `name` can be: a letter away, or two in a longer word, and no other candidate as near.
pub(crate) fn is_certain<'a>(name: &str, meant: &str, candidates: impl IntoIterator<Item = &'a str>) -> bool {
    let near = distance(name, meant);
    let most = if name.chars().count() > LONG_WORD { 2 } else { 1 };
    // Two names that are equally near leave a choice, and a choice is for people.
    let mut others = candidates.into_iter().filter(|candidate| *candidate != meant);
    near <= most && others.all(|other| distance(name, other) > near)
}

/// The rest of a name, without the words that it begins or ends with as the other name does.
fn own<'n>(name: &'n str, other: &str) -> &'n str {
    const ENDS: [char; 6] = ['_', '-', '.', '/', ':', ' '];
    let common = |one: Option<char>, two: Option<char>| one.is_some() && one == two;
    let mut pairs = name.chars().zip(other.chars());
    let same = pairs.by_ref().take_while(|(one, two)| one == two).map(|(one, _)| one.len_utf8());
    let begins = same.fold(0_usize, usize::saturating_add);
    let begin = name.get(..begins).unwrap_or_default().rfind(ENDS).map_or(0, |at| at.saturating_add(1));
    let (mut back, mut there) = (name.chars().rev(), other.chars().rev());
    let mut ends = 0_usize;
    loop {
        let (one, two) = (back.next(), there.next());
        if !common(one, two) {
            break;
        }
        ends = ends.saturating_add(one.map_or(0, char::len_utf8));
    }
    let tail = name.len().saturating_sub(ends);
    let end =
        name.get(tail..).unwrap_or_default().find(ENDS).map_or(name.len(), |at| tail.saturating_add(at));
    name.get(begin..end.max(begin)).filter(|own| !own.is_empty()).unwrap_or(name)
}

/// Edits between the two, a swap of neighbours counting once; case and separators not at all.
fn distance(a: &str, b: &str) -> usize {
    // Optimal string alignment: swapped neighbours are the commonest slip.
    strsim::osa_distance(&fold(a), &fold(b))
}

/// In lower case and without separators.
pub(crate) fn fold(name: &str) -> String {
    name.chars().filter(|c| !matches!(c, '-' | '_' | '.' | ' ')).flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::{closest, is_certain};

    #[test]
    fn a_word_may_be_short_for_the_only_one_that_begins_so() {
        let kinds = ["constant", "linear", "exponential", "except", "fibonacci"];
        assert_eq!(closest("expo", kinds), Some("exponential"));
        assert_eq!(closest("const", kinds), Some("constant"));
        assert_eq!(closest("ex", kinds), None);
        assert_eq!(closest("exc", ["exceed", "except"]), None);
    }

    #[test]
    fn a_letter_or_two_leave_no_doubt_unless_two_names_are_as_near() {
        let names = ["max_attempts", "cap", "map", "retry"];
        assert!(is_certain("max_attemps", "max_attempts", names));
        assert!(is_certain("maxAtempt", "max_attempts", names));
        assert!(is_certain("rety", "retry", names));
        assert!(!is_certain("rtri", "retry", names));
        assert!(!is_certain("xap", "cap", names));
    }

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
    fn words_that_names_share_make_them_no_slip_of_each_other() {
        assert_eq!(closest("connection_error", ["execution_error", "timeout"]), None);
        assert_eq!(closest("server_error", ["reducer_error", "auth_error"]), None);
        assert_eq!(closest("max_tokens", ["max_turns"]), None);
        assert_eq!(closest("presets/lang-chain", ["presets/ai-agent"]), None);
        assert_eq!(closest("exection_error", ["execution_error"]), Some("execution_error"));
        assert_eq!(closest("max_turn", ["max_turns"]), Some("max_turns"));
        assert_eq!(closest("attempt_tymooot", ["attempt_timeout"]), Some("attempt_timeout"));
        assert_eq!(closest("presets/ai_agnt", ["presets/ai-agent"]), Some("presets/ai-agent"));
    }

    #[test]
    fn the_nearest_wins_and_ties_go_to_the_first() {
        assert_eq!(closest("cap", ["cab", "cap", "map"]), Some("cap"));
        assert_eq!(closest("xap", ["cap", "map"]), Some("cap"));
    }
}
