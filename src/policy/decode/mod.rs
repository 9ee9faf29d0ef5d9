//! From trees to typed documents: one declaration gives the type, its decoder and its JSON Schema.
//!
//! Nothing here knows what a policy is; every YAML document of the product is read this way. A document is
//! declared with three macros, `record!` for mappings, `union!` for mappings distinguished by a tag, and
//! `choice!` for a word out of a few:
//!
//! ```ignore
//! record! {
//!     /// An agent: its instructions, which model it speaks to, which tools it has.
//!     pub struct AgentFile {
//!         /// Instructions above the conversation.
//!         pub system: String,                        // required
//!         /// Where the policy is.
//!         pub policy: Option<Spanned<String>>,       // may be left out; keeps its place for later errors
//!         /// The most tokens of one reply.
//!         pub max_tokens: u32 = 1024,                // a default
//!         /// The tools, by name.
//!         pub tools: IndexMap<String, ToolKind> = IndexMap::new(),
//!     }
//! }
//! union! {
//!     /// How a tool is run.
//!     pub enum ToolKind by kind {
//!         /// A process.
//!         Command = "command" {
//!             /// The program and its arguments.
//!             run: Vec<String>,
//!         },
//!     }
//! }
//!
//! let agent = decode::read::<AgentFile>("agent.yaml", &bytes)?;    // Err: a Report with every mistake
//! let problem = Diagnostic::error(Code::new("A0101"), agent.value.policy.span, "no such file");
//! return Err(agent.report([problem]));                             // later mistakes look the same
//! ```
//!
//! Reading continues after a mistake wherever the tree is still known, so that all mistakes of a file are reported
//! at once. A field whose Rust name is a keyword is written raw: `r#type`.

mod basic;
mod choice;
mod examples;
#[cfg(feature = "host")]
mod forms;
mod homes;
mod list;
mod patch;
mod record;
mod scalars;
mod taken;
mod union;
mod unknown_field;
mod version;
mod wrong_type;

use core::ops::Range;

use schemars::{JsonSchema, Schema, SchemaGenerator, generate::SchemaSettings};
use serde_json::Value;

pub(crate) use choice::{choice, choice_of};
pub(crate) use examples::{complete, complete_with_checks};
#[cfg(feature = "host")]
pub(crate) use forms::Form;
pub(crate) use list::list;
pub(crate) use patch::{KeptList, OneOrMany, Patch, Spanned};
pub(crate) use record::{Fields, ObjectSchema, decode_fields, field_name, join_docs, record};
pub(crate) use union::union;
pub(crate) use version::VersionOne;

#[cfg(feature = "host")]
use super::lost::UnreadFields;
use super::lost::UnreadScope;
use super::meaning;
use super::{Findings, Selector};
use crate::text::excerpt;
use crate::text::yaml::{self, YamlData, YamlKey, YamlNode};
use crate::text::{Code, Diagnostic, Fix, Report, SourceId, Sources, Span};
use homes::FieldHomes;

/// The most that the expressions and templates of a document may cost, in nodes of expressions of some 200 bytes.
const MOST_SPENT: usize = 225_000;

/// The most characters of a key or a word that a message quotes.
const QUOTED: usize = 60;

/// What is lost where a field has no meaning here: it may be any.
pub(crate) const UNKNOWN: &str = "?";

/// A type that can be read from a node.
pub trait Decode: Sized {
    /// The name of its schema; `None`: the schema is written where it is used.
    const NAME: Option<&'static str> = None;

    /// Whether it is a part of a document rather than a value: it continues without those of its fields that cannot be
    /// used, and what holds several of it continues without those that cannot be used. Whoever reads it asks the findings
    /// for errors before using it.
    const PART: bool = false;

    /// Reads it. `None`: it cannot be used, and why has been reported.
    fn decode(node: &YamlNode, reader: &mut NodeReader<'_>) -> Option<Self>;

    /// The value of a field that is left out; `None`: it is required.
    fn absent() -> Option<Self> {
        None
    }

    /// What stands for one that is required and cannot be used, or is not there, while the rest of the document is
    /// looked at.
    fn stand_in(_: &YamlNode) -> Option<Self> {
        None
    }

    /// Its JSON Schema. It accepts what [`decode`](Self::decode) accepts, as far as a schema can say it.
    fn schema(generator: &mut SchemaGenerator) -> Schema;
}

/// A document that was read without mistakes.
#[derive(Clone, Debug)]
pub(crate) struct DecodedDocument<T> {
    /// What it says.
    pub value: T,
    sources: Sources,
    #[cfg(feature = "host")]
    lost: UnreadFields,
}

/// What decoders read with: the text behind the nodes, and where problems go.
pub struct NodeReader<'a> {
    text: &'a str,
    findings: &'a mut Findings,
    spent: usize,
    within: UnreadScope,
    /// Whether the text ships with the product, and tests have found all of its mistakes.
    shipped: bool,
    /// Where the fields of the document are, if that is asked for.
    homes: fn() -> FieldHomes,
    known_homes: Option<FieldHomes>,
}

/// Reads a document.
///
/// # Errors
/// Every mistake in it.
pub(crate) fn read<T: Decode>(name: &str, bytes: &[u8]) -> Result<DecodedDocument<T>, Report> {
    read_with(name, bytes, |_| Vec::new())
}

/// Reads a document, and looks for `more` mistakes in what could be read of it.
pub(crate) fn read_with<T: Decode>(
    name: &str,
    bytes: &[u8],
    more: impl FnOnce(&DecodedDocument<T>) -> Vec<Diagnostic>,
) -> Result<DecodedDocument<T>, Report> {
    match read_and(name, bytes, more) {
        (Some(document), None) => Ok(document),
        (_, report) => Err(report.unwrap_or_else(|| Findings::default().into_report(Sources::new()))),
    }
}

/// The same with what could be read of a document that has mistakes. With a report, that is not all it says.
pub(crate) fn read_and<T: Decode>(
    name: &str,
    bytes: &[u8],
    more: impl FnOnce(&DecodedDocument<T>) -> Vec<Diagnostic>,
) -> (Option<DecodedDocument<T>>, Option<Report>) {
    let mut sources = Sources::new();
    let mut findings = Findings::default();
    let Some((_, value)) = read_into(&mut sources, &mut findings, name, bytes) else {
        return (None, Some(findings.into_report(sources)));
    };
    let document = DecodedDocument {
        value,
        sources,
        #[cfg(feature = "host")]
        lost: findings.lost().clone(),
    };
    for problem in more(&document) {
        findings.push(problem);
    }
    let report = findings.has_errors().then(|| findings.into_report(document.sources.clone()));
    (Some(document), report)
}

/// Reads one of several documents that are reported on together.
pub(crate) fn read_into<T: Decode>(
    sources: &mut Sources,
    findings: &mut Findings,
    name: &str,
    bytes: &[u8],
) -> Option<(SourceId, T)> {
    read_text(sources, findings, name, bytes, false)
}

/// The same of a text that ships with the product: what a test can find out is not looked for.
pub(crate) fn read_shipped<T: Decode>(
    sources: &mut Sources,
    findings: &mut Findings,
    name: &str,
    text: &str,
) -> Option<(SourceId, T)> {
    read_text(sources, findings, name, text.as_bytes(), true)
}

fn read_text<T: Decode>(
    sources: &mut Sources,
    findings: &mut Findings,
    name: &str,
    bytes: &[u8],
    shipped: bool,
) -> Option<(SourceId, T)> {
    let (id, node) = yaml::load(sources, findings.problems_mut(), name, bytes);
    let text = sources.get(id)?.text();
    // Repairs of broken YAML are kept only if the fields of this document take what they write.
    let Some(node) = node else {
        NodeReader::new(text, findings).settle_syntax::<T>(id);
        return None;
    };
    if !matches!(node.data, YamlData::Map(_)) {
        let message = format!("expected a mapping, found {}", node.describe());
        findings.push(Diagnostic::error(Code::WRONG_TYPE, node.span, message).help(yaml::BEGIN));
        return None;
    }
    let mut reader = NodeReader { homes: FieldHomes::of::<T>, shipped, ..NodeReader::new(text, findings) };
    let value = T::decode(&node, &mut reader)?;
    Some((id, value))
}

/// The JSON Schema (2020-12) of a document, with a description and an example of every field.
pub(crate) fn schema<T: Decode>() -> Value {
    let generator = SchemaSettings::draft2020_12().into_generator();
    complete(generator.into_root_schema_for::<SchemaOf<T>>().to_value())
}

/// The same, where every key says which diagnostics concern it: `x-checks`, a list of codes.
pub(crate) fn schema_with_checks<T: Decode>() -> Value {
    let generator = SchemaSettings::draft2020_12().into_generator();
    complete_with_checks(generator.into_root_schema_for::<SchemaOf<T>>().to_value())
}

impl<T> DecodedDocument<T> {
    /// The text it was read from.
    pub(crate) const fn sources(&self) -> &Sources {
        &self.sources
    }

    /// What could not be read; nothing, unless there are mistakes.
    #[cfg(feature = "host")]
    pub(crate) const fn lost(&self) -> &UnreadFields {
        &self.lost
    }

    /// A report of problems found after reading.
    pub(crate) fn report(&self, problems: impl IntoIterator<Item = Diagnostic>) -> Report {
        let mut findings = Findings::default();
        problems.into_iter().for_each(|problem| findings.push(problem));
        findings.into_report(self.sources.clone())
    }
}

impl<'a> NodeReader<'a> {
    /// A reader of nodes of that text.
    pub fn new(text: &'a str, findings: &'a mut Findings) -> Self {
        Self {
            text,
            findings,
            spent: 0,
            within: UnreadScope::default(),
            shipped: false,
            homes: FieldHomes::default,
            known_homes: None,
        }
    }

    /// Writes a problem down.
    pub fn report(&mut self, problem: Diagnostic) {
        self.findings.push(problem);
    }

    /// Continues without a field, or without an entry of that type.
    pub(crate) fn lose(&mut self, name: &str) {
        self.findings.lose(name, &self.within);
    }

    /// Reads what is below a profile or a selector.
    pub(crate) fn below<T>(&mut self, within: UnreadScope, read: impl FnOnce(&mut Self) -> T) -> T {
        let above = core::mem::replace(&mut self.within, within);
        let read = read(self);
        self.within = above;
        read
    }

    /// What is being read, below that selector.
    pub(crate) fn under(&self, rules: &'static str, selector: Option<Selector>) -> UnreadScope {
        UnreadScope { selector: selector.map(|selector| (rules, selector)), ..self.within.clone() }
    }

    /// Continues without another file.
    pub(crate) const fn lose_file(&mut self) {
        self.findings.lose_file();
    }

    /// Spends what it takes to keep an expression or a template, which is more than it takes to write it. `None`:
    /// the document has too many, and that has been reported.
    pub(crate) fn spend(&mut self, cost: usize, span: Span) -> Option<()> {
        let before = self.spent;
        self.spent = before.saturating_add(cost);
        // Only the value that crosses the bound reports it, and not each of those after it.
        if before <= MOST_SPENT && self.spent > MOST_SPENT {
            let message = "the expressions and templates are too many, or too large, to be kept";
            let problem = Diagnostic::error(Code::TOO_LARGE, span, message);
            self.report(problem.help("say it once for several tools with `*`, or in several policies"));
        }
        (self.spent <= MOST_SPENT).then_some(())
    }

    /// Whether nothing more can be kept.
    pub(crate) const fn is_spent(&self) -> bool {
        self.spent > MOST_SPENT
    }

    /// Whether the text ships with the product, and needs no look at what tests have looked at.
    pub(crate) const fn is_shipped(&self) -> bool {
        self.shipped
    }

    /// The source text of a node.
    pub fn text(&self, span: Span) -> &'a str {
        self.text.get(span.range()).unwrap_or_default()
    }

    /// A message reads that slice, which need not be in this document.
    pub(crate) fn reads_slice(&mut self, name: &str, span: Span) {
        self.findings.reads_slice(name, span);
    }

    /// Where the bytes `range` of a string node's value are in the text; the whole node if escapes or folding
    /// make that unknowable.
    pub fn inside(&self, span: Span, value: &str, range: Option<Range<usize>>) -> Span {
        range.and_then(|range| self.locate(span, value, range)).unwrap_or(span)
    }

    fn locate(&self, span: Span, value: &str, range: Range<usize>) -> Option<Span> {
        let raw = self.text(span);
        // A plain text begins at once, a quoted one after its quote, and a literal block line by line.
        let shift = if raw == value {
            0
        } else if raw.get(1..raw.len().checked_sub(1)?) == Some(value) {
            1
        } else {
            literal_shift(raw, value, &range)?
        };
        let at = |offset: usize| u32::try_from(offset.checked_add(shift)?).ok()?.checked_add(span.start);
        Some(Span { start: at(range.start)?, end: at(range.end)?.min(span.end), ..span })
    }

    /// The entries of a mapping, or a report that it is none.
    pub fn mapping<'n>(&mut self, node: &'n YamlNode) -> Option<&'n [(YamlKey, YamlNode)]> {
        match &node.data {
            YamlData::Map(entries) => Some(entries),
            _ => self.wrong_type(node, "a mapping"),
        }
    }

    /// Reports a word that is not one of those allowed.
    pub fn bad_choice<T>(&mut self, span: Span, found: &str, options: &[&str]) -> Option<T> {
        self.meant_choice(span, found, options);
        None
    }

    /// The word of those allowed; one that is not is reported, and taken for the one that is certainly meant, so that
    /// its repair brings up nothing new.
    pub(crate) fn choice<'o>(&mut self, span: Span, found: &str, options: &[&'o str]) -> Option<&'o str> {
        let known = options.iter().copied().find(|option| *option == found);
        known.or_else(|| self.meant_choice(span, found, options))
    }

    fn meant_choice<'o>(&mut self, span: Span, found: &str, options: &[&'o str]) -> Option<&'o str> {
        // A word of an earlier version has one meaning, so it is repaired and read as the new one.
        if let Some(now) = meaning::renamed_word(found, options) {
            let problem = Diagnostic::error(Code::BAD_VALUE, span, format!("`{found}` is now `{now}`"));
            self.findings.push(problem.fix(span, "write the new name", now));
            return Some(now);
        }
        let problem =
            Diagnostic::error(Code::BAD_VALUE, span, format!("unknown value `{}`", excerpt(found, QUOTED)));
        // Nobody reads the hundredth suggestion, and each costs a comparison with every option.
        let crowded = self.findings.problems().is_crowded();
        let meant = if crowded { None } else { meaning::meant(found, options) };
        let mut problem = problem;
        match meant {
            _ if crowded => {}
            Some((meant, certain)) => {
                problem.label = Some(format!("did you mean `{meant}`?"));
                problem.fix = certain.then(|| Fix { span, title: None, text: meant.to_owned() });
            }
            None => problem.help = several(found, options),
        }
        // Read as what is certainly meant, so that the repair brings up no new mistakes.
        let certain = meant.filter(|(_, certain)| *certain).map(|(meant, _)| meant);
        self.findings.push(problem);
        certain
    }

    /// Where a mapping begins: its bracket, or its first key.
    pub(crate) fn head(&self, node: &YamlNode) -> Span {
        match &node.data {
            YamlData::Map(entries) if entries.is_empty() => node.span,
            YamlData::Map(_) if self.text(node.span).starts_with('{') => {
                Span { end: node.span.start.saturating_add(1), ..node.span }
            }
            YamlData::Map(entries) => entries.first().map_or(node.span, |(key, _)| key.span),
            _ => node.span,
        }
    }

    /// Reports a required field that is not there.
    pub fn missing_field(&mut self, node: &YamlNode, field: &str) {
        let message = format!("missing field `{field}`");
        let problem = Diagnostic::error(Code::MISSING_FIELD, self.head(node), message);
        let problem = problem.label(format!("`{field}` is required here"));
        // There is one version of each format.
        self.findings.push(if field == "version" {
            self.first(problem, node, "version: 1", "there is one version")
        } else {
            problem
        });
    }

    /// With a repair that writes a field before all others of a mapping.
    pub(crate) fn first(
        &self,
        problem: Diagnostic,
        node: &YamlNode,
        field: &str,
        why: &'static str,
    ) -> Diagnostic {
        let YamlData::Map(entries) = &node.data else { return problem };
        let Some((key, _)) = entries.first() else { return problem };
        let (at, before) = (key.span.start as usize, Span { end: key.span.start, ..key.span });
        let line = self.text.get(..at).and_then(|text| text.rsplit('\n').next()).unwrap_or_default();
        let text = if self.text(node.span).starts_with('{') {
            format!("{field}, ")
        } else if line.trim_matches([' ', '-']).is_empty() {
            format!("{field}\n{}", " ".repeat(line.len()))
        } else {
            return problem.help(format!("write `{field}`"));
        };
        problem.fix(before, why, text)
    }

    /// Reports a number that is too small or too large.
    pub fn out_of_range<T>(&mut self, node: &YamlNode, must: &str) -> Option<T> {
        let message = format!("{} is out of range", node.describe());
        self.findings.push(Diagnostic::error(Code::OUT_OF_RANGE, node.span, message).label(must));
        None
    }
}

crate::debug_parts!(|this: NodeReader<'_>|);

/// A literal block: each line of the value is a line of the text, indented; the span starts behind the first indent.
fn literal_shift(raw: &str, value: &str, range: &Range<usize>) -> Option<usize> {
    if value.get(range.clone())?.contains('\n') {
        // Lines of a literal block are indented in the text and not in the value, so positions hold within one line
        // only.
        return None;
    }
    let line = value.get(..range.start)?.matches('\n').count();
    let value_line = value.split('\n').nth(line)?;
    let raw_line = raw.split('\n').nth(line)?;
    let value_start = value_line.as_ptr().addr().checked_sub(value.as_ptr().addr())?;
    let raw_start = raw_line.as_ptr().addr().checked_sub(raw.as_ptr().addr())?;
    let indent = raw_line.trim_end_matches('\r').strip_suffix(value_line)?;
    if !indent.bytes().all(|byte| byte == b' ') {
        return None;
    }
    raw_start.checked_add(indent.len())?.checked_sub(value_start)
}

/// What may be meant by a word that has several senses here, or none.
fn several(found: &str, options: &[&str]) -> Vec<String> {
    let expected = format!("expected one of {}", list(options));
    match meaning::word(found, options).as_slice() {
        [] => vec![expected],
        senses => {
            let senses: Vec<String> = senses.iter().map(|sense| format!("`{sense}`")).collect();
            let found = excerpt(found, QUOTED);
            vec![format!("`{found}` covers several classes here: {}", senses.join(", "))]
        }
    }
}

/// Gives the schema generator what it needs of a type that can be decoded.
pub(crate) struct SchemaOf<T>(core::marker::PhantomData<T>);

impl<T: Decode> JsonSchema for SchemaOf<T> {
    fn inline_schema() -> bool {
        T::NAME.is_none()
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        T::NAME.unwrap_or("value").into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        T::schema(generator)
    }
}

#[cfg(test)]
mod tests;
