//! Whether a text with repairs says the same as before everywhere else.

use core::ops::Range;

use granit_parser::{Event, Parser};

use super::slips::comment;
use super::{YamlData, YamlNode, parse};
use crate::text::Problems;
use crate::text::SourceId;

/// Whether `after` says what `before` says but for what the replaced bytes of `before` said: the same values under the same
/// keys, in the same order, and the same comments. Of a text that cannot be read, only the comments are compared.
pub fn is_kept(before: &str, after: &str, replaced: &[Range<usize>]) -> bool {
    let read = |text: &str| parse(SourceId(0), text, &mut Problems::default());
    let signs = |text: &str| -> Vec<String> {
        text.lines().map(|line| comment(line).trim_end().to_owned()).filter(|said| !said.is_empty()).collect()
    };
    match (read(before), read(after)) {
        (Some(old), Some(new)) => {
            comments(before) == comments(after) && KeptWalk { replaced }.same(&old, &new)
        }
        (None, _) => signs(before) == signs(after),
        (Some(_), None) => false,
    }
}

/// The comments of a text, in their order.
fn comments(text: &str) -> Vec<String> {
    let options = granit_parser::options! { emit_comments: true, max_buffered_comment_events: usize::MAX };
    let events = Parser::new_from_str_with_options(text, options).filter_map(Result::ok);
    let comment = |(event, _)| match event {
        Event::Comment(said, _) => Some(said.into_owned()),
        _ => None,
    };
    events.filter_map(comment).collect()
}

struct KeptWalk<'r> {
    replaced: &'r [Range<usize>],
}

impl KeptWalk<'_> {
    /// Whether a repair touches those bytes, an insertion at their ends included.
    fn touched(&self, span: Range<usize>) -> bool {
        // A value that is inserted comes at the end of another, so the ends count too.
        self.replaced.iter().any(|range| range.start <= span.end && span.start <= range.end)
    }

    fn same(&self, old: &YamlNode, new: &YamlNode) -> bool {
        match (&old.data, &new.data) {
            (YamlData::Map(old), YamlData::Map(new)) if old.len() == new.len() => {
                old.iter().zip(new.iter()).all(|((old_key, old), (new_key, new))| {
                    (old_key.name == new_key.name || self.touched(old_key.span.range()))
                        && self.same(old, new)
                })
            }
            (YamlData::List(old), YamlData::List(new)) if old.len() == new.len() => {
                old.iter().zip(new.iter()).all(|(old, new)| self.same(old, new))
            }
            (YamlData::Null, YamlData::Null) | (YamlData::Reported, YamlData::Reported) => true,
            (YamlData::Bool(old), YamlData::Bool(new)) if old == new => true,
            (YamlData::Number(old), YamlData::Number(new)) if old == new => true,
            (YamlData::Text(old), YamlData::Text(new)) if old == new => true,
            _ => self.touched(old.span.range()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::is_kept;

    #[test]
    fn the_comments_of_a_text_that_cannot_be_read_stay_too() {
        let before = "a: it's so: yes # why\n";
        assert!(is_kept(before, "a: \"it's so: yes\" # why\n", std::slice::from_ref(&(3..15))));
        assert!(!is_kept(before, "a: \"it's so: yes # why\"\n", std::slice::from_ref(&(3..21))));
    }

    #[test]
    fn only_what_is_replaced_may_differ() {
        let before = "a: 1 # one\nb: {c: x, d: [1, 2]}\n";
        for (after, replaced, kept) in [
            ("a: 2 # one\nb: {c: x, d: [1, 2]}\n", 3..4, true),
            ("a: 2 # one\nb: {c: y, d: [1, 2]}\n", 3..4, false),
            ("a: 2 # two\nb: {c: x, d: [1, 2]}\n", 3..4, false),
            ("A: 1 # one\nb: {c: x, d: [1, 2]}\n", 0..1, true),
            ("a: 1 # one\nb: {c: x, d: [1, 3]}\n", 0..1, false),
            ("a: 1 # one\nb: {c: x}\n", 0..1, false),
            ("a: 1 # one\nb: {\n", 0..1, false),
        ] {
            assert_eq!(is_kept(before, after, &[replaced]), kept, "{after}");
        }
    }
}
