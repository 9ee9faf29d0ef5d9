//! Values that end before their line does: `{{ turn }} is last`, `"a" b`, `| text`.

use super::{LINES_BEFORE, Line, Repair, Slip, helps, quoted};

/// The value of a line whose quote or bracket closes before more text; of a line before that one, only with a repair: what
/// follows may begin a quote, which ends elsewhere.
pub(super) fn find(text: &str, lines: &[Line<'_>], here: usize) -> Option<Slip> {
    let before = || lines.get(..here).into_iter().flatten().rev().take(LINES_BEFORE);
    of_line(text, lines.get(here)?)
        .or_else(|| before().filter_map(|line| of_line(text, line)).find(|slip| slip.repair.is_some()))
}

fn of_line(text: &str, line: &Line<'_>) -> Option<Slip> {
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
        ('\'', Some(inner)) => Some(quoted(inner)),
        _ => None,
    };
    let repair = meant.map(|text| Repair { at: whole.clone(), title: "quote it", text });
    let repair = repair.filter(|repair| helps(text, repair));
    let help = match (&repair, first) {
        (Some(_), _) => Vec::new(),
        (None, '"' | '\'') => vec![format!("quote all of it, `{}`, or none", quoted(value))],
        (None, _) => vec!["quote it if it is a text, or move what follows".to_owned()],
    };
    Some(Slip { at: whole, message, help, repair, ..Slip::default() })
}

/// A sign of a text on the lines below, with a text beside it.
fn block(sign: char, value: &str, at: core::ops::Range<usize>) -> Option<Slip> {
    let beside = value.get(1..)?.trim_start_matches(['+', '-', '1', '2', '3', '4', '5', '6', '7', '8', '9']);
    (!beside.trim().is_empty()).then(|| Slip {
        at,
        message: format!("`{sign}` begins a text on the lines below, and nothing may follow it on its line"),
        help: vec![
            "write the text on the next line, indented; or quote it if it begins with that sign".to_owned(),
        ],
        ..Slip::default()
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
