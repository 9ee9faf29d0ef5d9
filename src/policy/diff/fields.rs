//! The effective fields of a subject in both policies, and the rows where they differ.

use indexmap::IndexMap;
use serde_json::Value;

use super::verdict::{self, Action};
use super::{DiffRow, DiffVerdict};
use crate::policy::document::for_all;
use crate::policy::layers::Above;
use crate::policy::merge::{AnyTrail, Limits};
use crate::policy::names::{NEVER_RETRY, RETRY_ON};
use crate::policy::{ErrorClass, Origin, Place, Policy};

/// The policies that are compared.
#[derive(Clone, Copy)]
pub(super) struct Sides<'p> {
    pub(super) old: &'p Policy,
    pub(super) new: &'p Policy,
}

/// Effective values by their paths.
#[derive(Default)]
pub(super) struct Fields(IndexMap<String, (Value, Origin)>);

/// The conditions under `calls`, in order, with the layers they are for.
type Conditional<'p> = Vec<(&'p str, Above<'p>)>;

impl Sides<'_> {
    pub(super) fn tool(self, name: &str) -> Vec<DiffRow> {
        let plain = self.rows(None, &tool(self.old, name, &[]), &tool(self.new, name, &[]));
        let (old, new) = (conditional(self.old, name), conditional(self.new, name));
        let mut rows = plain.clone();
        let mut conditions: Vec<&str> = old.iter().chain(&new).map(|(when, _)| *when).collect();
        conditions.sort_unstable();
        conditions.dedup();
        for when in &conditions {
            let found = self.with(name, when, &old, &new, |held| held == *when);
            rows.extend(found.into_iter().filter(|row| !said(&plain, row)));
        }
        // Layers may also hold together, and then their order counts.
        if conditions.len() > 1 {
            let alone = rows.clone();
            let found = self.with(name, ALL, &old, &new, |_| true);
            rows.extend(found.into_iter().filter(|row| !said(&alone, row)));
        }
        rows
    }

    pub(super) fn model(self, name: &str) -> Vec<DiffRow> {
        self.rows(None, &model(self.old, name), &model(self.new, name))
    }

    pub(super) fn turn(self) -> Vec<DiffRow> {
        self.rows(None, &turn(self.old), &turn(self.new))
    }

    pub(super) fn history(self) -> Vec<DiffRow> {
        self.rows(None, &history(self.old), &history(self.new))
    }

    pub(super) fn output(self) -> Vec<DiffRow> {
        match (self.old.output(), self.new.output()) {
            (None, None) => Vec::new(),
            (Some(_), Some(_)) => self.rows(None, &output(self.old), &output(self.new)),
            (old, new) => {
                let wanted = |wanted: bool| Value::from(if wanted { "asked for" } else { "not asked for" });
                let at = |policy: &Policy| {
                    policy.layers().output_wanted().map(|span| policy.sources().place_of(span))
                };
                vec![DiffRow {
                    when: None,
                    field: "output".into(),
                    old: Some(wanted(old.is_some())),
                    new: Some(wanted(new.is_some())),
                    old_at: at(self.old),
                    new_at: at(self.new),
                    verdict: DiffVerdict::Changed,
                }]
            }
        }
    }

    /// What differs in calls that these conditions hold for.
    fn with(
        self,
        name: &str,
        when: &str,
        old: &Conditional<'_>,
        new: &Conditional<'_>,
        holds: impl Fn(&str) -> bool,
    ) -> Vec<DiffRow> {
        let fields = |policy: &Policy, layers: &Conditional<'_>| {
            let held = layers.iter().filter(|(when, _)| holds(when));
            tool(policy, name, &held.map(|(_, layer)| layer.clone()).collect::<Vec<_>>())
        };
        self.rows(Some(when), &fields(self.old, old), &fields(self.new, new))
    }

    fn rows(self, when: Option<&str>, old: &Fields, new: &Fields) -> Vec<DiffRow> {
        let mut rows = Vec::new();
        let new_only = new.0.keys().filter(|path| !old.0.contains_key(*path));
        for path in old.0.keys().chain(new_only) {
            let (was, is) = (old.get(path), new.get(path));
            if was.map(|(value, _)| value) == is.map(|(value, _)| value) {
                continue;
            }
            if let Some((block, list)) = class_list(path) {
                // Both lists of a block are told together, once.
                if list == RETRY_ON || old.same(new, &format!("{block}{RETRY_ON}")) {
                    self.classes(when, block, old, new, &mut rows);
                }
                continue;
            }
            let (was, is) = (was.cloned(), is.cloned());
            rows.push(DiffRow {
                when: when.map(str::to_owned),
                field: path.clone(),
                verdict: verdict::of(path, was.as_ref().map(|(v, _)| v), is.as_ref().map(|(v, _)| v)),
                old_at: was.as_ref().map(|(_, origin)| self.old.place(*origin)),
                new_at: is.as_ref().map(|(_, origin)| self.new.place(*origin)),
                old: was.map(|(value, _)| value),
                new: is.map(|(value, _)| value),
            });
        }
        rows
    }

    /// A row for each class that another thing is done about.
    fn classes(self, when: Option<&str>, block: &str, old: &Fields, new: &Fields, rows: &mut Vec<DiffRow>) {
        for class in ErrorClass::ALL {
            let (was, is) = (old.action(block, *class), new.action(block, *class));
            if was == is {
                continue;
            }
            // The list that says another thing about the class.
            let never = old.lists(block, NEVER_RETRY, *class) != new.lists(block, NEVER_RETRY, *class);
            let list = format!("{block}{}", if never { NEVER_RETRY } else { RETRY_ON });
            let place = |policy: &Policy, fields: &Fields| -> Option<Place> {
                fields.0.get(&list).map(|(_, origin)| policy.place(*origin))
            };
            let inner = block.strip_prefix("retry.").unwrap_or(block);
            rows.push(DiffRow {
                when: when.map(str::to_owned),
                field: format!("{inner}on {class}"),
                old: Some(was.shown()),
                new: Some(is.shown()),
                old_at: place(self.old, old),
                new_at: place(self.new, new),
                verdict: if is > was { DiffVerdict::Looser } else { DiffVerdict::Tighter },
            });
        }
    }
}

/// How all conditions together are called.
const ALL: &str = "all of these hold";

/// The block of a list of classes that are retried or not, with its dot, and which of the two it is. Limits are no
/// such block: what they say is in the lists already.
fn class_list(path: &str) -> Option<(&str, &'static str)> {
    if path.starts_with("limits.") {
        return None;
    }
    [RETRY_ON, NEVER_RETRY].into_iter().find_map(|list| Some((path.strip_suffix(list)?, list)))
}

/// Whether a row says the same without its condition.
fn said(rows: &[DiffRow], row: &DiffRow) -> bool {
    rows.iter().any(|held| DiffRow { when: row.when.clone(), ..held.clone() } == *row)
}

impl Fields {
    fn add(&mut self, path: String, trail: &dyn AnyTrail) {
        if let Some(value) = trail.value() {
            self.0.insert(path, value);
        }
    }

    /// The limits bind a planner even where they change nothing else.
    fn limits(mut self, limits: &Limits) -> Self {
        for (name, value, origin) in limits.each() {
            let held = self.0.entry(format!("limits.{name}")).or_insert((Value::Null, origin));
            match (&mut held.0, value) {
                // Classes of several layers count together.
                (Value::Array(held), Value::Array(more)) => {
                    let more: Vec<_> = more.into_iter().filter(|class| !held.contains(class)).collect();
                    held.extend(more);
                }
                (held, value) => *held = value,
            }
            if let Value::Array(classes) = &mut held.0 {
                classes.sort_by_key(ToString::to_string);
            }
        }
        self
    }

    /// The value at a path; for a class that has none of its own, the one that holds for all.
    fn get(&self, path: &str) -> Option<&(Value, Origin)> {
        self.0.get(path).or_else(|| self.0.get(&for_all(path)?))
    }

    fn same(&self, other: &Self, path: &str) -> bool {
        let value = |fields: &Self| fields.0.get(path).map(|(value, _)| value.clone());
        value(self) == value(other)
    }

    /// What the lists of a block say about a class.
    fn action(&self, block: &str, class: ErrorClass) -> Action {
        if self.lists(block, NEVER_RETRY, class) {
            Action::Never
        } else if self.lists(block, RETRY_ON, class) {
            Action::Retried
        } else {
            Action::NotRetried
        }
    }

    fn lists(&self, block: &str, list: &str, class: ErrorClass) -> bool {
        let classes = self.0.get(&format!("{block}{list}")).and_then(|(value, _)| value.as_array());
        classes.is_some_and(|all| all.iter().any(|held| held == class.name()))
    }
}

fn tool(policy: &Policy, name: &str, above: &[Above<'_>]) -> Fields {
    let (merged, limits) = policy.layers().tool_and_limits(name, above);
    let mut fields = Fields::default();
    merged.each("", &mut |path, trail| fields.add(path, trail));
    fields.limits(&limits)
}

/// Without limits: no layer stands above, so what they do is all in the values.
fn model(policy: &Policy, name: &str) -> Fields {
    let mut fields = Fields::default();
    policy.layers().model(name).each("", &mut |path, trail| fields.add(path, trail));
    fields
}

fn output(policy: &Policy) -> Fields {
    let mut fields = Fields::default();
    policy.layers().output().each("", &mut |path, trail| fields.add(path, trail));
    fields
}

fn turn(policy: &Policy) -> Fields {
    let mut fields = Fields::default();
    policy.layers().turn().each("", &mut |path, trail| fields.add(path, trail));
    fields
}

fn history(policy: &Policy) -> Fields {
    let mut fields = Fields::default();
    policy.layers().history().each("", &mut |path, trail| fields.add(path, trail));
    fields
}

fn conditional<'p>(policy: &'p Policy, name: &str) -> Conditional<'p> {
    let layers = policy.layers().calls(name).into_iter();
    layers.map(|(rule, above)| (rule.when.value.source(), above)).collect()
}
