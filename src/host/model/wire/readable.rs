//! JSON that some servers write and this reader refuses: halves of surrogate pairs, numbers that no float holds, and hundreds of
//! nested lists. What of it means nothing is replaced, so that an answer with it can be read.

use crate::host::surrogates::without_halves;

/// The deepest nesting that is read: the reader refuses 128.
const DEEPEST: usize = 120;
/// What stands for a number that no float holds.
const LARGEST: &str = "1.7976931348623157e308";
/// Fewer digits than a number has that no float holds and that has no exponent.
const MANY_DIGITS: usize = 300;

/// The JSON as it can be read; `None`: it can be as it is, or nothing known is wrong with it.
pub(in crate::host::model) fn readable(json: &str) -> Option<String> {
    if !may_be_refused(json.as_bytes()) {
        return None;
    }
    let whole = without_halves(json);
    let (mut bounded, mut copied) = (String::new(), 0);
    let mut places = Places { json: &whole, at: 0, depth: 0 };
    while let Some((end, instead)) = places.next_refused() {
        bounded.push_str(whole.get(copied..places.at)?);
        bounded.push_str(instead);
        (copied, places.at) = (end, end);
    }
    if copied > 0 {
        bounded.push_str(whole.get(copied..)?);
        return Some(bounded);
    }
    match whole {
        std::borrow::Cow::Owned(whole) => Some(whole),
        std::borrow::Cow::Borrowed(_) => None,
    }
}

/// Whether it may hold what the reader refuses. Nearly no event does. All of it is looked at, as the compiler makes a few
/// instructions for many bytes of a loop that ends nowhere else.
fn may_be_refused(json: &[u8]) -> bool {
    let pairs = json.iter().zip(json.get(1..).unwrap_or_default());
    let is_refused = |before: u8, byte: u8| {
        let is_unit = matches!((before, byte), (b'\\', b'u'));
        let is_exponent = matches!((before, byte), (b'0'..=b'9' | b'.', b'e' | b'E'));
        u8::from(is_unit | is_exponent)
    };
    let has_refused = pairs.fold(0, |found, (before, byte)| found | is_refused(*before, *byte)) > 0;
    let has_many_digits = || json.iter().skip(MANY_DIGITS - 1).step_by(MANY_DIGITS).any(u8::is_ascii_digit);
    let is_deep = || json.iter().filter(|byte| matches!(byte, b'[' | b'{')).count() > DEEPEST;
    has_refused || has_many_digits() || is_deep()
}

/// A way through JSON.
struct Places<'j> {
    json: &'j str,
    at: usize,
    depth: usize,
}

impl Places<'_> {
    /// Advances to what the reader refuses: where it ends, and what stands for it.
    fn next_refused(&mut self) -> Option<(usize, &'static str)> {
        loop {
            match self.byte(self.at)? {
                b'"' => self.at = self.behind_text(self.at),
                b'[' | b'{' if self.depth >= DEEPEST => return Some((self.behind_nested(), "null")),
                b'[' | b'{' => self.step(self.depth.saturating_add(1)),
                b']' | b'}' => self.step(self.depth.saturating_sub(1)),
                b'0'..=b'9' => {
                    let end = self.behind_number();
                    let number = self.json.get(self.at..end).and_then(|number| number.parse::<f64>().ok());
                    if number.is_some_and(f64::is_infinite) {
                        return Some((end, LARGEST));
                    }
                    self.at = end;
                }
                _ => self.step(self.depth),
            }
        }
    }

    fn byte(&self, at: usize) -> Option<u8> {
        self.json.as_bytes().get(at).copied()
    }

    fn step(&mut self, depth: usize) {
        (self.at, self.depth) = (self.at.saturating_add(1), depth);
    }

    /// Where the text ends that begins there.
    fn behind_text(&self, start: usize) -> usize {
        let mut at = start.saturating_add(1);
        loop {
            match self.byte(at) {
                Some(b'\\') => at = at.saturating_add(2),
                Some(b'"') => return at.saturating_add(1),
                Some(_) => at = at.saturating_add(1),
                None => return self.json.len(),
            }
        }
    }

    fn behind_number(&self) -> usize {
        let rest = self.json.as_bytes().get(self.at..).unwrap_or_default();
        let is_part = |byte: &u8| byte.is_ascii_digit() || matches!(byte, b'.' | b'e' | b'E' | b'+' | b'-');
        self.at.saturating_add(rest.iter().take_while(|byte| is_part(byte)).count())
    }

    /// Where the list or the object ends that begins here.
    fn behind_nested(&self) -> usize {
        let (mut at, mut open) = (self.at, 0_usize);
        loop {
            match self.byte(at) {
                Some(b'"') => {
                    at = self.behind_text(at);
                    continue;
                }
                Some(b'[' | b'{') => open = open.saturating_add(1),
                Some(b']' | b'}') => open = open.saturating_sub(1),
                Some(_) => {}
                None => return self.json.len(),
            }
            at = at.saturating_add(1);
            if open == 0 {
                return at;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_read_stays() {
        for json in [r#"{"a":[1,-2.5e3,"\ud83d\ude00 1e400 [[["]}"#, "[1e308]", "", "[", "\"", "\"\\"] {
            assert_eq!(readable(json), None, "{json}");
        }
    }

    #[test]
    fn what_is_refused_is_replaced_where_it_stands() {
        let bounded = readable(r#"{"a":-1e400,"b":"\ud800 1e400","c":1E+999}"#).unwrap();
        assert_eq!(bounded, format!(r#"{{"a":-{LARGEST},"b":"\ufffd 1e400","c":{LARGEST}}}"#));
        let deep = format!("{{\"a\":{}\"]\"{},\"b\":1}}", "[".repeat(500), "]".repeat(500));
        let read: serde_json::Value = serde_json::from_str(&readable(&deep).unwrap()).unwrap();
        assert_eq!(read.get("b"), Some(&1.into()));
        // One that is cut stays cut.
        assert!(serde_json::from_str::<serde_json::Value>(&readable(&"[".repeat(500)).unwrap()).is_err());
    }
}
