//! The words of detail fields: the name of a quota, a reason, an inner code. Sentences are left out.

use super::json::{JsonNode, NodeShape};

/// The most words that are kept, and the longest one.
// The words are held against a table of names; more or longer ones are no names, and the body comes from outside.
const MOST_WORDS: usize = 32;
const LONGEST: usize = 200;
/// The most values that are looked at, and how deep.
const MOST_VALUES: usize = 512;
const DEEPEST: usize = 8;

/// The words as they are found, each once.
#[derive(Debug, Default)]
pub(super) struct ErrorDetails {
    pub(super) words: Vec<String>,
    seen: usize,
}

impl ErrorDetails {
    /// Takes the words of a value in, in the order of the text.
    pub(super) fn take(&mut self, value: &impl JsonNode) {
        self.walk(value, 0);
    }

    /// Takes one word in.
    pub(super) fn word(&mut self, word: &str) {
        let fits = self.words.len() < MOST_WORDS && word.len() <= LONGEST && is_word(word);
        // Each word once, so that a list of a hundred equal violations leaves room for others.
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

/// The ASCII characters that no word has: white space, controls, quotes and braces.
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

/// Whether it is a word a table can name, and no sentence, address or JSON. Most is ASCII, and read byte by byte.
fn is_word(text: &str) -> bool {
    let odd = |byte: u8| ODD.get(usize::from(byte)) == Some(&true);
    let beyond_ascii = |c: char| c.is_whitespace() || c.is_control();
    !text.is_empty()
        && !text.bytes().any(odd)
        && (text.is_ascii() || !text.contains(beyond_ascii))
        // An address holds words such as `quota` that say nothing about this failure.
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
