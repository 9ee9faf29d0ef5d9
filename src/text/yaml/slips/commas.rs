//! Commas between the entries of `{…}` and `[…]`: missing, doubled, or written as `;`.

use core::ops::Range;

use super::{TextLine, TextRepair, YamlSlip, brackets, helps, is_key};

/// What is wrong with the commas where the reader stumbled.
pub(super) fn find(text: &str, lines: &[TextLine<'_>], here: usize, at: usize) -> Option<YamlSlip> {
    let (bracket, open) = brackets::around(text, at)?;
    doubled(text, at)
        .or_else(|| behind_value(text, at, bracket))
        .or_else(|| Some(bracket).filter(|bracket| *bracket == '{').and_then(|_| semicolons(text, at, open)))
        .or_else(|| at_line_end(text, lines, here, at, bracket))
        .or_else(|| within_value(text, at, bracket))
}

/// A comma without an entry before it.
fn doubled(text: &str, at: usize) -> Option<YamlSlip> {
    let (before, rest) = (text.get(..at)?, text.get(at..)?);
    let place = at.saturating_add(rest.len().saturating_sub(rest.trim_start().len()));
    let whole = place..place.saturating_add(1);
    if text.get(whole.clone())? != "," || !before.trim_end().ends_with([',', '{', '[']) {
        return None;
    }
    let repair = TextRepair { at: whole.clone(), title: "remove it", text: String::new() };
    let message = "there is no entry before this `,`".to_owned();
    Some(slip(text, whole, message, repair, "remove it"))
}

/// A value in quotes or brackets with the next entry right behind it.
fn behind_value(text: &str, at: usize, bracket: char) -> Option<YamlSlip> {
    let before = text.get(..at)?.trim_end();
    let next = text.get(before.len()..)?.trim_start();
    if !before.ends_with(['"', '\'', '}', ']']) {
        return None;
    }
    let name = match bracket {
        '{' => key_of(next)?,
        // In a list the next entry shows by its quote or bracket.
        _ if next.starts_with(['"', '\'', '{', '[']) => next.get(..1)?,
        _ => return None,
    };
    Some(missing(text, before.len(), name, text.len().saturating_sub(next.len())))
}

/// A value that another key follows on the next line, as the lines of a block would stand.
fn at_line_end(
    text: &str,
    lines: &[TextLine<'_>],
    here: usize,
    at: usize,
    bracket: char,
) -> Option<YamlSlip> {
    let line = lines.get(here)?;
    let name = key_of(line.content()).filter(|_| bracket == '{')?;
    let colon = line.start.saturating_add(line.indent()).saturating_add(name.len());
    let above = lines.get(..here)?.iter().rev().find(|line| !line.is_blank())?;
    let opens = above.said().ends_with([',', '{', '[', ':']);
    (at == colon && !opens)
        .then(|| missing(text, above.start.saturating_add(above.said().len()), name, line.start))
}

/// A plain value that holds the next key, whose value is in quotes or brackets.
fn within_value(text: &str, at: usize, bracket: char) -> Option<YamlSlip> {
    let next = text.get(at..)?.strip_prefix(": ")?.trim_start();
    let before = text.get(..at)?;
    let entry = before.get(before.rfind(['{', ',', '\n'])?.saturating_add(1)..)?;
    let (_, value) = entry.split_once(": ").filter(|_| bracket == '{')?;
    let (value, name) = value.trim_start().rsplit_once(' ')?;
    let certain =
        next.starts_with(['"', '\'', '{', '[']) && !value.contains(['"', '\'', ':']) && is_key(name);
    let end = at.saturating_sub(name.len());
    certain.then(|| missing(text, text.get(..end).unwrap_or_default().trim_end().len(), name, end))
}

/// Entries with `;` between them.
fn semicolons(text: &str, at: usize, open: usize) -> Option<YamlSlip> {
    let end = at.saturating_add(text.get(at..)?.find(['}', '\n'])?);
    let start = open.saturating_add(1);
    let inner = text.get(start..end)?;
    let separates = |place: &usize| {
        inner.get(place.saturating_add(1)..).and_then(|rest| key_of(rest.trim_start())).is_some()
    };
    let places: Vec<usize> = inner.match_indices(';').map(|(place, _)| place).filter(separates).collect();
    let first = *places.first()?;
    let place = |at: usize| start.saturating_add(at);
    if place(first) >= at {
        return None;
    }
    // Whether what follows are entries is known by their names only, so they are a part of the repair.
    let comma = |(number, c)| if places.contains(&number) { ',' } else { c };
    let written = inner.char_indices().filter(|(number, _)| *number >= first).map(comma).collect();
    let repair = TextRepair { at: place(first)..end, title: "write `,`", text: written };
    let message = "a `;` separates no entries of `{…}`".to_owned();
    let mut slip = slip(
        text,
        place(first)..place(first).saturating_add(1),
        message,
        repair,
        "write `,` between entries",
    );
    slip.help = vec!["write `,` between entries, or quote the text that holds it".to_owned()];
    // With a quote or a comment in it, it may be a text that lacks its quotes.
    slip.repair = slip.repair.filter(|_| !inner.contains(['"', '\'', '#']));
    Some(slip)
}

/// A comma is missing at the end of what comes before `name`.
fn missing(text: &str, end: usize, name: &str, start: usize) -> YamlSlip {
    let begins = text.get(start..).map_or(0, |rest| rest.len().saturating_sub(rest.trim_start().len()));
    let start = start.saturating_add(begins);
    let whole = start..start.saturating_add(name.len());
    // Whether it is an entry is known by its name only, so the name is a part of the repair.
    let written = format!(",{}", text.get(end..whole.end).unwrap_or_default());
    let repair = TextRepair { at: end..whole.end, title: "write a comma", text: written };
    let message = format!("a `,` is missing before `{name}`");
    let line_ends = text.get(end..whole.start).is_some_and(|between| between.contains('\n'));
    let mut slip = slip(text, whole, message, repair, "write a comma between entries");
    if line_ends && slip.repair.is_some() {
        slip.help = vec!["write it at the end of the line before".to_owned()];
    }
    slip
}

fn slip(text: &str, at: Range<usize>, message: String, repair: TextRepair, help: &str) -> YamlSlip {
    let repair = Some(repair).filter(|repair| helps(text, repair));
    let help = if repair.is_some() { Vec::new() } else { vec![help.to_owned()] };
    YamlSlip { at, message, help, repair, ..YamlSlip::default() }
}

/// The key that a text begins with.
fn key_of(text: &str) -> Option<&str> {
    let (name, rest) = text.split_once(':')?;
    let ends = rest.is_empty() || rest.starts_with([' ', '\n', '\r', '"', '\'', '{', '[']);
    (ends && !name.is_empty() && is_key(name)).then_some(name)
}
