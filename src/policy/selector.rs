//! Names and patterns of tools and models: `http.get`, `http.*`.

use core::cmp::{Ordering, Reverse};
use core::fmt;
use std::collections::VecDeque;
use std::sync::Arc;

const LONGEST: usize = 256;

/// An exact name, or a pattern in which `*` stands for any run of characters, none included.
///
/// Selectors are ordered from the least specific to the most specific: if one includes another, it comes first.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Selector {
    text: Arc<str>,
    stars: usize,
    literals: usize,
}

/// Why a text is not a selector.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SelectorError {
    /// What is wrong.
    pub message: String,
    /// What to write instead.
    pub help: Option<String>,
}

impl Selector {
    /// The selector `text` means.
    ///
    /// # Errors
    /// If `text` is empty, longer than 256 characters, or holds `**` or a control character.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        let refuse = |message: &str, help: &str| {
            Err(SelectorError { message: message.to_owned(), help: Some(help.to_owned()) })
        };
        if text.is_empty() {
            return refuse("a name or pattern is missing", "write a name, or `*` for all");
        }
        // Counting ends one past the limit, so a text of megabytes costs no more than a name.
        let length = text.chars().take(LONGEST.saturating_add(1)).count();
        if length > LONGEST {
            return refuse("the pattern is longer than 256 characters", "use `*` to shorten it");
        }
        // In shell globs `**` crosses folders and `*` does not. Names have no folders, so `**` would promise a
        // difference.
        if text.contains("**") {
            return refuse("`**` means no more than `*`", "write a single `*`");
        }
        // No provider takes one in a name, and a terminal would obey it when the pattern is shown.
        if text.chars().any(char::is_control) {
            return refuse("the pattern holds a control character", "remove it");
        }
        let stars = text.matches('*').count();
        Ok(Self { text: text.into(), stars, literals: length.saturating_sub(stars) })
    }

    /// Why no tool can have a name that this selects, if none can: it holds a sign of another language of patterns, or one
    /// that no provider takes in a name.
    pub(crate) fn never_a_tool(&self) -> Option<SelectorError> {
        self.refused(|c| {
            c.is_whitespace()
                // Bedrock takes `[a-zA-Z0-9_-]` in the name of a tool, Gemini also `.` and `:`. None takes these
                // signs.
                || matches!(c, '|' | ',' | ';' | '?' | '!' | '[' | ']' | '{' | '}' | '(' | ')' | '<' | '>')
                || matches!(c, '^' | '$' | '+' | '=' | '&' | '%' | '\\' | '"' | '\'' | '`')
        })
    }

    /// The same of models, whose names are less plain: `claude[1m]` is one.
    pub(crate) fn never_a_model(&self) -> Option<SelectorError> {
        self.refused(|c| matches!(c, '|' | ',' | ';' | '?' | '{' | '}' | '^' | '$' | '\\'))
    }

    fn refused(&self, refused: impl Fn(char) -> bool) -> Option<SelectorError> {
        let sign = self.text.chars().find(|c| refused(*c))?;
        let several =
            alternatives(&self.text).filter(|names| names.iter().all(|name| !name.contains(&refused)));
        let help = match several {
            Some(names) => {
                let one = self.text.split_whitespace().eq(names.iter());
                let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
                let each = format!("an entry for each of {}", names.join(", "));
                // Words between spaces may be two names, or one: `get file` may mean `get_file`.
                match usable(&self.text, &refused).filter(|_| one) {
                    Some(name) => format!("write `{name}`, or {each}"),
                    None => format!("write {each}"),
                }
            }
            None => match as_star(&self.text).filter(|text| !text.contains(&refused)) {
                Some(star) => {
                    format!("`*` is the only sign of a pattern, for any run of characters: `{star}`")
                }
                None => match usable(&self.text, &refused) {
                    Some(name) => format!("write `{name}`"),
                    None => {
                        "write a name, or a pattern in which `*` stands for any run of characters".to_owned()
                    }
                },
            },
        };
        Some(SelectorError { message: format!("no name holds `{sign}`: `{}`", self.text), help: Some(help) })
    }

    /// Whether `name` is selected. Linear in the length of both.
    pub fn matches(&self, name: &str) -> bool {
        // Every literal needs at least one byte, so a shorter name cannot match.
        if name.len() < self.literals {
            return false;
        }
        // The leftmost place of each literal is enough, as only `*` lies between literals. Without backtracking no
        // pattern is slow, whatever name a model invents.
        let mut parts = self.text.split('*');
        let Some(mut rest) = parts.next().and_then(|first| name.strip_prefix(first)) else { return false };
        let Some(last) = parts.next_back() else { return rest.is_empty() };
        for part in parts {
            // A single byte is found without preparing a search.
            let found = match part.as_bytes() {
                [byte] => rest.find(char::from(*byte)),
                _ => rest.find(part),
            };
            match found.and_then(|at| rest.get(at.saturating_add(part.len())..)) {
                Some(after) => rest = after,
                None => return false,
            }
        }
        rest.ends_with(last)
    }

    /// Whether it selects a single name.
    pub const fn is_exact(&self) -> bool {
        self.stars == 0
    }

    /// Whether it selects everything `other` selects.
    ///
    /// Decided by one match: the `*` of `other` is taken as a character that no literal equals.
    pub(crate) fn includes(&self, other: &Self) -> bool {
        self.matches(&other.text)
    }

    /// Whether two patterns, each with a `*`, select a common name: their ends decide that.
    pub(crate) fn may_overlap(&self, other: &Self) -> bool {
        // A `*` can grow to hold all that the other pattern has between its ends, so the ends alone decide.
        let (a, b) = (self.beginning(), other.beginning());
        let (y, z) = (self.ending(), other.ending());
        (a.starts_with(b) || b.starts_with(a)) && (y.ends_with(z) || z.ends_with(y))
    }

    /// The shortest name both select, if there is one.
    pub(crate) fn overlaps(&self, other: &Self) -> Option<String> {
        let (ours, theirs): (Vec<char>, Vec<char>) =
            (self.text.chars().collect(), other.text.chars().collect());
        let width = theirs.len().saturating_add(1);
        let cell = |i: usize, j: usize| i.saturating_mul(width).saturating_add(j);
        // How each pair of positions was first reached: from where, and with which character of the name.
        let mut reached: Vec<Option<PatternStep>> =
            vec![None; cell(ours.len(), theirs.len()).saturating_add(1)];
        let mut queue = VecDeque::from([PatternStep { to: (0, 0), from: (0, 0), character: None }]);
        while let Some(step) = queue.pop_front() {
            let (i, j) = step.to;
            match reached.get_mut(cell(i, j)) {
                Some(seen @ None) => *seen = Some(step),
                _ => continue,
            }
            let (next_i, next_j) = (i.saturating_add(1), j.saturating_add(1));
            let mut go = |to, character: Option<char>| {
                let step = PatternStep { to, from: (i, j), character };
                // Steps that add no character go to the front (0-1 breadth-first search), so the first end that is
                // reached spells the shortest name.
                if character.is_some() { queue.push_back(step) } else { queue.push_front(step) }
            };
            match (ours.get(i).copied(), theirs.get(j).copied()) {
                (None, None) => return Some(trace(&reached, cell, (i, j))),
                (Some('*'), Some(c)) if c != '*' => {
                    go((i, next_j), Some(c));
                    go((next_i, j), None);
                }
                (Some(c), Some('*')) if c != '*' => {
                    go((next_i, j), Some(c));
                    go((i, next_j), None);
                }
                (Some('*'), Some(_)) => {
                    go((next_i, j), None);
                    go((i, next_j), None);
                }
                (Some('*'), None) => go((next_i, j), None),
                (_, Some('*')) => go((i, next_j), None),
                (Some(c), next) if next == Some(c) => go((next_i, next_j), Some(c)),
                _ => {}
            }
        }
        None
    }

    /// How many runs of characters it leaves open.
    pub(crate) const fn stars(&self) -> usize {
        self.stars
    }

    /// As it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// As it was written.
    pub(crate) fn text(&self) -> Arc<str> {
        Arc::clone(&self.text)
    }

    /// What every name it selects begins with.
    pub(crate) fn beginning(&self) -> &str {
        self.text.split_once('*').map_or(&*self.text, |(beginning, _)| beginning)
    }

    /// What every name it selects ends with.
    pub(crate) fn ending(&self) -> &str {
        self.text.rsplit_once('*').map_or(&*self.text, |(_, ending)| ending)
    }
}

/// The most names that are written out of a pattern.
const MOST_NAMES: usize = 6;

/// The few names that a pattern of another language means, if it is one that lists them: `a|b`, `a, b`, `{a,b}`,
/// `get_[ab]`.
fn alternatives(text: &str) -> Option<Vec<String>> {
    let brackets = [('{', '}'), ('(', ')'), ('[', ']')];
    let inner = brackets.iter().find_map(|(open, close)| {
        let (before, rest) = text.split_once(*open)?;
        let (inner, after) = rest.split_once(*close)?;
        Some((before, inner, after, *open == '['))
    });
    let (before, inner, after, one_of) = inner.unwrap_or(("", text, "", false));
    let parts: Vec<String> = if one_of {
        // A range (`[a-z]`) or a negation (`[^a]`) does not list its names.
        if inner.contains(['-', '^', '!']) {
            return None;
        }
        inner.chars().map(String::from).collect()
    } else {
        inner.split(['|', ',', ';', ' ']).filter(|part| !part.is_empty()).map(str::to_owned).collect()
    };
    let names = parts.into_iter().map(|part| format!("{before}{part}{after}"));
    Some(names.collect::<Vec<_>>()).filter(|names| (2..=MOST_NAMES).contains(&names.len()))
}

/// The text as a name, with `_` in place of what no name holds; `None`: it is a pattern, or nothing is left.
fn usable(text: &str, refused: impl Fn(char) -> bool) -> Option<String> {
    let words: Vec<&str> = text.split(refused).filter(|word| !word.is_empty()).collect();
    (!words.is_empty() && !text.contains('*')).then(|| words.join("_"))
}

/// A pattern of another language with `*` in place of what stands for more than itself: `x?` and `^x.*$` are `x*`.
fn as_star(text: &str) -> Option<String> {
    let (bare, open) = (text.trim_start_matches('^'), !text.ends_with('$'));
    let (begins, text) = (bare.len() < text.len(), bare.trim_end_matches('$'));
    let mut rest = text.chars().peekable();
    // A regular expression with `$` but without `^` may begin anywhere in the name.
    let mut star = if begins || open { String::new() } else { "*".to_owned() };
    while let Some(c) = rest.next() {
        match c {
            '[' | '(' | '{' => {
                let close = match c {
                    '[' => ']',
                    '(' => ')',
                    _ => '}',
                };
                rest.by_ref().find(|c| *c == close)?;
                star.push('*');
            }
            // `.*` and `.+` mean one star. The next character of the expression adds it.
            '.' if matches!(rest.peek(), Some('*' | '+')) => {}
            '\\' => star.push(rest.next().filter(|c| *c == '.').unwrap_or('*')),
            '?' | '+' => star.push('*'),
            c => star.push(c),
        }
    }
    if begins && open {
        star.push('*');
    }
    while star.contains("**") {
        star = star.replace("**", "*");
    }
    (star != "*" && !star.is_empty()).then_some(star)
}

/// One step of the walk through two patterns at once.
#[derive(Clone, Copy)]
struct PatternStep {
    to: (usize, usize),
    from: (usize, usize),
    character: Option<char>,
}

/// The name spelt by the steps that lead to `end`.
fn trace(
    reached: &[Option<PatternStep>],
    cell: impl Fn(usize, usize) -> usize,
    end: (usize, usize),
) -> String {
    let mut name = Vec::new();
    let mut at = end;
    while at != (0, 0) {
        let Some(Some(step)) = reached.get(cell(at.0, at.1)) else { break };
        name.extend(step.character);
        at = step.from;
    }
    name.iter().rev().collect()
}

impl Ord for Selector {
    fn cmp(&self, other: &Self) -> Ordering {
        // More literals and then fewer stars put an included pattern after the one that includes it. The text makes
        // the order total, so precedence never depends on the order of files.
        let key = |s: &Self| (s.literals, Reverse(s.stars));
        key(self).cmp(&key(other)).then_with(|| self.text.cmp(&other.text))
    }
}

impl PartialOrd for Selector {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn selector(text: &str) -> Selector {
        Selector::parse(text).unwrap()
    }

    /// All words over `alphabet` up to `length` characters, the empty one included.
    fn words(alphabet: &[char], length: usize) -> Vec<String> {
        let mut all = vec![String::new()];
        let mut last = all.clone();
        for _ in 0..length {
            last = last.iter().flat_map(|w| alphabet.iter().map(move |c| format!("{w}{c}"))).collect();
            all.extend_from_slice(&last);
        }
        all
    }

    fn patterns() -> Vec<Selector> {
        words(&['a', 'b', '*'], 3).iter().filter_map(|w| Selector::parse(w).ok()).collect()
    }

    /// The textbook definition, exponential and obvious.
    fn by_definition(pattern: &str, name: &str) -> bool {
        match pattern.chars().next() {
            None => name.is_empty(),
            Some('*') => {
                by_definition(&pattern[1..], name) || (!name.is_empty() && by_definition(pattern, &name[1..]))
            }
            Some(c) => name.starts_with(c) && by_definition(&pattern[1..], &name[1..]),
        }
    }

    #[test]
    fn a_star_stands_for_any_run() {
        for (pattern, name, expected) in [
            ("http.get", "http.get", true),
            ("http.get", "http.gets", false),
            ("http.*", "http.get", true),
            ("http.*", "http.", true),
            ("http.*", "http", false),
            ("*", "", true),
            ("*.delete", "db.delete", true),
            ("a*a", "a", false),
            ("größe.*", "größe.ß", true),
        ] {
            assert_eq!(selector(pattern).matches(name), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn matching_inclusion_order_and_overlap_agree_with_all_short_names() {
        let names = words(&['a', 'b'], 6);
        // One character more than the patterns know, as real alphabets have.
        let wider = words(&['a', 'b', 'c'], 6);
        let patterns = patterns();
        for p in &patterns {
            for name in &names {
                assert_eq!(p.matches(name), by_definition(p.as_str(), name), "{p} {name}");
            }
        }
        let sets: Vec<Vec<bool>> =
            patterns.iter().map(|p| wider.iter().map(|w| p.matches(w)).collect()).collect();
        for (p, of_p) in patterns.iter().zip(&sets) {
            for (q, of_q) in patterns.iter().zip(&sets) {
                let includes = of_p.iter().zip(of_q).all(|(p, q)| *p || !q);
                assert_eq!(p.includes(q), includes, "{p} includes {q}");
                if includes && p != q && !q.includes(p) {
                    assert!(p < q, "{p} before {q}");
                }
                let shortest = wider.iter().zip(of_p.iter().zip(of_q)).find(|(_, (p, q))| **p && **q);
                let witness = p.overlaps(q);
                assert_eq!(witness.as_ref().map(String::len), shortest.map(|(w, _)| w.len()), "{p} {q}");
                if !p.is_exact() && !q.is_exact() {
                    assert_eq!(witness.is_some(), p.may_overlap(q), "{p} {q}");
                }
                if let Some(witness) = witness {
                    assert!(p.matches(&witness) && q.matches(&witness), "{p} {q} {witness}");
                }
            }
        }
    }

    #[test]
    fn an_overlap_names_a_witness() {
        assert_eq!(selector("db.*").overlaps(&selector("*.delete")).unwrap(), "db.delete");
        assert_eq!(selector("db.*").overlaps(&selector("http.*")), None);
    }

    #[test]
    fn what_is_no_selector_is_refused() {
        for (text, message) in [
            ("", "a name or pattern is missing"),
            ("a**", "`**` means no more than `*`"),
            ("a\n", "the pattern holds a control character"),
            (&"é".repeat(257), "the pattern is longer than 256 characters"),
        ] {
            assert_eq!(Selector::parse(text).unwrap_err().message, message);
        }
        assert!(Selector::parse(&"é".repeat(256)).is_ok());
    }

    #[test]
    fn what_no_tool_can_be_called_is_refused_with_what_to_write() {
        let help = |text: &str| selector(text).never_a_tool().unwrap().help.unwrap();
        for (text, names) in [
            ("a|b", "`a`, `b`"),
            ("pay, later", "`pay`, `later`"),
            ("db_{read,write}", "`db_read`, `db_write`"),
            ("get_[ab]", "`get_a`, `get_b`"),
            ("(get|list)_user", "`get_user`, `list_user`"),
        ] {
            assert_eq!(help(text), format!("write an entry for each of {names}"));
        }
        assert_eq!(help("re fund"), "write `re_fund`, or an entry for each of `re`, `fund`");
        for (text, name) in
            [("refund!", "refund"), ("a&b", "a_b"), (" refund", "refund"), ("re\u{a0}fund", "re_fund")]
        {
            assert_eq!(help(text), format!("write `{name}`"));
        }
        for (text, star) in [
            ("x?", "x*"),
            ("^get", "get*"),
            ("get$", "*get"),
            ("^get_.*$", "get_*"),
            ("get_[a-z]+", "get_*"),
            (r"db\.\w+", "db.*"),
        ] {
            assert!(help(text).ends_with(&format!(": `{star}`")), "{text}: {}", help(text));
        }
        for text in ["!x", "a b c d e f g", "[", "x\\", "?", "(a"] {
            assert!(selector(text).never_a_tool().is_some(), "{text}");
        }
        for text in ["http.get", "http_*", "ns:tool", "a/b-c", "größe", "*", "@x/y"] {
            assert!(selector(text).never_a_tool().is_none(), "{text}");
        }
        for text in ["claude-opus[1m]", "openai/gpt-4.1:free", "my model (new)"] {
            assert!(selector(text).never_a_model().is_none(), "{text}");
        }
        assert!(selector("gpt-4o|gpt-5").never_a_model().is_some());
    }

    #[test]
    fn a_hostile_name_is_matched_in_linear_time() {
        let pattern = selector(&"*a".repeat(120));
        let name = format!("{}b", "a".repeat(1_000_000));
        assert!(!pattern.matches(&name));
        assert!(pattern.overlaps(&selector(&"a*".repeat(120))).is_some());
    }

    proptest! {
        #[test]
        fn a_pattern_includes_itself_and_overlaps_what_it_includes(a in "[ab*é]{1,8}", b in "[ab*é]{1,8}") {
            let (Ok(a), Ok(b)) = (Selector::parse(&a), Selector::parse(&b)) else { return Ok(()) };
            prop_assert!(a.includes(&a));
            prop_assert_eq!(a.overlaps(&b).is_some(), b.overlaps(&a).is_some());
            if a.includes(&b) {
                prop_assert!(a.overlaps(&b).is_some());
            }
            prop_assert_eq!(a.cmp(&b), b.cmp(&a).reverse());
        }
    }
}
