//! The secrets of a connection, masked in what its server answers: some servers repeat what they were sent.
//!
//! An error has `[redacted]` in their place, as everywhere. Of an answer no byte is moved: each byte of a secret is an asterisk.

use bytes::{Bytes, BytesMut};
use memchr::memmem::Finder;
use reqwest::header::HeaderMap;

use crate::host::redact::SecretRedactor;
use crate::host::spelling::spelled;

/// A shorter secret stays in answers: it guards little, as the `none` and `EMPTY` of local servers, and stands in too many words.
const SHORTEST: usize = 8;
const MASK: u8 = b'*';

/// What masks the secrets of one connection.
#[derive(Default)]
pub(super) struct AnswerMask<'s> {
    /// The longest first: one may hold another.
    secrets: Vec<(&'s str, Finder<'s>)>,
}

/// What a model says in pieces, as far as it may be the beginning of a secret.
#[derive(Default)]
pub(super) struct SaidText {
    open: String,
    /// Whether what came last made a secret whole.
    has_secret: bool,
    /// Whether what came last was text.
    is_text: bool,
}

impl<'s> AnswerMask<'s> {
    pub(super) fn new(redactor: &'s SecretRedactor) -> Self {
        let secrets = redactor.known().filter(|secret| secret.len() >= SHORTEST);
        Self { secrets: secrets.map(|secret| (secret, Finder::new(secret))).collect() }
    }

    /// The bytes without the secrets.
    pub(super) fn masked(&self, bytes: Bytes) -> Bytes {
        if !self.finds(&bytes) {
            return bytes;
        }
        let mut bytes = BytesMut::from(bytes);
        self.mask(&mut bytes);
        bytes.freeze()
    }

    /// Masks the secrets.
    pub(super) fn mask(&self, bytes: &mut [u8]) {
        for (secret, plain) in &self.secrets {
            let mut from = 0;
            while let Some(rest) = bytes.get_mut(from..)
                && let Some(at) = plain.find(rest)
            {
                let end = at.saturating_add(secret.len());
                rest.get_mut(at..end).unwrap_or_default().fill(MASK);
                from = from.saturating_add(end);
            }
            for place in spelled(bytes, secret) {
                bytes.get_mut(place).unwrap_or_default().fill(MASK);
            }
        }
    }

    /// The headers without those that hold a secret.
    pub(super) fn headers(&self, mut headers: HeaderMap) -> HeaderMap {
        let holds = |(name, value): (&_, &reqwest::header::HeaderValue)| {
            self.finds(value.as_bytes()).then(|| Clone::clone(name))
        };
        let secret: Vec<_> = headers.iter().filter_map(holds).collect();
        for name in secret {
            headers.remove(name);
        }
        headers
    }

    /// Whether there is one.
    pub(super) fn finds(&self, bytes: &[u8]) -> bool {
        let has = |(secret, plain): &(&str, Finder<'_>)| {
            plain.find(bytes).is_some() || !spelled(bytes, secret).is_empty()
        };
        self.secrets.iter().any(has)
    }

    /// How many bytes at the end of a text may be the beginning of a secret.
    fn open_end(&self, text: &[u8]) -> usize {
        let begun = |(secret, _): &(&str, Finder<'_>)| {
            let secret = secret.as_bytes();
            let longest = text.len().min(secret.len().saturating_sub(1));
            let is_begun = |length: &usize| secret.get(..*length).is_some_and(|begun| text.ends_with(begun));
            (1..=longest).rev().find(is_begun).unwrap_or_default()
        };
        self.secrets.iter().map(begun).max().unwrap_or_default()
    }
}

impl SaidText {
    /// What may be shown once that has come, too: a secret is masked, and the beginning of one waits for its rest.
    pub(super) fn next(&mut self, mask: &AnswerMask<'_>, fresh: String) -> String {
        (self.has_secret, self.is_text) = (false, !fresh.is_empty());
        if fresh.is_empty() || mask.secrets.is_empty() {
            return fresh;
        }
        let mut text = core::mem::take(&mut self.open);
        text.push_str(&fresh);
        if mask.finds(text.as_bytes()) {
            self.has_secret = true;
            let mut bytes = text.into_bytes();
            mask.mask(&mut bytes);
            // A secret is whole characters, and so are the asterisks.
            text = String::from_utf8_lossy(&bytes).into_owned();
        }
        self.open = text.split_off(text.len().saturating_sub(mask.open_end(text.as_bytes())));
        text
    }

    /// What has waited, once nothing follows.
    pub(super) fn rest(&mut self) -> String {
        core::mem::take(&mut self.open)
    }

    /// Whether what came last made a secret whole.
    pub(super) const fn has_secret(&self) -> bool {
        self.has_secret
    }

    /// Whether what has come last is so much of a secret that it is hardly anything else, and its rest is awaited. Not behind what is no
    /// text, of which there may be any amount: then the rest alone is kept back.
    pub(super) const fn waits(&self) -> bool {
        self.is_text && self.open.len() >= SHORTEST
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECRET: &str = "sk-sk-1234";

    #[test]
    fn a_secret_is_masked_and_a_short_one_stays() {
        let redactor = SecretRedactor::new(["sk-0123456789".into(), "sk-01234".into(), "none".into()]);
        let mask = AnswerMask::new(&redactor);
        let text = "sk-01234 sk-0123456789, none";
        let masked = mask.masked(Bytes::from_static(text.as_bytes()));
        assert_eq!(masked, "******** *************, none");
        // What is not text is looked at, too.
        assert_eq!(mask.masked(Bytes::from_static(b"\xffsk-01234")), &b"\xff********"[..]);
        let headers: HeaderMap = [("x-seen", "sk-01234"), ("x-kind", "none")]
            .map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()))
            .into_iter()
            .collect();
        let left = mask.headers(headers);
        assert!(left.len() == 1 && left.contains_key("x-kind"), "{left:?}");
    }

    #[test]
    fn the_rest_of_a_secret_is_awaited_until_something_else_comes() {
        let redactor = SecretRedactor::new([SECRET.into()]);
        let (mask, mut said) = (AnswerMask::new(&redactor), SaidText::default());
        assert_eq!((said.next(&mask, "a sk-sk-12".into()), said.waits()), ("a ".into(), true));
        assert_eq!((said.next(&mask, String::new()), said.waits()), (String::new(), false));
        assert_eq!((said.next(&mask, "34".into()), said.has_secret()), ("**********".into(), true));
    }

    #[test]
    fn what_is_escaped_hides_no_secret() {
        let redactor = SecretRedactor::new(["key/with/slashes".into()]);
        for spelled in [r"key\/with\/slashes", r"\u006bey\u002Fwith/slashes", r"key/with\\/\\u0073lashes"] {
            let body = format!(r#"{{"a":"\n{spelled}","b":"\u006bey"}}"#);
            let masked = AnswerMask::new(&redactor).masked(Bytes::from(body));
            let asterisks = "*".repeat(spelled.len());
            assert_eq!(masked, format!(r#"{{"a":"\n{asterisks}","b":"\u006bey"}}"#));
        }
    }

    proptest! {
        #[test]
        fn in_pieces_a_text_is_masked_as_it_is_as_a_whole(pieces in prop::collection::vec(
            prop::sample::select(vec!["sk", "-", "sk-", "1234", "sk-1", "234", "ü", " ", "s"]), 0..20,
        )) {
            let redactor = SecretRedactor::new([SECRET.into()]);
            let (mask, mut said, mut shown) = (AnswerMask::new(&redactor), SaidText::default(), String::new());
            let mut found = false;
            for piece in &pieces {
                shown += &said.next(&mask, (*piece).to_owned());
                found |= said.has_secret();
                // What cannot be the beginning of it does not wait.
                prop_assert!(SECRET.starts_with(&said.open));
            }
            let whole = pieces.concat();
            prop_assert_eq!(found, whole.contains(SECRET));
            prop_assert_eq!(shown + &said.rest(), whole.replace(SECRET, "**********"));
        }
    }
}
