//! What texts are compared by: letters in lower case and digits. All else is the space between words, and however much
//! of it there is counts as one: quotes of every kind, `_`, `-`, punctuation, line ends. So `'tool_calls'`,
//! `` `tool_calls` `` and "Tool  Calls" are the same.

use std::borrow::Cow;

/// Words of up to this many letters are compared whole; a longer one stands for all that begin with it.
const SHORT: usize = 3;

/// What a byte counts as. Bytes of characters beyond ASCII count as themselves: [`plain`] has looked at those.
pub(crate) const COUNTS_AS: [u8; 256] = {
    // Anything that is neither a letter nor a digit separates words: OpenAI quotes 'tool_calls', DashScope
    // "tool_calls".
    let mut table = [b' '; 256];
    let mut byte = 0_u8;
    loop {
        if let Some(slot) = table.as_mut_slice().split_at_mut(byte as usize).1.first_mut()
            && (byte.is_ascii_alphanumeric() || !byte.is_ascii())
        {
            *slot = byte.to_ascii_lowercase();
        }
        if byte == u8::MAX {
            break table;
        }
        byte = byte.wrapping_add(1);
    }
};

/// The text with what is beyond ASCII folded character by character; ASCII is left to [`COUNTS_AS`], but for quotes of all
/// other kinds, which become those of ASCII.
pub(crate) fn plain(text: &str) -> Cow<'_, str> {
    if text.is_ascii() {
        return Cow::Borrowed(text);
    }
    let mut plain = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            // U+017F lower-cases to itself in Unicode, but its upper case is a plain `S`.
            '\u{17f}' => plain.push('s'),
            // A combining accent belongs to the letter before it and does not end the word.
            '\u{300}'..='\u{36f}' => plain.push(c),
            '‘' | '’' | '“' | '”' => plain.push('\''),
            _ if c.is_ascii() => plain.push(c),
            _ if c.is_alphanumeric() => plain.extend(c.to_lowercase()),
            _ => plain.push(' '),
        }
    }
    Cow::Owned(plain)
}

/// The text as it is compared.
pub(crate) fn folded(text: &str) -> String {
    let mut folded = String::with_capacity(text.len());
    for c in plain(text).chars() {
        let c = u8::try_from(c)
            .ok()
            .filter(u8::is_ascii)
            .map_or(c, |byte| COUNTS_AS.get(usize::from(byte)).map_or(' ', |byte| char::from(*byte)));
        // Gateways wrap and indent messages, so any amount of space counts as one.
        if c != ' ' || !folded.ends_with(' ') {
            folded.push(c);
        }
    }
    folded
}

/// A phrase of `words` as it is looked for: it begins where a word begins, and its last word stands for all that begin
/// with it, unless it is short or a space follows. Scripts without spaces between words have no such borders.
pub(crate) fn phrase(text: &str) -> String {
    let folded = folded(text);
    let words = folded.trim();
    // Chinese puts no spaces between words: z.ai reports an empty balance as `余额不足或无可用资源包`.
    let begins = if words.starts_with(|c: char| c.is_ascii()) { " " } else { "" };
    let last = words.rsplit(' ').next().unwrap_or_default();
    // A short word would begin too many others: `no` begins `not`, `none` and `node`.
    let whole = last.is_ascii() && (last.len() <= SHORT || folded.ends_with(' '));
    let ends = if whole { " " } else { "" };
    format!("{begins}{words}{ends}")
}

/// The words of a code or a type, one space apart: `RateLimitReached`, `rate_limit.reached`.
pub(crate) fn identifier(text: &str) -> String {
    let mut apart = String::with_capacity(text.len().saturating_add(8));
    let mut before = ' ';
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        // Azure and AWS write codes in camel case, OpenAI and Anthropic in snake case. An upper-case letter begins a
        // word after a lower-case one, and at the end of an acronym (`HTTPError`).
        let begins = c.is_ascii_uppercase()
            && (before.is_ascii_lowercase()
                || (before.is_ascii_uppercase() && chars.peek().is_some_and(char::is_ascii_lowercase)));
        if begins {
            apart.push(' ');
        }
        apart.push(c);
        before = c;
    }
    apart
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn quotes_case_marks_and_space_make_no_difference() {
        for text in
            ["'tool_calls' must", "`Tool-Calls`\n must", "“tool calls”   must", "\"TOOL.calls\": MUST"]
        {
            assert_eq!(folded(text).trim(), "tool calls must", "{text}");
        }
        assert_eq!(folded("limit: 0, Über\u{a0}1"), "limit 0 über 1");
        assert_eq!(folded("TA\u{17f}\u{212a}S 余额不足，请"), "tasks 余额不足 请");
    }

    #[test]
    fn a_phrase_begins_a_word_and_short_words_are_whole() {
        assert_eq!(phrase("exceed"), " exceed");
        assert_eq!(phrase("per day"), " per day ");
        assert_eq!(phrase("tool_call"), " tool call");
        assert_eq!(phrase("balance "), " balance ", "and no balancer");
        assert_eq!(phrase("余额"), "余额");
    }

    #[test]
    fn identifiers_are_words() {
        for (text, words) in [
            ("RateLimitReached", "Rate Limit Reached"),
            ("ModelAccountTPMRateLimitExceeded", "Model Account TPM Rate Limit Exceeded"),
            ("rate_limit", "rate_limit"),
            ("429", "429"),
        ] {
            assert_eq!(identifier(text), words);
        }
    }

    proptest! {
        #[test]
        fn a_part_of_a_text_is_a_part_of_it_folded(text in r#"[a-cA-C ._'"é1-]{0,16}"#, from in 0_usize..16, to in 0_usize..16) {
            if let Some(part) = text.get(from.min(to)..from.max(to)) {
                let padded = format!(" {text} ");
                prop_assert!(folded(&padded).contains(&folded(part)), "{text:?} {part:?}");
            }
        }
    }
}
