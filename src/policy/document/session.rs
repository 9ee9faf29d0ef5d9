//! `session:`, what the session remembers and how.

use core::num::NonZeroU32;

use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::Value;

use super::text::{Cel, variables};
use crate::policy::decode::{Decode, Described, OneOrMany, Patch, Reader, Spanned, choice, record, union};
use crate::policy::yaml::{Data, Key, Node};
use crate::policy::{Change, Code, Diagnostic, ReducerRule, Scope, Span};

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
        pub(crate) slices: Entries<Patch<SliceEntry>> = Entries::default(),
        /// The reducers, by name; they run in the order of their first declaration. `null` removes one.
        pub(crate) reducers: Entries<Patch<ReducerEntry>> = Entries::default(),
    }
}

record! {
    /// A named part of the session's state.
    pub(crate) struct SliceEntry {
        /// Its value before any event.
        /// Example: `[]`
        pub(crate) initial: Initial = Initial(Value::Array(Vec::new())),
    }
}

record! {
    /// A reducer: on which event, when, which slice, and what it does to it.
    pub(crate) struct ReducerEntry {
        /// The kinds of event it runs on.
        pub(crate) on: Triggers,
        /// Runs only if this holds.
        /// Example: `event.tool == "search"`
        pub(crate) when: Option<Cel<Reducing>>,
        /// The slice it changes.
        /// Checks: P0201.
        /// Example: `seen`
        pub(crate) slice: Spanned<String>,
        /// The change.
        /// Checks: P0202.
        pub(crate) r#do: Spanned<ChangeRule>,
        /// Must hold for the new value of `slice`, else the reducer has failed and nothing is changed.
        /// Example: `size(slice) <= 20`
        pub(crate) check: Option<Cel<Reducing>>,
    }
}

union! {
    /// What a reducer does to its slice.
    pub(crate) enum ChangeRule by kind {
        /// The value becomes the slice.
        Set = "set" {
            /// The value.
            /// Example: `event.attempts`
            value: Cel<Reducing>,
        },
        /// The value is added at the end of the list.
        Append = "append" {
            /// The value.
            /// Example: `{"tool": event.tool}`
            value: Cel<Reducing>,
        },
        /// The entries of the value replace those of the map.
        Merge = "merge" {
            /// The value, a map.
            /// Example: `{event.tool: event.attempts}`
            value: Cel<Reducing>,
        },
        /// The number grows by the value.
        Increment = "increment" {
            /// The value, a number.
            /// Example: `"1"`
            value: Cel<Reducing>,
        },
        /// The elements for which a condition holds are dropped.
        Remove = "remove" {
            /// The condition.
            /// Example: `item.tool == event.tool`
            r#where: Cel<Dropping>,
        },
        /// Only the last elements stay.
        KeepLast = "keep_last" {
            /// How many.
            /// Example: `20`
            count: NonZeroU32,
        },
    }
}

choice! {
    /// The events reducers run on.
    #[derive(Hash, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum Trigger {
        /// A retryable failure was written down for the model.
        RetryFeedback = "retry_feedback",
        /// A reducer failed.
        ReducerError = "reducer_error",
        /// A tool call ended well.
        ToolSucceeded = "tool_succeeded",
        /// A tool call ended badly.
        ToolFailed = "tool_failed",
        /// A tool call was refused before it ran.
        ToolRefused = "tool_refused",
        /// The model answered.
        ModelResponded = "model_responded",
        /// A model call failed.
        ModelFailed = "model_failed",
        /// The final report was accepted.
        OutputAccepted = "output_accepted",
        /// The final report was refused.
        OutputRefused = "output_refused",
    }
}

/// The events a reducer runs on; at least one.
#[derive(Clone, Debug)]
pub(crate) struct Triggers(Vec<Trigger>);

/// Any JSON, `null` included.
#[derive(Clone, Debug)]
pub(crate) struct Initial(pub(crate) Value);

/// Values by name, in the order of the text.
#[derive(Clone, Debug)]
pub(crate) struct Entries<T>(pub(crate) Vec<(Spanned<String>, T)>);

impl ChangeRule {
    fn change(&self) -> Change {
        match self {
            Self::Set { value } => Change::Set(value.expr.clone()),
            Self::Append { value } => Change::Append(value.expr.clone()),
            Self::Merge { value } => Change::Merge(value.expr.clone()),
            Self::Increment { value } => Change::Increment(value.expr.clone()),
            Self::Remove { r#where } => Change::Remove(r#where.expr.clone()),
            Self::KeepLast { count } => Change::KeepLast(count.get()),
        }
    }

    /// The type a slice must have for it: `a list`, `a number`, `a map`; `None`: any.
    pub(crate) const fn needs(&self) -> Option<&'static str> {
        match self {
            Self::Set { .. } => None,
            Self::Append { .. } | Self::Remove { .. } | Self::KeepLast { .. } => Some("a list"),
            Self::Merge { .. } => Some("a map"),
            Self::Increment { .. } => Some("a number"),
        }
    }
}

impl ReducerEntry {
    /// As the interpreter sees it.
    pub(crate) fn rule(&self, name: &str, span: Span, scope: Scope) -> ReducerRule {
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

impl<T> Default for Entries<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T: Decode> Decode for Entries<Patch<T>> {
    /// One that cannot be used leaves its name.
    fn decode(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        let entries = reader.mapping(node)?;
        let mut named = |(key, value): &(Key, Node)| {
            reader.check_name(key);
            let name = Spanned { value: key.name.to_string(), span: key.span };
            (name, reader.value::<Patch<_>>(value).unwrap_or_default())
        };
        Some(Self(entries.iter().map(&mut named).collect()))
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        let values = generator.subschema_for::<Described<Patch<T>>>();
        json_schema!({"type": "object", "additionalProperties": values})
    }
}

impl Decode for Triggers {
    fn decode(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        let OneOrMany(all) = OneOrMany::decode(node, reader)?;
        if matches!(&node.data, Data::List(nodes) if nodes.is_empty()) {
            let problem = Diagnostic::error(Code::MISSING_FIELD, node.span, "the reducer runs on no event");
            reader.report(problem.help("name one, such as `on: tool_failed`; `null` removes a reducer"));
            return None;
        }
        Some(Self(all))
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        let one = generator.subschema_for::<Described<Trigger>>();
        json_schema!({"anyOf": [one.clone(), {"type": "array", "items": one, "minItems": 1}]})
    }
}

impl Decode for Initial {
    fn decode(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        (!matches!(node.data, Data::Reported) && !reader.has_ambiguous(node)).then(|| Self(node.to_json()))
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        Schema::default()
    }
}
