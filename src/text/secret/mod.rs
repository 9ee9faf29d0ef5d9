//! Finds secrets that were written into a file, so that no report shows them.
//!
//! They are looked for in the text, not in the tree: a file that cannot be read is shown too.

mod forms;
mod named;

use core::ops::Range;

/// What replaces a secret in a message.
pub(super) const MARK: &str = "[hidden]";
/// A shorter value guards nothing, and taking it out would make messages unreadable.
pub(super) const SHORTEST: usize = 4;
/// So many values are taken out of messages.
const MOST: usize = 256;
/// What may surround values.
const AROUND: [char; 13] = [' ', '\t', '\r', '"', '\'', '{', '}', '[', ']', ',', '|', '>', '-'];

/// The bytes that hold secrets, in the order of the text.
pub(super) fn hidden(text: &str) -> Vec<Range<usize>> {
    let mut found = named::values(text);
    found.extend(forms::keys(text));
    found.extend(forms::in_addresses(text));
    found.extend(forms::assigned(text));
    apart(found)
}

/// The bytes of any text that have the form of a secret, in the order of the text.
#[cfg(feature = "host")]
pub(crate) fn formed(text: &str) -> Vec<Range<usize>> {
    apart(forms::anywhere(text))
}

/// The first bytes of a text of a document that are a secret for certain: a key of a well-known service, or a password or
/// key in an address.
pub(crate) fn written(text: &str) -> Option<Range<usize>> {
    let in_query = |range: &Range<usize>| {
        let before = text.get(..range.start).unwrap_or_default();
        before.rsplit(char::is_whitespace).next().is_some_and(|word| word.contains("://"))
    };
    let assigned = forms::assigned(text).into_iter().filter(in_query);
    let all = forms::keys(text).into_iter().chain(forms::in_addresses(text)).chain(assigned);
    all.filter(|range| !range.is_empty()).min_by_key(|range| range.start)
}

/// The ranges in their order, those that meet as one.
fn apart(mut found: Vec<Range<usize>>) -> Vec<Range<usize>> {
    found.sort_unstable_by_key(|range| (range.start, range.end));
    let mut apart: Vec<Range<usize>> = Vec::with_capacity(found.len());
    for range in found {
        match apart.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => apart.push(range),
        }
    }
    apart
}

/// The values in those bytes, as messages may repeat them, the longest first.
pub(super) fn values<'t>(text: &'t str, hidden: &[Range<usize>]) -> Vec<&'t str> {
    let lines = hidden.iter().filter_map(|range| text.get(range.clone())).flat_map(str::lines);
    let mut values: Vec<&str> = lines
        .flat_map(|line| core::iter::once(line).chain(line.split(['{', '}', '[', ']', ','])))
        .flat_map(|part| [Some(part), part.rsplit_once(": ").map(|(_, value)| value), password(part)])
        .flatten()
        .map(|value| value.trim_matches(AROUND))
        .filter(|value| value.len() >= SHORTEST)
        .collect();
    // A value that holds another one is taken out first, or the rest of it would stay.
    values.sort_unstable_by_key(|value| (core::cmp::Reverse(value.len()), *value));
    values.dedup();
    values.truncate(MOST);
    values
}

/// The second half of `user:password`.
fn password(part: &str) -> Option<&str> {
    part.split_once(':').map(|(_, password)| password).filter(|password| !password.starts_with(' '))
}

/// A text as it may be shown: with a star for each character of the secrets in it.
///
/// ```
/// use unfazed::text::without_secrets;
/// assert_eq!(without_secrets("api_key: q777x\n"), "api_key: *****\n");
/// ```
pub fn without_secrets(text: &str) -> String {
    masked(text, &hidden(text))
}

/// The text with a star for each character in those bytes; as long as before, and with the same lines.
pub(super) fn masked(text: &str, hidden: &[Range<usize>]) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut at = 0;
    for range in hidden {
        shown.push_str(text.get(at..range.start).unwrap_or_default());
        let secret = text.get(range.clone()).unwrap_or_default();
        shown.extend(
            // Lines and lengths stay, so that places in the text still point where they did.
            secret.bytes().map(|byte| if byte.is_ascii_whitespace() { char::from(byte) } else { '*' }),
        );
        at = range.end;
    }
    shown.push_str(text.get(at..).unwrap_or_default());
    shown
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
    fn everything_below_the_name_of_a_secret_is_hidden() {
        for text in [
            "password: {value: n1234}\n",
            "password: {a: {b: n1234}, c: n1234}\n",
            "password:\n  value:\n    - n1234\n",
            "m: {token: [a, n1234], x: 1}\n",
            "api_key: [\n  abcd,\n  n1234\n]\n",
        ] {
            assert!(!shown(text).contains("n1234"), "{}", shown(text));
            assert!(values(text, &hidden(text)).contains(&"n1234"), "{text}");
        }
    }

    #[test]
    fn addresses_carry_secrets_too() {
        for (text, expected) in [
            ("u: https://me:p4ss@x.y/v1?a=b\n", "u: https://*******@x.y/v1?a=b\n"),
            ("u: \"https://me:p/ss@x.y\"\n", "u: \"https://*******@x.y\"\n"),
            ("u: https://x.y/?key=q777&n=1&api_key=z\n", "u: https://x.y/?key=****&n=1&api_key=*\n"),
            ("c: [curl, --token=q777]\n", "c: [curl, --token=****]\n"),
            ("c: curl --token=$T 'x.token == \"a\"'\n", "c: curl --token=$T 'x.token == \"a\"'\n"),
            ("u: http://x.y:80/@a?monkey=1\n", "u: http://x.y:80/@a?monkey=1\n"),
        ] {
            assert_eq!(shown(text), expected);
        }
        let text = "u: https://me:p4ssword@x.y\n";
        assert_eq!(values(text, &hidden(text)), ["me:p4ssword", "p4ssword"]);
    }

    #[test]
    fn keys_of_known_services_are_hidden_wherever_they_stand() {
        for key in [
            "sk-proj-12345678",
            "sk-proj-KEYAAAA",
            "sk-ant-api03-abc_DEF",
            "AIzaSyA1234567890abcdefgh",
            "ghp_1234abcd",
            "xoxb-123456-abcdef",
            "AKIAIOSFODNN7EXAMPLE",
            "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc",
        ] {
            for text in [format!("a: 1 # old {key}\n"), format!("api: {key}\n"), format!("{key}: 1\n")] {
                assert!(!shown(&text).contains(key), "{}", shown(&text));
            }
        }
        assert_eq!(shown("c: [-H, 'X: Bearer ab12cd']\n"), "c: [-H, 'X: Bearer ******']\n");
        for text in ["t: {sk-learn: 1}\n", "a bearer of news\n", "task-1234567: x\n"] {
            assert_eq!(shown(text), text);
        }
    }

    #[test]
    fn a_text_holds_a_secret_only_for_certain() {
        let found = |text: &str| written(text).map(|range| text[range].to_owned());
        for (text, secret) in [
            ("use sk-proj-12345678 for it", "sk-proj-12345678"),
            ("https://x.y/v1?api_key=q777x", "q777x"),
            ("https://x.y/v1?a=1&key=q777x", "q777x"),
            ("https://x.y/v1?subscription-key=q777x", "q777x"),
            ("https://x.y/v1?api%5Fkey=q777x", "q777x"),
            ("https://x.y/v1?a=1&%6b%65%79=q777x", "q777x"),
            ("https://me:p4ss@x.y/", "me:p4ss"),
            ("Authorization: Bearer ab12cd34", "ab12cd34"),
        ] {
            assert_eq!(found(text).as_deref(), Some(secret), "{text}");
        }
        for text in [
            "set token=abc in the form",
            "a bearer of news",
            "https://x.y/v1?page=2",
            "https://x.y/?api_key={{ key }}",
        ] {
            assert_eq!(found(text), None, "{text}");
        }
    }

    #[test]
    #[cfg(feature = "host")]
    fn in_texts_of_others_only_what_is_a_secret_for_certain_is_one() {
        let secret =
            |text: &str| formed(text).into_iter().map(|range| text[range].to_owned()).collect::<Vec<_>>();
        for (text, expected) in [
            ("use ghp_1234abcd, please", vec!["ghp_1234abcd"]),
            ("Authorization: Bearer abc123", vec!["abc123"]),
            ("postgres://me:p4ss@db/x", vec!["p4ss"]),
            ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc", vec!["eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc"]),
            ("-----BEGIN RSA PRIVATE KEY-----\nAAAA\n-----END RSA PRIVATE KEY-----", vec!["\nAAAA\n"]),
            ("-----BEGIN PRIVATE KEY-----\nAAAA", vec!["\nAAAA"]),
            ("next page: eyJpZCI6MTIzNDU2Nzg5MH0", vec![]),
            ("page_token=abcdef123456 ssh://git@github.com/x", vec![]),
            ("PRIVATE KEY----- is how it ends", vec![]),
        ] {
            assert_eq!(secret(text), expected, "{text}");
        }
    }

    #[test]
    fn only_the_secret_is_hidden() {
        assert_eq!(shown("m: {api_key: abcd, model: x}\nb: 1\n"), "m: {api_key: ****, model: x}\nb: 1\n");
    }
}
