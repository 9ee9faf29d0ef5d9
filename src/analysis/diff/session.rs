//! Slices and reducers that differ.

use indexmap::IndexMap;
use serde_json::{Map, Value};

use super::fields::ComparedSides;
use super::{DiffRow, DiffVerdict};
use crate::policy::{Origin, Policy, ReducerChange, ReducerRule};

/// What is declared by name, and where.
type NamedRules = IndexMap<String, (Value, Origin)>;

pub(super) fn rows(sides: ComparedSides<'_>) -> Vec<DiffRow> {
    let mut rows = compared(sides, "slices", &slices(sides.old), &slices(sides.new));
    let (old, new) = (reducers(sides.old), reducers(sides.new));
    rows.extend(compared(sides, "reducers", &old, &new));
    // They run one after the other, so their order counts.
    let order = |all: &NamedRules, other: &NamedRules| -> Vec<String> {
        all.keys().filter(|name| other.contains_key(*name)).cloned().collect()
    };
    let (was, is) = (order(&old, &new), order(&new, &old));
    if was != is {
        rows.push(row(
            sides,
            "the order of reducers".into(),
            Some((was.into(), None)),
            Some((is.into(), None)),
        ));
    }
    rows
}

fn compared(sides: ComparedSides<'_>, block: &str, old: &NamedRules, new: &NamedRules) -> Vec<DiffRow> {
    let added = new.keys().filter(|name| !old.contains_key(*name));
    let names = old.keys().chain(added);
    let differ =
        names.filter(|name| old.get(*name).map(|(value, _)| value) != new.get(*name).map(|(value, _)| value));
    let said =
        |side: &NamedRules, name: &String| side.get(name).map(|(value, at)| (value.clone(), Some(*at)));
    differ.map(|name| row(sides, format!("{block}.{name}"), said(old, name), said(new, name))).collect()
}

fn row(
    sides: ComparedSides<'_>,
    field: String,
    old: Option<(Value, Option<Origin>)>,
    new: Option<(Value, Option<Origin>)>,
) -> DiffRow {
    let at = |policy: &Policy, said: &Option<(Value, Option<Origin>)>| {
        said.as_ref().and_then(|(_, origin)| origin.map(|origin| policy.place(origin)))
    };
    DiffRow {
        when: None,
        field,
        old_at: at(sides.old, &old),
        new_at: at(sides.new, &new),
        old: old.map(|(value, _)| value),
        new: new.map(|(value, _)| value),
        verdict: DiffVerdict::Changed,
    }
}

fn slices(policy: &Policy) -> NamedRules {
    let slices = policy.session().slices.iter();
    slices
        .map(|(name, slice)| {
            let said = Map::from_iter([("initial".to_owned(), slice.initial.clone())]);
            (name.clone(), (Value::Object(said), slice.origin))
        })
        .collect()
}

fn reducers(policy: &Policy) -> NamedRules {
    let reducers = policy.session().reducers.iter();
    reducers.map(|reducer| (reducer.name.clone(), (said(reducer), reducer.origin))).collect()
}

fn said(reducer: &ReducerRule) -> Value {
    let (kind, key, value) = match &reducer.change {
        ReducerChange::Set(value) => ("set", "value", value.as_str().into()),
        ReducerChange::Append(value) => ("append", "value", value.as_str().into()),
        ReducerChange::Merge(value) => ("merge", "value", value.as_str().into()),
        ReducerChange::Increment(value) => ("increment", "value", value.as_str().into()),
        ReducerChange::Remove(condition) => ("remove", "where", condition.as_str().into()),
        ReducerChange::KeepLast(count) => ("keep_last", "count", Value::from(*count)),
    };
    let mut said = Map::new();
    said.insert("on".into(), reducer.on.iter().map(|on| serde_json::json!(on)).collect());
    said.extend(reducer.when.as_ref().map(|when| ("when".to_owned(), when.as_str().into())));
    said.insert("slice".into(), reducer.slice.as_str().into());
    said.insert(
        "do".into(),
        Map::from_iter([("kind".to_owned(), kind.into()), (key.to_owned(), value)]).into(),
    );
    said.extend(reducer.check.as_ref().map(|check| ("check".to_owned(), check.as_str().into())));
    Value::Object(said)
}
