//! Secrets of AWS in any text: what stands after the names of secret keys and session tokens, and session tokens by how they begin.

use core::ops::Range;

/// The names, as the files, the variables, the headers and the SDKs of AWS write them; some begin with a capital or not. A session token
/// of another service is often passed on from one tool to the next, so `sessionToken` is not one of them.
const NAMES: [&str; 10] = [
    "ecretAccessKey",
    "ecret_access_key",
    "ECRET_ACCESS_KEY",
    "ecret-access-key",
    "SessionToken",
    "aws_session_token",
    "AWS_SESSION_TOKEN",
    "aws_security_token",
    "AWS_SECURITY_TOKEN",
    "mz-security-token",
];
/// How session tokens begin: `!\n\torigin_ec`, `er/aws` and the like in base64.
const TOKENS: [&str; 4] = ["IQoJb3JpZ2lu", "FwoGZXIvYXdz", "FQoGZXIvYXdz", "FQoDYXdz"];
/// A shorter word is no token.
const SHORTEST_TOKEN: usize = 24;
/// So long is each secret key. Another value after such a name is a secret if it is long and has a digit: names in code have none.
const SECRET_KEY: usize = 40;
const SHORTEST_VALUE: usize = 16;

/// The secrets in a text, in its order.
pub(super) fn secrets(text: &str) -> Vec<Range<usize>> {
    let named = names(text).filter_map(|name| value(text, name.end)).filter(|value| is_secret(text, value));
    let mut found: Vec<_> = named.chain(tokens(text)).collect();
    found.sort_unstable_by_key(|range| (range.start, range.end));
    // A token after its name is found twice.
    found.dedup_by(|next, last| {
        let meet = next.start < last.end;
        if meet {
            last.end = last.end.max(next.end);
        }
        meet
    });
    found
}

/// From where on a text is held back of which all from `from` on is: from the name of a value in that.
pub(super) fn held_from(text: &str, from: usize) -> usize {
    let held = names(text).filter(|name| value(text, name.end).is_some_and(|value| value.end >= from));
    held.map(|name| name.start).fold(from, usize::min)
}

fn names(text: &str) -> impl Iterator<Item = Range<usize>> {
    let of = move |name: &'static str| text.match_indices(name).map(move |(at, _)| at..at + name.len());
    NAMES.into_iter().flat_map(of).filter(|name| {
        let own = !text[name.clone()].starts_with("SessionToken");
        own || !text[..name.start].ends_with(|c: char| c.is_ascii_alphanumeric())
    })
}

/// The value of a name that ends there; an empty one at the end of the text is still to come.
fn value(text: &str, name_end: usize) -> Option<Range<usize>> {
    let is_sign = |c: char| matches!(c, ':' | '=' | '>');
    let is_between = |c: char| matches!(c, ' ' | '\t' | '"' | '\'' | '`' | '\\') || is_sign(c);
    let rest = &text[name_end..];
    let value = rest.trim_start_matches(is_between);
    let between = &rest[..rest.len() - value.len()];
    let start = name_end + between.len();
    let is_value = value.is_empty() || between.contains(is_sign);
    is_value.then(|| start..start + length(value))
}

fn is_secret(text: &str, value: &Range<usize>) -> bool {
    let word = &text[value.clone()];
    // A call, or a field of something; a full stop ends a sentence.
    let behind = &text[value.end..];
    let is_field = behind.strip_prefix('.').is_some_and(|rest| rest.starts_with(of_name));
    let is_code = behind.starts_with(['(', '[']) || is_field;
    // The name of a variable has small letters alone, or capitals.
    let cases = [word.to_ascii_lowercase(), word.to_ascii_uppercase()];
    let is_name = word.contains('_') && word.chars().all(of_name) && cases.iter().any(|one| one == word);
    let is_long = word.len() >= SHORTEST_VALUE && word.bytes().any(|byte| byte.is_ascii_digit());
    !is_code && !is_name && (word.len() == SECRET_KEY || is_long)
}

fn of_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

fn tokens(text: &str) -> impl Iterator<Item = Range<usize>> {
    let all = TOKENS.into_iter().flat_map(move |begin| text.match_indices(begin));
    let words = all.map(|(at, _)| at..at + length(&text[at..]));
    words.filter(|word| word.len() >= SHORTEST_TOKEN)
}

/// How many bytes at the beginning are base64, or what stands for it in an address.
fn length(text: &str) -> usize {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '/' | '=' | '-' | '_' | '%');
    // PHP writes a slash in JSON as `\/`.
    let mut rest = text.trim_start_matches(is_part);
    while let Some(more) = rest.strip_prefix("\\/") {
        rest = more.trim_start_matches(is_part);
    }
    text.len() - rest.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::redact::SecretRedactor;

    const KEY: &str = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";
    const TOKEN: &str = "IQoJb3JpZ2luX2VjEFAaCXVzLWVhc3QtMSJHMEUCIQ";

    #[test]
    fn what_stands_after_the_name_of_a_secret_of_aws_is_one() {
        for text in [
            r#"{"SecretAccessKey":"%k","SessionToken":"%t"}"#,
            r#"{\"SecretAccessKey\": \"%k\"}"#,
            "export AWS_SECRET_ACCESS_KEY=%k\nAWS_SESSION_TOKEN='%t'",
            "aws_secret_access_key = %k\naws_session_token = %t",
            "<SecretAccessKey>%k</SecretAccessKey><SessionToken>%t</SessionToken>",
            "secretAccessKey: %k, sessionToken: %t",
            ":secret_access_key => \"%k\"",
            "\"Token\" : \"%t\", the rest",
            "a SessionToken, SessionToken=tok-value-7654321",
            "The key is AWS_SECRET_ACCESS_KEY=%k.",
            r#"{"SecretAccessKey":"wJalrXUtnFEMI\/K7MDENG\/bPxRfiCYEXAMPLEKEY"}"#,
        ] {
            let said = text.replace("%k", KEY).replace("%t", TOKEN);
            let mut shown = said.clone();
            secrets(&said).into_iter().rev().for_each(|range| shown.replace_range(range, "*"));
            assert!(shown.contains('*') && !shown.contains("tok-value"), "{said}: {shown}");
            assert!(!shown.contains("EXAMPLE") && !shown.contains("IQoJ"), "{said}: {shown}");
        }
    }

    #[test]
    fn what_is_no_secret_of_aws_is_left() {
        for text in [
            "set AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN",
            "aws_secret_access_key = os.environ[\"AWS_SECRET_ACCESS_KEY\"]",
            "secretAccessKey: process.env.AWS_SECRET_ACCESS_KEY",
            "AWS_SECRET_ACCESS_KEY=${{ secrets.AWS_SECRET_ACCESS_KEY }}",
            "aws_secret_access_key=my_secret_access_key_of_aws)",
            "secretAccessKey = read2secretsOfTheVault(name)",
            "{\"sessionToken\": \"0b6f5d6e-7f3b-4c55-9d0c-1f2e3d4c5b6a\"}",
            "BrowserSessionToken: 0b6f5d6e-7f3b-4c55-9d0c",
            "aws_session_token = session_token_from_vault_2",
            "secretAccessKey=AWS_SECRET_ACCESS_KEY_FOR_STAGING_2",
            "the session IQoJ",
        ] {
            assert!(secrets(text).is_empty(), "{text}");
        }
    }

    #[test]
    fn in_pieces_they_are_taken_out_as_in_the_whole() {
        let redactor = SecretRedactor::default().with_forms(true);
        for said in [
            format!("{{\"SecretAccessKey\": \"{KEY}\", \"SessionToken\" : \"{TOKEN}\"}} and more"),
            format!("aws_secret_access_key = {KEY} is the key, and AWS_SESSION_TOKEN = {TOKEN}"),
        ] {
            let whole = redactor.text(said.clone());
            assert!(!whole.contains(KEY) && !whole.contains(TOKEN), "{whole}");
            for size in [1, 3, 7, 20] {
                let (mut shown, mut held) = (String::new(), String::new());
                for piece in said.as_bytes().chunks(size) {
                    let mut text = held + std::str::from_utf8(piece).unwrap();
                    held = text.split_off(text.len() - redactor.open_form(&text));
                    shown += &redactor.text(text);
                }
                assert_eq!(shown + &redactor.text(held), whole, "{size}");
            }
        }
    }
}
