//! The words of detail fields: the name of a quota, a reason, an inner code. Sentences are left out.

use super::json::{Node, Shape};

/// The most words that are kept, and the longest one.
const MOST_WORDS: usize = 32;
const LONGEST: usize = 200;
/// The most values that are looked at, and how deep.
const MOST_VALUES: usize = 512;
const DEEPEST: usize = 8;

/// The words as they are found, each once.
#[derive(Debug, Default)]
pub(super) struct Details {
    pub(super) words: Vec<String>,
    seen: usize,
}

impl Details {
    /// Takes the words of a value in, in the order of the text.
    pub(super) fn take(&mut self, value: &impl Node) {
        self.walk(value, 0);
    }

    /// Takes one word in.
    pub(super) fn word(&mut self, word: &str) {
        let fits = self.words.len() < MOST_WORDS && word.len() <= LONGEST && is_word(word);
        if fits && !self.words.iter().any(|known| known == word) {
            self.words.push(word.to_owned());
        }
    }

    fn walk(&mut self, value: &impl Node, depth: usize) {
        self.seen = self.seen.saturating_add(1);
        if depth > DEEPEST || self.seen > MOST_VALUES {
            return;
        }
        let deeper = depth.saturating_add(1);
        match value.shape() {
            Shape::Text(text) => self.word(text),
            Shape::List(items) => items.iter().for_each(|item| self.walk(item, deeper)),
            Shape::Object => value.fields().for_each(|(_, field)| self.walk(field, deeper)),
            Shape::Null | Shape::Bool(_) | Shape::Number(_) => {}
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
        && (!text.contains(':') || !text.contains("://"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn words_are_kept_once_and_sentences_left_out() {
        let mut details = Details::default();
        details.take(&json!([
            {"reason": "QUOTA", "domain": "x.com", "more": ["QUOTA", "a b", ""]},
            {"links": [{"url": "https://x.com/a"}], "n": 3, "raw": "{\"a\":1}"},
        ]));
        assert_eq!(details.words, ["QUOTA", "x.com"]);
    }

    #[test]
    fn what_is_too_much_is_left_out() {
        let mut details = Details::default();
        details.take(&json!(["x".repeat(201)]));
        details.take(&(0..100).map(|i| format!("w{i}")).collect::<Value>());
        assert_eq!(details.words.len(), MOST_WORDS);
    }
}
