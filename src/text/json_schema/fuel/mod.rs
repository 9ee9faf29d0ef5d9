//! What it costs to hold a value against a schema, at most: counted in steps before anything is validated.
//!
//! A schema that leads back to itself through a union takes a time that doubles with each level of the value, and its report of
//! what is wrong takes the memory for it, too; models write such values, and servers such schemas. The count visits
//! what the validator would at worst: every form of a union, every part of an `allOf`, and each pair of a recursive
//! place and a value once, as the validator remembers those. It is a number of the schema and the value alone: no clock, no machine and
//! no version of the validator decides, so that a replay decides the same.

use std::collections::BTreeMap;

use serde_json::Value;

use super::plan::{SchemaPlan, SchemaRule, bit_of, count, size};

/// The steps every validation has.
pub(super) const STEPS: u64 = 1_000_000;
/// The steps it has in addition for each value in the value, and for each 16 bytes of text in it.
pub(super) const STEPS_PER_VALUE: u64 = 256;
/// The steps of a report of all that is wrong; beyond, it is made part by part.
pub(super) const REPORT_STEPS: u64 = 100_000;
/// The results that a validation may have to remember. Each takes some 50 bytes.
const MOST_REMEMBERED: usize = 500_000;
/// The validator remembers what took as many visits of recursive places.
const REMEMBERED_FROM: u64 = 16;

/// The steps of a validation of `value` by one place of the schema; `None`: more than `most`.
pub(super) fn to_check(plan: &SchemaPlan, place: usize, value: &Value, most: u64) -> Option<u64> {
    FuelWalk::new(plan, most).run(FuelTask::Check(place, value))
}

/// The steps of a report of all that is wrong with `value` by one place of the schema; `None`: more than `most`.
pub(super) fn to_report(plan: &SchemaPlan, place: usize, value: &Value, most: u64) -> Option<u64> {
    FuelWalk::new(plan, most).run(FuelTask::Report(place, value, false))
}

#[derive(Clone, Copy)]
enum FuelTask<'v> {
    /// Does it hold?
    Check(usize, &'v Value),
    /// Which parts has it looked at? Asks each part of the place whether it holds.
    Mark(usize, &'v Value),
    /// What is wrong? Inside of a union an error keeps a copy of what it is about.
    Report(usize, &'v Value, bool),
    /// All below is done.
    Leave(FuelVisit, u64),
}

/// A visit in flight, or one whose result is remembered: of a kind, at a place, of the value at an address.
type FuelVisit = (VisitKind, usize, *const Value);

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum VisitKind {
    Check,
    Mark,
    Report,
}

struct FuelWalk<'p, 'v> {
    plan: &'p SchemaPlan,
    most: u64,
    left: u64,
    /// Whether the visit is complete.
    visits: BTreeMap<FuelVisit, bool>,
    /// Visits of recursive places so far.
    heads: u64,
    tasks: Vec<FuelTask<'v>>,
}

impl<'p, 'v> FuelWalk<'p, 'v> {
    fn new(plan: &'p SchemaPlan, most: u64) -> Self {
        Self { plan, most, left: most, visits: BTreeMap::new(), heads: 0, tasks: Vec::new() }
    }

    /// Does not recurse: its tasks are a list.
    fn run(mut self, first: FuelTask<'v>) -> Option<u64> {
        self.tasks.push(first);
        while let Some(task) = self.tasks.pop() {
            match task {
                FuelTask::Check(place, value) => self.check(place, value)?,
                FuelTask::Mark(place, value) => self.mark(place, value)?,
                FuelTask::Report(place, value, within) => self.report(place, value, within)?,
                FuelTask::Leave(visit, since) => self.leave(visit, since)?,
            }
        }
        Some(self.most.saturating_sub(self.left))
    }

    fn spend(&mut self, steps: u64) -> Option<()> {
        self.left = self.left.checked_sub(steps)?;
        Some(())
    }

    /// Whether the visit is new: neither in flight, which ends a circle, nor remembered.
    fn enter(&mut self, visit: FuelVisit) -> bool {
        if self.visits.contains_key(&visit) {
            return false;
        }
        self.visits.insert(visit, false);
        self.tasks.push(FuelTask::Leave(visit, self.heads));
        true
    }

    fn leave(&mut self, visit: FuelVisit, since: u64) -> Option<()> {
        let (kind, _, _) = visit;
        if kind == VisitKind::Check && self.heads.saturating_sub(since) >= REMEMBERED_FROM {
            self.visits.insert(visit, true);
        } else {
            self.visits.remove(&visit);
        }
        (self.visits.len() <= MOST_REMEMBERED).then_some(())
    }

    fn check(&mut self, place: usize, value: &'v Value) -> Option<()> {
        let Some(rule) = self.plan.rules.get(place) else { return Some(()) };
        if rule.head {
            if !self.enter((VisitKind::Check, place, core::ptr::from_ref(value))) {
                return self.spend(1);
            }
            // The validator remembers nothing of values without parts.
            if value.is_array() || value.is_object() {
                self.heads = self.heads.saturating_add(1);
            }
        }
        self.spend(rule.weight)?;
        // The validator looks at the type first, and at nothing else where that is wrong.
        if rule.refused & bit_of(value) != 0 {
            return Some(());
        }
        self.itself(rule, value)?;
        self.parts(rule, value, FuelTask::Check)?;
        self.tasks.extend(rule.beside().map(|place| FuelTask::Check(place, value)));
        if rule.marks {
            self.tasks.push(FuelTask::Mark(place, value));
        }
        Some(())
    }

    fn mark(&mut self, place: usize, value: &'v Value) -> Option<()> {
        let Some(rule) = self.plan.rules.get(place) else { return Some(()) };
        self.spend(1)?;
        if !self.enter((VisitKind::Mark, place, core::ptr::from_ref(value))) {
            return Some(());
        }
        if rule.marks {
            self.parts(rule, value, FuelTask::Check)?;
        }
        // The validator asks whether a part holds before it asks what that part has looked at.
        for place in rule.beside() {
            self.tasks.extend([FuelTask::Check(place, value), FuelTask::Mark(place, value)]);
        }
        Some(())
    }

    fn report(&mut self, place: usize, value: &'v Value, within: bool) -> Option<()> {
        let Some(rule) = self.plan.rules.get(place) else { return Some(()) };
        if rule.head && !self.enter((VisitKind::Report, place, core::ptr::from_ref(value))) {
            return self.spend(1);
        }
        self.spend(rule.weight)?;
        if within {
            self.spend(size(value))?;
        }
        self.itself(rule, value)?;
        self.parts(rule, value, |place, part| FuelTask::Report(place, part, within))?;
        let beside = rule.in_place.iter().chain(&rule.conditional);
        self.tasks.extend(beside.map(|place| FuelTask::Report(*place, value, within)));
        self.tasks.extend(rule.asked.iter().map(|place| FuelTask::Check(*place, value)));
        // A report asks each form of a union whether it holds, and then what is wrong with it.
        for form in &rule.forms {
            self.tasks.extend([FuelTask::Check(*form, value), FuelTask::Report(*form, value, true)]);
        }
        if rule.marks {
            self.tasks.push(FuelTask::Mark(place, value));
        }
        Some(())
    }

    /// What the place looks at in the value before its parts.
    fn itself(&mut self, rule: &SchemaRule, value: &Value) -> Option<()> {
        match value {
            Value::String(text) => self.spend(rule.text.saturating_mul(count(text.len()) >> 2)),
            Value::Array(list) if rule.unique && !list.is_empty() => self.spend(size(value)),
            Value::Object(entries) if rule.keys > 0 => {
                let bytes = entries.keys().map(|key| count(key.len()).saturating_add(32) >> 5);
                let bytes = bytes.fold(0_u64, u64::saturating_add);
                self.spend(rule.keys.saturating_mul(bytes))
            }
            _ => Some(()),
        }
    }

    /// The parts of the value with the places they are held against.
    fn parts(
        &mut self,
        rule: &'p SchemaRule,
        value: &'v Value,
        task: impl Fn(usize, &'v Value) -> FuelTask<'v>,
    ) -> Option<()> {
        match value {
            Value::Array(list) => {
                let each = rule.elements.len().saturating_add(rule.some.len());
                self.spend(count(list.len().saturating_mul(each)))?;
                for place in &rule.elements {
                    self.tasks.extend(list.iter().map(|element| task(*place, element)));
                }
                for place in &rule.some {
                    self.tasks.extend(list.iter().map(|element| FuelTask::Check(*place, element)));
                }
                self.tasks.extend(rule.first.iter().zip(list).map(|(place, element)| task(*place, element)));
            }
            Value::Object(entries) => {
                self.spend(count(entries.len()))?;
                for (key, member) in entries {
                    match rule.named.get(key) {
                        Some(place) => self.tasks.push(task(*place, member)),
                        None => self.tasks.extend(rule.others.iter().map(|place| task(*place, member))),
                    }
                    self.tasks.extend(rule.members.iter().map(|place| task(*place, member)));
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
        Some(())
    }
}

#[cfg(test)]
mod tests;
