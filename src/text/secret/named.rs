//! Values of keys whose names say that they are secret.

use core::ops::Range;

/// So many bytes before and after a name are looked at.
const NEAR: usize = 1_024;
/// How the name of the key of a service ends, without separators. Nothing below it is shown but where the key is.
const KEYS: [&str; 1] = ["apikey"];
/// How other names of secrets end, without separators: `OPENAI_API_TOKEN` does.
const NAMES: [&str; 14] = [
    "token",
    "secret",
    "secretkey",
    "privatekey",
    "accesskey",
    "password",
    "passwd",
    "passphrase",
    "pass",
    "pwd",
    "credential",
    "credentials",
    "authorization",
    "bearer",
];
/// How a mapping begins that says what happens to a tool or a model, which may have such a name.
const RULES: [&str; 17] = [
    "effect",
    "retry",
    "breaker",
    "loop_guard",
    "calls",
    "limits",
    "priority",
    "validate",
    "on_exhausted",
    "messages",
    "kind",
    "api",
    "no_fallback_on",
    "cooldown",
    "provider",
    "initial",
    "inner_retries",
];
/// No name of a secret is longer; a key of a megabyte is not folded again for each colon after it.
const LONGEST_NAME: usize = 64;

/// What a name says about its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SecretName {
    /// It is the key of a service.
    Key,
    /// It is a secret, unless it is the rules for something of that name.
    Secret,
}

/// The values of such keys.
pub(super) fn values(text: &str) -> Vec<Range<usize>> {
    let mut found: Vec<Range<usize>> = Vec::new();
    for (colon, _) in text.match_indices(':') {
        // A colon inside of what is hidden already begins no key.
        if found.last().is_some_and(|last| colon < last.end) {
            continue;
        }
        if let Some(name) = name_before(text, colon).and_then(|name| secret(&name)) {
            found.extend(value_after(text, colon, name));
        }
    }
    found
}

/// Whether a name, in lower case and without separators, is that of a secret.
pub(super) fn secret(name: &str) -> Option<SecretName> {
    let ends = |with: &&str| name.ends_with(with);
    if KEYS.iter().any(ends) {
        Some(SecretName::Key)
    } else {
        NAMES.iter().any(ends).then_some(SecretName::Secret)
    }
}

/// The name before a colon or another sign, in lower case and without separators.
pub(super) fn name_before(text: &str, colon: usize) -> Option<String> {
    let before = text.get(..colon)?.trim_end_matches([' ', '"', '\'']);
    let start = before.rfind(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '_' | '-'));
    let name = before.get(start.map_or(0, |start| start.saturating_add(1))..)?;
    let folded = |name: &str| {
        name.bytes().filter(u8::is_ascii_alphanumeric).map(|b| char::from(b.to_ascii_lowercase())).collect()
    };
    (name.len() <= LONGEST_NAME).then(|| folded(name))
}

/// The value after a colon, with all that is within it.
fn value_after(text: &str, colon: usize, name: SecretName) -> Option<Range<usize>> {
    let from = colon.saturating_add(1);
    let (line, below) = block(text, colon);
    let rest = text.get(from..line.end).unwrap_or_default().trim_start();
    let start = line.end.saturating_sub(rest.len());
    let whole = |start: usize, end: usize| (start < end).then_some(start..end);
    let is_shown = |inner: &str| says_where(inner) || (name == SecretName::Secret && says_rules(inner));
    match rest.chars().next() {
        // `api_key: {env: NAME}` says where a key is, and that may be shown.
        Some('{' | '[') => {
            let inner = start.saturating_add(1);
            match closed(text, start) {
                Some(end) if is_shown(text.get(inner..end).unwrap_or_default()) => None,
                Some(end) => whole(inner, end),
                // Without its end, the bracket may hold the secret anywhere.
                None => whole(inner, boundary(text, start.saturating_add(NEAR))),
            }
        }
        Some(quote @ ('"' | '\'')) => {
            let until = boundary(text, start.saturating_add(NEAR));
            let inner = text.get(start.saturating_add(1)..until).unwrap_or_default();
            let end = inner.find(quote).map_or(line.end, |end| start.saturating_add(end).saturating_add(1));
            whole(start.saturating_add(1), end)
        }
        Some('#') | None => {
            let inner = text.get(below.clone()).unwrap_or_default();
            if inner.lines().all(says_where) || is_shown(inner) {
                None
            } else {
                whole(below.start, below.end)
            }
        }
        Some(_) => {
            let before = text.get(line.start..colon).unwrap_or_default();
            // In `{…}` a value ends at a comma. On a line of its own a comma may be a part of the secret.
            let flow = before.matches('{').count() > before.matches('}').count();
            let end = if flow { rest.find([',', '}']) } else { None };
            let end = end.map_or(below.end.max(line.end), |end| start.saturating_add(end));
            whole(start, end)
        }
    }
}

/// Where the bracket that opens there is closed; no further than is ever shown.
fn closed(text: &str, open: usize) -> Option<usize> {
    let until = boundary(text, open.saturating_add(NEAR));
    let (mut depth, mut quote) = (0_usize, None);
    for (at, c) in text.get(open..until).unwrap_or_default().char_indices() {
        match (quote, c) {
            (Some(held), _) if held == c => quote = None,
            (None, '"' | '\'') => quote = Some(c),
            (None, '{' | '[') => depth = depth.saturating_add(1),
            (None, '}' | ']') => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return Some(open.saturating_add(at));
                }
            }
            _ => {}
        }
    }
    None
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
    // Names of variables are in capitals. Anything else under `env` may be the secret itself.
    let name = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    match key.trim().trim_matches(['"', '\'']) {
        "env" => value.chars().all(name),
        // A path has a slash or a dot. Anything else under `file` may be the secret itself.
        "file" => value.contains(['/', '.', '\\']) && !value.contains([',', ':']),
        _ => false,
    }
}

/// Whether a mapping begins with rules for a tool or a model.
fn says_rules(text: &str) -> bool {
    let first = text.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with('#'));
    first
        .and_then(|line| line.split_once(':'))
        .is_some_and(|(key, _)| RULES.contains(&key.trim_matches([' ', '"', '\''])))
}
