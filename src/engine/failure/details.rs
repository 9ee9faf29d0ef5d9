//! The words of detail fields: the name of a quota, a reason, an inner code. Sentences are left out.

use super::json::{JsonNode, NodeShape};

/// The maximum number of words kept, and the maximum length of a word in bytes.
// The words are compared with a table of names; longer ones are no names, and the body is untrusted.
const MOST_WORDS: usize = 32;
const LONGEST: usize = 200;
/// The maximum number of values visited, and the maximum depth.
const MOST_VALUES: usize = 512;
const DEEPEST: usize = 8;

/// The words in the order of their discovery, without duplicates.
#[derive(Debug, Default)]
pub(super) struct ErrorDetails {
    pub(super) words: Vec<String>,
    seen: usize,
}

impl ErrorDetails {
    /// Adds the words of a value, in the order of the text.
    pub(super) fn take(&mut self, value: &impl JsonNode) {
        self.walk(value, 0);
    }

    /// Adds one word.
    pub(super) fn word(&mut self, word: &str) {
        let fits = self.words.len() < MOST_WORDS && word.len() <= LONGEST && is_word(word);
        // Duplicates are left out, so that a hundred equal violations do not displace other words.
        if fits && !self.words.iter().any(|known| known == word) {
            self.words.push(word.to_owned());
        }
    }

    fn walk(&mut self, value: &impl JsonNode, depth: usize) {
        self.seen = self.seen.saturating_add(1);
        if depth > DEEPEST || self.seen > MOST_VALUES {
            return;
        }
        let deeper = depth.saturating_add(1);
        match value.shape() {
            NodeShape::Text(text) => self.word(text),
            NodeShape::List(items) => items.iter().for_each(|item| self.walk(item, deeper)),
            NodeShape::Object => value.fields().for_each(|(_, field)| self.walk(field, deeper)),
            NodeShape::Null | NodeShape::Bool(_) | NodeShape::Number(_) => {}
        }
    }
}

/// The ASCII characters that cannot occur in a word: white space, control characters, quotes and braces.
const ODD: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0_u8;
    loop {
        if let Some(slot) = table.as_mut_slice().split_at_mut(byte as usize).1.first_mut() {
            *slot = byte <= b' ' || matches!(byte, b'{' | b'}' | b'"' | 0x7f);
        }
        if byte == u8::MAX {
            break table;
        }
        byte = byte.wrapping_add(1);
    }
};

/// Whether the text is a word that a table can name: no sentence, address or JSON. ASCII is checked byte by byte.
fn is_word(text: &str) -> bool {
    let odd = |byte: u8| ODD.get(usize::from(byte)) == Some(&true);
    let beyond_ascii = |c: char| c.is_whitespace() || c.is_control();
    !text.is_empty()
        && !text.bytes().any(odd)
        && (text.is_ascii() || !text.contains(beyond_ascii))
        // An address contains words such as `quota` that say nothing about this failure.
        && (!text.contains(':') || !text.contains("://"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn words_are_kept_once_and_sentences_left_out() {
        let mut details = ErrorDetails::default();
        details.take(&json!([
            {"reason": "QUOTA", "domain": "x.com", "more": ["QUOTA", "a b", ""]},
            {"links": [{"url": "https://x.com/a"}], "n": 3, "raw": "{\"a\":1}"},
        ]));
        assert_eq!(details.words, ["QUOTA", "x.com"]);
    }

    #[test]
    fn what_is_too_much_is_left_out() {
        let mut details = ErrorDetails::default();
        details.take(&json!(["x".repeat(201)]));
        details.take(&(0..100).map(|i| format!("w{i}")).collect::<Value>());
        assert_eq!(details.words.len(), MOST_WORDS);
    }
}
