//! What a message speaks of without stating it: what it denies (`your account is not suspended`), what it supposes (`if you
//! run out of credits`), addresses, and names that it only quotes (`'gpt-4-32k-context-window'`). A phrase there is no
//! evidence that the limit, the account or the filter is what failed.

use core::ops::Range;

/// What such parts of a message begin with, as phrases are searched for; without one, and without a quote, it has none.
pub(crate) const MARKERS: [&str; 18] = [
    "if",
    "unless",
    "whether",
    "in case",
    "not",
    "never",
    "no",
    "t",
    "http",
    "nothing to do",
    "unrelated to",
    "regardless of",
    "within your",
    "untouched",
    "unaffected",
    "intact",
    "fine ",
    "ok",
];

/// What comes before `not` where it denies. After `must`, `can` and the like it states a limit: `must not exceed 4096`.
const IS: [&str; 10] = ["is", "are", "was", "were", "be", "been", "has", "have", "had", "does"];
/// The same with `not` behind it, of which the apostrophe has made a word of its own.
const IS_NOT: [&str; 9] = ["isn", "aren", "wasn", "weren", "hasn", "haven", "hadn", "doesn", "didn"];
/// What may stand between a denial and what is denied.
const BETWEEN: [&str; 15] = [
    "a",
    "an",
    "the",
    "any",
    "your",
    "yet",
    "been",
    "being",
    "currently",
    "actually",
    "to",
    "caused",
    "by",
    "related",
    "about",
];
/// What `no` denies. Of what one needs it states that it is gone: `no credit`.
const TROUBLES: [&str; 12] = [
    "rate",
    "limit",
    "limits",
    "content",
    "filter",
    "throttling",
    "suspension",
    "overload",
    "safety",
    "moderation",
    "guardrail",
    "violation",
];
/// How words begin that tell what happens to a limit, an account or a request. Denied, they take back all of their clause:
/// `your monthly limit hasn't been reached`.
const HAPPENS: [&str; 16] = [
    "reach", "exceed", "exhaust", "deplet", "hit", "used", "consum", "spent", "suspend", "overload", "touch",
    "affect", "involv", "trigger", "block", "flag",
];
/// What says of something before it that it is as it should be.
const AS_IT_SHOULD_BE: [&str; 5] = ["fine", "ok", "untouched", "unaffected", "intact"];
/// Words between two clauses.
const JOINS: [&str; 8] = ["and", "but", "because", "so", "as", "since", "while", "although"];
/// The most words that are looked at to either side for the end of a clause.
const LONGEST_CLAUSE: usize = 24;
/// Before these a quoted name is that of a limit or of an error, and tells what failed.
const TELLS: [&str; 12] = [
    "metric",
    "quota",
    "limit",
    "code",
    "error",
    "type",
    "reason",
    "status",
    "exception",
    "bucket",
    "dimension",
    "policy",
];
/// The longest name that is looked for between quotes.
const LONGEST_NAME: usize = 128;

/// The parts of a message that state nothing, in bytes of it.
#[derive(Debug, Default)]
pub(crate) struct UnstatedParts {
    /// What is denied or supposed, and addresses: a phrase that begins there.
    spoken_of: Vec<Range<usize>>,
    /// Quoted names: a phrase that is only a part of one.
    names: Vec<Range<usize>>,
}

/// A word of a message, in lower case if it is short, and where it is.
struct MessageWord<'t> {
    text: &'t str,
    at: Range<usize>,
}

impl UnstatedParts {
    /// Finds them.
    pub(crate) fn of(text: &str) -> Self {
        let mut found = Self::default();
        found.addresses(text);
        found.quoted(text);
        let words: Vec<_> = words(text).collect();
        for (number, word) in words.iter().enumerate() {
            let before = number.checked_sub(1).and_then(|before| words.get(before));
            let after = words.get(number.saturating_add(1)..).unwrap_or_default();
            // "Has not been reached" takes back its whole clause, other denials only what comes next.
            let taken_back =
                || takes_back(before, word, after).then(|| clause(text, &words, number)).flatten();
            let spoken_of = supposed(text, word, after).or_else(taken_back);
            found.spoken_of.extend(spoken_of.or_else(|| denied(before, word, after)));
        }
        found
    }

    /// Whether a phrase at that place is not stated.
    pub(crate) fn covers(&self, phrase: &Range<usize>) -> bool {
        let inside = |part: &Range<usize>| part.contains(&phrase.start);
        let within = |name: &Range<usize>| inside(name) && phrase.end <= name.end && phrase != name;
        self.spoken_of.iter().any(inside) || self.names.iter().any(within)
    }

    /// Addresses, up to where their words end.
    fn addresses(&mut self, text: &str) {
        // A link to documentation names a limit that may have nothing to do with the failure.
        for (at, _) in text.match_indices("://") {
            let ends = |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '`' | ')' | '>' | ']');
            let rest = text.get(at..).unwrap_or_default();
            let end = at.saturating_add(rest.find(ends).unwrap_or(rest.len()));
            self.spoken_of.push(at..end);
        }
    }

    /// Names of several words between quotes, but those of limits and errors.
    fn quoted(&mut self, text: &str) {
        let mut from = 0_usize;
        while let Some(at) = text.get(from..).and_then(|rest| rest.find(['\'', '"', '`'])) {
            let opens = from.saturating_add(at);
            let (before, rest) = text.split_at_checked(opens).unwrap_or_default();
            from = opens.saturating_add(1);
            let Some((name, _)) = rest.get(1..).and_then(|inside| inside.split_once(rest.get(..1)?)) else {
                continue;
            };
            // Names of models hold words of limits, such as `gpt-4-32k-context-window`.
            let is_name = name.len() <= LONGEST_NAME
                && !name.contains(char::is_whitespace)
                && name.contains(['-', '_', '.', '/'])
                && !before.ends_with(char::is_alphanumeric);
            if !is_name {
                continue;
            }
            // After `metric`, `quota` or `code` the quoted name is what failed: Google names the exceeded metric so.
            let last = words(before).last();
            if !last.is_some_and(|word| is_one_of(word.text, &TELLS)) {
                self.names.push(from..from.saturating_add(name.len()));
            }
            from = from.saturating_add(name.len()).saturating_add(1);
        }
    }
}

/// What a word supposes, or denies as a reason: all up to the end of its clause.
fn supposed(text: &str, word: &MessageWord<'_>, after: &[MessageWord<'_>]) -> Option<Range<usize>> {
    let next = |words: &[&str]| after.first().is_some_and(|word| is_one_of(word.text, words));
    // "If you run out of credits" supposes, and nothing of it has happened.
    let begins = match word.text.to_ascii_lowercase().as_str() {
        "if" | "unless" | "whether" => true,
        "in" => next(&["case"]),
        "not" => next(&["because", "due"]),
        "nothing" | "unrelated" => next(&["to"]),
        "within" => next(&["your"]),
        "regardless" => next(&["of"]),
        _ => false,
    };
    if !begins {
        return None;
    }
    let rest = text.get(word.at.end..)?;
    let stops = |(at, c): (usize, char)| match c {
        ',' | ';' | ':' | '!' | '?' | '(' | ')' | '\n' => true,
        // A dot inside a number or an address (`1.5`, `example.com`) does not end the clause.
        '.' => rest.get(at.saturating_add(1)..).is_none_or(|rest| !rest.starts_with(char::is_alphanumeric)),
        _ => false,
    };
    let end = rest.char_indices().find(|&at| stops(at)).map_or(rest.len(), |(at, _)| at);
    Some(word.at.end..word.at.end.saturating_add(end))
}

/// What a word denies: what comes next.
fn denied(
    before: Option<&MessageWord<'_>>,
    word: &MessageWord<'_>,
    after: &[MessageWord<'_>],
) -> Option<Range<usize>> {
    let follows = |words: &[&str]| before.is_some_and(|before| is_one_of(before.text, words));
    let next = after.iter().find(|word| !is_one_of(word.text, &BETWEEN))?;
    let denies = match word.text.to_ascii_lowercase().as_str() {
        "not" => follows(&IS),
        "t" => follows(&IS_NOT),
        "never" => true,
        // `no` before what one needs states its lack (`no credit`), so it denies only troubles.
        "no" => is_one_of(next.text, &TROUBLES),
        _ => false,
    };
    denies.then_some(word.at.end..next.at.end)
}

/// Whether a word denies that something happened, or says that all is well.
fn takes_back(before: Option<&MessageWord<'_>>, word: &MessageWord<'_>, after: &[MessageWord<'_>]) -> bool {
    let follows = |words: &[&str]| before.is_some_and(|before| is_one_of(before.text, words));
    let denies = match word.text.to_ascii_lowercase().as_str() {
        "not" => follows(&IS) || follows(&["did", "do"]),
        "t" => follows(&IS_NOT) || follows(&["don"]),
        "never" => true,
        _ => return is_one_of(word.text, &AS_IT_SHOULD_BE) && follows(&IS),
    };
    let mut next = after.iter().filter(|word| !is_one_of(word.text, &BETWEEN));
    // A filler may stand between: `has not been reached`, `have not yet exceeded`.
    let (Some(verb), then) = (next.next(), next.next()) else { return false };
    let begins =
        |stem: &&str| verb.text.get(..stem.len()).is_some_and(|start| start.eq_ignore_ascii_case(stem));
    let runs_out =
        is_one_of(verb.text, &["run", "ran"]) && then.is_some_and(|then| is_one_of(then.text, &["out"]));
    denies && (runs_out || HAPPENS.iter().any(begins))
}

/// The clause around a word.
fn clause(text: &str, words: &[MessageWord<'_>], number: usize) -> Option<Range<usize>> {
    let joined = |pair: &&[MessageWord<'_>]| {
        let [one, other] = pair else { return false };
        let between = text.get(one.at.end..other.at.start).unwrap_or_default();
        // A dot inside a number or an address (`1.5`, `example.com`) does not end the clause.
        let ends = between.contains([',', ';', ':', '!', '?', '(', ')', '\n']) || between.starts_with(". ");
        !ends && !is_one_of(one.text, &JOINS) && !is_one_of(other.text, &JOINS)
    };
    // Both walks are bounded, so a message of a megabyte costs no square of its length.
    let before = words.get(..=number)?.windows(2).rev().take(LONGEST_CLAUSE).take_while(joined).count();
    let after = words.get(number..)?.windows(2).take(LONGEST_CLAUSE).take_while(joined).count();
    let (first, last) = (words.get(number.checked_sub(before)?)?, words.get(number.checked_add(after)?)?);
    Some(first.at.start..last.at.end)
}

/// The words of a text, in their order.
fn words(text: &str) -> impl Iterator<Item = MessageWord<'_>> {
    let mut from = 0_usize;
    core::iter::from_fn(move || {
        let rest = text.get(from..)?;
        let start = from.saturating_add(rest.find(char::is_alphanumeric)?);
        let word = text.get(start..)?;
        let end = start.saturating_add(word.find(|c: char| !c.is_alphanumeric()).unwrap_or(word.len()));
        from = end;
        Some(MessageWord { text: text.get(start..end)?, at: start..end })
    })
}

fn is_one_of(word: &str, words: &[&str]) -> bool {
    words.iter().any(|known| known.eq_ignore_ascii_case(word))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What of a message states nothing.
    fn parts(text: &str) -> Vec<&str> {
        let UnstatedParts { spoken_of, names } = UnstatedParts::of(text);
        spoken_of.into_iter().chain(names).map(|part| text[part].trim()).collect()
    }

    #[test]
    fn what_is_denied_or_supposed_is_not_stated() {
        for (text, unstated) in [
            ("Your account is not suspended; slow down", vec!["Your account is not suspended"]),
            (
                "Too fast. Your monthly limit hasn't been reached, but wait",
                vec!["Your monthly limit hasn't been reached"],
            ),
            (
                "You did not exceed your daily quota of 1.5 M; slow down",
                vec!["You did not exceed your daily quota of 1.5 M"],
            ),
            ("You have not run out of credits because of it", vec!["You have not run out of credits"]),
            ("Your balance is fine and you are too fast", vec!["Your balance is fine"]),
            ("This has nothing to do with your quota. Wait", vec!["to do with your quota"]),
            ("Your card was not charged as your limit is used up", vec!["charged"]),
            ("There isn't enough money", vec!["enough"]),
            ("it hasn't been rate limited, it failed", vec!["been rate"]),
            ("This is not a quota problem: wait", vec!["a quota"]),
            ("The input must not exceed 4096 tokens", vec![]),
            ("It cannot exceed the limit, nor may it not be longer", vec![]),
            (
                "If you run out of 1.5 credits you see another error. Retry",
                vec!["you run out of 1.5 credits you see another error"],
            ),
            ("Check whether the quota is exhausted, or wait", vec!["the quota is exhausted"]),
            ("In case of overload, wait", vec!["case of overload"]),
            ("limited by a burst, not because your credits ran out.", vec!["because your credits ran out"]),
            ("no content filter was applied", vec!["content"]),
            ("you have no credit", vec![]),
            ("see https://x.dev/rate-limits#window).", vec!["://x.dev/rate-limits#window"]),
        ] {
            assert_eq!(parts(text), unstated, "{text}");
        }
    }

    #[test]
    fn a_quoted_name_states_nothing_but_that_of_a_limit() {
        for (text, unstated) in [
            ("'gpt-4-32k-context-window' is larger than supported", vec!["gpt-4-32k-context-window"]),
            ("`max_tokens` isn't in \"a b-c\"", vec!["in", "max_tokens"]),
            ("Quota metric 'requests_per_day' is used up", vec![]),
            ("error code: \"context_length_exceeded\"", vec![]),
            ("it's odd, isn't it", vec!["it"]),
            ("'open-ended", vec![]),
        ] {
            assert_eq!(parts(text), unstated, "{text}");
        }
        let text = UnstatedParts::of("'max_tokens' is odd");
        assert!(!text.covers(&(1..11)), "a whole name is what is spoken of");
        assert!(text.covers(&(1..4)));
    }

    proptest! {
        #[test]
        fn any_text_can_be_looked_at(text in r#"( |if|not|is|no|'|"|`|a-b|://|\.|,|é|it's|余){0,30}"#) {
            let found = UnstatedParts::of(&text);
            for part in found.spoken_of.iter().chain(&found.names) {
                prop_assert!(text.get(part.clone()).is_some(), "{text:?} {part:?}");
            }
        }
    }
}
