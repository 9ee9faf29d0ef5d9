//! The effective fields of a subject in both policies, and the rows where they differ.

use indexmap::IndexMap;
use serde_json::Value;

use super::classes::{self, ExplainedRules};
use super::{DiffRow, DiffVerdict};
use crate::analysis::names::{DECIDING, NEVER_RETRY, RETRY_ON};
use crate::policy::Policy;
use crate::policy::document::for_all;
use crate::policy::form::MergedBlock as _;
use crate::policy::key::Key;
use crate::policy::key_value::KeyValue;
use crate::policy::layers::CallOverrides;
use crate::policy::merge::AnyTrail;
use crate::policy::tightest_limits::TightestLimits;

/// The policies that are compared.
#[derive(Clone, Copy)]
pub(super) struct ComparedSides<'p> {
    pub(super) old: &'p Policy,
    pub(super) new: &'p Policy,
}

/// Effective values by their paths.
#[derive(Default)]
pub(super) struct FieldMap(IndexMap<String, KeyValue>);

/// The conditions under `calls`, in order, with the layers they are for.
type ConditionLayers<'p> = Vec<(&'p str, CallOverrides<'p>)>;

impl ComparedSides<'_> {
    /// `left`: how many conditions may still be compared; where it does not suffice, all hold together only.
    pub(super) fn tool(self, name: &str, left: &mut usize) -> Vec<DiffRow> {
        let explained: ExplainedRules<'_> = &|policy| Some(policy.explain_values_of_tool(name, &[]));
        let plain = self.rows(None, &tool(self.old, name, &[]), &tool(self.new, name, &[]), explained);
        let (old, new) = (conditional(self.old, name), conditional(self.new, name));
        let mut rows = plain.clone();
        let mut conditions: Vec<&str> = old.iter().chain(&new).map(|(when, _)| *when).collect();
        conditions.sort_unstable();
        conditions.dedup();
        let each = left.checked_sub(conditions.len());
        *left = each.unwrap_or_default();
        for when in conditions.iter().filter(|_| each.is_some()) {
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
        let explained: ExplainedRules<'_> = &|policy| Some(policy.explain_model(name));
        self.rows(None, &model(self.old, name), &model(self.new, name), explained)
    }

    pub(super) fn turn(self) -> Vec<DiffRow> {
        self.rows(None, &turn(self.old), &turn(self.new), &|_| None)
    }

    pub(super) fn history(self) -> Vec<DiffRow> {
        self.rows(None, &history(self.old), &history(self.new), &|_| None)
    }

    pub(super) fn context(self) -> Vec<DiffRow> {
        self.rows(None, &context(self.old), &context(self.new), &|_| None)
    }

    pub(super) fn output(self) -> Vec<DiffRow> {
        match (self.old.output(), self.new.output()) {
            (None, None) => Vec::new(),
            (Some(_), Some(_)) => {
                self.rows(None, &output(self.old), &output(self.new), &Policy::explain_output)
            }
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
        old: &ConditionLayers<'_>,
        new: &ConditionLayers<'_>,
        holds: impl Fn(&str) -> bool,
    ) -> Vec<DiffRow> {
        let (was, is) = (held(old, &holds), held(new, &holds));
        let explained = |policy: &Policy| {
            let above = if core::ptr::eq(policy, self.old) { &was } else { &is };
            Some(policy.explain_values_of_tool(name, above))
        };
        self.rows(Some(when), &tool(self.old, name, &was), &tool(self.new, name, &is), &explained)
    }

    fn rows(
        self,
        when: Option<&str>,
        old: &FieldMap,
        new: &FieldMap,
        explained: ExplainedRules<'_>,
    ) -> Vec<DiffRow> {
        let mut rows = Vec::new();
        if DECIDING.iter().any(|path| !old.same(new, path)) {
            rows.extend(classes::rows(when, explained(self.old), explained(self.new)));
        }
        let new_only = new.0.keys().filter(|path| !old.0.contains_key(*path));
        for path in old.0.keys().chain(new_only) {
            let (was, is) = (old.get(path), new.get(path));
            if was.map(|held| &held.shown) == is.map(|held| &held.shown) {
                continue;
            }
            // What they do is reported for each class.
            if is_class_list(path) {
                continue;
            }
            rows.push(DiffRow {
                when: when.map(str::to_owned),
                field: path.clone(),
                verdict: DiffVerdict::of(was, is),
                old_at: was.map(|held| self.old.place(held.origin)),
                new_at: is.map(|held| self.new.place(held.origin)),
                old: was.map(|held| held.shown.clone()),
                new: is.map(|held| held.shown.clone()),
            });
        }
        rows
    }
}

/// How all conditions together are called.
const ALL: &str = "all of these hold";

/// Whether it is a list of classes that are retried or not. Limits are not: what they say is in the lists already.
fn is_class_list(path: &str) -> bool {
    !path.starts_with("limits.") && [RETRY_ON, NEVER_RETRY].iter().any(|list| path.ends_with(list))
}

/// Whether a row says the same without its condition.
fn said(rows: &[DiffRow], row: &DiffRow) -> bool {
    rows.iter().any(|held| DiffRow { when: row.when.clone(), ..held.clone() } == *row)
}

impl FieldMap {
    fn add(&mut self, path: String, key: &Key, trail: &dyn AnyTrail) {
        if let Some(value) = trail.key_value(key) {
            self.0.insert(path, value);
        }
    }

    /// The limits bind a planner even where they change nothing else.
    fn limits(mut self, limits: &TightestLimits) -> Self {
        let one = limits.each().into_iter().filter(|(name, _)| *name != NEVER_RETRY);
        let never = limits.never_retry().map(|never| (NEVER_RETRY, never));
        self.0.extend(one.chain(never).map(|(name, limit)| (format!("limits.{name}"), limit)));
        self
    }

    /// The value at a path; for a class that has none of its own, the one that holds for all.
    fn get(&self, path: &str) -> Option<&KeyValue> {
        self.0.get(path).or_else(|| self.0.get(&for_all(path)?))
    }

    fn same(&self, other: &Self, path: &str) -> bool {
        let shown = |fields: &'_ Self| fields.0.get(path).map(|held| held.shown.clone());
        shown(self) == shown(other)
    }
}

fn tool(policy: &Policy, name: &str, above: &[CallOverrides<'_>]) -> FieldMap {
    let (merged, limits) = policy.layers().tool_and_limits(name, above);
    let mut fields = FieldMap::default();
    merged.each("", &mut |path, key, trail| fields.add(path, key, trail));
    fields.limits(&limits)
}

/// Without limits: no layer takes precedence over, so what they do is all in the values.
fn model(policy: &Policy, name: &str) -> FieldMap {
    let mut fields = FieldMap::default();
    policy.layers().model(name).each("", &mut |path, key, trail| fields.add(path, key, trail));
    fields
}

fn output(policy: &Policy) -> FieldMap {
    let mut fields = FieldMap::default();
    policy.layers().output().each("", &mut |path, key, trail| fields.add(path, key, trail));
    fields
}

fn turn(policy: &Policy) -> FieldMap {
    let mut fields = FieldMap::default();
    policy.layers().turn().each("", &mut |path, key, trail| fields.add(path, key, trail));
    let run = policy.run_limits().each().into_iter();
    fields.0.extend(run.map(|(name, limit)| (format!("limits.{name}"), limit)));
    fields
}

fn history(policy: &Policy) -> FieldMap {
    let mut fields = FieldMap::default();
    policy.layers().history().each("", &mut |path, key, trail| fields.add(path, key, trail));
    fields
}

fn context(policy: &Policy) -> FieldMap {
    let mut fields = FieldMap::default();
    policy.layers().context().each("", &mut |path, key, trail| fields.add(path, key, trail));
    fields
}

/// The layers whose conditions hold.
fn held<'p>(layers: &ConditionLayers<'p>, holds: impl Fn(&str) -> bool) -> Vec<CallOverrides<'p>> {
    layers.iter().filter(|(when, _)| holds(when)).map(|(_, layer)| layer.clone()).collect()
}

fn conditional<'p>(policy: &'p Policy, name: &str) -> ConditionLayers<'p> {
    let layers = policy.layers().calls(name).into_iter();
    layers.map(|(rule, above)| (rule.when.value.source(), above)).collect()
}
