//! Which names stand for all names: every exact one, and for each pattern one that only it and wider ones match.
//!
//! What a policy does with a name depends on the selectors that match it, and on nothing else. A name made of a
//! pattern by putting a text that is in no selector for each `*` is matched by the selectors that include the
//! pattern, and by no other. Where two patterns overlap, neither more specific, the name is made of the longer beginning
//! and the longer ending; and where that ending may begin within that beginning, of both laid over each other. For
//! patterns with a single `*` these are all the ways in which selectors can meet.

use crate::policy::form::Document;
use std::collections::{BTreeMap, BTreeSet};

use crate::policy::document::{ModelLayer, PrioritizedRule, RetryPolicy, ToolLayer, for_all};
use crate::policy::rules::RuleList;
use crate::policy::{Policy, Selector};

/// The lists that say what is done about a class of errors.
pub(crate) const RETRY_ON: &str = "retry_on";
pub(crate) const NEVER_RETRY: &str = "never_retry";
/// The values that say together what is done about a class of errors.
pub(crate) const DECIDING: [&str; 5] =
    ["retry.retry_on", "retry.never_retry", "retry.enabled", "retry.shadow", "effect"];
/// Patterns that overlap are compared in so many pairs.
const MOST_PAIRS: usize = 10_000;
/// So many pairs are looked at.
const MOST_LOOKS: usize = 4_000_000;
/// So many patterns are tried in all, where no index helps.
const MOST_TRIES: usize = 5_000_000;
/// Texts for `*` that read well.
const WORDS: &[&str] = &["any", "other", "some"];

/// Names that are compared in addition to those the policies speak of.
#[derive(Clone, Debug, Default)]
pub struct ComparedNames {
    /// Tools.
    pub tools: Vec<String>,
    /// Models.
    pub models: Vec<String>,
}

/// A name, or a selector for several names.
pub(crate) struct NamedPattern {
    /// For people.
    pub(crate) shown: String,
    /// The name.
    pub(crate) example: String,
}

/// All that is compared.
pub(crate) struct AllNames {
    pub(crate) all: Vec<NamedPattern>,
    /// Whether there are more names than were taken.
    pub(crate) incomplete: bool,
}

/// The tools that are compared.
pub(crate) fn tools(old: &Policy, new: &Policy, also: &[String]) -> AllNames {
    let both = [old.layers().tool_rules(), new.layers().tool_rules()];
    let more = |rule: &ToolLayer| {
        let calls = (!rule.calls.is_empty()).then(|| CALLS.to_owned());
        calls.into_iter().chain(touched(&rule.retry, rule.limits.is_some())).collect()
    };
    NameSearch { both, more: &more }.run(also, "any other tool")
}

/// The models that are compared.
pub(crate) fn models(old: &Policy, new: &Policy, also: &[String]) -> AllNames {
    let both = [old.layers().model_rules(), new.layers().model_rules()];
    let more = |rule: &ModelLayer| touched(&rule.retry, rule.limits.is_some());
    NameSearch { both, more: &more }.run(also, "any other model")
}

/// Stands for what may touch any field of `retry`: layers of calls, limits, and classes that lose their own rules.
const CALLS: &str = "retry.";

fn touched(retry: &RetryPolicy<Document>, limits: bool) -> Vec<String> {
    let any = limits || retry.by_class.is_unset();
    any.then(|| CALLS.to_owned()).into_iter().collect()
}

/// Where two patterns meet.
#[derive(Default)]
struct PatternMeeting {
    /// For people.
    shown: String,
    /// Names that both match, too short for the longer beginning and the longer ending one after the other.
    short: Vec<String>,
}

/// The rules of both policies.
struct NameSearch<'r, T> {
    both: [&'r RuleList<T>; 2],
    /// What a layer speaks of in addition to its entries.
    more: &'r dyn Fn(&T) -> Vec<String>,
}

/// A pattern, and what is set for the names it matches.
struct NamePattern<'r> {
    selector: &'r Selector,
    paths: Vec<String>,
}

impl<T: PrioritizedRule> NameSearch<'_, T> {
    fn run(&self, also: &[String], any_other: &str) -> AllNames {
        let stranger = self.stranger();
        let (most, mut known, mut all) = (self.room(), BTreeSet::new(), Vec::new());
        let mut add = |key: String, shown: &str, example: &dyn Fn(&str) -> String| {
            if known.contains(&key) {
                return true;
            }
            let room = all.len() < most;
            if room {
                all.push(NamedPattern { shown: shown.to_owned(), example: example(&key) });
                known.insert(key);
            }
            room
        };
        let itself = |name: &str| name.to_owned();
        let of_pattern = |pattern: &str| self.example(pattern, stranger);
        let exact = self.selectors().filter(|selector| selector.is_exact()).map(Selector::as_str);
        let mut complete =
            also.iter().map(String::as_str).chain(exact).all(|name| add(name.to_owned(), name, &itself));
        let mut patterns = self.selectors().filter(|selector| is_pattern(selector)).map(Selector::as_str);
        complete &= patterns.all(|pattern| add(pattern.to_owned(), pattern, &of_pattern));
        let (meetings, incomplete) = self.meetings();
        complete &= !incomplete;
        complete &= meetings.into_iter().all(|(meeting, PatternMeeting { shown, short })| {
            let mut apart = short.into_iter().filter(|name| !self.is_matched_like(name, &meeting));
            apart.all(|name| add(name.clone(), &name, &itself)) && add(meeting, &shown, &of_pattern)
        });
        all.push(NamedPattern { shown: any_other.to_owned(), example: self.example("*", stranger) });
        AllNames { all, incomplete: !complete }
    }

    /// How many names may be compared: patterns that begin and end with `*` are tried for each of them.
    fn room(&self) -> usize {
        let free = |selector: &&Selector| selector.beginning().is_empty() && selector.ending().is_empty();
        let tried = self.selectors().filter(|selector| is_pattern(selector)).filter(free).count();
        MOST_TRIES.div_euclid(tried.max(1))
    }

    fn selectors(&self) -> impl Iterator<Item = &Selector> {
        self.both.into_iter().flat_map(|rules| rules.all().iter().map(|rule| &rule.selector))
    }

    /// A character of no selector.
    fn stranger(&self) -> char {
        let used: BTreeSet<char> = self.selectors().flat_map(|selector| selector.as_str().chars()).collect();
        let plain = ('a'..='z').rev().chain('0'..='9').chain('\u{a1}'..=char::MAX);
        plain.into_iter().find(|c| !used.contains(c) && c.is_alphanumeric()).unwrap_or('\u{10ffff}')
    }

    /// A name that is matched by the selectors that include the pattern, and by no other.
    fn example(&self, pattern: &str, stranger: char) -> String {
        let with = |filler: &str| pattern.replace('*', filler);
        let alone = |name: &String| {
            let matching = self.both.into_iter().flat_map(|rules| rules.matching(name));
            matching.into_iter().all(|rule| rule.selector.matches(pattern))
        };
        let readable = WORDS.iter().map(|word| with(word)).find(alone);
        readable.unwrap_or_else(|| with(&stranger.to_string()))
    }

    /// Whether the rules that match a name are those that match all that a pattern does.
    fn is_matched_like(&self, name: &str, pattern: &str) -> bool {
        let selected = |text: &str| -> Vec<&Selector> {
            let both = self.both.into_iter().flat_map(|rules| rules.candidates(text));
            both.map(|rule| &rule.selector).filter(|selector| selector.matches(text)).collect()
        };
        selected(name) == selected(pattern)
    }

    /// Where patterns overlap that speak of the same values, neither more specific: a pattern of what both match, and how
    /// people call it. `true`: there are more.
    fn meetings(&self) -> (BTreeMap<String, PatternMeeting>, bool) {
        let mut patterns = self.patterns();
        // Those that begin alike stand together, or those that end alike, whichever leaves fewer to look at.
        let begin = |pattern: &NamePattern<'_>| pattern.selector.beginning().to_owned();
        let end = |pattern: &NamePattern<'_>| pattern.selector.ending().chars().rev().collect::<String>();
        let (by_begin, by_end) = (reaches(&mut patterns, begin), reaches(&mut patterns, end));
        let looks = |reaches: &[usize]| reaches.iter().fold(0_usize, |sum, reach| sum.saturating_add(*reach));
        let reaches = if looks(&by_begin) < looks(&by_end) { reaches(&mut patterns, begin) } else { by_end };
        let (mut found, mut looked) = (BTreeMap::new(), 0_usize);
        for (i, (a, reach)) in patterns.iter().zip(&reaches).enumerate() {
            let from = i.saturating_add(1);
            for b in patterns.get(from..from.saturating_add(*reach)).unwrap_or_default() {
                looked = looked.saturating_add(1);
                if looked > MOST_LOOKS || found.len() >= MOST_PAIRS {
                    return (found, true);
                }
                if a.selector.may_overlap(b.selector) && common(a, b) && apart(a.selector, b.selector) {
                    let shown = format!("both {} and {}", a.selector, b.selector);
                    let held: &mut PatternMeeting = found.entry(meeting(a.selector, b.selector)).or_default();
                    held.shown = shown;
                    held.short.extend(laid_over(a.selector, b.selector));
                }
            }
        }
        (found, false)
    }

    /// The patterns of both policies, each once.
    fn patterns(&self) -> Vec<NamePattern<'_>> {
        let mut patterns: BTreeMap<&str, NamePattern<'_>> = BTreeMap::new();
        for rule in self.both.into_iter().flat_map(RuleList::all) {
            if !is_pattern(&rule.selector) {
                continue;
            }
            let pattern = patterns
                .entry(rule.selector.as_str())
                .or_insert_with(|| NamePattern { selector: &rule.selector, paths: Vec::new() });
            let entries = rule.layer.entries();
            pattern.paths.extend(entries.into_iter().map(|(path, ..)| joined(&path)));
            pattern.paths.extend((self.more)(&rule.layer));
        }
        patterns.into_values().collect()
    }
}

/// The path of the value that a path touches: what is done about a class, several values say together; and what is said
/// of all classes holds for each.
fn joined(path: &str) -> String {
    let [first, ..] = DECIDING;
    if DECIDING.contains(&path) {
        return first.to_owned();
    }
    for_all(path).unwrap_or_else(|| path.to_owned()).replace(NEVER_RETRY, RETRY_ON)
}

/// Sorts patterns by one of their ends; how many of those after each have an end that continues its own.
fn reaches<'r>(patterns: &mut Vec<NamePattern<'r>>, end: impl Fn(&NamePattern<'r>) -> String) -> Vec<usize> {
    patterns.sort_by_cached_key(&end);
    let ends: Vec<String> = patterns.iter().map(end).collect();
    let reach = |(i, text): (usize, &String)| {
        let rest = ends.get(i.saturating_add(1)..).unwrap_or_default();
        rest.partition_point(|next| next.starts_with(text.as_str()))
    };
    ends.iter().enumerate().map(reach).collect()
}

/// Whether two patterns speak of one value.
fn common(a: &NamePattern<'_>, b: &NamePattern<'_>) -> bool {
    let touches = |one: &str, other: &str| {
        one == other
            || (one == CALLS && other.starts_with(CALLS))
            || (other == CALLS && one.starts_with(CALLS))
    };
    a.paths.iter().any(|one| b.paths.iter().any(|other| touches(one, other)))
}

/// Whether it matches some names and not all.
fn is_pattern(selector: &Selector) -> bool {
    !selector.is_exact() && selector.as_str() != "*"
}

/// Whether neither is more specific.
fn apart(a: &Selector, b: &Selector) -> bool {
    !a.includes(b) && !b.includes(a)
}

/// A pattern that both include: the longer beginning, what either has in between, the longer ending.
fn meeting(a: &Selector, b: &Selector) -> String {
    let longer =
        |one: &str, other: &str| if one.len() >= other.len() { one.to_owned() } else { other.to_owned() };
    let mut text = longer(a.beginning(), b.beginning());
    for selector in [a, b] {
        let inner = selector.as_str().split('*').skip(1);
        let mut inner: Vec<&str> = inner.collect();
        // The last piece is the ending.
        inner.pop();
        for piece in inner {
            text.push('*');
            text.push_str(piece);
        }
    }
    text.push('*');
    text.push_str(&longer(a.ending(), b.ending()));
    text
}

/// The longer beginning and the longer ending laid over each other, in all ways that are possible.
fn laid_over(a: &Selector, b: &Selector) -> Vec<String> {
    let begin = if a.beginning().len() >= b.beginning().len() { a.beginning() } else { b.beginning() };
    let end = if a.ending().len() >= b.ending().len() { a.ending() } else { b.ending() };
    let after = |(at, c): (usize, char)| {
        let (over, rest) = end.split_at_checked(at.saturating_add(c.len_utf8()))?;
        begin.ends_with(over).then(|| format!("{begin}{rest}"))
    };
    let names = end.char_indices().filter_map(after);
    names.filter(|name| a.matches(name) && b.matches(name)).collect()
}
