//! A key and its value without what YAML puts between them: `key:value`, `key = value`.

use core::ops::Range;

use super::{LINES_BEFORE, TextLine, TextRepair, YamlSlip, helps};

/// A key and its value, by the bytes of their text.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TextPair {
    /// Where the key ends.
    pub(crate) key: usize,
    /// Where the value begins.
    pub(crate) value: usize,
    /// The sign between them: `:` or `=`.
    pub(crate) sign: char,
}

impl TextPair {
    /// What is wrong with it.
    pub(crate) fn message(&self, written: &str) -> String {
        match self.sign {
            ':' => format!("a space is missing after the `:` of `{written}`"),
            _ => format!("`{written}` has `=` where `:` and a space are due"),
        }
    }

    /// What is done about it.
    pub(crate) const fn title(&self) -> &'static str {
        match self.sign {
            ':' => "write a space",
            _ => "write `: `",
        }
    }
}

/// The key and the value of a text that looks like `key:value` or `key = value`.
pub(crate) fn pair(text: &str) -> Option<TextPair> {
    let key = text.find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '*')))?;
    if !text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
        return None;
    }
    let rest = text.get(key..)?;
    let (sign, after) = match rest.strip_prefix(':') {
        Some(after) => (':', after),
        None => ('=', rest.trim_start_matches([' ', '\t']).strip_prefix('=')?),
    };
    let value = match sign {
        ':' => Some(after)
            // `::` and `://` stand in names and addresses.
            .filter(|value| !value.starts_with(|c: char| c.is_whitespace() || matches!(c, ':' | '/' | '\\'))),
        // `==`, `=~` and `=>` are no assignments.
        _ => Some(after.trim_start_matches([' ', '\t'])).filter(|_| !after.starts_with(['=', '~', '>'])),
    };
    let value = value.filter(|value| !value.trim().is_empty())?;
    Some(TextPair { key, value: text.len().saturating_sub(value.len()), sign })
}

/// A pair that is a text and no key with its value.
pub(super) fn find(text: &str, lines: &[TextLine<'_>], here: usize, at: usize) -> Option<YamlSlip> {
    let before = lines.get(..=here)?.iter().rev().take(LINES_BEFORE);
    let begins = before.map(|line| {
        let said = line.said();
        let content = said.trim_start_matches([' ', '-']);
        let start = line.start.saturating_add(said.len().saturating_sub(content.len()));
        start..line.start.saturating_add(said.len())
    });
    within(text, lines.get(here)?, at).into_iter().chain(begins).find_map(|range| {
        let found = pair(text.get(range.clone())?)?;
        let place = |at: usize| range.start.saturating_add(at);
        let (key, value) = (place(found.key), place(found.value));
        let (whole, repair) = match found.sign {
            // A collection inside of `{…}` begins where the reader stumbles, behind the missing blank.
            ':' => (key..value, TextRepair { at: value..value, title: found.title(), text: " ".to_owned() }),
            _ => (
                range.start..value,
                TextRepair { at: key..value, title: found.title(), text: ": ".to_owned() },
            ),
        };
        let message = match found.sign {
            ':' => format!("a space is missing after `{}`", text.get(range.start..value)?),
            _ => found.message(text.get(range.start..value)?.trim_end()),
        };
        helps(text, &repair).then(|| YamlSlip {
            at: whole,
            message,
            repair: Some(repair),
            ..YamlSlip::default()
        })
    })
}

/// The entry of `{…}` that the reader stumbles in, on that line.
fn within(text: &str, line: &TextLine<'_>, at: usize) -> Option<Range<usize>> {
    let before = text.get(line.start..at)?;
    let entry = before.rfind(['{', ',']).map(|opens| line.start.saturating_add(opens).saturating_add(1))?;
    let blank = text.get(entry..at)?;
    let start = at.saturating_sub(blank.trim_start().len());
    let end = line.start.saturating_add(line.said().len());
    (start < end).then_some(start..end)
}
