//! What repairs a value is decided by its type: a repair is offered if the type takes what it writes.

use core::ops::Range;

use super::{Decode, NodeReader};
use crate::policy::Findings;
use crate::text::yaml::{self, YamlData, YamlNode};
use crate::text::{Code, Diagnostic, Fix, SourceId, Span};
use crate::text::{
    Problems,
    scalar::{self, PlainScalar, decimal, octal},
};

impl NodeReader<'_> {
    /// Reads a value. Where it cannot be used, only such repairs of it are offered as its type takes.
    pub(crate) fn value<T: Decode>(&mut self, node: &YamlNode) -> Option<T> {
        let before = self.findings.problems().errors();
        let value = T::decode(node, self);
        let reported = matches!(node.data, YamlData::Reported);
        if (reported || self.findings.problems().errors() > before) && !self.findings.problems().is_crowded()
        {
            self.settle::<T>(node);
        }
        value
    }

    fn settle<T: Decode>(&mut self, node: &YamlNode) {
        // A problem within a collection belongs to one of its entries, not to the collection.
        let leaf = !matches!(node.data, YamlData::List(_) | YamlData::Map(_));
        let (raw, text) = (self.text(node.span), self.text);
        let about = |problem: &Diagnostic| {
            problem.span == node.span || leaf && problem.fix.as_ref().is_some_and(|fix| within(fix, node))
        };
        let Some(problem) = self.findings.problems_mut().recent(about) else { return };
        let scalar = match &node.data {
            YamlData::Reported if problem.code == Code::AMBIGUOUS => Some(raw),
            YamlData::Text(inner) if problem.code == Code::WRONG_TYPE && raw.len() > inner.len() => {
                Some(&**inner)
            }
            _ => None,
        };
        if let Some(fix) = &problem.fix {
            // A repair is written into the text and read again. One that the type would refuse must not be offered.
            if leaf && within(fix, node) || fix.span == node.span {
                let taken = replaced(text, node.span, fix).is_some_and(|(text, at)| takes::<T>(&text, &at));
                problem.fix = problem.fix.take().filter(|_| taken);
            }
        } else if let Some(scalar) = scalar {
            let (fix, help) = meant::<T>(scalar, node);
            if fix.is_some() || help.is_some() {
                problem.help = help.into_iter().collect();
                problem.fix = fix;
            }
        }
    }

    /// Keeps the repair of a text that is no YAML whose fields take what it writes, if that is one alone.
    pub(super) fn settle_syntax<T: Decode>(&mut self, source: SourceId) {
        let text = self.text;
        let whole = Span::new(source, 0, u32::try_from(text.len()).unwrap_or(u32::MAX));
        let others = self.findings.problems_mut().readings();
        let several = !others.is_empty();
        let broken = |problem: &Diagnostic| problem.code == Code::SYNTAX && problem.span.source == source;
        let Some(problem) = self.findings.problems_mut().recent(broken) else { return };
        // A broken line may be repaired in several ways. Only one that its fields take, and the only one, is
        // certain.
        let (mut taken, mut refused) = (Vec::new(), None);
        for fix in problem.fix.take().into_iter().chain(others) {
            match replaced(text, whole, &fix).and_then(|(after, at)| refusal::<T>(&after, &at)) {
                None => taken.push(fix),
                Some(message) => {
                    refused =
                        refused.or(fix.title.map(|title| format!("to {title} is not enough: {message}")));
                }
            }
        }
        match <[Fix; 1]>::try_from(taken) {
            Ok([fix]) => {
                if several {
                    problem.help.clear();
                }
                problem.fix = Some(fix);
            }
            Err(taken) if taken.is_empty() => {
                if several {
                    problem.help.clear();
                }
                problem.help.extend(refused);
            }
            Err(_) => {}
        }
    }
}

/// `key:value` or `key = value` in place of a mapping.
pub(super) fn of_pair(
    problem: Diagnostic,
    span: Span,
    pair: &yaml::TextPair,
    (raw, begins_line): (&str, bool),
) -> Diagnostic {
    let problem = problem.help(match pair.sign {
        ':' => "a space is missing after `:`",
        _ => "`=` stands where `:` and a space are due",
    });
    let key = raw.get(..pair.key).unwrap_or_default();
    let value = raw.get(pair.value..).unwrap_or_default();
    if !begins_line {
        return problem.fix(span, "write a mapping", format!("{{{key}: {value}}}"));
    }
    let at = |at: usize| span.start.saturating_add(u32::try_from(at).unwrap_or_default());
    match pair.sign {
        ':' => problem.fix(Span { start: at(pair.value), end: at(pair.value), ..span }, pair.title(), " "),
        _ => problem.fix(Span { start: at(pair.key), end: at(pair.value), ..span }, pair.title(), ": "),
    }
}

/// What a scalar is meant to be, if its type takes one thing only: a text in quotes, or a number in plain decimals; and what
/// may be written if it takes more.
fn meant<T: Decode>(written: &str, node: &YamlNode) -> (Option<Fix>, Option<String>) {
    let fix = |title: &str, text: String| Some(Fix { span: node.span, title: Some(title.to_owned()), text });
    let whole = |text: &str| 0..text.len();
    let plain = matches!(scalar::read(written), Ok(PlainScalar::Number(_))).then(|| written.to_owned());
    let number = plain.or_else(|| decimal(written)).filter(|number| takes::<T>(number, &whole(number)));
    let quoted = format!("\"{written}\"");
    let is_text = matches!(node.data, YamlData::Reported) && takes::<T>(&quoted, &whole(&quoted));
    match number {
        None if is_text => (fix("quote it", quoted), None),
        None => (None, None),
        Some(number) if is_text => (None, Some(format!("write `{number}`, or quote it if it is a text"))),
        // `010` is eight in YAML 1.1 and ten in the core schema of YAML 1.2.2, so both readings are offered.
        Some(number) => match octal(written).filter(|octal| *octal != number) {
            Some(octal) => (None, Some(format!("write `{number}`, or `{octal}` if it is meant as octal"))),
            None if number == written => (fix("remove the quotes", number), None),
            None => (fix("write a plain decimal number", number), None),
        },
    }
}

/// Whether a type takes a text in place of a value: it can be read, and nothing at `at` is refused.
fn takes<T: Decode>(text: &str, at: &Range<usize>) -> bool {
    yaml::parse(SourceId(0), text, &mut Problems::default()).is_some() && refusal::<T>(text, at).is_none()
}

/// Why a type does not take what is at `at` in a text.
fn refusal<T: Decode>(text: &str, at: &Range<usize>) -> Option<String> {
    let mut findings = Findings::default();
    // Behind the next mistake nothing can be read yet, so the text ends before it.
    let text = yaml::readable(text).filter(|lines| lines.len() >= at.end).unwrap_or(text);
    if let Some(node) = yaml::parse(SourceId(0), text, findings.problems_mut()) {
        let _ = T::decode(&node, &mut NodeReader::new(text, &mut findings));
    }
    let touched = |problem: &Diagnostic| {
        let span = problem.span.range();
        at.start < span.end && span.start < at.end
    };
    findings.problems_mut().recent(touched).map(|problem| problem.message.clone())
}

fn within(fix: &Fix, node: &YamlNode) -> bool {
    fix.span.source == node.span.source && node.span.start <= fix.span.start && fix.span.end <= node.span.end
}

/// A part of a text with a repair, and where in it that is.
fn replaced(text: &str, part: Span, fix: &Fix) -> Option<(String, Range<usize>)> {
    let (part, at) = (part.range(), fix.span.range());
    let (before, after) = (text.get(part.start..at.start)?, text.get(at.end..part.end)?);
    let end = before.len().saturating_add(fix.text.len());
    Some((format!("{before}{}{after}", fix.text), before.len()..end))
}
