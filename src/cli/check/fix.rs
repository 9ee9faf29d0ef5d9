//! Certain repairs, made in the files: each is tried before it is kept, and what it would change elsewhere refuses it.

use std::collections::{HashSet, VecDeque};
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::host::PolicyFiles;
use crate::text::yaml::is_kept;
use crate::text::{Diagnostic, Place, Report, Severity, Span, without_secrets};

use super::unified;
use super::{FileChecker, FileKind, files, named};
use crate::cli::exit::CommandFailure;

/// One repair may bring up the next; no file needs so many rounds.
const MOST_ROUNDS: usize = 200;
/// The mark that may come before a text; spans do not count it.
const BOM: &[u8] = "\u{feff}".as_bytes();

/// A file with its repairs.
pub(super) struct FixedFile {
    path: PathBuf,
    before: Vec<u8>,
    after: Vec<u8>,
    count: usize,
}

/// Files with all repairs that are certain: of those that are given, and of those they name.
pub(super) fn repair(paths: &[PathBuf], checker: &FileChecker<'_>) -> Vec<FixedFile> {
    let mut queue: VecDeque<PathBuf> = paths.iter().cloned().collect();
    let (mut seen, mut repaired) = (HashSet::new(), Vec::new());
    while let Some(path) = queue.pop_front() {
        if !seen.insert(files::one(&path)) {
            continue;
        }
        let Ok(before) = files::read(&path) else { continue };
        let (after, count, named) = repaired_text(&path, &before, checker);
        queue.extend(named);
        if count > 0 {
            repaired.push(FixedFile { path, before, after, count });
        }
    }
    repaired
}

/// The bytes of a file with its repairs, how many these are, and the other files in which something is to be repaired.
fn repaired_text(path: &Path, bytes: &[u8], checker: &FileChecker<'_>) -> (Vec<u8>, usize, Vec<PathBuf>) {
    let (mark, text) = bytes.strip_prefix(BOM).map_or((&[][..], bytes), |text| (BOM, text));
    let Ok(text) = std::str::from_utf8(text) else { return (bytes.to_vec(), 0, Vec::new()) };
    let attempt = RepairAttempt { path, checker };
    let mut elsewhere = Vec::new();
    let (mut text, mut count) = (text.to_owned(), 0);
    for _ in 0..MOST_ROUNDS {
        let found = attempt.look(&text);
        elsewhere.extend(found.iter().flat_map(|report| attempt.named(report)));
        let repairs = attempt.repairs(&text, &found);
        let Some((after, made)) = attempt.apply(&text, &found, &repairs) else { break };
        (text, count) = (after, count + made);
    }
    ([mark, text.as_bytes()].concat(), count, elsewhere)
}

/// A replacement of bytes.
#[derive(Clone, PartialEq, Eq)]
struct ByteRepair {
    at: Range<usize>,
    text: String,
}

/// Repairs of one file.
struct RepairAttempt<'a> {
    path: &'a Path,
    checker: &'a FileChecker<'a>,
}

impl RepairAttempt<'_> {
    fn look(&self, text: &str) -> Vec<Report> {
        self.checker.look(self.path, text.as_bytes()).0
    }

    fn is_here(&self, report: &Report, span: Span) -> bool {
        report.sources().get(span.source).is_some_and(|source| Path::new(source.name()) == self.path)
    }

    /// The problems that are in this file, with their bytes in its text.
    fn own<'r>(
        &'r self,
        found: &'r [Report],
        text: &'r str,
    ) -> impl Iterator<Item = (&'r Diagnostic, Range<usize>)> {
        let all = found.iter().flat_map(|report| report.all().iter().map(move |problem| (report, problem)));
        let here = all.filter(|(report, problem)| self.is_here(report, problem.span));
        here.filter_map(|(report, problem)| Some((problem, bytes(text, report, problem.span)?)))
    }

    /// The other files that have a repair. What ships with the product is no file.
    fn named(&self, report: &Report) -> Vec<PathBuf> {
        let fixes = report.all().iter().filter_map(|problem| problem.fix.as_ref());
        let others = fixes.filter(|fix| !self.is_here(report, fix.span));
        let names = others.filter_map(|fix| report.sources().get(fix.span.source));
        names.map(|source| PathBuf::from(source.name())).filter(|path| path.is_file()).collect()
    }

    /// The repairs of this file, in the order of the text; none of two that meet and differ.
    fn repairs(&self, text: &str, found: &[Report]) -> Vec<ByteRepair> {
        let mut all: Vec<ByteRepair> = Vec::new();
        for report in found {
            let here = report.all().iter().filter_map(|problem| problem.fix.as_ref());
            for fix in here.filter(|fix| self.is_here(report, fix.span)) {
                let repair =
                    bytes(text, report, fix.span).map(|at| ByteRepair { at, text: fix.text.clone() });
                all.extend(repair.filter(|repair| !all.contains(repair)));
            }
        }
        all.sort_by_key(|repair| (repair.at.start, repair.at.end));
        // One may end where the other begins, but for insertions: their order is unknown.
        let meets = |one: &ByteRepair, other: &ByteRepair| {
            let inserts = one.at.is_empty() || other.at.is_empty();
            let beside = one.at.start == other.at.end || other.at.start == one.at.end;
            let touch = one.at.start <= other.at.end && other.at.start <= one.at.end;
            one != other && touch && (inserts || !beside)
        };
        all.iter().filter(|one| !all.iter().any(|other| meets(one, other))).cloned().collect()
    }

    /// The text with all repairs, or with the first of them that can be made; and how many were made.
    fn apply(&self, text: &str, found: &[Report], repairs: &[ByteRepair]) -> Option<(String, usize)> {
        if repairs.is_empty() {
            return None;
        }
        let each = repairs.iter().map(std::slice::from_ref);
        let groups = std::iter::once(repairs).chain(each.filter(|_| repairs.len() > 1));
        groups.into_iter().find_map(|group| {
            let after = with(text, group)?;
            self.is_sound(text, &after, found, group).then_some((after, group.len()))
        })
    }

    /// Whether the repairs repair something and change nothing else: comments, values, and what holds for any tool, model
    /// or turn.
    fn is_sound(&self, before: &str, after: &str, found: &[Report], repairs: &[ByteRepair]) -> bool {
        let replaced: Vec<Range<usize>> = repairs.iter().map(|repair| repair.at.clone()).collect();
        if !is_kept(before, after, &replaced) {
            return false;
        }
        let written = written(repairs);
        let errors = |reports: &[Report], text: &str| -> Vec<(String, Range<usize>)> {
            let own = self.own(reports, text).filter(|(problem, _)| problem.severity == Severity::Error);
            own.map(|(problem, at)| (format!("{} {}", problem.code, problem.message), at)).collect()
        };
        let (old, new) = (errors(found, before), errors(&self.look(after), after));
        // A repair that is refused next was none; what it brings to light elsewhere was there before.
        let refused = new.iter().any(|(said, at)| {
            let touched = written.iter().any(|range| range.start < at.end && at.start < range.end);
            touched && !old.iter().any(|(before, _)| before == said)
        });
        let stands = |all: &[(String, Range<usize>)], what: &str, ranges: &[Range<usize>]| {
            let meets =
                |at: &Range<usize>| ranges.iter().any(|range| range.start < at.end && at.start < range.end);
            all.iter().any(|(said, at)| said == what && meets(at))
        };
        // The reader of YAML stops at the first slip: behind it there may be another one of the same kind.
        let moved =
            old.iter().any(|(said, _)| stands(&old, said, &replaced) && !stands(&new, said, &written));
        let (old_said, new_said) = (said(&old), said(&new));
        !refused && (moved || old_said != new_said) && self.same_elsewhere(before, after, &replaced, &written)
    }

    /// Whether what a policy makes of both texts differs only where a repair stands.
    fn same_elsewhere(
        &self,
        before: &str,
        after: &str,
        replaced: &[Range<usize>],
        written: &[Range<usize>],
    ) -> bool {
        if named::kind(after.as_bytes()) != FileKind::Policy {
            return true;
        }
        let name = self.path.display().to_string();
        let loader = self.checker.loader();
        let compared = PolicyFiles::new().compare(&loader, &name, before.as_bytes(), after.as_bytes());
        // Of a text that cannot be read there is nothing to keep.
        let Some(compared) = compared else { return true };
        let stands = |place: &Option<Place>, text: &str, ranges: &[Range<usize>]| {
            let line = |at: usize| text.get(..at).unwrap_or(text).matches('\n').count() + 1;
            place.as_ref().is_some_and(|place| {
                let here = usize::try_from(place.line).unwrap_or_default();
                place.file == name
                    && ranges.iter().any(|range| (line(range.start)..=line(range.end)).contains(&here))
            })
        };
        // An entry of a list that could not be read counted for nothing: with the repair all of it counts.
        let entries: Vec<_> = written.iter().map(|range| entry(after, range)).collect();
        let mut rows = compared.groups.iter().flat_map(|group| &group.rows);
        rows.all(|row| stands(&row.new_at, after, &entries) || stands(&row.old_at, before, replaced))
    }
}

/// The entry of a list in block style that a range stands in, from its dash to its last line; else the range.
fn entry(text: &str, range: &Range<usize>) -> Range<usize> {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let end =
        text.get(range.start..).and_then(|rest| rest.find('\n')).map_or(text.len(), |at| range.start + at);
    let (mut first, mut column) = (end, usize::MAX);
    for line in text.get(..end).unwrap_or_default().split_inclusive('\n').rev() {
        first -= line.len();
        if line.trim().is_empty() || indent(line) >= column {
            continue;
        }
        column = indent(line);
        if line.trim_start().starts_with("- ") {
            let mut below = text.get(first..).unwrap_or_default().split_inclusive('\n');
            let dash = below.next().map_or(0, str::len);
            let inside = |line: &&str| line.trim().is_empty() || indent(line) > column;
            let length = dash + below.take_while(inside).map(str::len).sum::<usize>();
            return first..(first + length.saturating_sub(1)).max(range.end);
        }
    }
    range.clone()
}

/// The bytes of a span in the text of its file. A policy inside a test file is a text of its own, in which every byte
/// keeps its line and column.
fn bytes(text: &str, report: &Report, span: Span) -> Option<Range<usize>> {
    let sources = report.sources();
    if sources.get(span.source)?.text() == text {
        return Some(span.start as usize..span.end as usize);
    }
    let start = sources.place_of(span);
    Some(offset(text, (start.line, start.column))?..offset(text, sources.end_of(span))?)
}

/// The byte at a line and a column, both from 1.
fn offset(text: &str, (line, column): (u32, u32)) -> Option<usize> {
    let above = usize::try_from(line).ok()?.checked_sub(1)?;
    let before: usize = text.split_inclusive('\n').take(above).map(str::len).sum();
    let rest = text.get(before..)?.split('\n').next()?;
    let chars = usize::try_from(column).ok()?.checked_sub(1)?;
    let inside = rest.char_indices().map(|(at, _)| at).chain([rest.len()]).nth(chars)?;
    Some(before + inside)
}

/// What is said of problems, in order.
fn said(problems: &[(String, Range<usize>)]) -> Vec<&String> {
    let mut said: Vec<&String> = problems.iter().map(|(said, _)| said).collect();
    said.sort_unstable();
    said
}

/// The text with repairs, which are in order and do not meet.
fn with(text: &str, repairs: &[ByteRepair]) -> Option<String> {
    let (mut after, mut at) = (String::with_capacity(text.len()), 0);
    for repair in repairs {
        after.push_str(text.get(at..repair.at.start)?);
        after.push_str(&repair.text);
        at = repair.at.end;
    }
    after.push_str(text.get(at..)?);
    Some(after)
}

/// Where the repairs stand in the text that has them.
fn written(repairs: &[ByteRepair]) -> Vec<Range<usize>> {
    let (mut more, mut less) = (0, 0);
    let place = |repair: &ByteRepair| {
        let start = repair.at.start + more - less;
        more += repair.text.len();
        less += repair.at.len();
        start..start + repair.text.len()
    };
    repairs.iter().map(place).collect()
}

impl FixedFile {
    /// As the file is called.
    pub(super) fn name(&self) -> String {
        self.path.display().to_string()
    }

    /// How many repairs there are.
    pub(super) const fn count(&self) -> usize {
        self.count
    }

    /// The repairs as a unified diff, without the secrets that stand beside them.
    pub(super) fn diff(&self) -> String {
        let [old, new] =
            [&self.before, &self.after].map(|bytes| without_secrets(&String::from_utf8_lossy(bytes)));
        unified::diff(&self.name(), &old, &new)
    }

    /// Puts the repaired text in the file's place, at once: whoever reads it sees the old one or the new one.
    pub(super) fn write(&self) -> Result<(), CommandFailure> {
        replace(&self.path, &self.before, &self.after)
            .map_err(|error| CommandFailure::io(format!("cannot repair {}", self.name()), error))
    }
}

/// Replaces a file, or the one a link leads to, by a new one with the same permissions.
fn replace(path: &Path, before: &[u8], after: &[u8]) -> io::Result<()> {
    let path = path.canonicalize()?;
    if fs::read(&path)? != before {
        return Err(io::Error::other("it was changed meanwhile"));
    }
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let new = path.with_file_name(format!(".{name}.{}.new", std::process::id()));
    let written = OpenOptions::new().write(true).create_new(true).open(&new).and_then(|mut file| {
        file.set_permissions(fs::metadata(&path)?.permissions())?;
        file.write_all(after)?;
        file.sync_all()?;
        fs::rename(&new, &path)
    });
    if written.is_err() {
        // What is left of it is of no use; that it cannot be removed adds nothing.
        let _ = fs::remove_file(&new);
    }
    written
}
