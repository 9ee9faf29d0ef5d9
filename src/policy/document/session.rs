//! `session:`, what the session remembers and how.

use core::num::NonZeroU32;

use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::Value;

use super::text::{CelText, variables};
use crate::policy::decode::{Decode, NodeReader, OneOrMany, Patch, SchemaOf, Spanned, record, union};
use crate::policy::{LayerKind, ReducerChange, ReducerRule, Trigger};
use crate::text::yaml::{YamlData, YamlKey, YamlNode};
use crate::text::{Code, Diagnostic, Span};

variables! {
    /// What a reducer knows.
    Reducing = ["event", "slice", "state"];
    /// What a reducer knows about each element it may drop.
    Dropping = ["item", "event", "state"];
}

record! {
    /// What the session remembers: named slices, and the reducers that change them.
    /// Example: `{"slices": {"seen": {}}, "reducers": {"remember": {"on": "tool_failed", "slice": "seen", "do": {"kind": "append", "value": "event.tool"}}}}`
    #[part(true)]
    pub(crate) struct SessionRule {
        /// The slices, by name.
        /// Checks: P0202.
        pub(crate) slices: NamedEntries<Patch<SliceEntry>> = NamedEntries::default(),
        /// The reducers, by name; they run in the order of their first declaration. `null` removes one.
        pub(crate) reducers: NamedEntries<Patch<ReducerEntry>> = NamedEntries::default(),
    }
}

record! {
    /// A named part of the session's state.
    pub(crate) struct SliceEntry {
        /// Its value before any event.
        /// Example: `[]`
        pub(crate) initial: InitialValue = InitialValue(Value::Array(Vec::new())),
    }
}

record! {
    /// A reducer: on which event, when, which slice, and what it does to it.
    pub(crate) struct ReducerEntry {
        /// The kinds of event it runs on.
        pub(crate) on: TriggerList,
        /// Runs only if this holds.
        /// Example: `event.tool == "search"`
        pub(crate) when: Option<CelText<Reducing>>,
        /// The slice it changes.
        /// Checks: P0201.
        /// Example: `seen`
        pub(crate) slice: Spanned<String>,
        /// The change.
        /// Checks: P0202.
        pub(crate) r#do: Spanned<ChangeRule>,
        /// Must hold for the new value of `slice`, else the reducer has failed and nothing is changed.
        /// Example: `size(slice) <= 20`
        pub(crate) check: Option<CelText<Reducing>>,
    }
}

union! {
    /// What a reducer does to its slice.
    pub(crate) enum ChangeRule by kind {
        /// The value becomes the slice.
        Set = "set" {
            /// The value.
            /// Example: `event.attempts`
            value: CelText<Reducing>,
        },
        /// The value is added at the end of the list.
        Append = "append" {
            /// The value.
            /// Example: `{"tool": event.tool}`
            value: CelText<Reducing>,
        },
        /// The entries of the value replace those of the map.
        Merge = "merge" {
            /// The value, a map.
            /// Example: `{event.tool: event.attempts}`
            value: CelText<Reducing>,
        },
        /// The number grows by the value.
        Increment = "increment" {
            /// The value, a number.
            /// Example: `"1"`
            value: CelText<Reducing>,
        },
        /// The elements for which a condition holds are dropped.
        Remove = "remove" {
            /// The condition.
            /// Example: `item.tool == event.tool`
            r#where: CelText<Dropping>,
        },
        /// Only the last elements stay.
        KeepLast = "keep_last" {
            /// How many.
            /// Example: `20`
            count: NonZeroU32,
        },
    }
}

/// The events a reducer runs on; at least one.
#[derive(Clone, Debug)]
pub(crate) struct TriggerList(Vec<Trigger>);

/// Any JSON, `null` included.
#[derive(Clone, Debug)]
pub(crate) struct InitialValue(pub(crate) Value);

/// Values by name, in the order of the text.
#[derive(Clone, Debug)]
pub(crate) struct NamedEntries<T>(pub(crate) Vec<(Spanned<String>, T)>);

impl ChangeRule {
    fn change(&self) -> ReducerChange {
        match self {
            Self::Set { value } => ReducerChange::Set(value.expr.clone()),
            Self::Append { value } => ReducerChange::Append(value.expr.clone()),
            Self::Merge { value } => ReducerChange::Merge(value.expr.clone()),
            Self::Increment { value } => ReducerChange::Increment(value.expr.clone()),
            Self::Remove { r#where } => ReducerChange::Remove(r#where.expr.clone()),
            Self::KeepLast { count } => ReducerChange::KeepLast(count.get()),
        }
    }

    /// The type a slice must have for it: `a list`, `a number`, `a map`; `None`: any.
    pub(crate) const fn needs(&self) -> Option<&'static str> {
        match self {
            // `set` gives the slice a value of any kind.
            Self::Set { .. } => None,
            Self::Append { .. } | Self::Remove { .. } | Self::KeepLast { .. } => Some("a list"),
            Self::Merge { .. } => Some("a map"),
            Self::Increment { .. } => Some("a number"),
        }
    }
}

impl ReducerEntry {
    /// As the interpreter sees it.
    pub(crate) fn rule(&self, name: &str, span: Span, scope: LayerKind) -> ReducerRule {
        ReducerRule {
            name: name.to_owned(),
            on: self.on.0.clone(),
            when: self.when.as_ref().map(|when| when.expr.clone()),
            slice: self.slice.value.clone(),
            change: self.r#do.value.change(),
            check: self.check.as_ref().map(|check| check.expr.clone()),
            origin: span.origin(scope),
        }
    }
}

impl<T> Default for NamedEntries<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T: Decode> Decode for NamedEntries<Patch<T>> {
    /// One that cannot be used leaves its name.
    fn decode(node: &YamlNode, reader: &mut NodeReader<'_>) -> Option<Self> {
        let entries = reader.mapping(node)?;
        let mut named = |(key, value): &(YamlKey, YamlNode)| {
            reader.check_name(key);
            let name = Spanned { value: key.name.to_string(), span: key.span };
            // The name stays without its value, so reducers that use it are not reported for that reason alone.
            (name, reader.value::<Patch<_>>(value).unwrap_or_default())
        };
        Some(Self(entries.iter().map(&mut named).collect()))
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        let values = generator.subschema_for::<SchemaOf<Patch<T>>>();
        json_schema!({"type": "object", "additionalProperties": values})
    }
}

impl Decode for TriggerList {
    fn decode(node: &YamlNode, reader: &mut NodeReader<'_>) -> Option<Self> {
        let OneOrMany(all) = OneOrMany::decode(node, reader)?;
        if matches!(&node.data, YamlData::List(nodes) if nodes.is_empty()) {
            let problem = Diagnostic::error(Code::MISSING_FIELD, node.span, "the reducer runs on no event");
            reader.report(problem.help("name one, such as `on: tool_failed`; `null` removes a reducer"));
            return None;
        }
        Some(Self(all))
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        let one = generator.subschema_for::<SchemaOf<Trigger>>();
        json_schema!({"anyOf": [one.clone(), {"type": "array", "items": one, "minItems": 1}]})
    }
}

impl Decode for InitialValue {
    fn decode(node: &YamlNode, reader: &mut NodeReader<'_>) -> Option<Self> {
        // An initial `no` would be `false` to other readers, and reducers compare it.
        (!matches!(node.data, YamlData::Reported) && !reader.has_ambiguous(node))
            .then(|| Self(node.to_json()))
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        Schema::default()
    }
}
