//! YAML text to a tree in which every node and every key keeps its place.
//!
//! Safe by construction: budgets on size, depth, nodes and text after alias expansion; linear time; no recursion
//! on the way in and shallow trees afterwards. Duplicate keys, merge keys, tags, several documents, blank values
//! and scalars that YAML readers disagree on are errors, never guesses. Knows nothing about policies.

mod flow;
mod kept;
mod slips;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use granit_parser::{ErrorKind, Event, Parser, ScalarStyle, ScanError};

use super::excerpt::excerpt;
use super::scalar::{self, Scalar};
use super::{Code, Diagnostic, Findings, Fix, SourceId, Sources, Span};

pub use kept::is_kept;
pub(super) use slips::{Pair, pair, readable};

/// What a file without anything in it is to begin with.
pub(super) const BEGIN: &str = "begin it with `version: 1`; `unfazed init` writes a first policy";
/// The largest file, in bytes.
const MAX_BYTES: usize = 4 << 20;
/// The deepest nesting.
const MAX_DEPTH: usize = 64;
/// The most nodes after alias expansion.
const MAX_NODES: usize = 500_000;
/// The most bytes of scalars after alias expansion.
const MAX_TEXT: usize = 16 << 20;
/// Anchors of a document; each is kept to its end.
const MAX_ANCHORS: usize = 10_000;

/// A value and its place. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Node {
    /// Where it is written.
    pub span: Span,
    /// What it is.
    pub data: Data,
}

/// What a node is.
#[derive(Clone, Debug)]
pub enum Data {
    /// `null`, written out.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number; its text is what the span covers.
    Number(serde_json::Number),
    /// A string.
    Text(Arc<str>),
    /// A list.
    List(Arc<[Node]>),
    /// A mapping, in the order of the text. No key is there twice.
    Map(Arc<[(Key, Node)]>),
    /// Something that has been reported already; to be passed over in silence.
    Reported,
}

/// A key of a mapping and its place.
#[derive(Clone, Debug)]
pub struct Key {
    /// The key.
    pub name: Arc<str>,
    /// Where it is written.
    pub span: Span,
}

/// Reads one document from bytes. `None`: the problems found make it useless.
pub fn load(
    sources: &mut Sources,
    findings: &mut Findings,
    name: &str,
    bytes: &[u8],
) -> (SourceId, Option<Node>) {
    if bytes.len() > MAX_BYTES {
        let id = sources.add(name, "");
        let message = format!("the file has {} bytes; the most allowed is {MAX_BYTES}", bytes.len());
        findings.push(Diagnostic::error(Code::TOO_LARGE, Span::new(id, 0, 0), message));
        return (id, None);
    }
    let text = match core::str::from_utf8(bytes) {
        Ok(text) => text.strip_prefix('\u{feff}').unwrap_or(text),
        Err(error) => {
            let id = sources.add(name, String::from_utf8_lossy(bytes));
            let at = offset(error.valid_up_to());
            findings.push(not_utf8(bytes, Span::new(id, at, at.saturating_add(3))));
            return (id, None);
        }
    };
    let id = sources.add(name, text);
    (id, parse(id, text, findings))
}

/// Reads the text of a source.
pub(crate) fn parse(source: SourceId, text: &str, findings: &mut Findings) -> Option<Node> {
    let mut builder = Builder::new(source, text, findings);
    // Deeper than our own limit by two, so that the error is ours and in our words.
    let options = granit_parser::options! {
        emit_comments: false,
        flow_nesting_limit: MAX_DEPTH + 2,
        block_nesting_limit: MAX_DEPTH + 2,
    };
    for event in Parser::new_from_str_with_options(text, options) {
        let step = match event {
            Ok((event, span)) => builder.event(event, span),
            Err(error) => {
                builder.syntax_error(&error);
                return None;
            }
        };
        match step {
            Step::Go => {}
            Step::Done => break,
            Step::GiveUp => return None,
        }
    }
    let root = builder.finish();
    if let Some(root) = &root {
        flow::check(root, text, findings);
    }
    root
}

impl Node {
    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&Self> {
        match &self.data {
            Data::Map(entries) => entries.iter().find(|(k, _)| &*k.name == key).map(|(_, node)| node),
            _ => None,
        }
    }

    /// As JSON. Bounded by the budgets of loading.
    pub fn to_json(&self) -> serde_json::Value {
        use serde_json::Value;
        match &self.data {
            Data::Null | Data::Reported => Value::Null,
            Data::Bool(value) => Value::Bool(*value),
            Data::Number(number) => Value::Number(number.clone()),
            Data::Text(text) => Value::String(text.to_string()),
            Data::List(items) => Value::Array(items.iter().map(Self::to_json).collect()),
            Data::Map(entries) => Value::Object(
                entries.iter().map(|(key, node)| (key.name.to_string(), node.to_json())).collect(),
            ),
        }
    }

    /// What it is, for error messages: `string "7"`, `a list`.
    pub fn describe(&self) -> String {
        match &self.data {
            Data::Null => "null".into(),
            Data::Bool(value) => format!("boolean `{value}`"),
            Data::Number(number) => format!("number `{number}`"),
            Data::Text(text) => format!("string \"{}\"", excerpt(text, 40)),
            Data::List(_) => "a list".into(),
            Data::Map(_) => "a mapping".into(),
            Data::Reported => "nothing".into(),
        }
    }
}

/// What an alias adds when it is expanded.
#[derive(Clone, Copy, Default)]
struct Size {
    nodes: usize,
    text: usize,
}

struct Anchor {
    node: Node,
    size: Size,
    depth: usize,
}

/// A collection that is still open.
struct Frame {
    kind: Kind,
    start: Span,
    anchor: usize,
    before: Size,
    depth: usize,
}

enum Kind {
    List(Vec<Node>),
    Map { entries: Vec<(Key, Node)>, seen: Seen, key: Option<PendingKey> },
}

/// The keys of a mapping of many; few are compared one by one.
#[derive(Default)]
struct Seen(HashMap<Arc<str>, Span>);

impl Seen {
    const FEW: usize = 16;

    /// Where a key that comes now came before.
    fn before(&mut self, name: &Arc<str>, span: Span, entries: &[(Key, Node)]) -> Option<Span> {
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

struct PendingKey {
    key: Key,
    /// It is a duplicate or no string: reported, its value is dropped.
    dropped: bool,
}

enum Step {
    Go,
    Done,
    GiveUp,
}

struct Builder<'a> {
    source: SourceId,
    text: &'a str,
    findings: &'a mut Findings,
    stack: Vec<Frame>,
    anchors: HashMap<usize, Anchor>,
    root: Option<Node>,
    size: Size,
    documents: usize,
}

/// A node that is complete, and whether it is a plain scalar without text.
struct Complete {
    node: Node,
    blank: bool,
    depth: usize,
}

impl<'a> Builder<'a> {
    fn new(source: SourceId, text: &'a str, findings: &'a mut Findings) -> Self {
        Self {
            source,
            text,
            findings,
            stack: Vec::new(),
            anchors: HashMap::new(),
            root: None,
            size: Size::default(),
            documents: 0,
        }
    }

    fn event(&mut self, event: Event<'_>, at: granit_parser::Span) -> Step {
        let span = self.span(&at);
        let complete = match event {
            Event::DocumentStart(..) => return self.document(span),
            Event::SequenceStart(_, anchor, tag) => {
                self.reject_tag(tag.is_some(), &at, span);
                return self.open(Kind::List(Vec::new()), span, anchor);
            }
            Event::MappingStart(_, anchor, tag) => {
                self.reject_tag(tag.is_some(), &at, span);
                let kind = Kind::Map { entries: Vec::new(), seen: Seen::default(), key: None };
                return self.open(kind, span, anchor);
            }
            Event::SequenceEnd | Event::MappingEnd => match self.close(span) {
                Some(complete) => complete,
                None => return Step::GiveUp,
            },
            Event::Scalar(text, style, anchor, tag) => {
                self.reject_tag(tag.is_some(), &at, span);
                if anchor > 0 && style == ScalarStyle::Plain {
                    self.reject_entity(span);
                }
                self.scalar(&text, style, span, anchor)
            }
            Event::Alias(anchor) => match self.alias(anchor, span) {
                Some(complete) => complete,
                None => return Step::GiveUp,
            },
            _ => return Step::Go,
        };
        self.size.nodes = self.size.nodes.saturating_add(1);
        if self.size.nodes > MAX_NODES || self.size.text > MAX_TEXT {
            return self.too_large(
                span,
                format!("more than {MAX_NODES} values or {MAX_TEXT} bytes of text after expanding aliases"),
            );
        }
        if self.anchors.len() > MAX_ANCHORS {
            return self.too_large(span, format!("more than {MAX_ANCHORS} anchors"));
        }
        self.attach(complete);
        Step::Go
    }

    fn document(&mut self, span: Span) -> Step {
        self.documents = self.documents.saturating_add(1);
        if self.documents < 2 {
            return Step::Go;
        }
        let message = "a second document starts here; the file must hold exactly one";
        self.findings.push(
            Diagnostic::error(Code::SEVERAL_DOCUMENTS, span, message).help("move it to a file of its own"),
        );
        Step::Done
    }

    fn open(&mut self, kind: Kind, start: Span, anchor: usize) -> Step {
        if self.stack.len() >= MAX_DEPTH {
            return self.too_deep(start);
        }
        self.stack.push(Frame { kind, start, anchor, before: self.size, depth: 0 });
        Step::Go
    }

    fn close(&mut self, end: Span) -> Option<Complete> {
        let frame = self.stack.pop()?;
        let (data, last) = match frame.kind {
            Kind::List(items) => {
                let last = items.last().map(|node| node.span.end);
                (Data::List(items.into()), last)
            }
            Kind::Map { entries, .. } => {
                let last = entries.last().map(|(_, node)| node.span.end);
                (Data::Map(entries.into()), last)
            }
        };
        // A block collection has no end of its own: it ends with its last value.
        let end = if end.end > end.start { end.end } else { last.unwrap_or(end.end) };
        let node = Node { span: Span::new(self.source, frame.start.start, end.max(frame.start.start)), data };
        let depth = frame.depth.saturating_add(1);
        let size = Size {
            nodes: self.size.nodes.saturating_sub(frame.before.nodes),
            text: self.size.text.saturating_sub(frame.before.text),
        };
        self.remember(frame.anchor, &node, size, depth);
        Some(Complete { node, blank: false, depth })
    }

    fn scalar(&mut self, text: &str, style: ScalarStyle, span: Span, anchor: usize) -> Complete {
        self.size.text = self.size.text.saturating_add(text.len());
        let plain = style == ScalarStyle::Plain;
        // The parser gives the value of nothing as `~`, at a place of no width.
        let blank = plain && span.start == span.end;
        let is_key = matches!(self.stack.last(), Some(Frame { kind: Kind::Map { key: None, .. }, .. }));
        let data = if !plain {
            Data::Text(text.into())
        } else if is_key {
            // Whether a key is a string is decided when it is used as one.
            scalar::read(text).map_or_else(|_| Data::Text(text.into()), Scalar::into_data)
        } else {
            match scalar::read(text) {
                Ok(scalar) => scalar.into_data(),
                Err(problem) => {
                    self.findings.push(problem.into_diagnostic(text, span));
                    Data::Reported
                }
            }
        };
        let node = Node { span, data };
        self.remember(anchor, &node, Size { nodes: 0, text: text.len() }, 0);
        Complete { node, blank, depth: 0 }
    }

    /// A text such as `&amp; gone` begins with an anchor, which is no part of it: nobody writes one that ends with `;`.
    fn reject_entity(&mut self, value: Span) {
        let before = self.text.get(..value.start as usize).unwrap_or_default();
        let Some(at) =
            before.rfind('&').filter(|at| before.get(*at..).unwrap_or_default().trim_end().ends_with(';'))
        else {
            return;
        };
        let span = Span { start: offset(at), ..value };
        let written = self.text.get(span.range()).unwrap_or_default();
        let message = format!(
            "`{}` begins an anchor, which is no part of the text",
            written.split(' ').next().unwrap_or_default()
        );
        let problem = Diagnostic::error(Code::SYNTAX, span, message);
        self.findings.push(problem.fix(span, "quote it", slips::quoted(written)));
    }

    fn alias(&mut self, anchor: usize, span: Span) -> Option<Complete> {
        let Some(found) = self.anchors.get(&anchor) else {
            let message = "this alias is inside the value it refers to";
            self.findings.push(Diagnostic::error(Code::SYNTAX, span, message));
            return None;
        };
        let (node, depth, size) = (found.node.clone(), found.depth, found.size);
        self.size.nodes = self.size.nodes.saturating_add(size.nodes);
        self.size.text = self.size.text.saturating_add(size.text);
        if self.stack.len().saturating_add(depth) > MAX_DEPTH {
            self.too_deep(span);
            return None;
        }
        Some(Complete { node, blank: false, depth })
    }

    fn remember(&mut self, anchor: usize, node: &Node, size: Size, depth: usize) {
        if anchor > 0 {
            self.anchors.insert(anchor, Anchor { node: node.clone(), size, depth });
        }
    }

    /// Puts a complete node where it belongs.
    fn attach(&mut self, complete: Complete) {
        let Complete { mut node, blank, depth } = complete;
        let findings = &mut *self.findings;
        match self.stack.last_mut() {
            None => {
                if !blank {
                    self.root = Some(node);
                }
            }
            Some(frame) => {
                frame.depth = frame.depth.max(depth);
                match &mut frame.kind {
                    Kind::List(items) => {
                        if blank {
                            let problem =
                                Diagnostic::error(Code::BLANK, node.span, "this list entry is empty");
                            findings.push(problem.help("write a value, or remove the line"));
                            node.data = Data::Reported;
                        }
                        items.push(node);
                    }
                    Kind::Map { entries, seen, key } => match key.take() {
                        None => *key = Some(pending(node, blank, (seen, entries), self.text, findings)),
                        Some(PendingKey { dropped: true, key }) => {
                            again(&key, &node, entries, self.text, findings);
                        }
                        Some(PendingKey { key, .. }) if blank => {
                            let entry = no_value(key, entries, self.text, findings);
                            entries.push(entry);
                        }
                        Some(PendingKey { key, .. }) => entries.push((key, node)),
                    },
                }
            }
        }
    }

    fn finish(self) -> Option<Node> {
        if self.root.is_none() && !self.findings.has_errors() {
            let span = Span::new(self.source, 0, 0);
            let problem = Diagnostic::error(Code::MISSING_FIELD, span, "the file is empty");
            self.findings.push(problem.help(BEGIN));
        }
        self.root
    }

    fn span(&self, at: &granit_parser::Span) -> Span {
        let range = at.byte_range().unwrap_or(0..0);
        let end = range.end.min(self.text.len());
        // Block scalars and the ends of blocks run into the blank space that follows.
        let text = self.text.get(range.start..end).unwrap_or_default();
        let end = range.start.saturating_add(text.trim_end().len());
        Span::new(self.source, offset(range.start), offset(end))
    }

    fn reject_tag(&mut self, tagged: bool, at: &granit_parser::Span, span: Span) {
        if tagged {
            let tag = at.tag_span().map_or(span, |tag| self.span(&tag));
            let problem = Diagnostic::error(Code::TAG, tag, "YAML tags are not used here");
            self.findings.push(problem.help("remove the tag; the type follows from the field"));
        }
    }

    fn too_deep(&mut self, span: Span) -> Step {
        let message = format!("nested deeper than {MAX_DEPTH} levels");
        self.findings.push(Diagnostic::error(Code::TOO_DEEP, first_byte(span), message));
        Step::GiveUp
    }

    fn too_large(&mut self, span: Span, message: String) -> Step {
        self.findings.push(Diagnostic::error(Code::TOO_LARGE, first_byte(span), message));
        Step::GiveUp
    }

    /// Says what is wrong with a text that cannot be read on.
    fn syntax_error(&mut self, error: &ScanError) {
        let at = error.marker().byte_offset().unwrap_or(self.text.len()).min(self.text.len());
        let rest = self.text.get(at..).unwrap_or_default();
        let width = rest.chars().next().filter(|c| *c != '\n').map_or(0, char::len_utf8);
        let span = Span::new(self.source, offset(at), offset(at.saturating_add(width)));
        let mut problem = match error.kind() {
            ErrorKind::RecursionLimitExceeded => {
                self.too_deep(span);
                return;
            }
            ErrorKind::UnknownAnchor => {
                if let Some(slip) = slips::pattern(self.text, at).or_else(|| slips::emphasis(self.text, at)) {
                    self.findings.push(self.slip(slip));
                    return;
                }
                let message = "no anchor `&` of this name stands before this alias";
                self.findings.push(Diagnostic::error(Code::SYNTAX, span, message));
                return;
            }
            _ => match slips::find(self.text, at, error.kind()) {
                Some(mut slip) => {
                    let fix = |repair: slips::Repair| {
                        let (at, title) = (repair.at, Some(repair.title.to_owned()));
                        Fix {
                            span: Span::new(self.source, offset(at.start), offset(at.end)),
                            title,
                            text: repair.text,
                        }
                    };
                    let readings: Vec<Fix> = core::mem::take(&mut slip.or).into_iter().map(fix).collect();
                    self.findings.may_be_read(readings);
                    let problem = self.slip(slip);
                    // What was read of it was read wrong.
                    self.findings.forget_within(problem.span);
                    self.findings.push(problem);
                    return;
                }
                None => Diagnostic::error(Code::SYNTAX, span, slips::words(error.kind(), &error.info())),
            },
        };
        if let Some(Frame { kind: Kind::Map { entries, .. }, .. }) = self.stack.last()
            && let Some((key, _)) = entries.last()
        {
            problem = problem.also(key.span, "in the mapping of this key");
        }
        self.findings.push(problem);
    }

    fn slip(&self, slip: slips::Slip) -> Diagnostic {
        let span = |at: core::ops::Range<usize>| Span::new(self.source, offset(at.start), offset(at.end));
        let mut problem = Diagnostic::error(Code::SYNTAX, span(slip.at), slip.message);
        problem.help = slip.help;
        if let Some((at, label)) = slip.also {
            problem = problem.also(span(at), label);
        }
        match slip.repair {
            Some(repair) => problem.fix(span(repair.at), repair.title, repair.text),
            None => problem,
        }
    }
}

/// A node used as a key.
fn pending(
    node: Node,
    blank: bool,
    (seen, entries): (&mut Seen, &[(Key, Node)]),
    text: &str,
    findings: &mut Findings,
) -> PendingKey {
    let span = node.span;
    let name: Arc<str> = if let Data::Text(name) = node.data {
        name
    } else {
        let written = text.get(span.range()).unwrap_or_default();
        let what = if blank {
            "a key is missing here".into()
        } else {
            format!("keys are strings, not {}", node.describe())
        };
        let mut problem = Diagnostic::error(Code::KEY_TYPE, first_byte(span), what);
        if matches!(node.data, Data::Map(_))
            && text.get(..span.start as usize).is_some_and(|text| text.ends_with('{'))
        {
            findings.forget_within(span);
            problem = problem.help(format!("quote a text that begins with `{{{{`: `'{{{written}}}'`"));
        }
        let is_scalar = !blank && !matches!(node.data, Data::List(_) | Data::Map(_));
        if is_scalar {
            problem.span = span;
            problem = problem.fix(span, "quote the key", format!("\"{written}\""));
        }
        findings.push(problem);
        if !is_scalar {
            return PendingKey { key: Key { name: written.into(), span }, dropped: true };
        }
        // Read on as if it were quoted.
        written.into()
    };
    if &*name == "<<" {
        let problem = Diagnostic::error(Code::MERGE_KEY, span, "merge keys (`<<`) are not supported");
        findings.push(problem.help(
            "write the fields out; an alias `*name` may stand for a whole value, and a pattern such as `get_*` for several tools",
        ));
        return PendingKey { key: Key { name, span }, dropped: true };
    }
    let first = seen.before(&name, span, entries);
    if let Some(first) = first {
        let problem = Diagnostic::error(Code::DUPLICATE_KEY, span, format!("duplicate key `{name}`"));
        findings.push(problem.label("set again here").also(first, "first set here"));
    }
    PendingKey { key: Key { name, span }, dropped: first.is_some() }
}

/// Says that a key has no value. `{key:value}` and `{key = value}` are read on as if they were written as such.
fn no_value(key: Key, entries: &[(Key, Node)], text: &str, findings: &mut Findings) -> (Key, Node) {
    let written = text.get(key.span.range()).filter(|written| **written == *key.name).unwrap_or_default();
    let new = |found: &Pair| {
        let name = written.get(..found.key)?;
        entries.iter().all(|(other, _)| &*other.name != name).then_some(name)
    };
    let found =
        pair(written).and_then(|found| Some((new(&found)?, lone(written.get(found.value..)?)?, found)));
    let Some((name, data, found)) = found else {
        let problem = Diagnostic::error(Code::BLANK, key.span, format!("`{}` has no value", key.name));
        findings.push(problem.help("write a value, or remove the line"));
        let span = Span { start: key.span.end, ..key.span };
        return (key, Node { span, data: Data::Reported });
    };
    let place = |at: usize| key.span.start.saturating_add(offset(at));
    let between = Span { start: place(found.key), end: place(found.value), ..key.span };
    let problem = Diagnostic::error(Code::BLANK, key.span, found.message(&excerpt(written, 60)));
    findings.push(problem.fix(between, found.title(), ": "));
    let node = Node { span: Span { start: between.end, ..key.span }, data };
    (Key { name: name.into(), span: Span { end: between.start, ..key.span } }, node)
}

/// A scalar that stands by itself, if it can be read as the value of a key.
fn lone(written: &str) -> Option<Data> {
    let mut findings = Findings::default();
    let node = parse(SourceId(0), &format!("[{written}]"), &mut findings)?;
    let Data::List(items) = node.data else { return None };
    let [item] = &*items else { return None };
    let is_whole = item.span.range() == (1..written.len().saturating_add(1));
    let plain = written.starts_with(['"', '\'']) || !written.contains(['"', '\'']);
    let scalar = !matches!(item.data, Data::List(_) | Data::Map(_));
    (is_whole && scalar && plain).then(|| item.data.clone())
}

/// Says what to do about a key that was there before: it goes if it says the same, with all of its lines.
fn again(key: &Key, node: &Node, entries: &[(Key, Node)], text: &str, findings: &mut Findings) {
    let Some((_, first)) = entries.iter().find(|(other, _)| other.name == key.name) else { return };
    let of_key = |problem: &Diagnostic| problem.code == Code::DUPLICATE_KEY && problem.span == key.span;
    let Some(problem) = findings.recent(of_key) else { return };
    if first.to_json() != node.to_json() {
        let help = match (&first.data, &node.data) {
            (Data::Map(_), Data::Map(_)) => {
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
fn whole_entry(key: &Key, node: &Node, text: &str) -> Option<Span> {
    let (start, end) = (key.span.start as usize, node.span.end.max(key.span.end) as usize);
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

fn not_utf8(bytes: &[u8], span: Span) -> Diagnostic {
    let problem = Diagnostic::error(Code::ENCODING, span, "the file is not UTF-8 text");
    match bytes {
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => problem.help("it looks like UTF-16; save it as UTF-8"),
        _ => problem.label("these bytes are not UTF-8"),
    }
}

fn first_byte(span: Span) -> Span {
    Span { end: span.start.saturating_add(1).min(span.end), ..span }
}

fn offset(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}
