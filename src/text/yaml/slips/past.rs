//! Values that end before their line does: `{{ turn }} is last`, `"a" b`, `| text`.

use super::{LINES_BEFORE, TextLine, TextRepair, YamlSlip, continued, helps, quoted};

/// The value of a line whose quote or bracket closes before more text; of a line before that one, only with a repair: what
/// follows may begin a quote, which ends elsewhere.
pub(super) fn find(text: &str, lines: &[TextLine<'_>], here: usize) -> Option<YamlSlip> {
    let mut before = (0..here).rev().take(LINES_BEFORE);
    of_line(text, lines, here).or_else(|| {
        before.find_map(|number| of_line(text, lines, number).filter(|slip| slip.repair.is_some()))
    })
}

fn of_line(text: &str, lines: &[TextLine<'_>], number: usize) -> Option<YamlSlip> {
    let line = lines.get(number)?;
    let said = line.said();
    let entry = said.trim_start_matches([' ', '-']);
    let value = entry.split_once(": ").map_or(entry, |(_, value)| value).trim_start();
    let start = line.start.saturating_add(said.len().saturating_sub(value.len()));
    let whole = start..start.saturating_add(value.len());
    let first = value.chars().next()?;
    if matches!(first, '|' | '>') {
        return block(first, value, whole);
    }
    let end = end_of(value)?;
    let more = value.get(end..)?.trim_start();
    if more.is_empty() || more.starts_with([':', ',', '}', ']']) {
        return None;
    }
    let message =
        format!("the value ends at `{}`, and more follows on its line", value.get(..end)?.chars().last()?);
    let inner = value.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\''));
    let meant = match (first, inner) {
        ('{', _) if value.starts_with("{{") => Some(quoted(value)),
        // The apostrophe of `'it's'` ends the text.
        ('\'', Some(inner)) if has_apostrophes(inner) => Some(quoted(inner)),
        _ => None,
    };
    let repair = meant.map(|text| TextRepair { at: whole.clone(), title: "quote it", text });
    // More of the text may stand on the lines below.
    let repair = repair.filter(|repair| continued(lines, number).is_empty() && helps(text, repair));
    let help = match (&repair, first) {
        (Some(_), _) => Vec::new(),
        (None, '"' | '\'') => both(value, first),
        (None, _) => vec!["quote it if it is a text, or move what follows".to_owned()],
    };
    Some(YamlSlip { at: whole, message, help, repair, ..YamlSlip::default() })
}

/// Whether the `'` in a text are apostrophes: those of quotes come in pairs, next to a blank.
fn has_apostrophes(inner: &str) -> bool {
    let letters = |at: usize| {
        let before = inner.get(..at).and_then(|text| text.chars().next_back());
        let after = inner.get(at.saturating_add(1)..).and_then(|text| text.chars().next());
        before.is_some_and(char::is_alphanumeric) && after.is_some_and(char::is_alphanumeric)
    };
    inner.matches('\'').count() == 1 || inner.match_indices('\'').all(|(at, _)| letters(at))
}

/// What to write: the first and the last quote hold the text, or belong to it.
fn both(value: &str, quote: char) -> Vec<String> {
    let whole = format!("quote all of it, `{}`", quoted(value));
    match value.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote)) {
        Some(inner) if !inner.is_empty() => {
            let inner = quoted(&inner.replace("\\\"", "\""));
            vec![
                format!("write `{inner}` if the first and the last quote hold the text"),
                format!("{whole}, if they belong to it"),
            ]
        }
        _ => vec![format!("{whole}, or none")],
    }
}

/// A sign of a text on the lines below, with a text next to it.
fn block(sign: char, value: &str, at: core::ops::Range<usize>) -> Option<YamlSlip> {
    let beside = value.get(1..)?.trim_start_matches(['+', '-', '1', '2', '3', '4', '5', '6', '7', '8', '9']);
    (!beside.trim().is_empty()).then(|| YamlSlip {
        at,
        message: format!("`{sign}` begins a text on the lines below, and nothing may follow it on its line"),
        help: vec![
            "write the text on the next line, indented; or quote it if it begins with that sign".to_owned(),
        ],
        ..YamlSlip::default()
    })
}

/// Where a value in quotes or brackets ends.
fn end_of(value: &str) -> Option<usize> {
    let mut chars = value.char_indices().peekable();
    let (_, open) = chars.next()?;
    let mut depth = 1_u32;
    while let Some((at, c)) = chars.next() {
        match (open, c) {
            ('"', '\\') => {
                chars.next();
            }
            ('\'', '\'') if chars.peek().is_some_and(|(_, next)| *next == '\'') => {
                chars.next();
            }
            ('[' | '{', '[' | '{') => depth = depth.saturating_add(1),
            ('"', '"') | ('\'', '\'') | ('[' | '{', ']' | '}') => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return Some(at.saturating_add(c.len_utf8()));
                }
            }
            ('"' | '\'' | '[' | '{', _) => {}
            _ => return None,
        }
    }
    None
}
