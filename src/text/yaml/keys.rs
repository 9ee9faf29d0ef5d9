//! The keys of mappings: strings, each of them once, each with a value.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use super::{TextPair, YamlData, YamlKey, YamlNode, offset, pair, parse};
use crate::text::excerpt::excerpt;
use crate::text::{Code, Diagnostic, Fix, Problems, SourceId, Span};

/// The keys of a mapping of many; few are compared one by one.
#[derive(Default)]
pub(super) struct SeenKeys(BTreeMap<Arc<str>, Span>);

impl SeenKeys {
    const FEW: usize = 16;

    /// Where a key that comes now came before.
    fn before(&mut self, name: &Arc<str>, span: Span, entries: &[(YamlKey, YamlNode)]) -> Option<Span> {
        // Most mappings have few keys, and comparing those costs less than hashing.
        if entries.len() < Self::FEW {
            return entries.iter().find(|(key, _)| key.name == *name).map(|(key, _)| key.span);
        }
        if self.0.is_empty() {
            self.0.extend(entries.iter().map(|(key, _)| (Arc::clone(&key.name), key.span)));
        }
        match self.0.entry(Arc::clone(name)) {
            Entry::Occupied(first) => Some(*first.get()),
            Entry::Vacant(place) => {
                place.insert(span);
                None
            }
        }
    }
}

pub(super) struct PendingKey {
    pub(super) key: YamlKey,
    /// It is a duplicate or no string: reported, its value is dropped.
    pub(super) dropped: bool,
}

/// A node used as a key.
pub(super) fn pending(
    node: YamlNode,
    blank: bool,
    (seen, entries): (&mut SeenKeys, &[(YamlKey, YamlNode)]),
    text: &str,
    problems: &mut Problems,
) -> PendingKey {
    let span = node.span;
    let name: Arc<str> = if let YamlData::Text(name) = node.data {
        name
    } else {
        let written = text.get(span.range()).unwrap_or_default();
        let what = if blank {
            "a key is missing here".into()
        } else {
            format!("keys are strings, not {}", node.describe())
        };
        let mut problem = Diagnostic::error(Code::KEY_TYPE, first_byte(span), what);
        // `{{ tool }}` without quotes is a mapping whose key is a mapping.
        if matches!(node.data, YamlData::Map(_))
            && text.get(..span.start as usize).is_some_and(|text| text.ends_with('{'))
        {
            problems.forget_within(span);
            problem = problem.help(format!("quote a text that begins with `{{{{`: `'{{{written}}}'`"));
        }
        let is_scalar = !blank && !matches!(node.data, YamlData::List(_) | YamlData::Map(_));
        if is_scalar {
            problem.span = span;
            problem = problem.fix(span, "quote the key", format!("\"{written}\""));
        }
        problems.push(problem);
        if !is_scalar {
            return PendingKey { key: YamlKey { name: written.into(), span }, dropped: true };
        }
        // Read on as if it were quoted.
        written.into()
    };
    // `<<` belongs to YAML 1.1; the core schema of 1.2 has no merge keys, and readers differ on them.
    if &*name == "<<" {
        let problem = Diagnostic::error(Code::MERGE_KEY, span, "merge keys (`<<`) are not supported");
        problems.push(problem.help(
            "write the fields out; an alias `*name` may stand for a whole value, and a pattern such as `get_*` for several tools",
        ));
        return PendingKey { key: YamlKey { name, span }, dropped: true };
    }
    // YAML 1.2.2, section 3.2.1.1: keys are unique. Readers that take the last one hide the first.
    let first = seen.before(&name, span, entries);
    if let Some(first) = first {
        let problem = Diagnostic::error(Code::DUPLICATE_KEY, span, format!("duplicate key `{name}`"));
        problems.push(problem.label("set again here").also(first, "first set here"));
    }
    PendingKey { key: YamlKey { name, span }, dropped: first.is_some() }
}

/// Says that a key has no value. `{key:value}` and `{key = value}` are read on as if they were written as such.
pub(super) fn no_value(
    key: YamlKey,
    entries: &[(YamlKey, YamlNode)],
    text: &str,
    problems: &mut Problems,
) -> (YamlKey, YamlNode) {
    let written = text.get(key.span.range()).filter(|written| **written == *key.name).unwrap_or_default();
    let new = |found: &TextPair| {
        let name = written.get(..found.key)?;
        entries.iter().all(|(other, _)| &*other.name != name).then_some(name)
    };
    let found =
        pair(written).and_then(|found| Some((new(&found)?, lone(written.get(found.value..)?)?, found)));
    let Some((name, data, found)) = found else {
        let problem = Diagnostic::error(Code::BLANK, key.span, format!("`{}` has no value", key.name));
        problems.push(problem.help("write a value, or remove the line"));
        let span = Span { start: key.span.end, ..key.span };
        return (key, YamlNode { span, data: YamlData::Reported });
    };
    let place = |at: usize| key.span.start.saturating_add(offset(at));
    let between = Span { start: place(found.key), end: place(found.value), ..key.span };
    let problem = Diagnostic::error(Code::BLANK, key.span, found.message(&excerpt(written, 60)));
    problems.push(problem.fix(between, found.title(), ": "));
    let node = YamlNode { span: Span { start: between.end, ..key.span }, data };
    (YamlKey { name: name.into(), span: Span { end: between.start, ..key.span } }, node)
}

/// A scalar alone, if it can be read as the value of a key.
fn lone(written: &str) -> Option<YamlData> {
    let mut problems = Problems::default();
    let node = parse(SourceId(0), &format!("[{written}]"), &mut problems)?;
    let YamlData::List(items) = node.data else { return None };
    let [item] = &*items else { return None };
    let is_whole = item.span.range() == (1..written.len().saturating_add(1));
    // A quote in the middle may belong to the text or end it.
    let plain = written.starts_with(['"', '\'']) || !written.contains(['"', '\'']);
    let scalar = !matches!(item.data, YamlData::List(_) | YamlData::Map(_));
    (is_whole && scalar && plain).then(|| item.data.clone())
}

/// Says what to do about a key that was there before: it goes if it says the same, with all of its lines.
pub(super) fn again(
    key: &YamlKey,
    node: &YamlNode,
    entries: &[(YamlKey, YamlNode)],
    text: &str,
    problems: &mut Problems,
) {
    let Some((_, first)) = entries.iter().find(|(other, _)| other.name == key.name) else { return };
    let of_key = |problem: &Diagnostic| problem.code == Code::DUPLICATE_KEY && problem.span == key.span;
    let Some(problem) = problems.recent(of_key) else { return };
    // The same again can be removed; of two values only the author knows which is meant.
    if first.to_json() != node.to_json() {
        let help = match (&first.data, &node.data) {
            (YamlData::Map(_), YamlData::Map(_)) => {
                format!("write the fields of both below one `{}`, or give one another name", key.name)
            }
            _ => "keep the one that is meant, and remove the other".to_owned(),
        };
        problem.help = vec![help];
        return;
    }
    problem.help = vec!["it says the same again: remove it".to_owned()];
    problem.fix = whole_entry(key, node, text).map(|span| Fix { span, title: None, text: String::new() });
}

/// An entry of a mapping with its lines, or with the comma before it; `None`: a comment would go with it.
fn whole_entry(key: &YamlKey, node: &YamlNode, text: &str) -> Option<Span> {
    let (start, end) = (key.span.start as usize, node.span.end.max(key.span.end) as usize);
    // A comment may say why the entry is there.
    if text.get(start..end)?.contains('#') {
        return None;
    }
    let before = text.get(..start)?;
    let line = before.rfind('\n').map_or(0, |at| at.saturating_add(1));
    let rest = text.get(end..)?;
    let until = rest.find('\n').map_or(rest.len(), |at| at.saturating_add(1));
    let alone = before.get(line..)?.trim().is_empty() && rest.get(..until)?.trim().is_empty();
    let (start, end) = match before.trim_end().strip_suffix(',') {
        _ if alone => (line, end.saturating_add(until)),
        Some(kept) => (kept.len(), end),
        None => return None,
    };
    Some(Span { start: offset(start), end: offset(end), ..key.span })
}

/// Where something begins.
pub(super) fn first_byte(span: Span) -> Span {
    Span { end: span.start.saturating_add(1).min(span.end), ..span }
}
