//! Dictionaries in Python notation, `{'code': None}`: clients quote response bodies in this form.

use std::borrow::Cow;

use serde_json::Number;

use super::json::LazyJson;

/// The maximum nesting of values.
// The reader is recursive and the text is untrusted: the stack depth must be limited.
const DEEPEST: usize = 32;

/// The dictionary at the start of a text, and the position of its end. `None` if it contains anything but plain
/// values (`<Response [429]>`).
pub(super) fn read(text: &str) -> Option<(LazyJson<'_>, usize)> {
    let mut reader = ReprReader { rest: text };
    let json = reader.value(0).filter(|json| matches!(json, LazyJson::Object(_)))?;
    Some((json, text.len().saturating_sub(reader.rest.len())))
}

struct ReprReader<'t> {
    rest: &'t str,
}

impl<'t> ReprReader<'t> {
    fn value(&mut self, depth: usize) -> Option<LazyJson<'t>> {
        // No error nests this deep; without a limit a text of brackets would overflow the stack.
        if depth > DEEPEST {
            return None;
        }
        let deeper = depth.saturating_add(1);
        self.blank();
        if self.takes("{") {
            return self.fields(deeper).map(LazyJson::unique);
        }
        if self.takes("[") {
            return self.items("]", deeper).map(LazyJson::List);
        }
        if self.takes("(") {
            return self.items(")", deeper).map(LazyJson::List);
        }
        if self.rest.starts_with(['\'', '"']) {
            return self.text().map(LazyJson::Text);
        }
        self.word()
    }

    fn fields(&mut self, depth: usize) -> Option<Vec<(Cow<'t, str>, LazyJson<'t>)>> {
        let mut fields = Vec::new();
        while !self.closes("}") {
            let key = self.text()?;
            self.blank();
            if !self.takes(":") {
                return None;
            }
            fields.push((key, self.value(depth)?));
            self.parts("}")?;
        }
        Some(fields)
    }

    fn items(&mut self, end: &str, depth: usize) -> Option<Vec<LazyJson<'t>>> {
        let mut items = Vec::new();
        while !self.closes(end) {
            items.push(self.value(depth)?);
            self.parts(end)?;
        }
        Some(items)
    }

    /// A string in single or double quotes.
    fn text(&mut self) -> Option<Cow<'t, str>> {
        let quote = self.rest.chars().next().filter(|quote| matches!(quote, '\'' | '"'))?;
        let inside = self.rest.get(1..)?;
        let end = inside.find([quote, '\\'])?;
        let (plain, rest) = inside.split_at_checked(end)?;
        if let Some(rest) = rest.strip_prefix(quote) {
            self.rest = rest;
            return Some(Cow::Borrowed(plain));
        }
        let mut text = plain.to_owned();
        let mut chars = rest.chars();
        loop {
            match chars.next()? {
                '\\' => text.push(escaped(&mut chars)?),
                c if c == quote => break,
                c => text.push(c),
            }
        }
        self.rest = chars.as_str();
        Some(Cow::Owned(text))
    }

    /// `None`, `True`, a number, or a literal of JSON.
    fn word(&mut self) -> Option<LazyJson<'t>> {
        let is_end = |c: char| !(c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'));
        let end = self.rest.find(is_end).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at_checked(end)?;
        self.rest = rest;
        match word {
            "None" | "null" => Some(LazyJson::Null),
            "True" | "true" => Some(LazyJson::Bool(true)),
            "False" | "false" => Some(LazyJson::Bool(false)),
            number => number.parse::<Number>().ok().map(LazyJson::Number),
        }
    }

    /// Reads a comma, or stops before the end marker.
    fn parts(&mut self, end: &str) -> Option<()> {
        self.blank();
        (self.takes(",") || self.rest.starts_with(end)).then_some(())
    }

    fn closes(&mut self, end: &str) -> bool {
        self.blank();
        self.takes(end)
    }

    fn takes(&mut self, sign: &str) -> bool {
        let rest = self.rest.strip_prefix(sign);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn blank(&mut self) {
        self.rest = self.rest.trim_start();
    }
}

/// The character of an escape sequence, after its `\`. An unknown escape yields the character itself.
fn escaped(chars: &mut core::str::Chars<'_>) -> Option<char> {
    let digits = match chars.next()? {
        'n' => return Some('\n'),
        'r' => return Some('\r'),
        't' => return Some('\t'),
        'x' => 2,
        'u' => 4,
        'U' => 8,
        // Python keeps an unknown escape unchanged; here only the character counts.
        c => return Some(c),
    };
    let mut code = 0_u32;
    for _ in 0..digits {
        code = code.checked_mul(16)?.checked_add(chars.next()?.to_digit(16)?)?;
    }
    // A lone surrogate is not a character; the rest of the message is still useful.
    Some(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER))
}

#[cfg(test)]
mod tests {
    use super::super::json::JsonNode;
    use super::*;

    #[test]
    fn a_dictionary_is_read_to_its_end() {
        let text = r#"{'a': None, 'b': [True, False, -1.5], 'c': "it's", 'd': 'x\'\n\xe9\u00e9', 't': (1,), 'e': {}} rest"#;
        let (json, end) = read(text).unwrap();
        let expected = r#"{"a":null,"b":[true,false,-1.5],"c":"it's","d":"x'\néé","t":[1],"e":{}}"#;
        assert_eq!((json.written().as_str(), text.get(end..)), (expected, Some(" rest")));
    }

    #[test]
    fn what_is_no_plain_value_is_none() {
        for text in ["{'a': <Response [429]>}", "{'a'", "{'a': 1", "['a']", "{a: 1}", "{'a': '\\x"] {
            assert!(read(text).is_none(), "{text}");
        }
        assert!(read(&"{'a': ".repeat(1000)).is_none());
    }
}
