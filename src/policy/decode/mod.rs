//! From trees to typed documents: one declaration gives the type, its decoder and its JSON Schema.
//!
//! Nothing here knows what a policy is; every YAML document of the product is read this way. A document is
//! declared with three macros, `record!` for mappings, `union!` for mappings told apart by a tag, and
//! `choice!` for a word out of a few:
//!
//! ```ignore
//! record! {
//!     /// An agent: what it is told, which model it speaks to, which tools it has.
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
//! Reading goes on after a mistake wherever the tree is still known, so that all mistakes of a file are reported
//! at once. A field whose Rust name is a keyword is written raw: `r#type`.

mod basic;
mod choice;
mod examples;
mod homes;
mod list;
mod patch;
mod record;
mod scalars;
mod taken;
mod union;
mod version;

use core::fmt;
use core::ops::Range;

use schemars::{JsonSchema, Schema, SchemaGenerator, generate::SchemaSettings};
use serde_json::Value;

pub(crate) use choice::{choice, choice_of};
pub(crate) use examples::{complete, complete_with_checks};
pub(crate) use list::list;
pub use patch::{Kept, OneOrMany, Patch, Spanned};
pub(crate) use record::{Object, field_name, join_docs};
pub(crate) use record::{decode_fields, record};
pub(crate) use union::union;
pub use version::VersionOne;

use super::did_you_mean::{closest, is_certain};
use super::excerpt::excerpt;
#[cfg(feature = "host")]
use super::lost::Lost;
use super::lost::Within;
use super::meaning::{self, Counts};
use super::scalar;
use super::yaml::{self, Data, Key, Node};
use super::{Code, Diagnostic, Findings, Fix, Report, Selector, SourceId, Sources, Span};
use homes::Homes;

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

    /// Whether it is a part of a document rather than a value: it goes on without those of its fields that cannot be
    /// used, and what holds several of it goes on without those that cannot be used. Whoever reads it asks the findings
    /// for errors before using it.
    const PART: bool = false;

    /// Reads it. `None`: it cannot be used, and why has been reported.
    fn decode(node: &Node, reader: &mut Reader<'_>) -> Option<Self>;

    /// The value of a field that is left out; `None`: it is required.
    fn absent() -> Option<Self> {
        None
    }

    /// What stands for one that is required and cannot be used, or is not there, while the rest of the document is
    /// looked at.
    fn stand_in(_: &Node) -> Option<Self> {
        None
    }

    /// Its JSON Schema. It accepts what [`decode`](Self::decode) accepts, as far as a schema can say it.
    fn schema(generator: &mut SchemaGenerator) -> Schema;
}

/// A document that was read without mistakes.
#[derive(Clone, Debug)]
pub struct Document<T> {
    /// What it says.
    pub value: T,
    sources: Sources,
    #[cfg(feature = "host")]
    lost: Lost,
}

/// What decoders read with: the text behind the nodes, and where problems go.
pub struct Reader<'a> {
    text: &'a str,
    findings: &'a mut Findings,
    spent: usize,
    within: Within,
    /// Where the fields of the document are, if that is asked for.
    homes: fn() -> Homes,
    known_homes: Option<Homes>,
}

/// Reads a document.
///
/// # Errors
/// Every mistake in it.
pub fn read<T: Decode>(name: &str, bytes: &[u8]) -> Result<Document<T>, Report> {
    read_with(name, bytes, |_| Vec::new())
}

/// Reads a document, and looks for `more` mistakes in what could be read of it.
pub(crate) fn read_with<T: Decode>(
    name: &str,
    bytes: &[u8],
    more: impl FnOnce(&Document<T>) -> Vec<Diagnostic>,
) -> Result<Document<T>, Report> {
    match read_and(name, bytes, more) {
        (Some(document), None) => Ok(document),
        (_, report) => Err(report.unwrap_or_else(|| Findings::default().into_report(Sources::new()))),
    }
}

/// The same with what could be read of a document that has mistakes. With a report, that is not all it says.
pub(crate) fn read_and<T: Decode>(
    name: &str,
    bytes: &[u8],
    more: impl FnOnce(&Document<T>) -> Vec<Diagnostic>,
) -> (Option<Document<T>>, Option<Report>) {
    let mut sources = Sources::new();
    let mut findings = Findings::default();
    let Some((_, value)) = read_into(&mut sources, &mut findings, name, bytes) else {
        return (None, Some(findings.into_report(sources)));
    };
    let document = Document {
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
pub fn read_into<T: Decode>(
    sources: &mut Sources,
    findings: &mut Findings,
    name: &str,
    bytes: &[u8],
) -> Option<(SourceId, T)> {
    let (id, node) = yaml::load(sources, findings, name, bytes);
    let text = sources.get(id)?.text();
    let Some(node) = node else {
        Reader::new(text, findings).settle_syntax::<T>(id);
        return None;
    };
    if !matches!(node.data, Data::Map(_)) {
        let message = format!("expected a mapping, found {}", node.describe());
        findings.push(Diagnostic::error(Code::WRONG_TYPE, node.span, message).help(yaml::BEGIN));
        return None;
    }
    let mut reader = Reader { homes: Homes::of::<T>, ..Reader::new(text, findings) };
    let value = T::decode(&node, &mut reader)?;
    Some((id, value))
}

/// The JSON Schema (2020-12) of a document, with a description and an example of every field.
pub fn schema<T: Decode>() -> Value {
    let generator = SchemaSettings::draft2020_12().into_generator();
    complete(generator.into_root_schema_for::<Described<T>>().to_value())
}

/// The same, where every key says which diagnostics concern it: `x-checks`, a list of codes.
pub fn schema_with_checks<T: Decode>() -> Value {
    let generator = SchemaSettings::draft2020_12().into_generator();
    complete_with_checks(generator.into_root_schema_for::<Described<T>>().to_value())
}

impl<T> Document<T> {
    /// The text it was read from.
    pub const fn sources(&self) -> &Sources {
        &self.sources
    }

    /// What could not be read; nothing, unless there are mistakes.
    #[cfg(feature = "host")]
    pub(crate) const fn lost(&self) -> &Lost {
        &self.lost
    }

    /// A report of problems found after reading.
    pub fn report(&self, problems: impl IntoIterator<Item = Diagnostic>) -> Report {
        let mut findings = Findings::default();
        problems.into_iter().for_each(|problem| findings.push(problem));
        findings.into_report(self.sources.clone())
    }
}

impl<'a> Reader<'a> {
    /// A reader of nodes of that text.
    pub fn new(text: &'a str, findings: &'a mut Findings) -> Self {
        Self { text, findings, spent: 0, within: Within::default(), homes: Homes::default, known_homes: None }
    }

    /// Writes a problem down.
    pub fn report(&mut self, problem: Diagnostic) {
        self.findings.push(problem);
    }

    /// Goes on without a field, or without an entry of that type.
    pub(crate) fn lose(&mut self, name: &str) {
        self.findings.lose(name, &self.within);
    }

    /// Reads what is below a profile or a selector.
    pub(crate) fn below<T>(&mut self, within: Within, read: impl FnOnce(&mut Self) -> T) -> T {
        let above = core::mem::replace(&mut self.within, within);
        let read = read(self);
        self.within = above;
        read
    }

    /// What is being read, below that selector.
    pub(crate) fn under(&self, rules: &'static str, selector: Option<Selector>) -> Within {
        Within { selector: selector.map(|selector| (rules, selector)), ..self.within.clone() }
    }

    /// Goes on without another file.
    pub(crate) const fn lose_file(&mut self) {
        self.findings.lose_file();
    }

    /// Spends what it takes to keep an expression or a template, which is more than it takes to write it. `None`:
    /// the document has too many, and that has been reported.
    pub(crate) fn spend(&mut self, cost: usize, span: Span) -> Option<()> {
        let before = self.spent;
        self.spent = before.saturating_add(cost);
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
    pub fn mapping<'n>(&mut self, node: &'n Node) -> Option<&'n [(Key, Node)]> {
        match &node.data {
            Data::Map(entries) => Some(entries),
            _ => self.wrong_type(node, "a mapping"),
        }
    }

    /// Reports a value of the wrong type, with a repair where one is evident.
    pub fn wrong_type<T>(&mut self, node: &Node, expected: &str) -> Option<T> {
        if matches!(node.data, Data::Reported) {
            self.expect(node, expected);
            return None;
        }
        let message = format!("expected {expected}, found {}", node.describe());
        let problem = Diagnostic::error(Code::WRONG_TYPE, node.span, message);
        let line = self.text.get(..node.span.start as usize).and_then(|text| text.rsplit('\n').next());
        let begins_line = line.is_some_and(|line| line.trim_matches([' ', '-']).is_empty());
        self.findings.push(repair(problem, node, expected, (self.text(node.span), begins_line)));
        None
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
        let problem =
            Diagnostic::error(Code::BAD_VALUE, span, format!("unknown value `{}`", excerpt(found, QUOTED)));
        // Nobody reads the hundredth suggestion, and each costs a comparison with every option.
        let crowded = self.findings.is_crowded();
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
        let certain = meant.filter(|(_, certain)| *certain).map(|(meant, _)| meant);
        self.findings.push(problem);
        certain
    }

    /// Reports a field that does not exist; gives the one that is certainly meant.
    pub fn unknown_field<'f>(
        &mut self,
        key: &Key,
        fields: &[&'f str],
        entries: &[(Key, Node)],
    ) -> Option<&'f str> {
        let problem = Diagnostic::error(
            Code::UNKNOWN_FIELD,
            key.span,
            format!("unknown field `{}`", excerpt(&key.name, QUOTED)),
        );
        if self.findings.is_crowded() {
            self.findings.push(problem);
            return None;
        }
        let no_string = |problem: &Diagnostic| problem.code == Code::KEY_TYPE && problem.span == key.span;
        if let Some(problem) = self.findings.recent(no_string) {
            // Quotes would not help.
            problem.fix = None;
            problem.help = vec![format!("expected one of {}", list(fields))];
            return None;
        }
        let (name, known) = (&*key.name, || fields.iter().copied());
        let near = closest(name, known());
        let sure = near.is_some_and(|near| is_certain(name, near, known()));
        let sense = meaning::field(name, fields);
        // What is a field of another mapping, or has a sense elsewhere, is no slip of what looks alike.
        let home = if sure || sense.is_some() { None } else { self.home(name) };
        let near = near.filter(|_| sure || (home.is_none() && !meaning::is_known(name)));
        let mut certain = None;
        let problem = match (near, sense) {
            (Some(meant), sense) if sure || sense.is_none() => {
                let mut problem = problem.meant(key.span, name, meant, known());
                if let Some((first, _)) = self.there_already(meant, entries) {
                    // It cannot be there twice.
                    problem.fix = None;
                    problem = problem.also(first.span, format!("`{meant}` is here already"));
                } else if let Some(other) = meaning::rival(key, meant, fields, entries) {
                    // Which of the two it is, is not certain.
                    problem.fix = None;
                    problem = problem.also(other.span, format!("this may be meant for `{meant}` too"));
                }
                certain = problem.fix.is_some().then_some(meant);
                if certain.is_none() {
                    self.lose(meant);
                }
                problem
            }
            (_, Some(sense)) => {
                self.lose(sense.here);
                self.translated(problem, key, &sense, (fields, entries))
            }
            _ if home.is_some() => {
                self.lose(name);
                problem.help_if(home)
            }
            _ if name.starts_with("x-") => problem.help(
                "there is no place for shared blocks: write one as `&name` where it is used first, and `*name` elsewhere; or use a pattern for several names",
            ),
            _ => {
                self.lose(UNKNOWN);
                problem.help(format!("expected one of {}", list(fields)))
            }
        };
        self.findings.push(problem);
        certain
    }

    /// Where a field that is not known here belongs.
    fn home(&mut self, name: &str) -> Option<String> {
        self.known_homes.get_or_insert_with(self.homes).help(name)
    }

    /// A field that has another name elsewhere; a number of attempts is put right with it.
    fn translated(
        &mut self,
        problem: Diagnostic,
        key: &Key,
        sense: &meaning::Field,
        (fields, entries): (&[&str], &[(Key, Node)]),
    ) -> Diagnostic {
        let value = entries.iter().find(|(other, _)| other.span == key.span).map(|(_, value)| value);
        let number = value.and_then(|value| match &value.data {
            Data::Number(number) => number.as_u64().filter(|number| *number < 1_000),
            _ => None,
        });
        let (counted, what) = match (sense.counts, number) {
            (Counts::Retries, Some(number)) => (number.saturating_add(1), format!("{number} retries are")),
            (Counts::Attempts, Some(number)) if number > 0 => (number, "write".to_owned()),
            _ => return problem.help(sense.help),
        };
        let text = match sense.here {
            "retry" => format!("retry: {{max_attempts: {counted}}}"),
            here => format!("{here}: {counted}"),
        };
        let problem = problem.help(format!("the first attempt counts too: {what} `{text}`"));
        let Some(value) = value.filter(|_| self.there_already(sense.here, entries).is_none()) else {
            return problem;
        };
        let plain = |between: &str| between.trim_matches([' ', '"', '\'']) == ":";
        let whole = Span { end: value.span.end, ..key.span };
        let between = self.text(Span { start: key.span.end, end: value.span.start, ..key.span });
        // Another spelling of the same is there, too: which of them counts?
        let is_rival = |name: &str| {
            !fields.contains(&name)
                && meaning::field(name, fields).is_some_and(|other| other.here == sense.here)
        };
        let rivals = entries.iter().filter(|(other, _)| is_rival(&other.name)).count();
        if plain(between) && rivals == 1 {
            problem.fix(whole, "write it as it is counted here", text)
        } else {
            problem
        }
    }

    /// The entry that has that name, or will have it once it is repaired.
    fn there_already<'n>(&mut self, name: &str, entries: &'n [(Key, Node)]) -> Option<&'n (Key, Node)> {
        let exact = entries.iter().find(|(other, _)| &*other.name == name);
        exact.or_else(|| {
            let repaired = |problem: &Diagnostic| {
                problem.code == Code::UNKNOWN_FIELD
                    && problem.fix.as_ref().is_some_and(|fix| fix.text == name)
                    && entries.iter().any(|(other, _)| other.span == problem.span)
            };
            let span = self.findings.recent(repaired)?.span;
            entries.iter().find(|(other, _)| other.span == span)
        })
    }

    /// Where a mapping begins: its bracket, or its first key.
    pub(crate) fn head(&self, node: &Node) -> Span {
        match &node.data {
            Data::Map(entries) if entries.is_empty() => node.span,
            Data::Map(_) if self.text(node.span).starts_with('{') => {
                Span { end: node.span.start.saturating_add(1), ..node.span }
            }
            Data::Map(entries) => entries.first().map_or(node.span, |(key, _)| key.span),
            _ => node.span,
        }
    }

    /// Reports a required field that is not there.
    pub fn missing_field(&mut self, node: &Node, field: &str) {
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
        node: &Node,
        field: &str,
        why: &'static str,
    ) -> Diagnostic {
        let Data::Map(entries) = &node.data else { return problem };
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
    pub fn out_of_range<T>(&mut self, node: &Node, must: &str) -> Option<T> {
        let message = format!("{} is out of range", node.describe());
        self.findings.push(Diagnostic::error(Code::OUT_OF_RANGE, node.span, message).label(must));
        None
    }
}

impl fmt::Debug for Reader<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader").finish_non_exhaustive()
    }
}

/// A literal block: each line of the value is a line of the text, indented; the span starts behind the first indent.
fn literal_shift(raw: &str, value: &str, range: &Range<usize>) -> Option<usize> {
    if value.get(range.clone())?.contains('\n') {
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

fn repair(problem: Diagnostic, node: &Node, expected: &str, (raw, begins_line): (&str, bool)) -> Diagnostic {
    let span = node.span;
    if let Some(pair) = yaml::pair(raw).filter(|_| expected.contains("a mapping")) {
        return taken::of_pair(problem, span, &pair, (raw, begins_line));
    }
    if let (Data::Text(_) | Data::Number(_), true) = (&node.data, expected.contains("version number"))
        && matches!(raw.trim_matches(['"', '\'']).trim_start_matches(['v', 'V']), "1" | "1.0")
    {
        return problem.fix(span, "the version is a number", "1");
    }
    let meant = match &node.data {
        Data::Text(text) => closest(text, words(expected)),
        _ => None,
    };
    match (&node.data, meant) {
        (Data::Text(text), _) if expected.contains("`true` or `false`") => {
            match text.to_ascii_lowercase().as_str() {
                "yes" | "on" | "y" => problem.fix(span, "booleans are `true` and `false`", "true"),
                "no" | "off" | "n" => problem.fix(span, "booleans are `true` and `false`", "false"),
                word @ ("true" | "false") => problem.fix(span, "remove the quotes", word.to_owned()),
                _ => problem,
            }
        }
        (Data::Text(text), _) if expected.contains("US dollars") => match dollars(text) {
            Some(number) => problem.fix(span, "the number alone is in US dollars", number),
            None => problem,
        },
        (Data::Text(text), None) if expected.contains("number") => {
            problem.help_if(scalar::grouped(text).map(|number| format!("write `{number}`")))
        }
        (Data::Number(_) | Data::Bool(_), _) if expected.contains("string") => {
            problem.fix(span, "quote it", format!("\"{raw}\""))
        }
        (Data::Text(text), Some(meant)) => problem.meant(span, text, meant, words(expected)),
        // One text in quotes that lists several: each of them is an entry.
        (Data::Text(text), None) if expected.contains("a list") && text.contains(',') => {
            problem.fix(span, "write a list", format!("[{text}]"))
        }
        (Data::Text(_) | Data::Number(_), None) if expected.contains("a list") && !raw.contains('\n') => {
            problem.fix(span, "write a list", format!("[{raw}]"))
        }
        (Data::Map(_), _) if expected.contains("a list") && raw.starts_with('{') && !raw.contains('\n') => {
            problem.fix(span, "write a list", format!("[{raw}]"))
        }
        (Data::Map(_), _) if expected.contains("a list") => problem.help("begin each entry with `- `"),
        (Data::Number(_), _) if expected.contains("`true` or `false`") => match raw {
            "1" => problem.help("write `true`"),
            "0" => problem.help("write `false`"),
            _ => problem,
        },
        (Data::Null, _) => problem.help("remove the line to leave it out"),
        (Data::List(items), _) if expected.contains("a mapping") => problem.help(keyed(items)),
        _ => problem,
    }
}

/// The number of an amount such as `$2` and `2.50 USD`.
fn dollars(text: &str) -> Option<&str> {
    let cut = |text| ["$", "US$", "USD"].iter().find_map(|sign| str::strip_prefix(text, sign));
    let tail = |text| ["$", "USD", "dollars"].iter().find_map(|sign| str::strip_suffix(text, sign));
    let number = cut(text).or_else(|| tail(text))?.trim();
    number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.').then_some(number)
}

/// What to write where the names are keys and not, as other tools have them, fields of the entries of a list.
fn keyed(items: &[Node]) -> String {
    let name = |item: &Node| match &item.data {
        Data::Text(text) => Some(text.clone()),
        Data::Map(entries) => entries.iter().find_map(|(key, value)| match (&*key.name, &value.data) {
            ("name" | "id", Data::Text(text)) => Some(text.clone()),
            _ => None,
        }),
        _ => None,
    };
    let name = items.iter().find_map(name).filter(|name| !name.contains(char::is_whitespace));
    name.map_or_else(
        || "write no `- ` and no `[…]`: each entry is `name: value`".to_owned(),
        |name| format!("names are keys here: write `{}: {{...}}`", excerpt(&name, QUOTED)),
    )
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

/// The words that may be written where that is expected.
fn words(expected: &str) -> impl Iterator<Item = &str> {
    let quoted = expected.split('`').skip(1).step_by(2);
    quoted
        .filter(|word| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'))
}

/// Gives the schema generator what it needs of a type that can be decoded.
pub(crate) struct Described<T>(core::marker::PhantomData<T>);

impl<T: Decode> JsonSchema for Described<T> {
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
