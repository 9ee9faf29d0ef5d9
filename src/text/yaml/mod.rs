//! YAML text to a tree in which every node and every key keeps its place.
//!
//! Safe by construction: budgets on size, depth, nodes and text after alias expansion; linear time; no recursion
//! on the way in and shallow trees afterwards. Duplicate keys, merge keys, tags, several documents, blank values
//! and scalars that YAML readers disagree on are errors, never guesses. Knows nothing about policies.

mod flow;
mod kept;
mod keys;
mod node;
mod slips;

use std::collections::BTreeMap;

use granit_parser::{ErrorKind, Event, Parser, ScalarStyle, ScanError};

use super::scalar;
use super::{Code, Diagnostic, Fix, Problems, SourceId, Sources, Span};

pub use kept::is_kept;
use keys::{PendingKey, SeenKeys, again, first_byte, no_value, pending};
pub use node::{YamlData, YamlKey, YamlNode};
pub(crate) use slips::{TextPair, pair, readable};

/// What a file without anything in it is to begin with.
pub(crate) const BEGIN: &str = "begin it with `version: 1`; `unfazed init` writes a first policy";
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

/// Reads one document from bytes. `None`: the problems found make it useless.
pub fn load(
    sources: &mut Sources,
    problems: &mut Problems,
    name: &str,
    bytes: &[u8],
) -> (SourceId, Option<YamlNode>) {
    // Refused before anything is made of it, so a file of gigabytes costs no more than reading it.
    if bytes.len() > MAX_BYTES {
        let id = sources.add(name, "");
        let message = format!("the file has {} bytes; the most allowed is {MAX_BYTES}", bytes.len());
        problems.push(Diagnostic::error(Code::TOO_LARGE, Span::new(id, 0, 0), message));
        return (id, None);
    }
    let text = match core::str::from_utf8(bytes) {
        // YAML 1.2.2, section 5.2, allows a byte order mark, and editors on Windows write one.
        Ok(text) => text.strip_prefix('\u{feff}').unwrap_or(text),
        Err(error) => {
            let id = sources.add(name, String::from_utf8_lossy(bytes));
            let at = offset(error.valid_up_to());
            problems.push(not_utf8(bytes, Span::new(id, at, at.saturating_add(3))));
            return (id, None);
        }
    };
    let id = sources.add(name, text);
    (id, parse(id, text, problems))
}

/// Reads the text of a source.
pub(crate) fn parse(source: SourceId, text: &str, problems: &mut Problems) -> Option<YamlNode> {
    let mut builder = NodeBuilder::new(source, text, problems);
    // Two levels deeper than our own limit, so that the error is ours and in our words.
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
            BuildStep::Go => {}
            BuildStep::Done => break,
            BuildStep::GiveUp => return None,
        }
    }
    let root = builder.finish();
    if let Some(root) = &root {
        // This parser takes such lines and others refuse them, so it does not report them itself.
        flow::check(root, text, problems);
    }
    root
}

/// What an alias adds when it is expanded.
#[derive(Clone, Copy, Default)]
struct AliasSize {
    nodes: usize,
    text: usize,
}

struct YamlAnchor {
    node: YamlNode,
    size: AliasSize,
    depth: usize,
}

/// A collection that is still open.
struct OpenCollection {
    kind: CollectionKind,
    start: Span,
    anchor: usize,
    before: AliasSize,
    depth: usize,
}

enum CollectionKind {
    List(Vec<YamlNode>),
    Map { entries: Vec<(YamlKey, YamlNode)>, seen: SeenKeys, key: Option<PendingKey> },
}

enum BuildStep {
    Go,
    Done,
    GiveUp,
}

struct NodeBuilder<'a> {
    source: SourceId,
    text: &'a str,
    problems: &'a mut Problems,
    stack: Vec<OpenCollection>,
    anchors: BTreeMap<usize, YamlAnchor>,
    root: Option<YamlNode>,
    size: AliasSize,
    documents: usize,
}

/// A node that is complete, and whether it is a plain scalar without text.
struct CompleteNode {
    node: YamlNode,
    blank: bool,
    depth: usize,
}

impl<'a> NodeBuilder<'a> {
    fn new(source: SourceId, text: &'a str, problems: &'a mut Problems) -> Self {
        Self {
            source,
            text,
            problems,
            stack: Vec::new(),
            anchors: BTreeMap::new(),
            root: None,
            size: AliasSize::default(),
            documents: 0,
        }
    }

    fn event(&mut self, event: Event<'_>, at: granit_parser::Span) -> BuildStep {
        let span = self.span(&at);
        let complete = match event {
            Event::DocumentStart(..) => return self.document(span),
            Event::SequenceStart(_, anchor, tag) => {
                self.reject_tag(tag.is_some(), &at, span);
                return self.open(CollectionKind::List(Vec::new()), span, anchor);
            }
            Event::MappingStart(_, anchor, tag) => {
                self.reject_tag(tag.is_some(), &at, span);
                let kind = CollectionKind::Map { entries: Vec::new(), seen: SeenKeys::default(), key: None };
                return self.open(kind, span, anchor);
            }
            Event::SequenceEnd | Event::MappingEnd => match self.close(span) {
                Some(complete) => complete,
                None => return BuildStep::GiveUp,
            },
            Event::Scalar(text, style, anchor, tag) => {
                self.reject_tag(tag.is_some(), &at, span);
                // `&amp;` in a plain text is an anchor to YAML, and the reader would drop it in silence.
                if anchor > 0 && style == ScalarStyle::Plain {
                    self.reject_entity(span);
                }
                self.scalar(&text, style, span, anchor)
            }
            Event::Alias(anchor) => match self.alias(anchor, span) {
                Some(complete) => complete,
                None => return BuildStep::GiveUp,
            },
            _ => return BuildStep::Go,
        };
        self.size.nodes = self.size.nodes.saturating_add(1);
        // Each alias counts as what it stands for: nine lines of nine aliases each would be a billion values.
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
        BuildStep::Go
    }

    // A reader that takes the first document only would drop the rest of the file without a word.
    fn document(&mut self, span: Span) -> BuildStep {
        self.documents = self.documents.saturating_add(1);
        if self.documents < 2 {
            return BuildStep::Go;
        }
        let message = "a second document starts here; the file must hold exactly one";
        self.problems.push(
            Diagnostic::error(Code::SEVERAL_DOCUMENTS, span, message).help("move it to a file of its own"),
        );
        BuildStep::Done
    }

    fn open(&mut self, kind: CollectionKind, start: Span, anchor: usize) -> BuildStep {
        // Later walks over the tree recurse, and rely on this.
        if self.stack.len() >= MAX_DEPTH {
            return self.too_deep(start);
        }
        self.stack.push(OpenCollection { kind, start, anchor, before: self.size, depth: 0 });
        BuildStep::Go
    }

    fn close(&mut self, end: Span) -> Option<CompleteNode> {
        let frame = self.stack.pop()?;
        let (data, last) = match frame.kind {
            CollectionKind::List(items) => {
                let last = items.last().map(|node| node.span.end);
                (YamlData::List(items.into()), last)
            }
            CollectionKind::Map { entries, .. } => {
                let last = entries.last().map(|(_, node)| node.span.end);
                (YamlData::Map(entries.into()), last)
            }
        };
        // A block collection has no end of its own, so it ends with its last value.
        let end = if end.end > end.start { end.end } else { last.unwrap_or(end.end) };
        let node =
            YamlNode { span: Span::new(self.source, frame.start.start, end.max(frame.start.start)), data };
        // Measured for aliases: a flat document may be deep once they are expanded.
        let depth = frame.depth.saturating_add(1);
        let size = AliasSize {
            nodes: self.size.nodes.saturating_sub(frame.before.nodes),
            text: self.size.text.saturating_sub(frame.before.text),
        };
        self.remember(frame.anchor, &node, size, depth);
        Some(CompleteNode { node, blank: false, depth })
    }

    fn scalar(&mut self, text: &str, style: ScalarStyle, span: Span, anchor: usize) -> CompleteNode {
        self.size.text = self.size.text.saturating_add(text.len());
        let plain = style == ScalarStyle::Plain;
        // The parser gives the value of nothing as `~`, at a place of no width.
        let blank = plain && span.start == span.end;
        let is_key = matches!(
            self.stack.last(),
            Some(OpenCollection { kind: CollectionKind::Map { key: None, .. }, .. })
        );
        let data = if !plain {
            YamlData::Text(text.into())
        } else if is_key {
            // A key may be read as a number or as null; what becomes of it is decided where keys are checked.
            scalar::read(text).map_or_else(|_| YamlData::Text(text.into()), YamlData::from)
        } else {
            match scalar::read(text) {
                Ok(scalar) => scalar.into(),
                Err(problem) => {
                    self.problems.push(problem.into_diagnostic(text, span));
                    YamlData::Reported
                }
            }
        };
        let node = YamlNode { span, data };
        self.remember(anchor, &node, AliasSize { nodes: 0, text: text.len() }, 0);
        CompleteNode { node, blank, depth: 0 }
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
        self.problems.push(problem.fix(span, "quote it", slips::quoted(written)));
    }

    fn alias(&mut self, anchor: usize, span: Span) -> Option<CompleteNode> {
        // An anchor is remembered when its value is complete, so one that is missing is still open around its alias.
        let Some(found) = self.anchors.get(&anchor) else {
            let message = "this alias is inside the value it refers to";
            self.problems.push(Diagnostic::error(Code::SYNTAX, span, message));
            return None;
        };
        let (node, depth, size) = (found.node.clone(), found.depth, found.size);
        self.size.nodes = self.size.nodes.saturating_add(size.nodes);
        self.size.text = self.size.text.saturating_add(size.text);
        // The alias may stand deeper than its anchor does.
        if self.stack.len().saturating_add(depth) > MAX_DEPTH {
            self.too_deep(span);
            return None;
        }
        Some(CompleteNode { node, blank: false, depth })
    }

    fn remember(&mut self, anchor: usize, node: &YamlNode, size: AliasSize, depth: usize) {
        if anchor > 0 {
            self.anchors.insert(anchor, YamlAnchor { node: node.clone(), size, depth });
        }
    }

    /// Puts a complete node where it belongs.
    fn attach(&mut self, complete: CompleteNode) {
        let CompleteNode { mut node, blank, depth } = complete;
        let problems = &mut *self.problems;
        match self.stack.last_mut() {
            None => {
                // A file of comments alone has a root without text.
                if !blank {
                    self.root = Some(node);
                }
            }
            Some(frame) => {
                frame.depth = frame.depth.max(depth);
                match &mut frame.kind {
                    CollectionKind::List(items) => {
                        if blank {
                            let problem =
                                Diagnostic::error(Code::BLANK, node.span, "this list entry is empty");
                            problems.push(problem.help("write a value, or remove the line"));
                            node.data = YamlData::Reported;
                        }
                        items.push(node);
                    }
                    CollectionKind::Map { entries, seen, key } => match key.take() {
                        None => *key = Some(pending(node, blank, (seen, entries), self.text, problems)),
                        // The first value stays. Which of the two is meant is for the author to say.
                        Some(PendingKey { dropped: true, key }) => {
                            again(&key, &node, entries, self.text, problems);
                        }
                        Some(PendingKey { key, .. }) if blank => {
                            let entry = no_value(key, entries, self.text, problems);
                            entries.push(entry);
                        }
                        Some(PendingKey { key, .. }) => entries.push((key, node)),
                    },
                }
            }
        }
    }

    fn finish(self) -> Option<YamlNode> {
        if self.root.is_none() && !self.problems.has_errors() {
            let span = Span::new(self.source, 0, 0);
            let problem = Diagnostic::error(Code::MISSING_FIELD, span, "the file is empty");
            self.problems.push(problem.help(BEGIN));
        }
        self.root
    }

    fn span(&self, at: &granit_parser::Span) -> Span {
        let range = at.byte_range().unwrap_or(0..0);
        let end = range.end.min(self.text.len());
        // Spans of block scalars and of ends of blocks reach into the blanks that follow.
        let text = self.text.get(range.start..end).unwrap_or_default();
        let end = range.start.saturating_add(text.trim_end().len());
        Span::new(self.source, offset(range.start), offset(end))
    }

    fn reject_tag(&mut self, tagged: bool, at: &granit_parser::Span, span: Span) {
        // A tag may ask for a type that only one reader knows, and some readers make objects of it.
        if tagged {
            let tag = at.tag_span().map_or(span, |tag| self.span(&tag));
            let problem = Diagnostic::error(Code::TAG, tag, "YAML tags are not supported");
            self.problems.push(problem.help("remove the tag; the type follows from the field"));
        }
    }

    fn too_deep(&mut self, span: Span) -> BuildStep {
        let message = format!("nested deeper than {MAX_DEPTH} levels");
        self.problems.push(Diagnostic::error(Code::TOO_DEEP, first_byte(span), message));
        BuildStep::GiveUp
    }

    fn too_large(&mut self, span: Span, message: String) -> BuildStep {
        self.problems.push(Diagnostic::error(Code::TOO_LARGE, first_byte(span), message));
        BuildStep::GiveUp
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
                    self.problems.push(self.slip(slip));
                    return;
                }
                let message = "no anchor `&` of this name stands before this alias";
                self.problems.push(Diagnostic::error(Code::SYNTAX, span, message));
                return;
            }
            _ => match slips::find(self.text, at, error.kind()) {
                Some(mut slip) => {
                    let fix = |repair: slips::TextRepair| {
                        let (at, title) = (repair.at, Some(repair.title.to_owned()));
                        Fix {
                            span: Span::new(self.source, offset(at.start), offset(at.end)),
                            title,
                            text: repair.text,
                        }
                    };
                    let readings: Vec<Fix> = core::mem::take(&mut slip.or).into_iter().map(fix).collect();
                    self.problems.may_be_read(readings);
                    let problem = self.slip(slip);
                    // What was read of that part was read wrong, so its errors are no longer true.
                    self.problems.forget_within(problem.span);
                    self.problems.push(problem);
                    return;
                }
                None => Diagnostic::error(Code::SYNTAX, span, slips::words(error.kind(), &error.info())),
            },
        };
        if let Some(OpenCollection { kind: CollectionKind::Map { entries, .. }, .. }) = self.stack.last()
            && let Some((key, _)) = entries.last()
        {
            problem = problem.also(key.span, "in the mapping of this key");
        }
        self.problems.push(problem);
    }

    fn slip(&self, slip: slips::YamlSlip) -> Diagnostic {
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

fn not_utf8(bytes: &[u8], span: Span) -> Diagnostic {
    let problem = Diagnostic::error(Code::ENCODING, span, "the file is not UTF-8 text");
    match bytes {
        // The byte order marks of UTF-16, which PowerShell writes.
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => problem.help("it looks like UTF-16; save it as UTF-8"),
        _ => problem.label("these bytes are not UTF-8"),
    }
}

fn offset(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}
