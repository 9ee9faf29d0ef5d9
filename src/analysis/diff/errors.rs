//! What the tables of errors tell differently. The first row that matches decides, so what a row does depends on those
//! before it: each combination that a row lists is put to both tables, and so are the combinations that are of two
//! rows at once.

use indexmap::{IndexMap, IndexSet};
use serde_json::Value;

use super::fields::ComparedSides;
use super::{DiffRow, DiffVerdict};
use crate::analysis::error_facts::{ErrorFacts, MOST};
use crate::policy::classify::written;
use crate::policy::{ErrorRow, Origin, Policy};

/// More combinations of two rows are not compared.
const MOST_MEETING: usize = 50_000;

/// The rows of a table, one for each combination they list.
struct ErrorRows<'p> {
    rows: Vec<(ErrorFacts, &'p ErrorRow)>,
    complete: bool,
}

/// What a table tells, and the row that says so.
type RowVerdict<'p> = Option<&'p ErrorRow>;

/// What both tables tell, and of which facts, by the rows that say so.
type RowDifferences<'p> =
    IndexMap<(Option<Origin>, Option<Origin>), (RowVerdict<'p>, RowVerdict<'p>, IndexSet<ErrorFacts>)>;

/// The rows that differ, and whether all were compared.
pub(super) fn rows(sides: ComparedSides<'_>) -> (Vec<DiffRow>, bool) {
    let (old, new) = (ErrorRows::of(sides.old), ErrorRows::of(sides.new));
    let (changed, all) = changed(&old.rows, &new.rows);
    let mut found = RowDifferences::new();
    let mut tell = |facts: &ErrorFacts| {
        let (was, is) = (old.tells(facts), new.tells(facts));
        if was.map(ErrorRow::tells) == is.map(ErrorRow::tells) {
            return false;
        }
        let key = (was.map(|row| row.origin), is.map(|row| row.origin));
        found.entry(key).or_insert_with(|| (was, is, IndexSet::new())).2.insert(facts.clone());
        true
    };
    let differs: IndexSet<&ErrorFacts> = changed.iter().filter(|facts| tell(facts)).collect();
    let pairs = changed.iter().flat_map(|one| all.iter().map(move |other| (one, other)));
    let pairs =
        pairs.filter(|(one, other)| one != other && !differs.contains(one) && !differs.contains(other));
    let mut left = MOST_MEETING;
    for facts in pairs.filter_map(|(one, other)| one.with(other)) {
        let Some(less) = left.checked_sub(1) else { break };
        left = less;
        tell(&facts);
    }
    let rows = found.into_values().flat_map(|(was, is, facts)| {
        shown(&facts).into_iter().map(move |field| row(sides, field, was, is)).collect::<Vec<_>>()
    });
    (rows.collect(), old.complete && new.complete && left > 0)
}

fn row(sides: ComparedSides<'_>, field: String, was: RowVerdict<'_>, is: RowVerdict<'_>) -> DiffRow {
    let place = |policy: &Policy, told: RowVerdict<'_>| told.map(|row| policy.place(row.origin));
    let told = |told: RowVerdict<'_>| told.map(|row| Value::from(row.tells()));
    DiffRow {
        when: None,
        field,
        old: told(was),
        new: told(is),
        old_at: place(sides.old, was),
        new_at: place(sides.new, is),
        verdict: DiffVerdict::Changed,
    }
}

/// The facts that stand elsewhere in the other table, and those of all rows. Where both begin or end with the same
/// rows, these do not count as moved.
fn changed(
    old: &[(ErrorFacts, &ErrorRow)],
    new: &[(ErrorFacts, &ErrorRow)],
) -> (IndexSet<ErrorFacts>, IndexSet<ErrorFacts>) {
    let same = |((a, was), (b, is)): &(&(ErrorFacts, &ErrorRow), &(ErrorFacts, &ErrorRow))| {
        a == b && was.tells() == is.tells()
    };
    let begin = old.iter().zip(new).take_while(same).count();
    let ends = old.iter().skip(begin).rev().zip(new.iter().skip(begin).rev()).take_while(same).count();
    let middle = |rows: &[(ErrorFacts, &ErrorRow)]| -> Vec<ErrorFacts> {
        let count = rows.len().saturating_sub(begin).saturating_sub(ends);
        rows.iter().skip(begin).take(count).map(|(facts, _)| facts.clone()).collect()
    };
    let changed: IndexSet<ErrorFacts> = middle(old).into_iter().chain(middle(new)).collect();
    if changed.is_empty() {
        return (changed, IndexSet::new());
    }
    (changed, old.iter().chain(new).map(|(facts, _)| facts.clone()).collect())
}

/// As rows match it: in one, if the facts are every combination of some lists.
fn shown(facts: &IndexSet<ErrorFacts>) -> Vec<String> {
    let mut all = FactLists::default();
    facts.iter().for_each(|facts| all.add(facts));
    if all.combinations() == facts.len()
        && facts.iter().all(|facts| facts.messages.len() < 2 && facts.details.len() < 2)
    {
        return vec![all.matcher()];
    }
    let alone = |facts: &ErrorFacts| {
        let mut lists = FactLists::default();
        lists.add(facts);
        lists.matcher()
    };
    facts.iter().map(alone).collect()
}

impl<'p> ErrorRows<'p> {
    fn of(policy: &'p Policy) -> Self {
        let (mut rows, mut complete) = (Vec::new(), true);
        for row in policy.errors().rows() {
            let room = MOST.saturating_sub(rows.len());
            let mut all = ErrorFacts::of(row);
            complete &= all.len() <= room;
            all.truncate(room);
            rows.extend(all.into_iter().map(|facts| (facts, row)));
        }
        Self { rows, complete }
    }

    /// The first row that such facts are enough for.
    fn tells(&self, facts: &ErrorFacts) -> RowVerdict<'p> {
        self.rows.iter().find(|(asked, _)| asked.holds_for(facts)).map(|(_, row)| *row)
    }
}

/// As it is written in a row.
fn concept_of(phrases: &[String]) -> String {
    let phrases: Vec<_> = phrases.iter().map(|phrase| phrase.trim().to_owned()).collect();
    written(&phrases)
}

/// Facts as the lists of a row.
#[derive(Default)]
struct FactLists {
    status: IndexSet<String>,
    code: IndexSet<String>,
    kind: IndexSet<String>,
    detail: IndexSet<String>,
    provider: IndexSet<String>,
    message: IndexSet<String>,
    words: IndexSet<String>,
}

impl FactLists {
    fn add(&mut self, facts: &ErrorFacts) {
        self.status.extend(facts.status.as_ref().map(ToString::to_string));
        self.code.extend(facts.code.clone());
        self.kind.extend(facts.kind.clone());
        self.detail.extend(facts.details.iter().cloned());
        self.provider.extend(facts.provider.clone());
        self.message.extend(facts.messages.iter().cloned());
        // All of them are needed: they are one thing, and not one of several.
        let concepts: Vec<_> = facts.words.iter().map(|concept| concept_of(concept)).collect();
        self.words.extend((!concepts.is_empty()).then(|| concepts.join(", ")));
    }

    fn named(&self) -> [(&'static str, &IndexSet<String>); 7] {
        [
            ("status", &self.status),
            ("code", &self.code),
            ("type", &self.kind),
            ("detail", &self.detail),
            ("provider", &self.provider),
            ("message", &self.message),
            ("words", &self.words),
        ]
    }

    fn combinations(&self) -> usize {
        self.named().iter().fold(1_usize, |all, (_, list)| all.saturating_mul(list.len().max(1)))
    }

    fn matcher(&self) -> String {
        let said = self.named().into_iter().filter(|(_, list)| !list.is_empty());
        let text = |list: &IndexSet<String>| list.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
        let said: Vec<String> = said.map(|(name, list)| format!("{name}: [{}]", text(list))).collect();
        if said.is_empty() { "everything".to_owned() } else { said.join(", ") }
    }
}
