//! Secrets that somebody wrote into a file all the same: where they are, so that no report shows them.
//!
//! They are looked for in the text, not in the tree: a file that cannot be read is shown too.

use core::ops::Range;

/// What stands for a secret in a message.
pub(super) const MARK: &str = "[hidden]";
/// A shorter value guards nothing, and taking it out would make messages unreadable.
const SHORTEST: usize = 4;
/// So many bytes before and after a name are looked at.
const NEAR: usize = 1_024;
/// So many values are taken out of messages.
const MOST: usize = 256;
/// How the name of the key of a service ends, without separators. Nothing below it is shown but where the key is.
const KEYS: [&str; 1] = ["apikey"];
/// How other names of secrets end, without separators: `OPENAI_API_TOKEN` does.
const NAMES: [&str; 9] = [
    "token",
    "secret",
    "secretkey",
    "privatekey",
    "accesskey",
    "password",
    "passwd",
    "passphrase",
    "authorization",
];
/// No name of a secret is longer; a key of a megabyte is not folded again for each colon after it.
const LONGEST_NAME: usize = 64;

/// The bytes that hold secrets, in the order of the text.
pub(super) fn hidden(text: &str) -> Vec<Range<usize>> {
    let mut found: Vec<Range<usize>> = Vec::new();
    for (colon, _) in text.match_indices(':') {
        if found.last().is_some_and(|last| colon < last.end) {
            continue;
        }
        let Some(name) = name_before(text, colon) else { continue };
        let ends = |with: &&str| name.ends_with(with);
        let is_key = KEYS.iter().any(ends);
        if is_key || NAMES.iter().any(ends) {
            found.extend(value_after(text, colon, is_key));
        }
    }
    found
}

/// The values in those bytes, as messages may repeat them, the longest first.
pub(super) fn values<'t>(text: &'t str, hidden: &[Range<usize>]) -> Vec<&'t str> {
    let lines = hidden.iter().filter_map(|range| text.get(range.clone())).flat_map(str::lines);
    let mut values: Vec<&str> = lines
        .flat_map(|line| [line, line.rsplit_once(": ").map_or(line, |(_, value)| value)])
        .map(|value| value.trim_matches([' ', '\t', '"', '\'', '{', '}', '[', ']', ',', '|', '>']))
        .filter(|value| value.len() >= SHORTEST)
        .collect();
    values.sort_by_key(|value| core::cmp::Reverse(value.len()));
    values.dedup();
    values.truncate(MOST);
    values
}

/// The text with a star for each character in those bytes; as long as before, and with the same lines.
pub(super) fn masked(text: &str, hidden: &[Range<usize>]) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut at = 0;
    for range in hidden {
        shown.push_str(text.get(at..range.start).unwrap_or_default());
        let secret = text.get(range.clone()).unwrap_or_default();
        shown.extend(
            secret.bytes().map(|byte| if byte.is_ascii_whitespace() { char::from(byte) } else { '*' }),
        );
        at = range.end;
    }
    shown.push_str(text.get(at..).unwrap_or_default());
    shown
}

/// The key before a colon, in lower case and without separators.
fn name_before(text: &str, colon: usize) -> Option<String> {
    let before = text.get(..colon)?.trim_end_matches([' ', '"', '\'']);
    let start = before.rfind(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '_' | '-'));
    let name = before.get(start.map_or(0, |start| start.saturating_add(1))..)?;
    let folded = |name: &str| {
        name.bytes().filter(u8::is_ascii_alphanumeric).map(|b| char::from(b.to_ascii_lowercase())).collect()
    };
    (name.len() <= LONGEST_NAME).then(|| folded(name))
}

/// The value after a colon. `deep`: also what is within a mapping.
fn value_after(text: &str, colon: usize, deep: bool) -> Option<Range<usize>> {
    let from = colon.saturating_add(1);
    let next = text.get(from..).and_then(|rest| rest.chars().take(NEAR).find(|c| !matches!(c, ' ' | '\t')));
    if next == Some('{') && !deep {
        return None;
    }
    let (line, below) = block(text, colon);
    let first = text.get(from..line.end).unwrap_or_default();
    let rest = first.trim_start();
    let start = line.end.saturating_sub(rest.len());
    let whole = |start: usize, end: usize| (start < end).then_some(start..end);
    match rest.chars().next() {
        Some('{') => {
            let end = rest.find('}').map_or(line.end, |end| start.saturating_add(end));
            let inner = text.get(start.saturating_add(1)..end).unwrap_or_default();
            if says_where(inner) { None } else { whole(start.saturating_add(1), end) }
        }
        Some(quote @ ('"' | '\'')) => {
            let until = boundary(text, start.saturating_add(NEAR));
            let inner = text.get(start.saturating_add(1)..until).unwrap_or_default();
            let end = inner.find(quote).map_or(line.end, |end| start.saturating_add(end).saturating_add(1));
            whole(start.saturating_add(1), end)
        }
        Some('#') | None => {
            let inner = text.get(below.clone()).unwrap_or_default();
            let is_mapping = inner.contains(": ") || inner.trim_end().ends_with(':');
            if inner.lines().all(says_where) || (is_mapping && !deep) {
                None
            } else {
                whole(below.start, below.end)
            }
        }
        Some(_) => {
            let before = text.get(line.start..colon).unwrap_or_default();
            let flow = before.matches('{').count() > before.matches('}').count();
            let end = if flow { rest.find([',', '}']) } else { None };
            let end = end.map_or(below.end.max(line.end), |end| start.saturating_add(end));
            whole(start, end)
        }
    }
}

/// The line of a byte, without its end, and the lines below it that are indented more; no more of either than is
/// ever shown.
fn block(text: &str, at: usize) -> (Range<usize>, Range<usize>) {
    let window = boundary(text, at.saturating_sub(NEAR))..boundary(text, at.saturating_add(NEAR));
    let text = text.get(..window.end).unwrap_or_default();
    let before = text.get(window.start..at).and_then(|before| before.rfind('\n'));
    let start = before.map_or(window.start, |end| window.start.saturating_add(end).saturating_add(1));
    let end = |from: usize| {
        text.get(from..).and_then(|rest| rest.find('\n')).map_or(text.len(), |end| from.saturating_add(end))
    };
    let indent = |line: &str| line.len().saturating_sub(line.trim_start_matches([' ', '-']).len());
    let line = start..end(at);
    let own = indent(text.get(line.clone()).unwrap_or_default());
    let (mut last, mut next) = (line.end, line.end.saturating_add(1));
    while next < text.len() {
        let until = end(next);
        let below = text.get(next..until).unwrap_or_default();
        if !below.trim().is_empty() {
            if indent(below) <= own {
                break;
            }
            last = until;
        }
        next = until.saturating_add(1);
    }
    let below = line.end..last;
    (line, below)
}

/// The byte, or the next one at which a character begins.
fn boundary(text: &str, at: usize) -> usize {
    (at..text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len())
}

/// Whether it is `env: NAME` or `file: PATH`, which tells where a key is, or nothing.
fn says_where(text: &str) -> bool {
    let text = text.split(" #").next().unwrap_or_default().trim();
    let Some((key, value)) = text.split_once(':') else { return text.is_empty() };
    let value = value.trim().trim_matches(['"', '\'']);
    let name = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    match key.trim().trim_matches(['"', '\'']) {
        "env" => value.chars().all(name),
        "file" => value.contains(['/', '.', '\\']) && !value.contains([',', ':']),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        masked(text, &hidden(text))
    }

    #[test]
    fn a_secret_is_found_however_it_is_written() {
        for text in [
            "api_key: sk-123456\n",
            "api_key: \"sk-123456\"\n",
            "\"api_key\": 'sk-123456'\n",
            "apiKey: >\n  sk-123456\n",
            "API-Key:\n  sk-123456\n",
            "m: {api: openai, api_key: sk-123456, base_url: x}\n",
            "api_key: {key: sk-123456}\n",
            "api_key:\n  value: sk-123456\n",
            "api_key: {env: sk-123456}\n",
            "api_key: \"sk-123456\n",
            "password: sk-123456\n",
            "x: {Authorization: Bearer sk-123456}\n",
            "env: {SHOP_API_TOKEN: sk-123456}\n",
        ] {
            let said = shown(text);
            assert!(!said.contains("123456") && said.len() == text.len(), "{said}");
            let hidden = hidden(text);
            assert!(values(text, &hidden).iter().any(|value| value.contains("sk-123456")), "{text}");
        }
    }

    #[test]
    fn what_tells_where_a_secret_is_stays() {
        for text in [
            "api_key: {env: OPENAI_API_KEY}\nbase_url: x\n",
            "api_key:\n  file: /run/secrets/key\nbase_url: x\n",
            "tools:\n  token:\n    retry: {max_attempts: 3}\n",
            "max_tokens: 4096\n",
            "tools: {password: {effect: read_only}}\n",
        ] {
            assert_eq!(shown(text), text);
        }
    }

    #[test]
    fn only_the_secret_is_hidden() {
        assert_eq!(shown("m: {api_key: abcd, model: x}\nb: 1\n"), "m: {api_key: ****, model: x}\nb: 1\n");
    }
}
