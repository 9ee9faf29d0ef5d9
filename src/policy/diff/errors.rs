//! Rows of the error table that differ. The first row that matches decides, so their order counts.

use indexmap::IndexMap;
use serde_json::Value;

use super::fields::Sides;
use super::{DiffRow, DiffVerdict};
use crate::policy::{Origin, Policy};

/// The rows by what they match: what they tell, and where they are written. A row that matches the same as one
/// before it is never reached.
type Table = IndexMap<String, (String, Origin)>;

pub(super) fn rows(sides: Sides<'_>) -> Vec<DiffRow> {
    let (old, new) = (table(sides.old), table(sides.new));
    let added = new.keys().filter(|matcher| !old.contains_key(*matcher));
    let mut rows = Vec::new();
    for matcher in old.keys().chain(added) {
        let (was, is) = (old.get(matcher), new.get(matcher));
        if was.map(|(told, _)| told) == is.map(|(told, _)| told) {
            continue;
        }
        let told = |said: Option<&(String, Origin)>| said.map(|(told, _)| Value::from(told.as_str()));
        let place = |policy: &Policy, said: Option<&(String, Origin)>| said.map(|(_, at)| policy.place(*at));
        rows.push(DiffRow {
            when: None,
            field: matcher.clone(),
            old: told(was),
            new: told(is),
            old_at: place(sides.old, was),
            new_at: place(sides.new, is),
            verdict: DiffVerdict::Changed,
        });
    }
    rows.extend(moved(sides, &old, &new));
    rows
}

/// The first row that stands in another place among those of both tables.
fn moved(sides: Sides<'_>, old: &Table, new: &Table) -> Option<DiffRow> {
    let common = |table: &Table, other: &Table| -> Vec<String> {
        table.keys().filter(|matcher| other.contains_key(*matcher)).cloned().collect()
    };
    let (was, is) = (common(old, new), common(new, old));
    let (first, then) = was.iter().zip(&is).find(|(was, is)| was != is)?;
    let place = |policy: &Policy, table: &Table, matcher: &String| {
        table.get(matcher).map(|(_, at)| policy.place(*at))
    };
    Some(DiffRow {
        when: None,
        field: "the order of rows, first at".into(),
        old: Some(first.as_str().into()),
        new: Some(then.as_str().into()),
        old_at: place(sides.old, old, first),
        new_at: place(sides.new, new, then),
        verdict: DiffVerdict::Changed,
    })
}

fn table(policy: &Policy) -> Table {
    let mut table = Table::new();
    for row in policy.errors().rows() {
        table.entry(row.matcher()).or_insert_with(|| (row.tells(), row.origin));
    }
    table
}
