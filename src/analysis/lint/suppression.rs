//! Comments that suppress findings: `# unfazed: ignore[W0202] reason`, on the line above or at the end of the line.

use std::collections::BTreeMap;

use granit_parser::{Event, Parser};

use super::LintOptions;
use crate::policy::builtin::BUILTIN_TEXTS;
use crate::text::did_you_mean::closest;
use crate::text::{Code, Diagnostic, Source, SourceId, Sources, Span};

/// What such a comment begins with.
const MARK: &str = "unfazed:";
/// What it begins with if it is not written well.
const NAME: &str = "unfazed";

/// A lint that a comment suppresses.
struct LintSuppression {
    code: Code,
    /// The line whose findings it suppresses.
    line: u32,
    span: Span,
    used: bool,
}

/// Whether an unused suppression of that lint means that there is nothing to suppress. Some findings show only
/// when the host's tools are known, or several files are read together.
pub(super) fn decidable(code: Code, options: &LintOptions, files: usize) -> bool {
    match code {
        Code::DEAD_SELECTOR | Code::AMPLIFICATION | Code::NON_IDEMPOTENT => {
            options.tools.is_some() && options.models.is_some()
        }
        Code::UNKNOWN_ARGUMENT => options.tools.is_some(),
        Code::NO_VALUE => options.tools.is_some() || options.witnesses.is_some(),
        Code::BLOCKED => files > 1,
        _ => true,
    }
}

/// What is left of the problems, with what is wrong with the suppressions. `held`: whether an unused suppression of a
/// lint in that file is reported.
pub(super) fn apply(
    sources: &Sources,
    problems: Vec<Diagnostic>,
    held: impl Fn(SourceId, Code) -> bool,
) -> Vec<Diagnostic> {
    let mut left = Vec::new();
    let mut found: Vec<LintSuppression> = Vec::new();
    for (number, source) in (0_u16..).zip(sources.iter()).skip(BUILTIN_TEXTS) {
        if source.text().contains(NAME) {
            comments(SourceId(number), source, &mut found, &mut left);
        }
    }
    let mut by_line: BTreeMap<(SourceId, u32, Code), Vec<usize>> = BTreeMap::new();
    for (number, one) in found.iter().enumerate() {
        by_line.entry((one.span.source, one.line, one.code)).or_default().push(number);
    }
    for problem in problems {
        let lines = sources.get(problem.span.source).map(|source| lines(source, problem.span));
        // Where the names are known it is an error; whoever means it says so in the same words.
        let code = if problem.code == Code::NO_SUCH_NAME { Code::DEAD_SELECTOR } else { problem.code };
        let keys = lines.into_iter().flatten().map(|line| (problem.span.source, line, code));
        let suppressed: Vec<usize> = keys.filter_map(|key| by_line.get(&key)).flatten().copied().collect();
        for number in &suppressed {
            if let Some(one) = found.get_mut(*number) {
                one.used = true;
            }
        }
        if suppressed.is_empty() {
            left.push(problem);
        }
    }
    let unused = found.iter().filter(|one| !one.used && held(one.span.source, one.code));
    left.extend(unused.map(|one| {
        let message = format!("this suppression is unused: there is no {} here", one.code);
        Diagnostic::warning(Code::UNUSED_SUPPRESSION, one.span, message).help("remove it from the comment")
    }));
    left
}

/// The lines a finding belongs to: the one it is in, and that of its key if it begins below it.
fn lines(source: &Source, span: Span) -> Vec<u32> {
    let line = source.line(span.start);
    let start = source.lines(line, line).start;
    let before = source.text().get(start..span.range().start).unwrap_or_default();
    let begins = before.trim_matches([' ', '\t', '-']).is_empty();
    let above = line.checked_sub(1).filter(|above| begins && *above > 0);
    let key = above.filter(|above| {
        let text = source.text().get(source.lines(*above, *above)).unwrap_or_default();
        text.trim_end().ends_with(':')
    });
    [Some(line), key].into_iter().flatten().collect()
}

/// Reads the comments of a text that suppress something.
fn comments(id: SourceId, source: &Source, found: &mut Vec<LintSuppression>, problems: &mut Vec<Diagnostic>) {
    let text = source.text();
    // As many as there are: the text is bounded, and it has been read before.
    let options = granit_parser::options! { emit_comments: true, max_buffered_comment_events: usize::MAX };
    let (mut own, mut read) = (Vec::new(), Vec::new());
    for event in Parser::new_from_str_with_options(text, options) {
        let Ok((event, at)) = event else { break };
        let (Event::Comment(said, _), Some(range)) = (event, at.byte_range()) else { continue };
        let start = u32::try_from(range.start).unwrap_or(u32::MAX);
        let line = source.line(start);
        let first = source.lines(line, line).start;
        let alone = text.get(first..range.start).is_some_and(|before| before.trim().is_empty());
        if alone {
            own.push(line);
        }
        if is_meant(said.trim_start()) {
            read.push((said.into_owned(), start, line, alone));
        }
    }
    let below = below(&own);
    for (said, start, line, alone) in read {
        let target = below.get(&line).copied().filter(|_| alone).unwrap_or(line);
        let comment = MarkedComment { said: &said, id, start };
        match comment.read() {
            Ok(codes) => found.extend(codes.into_iter().map(|(code, span)| LintSuppression {
                code,
                line: target,
                span,
                used: false,
            })),
            Err(problem) => problems.push(*problem),
        }
    }
}

/// Whether a comment is for the product, well written or not: `unfazed ignore[W0202]` is.
fn is_meant(said: &str) -> bool {
    let Some(rest) = said.strip_prefix(NAME) else { return false };
    said.starts_with(MARK) || rest.trim_start_matches([' ', '-', '_', ':', '=']).starts_with("ignore")
}

/// The line below each line that holds nothing but a comment, and below all such lines that follow.
fn below(own: &[u32]) -> BTreeMap<u32, u32> {
    let mut below = BTreeMap::new();
    for line in own.iter().rev() {
        let next = line.saturating_add(1);
        let target = below.get(&next).copied().unwrap_or(next);
        below.insert(*line, target);
    }
    below
}

/// A comment that begins with the mark; `said` is what follows the `#`.
struct MarkedComment<'c> {
    said: &'c str,
    id: SourceId,
    start: u32,
}

impl MarkedComment<'_> {
    /// The lints it suppresses, each with its place.
    fn read(&self) -> Result<Vec<(Code, Span)>, Box<Diagnostic>> {
        const FORM: &str = "write `# unfazed: ignore[W0202] why this is meant`";
        let wrong =
            |span, message: &str| Box::new(Diagnostic::error(Code::SUPPRESSION, span, message).help(FORM));
        let whole = self.span(self.said.trim());
        if !self.said.trim_start().starts_with(MARK) {
            return Err(wrong(whole, "this comment suppresses nothing: it does not begin with `unfazed:`"));
        }
        let order = self.said.trim_start().strip_prefix(MARK).unwrap_or_default().trim_start();
        let Some(list) = order.strip_prefix("ignore[") else {
            return Err(wrong(whole, "this comment is for `unfazed check`, but its directive is unknown"));
        };
        let Some((list, reason)) = list.split_once(']') else {
            return Err(wrong(whole, "the list of lints has no end"));
        };
        if list.split(',').count() > Code::ALL.len() {
            return Err(wrong(whole, "this comment names more lints than there are"));
        }
        let codes: Vec<_> = list.split(',').map(|name| self.code(name.trim())).collect();
        let codes = codes.into_iter().collect::<Result<Vec<_>, _>>()?;
        if reason.trim().is_empty() {
            return Err(wrong(whole, "a suppression needs a reason"));
        }
        Ok(codes)
    }

    fn code(&self, name: &str) -> Result<(Code, Span), Box<Diagnostic>> {
        let span = self.span(name);
        let suppressible = |code: &&Code| code.is_lint() && **code != Code::UNUSED_SUPPRESSION;
        let known = Code::ALL.iter().filter(suppressible);
        if let Some(code) = known.clone().find(|code| code.as_str() == name) {
            return Ok((*code, span));
        }
        let problem = if Code::ALL.iter().any(|code| code.as_str() == name) {
            let message = format!("`{name}` cannot be suppressed");
            Diagnostic::error(Code::SUPPRESSION, span, message).help("repair the error instead")
        } else {
            let message = format!("there is no lint `{name}`");
            let problem = Diagnostic::error(Code::SUPPRESSION, span, message);
            match closest(name, known.clone().map(|code| code.as_str())) {
                Some(meant) => problem.meant(span, name, meant, known.map(|code| code.as_str())),
                None => problem.help("`unfazed rule` lists them"),
            }
        };
        Err(Box::new(problem))
    }

    /// Where a piece of the comment is.
    fn span(&self, piece: &str) -> Span {
        let offset = piece.as_ptr().addr().saturating_sub(self.said.as_ptr().addr());
        let at = |offset: usize| {
            // The `#` comes before the comment.
            let offset = u32::try_from(offset.saturating_add(1)).unwrap_or_default();
            self.start.saturating_add(offset)
        };
        Span::new(self.id, at(offset), at(offset.saturating_add(piece.len())))
    }
}
