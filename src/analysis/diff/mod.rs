//! What two policies do differently: subject by subject, field by field, each with its place on both sides.

mod classes;
mod errors;
mod fields;
mod render;
mod session;

use core::cmp::Ordering;

use indexmap::IndexMap;
use serde_json::Value;

use crate::analysis::names::{self, ComparedNames, NamedPattern};
use crate::policy::Policy;
use crate::policy::key_value::KeyValue;
use crate::text::Place;
use fields::ComparedSides;

/// So many conditions of `calls` are compared, over all tools.
const MOST_CONDITIONS: usize = 20_000;

/// What two policies do differently.
#[derive(Clone, Debug)]
pub struct PolicyComparison {
    /// The differences, each once; those of the same subjects stand together.
    pub(crate) groups: Vec<DiffGroup>,
    /// How many tools and patterns of tools were compared.
    pub(crate) tools: usize,
    /// How many models and patterns of models were compared.
    pub(crate) models: usize,
    /// Whether patterns overlap, rows of errors match, or conditions hold, in more ways than were compared.
    pub(crate) incomplete: bool,
}

/// Differences of the same subjects.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct DiffGroup {
    /// The subjects; there is at least one.
    pub subjects: Vec<DiffSubject>,
    /// What differs; there is at least one row.
    pub rows: Vec<DiffRow>,
}

/// Something that has rules.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct DiffSubject {
    /// What it is.
    pub kind: SubjectKind,
    /// How people call it: `http.get`, `http.*`, `any other tool`.
    pub name: String,
    /// A matching name for `explain`; `None`: it is no tool and no model.
    pub example: Option<String>,
}

/// What has rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SubjectKind {
    /// A tool, or all that a pattern matches.
    Tool,
    /// A model, or all that a pattern matches.
    Model,
    /// The loop of turns.
    Turn,
    /// The final report.
    Output,
    /// What is done about a history that providers refuse.
    History,
    /// What is done so that a conversation stays within the window of a model.
    Context,
    /// Slices and reducers.
    Session,
    /// The table of errors.
    Errors,
}

/// One difference.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct DiffRow {
    /// The condition of the layer under `calls` it shows with; `None`: it shows in every call.
    pub when: Option<String>,
    /// The field, `retry.max_attempts`; or the class of errors, `on rate_limit`.
    pub field: String,
    /// The old value; `None`: there is none.
    pub old: Option<Value>,
    /// The new value; `None`: there is none.
    pub new: Option<Value>,
    /// Where the old value is written.
    pub old_at: Option<Place>,
    /// Where the new value is written.
    pub new_at: Option<Place>,
    /// What it means.
    pub verdict: DiffVerdict,
}

/// What a difference means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum DiffVerdict {
    /// More is tried, longer, or later given up.
    Looser,
    /// Less is tried, shorter, or earlier given up.
    Tighter,
    /// Neither.
    Changed,
}

impl DiffVerdict {
    /// What it means that a value is another one.
    fn of(old: Option<&KeyValue>, new: Option<&KeyValue>) -> Self {
        match KeyValue::loosened(old, new) {
            Some(Ordering::Greater) => Self::Looser,
            Some(Ordering::Less) => Self::Tighter,
            Some(Ordering::Equal) | None => Self::Changed,
        }
    }
}

impl Policy {
    /// What `new` does differently.
    ///
    /// Compared are the effective values of every tool and model that either policy names, of one name for each
    /// pattern and for each two patterns that overlap, of any other name, and of `also`; the turns, the report, the
    /// history, the context, the session and the table of errors. Values that are the same from another place are no difference.
    ///
    /// ```
    /// use unfazed::analysis::ComparedNames;
    /// use unfazed::policy::Policy;
    /// let old = Policy::from_yaml("old.yaml", "version: 1\ntools: {search: {retry: {max_attempts: 2}}}")?;
    /// let new = Policy::from_yaml("new.yaml", "version: 1\ntools: {search: {retry: {max_attempts: 5}}}")?;
    /// let found = old.diff(&new, &ComparedNames::default());
    /// assert!(found.human().contains("retry.max_attempts"));
    /// # Ok::<(), unfazed::text::Report>(())
    /// ```
    pub fn diff(&self, new: &Self, also: &ComparedNames) -> PolicyComparison {
        let sides = ComparedSides { old: self, new };
        let (tools, models) = (names::tools(self, new, &also.tools), names::models(self, new, &also.models));
        let mut found = FoundDifferences::default();
        // One more: what is left at the end says whether it sufficed.
        let mut left = MOST_CONDITIONS.saturating_add(1);
        for named in &tools.all {
            found.add(named.subject(SubjectKind::Tool), sides.tool(&named.example, &mut left));
        }
        for named in &models.all {
            found.add(named.subject(SubjectKind::Model), sides.model(&named.example));
        }
        let one = |kind, name: &str| DiffSubject { kind, name: name.to_owned(), example: None };
        found.add(one(SubjectKind::Turn, "the loop of turns"), sides.turn());
        found.add(one(SubjectKind::Output, "the final report"), sides.output());
        found.add(one(SubjectKind::History, "the history"), sides.history());
        found.add(one(SubjectKind::Context, "the context"), sides.context());
        found.add(one(SubjectKind::Session, "the session"), session::rows(sides));
        let (errors, complete) = errors::rows(sides);
        found.add(one(SubjectKind::Errors, "the table of errors"), errors);
        PolicyComparison {
            groups: found.groups(),
            tools: tools.all.len(),
            models: models.all.len(),
            incomplete: tools.incomplete || models.incomplete || !complete || left == 0,
        }
    }
}

impl PolicyComparison {
    /// Whether both policies do the same.
    pub const fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// What `other` does not have already, such as what a profile alone does differently.
    #[must_use]
    pub fn without(&self, other: &Self) -> Self {
        let told = other.by_subject();
        let mut found = FoundDifferences::default();
        for (subject, groups) in self.by_subject() {
            let known = told.get(subject).map_or(&[][..], Vec::as_slice);
            let unsaid = |row: &&DiffRow| !known.iter().any(|rows| rows.contains(*row));
            let rows = groups.into_iter().flatten().filter(unsaid).cloned().collect();
            found.add(subject.clone(), rows);
        }
        Self { groups: found.groups(), ..self.clone() }
    }

    /// The rows of each subject, group by group.
    fn by_subject(&self) -> IndexMap<&DiffSubject, Vec<&[DiffRow]>> {
        let mut all: IndexMap<&DiffSubject, Vec<&[DiffRow]>> = IndexMap::new();
        for group in &self.groups {
            for subject in &group.subjects {
                all.entry(subject).or_default().push(&group.rows);
            }
        }
        all
    }
}

impl NamedPattern {
    fn subject(&self, kind: SubjectKind) -> DiffSubject {
        DiffSubject { kind, name: self.shown.clone(), example: Some(self.example.clone()) }
    }
}

/// Differences as they are found.
#[derive(Default)]
struct FoundDifferences {
    subjects: Vec<DiffSubject>,
    /// Each row once, with the numbers of its subjects.
    rows: IndexMap<String, (DiffRow, Vec<usize>)>,
}

impl FoundDifferences {
    fn add(&mut self, subject: DiffSubject, rows: Vec<DiffRow>) {
        if rows.is_empty() {
            return;
        }
        let number = self.subjects.len();
        self.subjects.push(subject);
        for row in rows {
            let (_, subjects) = self.rows.entry(format!("{row:?}")).or_insert((row, Vec::new()));
            subjects.push(number);
        }
    }

    /// Rows of the same subjects together; what concerns most subjects comes first.
    fn groups(self) -> Vec<DiffGroup> {
        let mut groups: IndexMap<Vec<usize>, Vec<DiffRow>> = IndexMap::new();
        for (row, subjects) in self.rows.into_values() {
            groups.entry(subjects).or_default().push(row);
        }
        groups.sort_by(|a, _, b, _| b.len().cmp(&a.len()));
        let named = |numbers: Vec<usize>| {
            numbers.into_iter().filter_map(|number| self.subjects.get(number).cloned()).collect()
        };
        let grouped = groups.into_iter().map(|(numbers, mut rows)| {
            rows.sort_by(|a, b| a.when.cmp(&b.when));
            DiffGroup { subjects: named(numbers), rows }
        });
        grouped.collect()
    }
}

#[cfg(test)]
mod tests;
