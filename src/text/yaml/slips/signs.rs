//! Signs that mean something to YAML, and are meant as a part of a name or a text: `*_get:`, `@x`, `` `x` ``, `%x`.

use granit_parser::ErrorKind;

use super::{LONGEST, TextLine, TextRepair, YamlSlip, brackets, continued, helps, quoted};

/// Signs that may be next to a name in `{…}`, and in no name.
const FLOW: [char; 7] = ['{', '}', '[', ']', ',', '"', '\''];

/// A key such as `*` or `*_get` that is not quoted: a pattern, of which the reader made an alias. `at`: where the `*` is.
pub(in crate::text::yaml) fn pattern(text: &str, at: usize) -> Option<YamlSlip> {
    let rest = text.get(at..).filter(|rest| rest.starts_with('*') && text.len() <= LONGEST)?;
    if !begins_key(text.get(..at)?) {
        return None;
    }
    let line = rest.lines().next()?;
    let ends = |(colon, _): &(usize, &str)| {
        let after = line.get(colon.saturating_add(1)..).and_then(|rest| rest.chars().next());
        after.is_none_or(|c| matches!(c, ' ' | '\t' | '{' | '[' | '"' | '\''))
    };
    let (colon, _) = line.match_indices(':').find(ends)?;
    let name = line.get(..colon)?;
    if name.contains(FLOW) || name.contains([' ', '\t', '#']) {
        return None;
    }
    let whole = at..at.saturating_add(name.len());
    let repair = TextRepair { at: whole.clone(), title: "quote it", text: format!("'{name}'") };
    // With such an anchor in the text it may be an alias that stands for the key.
    let anchor = format!("&{}", name.get(1..)?);
    let repair = Some(repair).filter(|repair| !has_anchor(text, &anchor) && helps(text, repair));
    let help = if repair.is_some() { Vec::new() } else { vec!["quote a name with `*`".to_owned()] };
    let message = "`*` begins an alias unless it is quoted".to_owned();
    Some(YamlSlip { at: whole, message, help, repair, ..YamlSlip::default() })
}

/// A value such as `*bold* text`, of which the reader made an alias.
pub(in crate::text::yaml) fn emphasis(text: &str, at: usize) -> Option<YamlSlip> {
    if text.len() > LONGEST || !text.get(at..)?.starts_with('*') {
        return None;
    }
    let lines = super::lines(text);
    let here = lines.iter().rposition(|line| line.start <= at)?;
    let slip = of_value(text, &lines, here, at, '*')?;
    // An alias is one word, and may only have lost its anchor.
    let value = text.get(slip.at.clone())?;
    let is_text = value.get(1..)?.contains(|c: char| c.is_whitespace() || matches!(c, '*' | '.' | '!' | '?'));
    is_text.then_some(slip)
}

/// Whether a key may begin behind that text: on a line of its own, behind a dash, or in `{…}`.
fn begins_key(before: &str) -> bool {
    let line = before.rsplit('\n').next().unwrap_or_default();
    line.trim_start_matches([' ', '-']).is_empty() || before.trim_end().ends_with(['{', ','])
}

fn has_anchor(text: &str, anchor: &str) -> bool {
    let ends =
        |rest: &str| rest.chars().next().is_none_or(|c| c.is_whitespace() || FLOW.contains(&c) || c == ':');
    text.match_indices(anchor).any(|(at, _)| text.get(at.saturating_add(anchor.len())..).is_some_and(ends))
}

/// A value that begins with a sign which means something to YAML.
pub(super) fn find(
    text: &str,
    lines: &[TextLine<'_>],
    here: usize,
    at: usize,
    kind: &ErrorKind,
) -> Option<YamlSlip> {
    if !matches!(kind, ErrorKind::UnexpectedCharacter { .. }) {
        return None;
    }
    // YAML 1.2.2, section 5.3: `@` and the backtick are reserved, and `%` begins a directive.
    let sign = text.get(at..)?.chars().next().filter(|c| matches!(c, '@' | '`' | '%'))?;
    of_value(text, lines, here, at, sign)
}

fn of_value(text: &str, lines: &[TextLine<'_>], here: usize, at: usize, sign: char) -> Option<YamlSlip> {
    let end = match brackets::around(text, at) {
        Some((bracket, _)) => end_within(text, at, bracket),
        None => end_of(text, lines, here),
    };
    let whole = at..end
        .unwrap_or_else(|| lines.get(here).map_or(at, |line| line.start.saturating_add(line.said().len())));
    let value = text.get(whole.clone())?;
    let repair = TextRepair { at: whole.clone(), title: "quote it", text: quoted(value) };
    let repair = Some(repair).filter(|repair| end.is_some() && helps(text, repair));
    let help = if repair.is_some() { Vec::new() } else { vec!["quote all of the text".to_owned()] };
    let message = format!("no value begins with `{sign}` unless it is quoted");
    Some(YamlSlip { at: whole, message, help, repair, ..YamlSlip::default() })
}

/// Where a text ends that begins on that line: with the last of the lines below that are indented more. `None`: what belongs
/// to it is uncertain, as they hold a key or a comment.
pub(super) fn end_of(text: &str, lines: &[TextLine<'_>], here: usize) -> Option<usize> {
    let first = lines.get(here)?;
    let below = continued(lines, here);
    let last = below.last().copied().unwrap_or(*first);
    let end = last.start.saturating_add(last.said().len());
    if below.is_empty() {
        return Some(end);
    }
    let lines = text.get(first.start..last.end())?.lines();
    let keys = |line: &&TextLine<'_>| line.said().contains(": ") || line.said().ends_with(':');
    (!lines.map(super::comment).any(|comment| !comment.is_empty()) && !below.iter().any(|line| keys(&line)))
        .then_some(end)
}

/// Where a text ends that begins in `{…}` or `[…]`: before the `,` or the bracket. `None`: that may belong to it.
fn end_within(text: &str, at: usize, bracket: char) -> Option<usize> {
    let rest = text.get(at..)?;
    let length = rest.find(['\n', ',', '{', '}', '[', ']', '#', '"'])?;
    let said = rest.get(..length)?;
    let after = rest.get(length..)?;
    let certain = match after.chars().next()? {
        '}' | ']' => true,
        // In a list whatever follows is an entry; in a mapping only what has a key is.
        ',' => bracket == '[' || begins_entry(after.get(1..)?),
        _ => false,
    };
    (certain && !said.contains(": ")).then(|| at.saturating_add(said.trim_end().len()))
}

/// Whether a key with a colon begins there.
fn begins_entry(rest: &str) -> bool {
    let rest = rest.trim_start();
    let end = rest.find([',', '{', '}', '[', ']', '\n']).unwrap_or(rest.len());
    let entry = rest.get(..end).unwrap_or_default();
    entry.split_once(':').is_some_and(|(key, after)| {
        let blank = after.is_empty() || after.starts_with([' ', '"', '\'']);
        blank && !key.is_empty() && !key.contains([' ', '#'])
    })
}
