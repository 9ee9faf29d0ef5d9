//! A walk over the parsed expression: every name must be known, loops must not nest, and what would be slow or
//! left to chance at run time is replaced.

use core::ops::Range;
use std::mem;

use cel::common::ast::{CallExpr, EntryExpr, Expr as Node, IdedExpr, LiteralValue, SourceInfo};
use regex::{Regex, RegexBuilder};

use super::ExprError;
use crate::text::did_you_mean::closest;

/// Stands for `text.matches(pattern)` with the pattern compiled; takes the text and the pattern's number.
pub(super) const MATCHES: &str = "@matches";
/// Gives what a loop walks: the elements of a list, the keys of a map in their order.
pub(super) const EACH: &str = "@each";

const MAX_NODES: usize = 200;
const MAX_REGEX_BYTES: usize = 1 << 20;
/// Most patterns are smaller than this.
const SMALL_REGEX_BYTES: usize = 32 << 10;
/// What an expression costs in addition to its nodes.
const OWN_COST: usize = 10;
/// What patterns cost to keep, in nodes.
const SMALL_REGEX_COST: usize = 200;
const LARGE_REGEX_COST: usize = 5_000;
/// The most the patterns of an expression may cost together.
const MAX_REGEX_COST: usize = 10_000;

/// How a function is called.
#[derive(PartialEq)]
enum CallStyle {
    Method,
    Function,
    Either,
}

/// Name, style, how many values it takes with the one it is called on, and how it is written.
const FUNCTIONS: [(&str, CallStyle, usize, &str); 11] = [
    ("size", CallStyle::Either, 1, "size(x)"),
    ("contains", CallStyle::Method, 2, "text.contains('part')"),
    ("startsWith", CallStyle::Method, 2, "text.startsWith('part')"),
    ("endsWith", CallStyle::Method, 2, "text.endsWith('part')"),
    ("matches", CallStyle::Either, 2, "text.matches('pattern')"),
    ("string", CallStyle::Function, 1, "string(x)"),
    ("int", CallStyle::Function, 1, "int(x)"),
    ("uint", CallStyle::Function, 1, "uint(x)"),
    ("double", CallStyle::Function, 1, "double(x)"),
    ("bool", CallStyle::Function, 1, "bool(x)"),
    ("type", CallStyle::Function, 1, "type(x)"),
];
/// Expanded by the parser; left in the tree only if they are written wrongly.
const MACROS: [(&str, &str); 6] = [
    ("has", "has(args.field)"),
    ("all", "list.all(x, x > 0)"),
    ("exists", "list.exists(x, x > 0)"),
    ("exists_one", "list.exists_one(x, x > 0)"),
    ("map", "list.map(x, x + 1)"),
    ("filter", "list.filter(x, x > 0)"),
];
/// What functions are called in other languages, and how the same is written here.
const ELSEWHERE: [(&[&str], &str); 8] = [
    (&["len", "length", "lenght", "count", "strlen"], "size(x)"),
    (
        &["includes", "indexOf", "in_array", "has_key", "hasKey", "find"],
        "text.contains('part')` or `x in list",
    ),
    (&["hasPrefix"], "text.startsWith('part')"),
    (&["hasSuffix"], "text.endsWith('part')"),
    (&["regex", "test", "search", "re_match"], "text.matches('pattern')"),
    (&["str", "toString", "to_string"], "string(x)"),
    (&["float", "number", "parseFloat", "parseInt"], "double(x)` or `int(x)"),
    (&["typeof", "isinstance", "instanceof"], "type(x) == string"),
];
/// Names of types, to compare `type(x)` with.
const TYPES: [&str; 9] = ["int", "uint", "double", "bool", "string", "list", "map", "null_type", "type"];
/// How far the pattern is indented where it is shown.
const INDENT: usize = 4;
const CONSTANTS: [&str; 3] = ["true", "false", "null"];

/// What is known of an expression that passed.
pub(super) struct CheckedExpr {
    pub(super) variables: Vec<String>,
    /// The fields of variables it speaks of: `args.path`.
    pub(super) fields: Vec<(String, String)>,
    pub(super) regexes: Vec<Regex>,
    /// What it takes to keep it, in nodes.
    pub(super) cost: usize,
}

/// Checks `ast` and rewrites it in place.
pub(super) fn check(
    ast: &mut IdedExpr,
    positions: &SourceInfo,
    text: &str,
    known: &[&str],
) -> Result<CheckedExpr, ExprError> {
    let found = CheckedExpr { variables: Vec::new(), fields: Vec::new(), regexes: Vec::new(), cost: 0 };
    let mut check = ExprCheck { positions, text, known, element: None, nodes: 0, found };
    check.node(ast)?;
    check.found.cost = check.found.cost.saturating_add(check.nodes).saturating_add(OWN_COST);
    Ok(check.found)
}

struct ExprCheck<'a> {
    positions: &'a SourceInfo,
    text: &'a str,
    known: &'a [&'a str],
    /// The name a loop gives to its element, inside that loop.
    element: Option<String>,
    nodes: usize,
    found: CheckedExpr,
}

impl ExprCheck<'_> {
    /// Recursive; the depth is bounded by what [`scan`](super::scan) lets through.
    fn node(&mut self, node: &mut IdedExpr) -> Result<(), ExprError> {
        self.nodes = self.nodes.saturating_add(1);
        // The cost of an evaluation follows the size of the expression, as loops do not nest.
        if self.nodes > MAX_NODES {
            return Err(self.error(node.id, "the expression is too large", "split it into several checks"));
        }
        let id = node.id;
        match &mut node.expr {
            Node::Literal(_) => Ok(()),
            Node::Ident(name) => self.variable(id, name),
            Node::Select(select) => {
                // Lints compare these fields with the schema of the tool. The element of a loop has no schema.
                if let Node::Ident(variable) = &select.operand.expr
                    && self.element.as_ref() != Some(variable)
                {
                    self.found.fields.push((variable.clone(), select.field.clone()));
                }
                self.node(&mut select.operand)
            }
            Node::List(list) => list.elements.iter_mut().try_for_each(|element| self.node(element)),
            Node::Map(map) => map.entries.iter_mut().try_for_each(|entry| match &mut entry.expr {
                EntryExpr::MapEntry(entry) => {
                    self.node(&mut entry.key)?;
                    self.node(&mut entry.value)
                }
                EntryExpr::StructField(_) => Err(self.error(id, "types cannot be built here", "write a map")),
            }),
            Node::Call(call) => self.call(id, call),
            Node::Comprehension(each) => {
                self.node(&mut each.iter_range)?;
                // The library walks a map in the order of its hash table, which differs from run to run.
                let walked = mem::take(&mut each.iter_range);
                each.iter_range = IdedExpr {
                    id: walked.id,
                    expr: Node::Call(CallExpr {
                        func_name: EACH.to_owned(),
                        target: None,
                        args: vec![walked],
                    }),
                };
                // A loop in a loop takes the square of the data, and models write the data.
                if self.element.is_some() {
                    return Err(self.error(
                        id,
                        "a loop inside a loop is not allowed",
                        "`all`, `exists`, `map` and `filter` may follow one another but not nest",
                    ));
                }
                self.element = Some(each.iter_var.clone());
                for part in [&mut each.loop_cond, &mut each.loop_step, &mut each.result] {
                    self.node(part)?;
                }
                self.element = None;
                Ok(())
            }
            Node::Struct(_) => {
                Err(self.error(id, "types cannot be built here", "write a map: `{'key': value}`"))
            }
            Node::Unspecified => Err(self.error(id, "a part of the expression is missing", "complete it")),
        }
    }

    fn variable(&mut self, id: u64, name: &str) -> Result<(), ExprError> {
        // Names with `@` are the library's own: accumulators of its loops.
        if name.starts_with('@') || self.element.as_deref() == Some(name) {
            return Ok(());
        }
        // CEL language definition, "Name Resolution": a leading dot means the outermost scope.
        let name = name.trim_start_matches('.');
        if self.known.contains(&name) {
            if !self.found.variables.iter().any(|variable| variable == name) {
                self.found.variables.push(name.to_owned());
            }
            return Ok(());
        }
        // Names of types are values in CEL: `type(x) == string`.
        if TYPES.contains(&name) {
            return Ok(());
        }
        let names = self.known.iter().copied().chain(self.element.as_deref());
        let help = match closest(name, names.clone().chain(CONSTANTS)) {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => match names.map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ") {
                list if list.is_empty() => "no variables are known here".to_owned(),
                list => format!("known here: {list}"),
            },
        };
        let mut error = self.error(id, &format!("`{name}` is not known here"), &help);
        error.at = error.at.filter(|at| self.text.get(at.clone()) == Some(name));
        Err(error)
    }

    fn call(&mut self, id: u64, call: &mut CallExpr) -> Result<(), ExprError> {
        if let Some(target) = &mut call.target {
            self.node(target)?;
        }
        let name = call.func_name.clone();
        if name.starts_with(['_', '@', '!', '-']) {
            return call.args.iter_mut().try_for_each(|argument| self.node(argument));
        }
        if let Some((_, usage)) = MACROS.iter().find(|(macro_name, _)| *macro_name == name) {
            return Err(self.error(
                id,
                &format!("`{name}` is not called like this"),
                &format!("write `{usage}`"),
            ));
        }
        let Some((_, style, takes, usage)) = FUNCTIONS.iter().find(|(function, ..)| *function == name) else {
            let help = function_meant(&name);
            return Err(self.error(id, &format!("there is no function `{name}`"), &help));
        };
        let given = call.args.len().saturating_add(usize::from(call.target.is_some()));
        let styled = match call.target {
            Some(_) => *style != CallStyle::Function,
            None => *style != CallStyle::Method,
        };
        // The library would find it out only when the expression is evaluated.
        if given != *takes || !styled {
            return Err(self.error(
                id,
                &format!("`{name}` is not called like this"),
                &format!("write `{usage}`"),
            ));
        }
        call.args.iter_mut().try_for_each(|argument| self.node(argument))?;
        if name == "matches" { self.compile(id, call) } else { Ok(()) }
    }

    /// Compiles the pattern of a `matches` and puts its number in its place.
    fn compile(&mut self, id: u64, call: &mut CallExpr) -> Result<(), ExprError> {
        let written = call.args.pop();
        let pattern = match &written {
            // A pattern from the data would be compiled at every evaluation, as large as a model likes.
            Some(IdedExpr { expr: Node::Literal(LiteralValue::String(pattern)), .. }) => pattern.inner(),
            _ => {
                return Err(self.error(
                    id,
                    "the pattern of `matches` must be written out",
                    "write it as a string: `text.matches('^a+$')`",
                ));
            }
        };
        // A small bound first, so that the cost of a usual pattern is known without measuring it.
        let within = |limit: usize| RegexBuilder::new(pattern).size_limit(limit).build();
        let (regex, cost) = match within(SMALL_REGEX_BYTES) {
            Err(regex::Error::CompiledTooBig(_)) => (within(MAX_REGEX_BYTES), LARGE_REGEX_COST),
            small => (small, SMALL_REGEX_COST),
        };
        let literal = written.as_ref().map(|written| written.id);
        let regex = regex.map_err(|why| self.not_a_pattern(id, literal, pattern, &why))?;
        self.found.cost = self.found.cost.saturating_add(cost);
        if self.found.cost > MAX_REGEX_COST {
            return Err(self.error(id, "the patterns of the expression are too large", "shorten them"));
        }
        let number = i64::try_from(self.found.regexes.len()).unwrap_or(i64::MAX);
        self.found.regexes.push(regex);
        let number = IdedExpr { id, expr: Node::Literal(LiteralValue::Int(number.into())) };
        MATCHES.clone_into(&mut call.func_name);
        call.args.extend(call.target.take().map(|target| *target));
        call.args.push(number);
        Ok(())
    }

    /// What is wrong with a pattern, at its place inside the string where that is known.
    fn not_a_pattern(&self, id: u64, literal: Option<u64>, pattern: &str, why: &regex::Error) -> ExprError {
        let told = why.to_string();
        let why = match why {
            regex::Error::CompiledTooBig(_) => "it is too large",
            _ => told.lines().last().unwrap_or("").trim_start_matches("error: "),
        };
        let help = match why {
            why if why.contains("unclosed") => {
                "close it, or escape the sign: `\\\\(` in a string, `\\(` in r'…'"
            }
            why if why.contains("repetition operator missing") => {
                "`*`, `+` and `?` repeat what comes before them; any text is `.*`"
            }
            why if why.contains("unopened") => {
                "open it, or escape the sign: `\\\\)` in a string, `\\)` in r'…'"
            }
            why if why.contains("look-around") => "look-around and back-references are not supported",
            _ => "correct the pattern",
        };
        let message = format!("the pattern of `matches` is not a regular expression: {why}");
        let mut error = self.error(id, &message, help);
        let inside = || {
            let (from, _) = self.positions.offset_for(literal?)?;
            let from = usize::try_from(from).ok()?;
            let at = from.saturating_add(self.text.get(from..)?.find(pattern)?);
            let marked = caret(&told)?;
            let before: usize = pattern.chars().take(marked.start).map(char::len_utf8).sum();
            let length: usize = pattern
                .chars()
                .skip(marked.start)
                .take(marked.len())
                .map(char::len_utf8)
                .sum::<usize>()
                .max(1);
            let start = at.saturating_add(before);
            Some(start..start.saturating_add(length).min(self.text.len()))
        };
        error.at = inside().or(error.at);
        error
    }

    fn error(&self, id: u64, message: &str, help: &str) -> ExprError {
        ExprError { message: message.to_owned(), at: self.position(id), help: Some(help.to_owned()) }
    }

    /// Where the node is written: its operator or first token, and the name of a function with it.
    fn position(&self, id: u64) -> Option<Range<usize>> {
        let (start, last) = self.positions.offset_for(id)?;
        let (start, end) = (usize::try_from(start).ok()?, usize::try_from(last).ok()?.saturating_add(1));
        if self.text.get(start..end)? != "(" {
            return Some(start..end);
        }
        let before = self.text.get(..start)?.trim_end();
        let name = before.rsplit(|c: char| !c.is_ascii_alphanumeric() && c != '_').next()?;
        Some(before.len().saturating_sub(name.len())..before.len())
    }
}

/// The characters of a pattern of one line that the reader of patterns marks below it.
fn caret(told: &str) -> Option<Range<usize>> {
    let mut lines = told.lines().skip(1);
    let (pattern, marks) = (lines.next()?, lines.next()?);
    let indent = pattern.len().saturating_sub(pattern.trim_start_matches(' ').len()).min(INDENT);
    let start = marks.find('^')?;
    let length = marks.get(start..)?.chars().take_while(|c| *c == '^').count();
    Some(start.saturating_sub(indent)..start.saturating_sub(indent).saturating_add(length))
}

/// What to write for a function that there is not.
fn function_meant(name: &str) -> String {
    let names = FUNCTIONS.iter().map(|(name, ..)| *name).chain(MACROS.iter().map(|(name, _)| *name));
    let elsewhere = ELSEWHERE.iter().find(|(elsewhere, _)| elsewhere.contains(&name));
    match (closest(name, names.clone()), elsewhere) {
        (Some(meant), _) => format!("did you mean `{meant}`?"),
        (None, Some((_, usage))) => format!("write `{usage}`"),
        (None, None) => {
            let names: Vec<String> = names.map(|name| format!("`{name}`")).collect();
            format!("the functions are {}", names.join(", "))
        }
    }
}
