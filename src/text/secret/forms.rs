//! Secrets that are known by their form: keys of well-known services, and what addresses carry.

use core::ops::Range;

use super::SHORTEST;
use super::named::{name_before, secret};

/// How keys of well-known services begin, and how many more characters one has at least.
const FORMS: [(&str, usize); 37] = [
    ("sk-", 6),
    ("sk-ant-", 4),
    ("sk-or-v1-", 4),
    ("sk-proj-", 4),
    ("sk_live_", 6),
    ("sk_test_", 6),
    ("rk_live_", 6),
    ("whsec_", 6),
    ("AIza", 16),
    ("ya29.", 8),
    // GitHub: personal, OAuth, user-to-server, server-to-server and refresh tokens.
    ("ghp_", 4),
    ("gho_", 4),
    ("ghu_", 4),
    ("ghs_", 4),
    ("ghr_", 4),
    ("github_pat_", 4),
    ("glpat-", 6),
    ("xoxa-", 6),
    ("xoxb-", 6),
    ("xoxe-", 6),
    ("xoxp-", 6),
    ("xoxr-", 6),
    ("xoxs-", 6),
    ("xapp-", 6),
    // AWS: ids of keys of users, and of temporary ones.
    ("AKIA", 12),
    ("ASIA", 12),
    ("SG.", 16),
    ("hf_", 16),
    ("gsk_", 16),
    ("xai-", 16),
    ("r8_", 16),
    ("npm_", 16),
    ("pypi-", 16),
    ("nvapi-", 16),
    ("pplx-", 16),
    ("tvly-", 16),
    // The beginning of a JSON object in base64: a JSON Web Token (RFC 7519).
    ("eyJ", 20),
];
/// What comes before a key that is sent along.
const SCHEMES: [&str; 2] = ["bearer", "basic"];
/// No key is shorter, its beginning included.
const SHORTEST_KEY: usize = 8;
/// A key without a digit is so long at least; words that begin like one are shorter.
const LONG: usize = 20;
/// No word begins like a key does that begins with so many characters of its own.
const DISTINCT: usize = 7;
/// Names of secrets in addresses, in addition to those known everywhere.
const IN_QUERIES: [&str; 6] = ["key", "sig", "signature", "auth", "code", "accesskeyid"];

/// How other names of secrets in addresses end: `subscription-key`.
const ENDS_IN_QUERIES: [&str; 4] = ["key", "secret", "token", "sig"];
/// Longer names in addresses are none of secrets.
const LONGEST_QUERIED: usize = 96;

/// Keys of well-known services, wherever they stand, comments included.
pub(super) fn keys(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut after_scheme = false;
    for (start, word) in words(text) {
        let mixed = |tail: &str| tail.len() >= LONG || tail.bytes().any(|byte| byte.is_ascii_digit());
        let known =
            |tail: &str, least: usize, distinct: bool| tail.len() >= least && (distinct || mixed(tail));
        let form = word.len() >= SHORTEST_KEY
            && FORMS.iter().any(|(begin, least)| {
                // Hardly any word begins like a key, and comparing one byte rules out nearly all of them cheaply.
                begin.as_bytes().first() == word.as_bytes().first()
                    && word.strip_prefix(begin).is_some_and(|tail| {
                        known(tail.trim_end_matches(['.', '-']), *least, begin.len() >= DISTINCT)
                    })
            });
        if form || (after_scheme && known(word, SHORTEST, false)) {
            found.push(start..start.saturating_add(word.len()));
        }
        after_scheme = SCHEMES.iter().any(|scheme| word.eq_ignore_ascii_case(scheme))
            && text.get(start.saturating_add(word.len())..).is_some_and(|rest| rest.starts_with(' '));
    }
    found
}

/// What has the form of a secret in any text, not only in a file of ours: keys of well-known services, passwords in
/// addresses, and private keys. What may just as well be the mark of a page to continue at is none.
#[cfg(feature = "host")]
pub(super) fn anywhere(text: &str) -> Vec<Range<usize>> {
    let word = |range: &Range<usize>| text.get(range.clone()).unwrap_or_default();
    // A token has three parts; a list that continues elsewhere often says so in one that begins alike.
    let is_key = |range: &Range<usize>| {
        let word = word(range);
        !word.starts_with("eyJ") || word.matches('.').count() == 2
    };
    let mut found: Vec<_> = keys(text).into_iter().filter(is_key).collect();
    let password = |range: Range<usize>| {
        let colon = word(&range).find(':')?;
        Some(range.start.saturating_add(colon).saturating_add(1)..range.end).filter(|range| !range.is_empty())
    };
    found.extend(in_addresses(text).into_iter().filter_map(password));
    found.extend(private_keys(text));
    found
}

/// Private keys between their dashes; one that has no end ends with the text.
#[cfg(feature = "host")]
fn private_keys(text: &str) -> Vec<Range<usize>> {
    // RFC 7468, section 2: a label between `-----BEGIN ` and five dashes.
    const BEGIN: &str = "PRIVATE KEY-----";
    let mut found: Vec<Range<usize>> = Vec::new();
    for (at, begin) in text.match_indices(BEGIN) {
        let before = text.get(..at).unwrap_or_default();
        let is_begin = before.rfind("-----").is_some_and(|dashes| {
            before.get(dashes..).is_some_and(|line| line.starts_with("-----BEGIN ") && !line.contains('\n'))
        });
        let start = at.saturating_add(begin.len());
        if !is_begin || found.last().is_some_and(|last| start < last.end) {
            continue;
        }
        let rest = text.get(start..).unwrap_or_default();
        let end = rest.find("-----END ").unwrap_or(rest.len());
        found.push(start..start.saturating_add(end));
    }
    found
}

/// User names and passwords in addresses.
pub(super) fn in_addresses(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    // The run of characters that was looked at last, and the last `@` in it: one address may hold many others.
    let (mut end, mut last_at) = (0, None);
    for (at, sign) in text.match_indices("://") {
        let start = at.saturating_add(sign.len());
        let rest = text.get(start..).unwrap_or_default();
        if start >= end {
            let ends = |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '<' | '>' | '`');
            let length = rest.find(ends).unwrap_or(rest.len());
            end = start.saturating_add(length);
            last_at = rest.get(..length).and_then(|run| run.rfind('@')).map(|at| start.saturating_add(at));
        }
        let run = text.get(start..end).unwrap_or_default();
        let authority = run.find(['/', '?', '#']).and_then(|end| run.get(..end)).unwrap_or(run);
        let is_port = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let user = match authority.rfind('@') {
            Some(at) => Some(start.saturating_add(at)),
            // A password may hold a `/` that should have been escaped.
            None if authority.rsplit_once(':').is_some_and(|(_, port)| !is_port(port)) => last_at,
            None => None,
        };
        found.extend(user.filter(|end| *end > start).map(|end| start..end));
    }
    found
}

/// The name at the end of a text, if it is one of a query: without its percent signs, in lower case, with `-` between its words.
fn queried_name(before: &str) -> Option<String> {
    let near = before.len().saturating_sub(LONGEST_QUERIED);
    let of_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-.%".contains(byte);
    let length = before.as_bytes().get(near..)?.iter().rev().take_while(|byte| of_name(byte)).count();
    let (rest, name) = before.split_at_checked(before.len().checked_sub(length)?)?;
    if !rest.ends_with(['?', '&', ';']) {
        return None;
    }
    let (mut folded, mut was_capital) = (String::new(), false);
    let mut bytes = name.bytes();
    while let Some(byte) = bytes.next() {
        let byte = if byte == b'%' {
            let digits = [bytes.next()?, bytes.next()?].map(char::from);
            let [high, low] = digits.map(|digit| digit.to_digit(16));
            u8::try_from(high?.saturating_mul(16).saturating_add(low?)).ok()?
        } else {
            byte
        };
        // A word begins after a separator, and with a capital after a small letter.
        let small = folded.ends_with(|char: char| char.is_ascii_lowercase()) && !was_capital;
        if !byte.is_ascii_alphanumeric() || (byte.is_ascii_uppercase() && small) {
            folded.push('-');
        }
        was_capital = byte.is_ascii_uppercase();
        if byte.is_ascii_alphanumeric() {
            folded.push(char::from(byte.to_ascii_lowercase()));
        }
    }
    Some(folded)
}

/// Values that a `=` gives to a name of a secret: in the query of an address, or in arguments of a command.
pub(super) fn assigned(text: &str) -> Vec<Range<usize>> {
    let mut found: Vec<Range<usize>> = Vec::new();
    for (at, sign) in text.match_indices('=') {
        if found.last().is_some_and(|last| at < last.end) {
            continue;
        }
        let Some(name) = name_before(text, at) else { continue };
        let queried = queried_name(text.get(..at).unwrap_or_default()).is_some_and(|name| {
            let joined = name.replace('-', "");
            IN_QUERIES.contains(&joined.as_str())
                || name.rsplit('-').next().is_some_and(|word| ENDS_IN_QUERIES.contains(&word))
                || secret(&joined).is_some()
        });
        if !queried && secret(&name).is_none() {
            continue;
        }
        let start = at.saturating_add(sign.len());
        let rest = text.get(start..).unwrap_or_default();
        let quoted = rest.starts_with(['"', '\'']);
        let start = start.saturating_add(usize::from(quoted));
        let rest = text.get(start..).unwrap_or_default();
        // Neither a comparison, nor a variable that contains the secret.
        if rest.starts_with(['=', '$', '{', ' ']) {
            continue;
        }
        let ends =
            |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '&' | '#' | ',' | '}' | ']' | ')' | '`');
        let end = rest.find(ends).unwrap_or(rest.len());
        found.extend((end > 0).then(|| start..start.saturating_add(end)));
    }
    found
}

/// The runs of characters that keys are made of.
fn words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let parts = text.split(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.')));
    parts
        .filter(|word| !word.is_empty())
        .map(|word| (word.as_ptr().addr().saturating_sub(text.as_ptr().addr()), word))
}
