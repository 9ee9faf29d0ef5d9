//! A comparison for people, as aligned text, and for machines, as JSON.

use core::fmt;

use serde_json::{Value, json};

use super::{DiffGroup, DiffRow, DiffSubject, DiffVerdict, PolicyComparison, SubjectKind};
use crate::policy::display::flow;
use crate::text::excerpt;
use crate::text::{Place, columns, padded};

/// Longer values are cut in the text; the JSON holds them whole.
const LONGEST: usize = 96;
/// Longer values do not stand side by side.
const BESIDE: usize = 24;
/// Fields with longer names stand on a line of their own.
const FIELD: usize = 72;
/// So many subjects of a group are named in the text.
const NAMED: usize = 3;

impl fmt::Display for PolicyComparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = |count: usize, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
        let (tools, models) = (count(self.tools, "tool"), count(self.models, "model"));
        if self.is_empty() {
            let found = if self.incomplete { " found" } else { "" };
            writeln!(
                f,
                "no difference{found}: {tools} and {models} compared (patterns count as one each), and the turns, the \
                 report, the session, the table of errors"
            )?;
        }
        for group in &self.groups {
            writeln!(f, "{}\n{group}", self.title(group))?;
        }
        if !self.is_empty() {
            let of = |verdict| {
                self.groups.iter().flat_map(|group| &group.rows).filter(move |row| row.verdict == verdict)
            };
            let [looser, tighter, changed] =
                [DiffVerdict::Looser, DiffVerdict::Tighter, DiffVerdict::Changed]
                    .map(|verdict| of(verdict).count());
            writeln!(
                f,
                "{looser} looser, {tighter} tighter, {changed} changed; {tools} and {models} compared"
            )?;
        }
        if self.incomplete {
            writeln!(
                f,
                "note: patterns match, or conditions hold, in more ways than were compared; name tools with --tool to compare them"
            )?;
        }
        Ok(())
    }
}

impl PolicyComparison {
    /// `tools http.get, http.post and 3 more; model main; the final report`.
    fn title(&self, group: &DiffGroup) -> String {
        let of = |kind| group.subjects.iter().filter(|subject| subject.kind == kind).collect::<Vec<_>>();
        let titles = [
            names(&of(SubjectKind::Tool), "tool", self.tools),
            names(&of(SubjectKind::Model), "model", self.models),
        ];
        let rest = [
            SubjectKind::Turn,
            SubjectKind::Output,
            SubjectKind::History,
            SubjectKind::Context,
            SubjectKind::Session,
            SubjectKind::Errors,
        ];
        let rest = rest.into_iter().flat_map(of).map(|subject| subject.name.clone());
        let titles: Vec<String> = titles.into_iter().flatten().chain(rest).collect();
        let example = match group.subjects.as_slice() {
            // What a single pattern stands for can be asked of `explain` by that name.
            [DiffSubject { name, example: Some(example), .. }] if example != name => {
                format!(" (such as {example})")
            }
            _ => String::new(),
        };
        format!("{}{example}", titles.join("; "))
    }
}

fn names(subjects: &[&DiffSubject], kind: &str, all: usize) -> Option<String> {
    if subjects.len() == all && all > 1 {
        return Some(format!("all {kind}s"));
    }
    let named: Vec<&str> = subjects.iter().take(NAMED).map(|subject| subject.name.as_str()).collect();
    let more = subjects.len().saturating_sub(named.len());
    let joined = match (named.split_last()?, more) {
        ((last, []), 0) => (*last).to_owned(),
        ((last, before), 0) => format!("{} and {last}", before.join(", ")),
        (_, more) => format!("{} and {more} more", named.join(", ")),
    };
    let s = if subjects.len() == 1 { "" } else { "s" };
    Some(if joined.starts_with("any other") { joined } else { format!("{kind}{s} {joined}") })
}

impl fmt::Display for DiffGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut when = None;
        let width = |cell: fn(&DiffRow) -> String| {
            let beside = self.rows.iter().filter(|row| !is_long(row));
            beside.map(|row| columns(&cell(row))).max().unwrap_or(0)
        };
        let (fields, olds, news) = (width(|row| row.field.clone()), width(old), width(new));
        for row in &self.rows {
            if when != row.when.as_ref() {
                when = row.when.as_ref();
                if let Some(when) = when {
                    writeln!(f, "  when {when}")?;
                }
            }
            let indent = if row.when.is_some() { "    " } else { "  " };
            let (field, old, new, verdict) = (&row.field, old(row), new(row), row.verdict);
            let (from, to) = (at(row.old_at.as_ref()), at(row.new_at.as_ref()));
            if is_long(row) {
                writeln!(f, "{indent}{verdict:7}  {field}")?;
                writeln!(f, "{indent}         old {old}  {from}\n{indent}         new {new}  {to}")?;
            } else {
                let before = " ".repeat(olds.saturating_sub(columns(&old)));
                let (field, new) = (padded(field, fields), padded(&new, news));
                writeln!(f, "{indent}{verdict:7}  {field}  {before}{old} -> {new}  {from} -> {to}")?;
            }
        }
        Ok(())
    }
}

/// Whether old and new stand below each other instead of side by side.
fn is_long(row: &DiffRow) -> bool {
    columns(&old(row)).max(columns(&new(row))) > BESIDE || columns(&row.field) > FIELD
}

impl fmt::Display for DiffVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Looser => "looser",
            Self::Tighter => "tighter",
            Self::Changed => "changed",
        })
    }
}

impl PolicyComparison {
    /// For people.
    pub fn human(&self) -> String {
        self.to_string()
    }

    /// For machines. `format` counts up when a field is removed or changes its meaning.
    pub fn to_json(&self) -> Value {
        let subject = |subject: &DiffSubject| json!({"kind": subject.kind, "name": subject.name, "example": subject.example});
        let row = |row: &DiffRow| {
            json!({
                "when": row.when,
                "field": row.field,
                "old": row.old,
                "new": row.new,
                "old_at": row.old_at,
                "new_at": row.new_at,
                "verdict": row.verdict,
            })
        };
        let group = |group: &DiffGroup| {
            json!({
                "subjects": group.subjects.iter().map(subject).collect::<Vec<_>>(),
                "rows": group.rows.iter().map(row).collect::<Vec<_>>(),
            })
        };
        json!({
            "format": 1,
            "compared": {"tools": self.tools, "models": self.models, "incomplete": self.incomplete},
            "groups": self.groups.iter().map(group).collect::<Vec<_>>(),
        })
    }
}

fn old(row: &DiffRow) -> String {
    short(row.old.as_ref())
}

fn new(row: &DiffRow) -> String {
    short(row.new.as_ref())
}

fn at(place: Option<&Place>) -> String {
    place.map_or_else(|| "-".to_owned(), ToString::to_string)
}

fn short(value: Option<&Value>) -> String {
    value.map_or_else(|| "none".to_owned(), |value| excerpt(&flow(value), LONGEST))
}
